"""The records as they are stored: whole, and measured with the code of today."""

import json

import pytest

from course_lib.lesson.syllabus import LISTED
from course_lib.workshop.experiments import __main__ as command
from course_lib.workshop.experiments import record
from course_lib.workshop.experiments.digest import reached

RECORDED = {path.stem for path in record.RECORDS.glob("*.json")}
BEGUN = {
    stem for one in LISTED if one.to_be_written for stem in command.slugs() if f"{stem}_".startswith(f"{one.slug}_")
}
# They reach `load` by a branch that their variants do not take.
NOT_READ = {"real_tuned", "characters_counted", "sixth_model", "replaced", "few_places", "no_marks_seen"}


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


@pytest.mark.slow
@pytest.mark.parametrize("slug", sorted(RECORDED))
def test_an_experiment_that_reads_a_stored_model_names_its_file(slug):
    """Else another stored model would leave its record as it is."""
    for one in command.experiments(slug):
        reads = "course_lib.workshop.recipes.stored:load" in reached(one.module, one.name)
        assert not reads or one.files or one.name in NOT_READ, one.name
        assert all((record.RECORDS.parents[1] / file).exists() for file in one.files)
