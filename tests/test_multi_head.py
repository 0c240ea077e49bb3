"""attention/multi_head.py: equal to PyTorch's in values and gradients, heard or not; masks; a cache; bad input."""

import math

import pytest
import torch
from parity import TOLERANCE, exact_or_not
from torch import nn
from torch.testing import assert_close

from course_lib.attention.attention import attend, causal_mask, padding_mask
from course_lib.attention.multi_head import MultiHead
from course_lib.attention.positions import RelativeBias, rotate, t5_bucket
from course_lib.inputs.sequences import select_rows
from course_lib.show.record import capture

# B, T_q, T_k, heads, width of a head: one of everything, odd numbers, more queries than keys and fewer
SIZES = [(1, 1, 1, 1, 1), (2, 5, 7, 3, 4), (3, 9, 4, 1, 5), (4, 17, 17, 4, 8), (2, 1, 33, 2, 3), (1, 40, 40, 8, 2)]
MASKS = ["none", "padding", "rows", "causal", "both"]


def drawn(*shape, dtype=torch.float64):
    return torch.randn(*shape, dtype=dtype, requires_grad=True)


def a_mask(kind, B, T_q, T_k):
    """What ours is handed, and the same for all heads as bool (B, T_q, T_k); every row sees the first key."""
    lengths = torch.randint(1, T_k + 1, (B,))
    ours, causal = None, kind in ("causal", "both")
    allowed = torch.ones(B, T_q, T_k, dtype=torch.bool)
    if kind in ("padding", "both"):
        ours = padding_mask(lengths, T_k)
        allowed = allowed & ours[:, None]
    if kind == "rows":
        ours = torch.rand(B, T_q, T_k) < 0.6
        ours[..., 0] = True
        allowed = ours
    return ours, causal, allowed & causal_mask(T_k)[:T_q] if causal else allowed


def weights_of(theirs, ours):
    """PyTorch's gradients in our order: its q, k and v are one matrix."""
    return [theirs.in_proj_weight, theirs.in_proj_bias, *theirs.out_proj.parameters()], [
        [part.weight for part in (ours.w_q, ours.w_k, ours.w_v)],
        [part.bias for part in (ours.w_q, ours.w_k, ours.w_v)],
        [ours.w_o.weight],
        [ours.w_o.bias],
    ]


@exact_or_not
@pytest.mark.parametrize("kind", MASKS)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_multi_head_is_torchs(size, kind, dtype):
    """MultiHead, MultiHead.forward, MultiHead.from_torch: beside nn.MultiheadAttention, with masks of every kind."""
    B, T_q, T_k, H, d = size
    torch.manual_seed(0)
    itself = kind in ("causal", "both")
    T_k = T_q if itself else T_k
    theirs = nn.MultiheadAttention(H * d, H, batch_first=True, dtype=dtype)
    nn.init.normal_(theirs.in_proj_bias)
    nn.init.normal_(theirs.out_proj.bias)
    ours, x = MultiHead.from_torch(theirs), drawn(B, T_q, H * d, dtype=dtype)
    memory = x if itself else drawn(B, T_k, H * d, dtype=dtype)
    mask, causal, allowed = a_mask(kind, B, T_q, T_k)
    expected = theirs(x, memory, memory, attn_mask=~allowed.repeat_interleave(H, dim=0), need_weights=False)[0]
    their_leaves, our_leaves = weights_of(theirs, ours)
    inputs = [x] if itself else [x, memory]
    for heard in (False, True):
        if heard:
            with capture(ours, "weights") as maps:
                out = ours(x, None if itself else memory, mask, causal)
            assert maps["weights"][0].shape == (B, H, T_q, T_k)
            assert maps["weights"][0].masked_select(~allowed[:, None]).abs().sum() == 0
        else:
            out = ours(x, None if itself else memory, mask, causal)
        assert out.shape == (B, T_q, H * d) and out.dtype == dtype
        cotangent, tolerance = torch.randn_like(out), TOLERANCE[dtype]
        assert_close(out, expected, atol=tolerance, rtol=tolerance)
        flat = [leaf for leaves in our_leaves for leaf in leaves]
        mine = iter(torch.autograd.grad(out, [*inputs, *flat], cotangent))
        wanted = torch.autograd.grad(expected, [*inputs, *their_leaves], cotangent, retain_graph=True)
        for one in wanted[: len(inputs)]:
            assert_close(next(mine), one, atol=tolerance, rtol=tolerance)
        for leaves, one in zip(our_leaves, wanted[len(inputs) :], strict=True):
            assert_close(torch.cat([next(mine) for _ in leaves]), one, atol=tolerance, rtol=tolerance)


