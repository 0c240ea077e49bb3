"""One Transformer for words and image: patches and words form one row, and everything attends to everything.

    x = [words; image],   logits = readout(encoder(x)[words]),   each row: norm(what it is + its position + its kind)
    (MMBT: Kiela et al., 2019, section 3.1; masked words beside an image: Li et al., 2019, "VisualBERT", section 3.3)

Shapes: B batch, T words, N positions of the image, D d_model, V vocabulary. Batch first, always. Masks are boolean,
True = a real word. Lesson 11.
"""

import torch
import torch.nn as nn
from torch import Tensor

from course_lib.attention.block import Encoder
from course_lib.attention.norms import LayerNorm
from course_lib.inputs.sequences import token_ids
from course_lib.inputs.shapes import check_shapes


class WordsAndImage(nn.Module):
    """Both as rows of vectors: images, ids (B, T), mask bool (B, T) or None -> words (B, T, D), image (B, N, D).

    embed: images -> (B, N, D), such as `PatchEmbedding`, `ConvStem` or a trained encoder; n_places is its N. Each row
    gets its position and its kind ("segment"), all learned, and a norm. Raises ValueError or TypeError, in words, for
    ids, masks and images that do not fit, and for more than max_len words.
    """

    def __init__(self, embed: nn.Module, n_places: int, vocab_size: int, max_len: int, d_model: int):
        super().__init__()
        self.embed, self.max_len = embed, max_len
        self.words = nn.Embedding(vocab_size, d_model)  # E
        self.word_places = nn.Parameter(0.02 * torch.randn(max_len, d_model))
        self.image_places = nn.Parameter(0.02 * torch.randn(n_places, d_model))
        self.segments = nn.Parameter(0.02 * torch.randn(2, d_model))  # the words', the image's
        self.norms = nn.ModuleList(LayerNorm(d_model) for _ in range(2))
        nn.init.normal_(self.words.weight, std=0.02)

    def forward(self, images: Tensor, ids: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        ids = token_ids("ids", ids, self.words, shortest=1)
        _check_words(ids, mask, self.max_len)
        words = self.words(ids) + self.word_places[: ids.shape[1]] + self.segments[0]  # (B, T, D)
        image = self.embed(images)
        check_shapes("The embedding", image=(image, f"any B {len(self.image_places)} {words.shape[2]}"))
        image = image + self.image_places + self.segments[1]  # (B, N, D)
        return self.norms[0](words), self.norms[1](image)


class OneStream(nn.Module):
    """BERT whose row continues with an image (Kiela et al., 2019, figure 1), with its head for masked words.

    embed, n_places, vocab_size, max_len: as in `WordsAndImage`; block: further arguments of `Block.from_sizes`: d_ff,
    dropout, activation. Norms come after the parts, as in BERT.
    images, ids (B, T), mask bool (B, T) or None -> logits (B, T, V), what each word is. `encode` gives the states of
    both. `record.capture` records "encoder.blocks.*.attention.weights" (B, heads, T + N, T + N), the words first.
    Raises as `WordsAndImage` does.
    """

    def __init__(
        self,
        embed: nn.Module,
        n_places: int,
        vocab_size: int,
        max_len: int,
        d_model: int,
        n_heads: int,
        n_layers: int,
        **block,
    ):
        super().__init__()
        self.embedding = WordsAndImage(embed, n_places, vocab_size, max_len, d_model)
        self.encoder, self.readout = Encoder(d_model, n_heads, n_layers, **block), nn.Linear(d_model, vocab_size)

    @property
    def blocks(self) -> nn.ModuleList:
        """The encoder's, by the name that they have in `GPT`: so `muon.split` finds them."""
        return self.encoder.blocks

    def forward(self, images: Tensor, ids: Tensor, mask: Tensor | None = None) -> Tensor:
        return self.readout(self.encode(images, ids, mask)[0])  # (B, T, V)

    def encode(self, images: Tensor, ids: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The states behind the last block, of the words (B, T, D) and of the image (B, N, D)."""
        words, image = self.embedding(images, ids, mask)
        if mask is not None:  # all of the image is real
            mask = torch.cat([mask, mask.new_ones(image.shape[:2])], dim=1)  # (B, T + N)
        x = self.encoder(torch.cat([words, image], dim=1), mask)  # (B, T + N, D)
        return x.split([words.shape[1], image.shape[1]], dim=1)


def _check_words(ids: Tensor, mask: Tensor | None, max_len: int) -> None:
    if ids.shape[1] > max_len:
        raise ValueError(f"The text has {ids.shape[1]} words, and this model has places for {max_len}: cut it.")
    check_shapes("A model of words and images", ids=(ids, "int B T"), mask=(mask, "bool B T"))
