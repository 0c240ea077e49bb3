"""torch.compile reads every module that trains, whole, and does not start again for another batch size.

All but LSTM and GRU: PyTorch does not compile its own layers, in which their weights lie, unless asked to; then their
`loop` compiles. What follows the reading is PyTorch's business, and takes minutes: of the step backwards two models are
a sample, and the last stage, which writes code, is left out. `make test` gives up most of it, to stay under a minute:
it reads the GPT, the BERT, MultiHead, the recurrent layer and a ViT on a convolutional stem; `make test-all` reads all.
"""

from functools import partial

import pytest
import torch
from models import MODELS, New
from torch import nn
from torch.testing import assert_close

from course_lib.attention.attention import (
    AdditiveAttention,
    ConcatAttention,
    DotAttention,
    GeneralAttention,
    SelfAttention,
    attend,
    causal_mask,
)
from course_lib.attention.block import Block, Encoder, FeedForward, GatedFeedForward
from course_lib.attention.multi_head import MultiHead
from course_lib.attention.norms import LayerNorm, RMSNorm
from course_lib.attention.positions import (
    LearnedPositions,
    RelativeBias,
    SinusoidalPositions,
    alibi_bias,
    clipped_bucket,
    rotate,
    t5_bucket,
)
from course_lib.attention.transformer import PlacedEmbedding, Transformer
from course_lib.bert.bert import Bert, BertConfig
from course_lib.bert.bert_heads import Classifier, MaskedWords, Tagger
from course_lib.bert.lean_bert import LeanBert
from course_lib.bert.xlm import XLM
from course_lib.detection.detr import DETR, Anchors, Backbone, PlacedAttention, PlacedBlock, Queries
from course_lib.detection.heat_map import HeatMap, heat_loss
from course_lib.detection.resnet import FrozenNorm, Residual, ResNet
from course_lib.detection.set_loss import loss_given
from course_lib.language.decoder import Decoder, DecoderConfig
from course_lib.language.gpt import GPT, GPTConfig
from course_lib.long_context.hashing import HashedHeads
from course_lib.long_context.segments import SegmentConfig, SegmentReader
from course_lib.multimodal.clip import TextTower
from course_lib.multimodal.contrastive import contrastive_loss
from course_lib.multimodal.quantiser import Quantiser
from course_lib.multimodal.two_streams import OtherBlock
from course_lib.multimodal.vq_vae import VQVAE
from course_lib.multimodal.words_then_codes import codes_loss
from course_lib.recurrent.language_model import CharRNN
from course_lib.recurrent.lstm import GRU, LSTM
from course_lib.recurrent.rnn import RNN
from course_lib.retrieval.learned_search import LearnedSearch, Reader, Retriever, SpelledWords, Tower
from course_lib.retrieval.marginal import lift, log_marginal
from course_lib.text.pairs import masked_loss
from course_lib.vision.convnet import ConvLayer, ConvNet, ConvStem
from course_lib.vision.masked_patches import MaskedAutoencoder, draw_seen
from course_lib.vision.patches import PatchEmbedding
from course_lib.vision.swin import PatchMerging
from course_lib.vision.vit import ViT, ViTConfig
from course_lib.vision.windows import GridBias, WindowAttention

pytestmark = pytest.mark.slow  # compiling is a minute: `make test-fast` leaves it out

SIZES = (8, 9)  # of a batch; no other size is the same, for the compiler takes equal sizes for one
LENGTHS = (10, 13)  # of a text, where it may change too


