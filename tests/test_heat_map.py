"""detection/heat_map.py: the map's formula, the loss, suppression in plain Python; empty scenes; bad input."""

import math

import pytest
import torch
from torch.testing import assert_close

from course_lib.detection.average_precision import Found
from course_lib.detection.boxes import iou, to_corners
from course_lib.detection.detr import Backbone, grid_points
from course_lib.detection.heat_map import HeatMap, found_on, heat_loss, heat_of, suppress


def a_map(dtype=torch.float64):
    torch.manual_seed(0)
    return HeatMap(Backbone(1, (3, 4)), 5, width=6).to(dtype)


def drawn(B=3, M=4, K=5):
    torch.manual_seed(0)
    labels = torch.tensor([[1, 4, 4, -1], [-1, -1, -1, -1], [0, 1, 2, 3]])[:B, :M]
    truth = torch.cat([torch.rand(B, M, 2), torch.rand(B, M, 2) / 3], dim=2).double() * (labels >= 0)[..., None]
    return labels, truth


@pytest.mark.parametrize("sides", [(8, 8), (6, 10), (1, 1)], ids=str)
def test_shapes(sides):
    """HeatMap, HeatMap.forward: a class and a box a cell; at first it is sure of nothing."""
    model, images = a_map(), torch.rand(2, 1, *sides, dtype=torch.float64)
    logits, boxes = model(images)
    cells = math.ceil(sides[0] / 2) * math.ceil(sides[1] / 2)
    assert logits.shape == (2, cells, 5) and boxes.shape == (2, cells, 4)
    assert ((boxes > 0) & (boxes < 1)).all()
    with torch.no_grad():
        model.naming.weight.zero_()
    assert_close(model(images)[0].sigmoid(), torch.full((2, cells, 5), 0.01, dtype=torch.float64), atol=1e-4, rtol=0)


def test_a_box_begins_in_the_middle_of_its_cell():
    model = a_map()
    with torch.no_grad():
        model.placing.weight.zero_()
        model.placing.bias.zero_()
    _, boxes = model(torch.rand(1, 1, 8, 12, dtype=torch.float64))
    assert_close(boxes[0, :, :2], grid_points(4, 6, dtype=torch.float64))


def test_the_map_is_the_formula():
    """heat_of: cell by cell."""
    labels, truth = drawn()
    h, w = 4, 6
    heat = heat_of(labels, truth, h, w, 5)
    assert heat.shape == (3, 24, 5)
    for b in range(3):
        for row in range(h):
            for column in range(w):
                for name in range(5):
                    bumps = [0.0]
                    for label, (x, y, width, height) in zip(labels[b], truth[b], strict=True):
                        if label == name:
                            dx = (column - min(int(x * w), w - 1)) / w / max(width / 6, 0.5 / w)
                            dy = (row - min(int(y * h), h - 1)) / h / max(height / 6, 0.5 / w)
                            bumps.append(math.exp(-(dx**2 + dy**2) / 2))
                    assert heat[b, row * w + column, name].item() == pytest.approx(max(bumps), abs=1e-9)


def test_a_middle_on_the_edge_is_in_the_last_cell():
    heat = heat_of(torch.tensor([[0]]), torch.tensor([[[1.0, 1.0, 0.2, 0.2]]]), 4, 4, 1)
    assert heat.argmax() == 15 and heat.max() == 1


@pytest.mark.parametrize(("x", "y", "cell"), [(-0.3, 0.1, 0), (-1e-9, 0.9, 12), (0.9, -5.0, 3), (2.0, 2.0, 15)])
def test_a_middle_outside_counts_for_the_nearest_cell(x, y, cell):
    """heat_of, heat_loss: the one cell is 1, and its box is asked there."""
    labels, truth = torch.tensor([[0]]), torch.tensor([[[x, y, 0.2, 0.2]]])
    heat = heat_of(labels, truth, 4, 4, 1)
    assert heat.argmax() == cell and heat.max() == 1 and (heat == 1).sum() == 1
    boxes = torch.rand(1, 16, 4, requires_grad=True)
    heat_loss(torch.zeros(1, 16, 1), boxes, labels, truth, 4).backward()
    assert boxes.grad.abs().sum(-1).nonzero().tolist() == [[0, cell]]


def test_no_object_in_a_batch():
    """heat_of, heat_loss: M = 0 is as padding alone."""
    labels, truth = drawn()
    logits, boxes = torch.randn(3, 16, 5).double(), torch.rand(3, 16, 4).double()
    assert not heat_of(labels[:, :0], truth[:, :0], 4, 4, 5).any()
    padded = heat_loss(logits, boxes, torch.full_like(labels, -1), truth, 4)
    assert heat_loss(logits, boxes, labels[:, :0], truth[:, :0], 4) == padded > 0


