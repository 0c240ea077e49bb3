"""attention/attention.py: scores by hand and against PyTorch, masks of every kind, rows with nothing to attend to."""

import math

import numpy as np
import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention
from torch.testing import assert_close

from course_lib.attention.attention import (
    AdditiveAttention,
    ConcatAttention,
    DotAttention,
    GeneralAttention,
    SelfAttention,
    attend,
    causal_mask,
    masked_softmax,
    padding_mask,
)
from course_lib.attention.positions import alibi_bias, rotate, sinusoidal
from course_lib.show.record import capture

FOUR = [AdditiveAttention, DotAttention, GeneralAttention, ConcatAttention]


def drawn(*shape):
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


def equal_in_values_and_gradients(one, other, leaves, tolerance=1e-10):
    cotangent = torch.randn_like(one)
    assert_close(one, other, atol=tolerance, rtol=0)
    for mine, theirs in zip(
        torch.autograd.grad(one, leaves, cotangent), torch.autograd.grad(other, leaves, cotangent), strict=True
    ):
        assert_close(mine, theirs, atol=tolerance, rtol=0)


# --- attend and masked_softmax


@pytest.mark.parametrize(
    "shape, t_k, d, d_v", [((), 1, 1, 1), ((3,), 7, 4, 4), ((2, 3), 5, 8, 3), ((1, 1), 1, 5, 2), ((4, 1, 2), 6, 1, 9)]
)
@pytest.mark.parametrize("masked", [False, True])
def test_attend_agrees_with_torch(shape, t_k, d, d_v, masked):
    t_q = 5
    q, k, v = drawn(*shape, t_q, d), drawn(*shape, t_k, d), drawn(*shape, t_k, d_v)
    mask = torch.rand(*shape, t_q, t_k) < 0.6 if masked else None
    if masked:
        mask[..., 0] = True  # a row with nothing has a test of its own
    out, weights = attend(q, k, v, mask)
    assert out.shape == (*shape, t_q, d_v) and weights.shape == (*shape, t_q, t_k)
    assert_close(weights.sum(-1), torch.ones(*shape, t_q).double())
    as_theirs = [x if x.ndim > 2 else x[None] for x in (q, k, v)]
    theirs = scaled_dot_product_attention(*as_theirs, mask if mask is None or shape else mask[None])
    equal_in_values_and_gradients(out, theirs.view_as(out), [q, k, v])


@pytest.mark.parametrize(
    "shape, bias_shape", [((), (5, 7)), ((3,), (1, 7)), ((2, 3), (3, 5, 7)), ((2, 3), (2, 1, 1, 1))]
)
@pytest.mark.parametrize("masked", [False, True])
def test_a_bias_is_added_to_the_scores(shape, bias_shape, masked):
    q, k, v, bias = drawn(*shape, 5, 4), drawn(*shape, 7, 4), drawn(*shape, 7, 3), drawn(*bias_shape)
    mask = torch.rand(5, 7) < 0.6 if masked else None
    if masked:
        mask[:, 0] = True
    out, weights = attend(q, k, v, mask, bias)
    by_hand = masked_softmax(q @ k.mT / 2 + bias, mask)
    assert_close(weights, by_hand, atol=1e-12, rtol=0)
    added = bias.expand(*shape, 5, 7) if mask is None else bias.expand(*shape, 5, 7).masked_fill(~mask, -math.inf)
    as_theirs = [x if x.ndim > 2 else x[None] for x in (q, k, v, added)]
    theirs = scaled_dot_product_attention(*as_theirs).view_as(out)
    equal_in_values_and_gradients(out, theirs, [q, k, v, bias])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_bias_may_be_more_exact_than_what_it_is_added_to(dtype):
    """2,000 places away half precision no longer tells neighbours apart; a bias in float32 does."""
    q, v, bias = torch.zeros(1, 4, dtype=dtype), torch.eye(4, dtype=dtype), -torch.arange(2048.0, 2052)[None]
    out, weights = attend(q, v, v, bias=bias)
    assert out.dtype == dtype and weights.dtype == torch.float32
    assert_close(weights, torch.softmax(bias, -1))
    assert_close(out, weights.to(dtype))
    assert attend(q, v, v, bias=bias.to(dtype))[1].dtype == dtype


