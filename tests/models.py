"""Every module of the shelf that has a forward pass, for the tests that try them all.

`MODELS` says how one is made and called: test_compile.py compiles it and test_accelerator.py runs it on a simulated
device, each in one case by this entry alone. `OWN_CASES` are modules with cases of their own in both files, and
`NOT_COMPILED` those that PyTorch does not compile, with cases of their own in test_accelerator.py. A module that is in
none of them fails test_models.py: a new one gets an entry in `MODELS`.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from course_lib.attention.attention import (
    AdditiveAttention,
    ConcatAttention,
    DotAttention,
    GeneralAttention,
    SelfAttention,
)
from course_lib.attention.block import Block, Decoder, Encoder, FeedForward, GatedFeedForward
from course_lib.attention.multi_head import MultiHead
from course_lib.attention.norms import LayerNorm, RMSNorm
from course_lib.attention.order_model import OrderModel
from course_lib.attention.positions import LearnedPositions, RelativeBias, SinusoidalPositions
from course_lib.attention.transformer import PlacedEmbedding, Transformer
from course_lib.bert.bert import Bert, BertConfig
from course_lib.bert.bert_heads import Classifier, LayerMix, MaskedWords, SpanFinder, Tagger
from course_lib.bert.lean_bert import LeanBert, LeanBertConfig, LeanWords
from course_lib.bert.replaced_words import Discriminator
from course_lib.bert.xlm import XLM
from course_lib.detection.detr import DETR, Anchors, Backbone, PlacedAttention, PlacedBlock, Queries
from course_lib.detection.heat_map import HeatMap
from course_lib.detection.resnet import FrozenNorm, Residual, ResNet
from course_lib.language import decoder
from course_lib.language.gpt import GPT
from course_lib.long_context.all_orders import AllOrders
from course_lib.long_context.hashing import HashedHeads
from course_lib.long_context.linear_attention import DeltaHeads, LinearHeads
from course_lib.long_context.reversible import ReversibleStack
from course_lib.long_context.segments import SegmentReader
from course_lib.long_context.window import LocalHeads
from course_lib.multimodal.captions import Captioner
from course_lib.multimodal.clip import CLIP, ImageTower, TextTower
from course_lib.multimodal.one_stream import OneStream, WordsAndImage
from course_lib.multimodal.quantiser import Quantiser
from course_lib.multimodal.two_streams import CoLayer, OtherBlock, TwoStreams
from course_lib.multimodal.vq_vae import VQVAE
from course_lib.recurrent.language_model import CharRNN
from course_lib.recurrent.lstm import GRU, LSTM
from course_lib.recurrent.rnn import RNN
from course_lib.retrieval.learned_search import LearnedSearch, Reader, Retriever, SpelledWords, Tower
from course_lib.text_to_text.bart import BartConfig, NormedEmbedding
from course_lib.text_to_text.t5 import GatedActivation
from course_lib.translation import seq2seq
from course_lib.vision.convnet import ConvLayer, ConvNet, ConvStem
from course_lib.vision.masked_patches import MaskedAutoencoder
from course_lib.vision.patches import PatchEmbedding
from course_lib.vision.swin import PatchMerging, Swin, SwinConfig
from course_lib.vision.vit import ViT, ViTConfig
from course_lib.vision.windows import GridBias, WindowAttention, WindowEncoder


class New(NamedTuple):
    """How a test makes what a model is given, each of a shape: numbers, ids (0 or 1), and which places are real."""

    vectors: Callable
    ids: Callable
    allowed: Callable


class Model(NamedTuple):
    """How a model is made, and what its forward pass is given: how to make tensors, a batch size -> the arguments."""

    make: Callable[[], nn.Module]
    given: Callable[[New, int], tuple]


def a_bert() -> Bert:
    """A BERT as small as one can be: 11 pieces, 9 places, 6 wide, 2 heads, 1 block."""
    return Bert(BertConfig(11, 9, 6, 2, 1, 0.0))


def a_lean_bert(rotary: bool = False) -> LeanBert:
    """A BERT of one block for two layers: 11 pieces, 9 places, tables 3 wide, 8 wide, 2 heads."""
    return LeanBert(LeanBertConfig(11, 9, 8, 2, 2, 3, rotary=rotary))


def towers() -> tuple[ImageTower, TextTower]:
    """The two towers of a CLIP, as small as they can be; a text ends with 0."""
    return ImageTower(ViTConfig(4, 2, 5, 6, 2, 1, channels=1)), TextTower(11, 9, 6, 2, 2, 5, 0)


def ended(new: New, B: int) -> Tensor:
    """Texts (B, 6), each with its end in the last place, if not before."""
    return torch.cat([new.ids(B, 5), 0 * new.ids(B, 1)], dim=1)


def word_and_patch_sizes() -> tuple:
    """What makes patches, and the sizes of a model of words and image: 4 places, 11 words, 9 places, 6 wide."""
    return PatchEmbedding(1, 2, 6), 4, 11, 9, 6


def words_and_image(new: New, B: int) -> tuple:
    """Images (B, 1, 4, 4), words (B, 5), and which of them are real."""
    return new.vectors(B, 1, 4, 4), new.ids(B, 5), new.allowed(B, 5)


def spelled() -> tuple[Tensor, int, int]:
    """What makes words of pieces: two words of three pieces, four rows, 6 wide."""
    return torch.arange(6).view(2, 3) // 2, 4, 6


MODELS = {
    LayerNorm: Model(lambda: LayerNorm(4), lambda new, B: (new.vectors(B, 5, 4),)),
    RMSNorm: Model(lambda: RMSNorm(4), lambda new, B: (new.vectors(B, 5, 4),)),
    FeedForward: Model(lambda: FeedForward(4, 6), lambda new, B: (new.vectors(B, 5, 4),)),
    GatedFeedForward: Model(lambda: GatedFeedForward(4, 6), lambda new, B: (new.vectors(B, 5, 4),)),
    GatedActivation: Model(lambda: GatedActivation(4, 6), lambda new, B: (new.vectors(B, 5, 4),)),
    PlacedEmbedding: Model(lambda: PlacedEmbedding(11, 6), lambda new, B: (new.ids(B, 5),)),
    NormedEmbedding: Model(
        lambda: NormedEmbedding(BartConfig(11, 9, 6, 2, 1, 8, 0.0), "The text"), lambda new, B: (new.ids(B, 5),)
    ),
    Encoder: Model(lambda: Encoder(6, 2, 2), lambda new, B: (new.vectors(B, 5, 6), new.allowed(B, 5))),
    OrderModel: Model(lambda: OrderModel(11, 3, d_model=6), lambda new, B: (new.ids(B, 5),)),
    SpanFinder: Model(lambda: SpanFinder(a_bert()), lambda new, B: (new.ids(B, 6), new.ids(B, 6))),
    LeanBert: Model(a_lean_bert, lambda new, B: (new.ids(B, 6), new.ids(B, 6), new.allowed(B, 6))),
    LeanWords: Model(
        lambda: LeanWords(a_lean_bert(rotary=True)), lambda new, B: (new.ids(B, 6), None, new.allowed(B, 6), new.ids(5))
    ),
    Discriminator: Model(lambda: Discriminator(a_lean_bert()), lambda new, B: (new.ids(B, 6), None, new.allowed(B, 6))),
    LayerMix: Model(lambda: LayerMix(3), lambda new, B: ([new.vectors(B, 5, 4) for _ in range(3)],)),
    PatchEmbedding: Model(lambda: PatchEmbedding(1, 2, 4), lambda new, B: (new.vectors(B, 1, 6, 4),)),
    ConvLayer: Model(lambda: ConvLayer(2, 4), lambda new, B: (new.vectors(B, 2, 6, 5),)),
    GridBias: Model(lambda: GridBias(2, 3), lambda new, B: ()),
    WindowAttention: Model(lambda: WindowAttention(6, 2, (4, 6), 2, 1), lambda new, B: (new.vectors(B, 24, 6),)),
    WindowEncoder: Model(lambda: WindowEncoder(6, 2, (4, 6), 2, 2), lambda new, B: (new.vectors(B, 24, 6),)),
    PatchMerging: Model(lambda: PatchMerging(3, (4, 6)), lambda new, B: (new.vectors(B, 24, 3),)),
    Swin: Model(
        lambda: Swin(SwinConfig(4, 1, 3, 6, (2, 1), (1, 2), side=2, channels=1)),
        lambda new, B: (new.vectors(B, 1, 4, 4),),
    ),
    Backbone: Model(lambda: Backbone(1, (2, 4)), lambda new, B: (new.vectors(B, 1, 6, 5),)),
    FrozenNorm: Model(lambda: FrozenNorm(2), lambda new, B: (new.vectors(B, 2, 6, 5),)),
    Residual: Model(lambda: Residual(2, 4, 2, True), lambda new, B: (new.vectors(B, 2, 6, 5),)),
    ResNet: Model(lambda: ResNet(1, 3, (4, 8), (1, 1)), lambda new, B: (new.vectors(B, 1, 40, 36),)),
    PlacedAttention: Model(
        lambda: PlacedAttention(12, 2),
        lambda new, B: (new.vectors(B, 5, 12), new.vectors(5, 12), new.vectors(B, 7, 12), new.vectors(7, 12)),
    ),
    PlacedBlock: Model(
        lambda: PlacedBlock.from_sizes(12, 2, 16), lambda new, B: (new.vectors(B, 5, 12), new.vectors(5, 12))
    ),
    TextTower: Model(lambda: towers()[1], lambda new, B: (ended(new, B),)),
    CLIP: Model(lambda: CLIP(*towers()), lambda new, B: (new.vectors(B, 1, 4, 4), ended(new, B))),
    OneStream: Model(lambda: OneStream(*word_and_patch_sizes(), 2, 1, d_ff=8), words_and_image),
    TwoStreams: Model(lambda: TwoStreams(*word_and_patch_sizes(), 2, 1, d_ff=8), words_and_image),
    OtherBlock: Model(
        lambda: OtherBlock.from_sizes(6, 2),
        lambda new, B: (new.vectors(B, 5, 6), new.vectors(B, 4, 6), new.allowed(B, 4)),
    ),
    SpelledWords: Model(lambda: SpelledWords(*spelled()), lambda new, B: (new.ids(B, 5),)),
    Tower: Model(lambda: Tower(SpelledWords(*spelled()), 5), lambda new, B: (new.ids(B, 5),)),
    Retriever: Model(lambda: Retriever(*spelled(), 5), lambda new, B: (new.ids(B, 5), new.ids(3, 4))),
    Reader: Model(
        lambda: Reader(*spelled(), torch.arange(2), 4),
        lambda new, B: (new.ids(B, 5), new.ids(3, 4), new.ids(B, 2)),
    ),
    LocalHeads: Model(lambda: LocalHeads(6, 2, 2, 1), lambda new, B: (new.vectors(B, 5, 6), None, None, True)),
    LinearHeads: Model(lambda: LinearHeads(6, 2), lambda new, B: (new.vectors(B, 5, 6), None, None, True)),
    DeltaHeads: Model(lambda: DeltaHeads(6, 2), lambda new, B: (new.vectors(B, 5, 6), None, None, True)),
    AllOrders: Model(lambda: AllOrders(11, 9, 6, 2, 2), lambda new, B: (new.ids(B, 5), new.ids(5).argsort())),
}

OWN_CASES = {
    RNN, CharRNN, AdditiveAttention, ConcatAttention, DotAttention, GeneralAttention, SelfAttention, MultiHead, Block,
    SinusoidalPositions, LearnedPositions, RelativeBias, Transformer, GPT, decoder.Decoder, Bert,
    Classifier, Tagger, MaskedWords, ConvNet, ConvStem, ViT, MaskedAutoencoder, LSTM, GRU, Queries, Anchors, DETR,
    HeatMap, LearnedSearch, XLM, Quantiser, VQVAE, HashedHeads, SegmentReader,
}  # fmt: skip

# PyTorch's own LSTM, which is not compiled: lesson 03's translator stands on it, and lesson 11's captioner. Nor is a
# way back that asks autograd itself for gradients, as that of reversible layers does.
NOT_COMPILED = {
    seq2seq.Seq2Seq, seq2seq.Encoder, seq2seq.Decoder, seq2seq.AttentionDecoder, Captioner, ReversibleStack,
}  # fmt: skip

# What is only tried as a part: of Transformer, of one stream and of two.
PARTS = {Decoder, WordsAndImage, CoLayer}
