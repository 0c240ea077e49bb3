"""recurrent/rnn.py against torch.nn.RNN, against autograd, and against cases that can be checked by eye."""

import math

import pytest
import torch
from parity import TOLERANCE
from torch import nn
from torch.testing import assert_close

from course_lib.recurrent.rnn import RNN, bptt, rnn_step, unroll
from course_lib.show.record import capture

# Batch, time, d_in, d_hidden, n_layers: odd sizes, ones everywhere, more than one layer.
SHAPES = [(1, 1, 1, 1, 1), (3, 7, 5, 4, 1), (2, 1, 3, 6, 2), (1, 13, 2, 9, 3), (5, 4, 8, 1, 2)]


def weights(d, h, dtype=torch.float64):
    return [torch.randn(*shape, dtype=dtype, requires_grad=True) for shape in ((d, h), (h, h), (h,))]


def test_rnn_step_by_eye():
    """rnn_step: one unit, tanh(2 * 0.5 + 1 * 0.25 - 0.25) = tanh(1)."""
    out = rnn_step(
        torch.tensor([[2.0]]),
        torch.tensor([[1.0]]),
        torch.tensor([[0.5]]),
        torch.tensor([[0.25]]),
        torch.tensor([-0.25]),
    )
    assert_close(out, torch.tensor([[math.tanh(1.0)]]))


def test_rnn_step_is_torch_rnn_cell():
    cell = nn.RNNCell(5, 3, dtype=torch.float64)
    x, h = torch.randn(4, 5, dtype=torch.float64), torch.randn(4, 3, dtype=torch.float64)
    ours = rnn_step(x, h, cell.weight_ih.T, cell.weight_hh.T, cell.bias_ih + cell.bias_hh)
    assert_close(ours, cell(x, h), atol=1e-10, rtol=0)


def test_unroll_repeats_rnn_step():
    """unroll: the same step, with the same weights, for each moment."""
    x, h = torch.randn(3, 6, 4, dtype=torch.float64), torch.randn(3, 5, dtype=torch.float64)
    w = weights(4, 5)
    hs = unroll(x, h, *w)
    for t in range(6):
        h = rnn_step(x[:, t], h, *w)
        assert_close(hs[:, t], h, atol=1e-12, rtol=0)


@pytest.mark.parametrize("b, t, d, h, layers", SHAPES)
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_rnn_agrees_with_torch_in_values_and_gradients(b, t, d, h, layers, dtype):
    theirs = nn.RNN(d, h, layers, batch_first=True, dtype=dtype)
    ours = RNN.from_torch(theirs)
    assert ours.w_h[0].dtype == dtype
    x, state = torch.randn(b, t, d, dtype=dtype), torch.randn(layers, b, h, dtype=dtype)
    x1, s1, x2, s2 = (v.clone().requires_grad_() for v in (x, state, x, state))
    out1, last1 = ours(x1, s1)
    out2, last2 = theirs(x2, s2)
    assert out1.shape == (b, t, h) and last1.shape == (layers, b, h)
    cotangent = torch.randn_like(out1)
    for out, last in ((out1, last1), (out2, last2)):
        ((out * cotangent).sum() + last.square().sum()).backward()
    tolerance = dict(atol=TOLERANCE[dtype], rtol=TOLERANCE[dtype])
    assert_close(out1, out2, **tolerance)
    assert_close(last1, last2, **tolerance)
    assert_close(x1.grad, x2.grad, **tolerance)
    assert_close(s1.grad, s2.grad, **tolerance)
    for i in range(layers):
        assert_close(ours.w_x[i].grad, getattr(theirs, f"weight_ih_l{i}").grad.T, **tolerance)
        assert_close(ours.w_h[i].grad, getattr(theirs, f"weight_hh_l{i}").grad.T, **tolerance)
        assert_close(ours.b[i].grad, getattr(theirs, f"bias_hh_l{i}").grad, **tolerance)


