"""inputs/reach.py: by hand where it can be done, else against the whole Jacobian; nothing of the model moves."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from course_lib.attention.attention import SelfAttention, causal_mask
from course_lib.inputs.reach import reach
from course_lib.recurrent.lstm import GRU, LSTM
from course_lib.recurrent.rnn import RNN

D, K = 4, 6
MODELS = {
    "RNN": lambda: RNN(D, K, 2),
    "LSTM": lambda: LSTM(D, K),
    "GRU both ways": lambda: GRU(D, K // 2, bidirectional=True),
    "nn.LSTM": lambda: nn.LSTM(D, K, batch_first=True),
    "SelfAttention": lambda: SelfAttention(D, K),
    "nn.TransformerEncoderLayer": lambda: nn.TransformerEncoderLayer(D, 2, 8, batch_first=True).eval(),
    "nn.Linear": lambda: nn.Linear(D, K),
}


def by_jacobian(model, x, at):
    """The definition, one sequence at a time: out_at (K) by x (T, D)."""

    def out(one):
        found = model(one[None])
        return (found[0] if isinstance(found, tuple) else found)[0, at]

    whole = torch.stack([torch.autograd.functional.jacobian(out, one) for one in x])  # (B, K, T, D)
    return whole.square().sum((1, 3)).mean(0).sqrt()


@pytest.mark.parametrize("at", [-1, 0, 3])
@pytest.mark.parametrize("name", MODELS)
def test_reach_is_the_norm_of_the_jacobian(name, at):
    """reach: the root mean square over the batch of || d out_at / d x_t ||, for models of every kind."""
    model, x = MODELS[name]().double(), torch.randn(3, 7, D, dtype=torch.float64)
    found = reach(model, x, at)
    assert found.shape == (7,) and found.dtype == torch.float64 and not found.requires_grad
    assert_close(found, by_jacobian(model, x, at), atol=1e-12, rtol=1e-10)
    alone = torch.stack([reach(model, one[None], at) for one in x])
    assert_close(reach(model, x, at, each=True), alone, atol=1e-12, rtol=1e-10)


def test_a_decay_by_hand():
    """h_t = 0.9 h_{t-1} + 2 x_t: a change of x moves h by 2, and by 0.9 of that with each step."""

    def read(x):
        h, steps = torch.zeros_like(x[:, 0]), []
        for x_t in x.unbind(1):
            h = 0.9 * h + 2 * x_t
            steps.append(h)
        return torch.stack(steps, dim=1)

    found = reach(read, torch.randn(5, 40, 1))
    assert_close(found, 2 * 0.9 ** torch.arange(39.0, -1, -1))
    assert_close(reach(read, torch.randn(5, 40, 1), at=2), torch.tensor([2 * 0.81, 1.8, 2.0] + [0.0] * 37))
    # Four numbers that each move their own: the norm of a table with 2 four times on its diagonal.
    assert_close(reach(read, torch.randn(5, 3, 4))[-1], torch.tensor(4.0))


def test_it_is_a_mean_of_squares_over_the_batch():
    x = torch.tensor([3.0, 4.0])[:, None, None]
    assert_close(reach(lambda x: x**2, x), torch.tensor([((6**2 + 8**2) / 2) ** 0.5]))


def test_what_may_not_be_seen_has_no_reach():
    layer, x = SelfAttention(D), torch.randn(2, 6, D)
    found = reach(lambda x: layer(x, causal_mask(6)[None]), x, at=2)
    assert (found[:3] > 0).all() and found[3:].tolist() == [0, 0, 0]


class Stubborn(torch.autograd.Function):
    """Three times x, and a backward pass that looks at a value: that cannot be done for many directions at once."""

    @staticmethod
    def forward(ctx, x):
        return 3 * x

    @staticmethod
    def backward(ctx, grad):
        return grad * (3 if grad.sum().item() < 1e9 else 0)


def test_what_cannot_be_batched_is_done_one_by_one():
    x = torch.randn(3, 5, D)
    with pytest.raises(RuntimeError, match="item"):
        out = Stubborn.apply(y := x.clone().requires_grad_())
        torch.autograd.grad(out, y, torch.ones(2, *out.shape), is_grads_batched=True)
    assert_close(reach(Stubborn.apply, x), torch.tensor([0.0, 0, 0, 0, 6]))


def test_a_wide_output_is_taken_in_parts():
    layer, x = nn.Linear(D, 150), torch.randn(2, 3, D)
    assert_close(reach(layer, x), torch.stack([torch.zeros(()), torch.zeros(()), layer.weight.detach().norm()]))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", MODELS)
def test_the_model_is_left_as_it_was_and_nothing_is_said(name):
    model, x = MODELS[name](), torch.randn(2, 5, D, requires_grad=True)
    kept = torch.randn(())
    for p in model.parameters():
        p.grad = kept.expand_as(p).clone()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    training = model.training
    with torch.no_grad():
        found = reach(model, x)
    assert found[-1] > 0 and x.grad is None and model.training == training
    assert all(torch.equal(p.grad, kept.expand_as(p)) for p in model.parameters())
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_has_room_for_large_gradients(dtype):
    layer, x = nn.Linear(D, K, bias=False), torch.randn(2, 3, D)
    with torch.no_grad():
        layer.weight.mul_(1000)
    found = reach(layer.to(dtype), x.to(dtype))
    assert found.dtype == torch.float32
    assert_close(found[-1], layer.weight.detach().float().norm(), atol=0, rtol=1e-2)


def test_bad_input_is_refused_in_words():
    x, layer = torch.randn(2, 3, D), nn.Linear(D, K)
    for wrong in (x[0], x[:0], x[:, :0]):
        with pytest.raises(ValueError, match=r"x \(batch, time, width\), not empty; got"):
            reach(layer, wrong)
    for read, error, words in [
        (lambda x: x.argmax(-1), TypeError, "got out of torch.int64"),
        (lambda x: x.transpose(0, 1), ValueError, r"reach needs .* got \(2, 3, 4\) and \(3, 2, 4\)"),
        (lambda x: layer(x).detach(), ValueError, "does not depend on x"),
        (lambda _: layer(x), ValueError, "does not depend on x"),
    ]:
        with pytest.raises(error, match=words):
            reach(read, x)
