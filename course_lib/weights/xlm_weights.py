"""Weights of an XLM that others trained, under our names: from Hugging Face's models. Lesson 14."""

from torch import Tensor

from course_lib.weights.bert_weights import NORMS

XLM_NAMES = (  # ours, and Hugging Face's; read from the top
    ("tokens.", "transformer.embeddings."),
    ("places.", "transformer.position_embeddings."),
    ("segments.", "transformer.lang_embeddings."),
    ("norm.", "transformer.layer_norm_emb."),
)
XLM_LAYERS = (  # in a block, and in Hugging Face's list of such parts, each numbered by its layer
    ("attention.w_q", "attentions", "q_lin"),
    ("attention.w_k", "attentions", "k_lin"),
    ("attention.w_v", "attentions", "v_lin"),
    ("attention.w_o", "attentions", "out_lin"),
    ("feed_forward.w_1", "ffns", "lin1"),
    ("feed_forward.w_2", "ffns", "lin2"),
    ("norm_1", "layer_norm1", ""),
    ("norm_2", "layer_norm2", ""),
)
XLM_SIZES = (  # in our BertConfig, in Hugging Face's
    ("vocab_size", "vocab_size"),
    ("max_len", "max_position_embeddings"),
    ("d_model", "emb_dim"),
    ("n_heads", "n_heads"),
    ("n_layers", "n_layers"),
    ("dropout", "dropout"),
    ("eps", "layer_norm_eps"),
    ("n_segments", "n_langs"),
)


def from_xlm(config: dict, weights: dict[str, Tensor]) -> tuple[dict, bool, dict[str, Tensor]]:
    """Sizes, whether there is a language embedding, and weights, copied, of Hugging Face's XLMWithLMHeadModel.

    Raises ValueError for what `XLM` does not compute.
    """
    _check_config(config)
    _check_table(config, weights)
    sizes = {ours: config[theirs] for ours, theirs in XLM_SIZES} | {"pooler": False}
    sizes["activation"] = "gelu" if config["gelu_activation"] else "relu"
    found = {ours: weights[theirs].clone() for ours, theirs in _names(config["n_layers"], weights)}
    return sizes, "segments.weight" in found, found | {"bias": weights["pred_layer.proj.bias"].clone()}


def _names(n_layers: int, weights: dict[str, Tensor]) -> list[tuple[str, str]]:
    """(ours, theirs) of every weight."""
    found = []
    for ours, theirs in XLM_NAMES:
        for part in ("weight", "bias"):
            if (name := theirs + part) in weights:
                found.append((ours + (NORMS[part] if ours == "norm." else part), name))
    for layer in range(n_layers):
        for ours, kind, part in XLM_LAYERS:
            for end in ("weight", "bias"):
                mine = f"blocks.{layer}.{ours}.{NORMS[end] if 'norm' in ours else end}"
                found.append((mine, ".".join(filter(None, ("transformer", kind, str(layer), part, end)))))
    return found


def _check_config(config: dict) -> None:
    strange = [name for name in ("causal", "asm", "is_decoder", "sinusoidal_embeddings") if config.get(name)]
    if strange:
        raise ValueError(f"XLM has nothing like {', '.join(strange)}: this model cannot be copied.")


def _check_table(config: dict, weights: dict[str, Tensor]) -> None:
    table, readout = (weights.get(f"{name}.weight") for name in ("transformer.embeddings", "pred_layer.proj"))
    if not config.get("tie_word_embeddings", True) or readout is not None and not readout.equal(table):
        raise ValueError(
            "XLM has nothing like a read-out of its own (tie_word_embeddings=False): this model cannot be copied."
        )
