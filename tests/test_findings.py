"""Findings: each holds in the records, and falls where every system guesses; what a finding is and how it is cited."""

import re

import nbformat
import pytest

from course_lib.lesson import cite
from course_lib.lesson.syllabus import IN_WRITING, LISTED
from course_lib.workshop.experiments import Record, Runs, finding
from course_lib.workshop.experiments.finding import Finding, all_findings, findings_of
from course_lib.workshop.publish import measured

DRAFTS = {lesson.slug for lesson in IN_WRITING}
ALL = [one for one in all_findings() if one.name.split(".")[0] not in DRAFTS]
SLUGS = {lesson.slug for lesson in LISTED}

# --- the course as it stands


@pytest.mark.parametrize("one", ALL, ids=lambda one: one.name)
def test_it_holds_in_the_recorded_runs(one):
    assert one.holds, f"{one.sentence}: {one.evidence()}"
    assert one.name.split(".")[0] in SLUGS


@pytest.mark.parametrize("one", ALL, ids=lambda one: one.name)
def test_it_falls_where_every_system_has_the_value_of_chance(one, monkeypatch):
    """A statement of equality or of failure needs a floor: with untrained systems all around it must not hold."""

    def guessing(self, *path, **variant):
        n = len(Record.lists(self, *path, **variant))
        return Runs([_chance(one.chance, path)] * n)

    monkeypatch.setattr(Record, "numbers", guessing)
    assert not Finding(one.sentence, one.condition, one.chance, one.at_least).holds


def _chance(chance, path):
    return chance if not isinstance(chance, dict) else next(chance[str(key)] for key in path if str(key) in chance)


def test_findings_have_sentences_of_their_own():
    sentences = [one.sentence for one in ALL]
    assert len(set(sentences)) == len(sentences) and all(len(one) > 20 for one in sentences)


@pytest.mark.parametrize("path", measured.written(), ids=lambda path: path.stem)
def test_a_notebook_cites_the_findings_of_its_lesson_and_no_finding_is_left_unread(path):
    slug = path.stem[3:]
    notebook = nbformat.read(path, 4)
    cited = {name for cell in notebook.cells if cell.cell_type == "code"
             for name in re.findall(r"cite\(findings\.(\w+)", cell.source)}  # fmt: skip
    assert cited == set(findings_of(slug))


# --- what a finding is

BAND = Runs([0.16, 0.23, 0.2])


def made(*condition, **more):
    return finding("It is better than chance.", chance=0.0, **more)(lambda: condition)


def test_it_says_in_how_many_runs_it_holds_and_what_was_recorded():
    one = made(BAND, ">=", 0.15)
    assert one.holds and one.held == [True] * 3
    assert one.evidence() == "3 of 3 runs, 0.16 to 0.23 (≥ 0.15)"
    assert one.sentence == "It is better than chance"
    assert made(Runs([4, 4]), "==", 4).evidence() == "the same in all 2 runs, 4 (= 4)"
    assert made(Runs([4]), "==", 4).evidence() == "1 of 1 runs, 4 (= 4)"


def test_one_run_that_does_not_keep_it_fails_it_and_a_frequency_may_miss_some():
    assert not made(BAND, ">=", 0.2).holds
    assert made(BAND, ">=", 0.2, at_least=2).holds and not made(BAND, ">=", 0.2, at_least=3).holds
    assert not made(Runs([0.9, float("nan")]), ">", 0).holds


def test_comparisons_hold_together_in_a_run_or_not():
    assert made(Runs([1, 3]), "<", 2, Runs([3, 1]), "<", 2).held == [False, False]
    assert made(Runs([1, 1, 1]), "<", 2, Runs([1, 3]), "<", 2).held == [True, False]


@pytest.mark.parametrize("condition", [(BAND, ">=", Runs([1, 2])), (0.5, ">=", 0.4), (BAND, "=>", 0.1), (BAND,), ()])
def test_what_is_no_condition_over_runs_is_refused_in_words(condition):
    with pytest.raises(TypeError, match="finding test_findings.<lambda>|The finding"):
        _ = made(*condition).comparisons


def test_citing_says_where_this_run_lies(outputs):
    cite(made(BAND, ">=", 0.15), this_run=0.19)
    cite(made(BAND, ">=", 0.15), this_run=0.3)
    cite(made(BAND, ">=", 0.15))
    said = [data["text/plain"].partition(" — ")[2] for data, _ in outputs]
    assert said[0] == "Recorded: 3 of 3 runs, 0.16 to 0.23 (≥ 0.15); this run 0.190, inside the recorded band"
    assert said[1].endswith("this run 0.300, outside the recorded band") and "this run" not in said[2]
    assert outputs[0][1] | {"finding": ""} == {"finding": "", "holds": True, "runs": 3, "this_run": 0.19}
    with pytest.raises(TypeError, match="cite takes a finding"):
        cite("gpt.better")


def test_findings_are_those_of_a_lesson():
    assert {one.name.split(".")[0] for one in all_findings()} <= SLUGS
    assert findings_of("no_lesson") == {}
