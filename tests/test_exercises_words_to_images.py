"""Lesson 18's exercises: they agree with the library, and the planted bug misleads."""

import pytest
import torch

from course_lib.language.gpt import GPT, GPTConfig
from course_lib.lesson.judge import judge
from course_lib.multimodal.quantiser import COMMITMENT, Quantiser
from course_lib.multimodal.words_then_codes import draw
from course_lib.workshop.exercises import all_exercises, all_investigations, all_quizzes, find
from course_lib.workshop.exercises.words_to_images import my_nearest, my_quantiser_loss, my_straight_through
from course_lib.workshop.exercises.words_to_images_draw import broken_revive, mended_revive, my_draw

# Wrong ways that are not in the tables ------------------------------------------------------------------------


def second_nearest(vectors, codes):
    return torch.cdist(vectors, codes).argsort(dim=1)[:, min(1, len(codes) - 1)]


def of_the_first(vectors, codes):
    return my_nearest(vectors[:1], codes).expand(len(vectors))


def a_little_more(vectors, chosen):
    return my_straight_through(vectors, chosen) + 1e-3


def a_tenth_of_the_way_back(vectors, chosen):
    return chosen.detach() + 0.1 * (vectors - vectors.detach())


def a_little_to_the_codes(vectors, chosen):
    return my_straight_through(vectors, chosen) + 0.1 * (chosen - chosen.detach())


def squared_factor(vectors, chosen, commitment):
    return my_quantiser_loss(vectors, chosen, commitment**2)


def three_halves(vectors, chosen, commitment):
    return 1.5 * my_quantiser_loss(vectors, chosen, commitment)


def pulled_twice(vectors, chosen, commitment):
    return my_quantiser_loss(vectors, chosen, commitment) + (vectors - vectors.detach()).mean()


def pulled_too(vectors, chosen, commitment):
    return my_quantiser_loss(vectors, chosen, commitment) + (chosen - chosen.detach()).mean()


def next_code(model, words, n, n_words):
    return my_draw(model, words, n, n_words).roll(1, dims=1) if n > 1 else my_draw(model, words, n, n_words)


def the_code_after_the_best(model, words, n, n_words):
    return (my_draw(model, words, n, n_words) + 1) % (model(words).shape[2] - n_words)


def forgets_the_second(model, words, n, n_words):
    codes = my_draw(model, words, n, n_words)
    return torch.cat([codes[:, :2], codes[:, 1:-1]], dim=1) if n > 2 else codes


def half_way(codes, share, vectors):
    moved = codes.clone()
    dead = share < 0.03
    moved[dead] = (moved[dead] + vectors[torch.randperm(len(vectors))[: int(dead.sum())]]) / 2
    return moved


def shakes_the_living(codes, share, vectors):
    return mended_revive(codes, share, vectors) + 0.01 * (share >= 0.03)[:, None]


@pytest.mark.parametrize(
    ("name", "answer", "said"),
    [
        ("my_nearest", second_nearest, "With one vector and two codes of one number it is wrong already"),
        ("my_nearest", of_the_first, "One vector is right, several are not"),
        ("my_straight_through", a_little_more, "The forward pass is wrong"),
        ("my_straight_through", a_tenth_of_the_way_back, "`vectors` gets the gradient of the result, unchanged"),
        ("my_straight_through", a_little_to_the_codes, "By `chosen` there should be none"),
        ("my_quantiser_loss", squared_factor, "With commitment = 0 it is right, with another it is wrong"),
        ("my_quantiser_loss", three_halves, "With one number and commitment = 0 it is wrong already"),
        ("my_quantiser_loss", pulled_twice, "its gradient by `vectors` is not"),
        ("my_quantiser_loss", pulled_too, "its gradient by `chosen` is not"),
        ("my_draw", next_code, "The first code is right, the second is not"),
        ("my_draw", the_code_after_the_best, "The first code of a single name is wrong already"),
        ("my_draw", forgets_the_second, "Two codes are right, 6 are not"),
        ("mended_revive", half_way, "You put dead codes where no vector is"),
        ("mended_revive", shakes_the_living, "living: 6 near"),
    ],
)
def test_a_wrong_way_that_nobody_listed_is_told_where_to_look(name, answer, said):
    verdict = judge(find(name), answer)
    assert verdict.kind == "wrong" and said in verdict.message, verdict


@pytest.mark.parametrize("name", ["my_straight_through", "my_quantiser_loss"])
def test_the_right_numbers_without_their_gradient_are_told_so(name):
    solution = find(name).solution
    verdict = judge(find(name), lambda *given: solution(*given).detach())
    assert verdict.kind == "wrong" and "All of yours is detached" in verdict.message, verdict


