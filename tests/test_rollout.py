"""vision/rollout.py: what attention could have moved, how far it looks, and patches covered; bad input."""

import pytest
import torch
from torch.testing import assert_close

from course_lib.show.record import capture
from course_lib.vision.patches import patchify
from course_lib.vision.rollout import attention_distance, brightness, cover, most, rollout
from course_lib.vision.vit import ViT, ViTConfig


def maps(L=3, B=2, H=2, T=5):
    return [(3 * torch.randn(B, H, T, T, dtype=torch.float64)).softmax(-1) for _ in range(L)]


def test_rollout_by_hand():
    """rollout: two layers of two places; a place that looks only at the other has half from each after one layer."""
    swap, stay = torch.tensor([[0.0, 1], [1, 0]])[None, None], torch.eye(2)[None, None]
    assert rollout([swap])[0].tolist() == [[0.5, 0.5], [0.5, 0.5]]
    assert rollout([stay, stay])[0].tolist() == [[1, 0], [0, 1]]
    first = torch.tensor([[1.0, 0], [1, 0]])[None, None]  # everybody looks at place 0
    assert rollout([first, swap])[0].tolist() == [[0.75, 0.25], [0.75, 0.25]]


def test_rollout_is_the_sum_over_all_paths():
    """rollout: each path of steps, stay or look, with the product of its weights."""
    layers = maps(L=3, B=1, T=3)
    steps = [(layer.mean(1)[0] + torch.eye(3)) / 2 for layer in layers]
    found, paths = rollout(layers)[0], torch.zeros(3, 3, dtype=torch.float64)
    for a in range(3):
        for b in range(3):
            for c in range(3):
                for d in range(3):
                    paths[a, d] += steps[2][a, b] * steps[1][b, c] * steps[0][c, d]
    assert_close(found, paths, atol=1e-12, rtol=0)
    assert_close(rollout(maps())[0].sum(-1), torch.ones(5, dtype=torch.float64))
    assert rollout(maps(T=1)).eq(1).all()


def test_a_place_that_looks_at_nothing_keeps_itself():
    nothing = torch.zeros(1, 2, 3, 3)
    assert torch.equal(rollout([nothing, nothing])[0], torch.eye(3))


def test_the_maps_of_a_vit_can_be_rolled_out():
    m, images = ViT(ViTConfig((4, 6), 2, 3, 8, 2, 3, channels=1)), torch.rand(2, 1, 4, 6)
    with capture(m, "encoder.blocks.*.attention.weights") as heard:
        m(images)
    layers = [heard[f"encoder.blocks.{n}.attention.weights"][0] for n in range(3)]
    seen = rollout(layers)[:, 0, 1:]
    assert seen.shape == (2, 6) and (seen > 0).all()
    assert attention_distance(layers[0], m.config.grid, 2).shape == (2, 2)


@pytest.mark.parametrize("cls", [0, 1])
def test_a_head_that_looks_at_its_neighbour_looks_one_patch_far(cls):
    """attention_distance: by hand, with [CLS] in front and without."""
    h, w = 2, 3
    weights = torch.zeros(1, 4, cls + 6, cls + 6)
    place = [(row, column) for row in range(h) for column in range(w)]
    for q, (row, column) in enumerate(place):
        weights[0, 0, cls + q, cls + q] = 1  # itself
        weights[0, 1, cls + q, cls + place.index((1 - row, column))] = 1  # the other row
        weights[0, 2, cls + q, cls + place.index((1 - row, (column + 1) % w))] = 1
    weights[0, 3] = 1 / (cls + 6)
    far = attention_distance(weights, (h, w), patch=4)[0]
    diagonal = (2 * 2**0.5 + 5**0.5) / 3  # steps (1, 1), (1, 1) and (1, -2)
    between = [((a - c) ** 2 + (b - d) ** 2) ** 0.5 for a, b in place for c, d in place]
    assert_close(far, 4 * torch.tensor([0, 1, diagonal, sum(between) / 36]))


def test_what_goes_to_cls_is_left_out():
    weights = (2 * torch.randn(2, 3, 7, 7, dtype=torch.float64)).softmax(-1)
    more = weights.clone()
    more[..., 0] += 5
    more[:, :, 0] = torch.rand(7, dtype=torch.float64)
    assert_close(
        attention_distance(more / more.sum(-1, keepdim=True), (2, 3)), attention_distance(weights, (2, 3)), rtol=1e-10,
        atol=1e-10,
    )  # fmt: skip
    only = torch.zeros(1, 1, 7, 7)
    only[..., 0] = 1
    assert attention_distance(only, (2, 3)).item() == 0
    assert attention_distance(torch.ones(1, 1, 2, 2) / 2, (1, 1)).item() == 0


def test_most_takes_the_highest_scores():
    """most: the share, at least one, the earlier of equals."""
    scores = torch.tensor([[0.1, 0.9, 0.5, 0.9], [1, 1, 1, 1]])
    assert most(scores, 0.25).tolist() == [[False, True, False, False], [True, False, False, False]]
    assert most(scores, 0.5).tolist() == [[False, True, False, True], [True, True, False, False]]
    assert most(scores, 1.0).all() and most(scores, 0.001).sum(1).tolist() == [1, 1]


def test_what_is_covered_is_painted_over_and_the_rest_stays():
    """cover, brightness: patch by patch."""
    images = torch.rand(3, 2, 4, 6) + 0.5
    covered = torch.rand(3, 6) < 0.5
    found, before = patchify(cover(images, covered, 2, value=0.25), 2), patchify(images, 2)
    assert found[covered].eq(0.25).all() and torch.equal(found[~covered], before[~covered])
    assert cover(images, covered, 2).shape == images.shape
    assert_close(brightness(images, 2)[1, 5], images[1, :, 2:, 4:].mean())


@pytest.mark.parametrize(
    "wrong, words",
    [
        (
            lambda: rollout([torch.zeros(1, 2, 3, 3), torch.zeros(1, 2, 4, 4)]),
            "rollout needs map_0 .*; got .1, 2, 3, 3. and .1, 2, 4, 4.",
        ),
        (
            lambda: attention_distance(torch.zeros(1, 2, 9, 9), (2, 3)),
            "6 places, or one more, .* got weights of 9",
        ),
        (
            lambda: cover(torch.zeros(2, 1, 4, 4), torch.zeros(2, 4), 2),
            "covered .batch, number. of bool; got torch.float32: a comp",
        ),
        (lambda: cover(torch.zeros(2, 1, 5, 4), torch.zeros(2, 4) > 0, 2), "do not fill an image of 5 x 4"),
    ],
)
def test_bad_input_is_refused_in_words(wrong, words):
    with pytest.raises((ValueError, TypeError), match=words):
        wrong()
