"""Correct but unusual answers pass: at least two for every exercise (tests/other_answers/)."""

import importlib
import pkgutil
from collections import Counter

import other_answers
import pytest

from course_lib.lesson.judge import judge
from course_lib.workshop.exercises import all_exercises, find

for module in pkgutil.iter_modules(other_answers.__path__):
    importlib.import_module(f"other_answers.{module.name}")


each = pytest.mark.parametrize(
    ("name", "answer"),
    other_answers.ANSWERS,
    ids=[f"{name}: {answer.__name__}" for name, answer in other_answers.ANSWERS],
)


@each
def test_a_correct_answer_passes(name, answer):
    exercise = find(name)
    verdict = judge(exercise, answer() if exercise.value else answer)
    assert verdict.kind == "passed", verdict.message


@pytest.mark.full
@each
def test_a_correct_answer_passes_under_every_seed(name, answer):
    exercise = find(name)
    for seed in range(1, 6):
        verdict = judge(exercise, answer() if exercise.value else answer, seed)
        assert verdict.kind == "passed", (seed, verdict.message)


def test_every_exercise_has_two():
    written = Counter(name for name, _ in other_answers.ANSWERS)
    assert {exercise.name: written[exercise.name] for exercise in all_exercises() if written[exercise.name] < 2} == {}
