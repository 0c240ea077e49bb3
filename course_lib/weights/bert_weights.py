"""Weights of a BERT that others trained, under our names: from Hugging Face's models and from files. Lesson 08.

`from_bert` gives `sizes`, the arguments of a `BertConfig`, and weights by the names that they have in a `Bert`, or in
one of its heads (`bert_heads.py`), where the Bert is called "bert".
"""

from torch import Tensor, nn

from course_lib.weights.hf_activations import HF_ACTIVATIONS

BERT_NAMES = (  # ours, and Hugging Face's, which are Google's; read from the top, for some of theirs end alike
    ("blocks.", "encoder.layer."),
    ("tokens.", "embeddings.word_embeddings."),
    ("places.", "embeddings.position_embeddings."),
    ("segments.", "embeddings.token_type_embeddings."),
    ("norm.", "embeddings.LayerNorm."),
    ("attention.w_q.", "attention.self.query."),
    ("attention.w_k.", "attention.self.key."),
    ("attention.w_v.", "attention.self.value."),
    ("norm_1.", "attention.output.LayerNorm."),
    ("attention.w_o.", "attention.output.dense."),
    ("feed_forward.w_1.", "intermediate.dense."),
    ("norm_2.", "output.LayerNorm."),
    ("feed_forward.w_2.", "output.dense."),
    ("pooler.", "pooler.dense."),
    ("transform.", "cls.predictions.transform.dense."),
    ("norm.", "cls.predictions.transform.LayerNorm."),
    ("bias", "cls.predictions.bias"),
    ("readout.", "cls.seq_relationship."),
    ("readout.", "classifier."),
    ("readout.", "qa_outputs."),
)
NORMS = {"weight": "gain", "bias": "shift", "gamma": "gain", "beta": "shift"}  # Google's files have the last two
NOT_LEARNT = ("embeddings.position_ids", "cls.predictions.decoder.")  # 0, 1, 2 ..., and the table of tokens once more
BERT_SIZES = (  # in our BertConfig, in Hugging Face's
    ("vocab_size", "vocab_size"),
    ("max_len", "max_position_embeddings"),
    ("d_model", "hidden_size"),
    ("n_heads", "num_attention_heads"),
    ("n_layers", "num_hidden_layers"),
    ("d_ff", "intermediate_size"),
    ("n_segments", "type_vocab_size"),
    ("dropout", "hidden_dropout_prob"),
    ("eps", "layer_norm_eps"),
)


def from_bert(config: dict, weights: dict[str, Tensor]) -> tuple[dict, dict[str, Tensor]]:
    """Sizes and weights, copied, of a BERT: `config` as in its config.json, `weights` by Hugging Face's names.

    Raises ValueError for a model of another kind, and for what `Bert` does not compute.
    """
    _check_config(config)
    sizes = {ours: config[theirs] for ours, theirs in BERT_SIZES}
    sizes["activation"] = HF_ACTIVATIONS[config["hidden_act"]]
    kept = {name: part.clone() for name, part in weights.items() if not any(odd in name for odd in NOT_LEARNT)}
    found = {our_name(name): part for name, part in kept.items()}
    return sizes | {"pooler": any(name.endswith("pooler.weight") for name in found)}, found


def our_name(name: str) -> str:
    """What a weight that Hugging Face calls `name` is called in a `Bert` or in its head."""
    for ours, theirs in BERT_NAMES:
        name = name.replace(theirs, ours)
    rest, _, last = name.rpartition(".")
    part = rest.rpartition(".")[2]  # norm, norm_1, norm_2
    return f"{rest}.{NORMS.get(last, last)}" if part.startswith("norm") else name


def check_class(wanted: str, model: nn.Module) -> None:
    """Raise TypeError, in words, unless `model` is of the class of Hugging Face's that is called `wanted`."""
    import transformers

    if not isinstance(model, getattr(transformers, wanted)):
        raise TypeError(f"This copies a transformers.{wanted}; got {type(model).__name__}.")


def _check_config(config: dict) -> None:
    if config.get("model_type", "bert") != "bert":
        raise ValueError(f"Bert copies a BERT; this configuration is that of a {config['model_type']}.")
    if missing := [theirs for _, theirs in (*BERT_SIZES, ("", "hidden_act")) if theirs not in config]:
        raise ValueError(f"The configuration lacks {', '.join(missing[:3])}: it is not that of a BERT.")
    strange = [name for name in ("is_decoder", "add_cross_attention") if config.get(name)]
    if (kind := config.get("position_embedding_type", "absolute")) != "absolute":
        strange.append(f"positions of the kind {kind!r}")
    if not config.get("tie_word_embeddings", True):
        strange.append("a read-out of its own (tie_word_embeddings=False)")
    if strange:
        raise ValueError(f"Bert has nothing like {' and '.join(strange)}: this model cannot be copied.")
    if config["hidden_act"] not in HF_ACTIVATIONS:
        raise ValueError(f"Bert knows the activations {', '.join(HF_ACTIVATIONS)}; got {config['hidden_act']!r}.")