@pytest.mark.parametrize("half", [torch.float16, torch.bfloat16], ids=str)
def test_half_precision_finds_the_same_cells(half):
    """heat_of, heat_loss: of 40 x 40 cells, whose numbers bfloat16 cannot count."""
    labels, truth = drawn()
    truth, logits, boxes = truth.to(half), torch.randn(3, 1600, 5).to(half), torch.rand(3, 1600, 4).to(half)
    assert heat_of(labels, truth, 40, 40, 5).equal(heat_of(labels, truth.float(), 40, 40, 5))
    wide = heat_loss(logits.float(), boxes.float(), labels, truth.float(), 40)
    assert heat_loss(logits, boxes, labels, truth, 40) == wide


def test_the_loss_is_least_where_all_is_right():
    """heat_loss: near 0 for the heat itself, and larger for every change; a scene may be empty."""
    labels, truth = drawn()
    heat = heat_of(labels, truth, 4, 4, 5)
    logits = torch.where(heat == 1, 20.0, -20.0).double()
    cell = ((truth[..., 1] * 4).floor() * 4 + (truth[..., 0] * 4).floor()).long()
    boxes = torch.full((3, 16, 4), 0.5, dtype=torch.float64).scatter(1, cell[..., None].expand(-1, -1, 4), truth)
    own = boxes.gather(1, cell[..., None].expand(-1, -1, 4))
    if torch.equal(own, truth):
        assert heat_loss(logits, boxes, labels, truth, 4) < 1e-6
    worse = heat_loss(-logits, boxes, labels, truth, 4)
    assert worse > heat_loss(logits, boxes, labels, truth, 4) + 1
    empty = torch.full_like(labels, -1)
    assert heat_loss(logits, boxes, empty, truth, 4).isfinite()


@pytest.mark.slow
def test_gradients():
    """heat_loss: in float64 against differences."""
    labels, truth = drawn()
    logits = torch.randn(3, 16, 5, dtype=torch.float64, requires_grad=True)
    boxes = (torch.rand(3, 16, 4, dtype=torch.float64) / 2 + 0.2).requires_grad_()
    assert torch.autograd.gradcheck(lambda *two: heat_loss(*two, labels, truth, 4), (logits, boxes))


def by_hand(found, at):
    labels = found.labels.clone()
    for s in range(len(labels)):
        left = sorted((q for q in range(labels.shape[1]) if labels[s, q] >= 0), key=lambda q: -found.scores[s, q])
        while left:
            first, *left = left
            for q in list(left):
                same = labels[s, q] == labels[s, first]
                if same and iou(to_corners(found.boxes[s, q]), to_corners(found.boxes[s, first])) > at:
                    labels[s, q] = -1
                    left.remove(q)
    return labels


@pytest.mark.parametrize("at", [0.0, 0.3, 0.5, 1.0])
def test_suppression_by_hand(at):
    """suppress: the surest, then the surest that is left; a box that was struck out strikes out nothing."""
    torch.manual_seed(0)
    boxes = torch.cat([torch.rand(20, 9, 2) / 3, torch.rand(20, 9, 2) / 4 + 0.2], dim=2)
    found = Found(torch.randint(-1, 2, (20, 9)), boxes, torch.rand(20, 9))
    assert torch.equal(suppress(found, at).labels, by_hand(found, at))
    assert torch.equal(suppress(suppress(found, at), at).labels, suppress(found, at).labels)
    if at == 1.0:
        assert torch.equal(suppress(found, at).labels, found.labels)


def test_what_a_grid_answers():
    """found_on: the best class of each cell."""
    logits = torch.tensor([[[-3.0, 2.0], [0.5, -1.0]]])
    found = found_on(logits, torch.rand(1, 2, 4))
    assert found.labels.tolist() == [[1, 0]] and torch.equal(found.scores, logits.amax(-1).sigmoid())


def test_bad_input_is_refused_in_words():
    labels, truth = drawn()
    for wrong in (torch.where(labels < 0, -1, 5), labels - 1):
        with pytest.raises(ValueError, match="Labels are classes from 0 to 4, or -1 for padding; got"):
            heat_of(wrong, truth, 4, 4, 5)
        with pytest.raises(ValueError, match="Labels are classes from 0 to 4, or -1 for padding; got"):
            heat_loss(torch.zeros(3, 16, 5), torch.rand(3, 16, 4), wrong, truth, 4)
