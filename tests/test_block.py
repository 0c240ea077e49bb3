"""attention/block.py: norm, feed-forward, block and stacks equal to PyTorch's in values and gradients; bad input."""

import pytest
import torch
import torch.nn.functional as F
from parity import TOLERANCE, exact_or_not, shaken
from torch import nn
from torch.testing import assert_close

from course_lib.attention.attention import causal_mask, padding_mask
from course_lib.attention.block import Block, Decoder, Encoder, FeedForward, GatedFeedForward
from course_lib.attention.multi_head import MultiHead
from course_lib.attention.norms import RMSNorm
from course_lib.bert.lean_bert import LeanBertConfig
from course_lib.inputs.sequences import map_state
from course_lib.language.gpt import GPTConfig
from course_lib.show.record import capture
from course_lib.text_to_text.bart import BartConfig
from course_lib.text_to_text.t5 import T5Config
from course_lib.vision.swin import SwinConfig
from course_lib.vision.vit import ViTConfig

before_or_after = pytest.mark.parametrize("pre_norm", [False, True], ids=["post", "pre"])
CONFIGS = [
    GPTConfig(11, 9, 8, 2, 1), LeanBertConfig(11, 9, 8, 2, 2, 4, n_groups=2), ViTConfig(8, 4, 3, 8, 2, 1, d_ff=16),
    SwinConfig(16, 2, 3, 8, (1, 1), (2, 2), 2), BartConfig(11, 9, 8, 2, 1, 16), T5Config(11, 8, 2, 1, 16, 4),
]  # fmt: skip
# B, T, S, heads, width of a head, width inside
SIZES = [(1, 1, 1, 1, 2, 1), (2, 5, 7, 3, 4, 9), (3, 9, 4, 1, 5, 20), (2, 17, 33, 4, 8, 64)]


def drawn(*shape, dtype=torch.float64):
    return torch.randn(*shape, dtype=dtype, requires_grad=True)


def agrees(ours, theirs, leaves, tolerance):
    """Values and gradients, to `tolerance` of a tensor's largest number where that is above 1."""
    assert ours.shape == theirs.shape and ours.dtype == theirs.dtype
    cotangent = torch.randn_like(ours)
    found = [[out, *torch.autograd.grad(out, leaves, cotangent, retain_graph=True)] for out in (ours, theirs)]
    for mine, other in zip(*found, strict=True):
        assert_close(mine, other, atol=tolerance * max(1, other.abs().max().item()), rtol=0)


# --- feed-forward, and what stands around the parts


def test_feed_forward_is_two_matrices_and_a_function_at_each_place_alone():
    """FeedForward, FeedForward.forward: f(x W_1 + b_1) W_2 + b_2, written out."""
    torch.manual_seed(0)
    x = drawn(2, 5, 4)
    for f in (F.relu, F.gelu, torch.tanh):
        layer = FeedForward(4, 7, f).double()
        (w_1, b_1, w_2, b_2), out = layer.parameters(), layer(x)
        assert_close(out, f(x @ w_1.T + b_1) @ w_2.T + b_2, atol=1e-12, rtol=0)
        (grad,) = torch.autograd.grad(out[:, 2].sum(), x)
        assert grad[:, 2].abs().min() > 0 and grad[:, [0, 1, 3, 4]].abs().max() == 0


def test_a_gate_opens_and_closes():
    """GatedFeedForward, GatedFeedForward.forward: by hand, swish(z) = z sigmoid(z) of one product times the other."""
    layer = GatedFeedForward(1, 1)
    for part in layer.parameters():
        nn.init.ones_(part)
    x = torch.tensor([[-2.0], [0.0], [3.0]])
    assert_close(layer(x), x / (1 + torch.exp(-x)) * x)
    assert [name for name, _ in layer.named_parameters()] == ["w_gate.weight", "w_in.weight", "w_out.weight"]


