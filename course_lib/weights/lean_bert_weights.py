"""Weights of an ALBERT, an ELECTRA or a DistilBERT that others trained, under our names. Lesson 16.

`from_lean_bert` gives `sizes`, the arguments of a `LeanBertConfig`, and weights by the names that they have in a
`LeanBert`, or in a head, where that is called "bert".
"""

import re

from torch import Tensor, nn

from course_lib.weights.bert_weights import NORMS
from course_lib.weights.hf_activations import HF_ACTIVATIONS

LEAN_NAMES = (  # ours, and a pattern for Hugging Face's; read from the top, each once
    ("bert.", r"^(albert|electra)\."),
    ("tokens.", r"embeddings\.word_embeddings\."),
    ("places.", r"embeddings\.position_embeddings\."),
    ("segments.", r"embeddings\.token_type_embeddings\."),
    ("norm.", r"embeddings\.LayerNorm\."),
    ("widen.", r"encoder\.embedding_hidden_mapping_in\."),
    ("widen.", r"embeddings_project\."),
    (r"blocks.\1.", r"encoder\.albert_layer_groups\.(\d+)\.albert_layers\.0\."),
    (r"blocks.\1.", r"(?:encoder|transformer)\.layer\.(\d+)\."),
    ("norm_2.", r"full_layer_layer_norm\."),
    ("norm_2.", r"output_layer_norm\."),
    ("norm_1.", r"sa_layer_norm\."),
    ("norm_1.", r"attention\.(?:output\.)?LayerNorm\."),
    (r"attention.w_\1.", r"attention\.(?:self\.)?([qkv])(?:uery|ey|alue)\."),
    (r"attention.w_\1.", r"attention\.([qkv])_lin\."),
    ("attention.w_o.", r"attention\.(?:output\.dense|dense|out_lin)\."),
    ("norm_2.", r"(?<=\d\.)output\.LayerNorm\."),
    ("feed_forward.w_1.", r"intermediate\.dense\."),
    ("feed_forward.w_1.", r"ffn\.lin1\."),
    ("feed_forward.w_2.", r"ffn\.lin2\."),
    ("feed_forward.w_2.", r"(?<=\d\.)output\.dense\."),
    ("feed_forward.w_2.", r"ffn_output\."),
    ("feed_forward.w_1.", r"(?<=\d\.)ffn\."),
    ("pooler.", r"^pooler\.(?=weight|bias)"),
    ("bert.pooler.", r"^bert\.pooler\.(?=weight|bias)"),
    ("transform.", r"^(?:predictions|generator_predictions)\.dense\."),
    ("norm.", r"^(?:predictions|generator_predictions)\.LayerNorm\."),
    ("bias", r"^(?:predictions\.bias|generator_lm_head\.bias)$"),
    ("transform.", r"^discriminator_predictions\.dense\."),
    ("readout.", r"^discriminator_predictions\.dense_prediction\."),
)
LEAN_NOT_LEARNT = re.compile(r"position_ids|predictions\.decoder\.|generator_lm_head\.weight|\.decoder\.bias")
LEAN_KINDS = {  # of a model, by its class's first word: our size, and theirs
    "Albert": {"d_model": "hidden_size", "n_heads": "num_attention_heads", "n_layers": "num_hidden_layers",
               "d_embedding": "embedding_size", "n_groups": "num_hidden_groups", "dropout": "hidden_dropout_prob",
               "d_ff": "intermediate_size", "eps": "layer_norm_eps", "n_segments": "type_vocab_size"},
    "Electra": {"d_model": "hidden_size", "n_heads": "num_attention_heads", "n_layers": "num_hidden_layers",
                "d_embedding": "embedding_size", "n_groups": "num_hidden_layers", "dropout": "hidden_dropout_prob",
                "d_ff": "intermediate_size", "eps": "layer_norm_eps", "n_segments": "type_vocab_size"},
    "DistilBert": {"d_model": "dim", "n_heads": "n_heads", "n_layers": "n_layers", "d_embedding": "dim",
                   "n_groups": "n_layers", "dropout": "dropout", "d_ff": "hidden_dim"},
}  # fmt: skip


def from_lean_bert(model: nn.Module, wanted: tuple[str, ...]) -> tuple[dict, dict[str, Tensor]]:
    """Sizes and weights, copied, of Hugging Face's model, which must be of a class that `wanted` names.

    Raises TypeError for another model, ValueError for what `LeanBert` does not compute.
    """
    _check_kind(model, wanted)
    config = model.config.to_dict()
    names = next(names for kind, names in LEAN_KINDS.items() if type(model).__name__.startswith(kind))
    _check_config(config, names)
    sizes = {ours: config[theirs] for ours, theirs in names.items()}
    sizes |= {"vocab_size": config["vocab_size"], "max_len": config["max_position_embeddings"]}
    sizes["activation"] = HF_ACTIVATIONS[config.get("hidden_act") or config["activation"]]
    if "n_segments" not in sizes:  # DistilBERT
        sizes |= {"n_segments": 0, "eps": 1e-12}
    weights = {name: part for name, part in model.state_dict().items() if not LEAN_NOT_LEARNT.search(name)}
    found = {our_lean_name(name): part.clone() for name, part in weights.items()}
    return sizes | {"pooler": any("pooler." in name for name in found)}, found


def our_lean_name(name: str) -> str:
    """What a weight that Hugging Face calls `name` is called in a `LeanBert` or in its head."""
    for ours, theirs in LEAN_NAMES:
        name = re.sub(theirs, ours, name, count=1)
    rest, _, last = name.rpartition(".")
    return f"{rest}.{NORMS.get(last, last)}" if rest.rpartition(".")[2].startswith("norm") else name


def _check_kind(model: nn.Module, wanted: tuple[str, ...]) -> None:
    import transformers

    if not any(isinstance(model, getattr(transformers, name)) for name in wanted):
        raise TypeError(f"This copies a transformers.{' or '.join(wanted)}; got {type(model).__name__}.")
    own = HF_ACTIVATIONS.get(getattr(model.config, "hidden_act", ""))
    if type(model).__name__.startswith("ElectraFor") and own not in (None, "gelu"):
        raise ValueError(f"The heads of an ELECTRA compute gelu here, its blocks {own}: this model cannot be copied.")


def _check_config(config: dict, names: dict[str, str]) -> None:
    strange = [name for name in ("is_decoder", "add_cross_attention", "sinusoidal_pos_embds") if config.get(name)]
    if config.get("inner_group_num", 1) != 1:
        strange.append("several blocks in a group (inner_group_num)")
    if config["model_type"] == "albert" and config["embedding_size"] == config["hidden_size"]:
        strange.append("a way from the tables to blocks that are as wide")
    if config.get("embedding_size", 0) and not config.get("tie_word_embeddings", True):
        strange.append("a read-out of its own (tie_word_embeddings=False)")
    if strange:
        raise ValueError(f"LeanBert has nothing like {' and '.join(strange)}: this model cannot be copied.")
    if (act := config.get("hidden_act") or config["activation"]) not in HF_ACTIVATIONS:
        raise ValueError(f"LeanBert knows the activations {', '.join(HF_ACTIVATIONS)}; got {act!r}.")
