"""Lesson 03's exercises: they agree with the library, and the planted leak flatters."""

import torch

from course_lib.text.pairs import masked_loss, shift
from course_lib.workshop.exercises import all_exercises, all_investigations, all_quizzes
from course_lib.workshop.exercises.seq2seq import my_masked_loss, my_shifted_target
from course_lib.workshop.exercises.seq2seq_search import a_test_set, by_tens, leaking_accuracy, mended_accuracy

# What the exercises say ---------------------------------------------------------------------------------------


def test_the_solutions_agree_with_the_library():
    torch.manual_seed(0)
    target = torch.tensor([[1, 5, 6, 7, 2], [1, 8, 2, 0, 0]])
    for mine, theirs in zip(my_shifted_target(target, 0), shift(target), strict=True):
        assert torch.equal(mine, theirs)
    logits, wanted = torch.randn(2, 4, 9), shift(target)[1]
    torch.testing.assert_close(my_masked_loss(logits, wanted, 0), masked_loss(logits, wanted))


def test_the_leak_flatters():
    torch.manual_seed(0)
    model, states, references = a_test_set()
    leaking, mended = ([*by_tens(one, model, states, references)] for one in (leaking_accuracy, mended_accuracy))
    assert sum(leaking) > sum(mended)


def test_the_lesson_has_what_its_notebook_asks_for():
    names = [one.name for one in all_exercises() if one.lesson == "seq2seq"]
    assert names == ["my_shifted_target", "my_masked_loss", "my_greedy", "mended_accuracy", "my_beam"]
    assert len([one for one in all_quizzes() if one.lesson == "seq2seq"]) == 5
    assert [one.name for one in all_investigations() if one.lesson == "seq2seq"] == ["what_moves_the_cliff"]