@before_or_after
def test_each_part_is_added_with_its_norm_before_or_after_and_dropout_falls_on_it(pre_norm):
    """Block, Block.forward: x + f(norm(x)) or norm(x + f(x)), part by part, from any parts."""
    torch.manual_seed(0)
    parts = MultiHead(6, 2, n_kv_heads=1), GatedFeedForward(6, 5), MultiHead(6, 3)
    block = shaken(Block(*parts, norm=RMSNorm, dropout=0.5, pre_norm=pre_norm).double())
    x, memory = drawn(2, 3, 6), drawn(2, 4, 6)

    def looked(f, norm, y, dropped=None):
        wanted = f(norm(y)) if pre_norm else f(y)
        if dropped is not None:  # each number is dropped, or doubled
            assert ((dropped == 0) | ((dropped - 2 * wanted).abs() < 1e-12)).all() and (dropped == 0).any()
            wanted = dropped
        return y + wanted if pre_norm else norm(y + wanted)

    def by_hand(dropped=(None, None, None)):
        one = looked(lambda y: parts[0](y, causal=True), block.norm_1, x, dropped[0])
        two = looked(lambda y: parts[2](y, memory), block.norm_cross, one, dropped[1])
        return looked(parts[1], block.norm_2, two, dropped[2])

    block.eval()
    assert_close(block(x, causal=True, memory=memory), by_hand(), atol=1e-12, rtol=0)
    block.train()
    with capture(block, "dropout") as maps:
        out = block(x, causal=True, memory=memory)
    assert_close(out, by_hand(maps["dropout"]), atol=1e-12, rtol=0)


@pytest.mark.parametrize("cross", [False, True])
@pytest.mark.parametrize("stored_as", ["around.{}.norm", "norms.{}"])
def test_weights_stored_under_older_names_are_read(cross, stored_as):
    stack, other = ((Decoder if cross else Encoder)(8, 2, 2, pre_norm=True) for _ in range(2))
    weights = shaken(stack).state_dict()
    order = ["norm_1", "norm_cross", "norm_2"] if cross else ["norm_1", "norm_2"]
    old = {}
    for name, part in weights.items():
        for number, norm in enumerate(order):
            name = name.replace(f".{norm}.", f".{stored_as.format(number)}.")
        old[name] = part
    assert old.keys() != weights.keys() and len(old) == len(weights)
    kept = dict(old)
    other.load_state_dict(old)
    assert all(torch.equal(part, weights[name]) for name, part in other.state_dict().items())
    assert old.keys() == kept.keys()  # what was handed over is as it was
    with pytest.raises(RuntimeError, match="around.7.norm"):
        other.load_state_dict(weights | {"blocks.0.around.7.norm.gain": torch.ones(8)})


# --- the block beside PyTorch's layers


@exact_or_not
@before_or_after
@pytest.mark.parametrize("activation", [F.relu, F.gelu], ids=["relu", "gelu"])
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_the_block_is_torchs_encoder_layer(size, activation, pre_norm, dtype):
    """Block, Block.forward, Block.from_torch: beside nn.TransformerEncoderLayer, with masks of every kind."""
    B, T, _, H, d, d_ff = size
    torch.manual_seed(0)
    options = {"dropout": 0.0, "activation": activation, "batch_first": True, "norm_first": pre_norm, "dtype": dtype}
    theirs = shaken(nn.TransformerEncoderLayer(H * d, H, d_ff, **options, layer_norm_eps=1e-4))
    ours, x = Block.from_torch(theirs), drawn(B, T, H * d, dtype=dtype)
    real, causal = padding_mask(torch.randint(1, T + 1, (B,)), T), causal_mask(T)
    agrees(ours(x), theirs(x), [x], TOLERANCE[dtype])
    agrees(ours(x, real), theirs(x, src_key_padding_mask=~real), [x], TOLERANCE[dtype])
    agrees(ours(x, causal=True), theirs(x, src_mask=~causal), [x], TOLERANCE[dtype])
    both = theirs(x, src_mask=~causal, src_key_padding_mask=~real)
    agrees(ours(x, real, causal=True), both, [x], TOLERANCE[dtype])
    with capture(ours, "attention.weights"):
        agrees(ours(x, real, causal=True), both, [x], TOLERANCE[dtype])