@pytest.mark.parametrize("b, t, d, h, _", SHAPES)
def test_bptt_equals_autograd(b, t, d, h, _):
    """bptt: the gradients by hand are autograd's, for the input, the first state and each weight."""
    x, h0 = (torch.randn(*shape, dtype=torch.float64, requires_grad=True) for shape in ((b, t, d), (b, h)))
    w = weights(d, h)
    hs = unroll(x, h0, *w)
    grad_hs = torch.randn_like(hs)
    expected = torch.autograd.grad(hs, (x, h0, *w), grad_hs)
    with torch.no_grad():
        for mine in (bptt(x, h0, *w, grad_hs), bptt(x, h0, *w, grad_hs, hs)):
            for ours, theirs in zip(mine, expected, strict=True):
                assert_close(ours, theirs, atol=1e-10, rtol=1e-10)


def test_bptt_by_eye():
    """w_h = 0 cuts the past off: only each step's own input can receive gradient, and h0 gets none."""
    x, h0 = torch.randn(2, 3, 4, dtype=torch.float64), torch.randn(2, 5, dtype=torch.float64)
    w_x, w_h, b = (w.detach() for w in weights(4, 5))
    grad_hs = torch.zeros(2, 3, 5, dtype=torch.float64)
    grad_hs[:, 2] = 1
    grads = bptt(x, h0, w_x, torch.zeros_like(w_h), b, grad_hs)
    assert grads.h0.abs().max() == 0 and grads.x[:, :2].abs().max() == 0 and grads.x[:, 2].abs().min() > 0


def test_no_gradient_from_the_future():
    rnn = RNN(3, 4, 2).double()
    x = torch.randn(2, 9, 3, dtype=torch.float64, requires_grad=True)
    rnn(x)[0][:, 4].sum().backward()
    assert x.grad[:, 5:].abs().max() == 0 and x.grad[:, :5].abs().amin((0, 2)).min() > 0


def test_state_carried_over_two_halves_equals_one_run():
    rnn, x = RNN(3, 4, 2).double(), torch.randn(2, 10, 3, dtype=torch.float64)
    whole, last = rnn(x)
    first, state = rnn(x[:, :6])
    second, state = rnn(x[:, 6:], state)
    assert_close(torch.cat([first, second], 1), whole, atol=1e-12, rtol=0)
    assert_close(state, last, atol=1e-12, rtol=0)


def test_sequences_of_a_batch_do_not_touch_each_other():
    rnn, x = RNN(3, 4).double(), torch.randn(5, 6, 3, dtype=torch.float64)
    order = torch.randperm(5)
    assert_close(rnn(x)[0][order], rnn(x[order])[0], atol=1e-12, rtol=0)


def test_recording_runs_step_by_step_and_changes_nothing():
    rnn, x = RNN(3, 4, 2).double(), torch.randn(2, 6, 3, dtype=torch.float64)
    fused = rnn(x)[0]
    fused.square().sum().backward()
    expected = [p.grad.clone() for p in rnn.parameters()]
    rnn.zero_grad()
    with capture(rnn, "hidden.*") as maps:
        stepwise = rnn(x)[0]
        stepwise.square().sum().backward()
    assert_close(stepwise, fused, atol=1e-12, rtol=0)
    assert_close(maps.over_time("hidden.1"), stepwise.detach(), atol=0, rtol=0)
    for ours, theirs in zip(expected, rnn.parameters(), strict=True):
        assert_close(ours, theirs.grad, atol=1e-10, rtol=1e-10)


# --- gradients of gradients, transforms, half precision


def as_function(rnn):
    """`rnn` as a function of x, the state and each weight, and numbers to call it with."""
    names, weights = zip(*((name, p.detach().requires_grad_()) for name, p in rnn.named_parameters()), strict=True)
    x, state = torch.randn(2, 4, 2), torch.randn(rnn.n_layers, 2, 3)
    leaves = [leaf.double().requires_grad_() for leaf in (x, state)]

    def call(x, state, *weights):
        return torch.func.functional_call(rnn, dict(zip(names, weights, strict=True)), (x, state))

    return call, (*leaves, *weights)


