"""CLIP: an image tower and a text tower that map an image and its name to one point. Lesson 11.

    i = f(image) / |f(image)|,   t = g(text) / |g(text)|,   score = exp(s) i . t    (Radford et al., 2021, figure 3)

Shapes: B images, M texts, T tokens of a text, D width of a tower, E width of the features. Batch first, always.
"""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor

from course_lib.attention.block import ACTIVATIONS, Block, Encoder
from course_lib.attention.norms import LayerNorm
from course_lib.inputs.sequences import token_ids, visible
from course_lib.multimodal.contrastive import scores_of
from course_lib.vision.vit import ViT, ViTConfig
from course_lib.weights.hf_activations import HF_ACTIVATIONS

TEMPERATURE = 0.07  # at first; the scale is one through it


class TextTower(nn.Module):
    """A GPT that writes nothing: the last token of a text has read all of it: ids (M, T) -> (M, E).

    (Radford et al., 2021, section 2.4.) end: the id of the token that ends a text. What follows the first of them is
    not seen: the blocks attend backwards only. Norms are before the parts. block: further arguments of an `Encoder`.
    `record.capture` records "encoder.blocks.*.attention.weights". Raises ValueError or TypeError for ids that do not
    fit, more than max_len of them, and, where it can be seen, a text without its end.
    """

    def __init__(self, vocab_size: int, max_len: int, d_model: int, n_heads: int, n_layers: int, width: int, end: int,
                 **block):  # fmt: skip
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocab_size, d_model), nn.Embedding(max_len, d_model)
        self.encoder = Encoder(d_model, n_heads, n_layers, pre_norm=True, **{"activation": F.gelu} | block)
        self.project, self.end = nn.Linear(d_model, width, bias=False), end
        nn.init.normal_(self.tokens.weight, std=0.02)
        nn.init.normal_(self.places.weight, std=0.01)

    def forward(self, ids: Tensor) -> Tensor:
        ids = token_ids("ids", ids, self.tokens, shortest=1)
        _check_texts(self, ids)
        x = self.tokens(ids) + self.places.weight[: ids.shape[1]]  # (M, T, D)
        for block in self.encoder.blocks:
            x = block(x, causal=True)
        last = (ids == self.end).int().argmax(dim=1)  # (M,): where each text ends
        x = self.encoder.norm(x)[torch.arange(len(ids), device=ids.device), last]  # (M, D)
        return self.project(x)


class ImageTower(ViT):
    """Lesson 09's ViT with one norm more, over patches and positions before the first block (section 2.4): -> (B, E).

    config.n_classes is E: the head, here without a bias, is the projection.
    """

    def __init__(self, config: ViTConfig):
        super().__init__(config)
        self.dropout = nn.Sequential(self.dropout, LayerNorm(config.d_model, config.eps))
        self.head = nn.Linear(config.d_model, config.n_classes, bias=False)


