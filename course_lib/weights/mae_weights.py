"""Weights of a masked autoencoder that others trained, under our names: from Hugging Face's ViTMAE. Lesson 12."""

from torch import Tensor

from course_lib.weights.bert_weights import NORMS
from course_lib.weights.hf_activations import HF_ACTIVATIONS

MAE_NAMES = (  # ours, and Hugging Face's; read from the top
    ("vit.cls", "vit.embeddings.cls_token"),
    ("vit.places", "vit.embeddings.position_embeddings"),
    ("vit.embed.project.", "vit.embeddings.patch_embeddings.projection."),
    ("vit.encoder.blocks.", "vit.layers."),
    ("vit.encoder.norm.", "vit.layernorm."),
    ("narrow.", "decoder.decoder_embed."),
    ("hidden", "decoder.mask_token"),
    ("places", "decoder.decoder_pos_embed"),
    ("decoder.blocks.", "decoder.decoder_layers."),
    ("decoder.norm.", "decoder.decoder_norm."),
    ("paint.", "decoder.decoder_pred."),
    (".w_q.", ".q_proj."),
    (".w_k.", ".k_proj."),
    (".w_v.", ".v_proj."),
    (".w_o.", ".o_proj."),
    (".norm_1.", ".layernorm_before."),
    (".norm_2.", ".layernorm_after."),
    (".feed_forward.w_1.", ".mlp.fc1."),
    (".feed_forward.w_2.", ".mlp.fc2."),
)
MAE_SIZES = (  # in our ViTConfig, in Hugging Face's
    ("image_size", "image_size"),
    ("patch_size", "patch_size"),
    ("channels", "num_channels"),
    ("d_model", "hidden_size"),
    ("n_heads", "num_attention_heads"),
    ("n_layers", "num_hidden_layers"),
    ("d_ff", "intermediate_size"),
    ("eps", "layer_norm_eps"),
)
MAE_DECODER = (  # arguments of our MaskedAutoencoder, in Hugging Face's
    ("d_decoder", "decoder_hidden_size"),
    ("n_heads", "decoder_num_attention_heads"),
    ("n_layers", "decoder_num_hidden_layers"),
    ("d_ff", "decoder_intermediate_size"),
)


def from_mae(config: dict, weights: dict[str, Tensor]) -> tuple[dict, dict, dict[str, Tensor]]:
    """Sizes of the ViT, sizes of the decoder, and weights, copied, of Hugging Face's ViTMAEForPreTraining.

    All but those of the ViT's classifier, which theirs lacks. Their fixed sines become `places`, as numbers. Raises
    ValueError for what `MaskedAutoencoder` does not compute.
    """
    _check_config(config)
    sizes = {ours: config[theirs] for ours, theirs in MAE_SIZES}
    sizes["activation"] = HF_ACTIVATIONS[config["hidden_act"]]
    found = {_our_name(name): part.clone() for name, part in weights.items()}
    for name in ("vit.cls", "hidden"):
        found[name] = found[name][0, 0]  # (1, 1, D) -> (D,)
    for name in ("vit.places", "places"):
        found[name] = found[name][0]  # (1, 1 + N, D) -> (1 + N, D)
    found["vit.embed.project.weight"] = found["vit.embed.project.weight"].flatten(1)  # (D, C, P, P) -> (D, C P P)
    for name in ("paint.weight", "paint.bias"):  # they paint (P, P, C), we (C, P, P)
        cut = found[name].unflatten(0, (config["patch_size"], config["patch_size"], config["num_channels"]))
        found[name] = cut.movedim(2, 0).flatten(0, 2)
    for name in [name for name in found if name.endswith(".w_o.bias")]:  # qkv_bias=False: zeros compute the same
        for kind in ("w_q", "w_k", "w_v"):
            found.setdefault(name.replace("w_o", kind), found[name].new_zeros(found[name].shape))
    return sizes, {ours: config[theirs] for ours, theirs in MAE_DECODER}, found


def _our_name(name: str) -> str:
    for ours, theirs in MAE_NAMES:
        name = name.replace(theirs, ours)
    rest, _, last = name.rpartition(".")
    return f"{rest}.{NORMS[last]}" if rest.rpartition(".")[2].startswith("norm") else name


def _check_config(config: dict) -> None:
    if config.get("norm_pix_loss"):
        raise ValueError(
            "This model paints patches less their own mean, over their standard deviation (norm_pix_loss=True), and "
            "MaskedAutoencoder.loss compares pixels. To copy what it paints all the same, set "
            "model.config.norm_pix_loss = False first, and compare with patches that are normalised so."
        )
    if dropped := [name for name in ("hidden_dropout_prob", "attention_probs_dropout_prob") if config[name]]:
        raise ValueError(
            "A masked autoencoder is trained without dropout, and the copy would drop other numbers than this model "
            f"does: set {' and '.join(dropped)} to 0."
        )
    if config["hidden_act"] not in HF_ACTIVATIONS:
        raise ValueError(
            f"MaskedAutoencoder knows the activations {', '.join(HF_ACTIVATIONS)}; got {config['hidden_act']!r}."
        )
