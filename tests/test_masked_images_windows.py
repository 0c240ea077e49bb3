"""experiments/masked_images_windows.py: what passes from a window to another, seams, errors by hand, plain numbers."""

import json
from functools import partial

import pytest
import torch
from torch.testing import assert_close

from course_lib.vision.masked_patches import draw_seen
from course_lib.workshop.experiments.masked_images import windows

N = windows.GRID[0] * windows.GRID[1]


def a_painter(look, seed=0):
    """One with weights drawn at random; its biases of the grid too, which are 0 at first."""
    torch.manual_seed(seed)
    model = windows.WindowPainter(*windows.LOOKS[look]).double().eval()
    for block in model.blocks:
        torch.nn.init.normal_(block.attention.position_bias.table)
    return model


def some_images(n=3):
    torch.manual_seed(1)
    return torch.rand(n, 1, windows.SIDE, windows.SIDE, dtype=torch.float64), draw_seen(n, N, windows.HIDDEN)


def window_of(down, across):
    """Which places stand in a window, (N,)."""
    rows, columns = torch.arange(N) // windows.GRID[1], torch.arange(N) % windows.GRID[1]
    return (rows // windows.WINDOW == down) & (columns // windows.WINDOW == across)


def moved(model, images, seen, where):
    """By how much each place's painting moves, (N,), where the pixels of these places change."""
    change = where.double().view(*windows.GRID).repeat_interleave(windows.PATCH, 0)
    change = change.repeat_interleave(windows.PATCH, 1)
    with torch.no_grad():
        return (model(images + change, seen) - model(images, seen)).abs().amax(dim=(0, 2))


# --- what is looked at


@pytest.mark.parametrize("down, across", [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_without_the_shift_no_window_learns_of_another(down, across):
    """WindowPainter: what is seen in a window changes all that is painted there, and nothing elsewhere."""
    here = window_of(down, across)
    change = moved(a_painter("windows"), *some_images(), here)
    assert change[~here].max() < 1e-12 < 1e-6 < change[here].min()


def test_where_every_block_is_shifted_the_borders_stand_elsewhere():
    """WindowPainter: rows and columns 0 and 1, 2 to 5, 6 and 7: nothing passes from one part to another."""
    part = torch.tensor([0, 0, 1, 1, 1, 1, 2, 2])
    number = (3 * part[:, None] + part).flatten()  # nine parts
    for here in (number == 0, number == 4, number == 5):
        change = moved(a_painter("windows elsewhere"), *some_images(8), here)
        assert change[~here].max() < 1e-12 < 1e-6 < change[here].min()


@pytest.mark.parametrize("down, across", [(0, 0), (1, 1)])
@pytest.mark.parametrize("look", ["shifted windows", "all patches"])
def test_with_the_shift_and_with_one_window_each_learns_of_the_others(look, down, across):
    """WindowPainter: four blocks carry it to every place."""
    assert moved(a_painter(look), *some_images(), window_of(down, across)).min() > 1e-9


@pytest.mark.parametrize("look", windows.LOOKS)
def test_what_is_hidden_is_never_read(look):
    """WindowPainter: the hidden patches may hold anything, and what is seen may not."""
    model, (images, seen) = a_painter(look), some_images(1)
    hidden = torch.ones(N, dtype=torch.bool).index_fill(0, seen[0], False)
    assert moved(model, images, seen, hidden).max() == 0
    assert moved(model, images, seen, ~hidden).max() > 1e-3
    painted = model(images, seen)
    assert painted.shape == (1, N, windows.PATCH**2)
    assert_close(model(images, seen.flip(1)), painted, atol=1e-12, rtol=0)  # an order of places is nothing


def test_all_looks_are_the_same_model_but_for_where_they_look():
    """LOOKS: a shift adds no weight, and one large window has only a larger table of offsets."""
    models = {look: a_painter(look) for look in windows.LOOKS}
    sizes = {
        look: sum(w.numel() for n, w in one.named_parameters() if ".table" not in n) for look, one in models.items()
    }
    assert len(set(sizes.values())) == 1
    plain, shifted = (dict(models[look].named_parameters()) for look in ("windows", "shifted windows"))
    assert plain.keys() == shifted.keys() and all(weight.equal(shifted[name]) for name, weight in plain.items())
    shifts = {look: [block.attention.shift for block in one.blocks] for look, one in models.items()}
    assert shifts == {"windows": [0] * 4, "shifted windows": [0, 2, 0, 2], "all patches": [0] * 4,
                      "windows elsewhere": [2] * 4}  # fmt: skip
    assert {block.attention.side for block in models["all patches"].blocks} == {windows.GRID[0]}


def test_places_beside_another_window():
    """at_a_seam: 28 of 64, drawn; without the shift it is there that a neighbour is in another window."""
    seam = windows.at_a_seam()
    assert seam.shape == (N,) and seam.dtype == torch.bool and int(seam.sum()) == 28
    assert ["".join(".x"[cell] for cell in row) for row in seam.view(8, 8).int().tolist()] == (
        ["...xx..."] * 3 + ["xxxxxxxx"] * 2 + ["...xx..."] * 3
    )
    number = (torch.arange(8) // windows.WINDOW * 2)[:, None] + torch.arange(8) // windows.WINDOW  # of its window
    apart = torch.zeros(8, 8, dtype=torch.bool)
    apart[:-1] |= number[:-1] != number[1:]
    apart[1:] |= number[:-1] != number[1:]
    apart[:, :-1] |= number[:, :-1] != number[:, 1:]
    apart[:, 1:] |= number[:, :-1] != number[:, 1:]
    assert seam.view(8, 8).equal(apart)


def test_errors_by_hand():
    """errors: the mean over a patch's pixels; 1 for what is hidden."""
    images, painted = torch.zeros(1, 1, 32, 32), torch.zeros(1, N, 16)
    painted[0, 5], painted[0, 7, 0] = 2.0, 4.0
    error, hidden = windows.errors(painted, images, torch.tensor([[0, 7]]))
    assert error.shape == hidden.shape == (1, N) and error[0, 5] == 4 and error[0, 7] == 1 and error.sum() == 5
    assert (hidden == 0).nonzero().tolist() == [[0, 0], [0, 7]]


# --- experiments


@pytest.fixture
def tiny(monkeypatch):
    """A hundred images to learn from and to be asked."""
    torch.manual_seed(2)
    images = torch.rand(100, 1, windows.SIDE, windows.SIDE)
    monkeypatch.setattr(windows, "unlabelled", lambda: images)
    monkeypatch.setattr(windows, "asked", lambda: images)
    return images


@pytest.mark.slow
def test_a_painter_is_trained_by_the_seed(tiny, monkeypatch):
    """painter: a quarter is seen, other patches each time; the looks begin alike and see the same."""
    given, forward = [], windows.WindowPainter.forward
    monkeypatch.setattr(windows.WindowPainter, "forward", lambda self, images, seen: (
        given.append((images, seen)), forward(self, images, seen))[1])  # fmt: skip
    one, same, other = (windows.painter("windows", seed, 2).state_dict() for seed in (0, 0, 1))
    assert all(one[name].equal(same[name]) for name in one) and not one["hidden"].equal(other["hidden"])
    assert [seen.shape for _, seen in given] == [(64, 16), (36, 16)] * 3
    assert given[0][1].equal(given[2][1]) and not given[0][1].equal(given[4][1])
    assert len({tuple(row) for _, seen in given[:2] for row in seen.tolist()}) > 95
    assert not windows.painter("shifted windows", 0, 1).training
    assert given[6][0].equal(given[0][0]) and given[6][1].equal(given[0][1])


@pytest.mark.slow
def test_a_few_steps_lower_the_error(monkeypatch, tiny):
    grey = torch.linspace(0, 1, 64)[:, None, None, None].expand(64, 1, 32, 32)
    monkeypatch.setattr(windows, "unlabelled", lambda: grey)
    seen = windows.seen_of(grey, windows.HIDDEN, N)

    def error(model):
        with torch.no_grad():
            error, hidden = windows.errors(model(grey, seen), grey, seen)
        return float((error * hidden).sum() / hidden.sum())

    torch.manual_seed(0)
    assert error(windows.painter("windows", 0, 15)) < 0.5 * error(windows.WindowPainter(*windows.LOOKS["windows"]))


def test_shifts_by_hand(tiny, monkeypatch):
    """shifts: who paints all 0, images of 2 beside another window and of 1 elsewhere; the mean image is grey."""

    class Nothing(torch.nn.Module):
        places = torch.zeros(N, 1)

        def forward(self, images, seen):
            return torch.zeros(len(images), N, windows.PATCH**2)

    shade = (1 + windows.at_a_seam().float()).view(8, 8).repeat_interleave(4, 0).repeat_interleave(4, 1)
    monkeypatch.setattr(windows, "asked", lambda: shade.expand(100, 1, 32, 32))
    monkeypatch.setattr(windows, "unlabelled", lambda: torch.full((10, 1, 32, 32), 0.5))
    monkeypatch.setattr(windows, "painter", lambda look, seed: Nothing())
    found, (beside, elsewhere) = windows.shifts(0, look="windows"), (2**2 / 1.5**2, 1 / 0.5**2)
    assert found["seam"] == pytest.approx(beside, rel=1e-4) and found["inside"] == pytest.approx(elsewhere, rel=1e-4)
    wanted = [beside if seam else elsewhere for seam in windows.at_a_seam().tolist()]
    assert found["by place"] == pytest.approx(wanted, rel=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("look", windows.LOOKS)
def test_shifts_gives_plain_numbers(tiny, monkeypatch, look):
    monkeypatch.setattr(windows, "painter", partial(windows.painter, steps=1))
    found = windows.shifts(0, look=look)
    assert json.loads(json.dumps(found)) == found and set(found) == {"seam", "inside", "by place"}
    assert len(found["by place"]) == N and all(isinstance(error, float) and error > 0 for error in found["by place"])
    assert found["seam"] > 0 and found["inside"] > 0
    assert {"look": look} in windows.shifts.variants


def test_cost_gives_plain_numbers():
    """cost: seconds of both, and sizes that windows fill."""
    found = windows.cost(0, pixels=16)
    assert set(found) == {"windows", "all patches"} and all(0 < seconds < 1 for seconds in found.values())
    assert json.loads(json.dumps(found)) == found
    assert [one["pixels"] for one in windows.cost.variants] == list(windows.SIZES)
    assert all(pixels // windows.PATCH % windows.WINDOW == 0 for pixels in windows.SIZES)  # windows fill each grid
