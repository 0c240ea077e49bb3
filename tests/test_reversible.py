"""long_context/reversible.py: a step and its way back, gradients beside PyTorch's own, and what is kept for them."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from course_lib.attention.block import FeedForward
from course_lib.attention.multi_head import MultiHead
from course_lib.long_context.hashing import HashedHeads
from course_lib.long_context.reversible import ReversibleStack, reversed_step, reversible_step


def drawn(*shape, dtype=torch.float64, seed=0):
    numbers = torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)
    return numbers.requires_grad_()


def layers(n, seed=0):
    """Pairs of attention and a feed-forward network, 8 wide."""
    torch.manual_seed(seed)
    return [(MultiHead(8, 2).double(), FeedForward(8, 12).double()) for _ in range(n)]


def both(parts):
    """The same layers twice: once computed back, once with all inputs kept."""
    return ReversibleStack(parts), ReversibleStack(parts, keep=True)


# --- a step


def test_a_step_and_back_by_hand():
    """reversible_step, reversed_step: f doubles and g squares: 1 + 2 * 3 = 7, 3 + 7 * 7 = 52."""
    f, g = (lambda x: 2 * x), (lambda x: x * x)
    y_1, y_2 = reversible_step(f, g, torch.tensor([1.0]), torch.tensor([3.0]))
    assert (y_1.item(), y_2.item()) == (7, 52)
    assert [x.item() for x in reversed_step(f, g, y_1, y_2)] == [1, 3]


@pytest.mark.parametrize("shape", [(4,), (2, 3, 4), (0, 4)], ids=str)
def test_back_undoes_a_step_and_a_step_undoes_back(shape):
    """reversed_step: for any f and g, which need not be invertible themselves."""
    torch.manual_seed(0)
    f, g = nn.Sequential(nn.Linear(4, 9), nn.ReLU(), nn.Linear(9, 4)).double(), lambda x: x.relu().sum(-1, keepdim=True)
    x_1, x_2 = drawn(*shape), drawn(*shape, seed=1)
    for there, back in ((reversible_step, reversed_step), (reversed_step, reversible_step)):
        for found, wanted in zip(back(f, g, *there(f, g, x_1, x_2)), (x_1, x_2), strict=True):
            assert_close(found, wanted, atol=1e-12, rtol=0)


# --- a stack


def test_a_stack_is_its_steps_one_after_the_other():
    """ReversibleStack, ReversibleStack.forward: both streams begin as x, and their mean is given."""
    parts, x = layers(2), drawn(2, 5, 8)
    y_1 = y_2 = x
    for f, g in parts:
        y_1 = y_1 + f(y_2)
        y_2 = y_2 + g(y_1)
    for stack in both(parts):
        assert_close(stack(x), (y_1 + y_2) / 2, atol=1e-12, rtol=0)


def frozen(parts):
    for part in (parts[0][0].w_q, parts[-1][1]):
        part.requires_grad_(False)
    return parts


PARTS = {
    "one": lambda: layers(1),
    "three": lambda: layers(3),
    "shared": lambda: layers(1) * 3,
    "f is shared": lambda: [(f, g) for (f, _), (_, g) in zip(layers(1) * 2, layers(2, seed=1), strict=True)],
    "frozen": lambda: frozen(layers(3)),
    "no weights": lambda: [(nn.Tanh(), nn.Sigmoid())] * 2,
}


@pytest.mark.parametrize("learns", [True, False], ids=["x learns", "x does not"])
@pytest.mark.parametrize("kind", PARTS)
def test_gradients_are_those_with_everything_kept(kind, learns):
    """ReversibleStack: for weights that several layers share, frozen ones, and an input that has no gradient."""
    parts, x = PARTS[kind](), drawn(2, 5, 8).requires_grad_(learns)
    found = []
    for stack in both(parts):
        weights = [weight for weight in stack.parameters() if weight.requires_grad]
        out, leaves = stack(x), weights + [x] * learns
        assert out.requires_grad == bool(leaves)
        found.append([out, *(torch.autograd.grad(out.square().sum(), leaves) if leaves else ())])
    for one, other in zip(*found, strict=True):
        assert_close(one, other, atol=1e-10, rtol=0)


def test_f_and_g_may_share_weights():
    both_of_one = nn.Linear(8, 8).double()
    grads = []
    for stack in both([(both_of_one, both_of_one)]):
        grads.append(torch.autograd.grad(stack(drawn(1, 2, 8)).sum(), both_of_one.weight)[0])
    assert_close(*grads, atol=1e-10, rtol=0)


def test_a_part_that_looks_at_nothing_only_adds():
    """ReversibleStack: a part that gives a learned vector whatever it reads: its input gets no gradient through it."""

    class Adds(nn.Module):
        def __init__(self):
            super().__init__()
            self.free = nn.Parameter(drawn(8).detach())

        def forward(self, x):
            return self.free.expand_as(x)

    parts, x = [(Adds(), FeedForward(8, 12).double()), (nn.Tanh(), Adds())], drawn(2, 5, 8)
    grads = [torch.autograd.grad(stack(x).square().sum(), [x, *stack.parameters()]) for stack in both(parts)]
    for one, other in zip(*grads, strict=True):
        assert_close(one, other, atol=1e-10, rtol=0)


def test_each_part_is_computed_once_more_on_the_way_back():
    """ReversibleStack: what takes it back serves its gradient as well."""
    calls = []

    class Counted(nn.Linear):
        def forward(self, x):
            calls.append(x)
            return super().forward(x)

    out = ReversibleStack([(Counted(8, 8), Counted(8, 8)) for _ in range(3)])(torch.ones(1, 2, 8))
    assert len(calls) == 6
    out.sum().backward()
    assert len(calls) == 12


def test_gradients_are_slopes():
    """ReversibleStack: against differences of the output."""
    torch.manual_seed(0)
    stack = ReversibleStack([(nn.Linear(3, 3), nn.Tanh()), (nn.Tanh(), nn.Linear(3, 3))]).double()
    assert torch.autograd.gradcheck(stack, drawn(1, 2, 3))


def test_gradients_gather_as_usual():
    """ReversibleStack: two backward passes add up in .grad, and nothing is there for a frozen weight."""
    stack, x = ReversibleStack(frozen(layers(2))), drawn(2, 5, 8)
    stack(x).sum().backward()
    once = {name: part.grad.clone() for name, part in stack.named_parameters() if part.grad is not None}
    stack(x).sum().backward()
    assert once.keys() == {name for name, part in stack.named_parameters() if part.requires_grad}
    for name, grad in once.items():
        assert_close(stack.get_parameter(name).grad, 2 * grad, atol=1e-12, rtol=0)


def test_single_precision_comes_back_near_enough():
    """ReversibleStack: what is computed back differs by rounding, which gradients bear through eight layers."""
    parts = [(f.float(), g.float()) for f, g in layers(8)]
    x = drawn(2, 5, 8, dtype=torch.float32)
    grads = [torch.autograd.grad(stack(x).square().mean(), [x, *stack.parameters()]) for stack in both(parts)]
    for one, other in zip(*grads, strict=True):
        assert one.dtype == torch.float32
        assert_close(one, other, atol=1e-4, rtol=1e-3)


@pytest.mark.parametrize("seed", range(3))
def test_what_a_part_draws_is_drawn_again_alike(seed):
    """ReversibleStack: dropout and drawn hashes; behind it the generator stands where it stood."""
    torch.manual_seed(seed)
    heads = [HashedHeads(8, 2, n_rounds=2, n_buckets=4, chunk=3).double() for _ in range(2)]
    parts = [(one, nn.Sequential(FeedForward(8, 12).double(), nn.Dropout(0.4))) for one in heads]
    found, x = [], drawn(2, 9, 8)
    for stack in both(parts):
        torch.manual_seed(seed)
        out = stack(x)
        torch.rand(seed)
        before = torch.get_rng_state()
        grads = [torch.autograd.grad(out.square().sum(), [x, *stack.parameters()], retain_graph=True) for _ in range(2)]
        assert all(torch.equal(one, other) for one, other in zip(*grads, strict=True))
        assert torch.equal(torch.get_rng_state(), before)
        found.append([out, *grads[0]])
    for one, other in zip(*found, strict=True):
        assert_close(one, other, atol=1e-10, rtol=0)
    assert (stack(x) - out).abs().max() > 0.01  # else nothing was drawn


def test_second_derivatives_are_refused_and_there_with_everything_kept():
    """ReversibleStack: no wrong number in silence."""
    x = drawn(1, 3, 8)
    for stack in both([(nn.Linear(8, 8).double(), nn.Tanh())]):
        (grad,) = torch.autograd.grad(stack(x).pow(3).sum(), x, create_graph=True)
        if stack.keep:
            assert torch.autograd.grad(grad.sum(), x)[0].any()
        else:
            with pytest.raises(RuntimeError, match="trying to differentiate twice"):
                grad.sum().backward()


@pytest.mark.parametrize("within", [False, True], ids=["behind the block", "in the block"])
def test_under_autocast_the_way_back_computes_what_the_way_there_did(within):
    torch.manual_seed(0)
    parts, found = [(nn.Linear(8, 8), nn.Sequential(nn.Linear(8, 8), nn.Tanh())) for _ in range(2)], []
    x = drawn(2, 5, 8, dtype=torch.float32)
    for stack in both(parts):
        with torch.autocast("cpu", torch.bfloat16):
            loss = stack(x).square().sum()
            if within:
                found.append(torch.autograd.grad(loss, [x, *stack.parameters()]))
        if not within:
            found.append(torch.autograd.grad(loss, [x, *stack.parameters()]))
    for one, other in zip(*found, strict=True):
        assert_close(one, other, atol=1e-4, rtol=1e-3)


# --- what is kept


def kept(stack, x):
    """Bytes that a forward pass keeps for the way back."""
    found = []
    with torch.autograd.graph.saved_tensors_hooks(
        lambda t: found.append(t.numel() * t.element_size()) or t, lambda t: t
    ):
        stack(x)
    return sum(found)


def test_nothing_more_is_kept_for_more_layers():
    """ReversibleStack: the two streams of the last layer, however many there are; keep=True keeps more by each."""
    x = drawn(2, 5, 8)
    found = {keep: [kept(ReversibleStack(layers(n), keep), x) for n in (1, 2, 3)] for keep in (False, True)}
    assert found[False] == [2 * x.numel() * 8] * 3
    first, second, third = found[True]
    assert third - second == second - first > 5 * x.numel() * 8
    with torch.no_grad():
        assert kept(ReversibleStack(layers(2)), x) == 0 and not ReversibleStack(layers(2))(x).requires_grad


# --- bad input


def test_bad_input_is_refused_in_words():
    with pytest.raises(ValueError, match="ReversibleStack needs x"):
        ReversibleStack([(nn.Tanh(), nn.Tanh())])(torch.randn(5, 8))
