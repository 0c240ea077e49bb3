"""Identities: checked in silence where they arise, told together in one line that unfolds."""

import pytest

from course_lib.lesson import ClaimFailed, identities, identity, measured


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    monkeypatch.setattr("course_lib.lesson.by_construction._held", [])


def test_identities_are_checked_in_silence_and_told_together(outputs):
    identity("heads are <columns>.", measured(1e-7) <= 1e-6)
    assert outputs == []
    identities()
    identity("heads are <columns>", True)  # the cell is run again
    identity("a cache changes nothing", (measured(0) == 0) & (measured(1.0) >= 1))
    identities()
    (one, _), (two, record) = outputs
    assert one["text/plain"] == "✓ 1 identity holds\n  heads are <columns>"
    assert two["text/plain"] == "✓ 2 identities hold\n  heads are <columns>\n  a cache changes nothing"
    assert "<li>heads are &lt;columns&gt;</li>" in two["text/html"] and "<details>" in two["text/html"]
    assert record == {"identities": ["heads are <columns>", "a cache changes nothing"]}


@pytest.mark.parametrize("condition", [measured(2.0) <= 1e-6, measured(float("nan")) <= 1e-6, False])
def test_what_does_not_hold_stops_and_is_not_counted(outputs, condition):
    with pytest.raises(ClaimFailed, match="the identity “ours is theirs” does not hold: "):
        identity("ours is theirs", condition)
    identities()
    assert outputs[0][0]["text/plain"] == "✓ 0 identities hold"


@pytest.mark.parametrize("wrong", [("", True), (3, True), ("words", None), ("words", measured(1.0))])
def test_what_is_no_identity_is_refused_in_words(wrong):
    with pytest.raises(TypeError):
        identity(*wrong)