@exact_or_not
@before_or_after
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_the_block_is_torchs_decoder_layer(size, pre_norm, dtype):
    B, T, S, H, d, d_ff = size
    torch.manual_seed(0)
    options = {"dropout": 0.0, "batch_first": True, "norm_first": pre_norm, "dtype": dtype}
    theirs = shaken(nn.TransformerDecoderLayer(H * d, H, d_ff, **options))
    ours, x, memory = Block.from_torch(theirs), drawn(B, T, H * d, dtype=dtype), drawn(B, S, H * d, dtype=dtype)
    real, causal = padding_mask(torch.randint(1, S + 1, (B,)), S), causal_mask(T)
    expected = theirs(x, memory, tgt_mask=~causal, memory_key_padding_mask=~real)
    agrees(ours(x, causal=True, memory=memory, memory_mask=real), expected, [x, memory], TOLERANCE[dtype])
    with capture(ours, "*.weights") as maps:
        agrees(ours(x, causal=True, memory=memory, memory_mask=real), expected, [x, memory], TOLERANCE[dtype])
    assert maps["attention.weights"][0].shape == (B, H, T, T) and maps["cross.weights"][0].shape == (B, H, T, S)
    rows = torch.rand(B, T, S) < 0.7
    rows[..., 0] = True
    theirs_rows = theirs(x, memory, memory_mask=~rows.repeat_interleave(H, dim=0))
    agrees(ours(x, memory=memory, memory_mask=rows), theirs_rows, [x, memory], TOLERANCE[dtype])


@pytest.mark.parametrize("kind", [nn.TransformerEncoderLayer, nn.TransformerDecoderLayer])
def test_the_gradients_of_the_weights_are_torchs_too(kind):
    torch.manual_seed(0)
    theirs = shaken(kind(8, 2, 16, dropout=0.0, batch_first=True).double())
    ours, x, memory = Block.from_torch(theirs), drawn(3, 5, 8), drawn(3, 4, 8)
    cross = kind is nn.TransformerDecoderLayer
    ours(x, memory=memory if cross else None).square().sum().backward()
    theirs(*(x, memory)[: 1 + cross]).square().sum().backward()
    for mine, other in [(ours.attention, theirs.self_attn), (ours.cross, getattr(theirs, "multihead_attn", None))]:
        if other is None:
            continue
        packed = torch.cat([part.weight.grad for part in (mine.w_q, mine.w_k, mine.w_v)])
        assert_close(packed, other.in_proj_weight.grad, atol=1e-10, rtol=1e-10)
        assert_close(mine.w_o.weight.grad, other.out_proj.weight.grad, atol=1e-10, rtol=1e-10)
    norms = [part for name, part in theirs.named_children() if name.startswith("norm")]
    mine = [ours.norm_1, ours.norm_cross, ours.norm_2] if cross else [ours.norm_1, ours.norm_2]
    for own, norm in zip(mine, norms, strict=True):
        assert_close((own.gain.grad, own.shift.grad), (norm.weight.grad, norm.bias.grad))
    for mine, other in ((ours.feed_forward.w_1, theirs.linear1), (ours.feed_forward.w_2, theirs.linear2)):
        assert_close((mine.weight.grad, mine.bias.grad), (other.weight.grad, other.bias.grad))


def test_a_copied_block_is_in_the_mode_of_its_model_and_has_its_dropout():
    theirs = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.3).eval()
    ours = Block.from_torch(theirs)
    assert not ours.training and ours.dropout.p == 0.3


# --- stacks


@before_or_after
def test_a_stack_is_torchs(pre_norm):
    """Encoder, Decoder, Encoder.forward, Decoder.forward: block after block; a norm more at the end with pre-norm."""
    torch.manual_seed(0)
    x, memory, real = drawn(2, 6, 8), drawn(2, 5, 8), padding_mask([3, 5], 5)
    options = {"dropout": 0.0, "batch_first": True, "norm_first": pre_norm, "dtype": torch.float64}
    for cross in (False, True):
        layer = (nn.TransformerDecoderLayer if cross else nn.TransformerEncoderLayer)(8, 2, 16, **options)
        last = shaken(nn.LayerNorm(8, dtype=torch.float64)) if pre_norm else None
        if cross:
            theirs, ours = nn.TransformerDecoder(layer, 3, last), Decoder(8, 2, 3, d_ff=16, pre_norm=pre_norm).double()
        else:
            theirs = nn.TransformerEncoder(layer, 3, last, enable_nested_tensor=False)
            ours = Encoder(8, 2, 3, d_ff=16, pre_norm=pre_norm).double()
        for weight in theirs.layers.parameters():
            nn.init.normal_(weight, std=weight.shape[-1] ** -0.5)
        ours.blocks = nn.ModuleList(map(Block.from_torch, theirs.layers))
        if pre_norm:
            ours.norm.load_state_dict({"gain": last.weight, "shift": last.bias})
        if cross:
            expected = theirs(x, memory, tgt_mask=~causal_mask(6), memory_key_padding_mask=~real)
            agrees(ours(x, memory, real), expected, [x, memory], 1e-10)
        else:
            agrees(ours(memory, real), theirs(memory, src_key_padding_mask=~real), [memory], 1e-10)