@pytest.mark.slow
@pytest.mark.parametrize("n_layers", [1, 2])
def test_a_gradient_has_its_own_gradient(n_layers):
    call, leaves = as_function(RNN(2, 3, n_layers).double())
    assert torch.autograd.gradcheck(call, leaves) and torch.autograd.gradgradcheck(call, leaves)


def test_a_gradient_penalty_on_a_linear_loss_reaches_the_weights():
    """dL/dx of a sum of states is no constant, and its length has a gradient: the same as without our backward pass."""
    rnn, x = RNN(3, 4).double(), torch.randn(2, 5, 3, dtype=torch.float64, requires_grad=True)
    found = []
    for out in (rnn(x)[0], unroll(x, torch.zeros(2, 4).double(), rnn.w_x[0], rnn.w_h[0], rnn.b[0])):
        slope = torch.autograd.grad(out.sum(), x, create_graph=True)[0]
        found.append(torch.autograd.grad(slope.square().sum(), list(rnn.parameters())))
    assert all(grad.abs().max() > 1e-3 for grad in found[0])
    for ours, theirs in zip(*found, strict=True):
        assert_close(ours, theirs, atol=1e-12, rtol=1e-10)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # PyTorch's own, while it prepares forward mode
def test_transforms_of_torch_func():
    rnn, x = RNN(2, 3).double(), torch.randn(4, 5, 2, dtype=torch.float64)
    out = rnn(x)[0]
    assert_close(torch.func.vmap(lambda one: rnn(one[None])[0][0])(x), out)
    call, (_, state, *weights) = as_function(rnn)
    state = torch.zeros(1, 4, 3, dtype=torch.float64)
    many = torch.func.vmap(lambda *w: call(x, state, *w)[0])(*(torch.stack([w, 2 * w]) for w in weights))
    assert_close(many[0], out)
    assert_close(many[1], call(x, state, *(2 * w for w in weights))[0])
    expected = torch.autograd.functional.jacobian(lambda x: rnn(x)[0], x)
    vectorized = torch.autograd.functional.jacobian(lambda x: rnn(x)[0], x, vectorize=True)
    for found in (torch.func.jacrev(lambda x: rnn(x)[0])(x), torch.func.jacfwd(lambda x: rnn(x)[0])(x), vectorized):
        assert_close(found, expected)
    slopes = torch.func.grad(lambda *w: call(x, state, *w)[0].square().sum(), argnums=(0, 1, 2))(*weights)
    rnn(x)[0].square().sum().backward()
    for found, weight in zip(slopes, rnn.parameters(), strict=True):
        assert_close(found, weight.grad)


@pytest.mark.parametrize("inside", [False, True])
def test_under_autocast_it_computes_in_full_precision(inside):
    rnn, x = RNN(5, 7, 2), torch.randn(3, 6, 5)
    here = rnn(x)[0]
    here.square().sum().backward()
    expected = [p.grad.clone() for p in rnn.parameters()]
    rnn.zero_grad()
    with torch.autocast("cpu", torch.bfloat16):
        out = rnn(x)[0]
        assert rnn(x.bfloat16())[0].dtype == torch.float32  # what another layer under autocast hands over
        if inside:
            out.square().sum().backward()
        with pytest.raises(TypeError, match="embed token ids first"):
            rnn(torch.zeros(3, 6, 5).long())
    if not inside:
        out.square().sum().backward()
    assert torch.equal(out, here)
    for p, grad in zip(rnn.parameters(), expected, strict=True):
        assert torch.equal(p.grad, grad)


def test_starts_orthogonal():
    w_h = RNN(3, 8).double().w_h[0]
    assert_close(torch.linalg.svdvals(w_h), torch.ones(8, dtype=torch.float64), atol=1e-6, rtol=0)