def test_two_unit_keys_by_eye():
    """attend: two unit keys, weights [e, 1] / (1 + e)."""
    q, k = torch.tensor([[1.0, 0.0]]), torch.eye(2)
    _, weights = attend(q * math.sqrt(2), k, k)
    assert_close(weights, torch.tensor([[math.e, 1.0]]) / (1 + math.e))


def test_a_masked_weight_is_exactly_zero_however_large_its_score():
    """masked_softmax: the softmax of the scores that may be seen; the others weigh nothing, whatever they are."""
    scores = torch.tensor([[1.0, 1e30, -1e30, 2.0]])
    weights = masked_softmax(scores, torch.tensor([[True, False, False, True]]))
    assert weights[0, 1] == weights[0, 2] == 0
    assert_close(weights[0, [0, 3]], torch.softmax(torch.tensor([1.0, 2.0]), 0))
    low = masked_softmax(torch.tensor([[-3e30, 0.0, -1e20, -3e30]]), torch.tensor([[True, False, False, True]]))
    assert_close(low, torch.tensor([[0.5, 0.0, 0.0, 0.5]]))
    garbage = torch.tensor([[1.0, math.nan, math.inf, 2.0]])
    assert_close(masked_softmax(garbage, torch.tensor([[True, False, False, True]])), weights)


@pytest.mark.filterwarnings("ignore:Anomaly Detection")
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_a_fully_masked_row_has_no_weight_no_gradient_and_no_nan(dtype):
    q, k, v = (torch.randn(2, 3, 4, dtype=dtype, requires_grad=True) for _ in range(3))
    mask = torch.ones(2, 3, 3, dtype=torch.bool)
    mask[0, 1] = mask[1] = False  # one row of the first, every row of the second
    with torch.autograd.detect_anomaly(check_nan=True):
        out, weights = attend(q, k, v, mask)
        (out.square().sum() + weights.square().sum()).backward()
    assert weights[~mask].abs().max() == 0 and out[1].abs().max() == 0 and out[0, 1].abs().max() == 0
    assert q.grad[0, 1].abs().max() == 0 and q.grad[1].abs().max() == 0
    assert k.grad[1].abs().max() == 0 and v.grad[1].abs().max() == 0
    assert all(torch.isfinite(x.grad).all() and x.grad[0].abs().max() > 0 for x in (q, k, v))
    assert_close(weights[0, [0, 2]].sum(-1), torch.ones(2, dtype=dtype))


@pytest.mark.filterwarnings("ignore:Anomaly Detection")
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_a_bias_of_minus_infinity_hides_as_a_mask_does(dtype, masked):
    """attend: in value and gradient, where it hides a whole row too, alone or together with a mask."""
    q, k, v, bias = (torch.randn(2, 3, n, dtype=dtype, requires_grad=True) for n in (4, 4, 4, 3))
    hidden = torch.zeros(2, 3, 3, dtype=torch.bool)
    hidden[0, 1] = hidden[1] = hidden[0, 2, 1] = True
    mask = torch.ones(2, 3, 3, dtype=torch.bool)
    if masked:
        mask[0, 2, 0] = mask[1, 0] = False
        hidden[1, 1, 1] = False
        mask[1, 1, 1] = False  # what the bias leaves the mask hides
    leaves = (q, k, v, bias)
    with torch.autograd.detect_anomaly(check_nan=True):
        found = attend(q, k, v, mask if masked else None, bias.masked_fill(hidden, -math.inf))
        grads = torch.autograd.grad(sum(part.square().sum() for part in found), leaves)
    wanted = attend(q, k, v, mask & ~hidden, bias)
    for one, other in zip(found, wanted, strict=True):
        assert torch.equal(one, other)
    wanted = torch.autograd.grad(sum(part.square().sum() for part in wanted), leaves)
    for one, other in zip(grads, wanted, strict=True):
        assert torch.equal(one, other)
    assert not found[0][0, 1].any() and not found[0][1].any() and not grads[0][1].any() and not grads[3][hidden].any()
    assert attend(q, k, v, None, torch.full((3, 3), math.nan, dtype=dtype))[0].isnan().all()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_an_allowed_score_at_the_types_minimum_is_still_allowed(dtype):
    """What the mask hides gets nothing of it, however low what it leaves: these rows share theirs equally."""
    lowest = torch.finfo(dtype).min
    scores = torch.tensor([[lowest, 0.0, lowest], [lowest] * 3, [1.0, lowest, 7.0]], dtype=dtype, requires_grad=True)
    mask = torch.tensor([[True, False, True], [True, False, True], [True, True, False]])
    weights = masked_softmax(scores, mask)
    assert weights.tolist() == [[0.5, 0.0, 0.5], [0.5, 0.0, 0.5], [1.0, 0.0, 0.0]]
    weights.square().sum().backward()
    assert scores.grad.isfinite().all() and scores.grad[~mask].abs().max() == 0


