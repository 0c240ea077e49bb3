"""Weights of a Swin Transformer that others trained, under our names: from Hugging Face's models. Lesson 12."""

import re

import torch
from torch import Tensor

from course_lib.weights.bert_weights import NORMS
from course_lib.weights.hf_activations import HF_ACTIVATIONS

SWIN_NAMES = (  # ours, and a pattern of Hugging Face's; read from the top
    (r"merges.\1.", r"^swin\.encoder\.layers\.(\d+)\.downsample\."),
    (r"stages.\1.\2.", r"^swin\.encoder\.layers\.(\d+)\.blocks\.(\d+)\."),
    ("embed.project.", r"^swin\.embeddings\.patch_embeddings\.projection\."),
    ("norm_embed.", r"^swin\.embeddings\.norm\."),
    ("norm.", r"^swin\.layernorm\."),
    ("head.", r"^classifier\."),
    (r"w_\1.", r"\b([qkvo])_proj\."),
    ("position_bias.table", r"relative_position_bias\.relative_position_bias_table"),
    ("norm_1.", r"layernorm_before\."),
    ("norm_2.", r"layernorm_after\."),
    (r"feed_forward.w_\1.", r"mlp\.fc([12])\."),
    ("narrow.", r"reduction\."),
)
SWIN_SIZES = (  # in our SwinConfig, in Hugging Face's
    ("d_model", "embed_dim"),
    ("depths", "depths"),
    ("heads", "num_heads"),
    ("side", "window_size"),
    ("channels", "num_channels"),
    ("dropout", "hidden_dropout_prob"),
    ("eps", "layer_norm_eps"),
)


def from_swin(config: dict, weights: dict[str, Tensor]) -> tuple[dict, dict[str, Tensor]]:
    """Sizes and weights, copied, of Hugging Face's SwinForImageClassification; a missing bias of q, k and v is zeros.

    Their convolution over patches is our matrix (`PatchEmbedding`), and their tables of offsets, query - key, are read
    from the end: ours are key - query. Raises ValueError for what `Swin` does not compute.
    """
    _check_config(config, weights)
    image_size, patch_size = (_sides(config[name]) for name in ("image_size", "patch_size"))
    sizes = {ours: config[theirs] for ours, theirs in SWIN_SIZES}
    sizes |= {"image_size": image_size, "patch_size": patch_size[0], "n_classes": len(weights["classifier.weight"])}
    sizes |= {"activation": HF_ACTIVATIONS[config["hidden_act"]]}
    sizes |= {name: tuple(sizes[name]) for name in ("depths", "heads")}
    found = {_our_name(name): weight.clone() for name, weight in weights.items()}
    for name in [name for name in found if re.search(r"w_[qkv]\.weight", name)]:
        found.setdefault(name.replace("weight", "bias"), torch.zeros_like(found[name][:, 0]))
    found = {name: weight.flip(0) if name.endswith("table") else weight for name, weight in found.items()}
    return sizes, found | {"embed.project.weight": found["embed.project.weight"].flatten(1)}


def _our_name(name: str) -> str:
    for ours, theirs in SWIN_NAMES:
        name = re.sub(theirs, ours, name)
    before, _, last = name.rpartition(".")
    return f"{before}.{NORMS[last]}" if before.rpartition(".")[2].startswith("norm") else name


def _sides(size: int | list | tuple) -> tuple[int, int]:
    return tuple(size) if isinstance(size, (list, tuple)) else (size, size)


def _check_config(config: dict, weights: dict[str, Tensor]) -> None:
    if "classifier.weight" not in weights:
        raise ValueError("Swin copies a model with a classifier: this one has none (num_labels=0).")
    strange = ["places of its own (use_absolute_embeddings)"] if config["use_absolute_embeddings"] else []
    if config["mlp_ratio"] != 4:
        strange.append(f"a feed-forward network {config['mlp_ratio']} times as wide")
    (height, width), patch = (_sides(config[name]) for name in ("image_size", "patch_size"))
    if len({*patch}) > 1:
        strange.append(f"patches of {patch[0]} x {patch[1]}")
    if config["hidden_act"] not in HF_ACTIVATIONS:
        strange.append(f"the activation {config['hidden_act']!r}")
    last = min(height // patch[0], width // patch[1]) // 2 ** (len(config["depths"]) - 1)
    if not strange and last < config["window_size"]:
        strange.append(
            f"tables for windows of {config['window_size']} where the last grid is {last} wide, which Hugging Face's "
            "own cannot run either"
        )
    if strange:
        raise ValueError(f"Swin has nothing like {' and '.join(strange)}: this model cannot be copied.")
