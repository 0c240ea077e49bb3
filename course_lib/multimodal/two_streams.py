"""Two Transformers, one for words and one for the image, that attend to each other: co-attention. Lesson 11.

    words'  = norm(words + attend(queries of words, keys and values of the image)),
    image'  = norm(image + attend(queries of the image, keys and values of words))
    (ViLBERT: Lu et al., 2019, section 2.2 and figure 2b)

Shapes: B batch, T words, N positions of the image, D d_model, V vocabulary. Batch first, always. Masks are boolean,
True = a real word.
"""

import torch.nn as nn
from torch import Tensor

from course_lib.attention.block import Block
from course_lib.multimodal.one_stream import WordsAndImage


class OtherBlock(Block):
    """Lesson 06's block that attends to the other stream instead of itself: x (B, T, D), other (B, S, D) -> as x.

    mask bool (B, S), what of the other it may attend to. `record.capture` records attention.weights (B, heads, T, S).
    """

    def forward(self, x: Tensor, other: Tensor, mask: Tensor | None = None) -> Tensor:
        x = self.norm_1(x + self.dropout(self.attention(x, other, mask)))
        return self.norm_2(x + self.dropout(self.feed_forward(x)))


class CoLayer(nn.Module):
    """Each stream attends to the other, then to itself: words (B, T, D), image (B, N, D), mask bool (B, T) -> the same.

    Both attend to what the other was before this layer. sizes: those of `Block.from_sizes`.
    """

    def __init__(self, d_model: int, n_heads: int, **sizes):
        super().__init__()
        self.words_look, self.image_looks = (OtherBlock.from_sizes(d_model, n_heads, **sizes) for _ in range(2))
        self.words_own, self.image_own = (Block.from_sizes(d_model, n_heads, **sizes) for _ in range(2))

    def forward(self, words: Tensor, image: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        words, image = self.words_look(words, image), self.image_looks(image, words, mask)
        return self.words_own(words, mask), self.image_own(image)


class TwoStreams(nn.Module):
    """ViLBERT: a stream of words and a stream of image positions, joined by co-attention (Lu et al., 2019, figure 1).

    Arguments and results are `OneStream`'s, and the head for masked words too; n_layers counts `CoLayer`s, of four
    blocks each. `record.capture` records "blocks.*.words_look.attention.weights" (B, heads, T, N), and those of
    image_looks (B, heads, N, T), words_own and image_own. Raises as `OneStream` does.
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
        self.blocks = nn.ModuleList(CoLayer(d_model, n_heads, **block) for _ in range(n_layers))
        self.readout = nn.Linear(d_model, vocab_size)

    def forward(self, images: Tensor, ids: Tensor, mask: Tensor | None = None) -> Tensor:
        return self.readout(self.encode(images, ids, mask)[0])  # (B, T, V)

    def encode(self, images: Tensor, ids: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The states behind the last layer, of the words (B, T, D) and of the image (B, N, D)."""
        words, image = self.embedding(images, ids, mask)
        for layer in self.blocks:
            words, image = layer(words, image, mask)
        return words, image