def test_vectors_of_whole_numbers_are_refused_in_words():
    x, ids = torch.randn(2, 3, 4), torch.ones(2, 3, 4, dtype=torch.long)
    with pytest.raises(TypeError, match="attend computes with .* got v of torch.int64: embed"):
        attend(x, x, ids)
    with pytest.raises(TypeError, match="A softmax computes with .* got scores of torch.int64"):
        masked_softmax(ids)


@pytest.mark.slow
@pytest.mark.parametrize("kind", FOUR)
def test_transforms_of_torch_func_and_autocast(kind):
    module, query, keys = kind(4, 4), torch.randn(3, 5, 4), torch.randn(3, 6, 4)
    mask = torch.rand(3, 6) < 0.6
    context, weights = module(query, keys, None, mask)
    one_by_one = torch.func.vmap(lambda q, k, m: [x[0] for x in module(q[None], k[None], None, m[None])])
    assert_close(one_by_one(query, keys, mask), [context, weights])
    assert_close(
        torch.func.jacrev(lambda q: module(q, keys, None, mask)[0])(query),
        torch.autograd.functional.jacobian(lambda q: module(q, keys, None, mask)[0], query),
    )
    assert_close(torch.func.vmap(attend)(query, keys, keys)[0], attend(query, keys, keys)[0])
    with torch.autocast("cpu", torch.bfloat16):
        half, half_weights = module(query, keys, None, mask)
    assert_close(half.float(), context, atol=5e-2, rtol=5e-2)
    assert_close(half_weights.float(), weights, atol=5e-2, rtol=5e-2)
    assert torch.autograd.gradgradcheck(
        lambda q, k: module.double()(q, k, None, mask),
        (query.double().requires_grad_(), keys.double().requires_grad_()),
    )


def test_no_keys_at_all_is_nothing_to_attend_to():
    out, weights = attend(torch.randn(2, 3, 4), torch.randn(2, 0, 4), torch.randn(2, 0, 5))
    assert weights.shape == (2, 3, 0) and out.shape == (2, 3, 5) and out.abs().max() == 0


def test_softmax_without_mask_is_torch_softmax_and_gradcheck_holds():
    scores = drawn(2, 3, 4)
    assert_close(masked_softmax(scores), torch.softmax(scores, -1), atol=0, rtol=0)
    mask = torch.tensor([[True, False, True, True], [False] * 4, [False, False, False, True]])
    assert torch.autograd.gradcheck(lambda s: masked_softmax(s, mask), scores)


# --- masks


def test_masks():
    assert padding_mask(torch.tensor([3, 0, 1]), 3).tolist() == [[True] * 3, [False] * 3, [True, False, False]]
    assert padding_mask(torch.tensor([2]), 4).dtype == torch.bool
    assert (
        padding_mask([2, 0], 3).tolist()
        == padding_mask(np.array([2, 0]), 3).tolist()
        == [[True, True, False], [False] * 3]
    )
    assert padding_mask(torch.tensor([0]), 0).shape == (1, 0)
    assert causal_mask(3).tolist() == [[True, False, False], [True, True, False], [True, True, True]]
    q = drawn(2, 6, 4)
    ahead = torch.autograd.grad(attend(q, q, q, causal_mask(6))[0][:, 2].sum(), q)[0]
    assert ahead[:, 3:].abs().max() == 0 and ahead[:, :3].abs().amax((0, 2)).min() > 0


def test_masks_combine():
    both = padding_mask(torch.tensor([3, 2]), 3)[:, None] & causal_mask(3)
    assert both[1].tolist() == [[True, False, False], [True, True, False], [True, True, False]]


# --- the four scores