@pytest.fixture(autouse=True)
def anew():
    torch.manual_seed(0)
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def gradients(run, x):
    """Everything that comes out of `run`, and the gradients that go back to x and to the weights of a module."""
    outs = [part for part in run(*x) if part is not None]
    leaves = [leaf for leaf in x if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
    leaves += list(run.parameters()) if isinstance(run, nn.Module) else []
    loss = sum(out.square().sum() for out in outs)  # a weight that has no part in it: zeros, in both
    return [*outs, *torch.autograd.grad(loss, leaves, allow_unused=True, materialize_grads=True)]


def compiles(run, *inputs, backend="eager"):
    """`run` is read in one piece, and once for all batch sizes; and what is read so gives the numbers of `run`."""
    compiled = torch.compile(run, fullgraph=True, dynamic=True, backend=backend)
    for n, x in enumerate(inputs):
        with torch._dynamo.config.patch(error_on_recompile=n > 0):
            found, expected = gradients(compiled, x), gradients(run, x)
        for one, other in zip(found, expected, strict=True):
            assert_close(one, other, atol=1e-10, rtol=0)


class One(nn.Module):
    """A module that gives one tensor, as a module that gives a list of one."""

    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, *x):
        return [self.module(*x)]


def vectors(*shape):
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


REAL = New(vectors, lambda *shape: torch.randint(2, shape), lambda *shape: torch.rand(shape) < 0.7)


# Each is a part of another model that is read here.
WITHIN = {
    LayerNorm, RMSNorm, FeedForward, GatedFeedForward, PlacedEmbedding, Encoder, LeanBert, PatchEmbedding, ConvLayer,
    GridBias, WindowAttention, PatchMerging, Backbone, FrozenNorm, Residual, PlacedAttention, PlacedBlock, TextTower,
    OtherBlock, SpelledWords, Tower, Retriever, Reader,
}  # fmt: skip


def in_full(*values):
    """A case for `make test-all`."""
    return pytest.param(*values, marks=pytest.mark.full)


def test_what_is_read_within_another_model_is_a_part_of_it():
    words = torch.arange(8)[:, None], 8, 6
    wholes = [MODELS[kind].make() for kind in MODELS if kind not in WITHIN] + [
        Transformer(11, 13, 8, 2, n_layers=1),
        Decoder(DecoderConfig(31, 20, 8, 4, 1, 12, n_kv_heads=2)),
        DETR(Backbone(1, (2, 4)), Anchors(3, 8, 2), 5, d_model=8, n_heads=2, n_encoder=1, d_ff=12),
        LearnedSearch(Retriever(*words, 5), Reader(*words, torch.tensor([1, 2]), 4)),
    ]
    assert WITHIN <= {type(part) for whole in wholes for part in whole.modules()}


@pytest.mark.full
@pytest.mark.parametrize(
    "kind", [in_full(kind) if kind in WITHIN else kind for kind in MODELS], ids=[kind.__name__ for kind in MODELS]
)
def test_a_model_of_the_list(kind):
    model = MODELS[kind]
    compiles(One(model.make().double()), *[model.given(REAL, b) for b in SIZES])


@pytest.mark.parametrize("n_layers", [in_full(1), 2])
def test_rnn(n_layers):
    compiles(RNN(3, 4, n_layers).double(), *[(vectors(b, 5, 3), vectors(n_layers, b, 4)) for b in SIZES])


@pytest.mark.full
def test_a_character_model():
    compiles(CharRNN(7, RNN(6, 8)).double(), *[(torch.randint(7, (b, 5)),) for b in SIZES])


@pytest.mark.full
@pytest.mark.parametrize("kind", [AdditiveAttention, DotAttention, GeneralAttention, ConcatAttention])
def test_attention(kind):
    some = [(vectors(b, 5, 4), vectors(b, 6, 4), vectors(b, 6, 3), torch.rand(b, 6) < 0.7) for b in SIZES]
    compiles(kind(4, 4).double(), *some)


@pytest.mark.full
def test_attend():
    mask = causal_mask(5)
    compiles(lambda q, k, v: attend(q, k, v, mask), *[[vectors(b, 5, 4) for _ in range(3)] for b in SIZES])


