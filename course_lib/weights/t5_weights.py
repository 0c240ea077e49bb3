"""Weights of a T5 that others trained, under our names: the first version, version 1.1, mT5 and ByT5. Lesson 13.

`from_t5` gives `sizes`, the arguments of a `T5Config`, and weights by the names that they have in a `T5`.
"""

from torch import Tensor, nn

from course_lib.weights.hf_activations import HF_ACTIVATIONS

T5_NAMES = (  # ours, and Hugging Face's
    ("blocks.", "block."),
    ("attention.w_q", "layer.0.SelfAttention.q"),
    ("attention.w_k", "layer.0.SelfAttention.k"),
    ("attention.w_v", "layer.0.SelfAttention.v"),
    ("attention.w_o", "layer.0.SelfAttention.o"),
    ("attention.position_bias.bias", "layer.0.SelfAttention.relative_attention_bias"),
    ("norm_1.gain", "layer.0.layer_norm.weight"),
    ("cross.w_q", "layer.1.EncDecAttention.q"),
    ("cross.w_k", "layer.1.EncDecAttention.k"),
    ("cross.w_v", "layer.1.EncDecAttention.v"),
    ("cross.w_o", "layer.1.EncDecAttention.o"),
    ("feed_forward.w_gate", "DenseReluDense.wi_0"),
    ("feed_forward.w_in", "DenseReluDense.wi_1"),
    ("feed_forward.w_1", "DenseReluDense.wi"),
    ("norm.gain", "final_layer_norm.weight"),
    ("target.head.", "lm_head."),
)
T5_SIZES = (  # in our T5Config, in Hugging Face's
    ("vocab_size", "vocab_size"),
    ("d_model", "d_model"),
    ("n_heads", "num_heads"),
    ("n_layers", "num_layers"),
    ("d_ff", "d_ff"),
    ("d_head", "d_kv"),
    ("n_decoder_layers", "num_decoder_layers"),
    ("n_buckets", "relative_attention_num_buckets"),
    ("max_distance", "relative_attention_max_distance"),
    ("dropout", "dropout_rate"),
    ("eps", "layer_norm_epsilon"),
)
T5_KINDS = ("t5", "mt5")  # ByT5 is a T5 to them
OUT = {True: "feed_forward.w_out", False: "feed_forward.w_2"}  # gated or not: theirs is called wo in both


def from_t5(model: nn.Module) -> tuple[dict, dict[str, Tensor]]:
    """Sizes and weights, copied, of Hugging Face's T5ForConditionalGeneration or its sister for mT5.

    T5 does not divide scores by sqrt(d_k) and does not multiply the embedding by sqrt(D): ours do both, as in lesson
    06. So W_q is multiplied, the embedding divided, and every score is theirs. The table of distances, which stands in
    their first block, is that of each of ours. Raises TypeError for another model, ValueError for what `T5` has not.
    """
    _check_t5(model)
    config = model.config
    sizes = {ours: getattr(config, theirs) for ours, theirs in T5_SIZES}
    tied = _tied(config)
    sizes |= {"gated": config.is_gated_act, "tied": tied, "activation": HF_ACTIVATIONS[config.dense_act_fn]}
    weights = {}
    for name, part in model.state_dict().items():
        if "embed_tokens" in name or name == "lm_head.weight" and tied:
            continue  # the one table, once more
        if name == "shared.weight":
            part = part * config.d_model**-0.5
            weights |= {f"{side}.tokens.weight": part.clone() for side in ("source", "target")}
            continue
        part = part * config.d_kv**0.5 if name.endswith(".q.weight") else part.clone()
        name = _ours(name, config.is_gated_act)
        if "position_bias" in name:
            n_layers = sizes["n_layers" if name.startswith("encoder") else "n_decoder_layers"]
            weights |= {name.replace("blocks.0", f"blocks.{n}"): part.clone() for n in range(n_layers)}
        else:
            weights[name] = part
    return sizes, weights


def _tied(config) -> bool:
    """Whether the read-out is the table of tokens: in the first version alone, and mT5 is of version 1.1."""
    return config.model_type == "t5" and config.scale_decoder_outputs


def _ours(name: str, gated: bool) -> str:
    decoder = name.startswith("decoder")
    norms = {"layer.1.layer_norm.weight": "norm_cross.gain" if decoder else "norm_2.gain"}
    norms |= {"layer.2.layer_norm.weight": "norm_2.gain"}
    for theirs, ours in norms.items():
        name = name.replace(theirs, ours)
    for ours, theirs in T5_NAMES:
        name = name.replace(theirs, ours)
    name = name.replace("DenseReluDense.wo", OUT[gated])
    return name.replace("layer.1.feed", "feed").replace("layer.2.feed", "feed")


def _check_t5(model: nn.Module) -> None:
    config = getattr(model, "config", None)
    if getattr(config, "model_type", None) not in T5_KINDS or not hasattr(model, "lm_head"):
        raise TypeError(f"T5.from_hf copies a transformers T5ForConditionalGeneration; got {type(model).__name__}.")
    if config.dense_act_fn not in HF_ACTIVATIONS:
        raise ValueError(f"T5 knows the activations {', '.join(HF_ACTIVATIONS)}; got {config.dense_act_fn!r}.")
    if not config.is_encoder_decoder:
        raise ValueError(
            "With is_encoder_decoder=False Hugging Face's decoder keeps its own keys and those of the source in one "
            "cache, and computes something else: this model cannot be copied."
        )
    parts = model.state_dict()
    copies = [name for name in parts if "embed_tokens" in name or name == "lm_head.weight" and _tied(config)]
    if other := [name for name in copies if not parts[name].equal(parts["shared.weight"])]:
        raise ValueError(f"T5 has one table of tokens, and {other[0]} is another: this model cannot be copied.")