def by_hand(module, query, keys):
    """Each score as its formula says, one pair of vectors at a time."""
    table = torch.zeros(len(query), query.shape[1], keys.shape[1], dtype=query.dtype)
    for b, i, j in torch.cartesian_prod(*map(torch.arange, table.shape)).tolist():
        s, h = query[b, i], keys[b, j]
        if isinstance(module, AdditiveAttention):
            table[b, i, j] = module.v.weight[0] @ torch.tanh(module.w.weight @ s + module.u.weight @ h)
        elif isinstance(module, ConcatAttention):
            table[b, i, j] = module.v.weight[0] @ torch.tanh(module.w.weight @ torch.cat([s, h]))
        elif isinstance(module, GeneralAttention):
            table[b, i, j] = torch.einsum("i,ji,j->", s, module.w.weight, h)
        else:
            table[b, i, j] = torch.einsum("i,i->", s, h)
    return table


@pytest.mark.parametrize("kind", FOUR)
@pytest.mark.parametrize("b, t_q, t_k, d_q, d_k", [(1, 1, 1, 1, 1), (3, 4, 5, 6, 6), (2, 1, 7, 3, 3), (2, 5, 1, 4, 7)])
def test_scores_are_the_papers_formulas(kind, b, t_q, t_k, d_q, d_k):
    """AdditiveAttention, DotAttention, GeneralAttention, ConcatAttention: scores by hand, a pair at a time."""
    if kind is DotAttention:
        d_k = d_q
    module, query, keys = kind(d_q, d_k).double(), drawn(b, t_q, d_q), drawn(b, t_k, d_k)
    equal_in_values_and_gradients(
        module.scores(query, keys), by_hand(module, query, keys), [query, keys, *module.parameters()]
    )


def test_width_inside_may_be_chosen_and_concat_is_additive_side_by_side():
    additive, concat = AdditiveAttention(3, 5, 7).double(), ConcatAttention(3, 5, 7).double()
    assert additive.w.weight.shape == (7, 3) and concat.w.weight.shape == (7, 8)
    with torch.no_grad():
        concat.w.weight.copy_(torch.cat([additive.w.weight, additive.u.weight], dim=1))
        concat.v.weight.copy_(additive.v.weight)
    query, keys = drawn(2, 4, 3), drawn(2, 6, 5)
    assert_close(concat.scores(query, keys), additive.scores(query, keys))


@pytest.mark.parametrize("kind", FOUR)
def test_weights_sum_to_one_over_real_tokens_only_and_padding_changes_nothing(kind):
    module, lengths = kind(4, 4).double(), torch.tensor([5, 1, 3, 0])
    query, keys, values = drawn(4, 6, 4), drawn(4, 5, 4), drawn(4, 5, 2)
    mask = padding_mask(lengths, 5)
    context, weights = module(query, keys, values, mask)
    assert context.shape == (4, 6, 2) and weights.shape == (4, 6, 5)
    assert_close(weights.sum(-1), (lengths > 0).double()[:, None].expand(4, 6))
    assert weights.masked_select(~mask[:, None]).abs().max() == 0
    assert context[3].abs().max() == 0
    loud = [torch.where(mask[..., None], x, 100 * drawn(*x.shape)).detach().requires_grad_() for x in (keys, values)]
    again, same = module(query, *loud, mask)
    assert_close(again, context, atol=1e-12, rtol=0)
    assert_close(same, weights, atol=1e-12, rtol=0)
    again.square().sum().backward()
    assert all(x.grad[~mask].abs().max() == 0 for x in loud)
    for row, length in enumerate(lengths[:3]):
        alone, _ = module(query[row : row + 1], keys[row : row + 1, :length], values[row : row + 1, :length])
        assert_close(alone[0], context[row], atol=1e-12, rtol=0)


@pytest.mark.parametrize("kind", FOUR)
def test_a_mask_may_differ_from_query_to_query_and_values_default_to_keys(kind):
    module, query, keys = kind(4, 4).double(), drawn(2, 5, 4), drawn(2, 5, 4)
    mask = causal_mask(5).expand(2, 5, 5)
    context, weights = module(query, keys, mask=mask)
    assert_close(weights, masked_softmax(module.scores(query, keys), mask))
    assert_close(context, weights @ keys)
    assert weights.triu(1).abs().max() == 0