@pytest.mark.full
@pytest.mark.parametrize("turn", [None, rotate])
def test_self_attention(turn):
    layer, sizes = SelfAttention(4, 6, turn).double(), list(zip(SIZES, LENGTHS, strict=True))
    if turn is None:
        some = [(vectors(b, t, 4), torch.rand(b, t) < 0.7) for b, t in sizes]
    else:
        some = [(vectors(b, t, 4), causal_mask(t)[None], vectors(t, t)) for b, t in sizes]
    compiles(layer, *some)


@pytest.mark.parametrize(
    ("mask", "causal"),
    [
        ("padding", True),
        *map(in_full, (None, None, "rows", "padding", "rows"), (False, True, True, False, False)),
    ],
)
def test_multi_head(mask, causal):
    layer, some = MultiHead(4, 2).double(), []
    for b, t in zip(SIZES, LENGTHS, strict=True):
        shape = {"padding": (b, t), "rows": (b, t, t)}.get(mask)
        some.append((vectors(b, t, 4), None, shape and torch.rand(shape) < 0.7, causal))
    compiles(One(layer), *some)


VARIED = {
    "turn": lambda: {"turn": rotate},
    "relative": lambda: {"position_bias": RelativeBias(t5_bucket, 32, 4)},
    "window": lambda: {"window": 2},
    "groups": lambda: {"n_kv_heads": 2},
    "all": lambda: VARIED["turn"]() | VARIED["relative"]() | {"window": 3, "n_kv_heads": 1, "d_k": 6, "d_v": 3},
}


@pytest.mark.full
@pytest.mark.parametrize("how", [how if how == "all" else in_full(how) for how in VARIED])
def test_multi_head_varied(how):
    layer, some = MultiHead(16, 4, **VARIED[how]()).double(), []
    for b, t in zip(SIZES, LENGTHS, strict=True):
        some.append((vectors(b, t, 16), None, torch.arange(t) >= torch.randint(t, (b, 1)), True))
    compiles(One(layer), *some)


@pytest.mark.full
@pytest.mark.parametrize("heard", [in_full(False), True])
def test_a_gpt_varied(heard):
    model = GPT(GPTConfig(11, 20, 8, 4, n_layers=1), **VARIED["all"]()).double()
    if heard:
        model.blocks[0].attention.weights.register_forward_hook(lambda module, seen, weights: weights * 2)
    compiles(One(model), *[(torch.randint(11, (b, t)), None) for b, t in zip(SIZES, LENGTHS, strict=True)])


@pytest.mark.full
def test_multi_head_that_is_heard():
    """Whoever listens before the compiler reads the layer is in its graph; who comes later, PyTorch leaves out."""
    layer = MultiHead(4, 2).double()
    layer.weights.register_forward_hook(lambda module, seen, weights: weights * 2)
    compiles(One(layer), *[(vectors(b, t, 4),) for b, t in zip(SIZES, LENGTHS, strict=True)])


@pytest.mark.full
@pytest.mark.parametrize("pre_norm", [in_full(False), True])
def test_a_block_that_looks_at_a_memory(pre_norm):
    block = Block.from_sizes(4, 2, pre_norm=pre_norm, cross=True).double()
    some = [
        (vectors(b, t, 4), None, True, vectors(b, 7, 4), torch.rand(b, 7) < 0.7)
        for b, t in zip(SIZES, LENGTHS, strict=True)
    ]
    compiles(One(block), *some)


@pytest.mark.full
def test_a_transformer():
    model = Transformer(11, 13, 8, 2, n_layers=1).double()

    class Logits(nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, source, lengths, target_in):
            return [self.model(source, lengths, target_in)[0]]

    some = [(torch.randint(1, 11, (b, 6)), torch.randint(1, 7, (b,)), torch.randint(13, (b, 5))) for b in SIZES]
    compiles(Logits(), *some)


@pytest.mark.full
@pytest.mark.parametrize("kind", [Encoder, ResNet], ids=lambda kind: kind.__name__)
def test_the_step_backwards(kind):
    """Forwards and backwards as one graph, of sizes that are not known."""
    model = MODELS[kind]
    compiles(One(model.make().double()), *[model.given(REAL, b) for b in SIZES], backend="aot_eager")


