"""Lesson 15's experiments: what each setting changes, what is recorded, words and clusters beside what is learned."""

import pytest
import torch
from smoke import experiments_of, smoke

from course_lib.workshop.experiments.retrieval import core as main
from course_lib.workshop.recipes.facts import SHELVES, World, pair_loss, search_model, taught


def untrained(seed=0):
    torch.manual_seed(seed)
    return search_model()


@pytest.fixture
def quick(monkeypatch):
    """Experiments of eight steps: what they give has its form, and no number says anything."""
    monkeypatch.setattr(main, "taught", lambda *given, **how: taught(*given[:3], **how | {"steps": 8}))
    monkeypatch.setattr(main, "recall_and_answers", lambda *_, **__: (0.25, 0.5))


@pytest.mark.slow
@experiments_of("retrieval")
def test_an_experiment_gives_its_numbers(quick, one):
    smoke(one)


@pytest.mark.slow
def test_what_is_judged_are_shares_and_chance_finds_one_of_64():
    found = main.judged(untrained(), World("train", 0), 0)
    shares = [*(share for name, share in found.items() if name != "moved"), *found["moved"].values()]
    assert all(0 <= share <= 1 for share in shares)
    assert found["recall"] < 0.06 and found["recall, all"] < 0.04 and found["answers"] < 0.06


@pytest.mark.parametrize("added", [False, True])
def test_labelled_pairs_alone_teach_the_search_without_answers(added):
    """labelled_loss: not added, the gradient of the search is that of the pairs; added, the answers' comes to it."""
    model, batch = untrained(), World("train", 0).batch(8, 8)
    weight = model.retriever.question.project.weight
    (by_pairs,) = torch.autograd.grad(pair_loss(model, batch), weight)
    main.labelled_loss(model, batch, added).backward()
    assert torch.allclose(weight.grad, by_pairs, atol=1e-9) is not added
    assert model.reader.w_k.weight.grad.any()


@pytest.mark.slow
def test_bm25_needs_the_name_as_it_is_written():
    """words_alone: with the name in both it finds the passage; without it the other words say nothing of whom."""
    found = main.words_alone(0)
    assert found["recall"] > 0.9 and found["recall, misspelt"] < 0.1
    assert found["threes"] > 0.9 and found["threes, misspelt"] > 0.4, "threes of letters survive a missing one"
    assert main.in_threes("On Mu?") == "0on1 0on on1 0mu1 0mu mu1"


def test_who_knows_by_heart_says_the_old_shelf_and_who_reads_the_new_one():
    """moved: by a model that gives each name the shelf that stood in the first world, and by one that reads."""

    class ByHeart:
        def __init__(self, world, reads):
            self.world, self.reads, self.before = world, reads, dict(world.shelf)

        def __call__(self, questions, passages):
            known = self.world.shelf if self.reads else self.before
            number = main.vocabulary().number
            log_y = torch.full((len(questions), 1, len(SHELVES)), -9.0)
            for row, question in enumerate(questions.tolist()):
                (name,) = (name for name in self.world.names if number[name] in question)
                log_y[row, 0, SHELVES.index(known[name])] = 0.0
            return torch.zeros(len(questions), 1), log_y, None

    for reads in (True, False):
        world = World("train", 0)
        found = main.moved(ByHeart(world, reads), world)
        assert found["new" if reads else "old"] == 1.0 and found["old" if reads else "new"] < 0.1