@pytest.mark.parametrize("kind", FOUR)
def test_capture_hears_the_weights_and_their_gradient_and_a_hook_steers_them(kind):
    module, query, keys = kind(4, 4).double(), drawn(2, 3, 4), drawn(2, 5, 4)
    with capture(module, "weights") as maps:
        context, weights = module(query, keys)
        context.sum().backward()
    assert maps["weights"][0] is weights
    assert_close(maps.grad("weights")[:, 0], keys.sum(-1)[:, None].expand(2, 3, 5))  # dc/da_j = h_j
    only_first = torch.zeros_like(weights)
    only_first[..., 0] = 1
    handle = module.weights.register_forward_hook(lambda *_: only_first)
    steered, _ = module(query, keys)
    handle.remove()
    assert_close(steered, keys[:, :1].expand(2, 3, 4))
    assert_close(module(query, keys)[0], context)


# --- one head of self-attention


@pytest.mark.parametrize(
    "b, t, d_model, d_head", [(1, 1, 1, None), (3, 5, 6, None), (2, 7, 4, 3), (4, 1, 3, 8), (2, 0, 4, 2)]
)
@pytest.mark.parametrize("turn", [None, lambda x: 2 * x], ids=["plain", "turned"])
def test_self_attention_is_attend_over_three_linear_maps(b, t, d_model, d_head, turn):
    """SelfAttention, SelfAttention.forward: queries, keys, values are linear maps of x, two turned; then attend."""
    layer, x, bias = SelfAttention(d_model, d_head, turn).double(), drawn(b, t, d_model), drawn(t, t)
    out, weights = layer(x, bias=bias)
    assert out.shape == (b, t, d_head or d_model) and weights.shape == (b, t, t)
    q, k, v = (x @ w.weight.T for w in (layer.w_q, layer.w_k, layer.w_v))
    scale = 1 if turn is None else 4
    scores = scale * torch.einsum("bid,bjd->bij", q, k) / math.sqrt(d_head or d_model) + bias
    by_hand = torch.einsum("bij,bjd->bid", torch.softmax(scores, -1), v)
    equal_in_values_and_gradients(out, by_hand, [x, bias, *layer.parameters()])


def test_self_attention_agrees_with_torch():
    layer = SelfAttention(6).double()
    theirs = torch.nn.MultiheadAttention(6, 1, bias=False, batch_first=True).double()
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat([layer.w_q.weight, layer.w_k.weight, layer.w_v.weight]))
        theirs.out_proj.weight.copy_(torch.eye(6))
    x, mask = drawn(3, 5, 6), padding_mask([5, 3, 1], 5)
    for mine, other in zip(layer(x, mask), theirs(x, x, x, key_padding_mask=~mask), strict=True):
        assert_close(mine, other, atol=1e-10, rtol=0)


@pytest.mark.parametrize("dtype, tolerance", [(torch.float64, 1e-10), (torch.float32, 1e-6)])
def test_without_positions_order_is_unseen_and_each_scheme_shows_it(dtype, tolerance):
    """Permuting the inputs permutes the outputs, and no more: unless x, q and k, the scores or the mask know places."""
    x, order = torch.randn(2, 9, 8, dtype=dtype), torch.randperm(9)
    while order[-1] == 8 or order[0] == 0:
        order = torch.randperm(9)
    plain, turned, scheme = (
        SelfAttention(8).to(dtype),
        SelfAttention(8, turn=rotate).to(dtype),
        sinusoidal(9, 8, dtype=dtype),
    )
    readers = {
        "none": lambda x: plain(x),
        "added": lambda x: plain(x + scheme),
        "turned": lambda x: turned(x),
        "biased": lambda x: plain(x, bias=alibi_bias(1, 9, dtype=dtype)),
        "causal": lambda x: plain(x, causal_mask(9)[None]),
    }
    for name, read in readers.items():
        error = (read(x[:, order])[0] - read(x)[0][:, order]).abs().max()
        assert (error <= tolerance) == (name == "none"), name