@pytest.mark.parametrize("padded", [in_full(False), True])
def test_a_gpt(padded):
    model, some = GPT(GPTConfig(11, 20, 8, 2, n_layers=1)).double(), []
    for b, t in zip(SIZES, LENGTHS, strict=True):
        mask = torch.arange(t) >= torch.randint(t, (b, 1)) if padded else None
        some.append((torch.randint(11, (b, t)), mask))
    compiles(One(model), *some, backend="eager" if padded else "aot_eager")


@pytest.mark.parametrize(
    "make",
    [lambda: SinusoidalPositions(4), lambda: SinusoidalPositions(4, ready=3), lambda: LearnedPositions(20, 4)],
    ids=["ready", "computed", "learned"],
)
def test_positions_that_are_added(make):
    module = make().double()
    compiles(One(module), *[(vectors(b, t, 4),) for b, t in zip(SIZES, LENGTHS, strict=True)])


@pytest.mark.full
def test_positions_that_run_out_of_the_table():
    """A longer text than the table is another way through the module: compiled whole, once more."""
    module = SinusoidalPositions(4, ready=6).double()
    compiled = torch.compile(module, fullgraph=True, dynamic=True, backend="eager")
    for T in (5, 6, 7, 11, 4):
        x = vectors(2, T, 4)
        assert_close(compiled(x), module(x), atol=1e-12, rtol=0)


@pytest.mark.full
@pytest.mark.parametrize("pairing", ["neighbours", "halves"])
def test_places_that_are_handed_over(pairing):
    some = [(vectors(b, t, 4), torch.rand(b, t) * 50) for b, t in zip(SIZES, LENGTHS, strict=True)]
    compiles(lambda x, places: [rotate(x, places, pairing=pairing)], *some)


@pytest.mark.full
@pytest.mark.parametrize("bucket, n_buckets", [(t5_bucket, 32), (partial(clipped_bucket, max_distance=3), 7)])
def test_biases(bucket, n_buckets):
    module = RelativeBias(bucket, n_buckets, 2).double()

    def biased(scores):
        T_q, T_k = scores.shape[-2:]
        return [scores + module(T_q, T_k) + alibi_bias(2, T_q, scores.dtype)[..., :T_k]]

    compiles(biased, *[(vectors(2, t, t - 2),) for t in LENGTHS])


def read(b, t, padded):
    mask = torch.arange(t) < torch.randint(1, t + 1, (b, 1)) if padded else None
    return torch.randint(11, (b, t)), torch.randint(2, (b, t)), mask


@pytest.mark.parametrize("padded", [in_full(False), True])
def test_a_bert(padded):
    model = Bert(BertConfig(11, 20, 8, 2, 1, 0.0, pooler=False)).double()
    compiles(One(model), *[read(b, t, padded) for b, t in zip(SIZES, LENGTHS, strict=True)])


@pytest.mark.full
@pytest.mark.parametrize("head", [in_full("one"), in_full("tags"), "words"])
def test_heads_of_a_bert(head):
    bert = Bert(BertConfig(11, 20, 8, 2, 1, 0.0, pooler=head == "one"))
    make = {"one": lambda: Classifier(bert, 3), "tags": lambda: Tagger(bert, 3), "words": lambda: MaskedWords(bert)}
    compiles(One(make[head]().double()), *[read(b, t, True) for b, t in zip(SIZES, LENGTHS, strict=True)])


@pytest.mark.full
@pytest.mark.parametrize("tell", [in_full(False), True])
def test_an_xlm(tell):
    model = XLM(BertConfig(11, 20, 8, 2, 1, 0.0, pooler=False), tell).double()
    compiles(One(model), *[read(b, t, True) for b, t in zip(SIZES, LENGTHS, strict=True)])


