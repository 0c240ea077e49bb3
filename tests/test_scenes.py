"""data/scenes.py: counts, places and boxes of what is drawn, splits that never mix, the same test scenes each time."""

import re
from itertools import islice

import pytest
import torch

from course_lib.data import scenes


def pairs(boxes):
    """IoU of all pairs of a scene's boxes (M, 4), by centres and sizes: (M, M)."""
    low, high = boxes[:, :2] - boxes[:, 2:] / 2, boxes[:, :2] + boxes[:, 2:] / 2
    both = (torch.minimum(high[:, None], high) - torch.maximum(low[:, None], low)).clamp(min=0).prod(-1)
    areas = boxes[:, 2:].prod(-1)
    return both / (areas[:, None] + areas - both)


def test_the_checksum_is_pinned():
    assert scenes.checksum() == "dcc67c81da0416328b0ba948a07334dd000f98662b921f3a35ca929898e807fb"


@pytest.mark.parametrize("crowded", [False, True])
@pytest.mark.parametrize("split", ["train", "validation", "test"])
def test_what_is_drawn(split, crowded):
    found = scenes.scenes(split, 60, crowded)
    assert found.images.shape == (60, 1, 32, 32) and found.boxes.shape == (60, 5, 4)
    assert 0 <= found.images.min() and found.images.max() <= 1
    real = found.labels >= 0
    assert torch.equal(real, real.sort(dim=1, descending=True, stable=True).values), "padding stands last"
    assert (found.boxes[~real] == 0).all() and (found.labels[~real] == -1).all()
    longer = 32 * found.boxes[real][:, 2:].amax(1)
    assert longer.min() >= 8 - 1e-4 and longer.max() <= 14 + 1e-4
    centres, halves = found.boxes[real][:, :2], found.boxes[real][:, 2:] / 2
    assert (centres - halves >= -1e-6).all() and (centres + halves <= 1 + 1e-6).all()
    for boxes, there in zip(found.boxes, real, strict=True):
        table = pairs(boxes[there])
        assert (table - table.diag().diag() <= scenes.SHARED[crowded] + 1e-4).all()
    if crowded:
        assert real.sum(1).min() >= 3 and any(pairs(b[t]).fill_diagonal_(0).max() > 0.2 for b, t in
                                               zip(found.boxes, real, strict=True))  # fmt: skip


def test_ink_lies_in_the_boxes():
    """What is dark is in a box, and each side of a box has ink within a cell of it."""
    found = scenes.scenes("test", 100)
    y, x = torch.meshgrid(torch.arange(32) + 0.5, torch.arange(32) + 0.5, indexing="ij")
    for image, labels, boxes in zip(found.images[:, 0], found.labels, found.boxes * 32, strict=True):
        inside = torch.zeros(32, 32, dtype=torch.bool)
        for cx, cy, w, h in boxes[labels >= 0].tolist():
            box = ((x - cx).abs() <= w / 2) & ((y - cy).abs() <= h / 2)
            assert image[box].max() > 0.5
            inside |= ((x - cx).abs() <= w / 2 + 1) & ((y - cy).abs() <= h / 2 + 1)
        assert image[~inside].numel() == 0 or image[~inside].max() < 0.55
        if (labels < 0).all():
            assert (image == 0).all()


def test_every_scene_is_another_and_every_call_the_same():
    one, other = (scenes.scenes("test", 30) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))
    first = [batch.images for batch in islice(scenes.batches(4, seed=1), 3)]
    again = [batch.images for batch in islice(scenes.batches(4, seed=1), 3)]
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert not torch.equal(first[0], first[1])
    assert not torch.equal(first[0], next(scenes.batches(4, seed=2)).images)
    assert not torch.equal(one.images, scenes.scenes("validation", 30).images)


def test_counts_are_spread_and_told():
    found = scenes.scenes("test", 1000)
    shares = scenes.shares(found)
    assert sum(shares) == pytest.approx(1) and min(shares) > 0.05
    names = found.labels[found.labels >= 0].bincount(minlength=10)
    assert names.min() > 0.7 * names.float().mean()
    assert re.search(r"\| crowded \| 0%, 0%, 0%, ", scenes.card())


def test_bad_input_is_refused_in_words():
    with pytest.raises(ValueError, match="hidden"):
        scenes.scenes("hidden", 3)
    with pytest.raises(ValueError, match="n is a number of scenes, 1 or more; got 0"):
        scenes.scenes("test", 0)
    with pytest.raises(ValueError, match="batch is a number of scenes"):
        next(scenes.batches(0))
