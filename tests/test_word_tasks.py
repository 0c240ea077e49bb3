"""The word tasks: lists without slips that a machine can see, split without leaks, and the card's numbers."""

import unicodedata

import pytest

from course_lib.data import SPLITS, read_card, sha256, word_tasks
from course_lib.data.word_tasks import SIZES, TASKS, pairs

ALL = {task: [pair for split in SPLITS for pair in pairs(task, split)] for task in TASKS}


def test_the_checksum_is_pinned():
    assert word_tasks.checksum() == "019ee20d716269e53f8eed950d9e91b1203ea6c07c902c746889baa41f168a90"


def test_every_task_has_as_many_pairs_as_the_sizes_say_and_the_lists_hold_no_more():
    for task, found in ALL.items():
        assert len(found) == sum(row.task == task for row in word_tasks.ROWS) == sum(SIZES.values()) == 80
        assert {split: len(pairs(task, split)) for split in SPLITS} == SIZES


def test_no_word_is_asked_twice_in_any_split_or_task():
    words = [word for found in ALL.values() for word, _ in found]
    assert len(set(words)) == len(words)


@pytest.mark.parametrize("task", sorted(set(TASKS) - {"kinds"}))
def test_no_answer_belongs_to_two_words(task):
    answers = [answer for _, answer in ALL[task]]
    assert len(set(answers)) == len(answers)


@pytest.mark.parametrize("task", TASKS)
def test_no_answer_is_a_word_asked_or_stands_in_a_pair_turned_round(task):
    assert not {answer for _, answer in ALL[task]} & {word for word, _ in ALL[task]}


def test_kinds_has_ten_words_of_each_and_an_example_of_each():
    answers = [answer for _, answer in ALL["kinds"]]
    assert {answers.count(answer) for answer in answers} == {10}
    assert {answer for _, answer in pairs("kinds", "train")} == set(answers)


def test_words_are_written_as_a_prompt_needs_them():
    for found in ALL.values():
        for word, answer in found:
            assert word.isalpha() and word.isascii() and answer.replace(" ", "").replace("-", "").isalpha()
            assert answer == answer.strip() == unicodedata.normalize("NFC", answer) and "_" not in answer
    assert dict(ALL["capitals"])["Argentina"] == "Buenos Aires"


def test_the_made_up_answers_follow_their_rules():
    assert all(answer == f"{word}-zo" for word, answer in ALL["made-up suffix"])
    assert all(answer == word[::-1] for word, answer in ALL["letters reversed"])


def test_the_split_is_drawn_by_a_hash_of_the_word():
    for task, found in ALL.items():
        assert found == sorted(found, key=lambda pair: sha256(f"word tasks 1 {pair[0]}")), task


def test_an_unknown_task_is_refused():
    with pytest.raises(ValueError, match="task must be one of 'capitals', .*; got 'verbs'"):
        pairs("verbs", "test")


def test_the_card_states_what_the_lists_hold():
    text = " ".join(read_card("word_tasks").split())
    assert "Eight tasks" in word_tasks.__doc__ and "8 tasks of 80 pairs each" in text and word_tasks.checksum() in text
    for task in TASKS:
        answers = [answer for _, answer in pairs(task, "test")]
        share = max(map(answers.count, answers)) / len(answers)
        assert (
            f"{share:.2f} of the test words of *kinds*" if task == "kinds" else f"{share:.2f} of those of every other"
        ) in text