def test_the_heads_are_attend_and_their_outputs_a_sum():
    """MultiHead.heads, MultiHead.split: Concat(heads) W_o is the sum over the heads of head_i W_o_i."""
    torch.manual_seed(0)
    layer, x = MultiHead(12, 3, d_k=2).double(), drawn(2, 5, 12)
    total = layer.w_o.bias
    for i in range(3):
        w_q, w_k = (part.weight[2 * i : 2 * i + 2] for part in (layer.w_q, layer.w_k))
        head, _ = attend(x @ w_q.T, x @ w_k.T, x @ layer.w_v.weight[4 * i : 4 * i + 4].T)
        total = total + head @ layer.w_o.weight[:, 4 * i : 4 * i + 4].T
    assert_close(layer(x), total, atol=1e-12, rtol=0)


@exact_or_not
@pytest.mark.parametrize("kind", ["padding", "rows", "both"])
def test_a_query_that_may_look_at_nothing_gets_zeros_heard_or_not(kind, dtype):
    torch.manual_seed(0)
    layer, x = MultiHead(8, 2).to(dtype), drawn(3, 6, 8, dtype=dtype)
    for part in layer.parameters():
        nn.init.normal_(part, std=8**-0.5)
    mask, causal, allowed = a_mask(kind, 3, 6, 6)
    mask[1], allowed[1] = False, False
    if kind == "rows":
        mask[0, 2] = allowed[0, 2] = False
    silent = layer(x, mask=mask, causal=causal)
    with capture(layer, "weights"):
        recorded = layer(x, mask=mask, causal=causal)
    for out in (silent, recorded):
        empty = ~allowed.any(-1)
        assert out[empty].abs().max() == 0 and out[~empty].abs().min() > 0
        (grad,) = torch.autograd.grad(out[empty].sum() + out[1].sum(), x, retain_graph=True)
        assert grad.abs().max() == 0
        assert all(g.isfinite().all() for g in torch.autograd.grad(out.sum(), layer.parameters(), retain_graph=True))
    found = [torch.autograd.grad(out.sum(), [x, *layer.parameters()]) for out in (silent, recorded)]
    for one, other in zip(*found, strict=True):
        assert_close(one, other, atol=TOLERANCE[dtype], rtol=TOLERANCE[dtype])


@exact_or_not
def test_a_later_place_changes_nothing_before_it(dtype):
    torch.manual_seed(0)
    layer, x = MultiHead(16, 4).to(dtype), torch.randn(3, 50, 16, dtype=dtype)
    changed = x.clone()
    changed[:, 31:] = torch.randn(3, 19, 16, dtype=dtype) * 100
    mask = torch.ones(3, 50, dtype=torch.bool)
    for ways in ({"causal": True}, {"causal": True, "mask": mask}, {"mask": causal_mask(50)[None]}):
        assert torch.equal(layer(changed, **ways)[:, :31], layer(x, **ways)[:, :31])
        with capture(layer, "weights"):
            assert (layer(changed, **ways)[:, :31] - layer(x, **ways)[:, :31]).abs().max() <= 1e-6
    assert not torch.equal(layer(changed)[:, :31], layer(x)[:, :31])  # the instrument sees a layer that looks ahead


def test_what_the_mask_hides_may_be_anything():
    torch.manual_seed(0)
    layer, x, memory = MultiHead(8, 2).double(), drawn(2, 5, 8), torch.randn(2, 7, 8).double()
    mask = padding_mask([4, 7], 7)
    other = torch.where(mask[..., None], memory, 1e6)
    assert_close(layer(x, other, mask), layer(x, memory, mask), atol=1e-12, rtol=0)
    by_rows = mask[:, None].expand(2, 5, 7)
    assert_close(layer(x, memory, by_rows), layer(x, memory, mask), atol=1e-12, rtol=0)


def test_a_hook_that_returns_other_weights_steers_and_a_head_can_be_taken_out():
    torch.manual_seed(0)
    layer, x = MultiHead(8, 2).double(), drawn(2, 5, 8)
    whole = layer(x)
    handle = layer.weights.register_forward_hook(lambda module, seen, w: w * torch.tensor([1.0, 0]).view(2, 1, 1))
    without = layer(x)
    handle.remove()
    q, k, v = (layer.split(part(x)) for part in (layer.w_q, layer.w_k, layer.w_v))
    second = attend(q, k, v)[0][:, 1]
    assert_close(whole - without, second @ layer.w_o.weight[:, 4:].T, atol=1e-12, rtol=0)
    assert torch.equal(layer(x), whole)