@pytest.mark.full
@pytest.mark.parametrize("padded", [in_full(False), True])
def test_a_decoder(padded):
    model, some = Decoder(DecoderConfig(31, 20, 8, 4, 1, 12, n_kv_heads=2)).double(), []
    for b, t in zip(SIZES, LENGTHS, strict=True):
        mask = torch.arange(t) >= torch.randint(t, (b, 1))
        some.append((torch.randint(31, (b, t)), mask if padded else None))
    compiles(One(model), *some)


@pytest.mark.parametrize(
    "make",
    [
        in_full(lambda: ViT(ViTConfig(6, 2, 5, 4, 2, 1, channels=1))),
        in_full(lambda: ViT(ViTConfig((5, 6), 2, 5, 4, 2, 1, channels=1, pad=True))),
        lambda: ViT(ViTConfig(6, 2, 5, 4, 2, 1, channels=1), ConvStem(1, 2, 4)),
        in_full(lambda: ConvNet(1, 5, 2)),
    ],
    ids=["vit", "padded", "stem", "convolutional"],
)
def test_a_model_of_images(make):
    model = make().double()
    sides = model.config.size if isinstance(model, ViT) else (6, 6)
    compiles(One(model), *[(vectors(b, 1, *sides),) for b in SIZES])


@pytest.mark.full
@pytest.mark.parametrize("anchors", [True, in_full(False)])
def test_a_detector_that_answers_with_a_set(anchors):
    class AllLayers(nn.Module):
        def __init__(self):
            super().__init__()
            queries = Anchors(3, 8, 2) if anchors else Queries(3, 8)
            self.model = DETR(Backbone(1, (2, 4)), queries, 5, d_model=8, n_heads=2, n_encoder=1, d_ff=12)

        def forward(self, images):
            return [part for layer in self.model.layers(images) for part in layer]

    compiles(AllLayers().double(), *[(vectors(b, 1, 6, 7),) for b in SIZES])


@pytest.mark.full
def test_a_detector_on_a_grid():
    compiles(HeatMap(Backbone(1, (2, 4)), 5, 6).double(), *[(vectors(b, 1, 6, 7),) for b in SIZES])


@pytest.mark.full
def test_heads_that_draw_their_rounds():
    """HashedHeads draws at every call: read or not, from the same seed it draws the same."""
    layer = One(HashedHeads(6, 2, n_rounds=2, n_buckets=4, chunk=3).double())
    compiled = torch.compile(layer, fullgraph=True, dynamic=True, backend="eager")
    for n, b in enumerate(SIZES):
        x, found = (vectors(b, 7, 6), None, None, True), []
        for run in (compiled, layer):
            torch.manual_seed(1)
            with torch._dynamo.config.patch(error_on_recompile=n > 0):
                found.append(gradients(run, x))
        for one, other in zip(*found, strict=True):
            assert_close(one, other, atol=1e-10, rtol=0)


@pytest.mark.full
@pytest.mark.parametrize("relative", [True, False])
def test_a_reader_of_segments(relative):
    """The first segment of a text."""

    class Read(nn.Module):
        def __init__(self):
            super().__init__()
            self.model = SegmentReader(SegmentConfig(11, 8, 2, 2, memory=3, relative=relative)).double()

        def forward(self, ids):
            logits, memory = self.model(ids)
            return [logits, *memory]

    compiles(Read(), *[(torch.randint(11, (b, 5)),) for b in SIZES])


@pytest.mark.full
def test_losses_of_detectors():
    def losses(logits, boxes, labels, truth, given):
        return [loss_given(given, logits, boxes, labels, truth)[None], heat_loss(logits, boxes, labels, truth, 3)[None]]

    some = [(vectors(b, 9, 5), vectors(b, 9, 4), torch.randint(4, (b, 2)), torch.rand(b, 2, 4, dtype=torch.float64),
             torch.randint(-1, 2, (b, 9))) for b in SIZES]  # fmt: skip
    compiles(losses, *some)