@exact_or_not
@before_or_after
def test_a_later_place_changes_nothing_before_it_through_a_whole_decoder(pre_norm, dtype):
    torch.manual_seed(0)
    decoder, memory = Decoder(16, 4, 3, pre_norm=pre_norm).to(dtype), torch.randn(2, 9, 16, dtype=dtype)
    x = torch.randn(2, 40, 16, dtype=dtype)
    changed = x.clone()
    changed[:, 23:] = torch.randn(2, 17, 16, dtype=dtype)
    assert torch.equal(decoder(changed, memory)[:, :23], decoder(x, memory)[:, :23])
    assert not torch.equal(decoder(changed, memory)[:, 23:], decoder(x, memory)[:, 23:])
    with capture(decoder, "*.weights"):
        assert (decoder(changed, memory)[:, :23] - decoder(x, memory)[:, :23]).abs().max() <= 1e-6


@before_or_after
def test_padding_may_hold_anything_and_an_empty_row_stays_finite(pre_norm):
    torch.manual_seed(0)
    encoder, x, real = Encoder(8, 2, 2, pre_norm=pre_norm).double(), drawn(3, 5, 8), padding_mask([5, 2, 0], 5)
    out = encoder(x, real)
    other = encoder(torch.where(real[..., None], x, 1e4), real)
    assert_close(other[real], out[real], atol=1e-12, rtol=0)
    grads = torch.autograd.grad(out.sum(), [x, *encoder.parameters()])
    assert all(part.isfinite().all() for part in (out, *grads))


@before_or_after
@pytest.mark.parametrize("cuts", [[1] * 5, [2, 3], [4, 1]], ids=str)
def test_a_decoders_cache_gives_what_the_whole_text_gives(pre_norm, cuts):
    torch.manual_seed(0)
    decoder, x, memory = Decoder(8, 2, 3, pre_norm=pre_norm).double(), drawn(2, 5, 8), drawn(2, 4, 8)
    real, cache = padding_mask([4, 1], 4), [{} for _ in range(3)]
    parts = [decoder(part, memory, real, cache) for part in x.split(cuts, dim=1)]
    assert_close(torch.cat(parts, dim=1), decoder(x, memory, real), atol=1e-12, rtol=0)
    shapes = map_state(cache, lambda part: part.shape)
    assert shapes == [{"own": dict.fromkeys("kv", (2, 2, 5, 4)), "memory": dict.fromkeys("kv", (2, 2, 4, 4))}] * 3


@pytest.mark.parametrize(
    "wrong, error, words",
    [
        (lambda x: Block.from_sizes(8, 2)(x, memory=x), ValueError, "has cross=True. to hand"),
        (lambda x: Block.from_sizes(8, 2, cross=True)(x), ValueError, "looks at a memory"),
        (lambda x: Block.from_sizes(8, 3), ValueError, "multiple of n_heads"),
        (lambda x: FeedForward(7, 8)(x), ValueError, r"FeedForward needs x \(..., 7\); got"),
        (lambda x: GatedFeedForward(7, 8)(x), ValueError, r"GatedFeedForward needs x \(..., 7\); got"),
        (lambda x: Encoder(8, 2, 1)(x, ~causal_mask(5)[None]), ValueError, "Hand over ~mask"),
        (lambda x: Block.from_torch(nn.MultiheadAttention(8, 2)), TypeError, "got MultiheadAttention"),
        (lambda x: Block.from_torch(nn.TransformerEncoderLayer(8, 2, bias=False)), ValueError, "bias=True"),
    ],
)
def test_bad_input_is_refused_in_words(wrong, error, words):
    with pytest.raises(error, match=words):
        wrong(torch.randn(2, 5, 8))
