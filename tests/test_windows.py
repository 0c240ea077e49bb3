"""vision/windows.py: beside Hugging Face's SwinLayer; who sees whom, by brute force; windows as large as the grid."""

import random
from itertools import product

import numpy as np
import pytest
import torch
from parity import TOLERANCE, exact_or_not, shaken
from torch import nn
from torch.testing import assert_close

from course_lib.attention.block import Block, Encoder, FeedForward
from course_lib.attention.multi_head import MultiHead
from course_lib.language.muon import split
from course_lib.show.record import capture
from course_lib.vision.windows import (
    GridBias,
    WindowAttention,
    WindowEncoder,
    from_windows,
    shift_mask,
    to_windows,
    window_blocks,
)

# (h, w), side: the grid is larger than a window both ways
GRIDS = [((4, 4), 2), ((6, 3), 1), ((9, 6), 3), ((4, 8), 2), ((8, 12), 4)]
grids = pytest.mark.parametrize(("grid", "side"), GRIDS, ids=str)


def places(h, w):
    return list(product(range(h), range(w)))


def window_of(place, side, shift=0, grid=None):
    """The window of a place (row, column), and on which side of the edge it stood before the roll, by hand."""
    found = []
    for at, length in zip(place, grid or (0, 0), strict=True):
        rolled = at - shift
        if rolled < 0:  # it went around
            found.append(((rolled + length) // side, "front"))
        else:
            found.append((rolled // side, "own"))
    return tuple(found)


# --- cut and put together


@pytest.mark.parametrize("dtype", [torch.float64, torch.long, torch.bool], ids=str)
@pytest.mark.parametrize("batch", [0, 1, 3])
@grids
def test_windows_are_cut_row_by_row_and_put_together(grid, side, batch, dtype):
    """to_windows, from_windows: each place by hand, and the inverse."""
    (h, w), n = grid, grid[0] * grid[1] // side**2
    x = torch.randint(-9, 9, (batch, h, w, 5)).to(dtype)
    windows = to_windows(x, side)
    assert windows.shape == (batch * n, side * side, 5) and windows.dtype == dtype
    for b, (row, column) in product(range(batch), places(h, w)):
        number = b * n + row // side * (w // side) + column // side
        assert torch.equal(windows[number, row % side * side + column % side], x[b, row, column])
    assert torch.equal(from_windows(windows, h, w), x)


def test_one_window_is_the_whole_grid():
    x = torch.randn(2, 3, 3, 4)
    assert torch.equal(to_windows(x, 3), x.flatten(1, 2))
    assert to_windows(x, 1).shape == (18, 1, 4)


# --- the mask


@grids
def test_the_mask_is_who_stood_together(grid, side):
    """shift_mask: saliency: every pair of places of every window, by where they stand in the image, for every shift."""
    (h, w) = grid
    for shift in range(side):
        mask = shift_mask(h, w, side, shift)
        at = torch.tensor(places(h, w)).view(1, h, w, 2).roll((-shift, -shift), (1, 2))
        for number, window in enumerate(to_windows(at, side).tolist()):
            for q, k in product(range(side * side), repeat=2):
                # in one window of the rolled grid: together in the image where no coordinate jumps by more than a side
                near = all(abs(a - b) < side for a, b in zip(window[q], window[k], strict=True))
                assert mask[number, q, k] == near, (shift, number, window[q], window[k])
        assert mask.dtype == torch.bool and mask.diagonal(dim1=1, dim2=2).all() and torch.equal(mask, mask.mT)
        assert mask.all() == (shift == 0)


def test_the_mask_of_the_papers_figure():
    """shift_mask: 8 x 8, windows of 4, shift 2: four windows with 1, 2, 2 and 4 parts, as in figure 4."""
    mask = shift_mask(8, 8, 4, 2)
    assert [len({tuple(row) for row in one.tolist()}) for one in mask] == [1, 2, 2, 4]


# --- the bias


@pytest.mark.parametrize("side", [1, 2, 3, 5])
def test_the_bias_is_one_number_an_offset(side):
    """GridBias: by coordinates; the table is a picture with the query in its middle; its gradient counts the pairs."""
    bias = shaken(GridBias(3, side))
    picture, found = bias.table.view(2 * side - 1, 2 * side - 1, 3), bias()
    assert found.shape == (3, side**2, side**2)
    for (q, (a, b)), (k, (c, d)) in product(enumerate(places(side, side)), repeat=2):
        assert torch.equal(found[:, q, k], picture[side - 1 + c - a, side - 1 + d - b])
    found.sum().backward()
    assert bias.table.grad.sum() == 3 * side**4 and bias.table.grad[0, 0] == 1
    assert not GridBias(3, side).table.any() and "index" not in bias.state_dict()


# --- who sees whom


@exact_or_not
@grids
def test_it_is_attention_in_each_window_alone(grid, side, dtype):
    """WindowAttention, WindowAttention.forward: for each place MultiHead over what it may see, with biases."""
    torch.manual_seed(0)
    h, w = grid
    x = torch.randn(2, h * w, 6, dtype=dtype)
    for shift in {0, side // 2, side - 1}:
        layer = shaken(WindowAttention(6, 2, grid, side, shift)).to(dtype)
        plain = MultiHead(6, 2).to(dtype)
        plain.load_state_dict({name: part for name, part in layer.state_dict().items() if "position_bias" not in name})
        groups = {}
        for number, place in enumerate(places(h, w)):
            groups.setdefault(window_of(place, side, shift, grid), []).append(number)
        picture = layer.position_bias.table.view(2 * side - 1, 2 * side - 1, 2)
        expected = torch.empty_like(x)
        for group in groups.values():
            at = [divmod(number, w) for number in group]
            offsets = [[(side - 1 + c - a, side - 1 + d - b) for c, d in at] for a, b in at]
            added = torch.stack([torch.stack([picture[offset] for offset in row]) for row in offsets])  # (g, g, H)
            plain.position_bias = lambda *_, added=added: added.movedim(-1, 0)
            expected[:, group] = plain(x[:, group])
        assert_close(layer(x), expected, atol=TOLERANCE[dtype], rtol=0)
        with capture(layer, "weights") as maps:
            heard = layer(x)
        assert maps["weights"][0].shape == (2 * h * w // side**2, 2, side**2, side**2)
        assert_close(heard, expected, atol=TOLERANCE[dtype], rtol=0)


def reach(model, n):
    """Which places of the output move with each place of the input: (n, n), for one n changed in each row."""
    x = torch.randn(1, n, model.norm.gain.shape[0], dtype=torch.float64)
    changed = x + torch.eye(n, dtype=torch.float64)[:, :, None] * torch.randn_like(x)
    with torch.no_grad():
        return (model(changed) - model(x)).abs().amax(dim=2) > 1e-11


def reached(grid, side, shifts, place):
    """The same by hand: who shares a window with whom, block after block."""
    found, everywhere = {divmod(place, grid[1])}, places(*grid)
    for shift in shifts:
        windows = {window_of(one, side, shift, grid) for one in found}
        found = {one for one in everywhere if window_of(one, side, shift, grid) in windows}
    return sorted(row * grid[1] + column for row, column in found)


@pytest.mark.parametrize("shifted", [True, False])
@pytest.mark.parametrize(("grid", "side"), [((4, 4), 2), ((6, 9), 3), ((4, 6), 2)], ids=str)
def test_what_two_blocks_reach(grid, side, shifted):
    """WindowEncoder, window_blocks: exactly the places that two windows join, and without the shift one window."""
    torch.manual_seed(0)
    n = grid[0] * grid[1]
    model = shaken(WindowEncoder(6, 2, grid, side, 2, shifted=shifted)).double()
    for place, found in enumerate(reach(model, n)):
        expected = reached(grid, side, (0, side // 2 if shifted else 0), place)
        assert found.nonzero()[:, 0].tolist() == expected and (len(expected) > side**2) == shifted
    if not shifted:
        deep = shaken(WindowEncoder(6, 2, grid, side, 5, shifted=False)).double()
        assert (reach(deep, n).sum(dim=1) == side**2).all()


def test_many_shifted_blocks_reach_everything():
    torch.manual_seed(0)
    assert reach(shaken(WindowEncoder(6, 2, (4, 4), 2, 4)).double(), 16).all()


# --- a window as large as the grid


@exact_or_not
@pytest.mark.parametrize("side", [4, 7, 100])
def test_a_window_as_large_as_the_grid_is_global_attention(side, dtype):
    torch.manual_seed(0)
    x = torch.randn(3, 16, 6, dtype=dtype)
    layer = WindowAttention(6, 2, (4, 4), side).to(dtype)
    plain = MultiHead(6, 2).to(dtype)
    plain.load_state_dict({name: part for name, part in layer.state_dict().items() if "position_bias" not in name})
    assert layer.side == 4 and layer.together is None
    assert_close(layer(x), plain(x), atol=TOLERANCE[dtype], rtol=0)  # the biases begin at 0
    ours, theirs = WindowEncoder(6, 2, (4, 4), side, 3).to(dtype), Encoder(6, 2, 3, pre_norm=True).to(dtype)
    assert [block.attention.shift for block in ours.blocks] == [0, 0, 0]
    theirs.load_state_dict({name: part for name, part in ours.state_dict().items() if "position_bias" not in name})
    for block in theirs.blocks:
        block.feed_forward.activation = nn.functional.gelu
    assert_close(ours(x), theirs(x), atol=TOLERANCE[dtype], rtol=0)


@pytest.mark.parametrize("whole", [np.int64, np.uint8])
def test_sides_and_shifts_may_be_numbers_of_numpys(whole):
    """WindowAttention: one without a sign, too, which has no opposite."""
    torch.manual_seed(0)
    x = torch.randn(2, 32, 8)
    for side, shift in ((4, 0), (2, 1)):
        layer = shaken(WindowAttention(8, 2, (4, 8), side, shift))
        twin = WindowAttention(8, 2, (whole(4), whole(8)), whole(side), whole(shift))
        twin.load_state_dict(layer.state_dict())
        assert torch.equal(twin(x), layer(x))


def test_a_long_grid_has_windows_of_its_shorter_side():
    layer = WindowAttention(6, 2, (2, 6), 7)
    assert layer.side == 2 and layer(torch.randn(2, 12, 6)).shape == (2, 12, 6)
    assert [block.attention.shift for block in window_blocks(6, 2, (2, 6), 7, 4)] == [0] * 4
    assert WindowAttention(6, 2, (1, 1), 3)(torch.randn(1, 1, 6)).shape == (1, 1, 6)


def test_shifts_alternate_and_muon_finds_the_matrices():
    model = WindowEncoder(8, 2, (6, 6), 3, 5, d_ff=20, dropout=0.1)
    assert [block.attention.shift for block in model.blocks] == [0, 1, 0, 1, 0]
    assert [block.attention.shift for block in window_blocks(8, 2, (6, 6), 1, 2)] == [0, 0]
    inside, rest = split(model)
    assert len(inside["params"]) == 5 * 6 and model.blocks[0].feed_forward.w_1.out_features == 20
    assert len(rest["params"]) == 2 + 5 * (6 + 4 + 1)
    assert not any("index" in name or "together" in name for name in model.state_dict())


# --- beside Hugging Face's


def drawn(seed):
    draw = random.Random(seed)
    side, heads = draw.choice([2, 3, 4]), draw.choice([1, 2, 3])
    grid = tuple(side * draw.choice([2, 3]) for _ in range(2))
    return grid, side, heads, heads * draw.choice([2, 5]), draw.choice([0, side // 2, side - 1]), draw.random() < 0.5


@exact_or_not
@pytest.mark.parametrize("seed", range(8))
def test_a_block_is_hugging_faces_layer(seed, dtype):
    """WindowAttention in a Block, GridBias, shift_mask: SwinLayer's values and gradients over sizes drawn at random."""
    from transformers.models.swin.modeling_swin import SwinConfig, SwinLayer

    torch.manual_seed(seed)
    grid, side, heads, width, shift, explicit = drawn(seed)
    config = SwinConfig(window_size=side)
    config._attn_implementation = "sdpa"
    theirs = shaken(SwinLayer(config, width, grid, heads, shift_size=shift)).to(dtype).eval()
    ours = Block(WindowAttention(width, heads, grid, side, shift), FeedForward(width, 4 * width, nn.functional.gelu),
                 pre_norm=True).to(dtype)  # fmt: skip
    pairs = [(ours.norm_1.gain, theirs.layernorm_before.weight), (ours.norm_1.shift, theirs.layernorm_before.bias)]
    pairs += [(ours.norm_2.gain, theirs.layernorm_after.weight), (ours.norm_2.shift, theirs.layernorm_after.bias)]
    own, other = ours.attention, theirs.attention
    for mine, part in [(own.w_q, other.q_proj), (own.w_k, other.k_proj), (own.w_v, other.v_proj),
                       (own.w_o, other.o_proj), (ours.feed_forward.w_1, theirs.mlp.fc1),
                       (ours.feed_forward.w_2, theirs.mlp.fc2)]:  # fmt: skip
        pairs += [(mine.weight, part.weight), (mine.bias, part.bias)]
    with torch.no_grad():
        for mine, part in pairs:
            mine.copy_(part)
        own.position_bias.table.copy_(other.relative_position_bias.relative_position_bias_table.flip(0))
    x = torch.randn(2, grid[0] * grid[1], width, dtype=dtype)
    with capture(ours, "attention.weights" if explicit else "norm_1"):
        found = ours(x)
    expected = theirs(x, grid)[0]
    assert_close(found, expected, atol=TOLERANCE[dtype] * max(1, expected.abs().max().item()), rtol=0)
    for out in (found, expected):
        out.square().mean().backward()
    table = other.relative_position_bias.relative_position_bias_table
    for mine, grad in [(mine.grad, part.grad) for mine, part in pairs] + [
        (own.position_bias.table.grad, table.grad.flip(0))
    ]:
        assert_close(mine, grad, atol=TOLERANCE[dtype] * max(1, grad.abs().max().item()), rtol=0)


# --- it trains, and bad input


@pytest.mark.slow
def test_a_shift_lets_a_place_copy_from_the_next_window():
    """Column 2 is to say what stands in column 1, of another window: without the shift it cannot know."""
    errors = {}
    for shifted in (True, False):
        torch.manual_seed(0)
        model, read = WindowEncoder(16, 2, (4, 4), 2, 2, shifted=shifted), nn.Linear(16, 1)
        where = 0.5 * torch.randn(16, 15)
        optimiser = torch.optim.AdamW([*model.parameters(), *read.parameters()], lr=1e-2)
        for _ in range(120):
            value = torch.randn(32, 16, 1)
            out = read(model(torch.cat([value, where.expand(32, -1, -1)], dim=2))).view(32, 4, 4)
            error = (out[:, :, 2] - value.view(32, 4, 4)[:, :, 1]).square().mean()
            optimiser.zero_grad()
            error.backward()
            optimiser.step()
        errors[shifted] = error.item()
    assert errors[True] < 0.5 and errors[False] > 0.8


@pytest.mark.parametrize(
    ("wrong", "error", "words"),
    [
        (lambda: to_windows(torch.zeros(2, 4, 6, 3), 4), ValueError, "4 x 4 do not fill a grid of 4 x 6, and noth"),
        (
            lambda: from_windows(torch.zeros(8, 5, 3), 4, 4),
            ValueError,
            "squares of 2 x 2, .* got 8 windows of 5",
        ),
        (
            lambda: from_windows(torch.zeros(3, 4, 3), 4, 4),
            ValueError,
            "squares of 2 x 2, .* got 3 windows of 4",
        ),
        (lambda: shift_mask(4, 4, 2, 2), ValueError, "shift of windows of side 2 is a whole number from 0 to 1; got 2"),
        (lambda: WindowAttention(6, 2, (4, 6), 4), ValueError, "do not fill a grid of 4 x 6"),
        (lambda: WindowAttention(6, 2, (4, 4), 4, 2), ValueError, "nothing that a shift could join there; got shift=2"),
        (
            lambda: window_blocks(6, 2, (4, 4), 2, 1)[0](torch.zeros(2, 16, 6), mask=torch.ones(2, 16).bool()),
            ValueError,
            "there is no mask here",
        ),
        (
            lambda: window_blocks(6, 2, (4, 4), 2, 1)[0](torch.zeros(2, 16, 6), causal=True, cache={}),
            ValueError,
            "there is no causal or cache here",
        ),
    ],
)
def test_bad_input_is_refused_in_words(wrong, error, words):
    with pytest.raises(error, match=words):
        wrong()


def test_what_is_not_a_number_stays_in_its_window():
    layer, x = WindowAttention(6, 2, (4, 4), 2), torch.randn(1, 16, 6)
    x[0, 0] = float("nan")
    assert layer(x)[0].isnan().any(dim=1).nonzero()[:, 0].tolist() == [0, 1, 4, 5]
