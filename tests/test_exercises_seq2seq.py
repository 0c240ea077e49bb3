"""Lesson 03's exercises: they agree with the library, take other right ways, and the planted leak flatters."""

import pytest
import torch
import torch.nn.functional as F

from course_lib.exercises import all_exercises, all_investigations, all_quizzes, find
from course_lib.exercises.seq2seq import my_masked_loss, my_shifted_target
from course_lib.exercises.seq2seq_search import a_test_set, by_tens, leaking_accuracy, mended_accuracy
from course_lib.lesson.judge import judge
from course_lib.text.pairs import masked_loss, shift
from course_lib.translation.decode import greedy

# Other right ways ---------------------------------------------------------------------------------------------


def token_by_token(target, padding):
    read = torch.full_like(target[:, 1:], padding)
    for row in range(len(target)):
        for t in range(target.shape[1] - 1):
            if target[row, t + 1] != padding:
                read[row, t] = target[row, t]
    return read, target[:, 1:].clone()


def by_the_mask(logits, target_out, padding):
    weight = torch.ones(logits.shape[-1], dtype=logits.dtype)
    weight[padding] = 0
    return F.cross_entropy(logits.transpose(1, 2), target_out, weight=weight)


def by_the_librarys_search(step, state, start, end, max_len):
    def one_row(token, states):
        scores, new = step(int(token[0]), states[0])
        return scores[None], [new]

    return greedy(one_row, [state], torch.tensor([start]), end, max_len, select=lambda states, rows: states).tokens[0]


@pytest.mark.parametrize("name, answer", [
    ("my_shifted_target", shift), ("my_shifted_target", token_by_token),
    ("my_masked_loss", masked_loss), ("my_masked_loss", by_the_mask),
    ("my_greedy", by_the_librarys_search),
])  # fmt: skip
def test_other_right_ways_pass(name, answer):
    verdict = judge(find(name), answer)
    assert verdict.kind == "passed", verdict.message


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
