"""Weights that others trained, under our names: from Hugging Face's LLaMA and from a GGUF file. Lesson 07.

Both give `sizes`, the arguments of a `DecoderConfig`, and weights by the names that they have in a `Decoder`. A GGUF
file holds a tokenizer too, and its weights in a few bits each, with a scale for each small group of them. The package
`gguf`, of those who made the format, reads it. Nothing in it is code.
"""

from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor, nn

from course_lib.text.bpe import BPE

LLAMA_NAMES = (  # in our Decoder, in Hugging Face's LlamaForCausalLM, in a GGUF file
    ("blocks.", "model.layers.", "blk."),
    ("embed.weight", "model.embed_tokens.weight", "token_embd.weight"),
    ("norm_1.gain", "input_layernorm.weight", "attn_norm.weight"),
    ("norm_2.gain", "post_attention_layernorm.weight", "ffn_norm.weight"),
    ("attention.w_q", "self_attn.q_proj", "attn_q"),
    ("attention.w_k", "self_attn.k_proj", "attn_k"),
    ("attention.w_v", "self_attn.v_proj", "attn_v"),
    ("attention.w_o", "self_attn.o_proj", "attn_output"),
    ("feed_forward.w_gate", "mlp.gate_proj", "ffn_gate"),
    ("feed_forward.w_in", "mlp.up_proj", "ffn_up"),
    ("feed_forward.w_out", "mlp.down_proj", "ffn_down"),
    ("norm.gain", "model.norm.weight", "output_norm.weight"),
)
LLAMA_SIZES = (  # in our DecoderConfig, in Hugging Face's LlamaConfig, in a GGUF file, which may lack the last three
    ("max_len", "max_position_embeddings", "context_length"),
    ("d_model", "hidden_size", "embedding_length"),
    ("n_heads", "num_attention_heads", "attention.head_count"),
    ("n_layers", "num_hidden_layers", "block_count"),
    ("d_ff", "intermediate_size", "feed_forward_length"),
    ("eps", "rms_norm_eps", "attention.layer_norm_rms_epsilon"),
    ("n_kv_heads", "num_key_value_heads", "attention.head_count_kv"),
    ("d_head", "head_dim", "attention.key_length"),
    ("base", "rope_theta", "rope.freq_base"),
)
CUTS = {"smollm": True, "gpt-2": False}  # ways of cutting a text that `bpe.cut` knows: whether digits stand alone
SPECIAL = 3  # the mark of a token that no text may spell