@pytest.mark.parametrize("cuts", [[1] * 6, [6], [2, 3, 1], [4, 2]])
def test_a_cache_gives_what_the_whole_text_gives(cuts):
    torch.manual_seed(0)
    layer, x = MultiHead(8, 2).double(), torch.randn(3, 6, 8).double()
    whole, cache = layer(x, causal=True), {}
    parts = [layer(part, causal=True, cache=cache) for part in x.split(cuts, dim=1)]
    assert_close(torch.cat(parts, dim=1), whole, atol=1e-12, rtol=0)
    assert cache["k"].shape == cache["v"].shape == (3, 2, 6, 4)
    rows = torch.tensor([2, 0])
    longer = layer(torch.cat([x, x[:, :1]], dim=1)[rows], causal=True)
    assert_close(layer(x[rows, :1], causal=True, cache=select_rows(cache, rows)), longer[:, 6:], atol=1e-12, rtol=0)


def test_a_memory_is_read_once():
    torch.manual_seed(0)
    layer, x, memory, cache = MultiHead(8, 2).double(), torch.randn(2, 3, 8).double(), drawn(2, 5, 8), {}
    first = layer(x, memory, cache=cache)
    assert torch.equal(first, layer(x, memory))
    assert torch.equal(layer(x, torch.zeros_like(memory), cache=cache), first)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")  # which torch.func.hessian calls
@pytest.mark.parametrize(
    "sizes",
    [{}, {"turn": rotate, "position_bias": RelativeBias(t5_bucket, 32, 2), "n_kv_heads": 1}],
    ids=["plain", "turned, biased, grouped"],
)
def test_second_derivatives_are_there_heard_and_under_torch_func_and_loudly_refused_by_the_kernel(sizes):
    torch.manual_seed(0)
    layer, x = MultiHead(4, 2, **sizes).double(), drawn(1, 3, 4)
    with capture(layer, "weights"):
        assert torch.autograd.gradgradcheck(lambda x: layer(x, causal=True), x)

    def number(x):
        return layer(x, causal=True).square().sum()

    with capture(layer, "weights"):
        wanted = torch.autograd.functional.hessian(number, x)
    assert wanted.abs().max() > 0.1
    assert_close(torch.func.hessian(number)(x), wanted, atol=1e-10, rtol=0)
    if not sizes:  # with a bias PyTorch may choose another kernel, which has them
        (grad,) = torch.autograd.grad(number(x), x, create_graph=True)
        with pytest.raises(RuntimeError, match="derivative for .* is not implemented"):
            grad.sum().backward()


def test_a_window_is_a_mask_and_goes_on_behind_a_cache():
    torch.manual_seed(0)
    layer, x, cache = MultiHead(8, 2, window=3).double(), torch.randn(2, 8, 8).double(), {}
    distance = torch.arange(8) - torch.arange(8)[:, None]
    plain = MultiHead(8, 2).double()
    plain.load_state_dict(layer.state_dict())
    assert_close(layer(x), plain(x, mask=(distance.abs() < 3)[None]), atol=1e-12, rtol=0)
    back = plain(x, mask=((distance <= 0) & (distance > -3))[None])
    assert_close(layer(x, causal=True), back, atol=1e-12, rtol=0)
    parts = [layer(part, causal=True, cache=cache) for part in x.split([1, 4, 1, 2], dim=1)]
    assert_close(torch.cat(parts, dim=1), back, atol=1e-12, rtol=0)
    (grad,) = torch.autograd.grad(layer(x.requires_grad_(), causal=True)[:, 5].sum(), x)
    assert grad[:, 3:6].abs().min() > 0 and grad[:, [0, 1, 2, 6, 7]].abs().max() == 0


def test_a_bias_of_each_text_its_own_is_added_too():
    """Any function of the places will do; one for each text, for each head, or one for all of them."""
    torch.manual_seed(0)
    x = torch.randn(2, 5, 8).double()
    for shape in [(5, 5), (1, 5), (4, 5, 5), (1, 5, 5), (2, 4, 5, 5), (2, 1, 5, 5), (1, 4, 5, 1)]:
        bias = torch.randn(shape).double()
        layer = MultiHead(8, 4, position_bias=lambda queries, keys, bias=bias: bias).double()
        q, k, v = (layer.split(part(x)) for part in (layer.w_q, layer.w_k, layer.w_v))
        wanted = attend(q, k, v, causal_mask(5), bias)[0].transpose(1, 2).flatten(2) @ layer.w_o.weight.T
        assert_close(layer(x, causal=True), wanted, atol=1e-12, rtol=0)


