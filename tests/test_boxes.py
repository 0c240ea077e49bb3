"""detection/boxes.py: areas counted cell by cell, gradients in float64, boxes without any area; bad input."""

import pytest
import torch
from torch.testing import assert_close

from course_lib.detection.boxes import area, giou, intersection, iou, to_centres, to_corners


def drawn(n, seed=0, side=8):
    """n boxes by their corners, whole numbers, so that their cells can be counted."""
    low = torch.randint(0, side, (n, 2), generator=torch.Generator().manual_seed(seed))
    size = torch.randint(0, side, (n, 2), generator=torch.Generator().manual_seed(seed + 1))
    return torch.cat([low, low + size], dim=1).double()


def cells(box):
    """The cells that a box of whole numbers covers."""
    left, top, right, bottom = (int(side) for side in box)
    return {(x, y) for x in range(left, right) for y in range(top, bottom)}


def test_two_ways_to_write_a_box():
    """to_corners, to_centres: each undoes the other, for any sizes in front."""
    boxes = torch.rand(3, 2, 4, dtype=torch.float64)
    assert_close(to_centres(to_corners(boxes)), boxes, atol=1e-12, rtol=0)
    assert to_corners(torch.tensor([0.5, 0.5, 0.2, 0.4])).tolist() == pytest.approx([0.4, 0.3, 0.6, 0.7])


def test_cells_are_counted():
    """iou, giou, intersection, area: cell by cell, for 300 pairs, many of them apart or without any area."""
    for a, b in zip(drawn(300), drawn(300, seed=5), strict=True):
        mine, other = cells(a), cells(b)
        assert area(a) == len(mine) and intersection(a, b) == len(mine & other)
        union = len(mine | other)
        overlap = len(mine & other) / union if union else 0.0
        assert iou(a, b).item() == pytest.approx(overlap, abs=1e-12)
        low, high = torch.minimum(a[:2], b[:2]), torch.maximum(a[2:], b[2:])
        hull = (high - low).prod().item()
        assert giou(a, b).item() == pytest.approx(overlap - (hull - union) / hull if hull else 0.0, abs=1e-12)


def test_all_pairs():
    a, b = drawn(5), drawn(7, seed=3)
    table = iou(a[:, None], b[None])
    assert table.shape == (5, 7)
    assert table[2, 6] == iou(a[2], b[6])


def test_bounds_and_symmetry():
    a, b = to_corners(torch.rand(500, 4)), to_corners(torch.rand(500, 4))
    for agree, least in ((iou, 0.0), (giou, -1.0)):
        assert_close(agree(a, b), agree(b, a))
        assert_close(agree(a, a), torch.ones(500))
        assert (agree(a, b) >= least).all() and (agree(a, b) <= 1).all()
    assert (giou(a, b) <= iou(a, b) + 1e-6).all()
    assert_close(giou(3 * a + 1, 3 * b + 1), giou(a, b), atol=1e-5, rtol=0)  # the scale and the place are nothing


@pytest.mark.parametrize("agree", [iou, giou])
def test_gradients(agree):
    """In float64 against differences, away from the corners where a box begins to touch."""
    torch.manual_seed(0)
    a, b = (to_corners(torch.rand(6, 4, dtype=torch.float64) / 2 + 0.25).requires_grad_() for _ in range(2))
    assert torch.autograd.gradcheck(agree, (a, b))


def test_apart_iou_is_silent_and_giou_is_not():
    """What GIoU is for: the left box is pulled to the right."""
    other = torch.tensor([0.6, 0.2, 0.8, 0.4], dtype=torch.float64)
    for agree, silent in ((iou, True), (giou, False)):
        box = torch.tensor([0.1, 0.2, 0.3, 0.4], dtype=torch.float64, requires_grad=True)
        agree(box, other).backward()
        assert (box.grad == 0).all() == silent
        if not silent:
            assert box.grad[2] > 0 and box.grad[0] + box.grad[2] > 0, "its right side, and it as a whole"


@pytest.mark.parametrize("agree", [iou, giou])
def test_boxes_without_any_area(agree):
    """No NaN forth or back: two points, the same twice, a point in a box."""
    point, box = torch.tensor([0.3, 0.3, 0.3, 0.3]), torch.tensor([0.1, 0.1, 0.5, 0.5])
    for a, b in ((point, point), (point, point + 0.2), (point, box), (box, point)):
        a = a.clone().requires_grad_()
        value = agree(a, b)
        value.backward()
        assert value.isfinite() and a.grad.isfinite().all()
    assert agree(point, point) == 0
