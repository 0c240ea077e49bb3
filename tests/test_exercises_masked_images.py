"""Lesson 12's exercises: they agree with the library, and the planted bug misleads."""

import pytest
import torch
import torch.nn as nn

from course_lib.attention.block import Encoder
from course_lib.lesson.judge import judge
from course_lib.vision.masked_patches import MaskedAutoencoder
from course_lib.vision.patches import patchify
from course_lib.vision.vit import ViT, ViTConfig
from course_lib.workshop.exercises import all_exercises, all_investigations, all_quizzes, find
from course_lib.workshop.exercises.masked_images import my_hidden_loss, my_seen, my_spread
from course_lib.workshop.exercises.masked_images_windows import broken_encode, mended_encode, my_windows

# Wrong ways that are not in the tables ------------------------------------------------------------------------


def drawn_anew(noise, n):
    return my_seen(torch.rand_like(noise), n)


def next_to_least(noise, n):
    return noise.argsort(dim=1)[:, 1 : n + 1].sort(dim=1).values


def one_too_far(known, seen, hidden, N):
    return my_spread(known, (seen + 1) % N, hidden, N)


def twice_the_hidden(known, seen, hidden, N):
    return my_spread(known, seen, 2 * hidden, N)


def nearly_all(painted, true, seen):
    return my_hidden_loss(painted, true, seen) + 1e-3


def last_window_first(x, side):
    return my_windows(x.flip(1), side)


def second_image_first(x, side):
    return my_windows(x.flip(0), side)


def a_little_of_all(blocks, x, seen):
    return mended_encode(blocks, x + 1e-3 * x.mean(dim=1, keepdim=True), seen)


def each_block_twice(blocks, x, seen):
    return mended_encode([block for block in blocks for _ in range(2)], x, seen)


def doubled(blocks, x, seen):
    return 2 * mended_encode(blocks, x, seen)


@pytest.mark.parametrize(
    ("name", "answer", "said"),
    [
        ("my_seen", drawn_anew, "Draw nothing anew"),
        ("my_seen", next_to_least, "With one image and n = 1 it is wrong already"),
        ("my_spread", one_too_far, "Where the first of three patches is visible it is wrong"),
        ("my_spread", twice_the_hidden, "Where the first of three patches is visible it is wrong"),
        ("my_hidden_loss", nearly_all, "With two patches of one number, the first of them visible, it is wrong"),
        ("my_windows", last_window_first, "A single window is wrong already"),
        ("my_windows", second_image_first, "One image is right, two are not"),
        ("mended_encode", a_little_of_all, "If a masked patch changes, your result changes too"),
        ("mended_encode", each_block_twice, "No masked patch is read any more"),
        ("mended_encode", doubled, "Without any block it is wrong"),
    ],
)
def test_a_wrong_way_that_nobody_listed_is_told_where_to_look(name, answer, said):
    verdict = judge(find(name), answer)
    assert verdict.kind == "wrong" and said in verdict.message, verdict


@pytest.mark.parametrize("name", ["my_spread", "my_hidden_loss", "my_windows", "mended_encode"])
def test_the_right_numbers_without_their_gradient_are_told_so(name):
    solution = find(name).solution
    verdict = judge(find(name), lambda *given: solution(*given).detach())
    assert verdict.kind == "wrong" and "no gradient flows back to" in verdict.message, verdict


# The solutions are the library's ------------------------------------------------------------------------------


def test_the_students_parts_are_a_masked_autoencoder():
    """What the notebook's build does: the seen patches through the blocks, back to their places, painted, judged."""
    torch.manual_seed(0)
    model = MaskedAutoencoder(ViT(ViTConfig((4, 6), 2, 5, 8, 2, 2, channels=3)), 4, 2, 1).double()
    images, seen = torch.rand(2, 3, 4, 6).double(), my_seen(torch.rand(2, 6), 2)
    vit, patches = model.vit, patchify(images, 2)

    def with_class(x):
        """The whole stack of blocks is one block here, and [CLS] stands before whatever patches it is given."""
        return vit.encoder(torch.cat([(vit.cls + vit.places[0]).expand(len(x), 1, -1), x], dim=1))

    known = model.narrow(mended_encode([with_class], vit.embed(images) + vit.places[1:], seen))
    spread = torch.cat([known[:, :1], my_spread(known[:, 1:], seen, model.hidden, 6)], dim=1) + model.places
    painted = model.paint(model.decoder(spread)[:, 1:])
    torch.testing.assert_close(painted, model(images, seen), rtol=0, atol=1e-12)
    torch.testing.assert_close(my_hidden_loss(painted, patches, seen), model.loss(images, seen), rtol=0, atol=1e-12)


def test_each_window_holds_its_own_places():
    places = torch.cartesian_prod(torch.arange(2), torch.arange(4), torch.arange(6)).view(
        2, 4, 6, 3
    )  # image, row, column
    for n, window in enumerate(my_windows(places, 2).tolist()):
        image, top, left = n // 6, n % 6 // 3 * 2, n % 3 * 2
        assert window == [[image, top + i, left + j] for i in range(2) for j in range(2)]


# The planted bug ----------------------------------------------------------------------------------------------


class Painter(nn.Module):
    """A masked autoencoder of three patches of one number, of the functions of the exercises and this encoder."""

    def __init__(self, encode, D=16):
        super().__init__()
        self.encode, self.embed, self.paint = encode, nn.Linear(1, D), nn.Linear(D, 1)
        self.places, self.hidden = nn.Parameter(torch.randn(2, 3, D)), nn.Parameter(0.1 * torch.randn(D))
        self.encoder, self.decoder = (Encoder(D, 2, 1, pre_norm=True) for _ in range(2))

    def loss(self, patches, seen):
        known = self.encode(self.encoder.blocks, self.embed(patches) + self.places[0], seen)
        row = my_spread(known, seen, self.hidden, 3) + self.places[1]
        return my_hidden_loss(self.paint(self.decoder(row)), patches, seen)


@pytest.mark.slow
def test_with_the_planted_bug_a_model_paints_what_nobody_can_know():
    """Patches drawn at random, each for itself: 1, their variance, is the least error for who has not read them."""
    found = {}
    for encode in (broken_encode, mended_encode):
        torch.manual_seed(0)
        model = Painter(encode)
        optimiser = torch.optim.Adam(model.parameters(), 1e-2)
        for _ in range(80):
            loss = model.loss(torch.randn(64, 3, 1), my_seen(torch.rand(64, 3), 2))
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        with torch.no_grad():
            found[encode] = model.loss(torch.randn(2000, 3, 1), my_seen(torch.rand(2000, 3), 2)).item()
    assert found[mended_encode] > 0.9
    assert found[broken_encode] < 0.3


# What is asked ------------------------------------------------------------------------------------------------


def test_the_lesson_asks_what_its_plan_lists():
    own = [one for one in all_exercises() if one.lesson == "masked_images"]
    assert {one.name for one in own} == {"my_seen", "my_spread", "my_hidden_loss", "my_windows", "mended_encode"}
    assert {one.key for one in all_quizzes() if one.lesson == "masked_images"} == {
        "left_out_or_masked", "hidden_alone", "more_than_of_words", "nearest_is_ahead", "what_the_shift_is_for",
        "twice_the_side",
    }  # fmt: skip
    assert {one.name for one in all_investigations() if one.lesson == "masked_images"} == {"how_much_may_be_hidden"}
