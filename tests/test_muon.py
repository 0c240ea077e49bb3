"""Muon: singular values near 1, PyTorch's own optimisers as the reference, runs that resume, no hidden wait."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close
from torch.utils._python_dispatch import TorchDispatchMode

from course_lib.language.muon import NEWTON_SCHULZ, Muon, orthogonalise, split
from course_lib.train import fit

SHAPES = {"square": (6, 6), "tall": (9, 4), "wide": (4, 9), "row": (1, 5), "column": (5, 1), "many": (3, 2, 7, 4)}


class Toy(nn.Module):
    """An embedding, blocks with matrices, gains and biases, and a read-out of its own."""

    def __init__(self, d=8, vocab=11):
        super().__init__()
        self.embed = nn.Embedding(vocab, d)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(d), nn.Linear(d, 2 * d), nn.Tanh(), nn.Linear(2 * d, d)) for _ in range(2)
        )
        self.readout = nn.Linear(d, vocab, bias=False)

    def forward(self, ids):
        x = self.embed(ids)
        for block in self.blocks:
            x = x + block(x)
        return self.readout(x)


def toy(dtype=torch.float64):
    torch.manual_seed(0)
    return Toy().to(dtype)


IDS = torch.arange(11).repeat(2).view(2, 11)


def loss_of(model):
    return nn.functional.cross_entropy(model(IDS).flatten(0, 1), (IDS * 3 % 11).flatten())


def train(model, optimiser, steps):
    losses = []
    for _ in range(steps):
        optimiser.zero_grad()
        loss = loss_of(model)
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("size", [1e-5, 1.0, 1e6, 1e180], ids="times {:g}".format)
def test_singular_values_are_near_1(shape, size):
    torch.manual_seed(1)
    matrix = torch.randn(shape, dtype=torch.float64)
    out = orthogonalise(size * matrix)
    values = torch.linalg.svdvals(out)
    assert out.shape == matrix.shape and values.min() > 0.65 and values.max() < 1.25


def test_large_numbers_in_single_precision_do_not_overflow():
    """orthogonalise: the square of 1e30 is infinity in float32, and the step would be 0."""
    torch.manual_seed(1)
    matrix = torch.randn(4, 6)
    for size in (1e30, 1e38 / matrix.abs().max().item()):
        assert_close(orthogonalise(size * matrix), orthogonalise(matrix), atol=1e-5, rtol=0)


def test_each_singular_value_goes_its_own_way_and_the_directions_stay():
    torch.manual_seed(2)
    u, v = (torch.linalg.qr(torch.randn(n, 5, dtype=torch.float64))[0] for n in (8, 5))
    s = torch.tensor([0.9, 0.4, 0.1, 0.01, 0.0], dtype=torch.float64)
    s = s / s.norm()
    a, b, c = NEWTON_SCHULZ
    alone = s
    for _ in range(3):
        alone = a * alone + b * alone**3 + c * alone**5
    assert_close(orthogonalise(u * s @ v.T, rounds=3), u * alone @ v.T, atol=1e-12, rtol=0)


def test_the_numbers_in_the_docstring():
    a, b, c = NEWTON_SCHULZ
    s = torch.logspace(-2.69, 0, 10_000, dtype=torch.float64)  # 0.00204 to 1
    for _ in range(5):
        s = a * s + b * s**3 + c * s**5
    assert s.min() > 0.68 and s.max() < 1.21


def test_a_matrix_of_rank_1_stays_one_and_zeros_stay_zeros():
    torch.manual_seed(3)
    out = orthogonalise(torch.outer(torch.randn(5), torch.randn(7)))
    values = torch.linalg.svdvals(out)
    assert 0.65 < values[0] < 1.25 and values[1] < 1e-3
    assert (orthogonalise(torch.zeros(4, 3)) == 0).all()


def test_tall_is_wide_transposed_and_a_batch_is_one_after_the_other():
    torch.manual_seed(4)
    many = torch.randn(3, 7, 4, dtype=torch.float64)
    assert_close(orthogonalise(many.mT), orthogonalise(many).mT, atol=1e-12, rtol=0)
    assert_close(orthogonalise(many), torch.stack([orthogonalise(one) for one in many]), atol=1e-12, rtol=0)


def test_matrices_are_stepped_as_by_pytorchs_muon(monkeypatch):
    monkeypatch.setattr(torch.Tensor, "bfloat16", lambda x: x)  # theirs multiplies in half precision, ours in full
    ours, theirs = toy(), toy()
    mine = Muon(split(ours)[:1], lr=0.03, momentum=0.9, weight_decay=0.1)
    other = torch.optim.Muon(split(theirs)[0]["params"], lr=0.03, momentum=0.9, weight_decay=0.1)
    train(ours, mine, 6), train(theirs, other, 6)
    for one, two in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert_close(one, two, atol=1e-9, rtol=0)


def test_the_rest_is_stepped_as_by_pytorchs_adamw():
    ours, theirs = toy(), toy()
    mine = Muon([{"params": ours.parameters()}], lr=0.02, betas=(0.8, 0.9), weight_decay=0.1)
    other = torch.optim.AdamW(theirs.parameters(), lr=0.02, betas=(0.8, 0.9), weight_decay=0.1)
    train(ours, mine, 6), train(theirs, other, 6)
    for one, two in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert_close(one, two, atol=1e-10, rtol=0)


def test_split_takes_the_matrices_inside_the_blocks_and_nothing_twice():
    model = toy()
    matrices, rest = split(model)
    names = {id(weight): name for name, weight in model.named_parameters()}
    assert [names[id(weight)] for weight in matrices["params"]] == [
        f"blocks.{n}.{part}.weight" for n in (0, 1) for part in (1, 3)
    ]
    assert len(matrices["params"]) + len(rest["params"]) == len(names) and matrices["matrices"] and not rest["matrices"]
    model.readout.weight = model.embed.weight  # tied: one weight, two names
    assert len(split(model)[1]["params"]) == len(rest["params"]) - 1


@pytest.mark.slow
def test_learns_by_heart():
    model = toy(torch.float32)
    losses = train(model, Muon(split(model), lr=0.05), 150)
    assert losses[-1] < 0.02 < 2 < losses[0]


def test_a_run_that_stopped_goes_on_exactly():
    whole, begun = toy(), toy()
    expected = train(whole, Muon(split(whole)), 8)
    first = Muon(split(begun))
    assert train(begun, first, 3) == expected[:3]
    again, second = Toy().double(), None
    again.load_state_dict(begun.state_dict())
    second = Muon(split(again))
    second.load_state_dict(first.state_dict())
    assert train(again, second, 5) == expected[3:]


def test_a_weight_without_gradient_stays():
    model = toy()
    before = [weight.clone() for weight in model.parameters()]
    optimiser = Muon(split(model), weight_decay=0.5)
    optimiser.step()
    assert all(torch.equal(one, two) for one, two in zip(before, model.parameters(), strict=True))
    assert optimiser.step(lambda: 7) == 7


class NoReading(TorchDispatchMode):
    """Raises where a program asks a tensor for its number: on a GPU it would stand still there."""

    def __torch_dispatch__(self, function, types, arguments=(), options=None):
        if function is torch.ops.aten._local_scalar_dense.default:
            raise AssertionError("a number was read")
        return function(*arguments, **(options or {}))


def test_a_step_reads_no_number():
    model = toy(torch.float32)
    optimiser = Muon(split(model))
    loss_of(model).backward()
    with NoReading():
        optimiser.step()
        optimiser.step()


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda: Muon(list(toy().named_parameters())), TypeError, "got a list of tuple"),
        (
            lambda: Muon([{"params": toy().parameters(), "matrices": True}]),
            ValueError,
            r"\(16,\) is the shape of none|\(8,\)",
        ),
    ],
)
def test_bad_input_is_refused_in_words(call, error, says):
    with pytest.raises(error, match=says):
        call()


def test_fit_trains_with_it_and_goes_on_from_a_checkpoint_exactly(tmp_path):
    """fit hands it each step's learning rate, and keeps its moments."""

    def run(steps, **options):
        model = toy(torch.float32)
        batches = iter(lambda: IDS, None)
        asked = {"steps": steps, "lr": 0.02, "schedule": None, "device": torch.device("cpu"), "progress": False}
        history = fit(
            model, batches, lambda model, ids: loss_of(model), **asked, optimiser=lambda m: Muon(split(m)), **options
        )
        return model.state_dict(), history

    whole, history = run(12)
    assert history.lr == [0.02] * 12 and history.loss[-1] < history.loss[0]
    run(5, checkpoint=tmp_path / "run")
    resumed, _ = run(12, checkpoint=tmp_path / "run")
    assert all(torch.equal(resumed[name], whole[name]) for name in whole)


def test_half_precision_steps_like_pytorchs_adamw():
    """bf16 counts to 256 and knows no power of 0.999: the counter is kept in float32."""
    ours, theirs = (nn.Parameter(torch.zeros(3, dtype=torch.bfloat16)) for _ in range(2))
    one = Muon([{"params": [ours], "matrices": False}], lr=1.0, betas=(0.9, 0.999))
    other = torch.optim.AdamW([theirs], lr=1.0, weight_decay=0.0)
    for _ in range(300):
        for weight, optimiser in ((ours, one), (theirs, other)):
            weight.data.zero_()
            weight.grad = torch.ones_like(weight)
            optimiser.step()
        assert_close(ours, theirs, atol=0.15, rtol=0)  # PyTorch rounds other things than we do
    assert one.state[ours]["step"] == 300