def test_the_contrastive_loss():
    some = [(vectors(b, 11), torch.ones(b, 11, dtype=torch.bool)) for b in SIZES]
    compiles(lambda scores, right: [contrastive_loss(scores, right)[None]], *some)


@pytest.mark.full
@pytest.mark.parametrize("kept", [False, True])
def test_a_search_that_is_learned(kept):
    class Answered(nn.Module):
        """Questions to log p of the answers, by three passages of five."""

        def __init__(self):
            super().__init__()
            words = torch.arange(8)[:, None], 8, 6
            self.model = LearnedSearch(Retriever(*words, 5), Reader(*words, torch.tensor([1, 2]), 4))

        def forward(self, questions, passages, index):
            log_z, log_y, _ = self.model(questions, passages, 3, index)
            return [log_marginal(log_z, log_y), lift(log_z, log_y[..., 0])]

    some = [(torch.randint(8, (b, 6)), torch.randint(8, (5, 4)), vectors(5, 5).detach() if kept else None)
            for b in SIZES]  # fmt: skip
    compiles(Answered().double(), *some)


@pytest.mark.full
def test_masked_patches():
    class Painted(nn.Module):
        def __init__(self):
            super().__init__()
            self.model = MaskedAutoencoder(ViT(ViTConfig(6, 2, 5, 4, 2, 1, channels=1)), 4, 2)

        def forward(self, images, seen):
            return [self.model(images, seen), self.model.loss(images, seen)[None], self.model.vit(images)]

    compiles(Painted().double(), *[(vectors(b, 1, 6, 6), draw_seen(b, 9, 0.6)) for b in SIZES])


@pytest.mark.full
def test_vectors_and_images_as_codes():
    """Also while shares are counted: what is counted is no answer, and it is counted."""

    class Coded(nn.Module):
        def __init__(self):
            super().__init__()
            self.model = VQVAE(7, 3, 2, 2)

        def forward(self, images):
            return [*self.model(images), self.model.loss(images)[None]]

    for run, inputs in (
        (Quantiser(7, 3).double(), [(vectors(b, 5, 3),) for b in SIZES]),
        (Coded().double(), [(vectors(b, 1, 12, 16),) for b in SIZES]),
    ):
        compiles(run, *inputs)
        share = dict(run.named_buffers()).popitem()[1]
        assert not torch.equal(share, torch.ones_like(share))


@pytest.mark.full
def test_the_loss_of_codes_behind_words():
    model = GPT(GPTConfig(11, 13, 6, 2, 1)).double()
    rows = [(torch.randint(11, (b, 12)),) for b in SIZES]

    class Asked(nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, rows):
            return [codes_loss(self.model, rows, 4)]

    compiles(Asked(), *rows)


def test_masked_loss():
    some = [(vectors(b, 5, 9), torch.randint(9, (b, 5))) for b in SIZES]
    compiles(lambda logits, target: [masked_loss(logits, target, smoothing=0.1)], *some)


@pytest.mark.full
@pytest.mark.parametrize("kind, n_states", [(LSTM, 2), (GRU, 1)])
def test_gated_layers_step_by_step(kind, n_states):
    class Loop(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = kind(3, 4, bidirectional=True).double()

        def forward(self, x, *state):
            out, last = self.layer.loop(x, state if n_states == 2 else state[0])
            return out, *(last if n_states == 2 else (last,))

    with torch._dynamo.config.patch(allow_rnn=True):  # the weights lie in an nn.LSTM or nn.GRU, which is not called
        compiles(Loop(), *[(vectors(b, 4, 3), *(vectors(2, b, 4) for _ in range(n_states))) for b in SIZES])


def test_a_value_that_would_be_looked_at_is_seen():
    """The instrument itself: a check of values in the middle breaks the graph."""

    def looks(x):
        if not torch.isfinite(x).all():
            raise ValueError
        return (2 * x,)

    with pytest.raises(torch._dynamo.exc.Unsupported, match="[Dd]ata-dependent"):
        compiles(looks, (vectors(3),))
