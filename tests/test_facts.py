"""recipes/facts.py: no stem on two sides, sentences that say what the world is, worlds that move, what is judged."""

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from course_lib.retrieval.learned_search import KeptIndex
from course_lib.retrieval.marginal import log_marginal
from course_lib.workshop.recipes import facts
from course_lib.workshop.recipes.facts import (
    PASSAGES,
    QUESTIONS,
    SHELVES,
    World,
    names,
    names_of,
    part_of,
    search_model,
)


@pytest.mark.parametrize(("language", "known"), [("en", "Greece"), ("el", "Ελλάδα"), ("ka", "საბერძნეთი")])
def test_names_that_begin_alike_lie_on_one_side(language, known):
    """names, part_of: of one word, all in one part each, none of a stem of another part."""
    every = names(language)
    assert known in every and len(every) > 500 and all(" " not in name for name in every)
    parts = {part: names_of(part, language) for part in ("train", "validation", "test")}
    assert sorted(sum(parts.values(), [])) == sorted(every)
    stems = {part: {name.casefold()[:3] for name in found} for part, found in parts.items()}
    assert not stems["train"] & stems["test"] and not stems["train"] & stems["validation"]
    assert not stems["validation"] & stems["test"]
    assert len(parts["test"]) >= 64 and len(parts["validation"]) >= 64 and len(parts["train"]) > 300


def test_a_few_names_are_some_of_all():
    few = names_of("train", most=64)
    assert len(few) == 64 and set(few) < set(names_of("train")) and few == names_of("train", most=64)
    assert set(few) > set(names_of("train", most=16))
    assert part_of("Finland") == part_of("Finnish")


def test_a_word_is_spelled_by_itself_and_in_threes():
    """pieces, vocabulary: equal words have equal rows in every language; no word of a template is left out."""
    assert facts.pieces("Owl") == ["<owl>", "<ow", "owl", "wl>"]
    words = facts.vocabulary()
    row = words.spelling[words.number["Greece"]]
    assert int((row != 0).sum()) == len(facts.pieces("Greece")) and not words.spelling[0].any()
    assert int(words.spelling.max()) < facts.ROWS
    same = facts.vocabulary("el")
    assert words.spelling[words.number["shelf"]].equal(same.spelling[same.number["shelf"]])


@pytest.mark.parametrize("n_passages", [16, None])
def test_a_batch_says_what_the_world_is(n_passages):
    """World.batch: the right passage has the name and the shelf, in some template; the question has the name alone."""
    world = World("train", seed=1)
    batch, known = world.batch(n_passages, 12), facts.vocabulary()
    word = {number: one for one, number in known.number.items()} | {0: ""}
    n = len(world.names) if n_passages is None else n_passages
    assert batch.questions.shape == (12, facts.longest()) and batch.passages.shape == (n, facts.longest())
    for asked, answer, right in zip(batch.questions.tolist(), batch.answers, batch.right, strict=True):
        question = " ".join(map(word.get, asked)).split()
        passage = " ".join(map(word.get, batch.passages[right].tolist())).split()
        (name,) = {one for one in passage if one in world.shelf}
        assert name in question and world.shelf[name] == SHELVES[answer] and SHELVES[answer] in passage
        assert " ".join(passage) in {text.format(name, SHELVES[answer]) for text in PASSAGES}
        assert " ".join(question) in {text.format(name) for text in QUESTIONS}
        about = [row for row in batch.passages.tolist() if known.number[name] in row]
        assert len(about) == 1


@pytest.mark.parametrize(("change", "least", "most"), [(0.0, 0, 0), (0.1, 20, 70), (1.0, 350, 412)])
def test_a_world_moves_as_often_as_it_is_told(change, least, most):
    world = World("train", seed=0, change=change)
    before = dict(world.shelf)
    world.move()
    assert least <= sum(before[name] != world.shelf[name] for name in world.names) <= most


def test_losses_are_told_what_they_say():
    """answer_loss: -log of the sum over passages; cut, nothing reaches the retriever; pair_loss knows the right one."""
    torch.manual_seed(0)
    model, batch = search_model(), World("train", 0).batch(8, 8)
    log_z, log_y, _ = model(batch.questions, batch.passages)
    p = log_marginal(log_z, log_y).exp()[torch.arange(8), batch.answers]
    assert_close(facts.answer_loss(model, batch), -p.log().mean())
    facts.answer_loss(model, batch, cut=True).backward()
    assert all(weight.grad is None for weight in model.retriever.parameters())
    facts.answer_loss(model, batch, k=4, index=KeptIndex(2)).backward()
    assert model.retriever.question.project.weight.grad.any()
    scores = model.retriever(batch.questions, batch.passages)
    assert_close(facts.pair_loss(model, batch), F.cross_entropy(scores, batch.right))