class CLIP(nn.Module):
    """Two towers and a scale: images (B, C, H, W), ids (M, T) -> scores (B, M) (Radford et al., 2021, figure 3).

    image: images -> (B, E): an `ImageTower`, or lesson 09's ConvNet with E classes; text: ids -> (M, E). The scale is
    exp(log_scale), learned, at first 1 / 0.07 (section 2.5). Raises what the towers raise.
    """

    def __init__(self, image: nn.Module, text: nn.Module, temperature: float = TEMPERATURE):
        super().__init__()
        self.image, self.text = image, text
        self.log_scale = nn.Parameter(torch.full((), -math.log(temperature)))

    @property
    def blocks(self) -> nn.ModuleList:
        """The Transformer blocks of both towers, for optimisers that step matrices otherwise."""
        towers = [getattr(tower, "encoder", None) for tower in (self.image, self.text)]
        return nn.ModuleList(block for encoder in towers if encoder is not None for block in encoder.blocks)

    def image_features(self, images: Tensor) -> Tensor:
        """The features of images: (B, C, H, W) -> (B, E), of length 1."""
        return F.normalize(self.image(images), dim=-1)

    def text_features(self, ids: Tensor) -> Tensor:
        """The features of texts: (M, T) -> (M, E), of length 1."""
        return F.normalize(self.text(ids), dim=-1)

    def forward(self, images: Tensor, ids: Tensor) -> Tensor:
        return scores_of(self.image_features(images), self.text_features(ids), self.log_scale.exp())

    @classmethod
    def from_hf(cls, model) -> "CLIP":
        """Our CLIP with the weights of Hugging Face's CLIPModel: the same scores, a row for each image.

        Raises TypeError for another model, ValueError for one that computes what ours does not.
        """
        seen, read, activations = _check_copied(model)
        E = model.config.projection_dim
        image = ImageTower(
            ViTConfig(seen.image_size, seen.patch_size, E, seen.hidden_size, seen.num_attention_heads,
                      seen.num_hidden_layers, seen.num_channels, 0.0, seen.intermediate_size, eps=seen.layer_norm_eps)
        )  # fmt: skip
        # Older configurations say 2 and mean the highest id.
        end = read.vocab_size - 1 if read.eos_token_id == 2 else read.eos_token_id
        text = TextTower(read.vocab_size, read.max_position_embeddings, read.hidden_size, read.num_attention_heads,
                         read.num_hidden_layers, E, end, d_ff=read.intermediate_size)  # fmt: skip
        ours = cls(image, text).to(model.logit_scale)
        eyes, book = model.vision_model, model.text_model
        with torch.no_grad():
            ours.log_scale.copy_(model.logit_scale)
            image.cls.copy_(eyes.embeddings.class_embedding)
            image.places.copy_(eyes.embeddings.position_embedding.weight)
            image.embed.project.weight.copy_(eyes.embeddings.patch_embedding.weight.flatten(1))
            image.embed.project.bias.zero_()
            _copy_norm(image.dropout[1], eyes.pre_layrnorm)
            _copy_norm(image.encoder.norm, eyes.post_layernorm)
            _copy_norm(text.encoder.norm, book.final_layer_norm)
            text.tokens.weight.copy_(book.embeddings.token_embedding.weight)
            text.places.weight.copy_(book.embeddings.position_embedding.weight)
            image.head.weight.copy_(model.visual_projection.weight)
            text.project.weight.copy_(model.text_projection.weight)
            for tower, theirs, activation in ((image, eyes, activations[0]), (text, book, activations[1])):
                for own, other in zip(tower.encoder.blocks, theirs.encoder.layers, strict=True):
                    _copy_block(own, other, activation)
        return ours.train(model.training)


def quick_gelu(x: Tensor) -> Tensor:
    """x sigmoid(1.702 x): what OpenAI's CLIP computes instead of GELU (Hendrycks and Gimpel, 2016, section 2)."""
    return x * torch.sigmoid(1.702 * x)


def _copy_block(own: Block, other: nn.Module, activation) -> None:
    """Fill a block with a CLIPEncoderLayer's weights."""
    look, its = own.attention, other.self_attn
    layers = [(look.w_q, its.q_proj), (look.w_k, its.k_proj), (look.w_v, its.v_proj), (look.w_o, its.out_proj)]
    layers += [(own.feed_forward.w_1, other.mlp.fc1), (own.feed_forward.w_2, other.mlp.fc2)]
    for mine, theirs in layers:
        mine.load_state_dict(theirs.state_dict())
    _copy_norm(own.norm_1, other.layer_norm1)
    _copy_norm(own.norm_2, other.layer_norm2)
    own.feed_forward.activation = activation


def _copy_norm(own: LayerNorm, other: nn.LayerNorm) -> None:
    own.load_state_dict({"gain": other.weight, "shift": other.bias})
    own.eps = other.eps


def _check_texts(tower: TextTower, ids: Tensor) -> None:
    if ids.shape[1] > len(tower.places.weight):
        raise ValueError(f"This tower reads up to {len(tower.places.weight)} tokens; got {ids.shape[1]}.")
    if visible(ids) and not (ids == tower.end).any(dim=1).all():
        raise ValueError(
            f"A text stands where it ends: each row of ids needs the end, {tower.end}. WordTokenizer.batch(texts, "
            "end=True) puts it there."
        )


def _check_copied(model):
    """The configurations of both towers, and their activations."""
    from transformers import CLIPModel

    if not isinstance(model, CLIPModel):
        raise TypeError(f"CLIP.from_hf copies a transformers.CLIPModel; got {type(model).__name__}.")
    towers = model.config.vision_config, model.config.text_config
    known = {"quick_gelu": quick_gelu} | {name: ACTIVATIONS[ours] for name, ours in HF_ACTIVATIONS.items()}
    if unknown := [tower.hidden_act for tower in towers if tower.hidden_act not in known]:
        raise ValueError(f"CLIP.from_hf knows the activations {', '.join(known)}; got {unknown[0]!r}.")
    if not isinstance(towers[1].eos_token_id, int):
        raise ValueError(f"CLIP.from_hf needs one id that ends a text; got {towers[1].eos_token_id}.")
    return *towers, [known[tower.hidden_act] for tower in towers]
