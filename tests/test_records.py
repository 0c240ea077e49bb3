"""The records as they are stored: whole, and measured with the code of today."""

import json

import pytest

from course_lib.lesson.syllabus import LISTED
from course_lib.workshop.experiments import __main__ as command
from course_lib.workshop.experiments import record

RECORDED = {path.stem for path in record.RECORDS.glob("*.json")}
BEGUN = {
    stem for one in LISTED if one.to_be_written for stem in command.slugs() if f"{stem}_".startswith(f"{one.slug}_")
}


def test_every_lesson_with_experiments_has_a_record_and_no_other_has():
    assert RECORDED <= set(command.slugs())
    assert set(command.slugs()) - RECORDED <= BEGUN  # a lesson that is being written may not have run them yet
    assert {part for lesson in LISTED for part in record.parts(lesson.slug)} == RECORDED


@pytest.mark.slow
@pytest.mark.parametrize("slug", sorted(RECORDED - BEGUN))
def test_a_record_is_whole_and_of_the_code_of_today(slug):
    """What fails here is run by `make experiments`; after a change of names alone its --confirm is enough."""
    wanting = {one.name: 0 for one in command.experiments(slug)}
    for one, *_ in command.Book().lacking(slug):
        wanting[one.name] += 1
    assert {name: runs for name, runs in wanting.items() if runs} == {}
    assert list(record.read(slug)) == list(wanting)


@pytest.mark.parametrize("slug", sorted(RECORDED))
def test_a_record_holds_no_number_that_is_none(slug):
    text = (record.RECORDS / f"{slug}.json").read_text(encoding="utf-8")
    assert "NaN" not in text and "Infinity" not in text  # they are words, "nan", which JSON can hold
    assert all(one["what"] for one in json.loads(text)["experiments"].values())