@pytest.mark.parametrize("t", [4, 7])
def test_a_mask_of_two_dimensions_is_padding_also_where_it_could_be_causal(t):
    layer, x = SelfAttention(3).double(), drawn(4, t, 3)
    mask = torch.rand(4, t) < 0.5
    weights = layer(x, mask)[1]
    assert weights.masked_select(~mask[:, None]).abs().max() == 0
    assert_close(weights.sum(-1), mask.any(-1).double()[:, None].expand(4, t))
    rows = torch.rand(4, t, t) < 0.5
    for whole in (rows, rows[:1]):
        kept = whole.clone()
        assert layer(x, whole)[1].masked_select(~whole.expand(4, t, t)).abs().max() == 0
        assert torch.equal(whole, kept)


def test_self_attention_is_heard_and_steered():
    layer, x = SelfAttention(4).double(), drawn(2, 3, 4)
    with capture(layer, "weights") as maps:
        out, weights = layer(x)
        out.sum().backward()
    assert maps["weights"][0] is weights
    assert_close(maps.grad("weights")[:, 0], layer.w_v(x).sum(-1)[:, None].expand(2, 3, 3))  # d out_i / d a_ij = v_j
    only_first = torch.zeros_like(weights)
    only_first[..., 0] = 1
    handle = layer.weights.register_forward_hook(lambda *_: only_first)
    steered, heard = layer(x)
    handle.remove()
    assert heard is only_first
    assert_close(steered, layer.w_v(x)[:, :1].expand(2, 3, 4))
    assert_close(layer(x)[0], out)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_self_attention_in_half_precision(dtype):
    layer, x = SelfAttention(8, turn=rotate), torch.randn(2, 6, 8)
    exact = layer(x, causal_mask(6)[None], alibi_bias(1, 6))[0]
    half = layer.to(dtype)(x.to(dtype), causal_mask(6)[None], alibi_bias(1, 6))[0]
    assert half.dtype == dtype
    assert_close(half.float(), exact, atol=3e-2, rtol=3e-2)


# --- bad input


def test_bad_input_is_refused_in_words():
    x = torch.zeros(2, 3, 4)
    for mask, error, words in [
        (torch.ones(2, 3, 3), TypeError, "of bool.*ids != padding"),
        (torch.ones(5, 2, 3, 3, dtype=torch.bool), ValueError, r"\(2, 3, 3\); got \(5, 2, 3, 3\)"),
    ]:
        with pytest.raises(error, match=words):
            attend(x, x, x, mask)
    for bias, error, words in [
        (torch.ones(3, 3, dtype=torch.bool), TypeError, "added to a score; got torch.bool: did you mean mask"),
        (torch.ones(5, 2, 3, 3), ValueError, r"bias must fit .* got \(5, 2, 3, 3\)"),
    ]:
        with pytest.raises(error, match=words):
            attend(x, x, x, bias=bias)
    with pytest.raises(ValueError, match=r"q \(..., queries, d\), k .* \(..., keys, any width\); .*\(2, 3, 5\)"):
        attend(x, torch.zeros(2, 3, 5), x)
    with pytest.raises(ValueError, match="from 0 to 3 for each"):
        padding_mask(torch.tensor([4]), 3)


def test_bad_shapes_are_refused_in_words():
    module, query, keys = GeneralAttention(3, 4), torch.zeros(2, 5, 3), torch.zeros(2, 6, 4)
    for q, k, v in [(query[0], keys, keys), (query, keys, keys[:, :3]), (keys, keys, keys), (query[:1], keys, keys)]:
        with pytest.raises(ValueError, match=r"query \(batch, queries, 3\), keys \(batch, keys, 4\)"):
            module(q, k, v)
    for shape in [(2, 5), (2, 6, 5)]:
        with pytest.raises(ValueError, match=r"\(batch, keys\) = \(2, 6\) or \(batch, queries, keys\) = \(2, 5, 6\)"):
            module(query, keys, keys, torch.ones(shape, dtype=torch.bool))


def test_bad_input_to_self_attention_is_refused_in_words():
    layer, x = SelfAttention(4), torch.zeros(2, 3, 4)
    with pytest.raises(ValueError, match=r"x \(batch, time, 4\); got"):
        layer(x[0])
    for shape in [(3, 3), (1, 3), (2, 1, 3)]:
        with pytest.raises(ValueError, match=r"\(2, 3\), or .* \(2, 3, 3\), as causal_mask\(T\)\[None\] is; got"):
            layer(x, torch.ones(shape, dtype=torch.bool))
    with pytest.raises(TypeError, match="did you mean mask"):
        layer(x, bias=causal_mask(3))