def test_who_writes_into_the_codebook_is_told_so():
    def in_place(codes, share, vectors):
        dead = share < 0.03
        codes[dead] = vectors[torch.randperm(len(vectors))[: int(dead.sum())]]
        return codes

    verdict = judge(find("mended_revive"), in_place)
    assert verdict.kind == "wrong" and "changes its input `codes` in place" in verdict.message


# The solutions are the library's ------------------------------------------------------------------------------


def test_the_students_parts_are_the_quantiser():
    """What the notebook's build does: the nearest codes, the gradient past them, the loss with its commitment."""
    torch.manual_seed(0)
    quantiser = Quantiser(9, 4).double()
    vectors = torch.randn(30, 4, dtype=torch.float64, requires_grad=True)

    def by_parts():
        ids = my_nearest(vectors, quantiser.codes)
        chosen = quantiser.codes[ids]
        return my_straight_through(vectors, chosen), ids, my_quantiser_loss(vectors, chosen, COMMITMENT)

    def ways(results):
        passed, ids, loss = results
        mixture = (passed * torch.linspace(1, 2, passed.numel()).view_as(passed)).sum() + loss
        return passed, ids, loss, *torch.autograd.grad(mixture, (vectors, quantiser.codes))

    torch.testing.assert_close(ways(by_parts()), ways(quantiser(vectors)), rtol=0, atol=1e-12)


def test_the_students_drawing_is_the_librarys_at_temperature_0():
    torch.manual_seed(0)
    n_words, n_codes, n = 7, 5, 6
    model = GPT(GPTConfig(n_words + n_codes, 3 + n, 16, 2, 2)).double().eval()
    with torch.no_grad():
        model.tokens.weight.mul_(20)  # far from even, so that codes differ
        words = torch.randint(n_words, (4, 3))
        mine = my_draw(model, words, n, n_words)
    assert len(mine.unique()) > 1
    assert torch.equal(mine, draw(model, words, n, n_words, temperature=0))


# The planted bug ----------------------------------------------------------------------------------------------


def test_with_the_planted_bug_codes_crowd_at_few_places_though_the_loss_falls():
    """Vectors in sixteen heaps, sixteen codes far from all but one; how many heaps have a code after five rounds."""
    served, after = {}, {}
    heaps = 4 * torch.cartesian_prod(torch.arange(4.0), torch.arange(4.0))  # (16, 2)

    def some(n):
        return heaps[torch.randint(16, (n,))] + 0.1 * torch.randn(n, 2)

    for revive in (broken_revive, mended_revive):
        torch.manual_seed(0)
        codes = torch.cat([some(1), 100 + torch.randn(15, 2)])
        before = my_quantiser_loss(vectors := some(256), codes[my_nearest(vectors, codes)], 0.25)
        for _ in range(5):
            share, codes = torch.ones(16), codes.clone().requires_grad_()
            optimiser = torch.optim.SGD([codes], lr=2.0)
            for _ in range(40):
                vectors = some(128)
                ids = my_nearest(vectors, codes)
                share = share.lerp(16 * torch.bincount(ids, minlength=16) / 128, 0.2)
                optimiser.zero_grad()
                my_quantiser_loss(vectors, codes[ids], 0.25).backward()
                optimiser.step()
            codes = revive(codes.detach(), share, some(128))
        vectors = some(1000)
        after[revive] = my_quantiser_loss(vectors, codes[my_nearest(vectors, codes)], 0.25)
        served[revive] = int((torch.cdist(heaps, codes).amin(dim=1) < 1).sum())
        assert after[revive] < before / 2
    assert served[broken_revive] + 4 <= served[mended_revive]
    assert after[mended_revive] < after[broken_revive]


# What is asked ------------------------------------------------------------------------------------------------


def test_the_lesson_asks_what_its_plan_lists():
    own = [one for one in all_exercises() if one.lesson == "words_to_images"]
    assert {one.name for one in own} == {
        "my_nearest", "my_straight_through", "my_quantiser_loss", "my_draw", "mended_revive",
    }  # fmt: skip
    assert {one.key for one in all_quizzes() if one.lesson == "words_to_images"} == {
        "why_straight_through", "why_it_stays_dead", "the_mean_of_all", "a_new_name_right", "picker_or_judge",
        "is_it_a_copy",
    }  # fmt: skip
    assert {one.name for one in all_investigations() if one.lesson == "words_to_images"} == {"how_many_codes"}
