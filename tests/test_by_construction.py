"""Identities: checked in silence where they arise, shown together in one line that unfolds."""

import pytest

from course_lib.lesson import identities, identity
from course_lib.workshop.experiments import Runs


@pytest.fixture(autouse=True)
def none_yet(monkeypatch):
    monkeypatch.setattr("course_lib.lesson.by_construction._found", {})


def test_identities_are_checked_in_silence_and_shown_together(outputs):
    identity("heads are <columns>.", 1e-7, "<=", 1e-6)
    assert outputs == []
    identities()
    identity("heads are <columns>", True)  # the cell is run again
    identity("a cache changes nothing", 0, "==", 0, 1.0, ">=", 1)
    identities()
    (one, _), (two, record) = outputs
    assert one["text/plain"] == "✓ 1 of 1 identities hold\n  heads are <columns>"
    assert two["text/plain"] == "✓ 2 of 2 identities hold\n  heads are <columns>\n  a cache changes nothing"
    assert "<li>heads are &lt;columns&gt;</li>" in two["text/html"] and "<details>" in two["text/html"]
    assert record == {"identities": ["heads are <columns>", "a cache changes nothing"]}


@pytest.mark.parametrize("condition", [(2.0, "<=", 1e-6), (float("nan"), "<=", 1e-6), (False,)])
def test_what_does_not_hold_is_shown_in_red_and_the_run_goes_on(outputs, condition):
    identity("ours is theirs", *condition)
    identities()
    (red, record), (line, _) = outputs
    assert red["text/plain"].startswith("✗ not so: ours is theirs — ") and record == {"not_so": "ours is theirs"}
    assert line["text/plain"] == "✗ 0 of 1 identities hold\n  ✗ ours is theirs"


def test_over_runs_it_holds_in_every_run(outputs):
    identity("chance alone", Runs([0.1, 0.2], 0.3), "<=", 0.3)
    assert outputs == []
    identity("chance alone", Runs([0.1, 0.2], 0.3), "<", 0.3)
    assert outputs[0][1] == {"not_so": "chance alone"}


@pytest.mark.parametrize("wrong", [("", True), (3, True), ("words", None), ("words", 1.0), ("words",), ("x", 1, "<")])
def test_what_is_no_identity_is_refused_in_words(wrong):
    with pytest.raises(TypeError):
        identity(*wrong)
