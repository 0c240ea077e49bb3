"""vision/images.py: batches, shares, accuracy; pixels shuffled and images moved; bad input."""

from itertools import islice

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from course_lib.vision.images import (
    accuracy,
    answers,
    image_batch,
    image_loss,
    labelled_batches,
    pixel_order,
    random_shift,
    share_of_each,
    shift,
    shuffle_pixels,
    varied_batches,
)


class Constant(nn.Module):
    """Says class 1 always, in eval mode alone."""

    def __init__(self):
        super().__init__()
        self.logits = nn.Parameter(torch.tensor([0.0, 3.0, 1.0]))

    def forward(self, images):
        return (-1 if self.training else 1) * self.logits.expand(len(images), -1)


def test_a_round_of_batches_shows_every_image_once_with_its_label():
    """labelled_batches: in a new order each round, the same for the same seed."""
    images, labels = torch.arange(11.0).view(11, 1, 1, 1), torch.arange(11)
    rounds = []
    for seed in (0, 0, 1):
        drawn = list(islice(labelled_batches(images, labels, 4, seed), 6))
        assert [len(batch[1]) for batch in drawn] == [4, 4, 3, 4, 4, 3]
        assert all(torch.equal(some.flatten().long(), names) for some, names in drawn)
        orders = [torch.cat([names for _, names in part]) for part in (drawn[:3], drawn[3:])]
        assert all(sorted(order.tolist()) == list(range(11)) for order in orders)
        assert not torch.equal(*orders)
        rounds.append(torch.cat(orders))
    assert torch.equal(rounds[0], rounds[1]) and not torch.equal(rounds[0], rounds[2])


def test_varied_batches_are_the_same_images_moved_and_mirrored():
    """varied_batches: the labels stay with their images, half of which are mirrored; without both, nothing changes."""
    images, labels = torch.rand(40, 2, 3, 4), torch.arange(40)
    for (plain, names), (varied, same) in zip(
        islice(labelled_batches(images, labels, 16, 3), 6),
        islice(varied_batches(images, labels, 16, farthest=0, mirrored=False, seed=3), 6),
        strict=True,
    ):
        assert torch.equal(plain, varied) and torch.equal(names, same)
    mirrored = 0
    for some, names in islice(varied_batches(images, labels, 40, farthest=0), 20):
        turned = torch.tensor([torch.equal(one, images[at].flip(-1)) for one, at in zip(some, names, strict=True)])
        assert torch.equal(some[~turned], images[names[~turned]])
        mirrored += turned.sum().item()
    assert 300 < mirrored < 500
    one = images[:1]
    places = [shift(way, down, right) for way in (one, one.flip(-1)) for down in (-1, 0, 1) for right in (-1, 0, 1)]
    seen = [some for some, _ in islice(varied_batches(one, labels[:1], 1), 300)]
    assert {n for some in seen for n, place in enumerate(places) if torch.equal(some, place)} == set(range(18))
    assert all(any(torch.equal(some, place) for place in places) for some in seen)


def test_accuracy_is_the_share_of_right_answers_and_the_mode_stays():
    """accuracy, answers: read in eval mode, in pieces."""
    model, images, labels = Constant(), torch.zeros(7, 1, 2, 2), torch.tensor([1, 1, 0, 1, 2, 1, 0])
    assert accuracy(model, images, labels) == pytest.approx(4 / 7)
    assert answers(model, images, at_once=3).tolist() == [1] * 7 and model.training
    loss = image_loss(model.eval(), (images, labels))
    assert_close(loss, nn.functional.cross_entropy(model.logits.expand(7, -1), labels))


def test_a_share_has_as_many_of_each_class_and_a_larger_one_holds_it():
    """share_of_each: and none is missing."""
    labels = torch.arange(1000) % 10
    before = set()
    for share, size in ((0.001, 1), (0.01, 1), (0.03, 3), (0.1, 10), (0.5, 50), (1.0, 100)):
        found = share_of_each(labels, share, seed=3)
        assert torch.bincount(labels[found]).tolist() == [size] * 10
        assert found.tolist() == sorted(set(found.tolist())) and before <= set(found.tolist())
        before = set(found.tolist())
    assert share_of_each(labels, 0.1, 0).tolist() != share_of_each(labels, 0.1, 1).tolist()


