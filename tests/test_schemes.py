"""Lesson 05's schemes of positions inside the Transformer and inside GPT: equal to `attend`, and they learn.

One argument each: a turn of queries and keys (rotary), a bias on the scores (T5's, ALiBi's), and beside them a window
and groups of keys and values.
"""

from functools import partial

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from course_lib.attention.attention import attend, causal_mask, padding_mask
from course_lib.attention.block import Encoder
from course_lib.attention.multi_head import MultiHead
from course_lib.attention.positions import RelativeBias, clipped_bucket, rotate, t5_bucket
from course_lib.attention.transformer import Transformer
from course_lib.inputs.sequences import select_rows
from course_lib.language.gpt import GPT, GPTConfig
from course_lib.language.next_token import next_token_loss
from course_lib.show.record import capture
from course_lib.text.pairs import masked_loss, shift


def relative(n_heads, bucket=t5_bucket, n_buckets=32):
    """T5's bias with numbers drawn: at 0, as it begins, it would not show where it is left out."""
    bias = RelativeBias(bucket, n_buckets, n_heads)
    nn.init.normal_(bias.bias.weight)
    return bias


# scheme -> n_heads -> what `MultiHead` is handed
SCHEMES = {
    "rotary": lambda H: {"turn": rotate},
    "rotary, halves": lambda H: {"turn": partial(rotate, base=500.0, pairing="halves")},
    "relative": lambda H: {"position_bias": relative(H)},
    "shaw": lambda H: {"position_bias": relative(H, partial(clipped_bucket, max_distance=3), 7)},
    "window": lambda H: {"window": 3},
    "groups": lambda H: {"n_kv_heads": H // 2},
    "all": lambda H: {"turn": rotate, "position_bias": relative(H), "window": 4, "n_kv_heads": 1, "d_k": 6, "d_v": 3},
}
each_scheme = pytest.mark.parametrize("scheme", SCHEMES)
TOLD = ("rotary", "relative")  # those that tell the order
# B, T, heads, width of a head: one of everything, odd lengths, more heads than places
SIZES = [(1, 1, 2, 2), (2, 5, 4, 2), (3, 17, 2, 6), (2, 3, 8, 4), (1, 40, 4, 8)]


def made(scheme, H, d):
    layer = MultiHead(H * d, H, **SCHEMES[scheme](H)).double()
    for part in (layer.w_q, layer.w_k, layer.w_v, layer.w_o):
        nn.init.normal_(part.bias)
    return layer


def by_hand(layer, x, places, allowed=None):
    """Concat(head_1 ... head_H) W_o, a head at a time with `attend`; places (B, T), allowed bool (B, T, T) or None."""
    H, shared_by, outs = layer.n_heads, layer.n_heads // layer.n_kv_heads, []
    for h in range(H):
        parts = []
        for part, head in ((layer.w_q, h), (layer.w_k, h // shared_by), (layer.w_v, h // shared_by)):
            width = part.out_features // (H if part is layer.w_q else layer.n_kv_heads)
            rows = slice(head * width, (head + 1) * width)
            parts.append(x @ part.weight[rows].T + part.bias[rows])
        q, k, v = parts
        if layer.turn is not None:
            q, k = (layer.turn(part, places) for part in (q, k))
        added = None if layer.position_bias is None else numbers(layer.position_bias, places)[:, h]
        outs.append(attend(q, k, v, allowed, added)[0])
    return torch.cat(outs, dim=-1) @ layer.w_o.weight.T + layer.w_o.bias


def numbers(bias, places):
    """(B, H, T, T), entry by entry from the distance of two places, without the modules' own forward."""
    distance = places[:, None, :] - places[:, :, None]  # (B, T, T)
    return bias.bias.weight[bias.bucket(distance)].permute(0, 3, 1, 2)


def near(T, window, causal):
    distance = torch.arange(T) - torch.arange(T)[:, None]
    seen = torch.ones(T, T, dtype=torch.bool) if window is None else distance.abs() < window
    return seen & causal_mask(T) if causal else seen


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("masked", ["none", "padding", "rows"])
@pytest.mark.parametrize("size", SIZES, ids=str)
@each_scheme
def test_each_scheme_is_attend_head_by_head(scheme, size, masked, causal):
    """MultiHead: values and gradients of every weight, fused and heard, a row that may see nothing too."""
    B, T, H, d = size
    torch.manual_seed(0)
    layer, x = made(scheme, H, d), torch.randn(B, T, H * d, dtype=torch.float64, requires_grad=True)
    mask = {"none": None, "padding": padding_mask(torch.randint(T + 1, (B,)), T), "rows": torch.rand(B, T, T) < 0.6}
    mask = mask[masked]
    allowed = near(T, layer.window, causal).expand(B, T, T)
    if mask is not None:
        allowed = allowed & (mask[:, None] if mask.ndim == 2 else mask)
    wanted = by_hand(layer, x, torch.arange(T).expand(B, T), allowed)
    wanted = wanted.masked_fill(~allowed.any(-1, keepdim=True), 0)
    with capture(layer, "weights") as maps:
        heard = layer(x, mask=mask, causal=causal)
    assert maps["weights"][0].shape == (B, H, T, T)
    leaves, cotangent = [x, *layer.parameters()], torch.randn_like(wanted)
    grads = torch.autograd.grad(wanted, leaves, cotangent)
    for out in (layer(x, mask=mask, causal=causal), heard):
        assert_close(out, wanted, atol=1e-10, rtol=0)
        found = torch.autograd.grad(out, leaves, cotangent)
        for one, other in zip(found, grads, strict=True):
            assert_close(one, other, atol=1e-10, rtol=1e-10)


@pytest.mark.parametrize("given", [False, True], ids=["counted", "given"])
@pytest.mark.parametrize("cuts", [[1] * 7, [3, 1, 3], [1, 6]], ids=str)
@each_scheme
def test_a_cache_gives_what_the_whole_text_gives(scheme, cuts, given):
    """Places go on behind the cache; those that are given are given for the cache too, as a mask is."""
    torch.manual_seed(0)
    layer, x = made(scheme, 4, 4), torch.randn(3, 7, 16, dtype=torch.float64)
    given = given and (layer.turn or layer.position_bias) is not None
    places = torch.randint(3, (3, 7)).cumsum(1) if given else torch.arange(7).expand(3, 7)
    mask = torch.arange(7) >= torch.tensor([[0], [2], [6]])
    wanted = by_hand(layer, x, places, near(7, layer.window, True) & mask[:, None])
    cache, seen, parts = {}, 0, []
    for part in x.split(cuts, dim=1):
        seen += part.shape[1]
        now = {"mask": mask[:, :seen], "causal": True, "cache": cache, "places": places[:, :seen] if given else None}
        kept = dict(cache)
        out = layer(part, **now)
        with capture(layer, "weights"):
            assert_close(layer(part, **(now | {"cache": kept})), out, atol=1e-12, rtol=0)
        parts.append(out)
    assert_close(torch.cat(parts, dim=1)[mask], wanted[mask], atol=1e-10, rtol=0)
    assert cache["k"].shape[:3] == (3, layer.n_kv_heads, 7)
    rows = torch.tensor([2, 0])
    out = layer(x[rows, :1], cache=select_rows(cache, rows), causal=True)  # and in any rows
    assert_close(out, layer(torch.cat([x, x[:, :1]], dim=1)[rows], causal=True)[:, 7:] if not given else out)


def test_only_distances_count_and_padding_on_the_left_moves_nothing():
    torch.manual_seed(0)
    x = torch.randn(2, 9, 16, dtype=torch.float64)
    for scheme in TOLD:
        layer = made(scheme, 4, 4)
        plain = layer(x, causal=True)
        assert_close(layer(x, causal=True, places=torch.arange(9) + 1000), plain, atol=1e-9, rtol=0)
        assert (layer(x, causal=True, places=torch.arange(9) * 2) - plain).abs().max() > 1e-3
        padded = torch.cat([torch.randn(2, 4, 16, dtype=torch.float64), x], dim=1)
        mask = torch.arange(13) >= torch.tensor([[4], [4]])
        assert_close(layer(padded, mask=mask, causal=True)[:, 4:], plain, atol=1e-10, rtol=0)


# --- in the models


def copying(n, T, seed=0):
    """Sources of tokens (n, T) and the same written backwards, as targets: who knows no order cannot do it."""
    source = torch.randint(4, 12, (n, T), generator=torch.Generator().manual_seed(seed))
    ends = torch.full((n, 1), 2)
    return source, shift(torch.cat([torch.ones_like(ends), source.flip(1), ends], dim=1))


def trained(model, loss, steps=60, lr=5e-3):
    """The loss at the first step and the mean of the last five."""
    adam, losses = torch.optim.Adam(model.parameters(), lr=lr), []
    for _ in range(steps):
        now = loss()
        adam.zero_grad()
        now.backward()
        adam.step()
        losses.append(now.item())
    return losses[0], sum(losses[-5:]) / 5


@pytest.mark.slow
@pytest.mark.parametrize(
    "scheme", [*TOLD, *(pytest.param(one, marks=pytest.mark.full) for one in ("window", "groups"))]
)
def test_a_transformer_learns_with_each_and_its_attention_is_attend(scheme):
    torch.manual_seed(0)
    model = Transformer(12, 12, 32, 4, n_layers=2, d_ff=64, pre_norm=True, **SCHEMES[scheme](4))
    source, (target_in, target_out) = copying(32, 5)
    first, last = trained(model, lambda: masked_loss(model(source, None, target_in)[0], target_out))
    assert last < 0.5 * first, (first, last)
    added = type(model.source.positions).__name__
    assert added == ("Identity" if scheme in TOLD else "SinusoidalPositions")
    heads_are_attend(model.double().encoder, lambda: model(source, None, target_in))
    heads_are_attend(model.decoder, lambda: model(source, None, target_in), causal=True)
    ours, theirs = (side.blocks[0].attention.position_bias for side in (model.encoder, model.decoder))
    if scheme == "relative":  # one for all blocks of a stack, and another for the other stack
        assert ours is model.encoder.blocks[1].attention.position_bias is not theirs
        assert ours.bias.weight.grad.abs().sum() > 0 and not torch.equal(ours.bias.weight, theirs.bias.weight)


@pytest.mark.slow
@pytest.mark.parametrize(
    "scheme", [*TOLD, *(pytest.param(one, marks=pytest.mark.full) for one in ("window", "groups"))]
)
def test_a_gpt_learns_with_each_and_its_attention_is_attend(scheme):
    torch.manual_seed(0)
    model = GPT(GPTConfig(12, 24, 32, 4, 2), **SCHEMES[scheme](4))
    rows = torch.cat([copying(32, 8)[0]] * 2, dim=1)  # the second half repeats the first
    first, last = trained(model, lambda: next_token_loss(model, rows))
    assert last < 0.75 * first, (first, last)
    assert (model.places is None) == (scheme in TOLD)
    heads_are_attend(model.double(), lambda: model(rows), causal=True)
    whole, cache = model(rows), [{}, {}]
    parts = [model(part, cache=cache) for part in rows.split([5, 1, 10], dim=1)]
    assert_close(torch.cat(parts, dim=1), whole, atol=1e-10, rtol=0)
    prompt = [rows[0, :7].tolist(), rows[1, :3].tolist()]
    assert model.generate(prompt, 6, temperature=0) == model.generate(prompt, 6, temperature=0, cache=False)


def heads_are_attend(stack, run, causal=False):
    """In each block, what goes into the look at itself comes out as `by_hand` has it, fused and heard."""
    for block in stack.blocks:
        layer, seen = block.attention, []
        handle = layer.register_forward_hook(lambda module, given, out, seen=seen: seen.append((given[0], out)))
        with torch.no_grad():
            run()
            with capture(stack, "*.weights"):
                run()
        handle.remove()
        for x, out in seen:
            B, T, _ = x.shape
            allowed = near(T, layer.window, causal).expand(B, T, T)
            assert_close(out, by_hand(layer, x, torch.arange(T).expand(B, T), allowed), atol=1e-10, rtol=0)
        assert len(seen) == 2


def test_a_bias_that_is_learned_begins_where_it_was_built():
    """A model draws its matrices and tables, and leaves the numbers of a bias at 0, as without positions."""
    bias = RelativeBias(t5_bucket, 32, 2)
    for model in (GPT(GPTConfig(12, 24, 8, 2, 2), position_bias=bias), Transformer(9, 9, 8, 2, 2, position_bias=bias)):
        assert all(not part.any() for name, part in model.named_parameters() if "position_bias" in name)
        assert sum("position_bias" in name for name, _ in model.named_parameters()) in (1, 2)


def test_without_anything_that_tells_the_order_a_stack_knows_none():
    """The instrument: with the schemes an exchange of two places changes more than these two places."""
    torch.manual_seed(0)
    x, order = torch.randn(1, 6, 16, dtype=torch.float64), torch.tensor([0, 3, 2, 1, 4, 5])
    for scheme in ("groups", *TOLD):
        stack = Encoder(16, 4, 2, **SCHEMES[scheme](4)).double()
        moved = (stack(x[:, order]) - stack(x)[:, order]).abs().max()
        assert (moved < 1e-10) == (scheme == "groups")