def test_zeros_in_zeros_out():
    assert RNN(3, 4, 2)(torch.zeros(2, 5, 3))[0].abs().max() == 0


@pytest.mark.slow
def test_learns_one_batch_by_heart():
    torch.manual_seed(0)
    rnn, readout = RNN(4, 16), nn.Linear(16, 4)
    tokens = torch.randint(4, (8, 12))
    x, y = nn.functional.one_hot(tokens[:, :-1], 4).float(), tokens[:, 1:]
    optimiser = torch.optim.AdamW([*rnn.parameters(), *readout.parameters()], lr=2e-2)
    for _ in range(300):
        loss = nn.functional.cross_entropy(readout(rnn(x)[0]).flatten(0, 1), y.flatten())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    assert loss < 0.4, f"chance is {math.log(4):.2f} nats; the first step, which sees one symbol, cannot reach 0"


@pytest.mark.parametrize(
    "x, error, words",
    [
        (torch.zeros(2, 5, 4), ValueError, r"\(batch, time, 3\), not empty; got \(2, 5, 4\)"),
        (torch.zeros(5, 3), ValueError, r"\(batch, time, 3\)"),
        (torch.zeros(2, 5, 3, dtype=torch.int64), TypeError, "embed token ids first"),
    ],
)
def test_bad_input_is_refused_in_words(x, error, words):
    with pytest.raises(error, match=words):
        RNN(3, 4)(x)


def test_bad_states_and_networks_are_refused_in_words():
    with pytest.raises(ValueError, match=r"state_0 \(2, batch, 4\), not empty; got .* and \(1, 5, 4\)"):
        RNN(3, 4, 2)(torch.zeros(5, 6, 3), torch.zeros(1, 5, 4))
    with pytest.raises(ValueError, match="bidirectional=True"):
        RNN.from_torch(nn.RNN(3, 4, bidirectional=True))
    with pytest.raises(ValueError, match="relu"):
        RNN.from_torch(nn.RNN(3, 4, nonlinearity="relu"))


def test_from_torch_without_bias_and_time_first():
    theirs = nn.RNN(3, 4, bias=False, dtype=torch.float64)
    x = torch.randn(6, 2, 3, dtype=torch.float64)
    assert_close(RNN.from_torch(theirs)(x.transpose(0, 1))[0].transpose(0, 1), theirs(x)[0], atol=1e-10, rtol=0)


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_same_numbers_on_cuda_and_under_autocast():
    rnn, x = RNN(5, 7, 2), torch.randn(3, 6, 5)
    here = rnn(x)[0]
    there = rnn.cuda()(x.cuda())[0]
    assert_close(there.cpu(), here, atol=1e-5, rtol=1e-5)
    with torch.autocast("cuda", torch.bfloat16):
        out = rnn(x.cuda())[0]
    out.sum().backward()
    assert_close(out.float().cpu(), here, atol=1e-5, rtol=1e-5)


def test_the_gradient_of_a_gradient_where_one_argument_was_computed_from_another():
    """By create_graph=True the first gradient is what it is without, and the second that of the steps one by one."""
    torch.manual_seed(0)
    net, x = RNN(3, 4, 2).double(), torch.randn(2, 5, 3, dtype=torch.float64, requires_grad=True)

    def penalty(make_graph):
        _, carried = net(x)  # not detached
        out, _ = net(x.flip(1), carried)
        first = torch.autograd.grad(out.square().sum(), [x, *net.parameters()], create_graph=make_graph)
        return first, sum(part.square().sum() for part in first)

    plain, (first, total) = penalty(False)[0], penalty(True)
    for one, two in zip(plain, first, strict=True):
        assert_close(one, two)
    second = torch.autograd.grad(total, net.w_h[0])[0][0, 0].item()
    around = []
    for step in (1e-5, -2e-5):
        with torch.no_grad():
            net.w_h[0][0, 0] += step
        around.append(penalty(True)[1].item())
    assert_close(second, (around[0] - around[1]) / 2e-5, rtol=1e-5, atol=1e-5)