def test_shuffled_pixels_come_back_and_a_linear_model_does_not_notice():
    """shuffle_pixels, pixel_order: one order for all images and channels."""
    images, order = torch.rand(5, 3, 4, 6), pixel_order(4, 6, seed=1)
    mixed = shuffle_pixels(images, order)
    assert mixed.shape == images.shape and not torch.equal(mixed, images)
    assert torch.equal(shuffle_pixels(mixed, order.argsort()), images)
    assert torch.equal(mixed[2, 1].flatten(), images[2, 1].flatten()[order])
    weight = torch.randn(24, 10)
    assert_close(mixed[:, 0].flatten(1) @ weight[order], images[:, 0].flatten(1) @ weight)
    assert torch.equal(pixel_order(4, 6, 1), order) and not torch.equal(pixel_order(4, 6, 2), order)
    assert shuffle_pixels(images[0, 0], order).shape == (4, 6)


@pytest.mark.parametrize("down, right", [(0, 0), (1, 0), (0, -2), (-1, 3), (5, 0), (-9, -9)])
def test_a_shift_moves_and_zeros_come_in(down, right):
    """shift: pixel by pixel."""
    images = torch.rand(2, 3, 4, 5, dtype=torch.float64)
    moved = shift(images, down, right)
    for y in range(4):
        for x in range(5):
            inside = 0 <= y - down < 4 and 0 <= x - right < 5
            expected = images[:, :, y - down, x - right] if inside else torch.zeros(2, 3, dtype=torch.float64)
            assert torch.equal(moved[:, :, y, x], expected)


def test_random_shifts_are_drawn_for_each_image():
    """random_shift: each is one of the shifts up to the farthest, and all of them come."""
    images = torch.rand(1, 1, 5, 5).expand(400, -1, -1, -1)
    moved = random_shift(images, 1, torch.Generator().manual_seed(0))
    kinds = {(d, r): shift(images[:1], d, r)[0] for d in (-1, 0, 1) for r in (-1, 0, 1)}
    counts = {steps: sum(torch.equal(one, kind) for one in moved) for steps, kind in kinds.items()}
    assert sum(counts.values()) == 400 and min(counts.values()) > 20
    assert torch.equal(random_shift(images, 0), images)
    assert random_shift(images[:0], 2).shape == (0, 1, 5, 5)


def test_under_autocast_images_may_be_of_another_dtype():
    images, weight = torch.rand(2, 1, 3, 3, dtype=torch.bfloat16), torch.ones(1)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert image_batch(images, 1, weight) is images


def test_a_gradient_goes_back_through_a_shift():
    images = torch.rand(2, 1, 3, 3, requires_grad=True)
    shift(images, 1, 0).sum().backward()
    assert images.grad[:, :, :2].eq(1).all() and images.grad[:, :, 2].eq(0).all()


@pytest.mark.parametrize(
    "wrong, error, words",
    [
        (lambda x: image_batch(x.byte(), 1, x), TypeError, "got torch.uint8. Whole numbers from 0 to 255"),
        (lambda x: image_batch(200 * x, 1, x), ValueError, "standardised ones; got 200"),
        (lambda x: image_batch(x.expand(-1, 3, -1, -1), 1, x), ValueError, "1 channel, dimension 1; got 3"),
        (lambda x: image_batch(torch.ones(3, 8, 8, 3), 3, x), ValueError, "got 8, in .3, 8, 8, 3.. Here the channels"),
        (
            lambda x: next(labelled_batches(x, torch.zeros(2).long(), 4)),
            ValueError,
            "Each image needs its label; got 3 images and 2 labels",
        ),
        (
            lambda x: shuffle_pixels(x, torch.arange(3)),
            ValueError,
            "hold each place .* once: pixel_order",
        ),
        (lambda x: shuffle_pixels(x, torch.zeros(4).long()), ValueError, "hold each place of an image .* once"),
    ],
)
def test_bad_input_is_refused_in_words(wrong, error, words):
    with pytest.raises(error, match=words):
        wrong(torch.ones(3, 1, 2, 2))