def from_llama(model: nn.Module) -> tuple[dict, dict[str, Tensor]]:
    """Sizes and weights, copied, of Hugging Face's LlamaForCausalLM.

    Theirs turns the two halves of a head as pairs, ours turns neighbours, as the paper does: so rows of W_q and W_k
    change places, and no score changes. Raises TypeError for another model, ValueError for what `Decoder` has not.
    """
    _check_llama(model)
    c = model.config
    found = c.to_dict() | c.rope_parameters
    sizes = {"vocab_size": c.vocab_size} | {ours: found[theirs] for ours, theirs, _ in LLAMA_SIZES}
    weights = {_ours(name, 1): part.clone() for name, part in model.state_dict().items() if name != "lm_head.weight"}
    for name, part in weights.items():
        if name.endswith(("w_q.weight", "w_k.weight")):  # (heads * d_head, D)
            weights[name] = part.unflatten(0, (-1, 2, c.head_dim // 2)).transpose(1, 2).flatten(0, 2)
    return sizes, weights


def from_gguf(path: str | Path) -> tuple[dict, dict[str, Tensor]]:
    """Sizes and weights of a GGUF file of the LLaMA kind, unpacked, tensor by tensor, to PyTorch's default precision.

    Raises FileNotFoundError for no file, ValueError, in words, for a damaged one and for one of another kind.
    """
    from gguf.quants import dequantize

    fields, tensors = _read(path)
    sizes = {ours: fields[f"llama.{name}"] for ours, _, name in LLAMA_SIZES if f"llama.{name}" in fields}
    sizes["vocab_size"] = len(fields["tokenizer.ggml.tokens"])
    with _check_readable(Path(path)):  # a kind that `dequantize` does not know is refused here
        found = ((_ours(part.name, 2), dequantize(part.data, part.tensor_type)) for part in tensors)
        return sizes, {name: torch.tensor(part, dtype=torch.get_default_dtype()) for name, part in found}


def gguf_tokenizer(path: str | Path) -> BPE:
    """The byte-level BPE of a GGUF file, with the ids of the file. Raises what `from_gguf` raises."""
    fields = _read(path)[0]
    _check_tokenizer(fields)
    vocab, merges, kinds = (fields[f"tokenizer.ggml.{name}"] for name in ("tokens", "merges", "token_type"))
    specials = [token for token, kind in zip(vocab, kinds, strict=True) if kind == SPECIAL]
    return BPE(vocab, [pair.split(" ") for pair in merges], specials, digits=CUTS[fields["tokenizer.ggml.pre"]])


def gguf_chat_template(path: str | Path) -> str:
    """The chat template of a GGUF file: a text, in Jinja, that makes one text of the turns of a conversation.

    Raises what `from_gguf` raises, and ValueError where the file has none: a model that was not tuned to answer.
    """
    fields = _read(path)[0]
    _check_template(Path(path).name, fields)
    return fields["tokenizer.chat_template"]


def _ours(name: str, column: int) -> str:
    for row in LLAMA_NAMES:
        name = name.replace(row[column], row[0])
    return name


def _read(path: str | Path) -> tuple[dict, list]:
    """The fields of a GGUF file, as plain Python values, and its tensors, still packed and in the file."""
    from gguf import GGUFReader

    class Reader(GGUFReader):
        def _get(self, offset, dtype, count=1, override_order=None):
            self.data = self.data.__array__()  # of a plain array NumPy cuts a piece in half the time
            found = super()._get(offset, dtype, count, override_order)
            if len(found) < count or self.byte_order != "I":  # theirs would go on behind the end, as often as told
                raise ValueError("cut short, or written on a machine that orders bytes the other way")
            return found

    with _check_readable(Path(path)):
        reader = Reader(path)
        fields = {name: field.contents() for name, field in reader.fields.items()}
    _check_fields(Path(path).name, fields, len(reader.tensors))
    return fields, reader.tensors


def _check_llama(model: nn.Module) -> None:
    config = getattr(model, "config", None)
    if getattr(config, "model_type", None) != "llama" or not hasattr(model, "lm_head"):
        raise TypeError(f"Decoder.from_hf copies a transformers LlamaForCausalLM; got {type(model).__name__}.")
    parts, tied = model.state_dict(), config.tie_word_embeddings
    other = {
        "untied weights": not (tied and parts["lm_head.weight"].equal(parts["model.embed_tokens.weight"])),
        f"heads of odd width ({config.head_dim})": config.head_dim % 2,
        "biases": config.attention_bias or config.mlp_bias,
        f"{config.hidden_act}": config.hidden_act != "silu",
        "stretched places": config.rope_parameters["rope_type"] != "default",
        "dropout": config.attention_dropout,
    }
    if found := [name for name, there in other.items() if there]:
        raise ValueError(f"Decoder has no {' and no '.join(found)}: this model cannot be copied.")


@contextmanager
def _check_readable(path: Path):
    if not path.is_file():
        raise FileNotFoundError(f"There is no file {path.name}: `course_lib.train.published.fetch` gives the path.")
    try:
        yield
    except Exception as error:  # a damaged file makes the package raise nearly anything
        sentence = f"{path.name} is no GGUF file that can be read here, or it is damaged: fetch it anew."
        raise ValueError(sentence) from error


def _check_fields(name: str, fields: dict, n_tensors: int) -> None:
    if fields.get("general.architecture") != "llama" or "llama.rope.scaling.type" in fields:
        raise ValueError(f"{name} holds no decoder of the LLaMA kind, as `Decoder` is.")
    sizes = [fields.get(f"llama.{size}", 1 if place >= 6 else None) for place, (_, _, size) in enumerate(LLAMA_SIZES)]
    usable = all(isinstance(size, int | float) and 0 < size < 2**24 for size in sizes)
    lists = [fields.get(f"tokenizer.ggml.{part}") for part in ("tokens", "merges", "token_type")]
    if not usable or fields["llama.block_count"] > n_tensors or not all(isinstance(part, list) for part in lists):
        raise ValueError(f"{name} is damaged: sizes or tokens are missing in it, or cannot be. Fetch it anew.")


def _check_tokenizer(fields: dict) -> None:
    if fields.get("tokenizer.ggml.model") != "gpt2" or fields.get("tokenizer.ggml.pre") not in CUTS:
        raise ValueError(f"The tokenizer of the file must be a byte-level BPE, cut as for {' or '.join(CUTS)}.")


def _check_template(name: str, fields: dict) -> None:
    if not isinstance(fields.get("tokenizer.chat_template"), str):
        raise ValueError(f"{name} has no chat template: its model goes on with a text, it does not answer.")
