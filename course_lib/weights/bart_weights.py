"""Weights of a BART that others trained, under our names. Lesson 13.

`from_bart` gives `sizes`, the arguments of a `BartConfig`, and weights by the names that they have in a `Bart`.
"""

from torch import Tensor, nn

from course_lib.weights.hf_activations import HF_ACTIVATIONS

BART_NAMES = (  # ours, and Hugging Face's; read from the top, for some of theirs end alike
    ("", "model."),
    ("encoder.blocks.", "encoder.layers."),
    ("decoder.blocks.", "decoder.layers."),
    ("source.norm.", "encoder.layernorm_embedding."),
    ("target.norm.", "decoder.layernorm_embedding."),
    ("source.positions.places.", "encoder.embed_positions."),
    ("target.positions.places.", "decoder.embed_positions."),
    ("norm_1.", "self_attn_layer_norm."),
    ("norm_cross.", "encoder_attn_layer_norm."),
    ("norm_2.", "final_layer_norm."),
    ("attention.w_q.", "self_attn.q_proj."),
    ("attention.w_k.", "self_attn.k_proj."),
    ("attention.w_v.", "self_attn.v_proj."),
    ("attention.w_o.", "self_attn.out_proj."),
    ("cross.w_q.", "encoder_attn.q_proj."),
    ("cross.w_k.", "encoder_attn.k_proj."),
    ("cross.w_v.", "encoder_attn.v_proj."),
    ("cross.w_o.", "encoder_attn.out_proj."),
    ("feed_forward.w_1.", "fc1."),
    ("feed_forward.w_2.", "fc2."),
)
BART_SIZES = (  # in our BartConfig, in Hugging Face's
    ("vocab_size", "vocab_size"),
    ("max_len", "max_position_embeddings"),
    ("d_model", "d_model"),
    ("n_heads", "encoder_attention_heads"),
    ("n_layers", "encoder_layers"),
    ("d_ff", "encoder_ffn_dim"),
    ("dropout", "dropout"),
)
ALIKE = ("attention_heads", "layers", "ffn_dim")  # of encoder and decoder: ours has one number for both
BART_OFFSET = 2  # so many rows of their table of places come before that of the first place, and nobody reads them
TABLE, BIAS = "model.shared.weight", "final_logits_bias"


def from_bart(model: nn.Module) -> tuple[dict, dict[str, Tensor]]:
    """Sizes and weights, copied, of Hugging Face's BartForConditionalGeneration.

    Raises TypeError for another model, ValueError for what `Bart` has not.
    """
    _check_bart(model)
    sizes = {ours: getattr(model.config, theirs) for ours, theirs in BART_SIZES}
    sizes["activation"] = HF_ACTIVATIONS[model.config.activation_function]
    parts = model.state_dict()
    table = parts.pop(TABLE)
    weights = {f"{side}.tokens.weight": table.clone() for side in ("source", "target")}
    weights["target.bias"] = parts.pop(BIAS)[0].clone()
    for name, part in parts.items():
        if "embed_tokens" in name or name == "lm_head.weight":
            continue  # the one table, once more
        part = part[BART_OFFSET:] if "embed_positions" in name else part
        weights[_ours(name)] = part.clone()
    return sizes, weights


def _ours(name: str) -> str:
    for ours, theirs in BART_NAMES:
        name = name.replace(theirs, ours)
    rest, _, last = name.rpartition(".")
    if rest.rpartition(".")[2].startswith("norm"):
        return f"{rest}.{'gain' if last == 'weight' else 'shift'}"
    return name


def _check_bart(model: nn.Module) -> None:
    config = getattr(model, "config", None)
    if getattr(config, "model_type", None) != "bart" or not hasattr(model, BIAS):
        raise TypeError(f"Bart.from_hf copies a BartForConditionalGeneration; got {type(model).__name__}.")
    strange = [part for part in ALIKE if getattr(config, f"encoder_{part}") != getattr(config, f"decoder_{part}")]
    strange = [f"{part} of the encoder's and another of the decoder's" for part in strange]
    if config.scale_embedding:
        strange.append("scale_embedding")
    parts = model.state_dict()
    copies = [part for name, part in parts.items() if "embed_tokens" in name or name == "lm_head.weight"]
    if not config.tie_word_embeddings or not all(part.equal(parts[TABLE]) for part in copies):
        strange.append("several tables of tokens (tie_word_embeddings=False)")
    if config.activation_function not in HF_ACTIVATIONS:
        strange.append(f"the activation {config.activation_function!r}")
    if strange:
        raise ValueError(f"Bart has nothing like {' and '.join(strange)}: this model cannot be copied.")