@exact_or_not
@pytest.mark.parametrize("shape", [(5, 5), (4, 5, 5), (1, 5, 5), (2, 1, 5, 5), (2, 4, 5, 5), (1, 5)], ids=str)
@pytest.mark.parametrize("kind", ["none", "padding", "causal"])
def test_a_bias_of_minus_infinity_hides_heard_or_not(kind, shape, dtype):
    """What it hides may be anything; a query to which it leaves nothing, by any head, gets zeros and learns nothing."""
    torch.manual_seed(0)
    hidden = torch.rand(shape) < 0.4
    hidden[..., -1, :] = True  # the last query, or all, is shown nothing
    x, bias = drawn(2, 5, 8, dtype=dtype), torch.randn(shape, dtype=dtype).requires_grad_()
    layer = MultiHead(8, 4, position_bias=lambda queries, keys: bias.masked_fill(hidden, -math.inf)).to(dtype)
    for part in layer.parameters():
        nn.init.normal_(part, std=8**-0.5)
    mask = None if kind != "padding" else torch.tensor([[True] * 5, [True, True, False, False, False]])
    leaves = [x, bias, *layer.parameters()]
    silent = layer(x, mask=mask, causal=kind == "causal")
    with capture(layer, "weights"):
        recorded = layer(x, mask=mask, causal=kind == "causal")
    seen = (~hidden).expand(2, 4, 5, 5) & (True if mask is None else mask[:, None, None])
    seen = seen.tril() if kind == "causal" else seen
    empty = ~seen.any(-1).any(1)  # (B, T)
    found = []
    for out in (silent, recorded):
        assert out.isfinite().all() and empty[:, -1].all() and not out[empty].any()
        assert empty.all() or out[~empty].abs().min() > 0
        found.append([out, *torch.autograd.grad(out.square().sum() + out.sum(), leaves)])
    for one, other in zip(*found, strict=True):
        assert_close(one, other, atol=TOLERANCE[dtype], rtol=TOLERANCE[dtype])
    assert not found[0][2][hidden].any()


def test_a_bias_that_half_precision_takes_for_minus_infinity_leaves_no_nan():
    layer = MultiHead(8, 4, position_bias=lambda queries, keys: torch.full((5, 5), torch.finfo(torch.float32).min))
    assert layer.bfloat16()(torch.randn(2, 5, 8, dtype=torch.bfloat16)).isfinite().all()


def test_without_biases_it_is_the_papers_and_torchs_without():
    torch.manual_seed(0)
    theirs = nn.MultiheadAttention(6, 3, bias=False, batch_first=True).double()
    ours, x = MultiHead.from_torch(theirs), drawn(2, 4, 6)
    assert ours.w_o.bias is None
    assert_close(ours(x), theirs(x, x, x)[0], atol=1e-12, rtol=0)
    assert sum(p.numel() for p in MultiHead(512, 8, bias=False).parameters()) == 4 * 512**2


def kept(layer, x):
    """The cache of a layer that has read x."""
    cache = {}
    layer(x, cache=cache)
    return cache


def turned(*given, **more):
    return MultiHead(8, 2, turn=rotate)(*given, **more)


def added(bias):
    return MultiHead(8, 2, position_bias=lambda queries, keys: bias)


@pytest.mark.parametrize(
    "wrong, error, words",
    [
        (lambda layer, x: MultiHead(10, 3), ValueError, "multiple of n_heads; got d_model=10, n_heads=3"),
        (lambda layer, x: layer(x[..., :6]), ValueError, "needs x .batch, time, 8., not empty"),
        (
            lambda layer, x: layer(x, x[:1]),
            ValueError,
            "x .batch, time, 8. and memory .batch, keys, 8., not empty; got .2, 5, 8. and .1, 5, 8.",
        ),
        (lambda layer, x: layer(x, mask=torch.zeros(2, 5)), TypeError, "of bool.*ids != padding"),
        (lambda layer, x: layer(x, mask=causal_mask(5)), ValueError, "as causal_mask.T..None. is"),
        (lambda layer, x: layer(x, mask=~causal_mask(5)[None]), ValueError, "Hand over ~mask"),
        (lambda layer, x: MultiHead(8, 4, n_kv_heads=3), ValueError, "multiple of n_kv_heads; got n_heads=4, n_kv_h"),
        (lambda layer, x: layer(x, places=torch.arange(5)), ValueError, "Nothing here asks for places"),
        (lambda layer, x: turned(x, x), ValueError, "are for a look at oneself"),
        (lambda layer, x: MultiHead(8, 2, window=2)(x, x), ValueError, "are for a look at oneself"),
        (lambda layer, x: MultiHead.from_torch(nn.MultiheadAttention(4, 2, kdim=3)), ValueError, "without kdim"),
    ],
)
def test_bad_input_is_refused_in_words(wrong, error, words):
    with pytest.raises(error, match=words):
        wrong(MultiHead(8, 2), torch.randn(2, 5, 8))
