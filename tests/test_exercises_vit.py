"""Lesson 09's exercises: they agree with the library, and the planted bug misleads."""

import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F

from course_lib.attention.block import Encoder
from course_lib.lesson.judge import judge
from course_lib.vision.vit import ViT, ViTConfig
from course_lib.workshop.exercises import all_exercises, all_investigations, all_quizzes, find
from course_lib.workshop.exercises.vit import my_image, my_patches, my_places
from course_lib.workshop.exercises.vit_attention import broken_start, mended_start, my_distance, my_rollout

# Wrong ways that are not in the tables ------------------------------------------------------------------------


def upside_down(images, P):
    return my_patches(images.flip(2), P)


def last_image_first(images, P):
    return my_patches(images.flip(0), P)


def patches_backwards(patches, C, H, W):
    return my_image(patches.flip(1), C, H, W)


def moved_a_little(places, grid, new_grid):
    return my_places(places, grid, new_grid).roll(1, 0)


def first_layer_last(maps):
    return my_rollout(maps[torch.tensor([1, 0, *range(2, len(maps))])] if len(maps) > 1 else maps)


def too_near(weights, grid):
    return my_distance(weights, grid) - 0.01


def places_halved(patches, w, cls, places):
    return mended_start(patches, w, cls, places / 2)


@pytest.mark.parametrize(
    ("name", "answer", "said"),
    [
        ("my_patches", upside_down, "A single patch of one channel is wrong already"),
        ("my_patches", last_image_first, "One image of one channel is right, several are not"),
        ("my_image", patches_backwards, "One patch is right, 2 x 3 of them are not"),
        ("my_places", moved_a_little, "On the same grid nothing changes"),
        ("my_rollout", first_layer_last, "a later layer stands on the left of the product"),
        ("my_distance", too_near, "On a single row of three patches it is wrong already"),
        ("mended_start", places_halved, "Your positions are assigned wrongly"),
    ],
)
def test_a_wrong_way_that_nobody_listed_is_told_where_to_look(name, answer, said):
    verdict = judge(find(name), answer)
    assert verdict.kind == "wrong" and said in verdict.message, verdict


# The solutions are the library's ------------------------------------------------------------------------------


def test_the_students_parts_are_a_vit():
    """What the notebook's build does: cut, start, blocks of lesson 06, and the head reads [CLS]."""
    torch.manual_seed(0)
    model, images = ViT(ViTConfig((4, 6), 2, 5, 8, 2, 2, channels=3)).double(), torch.rand(2, 3, 4, 6).double()
    with torch.no_grad():
        model.cls.normal_(), model.head.weight.normal_(), model.embed.project.bias.zero_()
    start = mended_start(my_patches(images, 2), model.embed.project.weight.T, model.cls, model.places)
    torch.testing.assert_close(model.head(model.encoder(start)[:, 0]), model(images), rtol=0, atol=1e-12)
    assert torch.equal(my_image(my_patches(images, 2), 3, 4, 6), images)
    larger = my_places(model.places.detach(), (2, 3), (4, 4))
    torch.testing.assert_close(larger, model.resized(8).places.detach(), rtol=0, atol=1e-12)


# The planted bug ----------------------------------------------------------------------------------------------

PATCHES, WIDTH = 6, 16


class WhichPatch(nn.Module):
    """Says which of six patches is the bright one: the answer is a place, and nothing else."""

    def __init__(self, start):
        super().__init__()
        self.start, self.w, self.cls = start, nn.Parameter(torch.randn(4, WIDTH) / 2), nn.Parameter(torch.zeros(WIDTH))
        self.places = nn.Parameter(0.5 * torch.randn(1 + PATCHES, WIDTH))
        self.encoder, self.head = Encoder(WIDTH, 2, 1, pre_norm=True), nn.Linear(WIDTH, PATCHES)

    def forward(self, patches):
        return self.head(self.encoder(self.start(patches, self.w, self.cls, self.places))[:, 0])


def bright(n, generator):
    where = torch.randint(PATCHES, (n,), generator=generator)
    patches = torch.rand(n, PATCHES, 4, generator=generator)
    return patches + 3 * F.one_hot(where, PATCHES)[:, :, None], where


def right(model, generator):
    patches, where = bright(300, generator)
    with torch.no_grad():
        return (model(patches).argmax(-1) == where).double().mean().item()


def trained(start, seed=0):
    torch.manual_seed(seed)
    model, generator = WhichPatch(start), torch.Generator().manual_seed(seed)
    optimiser = torch.optim.Adam(model.parameters(), 5e-3)
    for _ in range(300):
        patches, where = bright(64, generator)
        optimiser.zero_grad()
        F.cross_entropy(model(patches), where).backward()
        optimiser.step()
    return model


@pytest.mark.slow
def test_the_planted_bug_trains_as_well_and_ruins_weights_that_others_trained():
    asked = torch.Generator().manual_seed(99)
    broken, mended = trained(broken_start), trained(mended_start)
    assert right(broken, asked) > 0.9 and right(mended, asked) > 0.9  # nobody notices
    mended.start = broken_start
    assert right(mended, asked) < 0.5
    mended.start = mended_start
    assert right(mended, asked) > 0.9  # nothing was wrong with the weights


# What is asked ------------------------------------------------------------------------------------------------


def test_the_lesson_asks_what_its_plan_lists():
    own = [one for one in all_exercises() if one.lesson == "vit"]
    names = {"my_patches", "my_image", "my_places", "my_rollout", "my_distance", "mended_start"}
    assert {one.name for one in own} == names
    asked = {one.key for one in all_quizzes() if one.lesson == "vit"}
    assert asked == {
        "half_a_patch", "embedding_is", "pixels_shuffled", "without_places", "rollout_leaves_out", "larger_images",
    }  # fmt: skip
    assert {one.name for one in all_investigations() if one.lesson == "vit"} == {"which_bias_helps"}
