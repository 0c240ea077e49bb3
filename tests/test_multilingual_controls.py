"""Lesson 14's controls: marks of their own, places that begin later, fake English of the grammar's sentences."""

import pytest
import torch

from course_lib.bert.xlm import XLM
from course_lib.workshop.experiments.multilingual import controls
from course_lib.workshop.recipes import multilingual as recipe


def test_marks_of_the_second_language_are_three_tokens_behind_all_words():
    """with_own_marks: mask, start and end move, padding and words do not, and nothing of the first language."""
    read = torch.tensor([[recipe.START, 5, recipe.MASK, 7, recipe.SEP, recipe.PAD]] * 2)
    languages = torch.tensor([[0] * 6, [1] * 6])
    found = controls.with_own_marks(read, languages)
    assert found[0].equal(read[0])
    last = recipe.SPECIALS + 2 * recipe.WORDS
    moved = {recipe.MASK: last, recipe.START: last + 1, recipe.SEP: last + 2}
    assert found[1].tolist() == [moved.get(i, i) for i in read[1].tolist()]


def test_sentences_of_the_second_language_begin_three_places_on():
    """PlacesLater: in the same table, neighbours as they were."""
    one = recipe.model(0)
    one.__class__ = controls.PlacesLater
    languages = torch.tensor([[0] * 5, [1] * 5])
    assert one.places_of(languages).tolist() == [[0, 1, 2, 3, 4], [3, 4, 5, 6, 7]]
    assert recipe.LONGEST + 2 + controls.LATER <= recipe.MAX_LEN and one.places.weight.equal(
        recipe.model(0).places.weight
    )


@pytest.mark.slow
def test_each_control_trains_as_long_as_what_it_is_compared_with(monkeypatch):
    """places_later, marks_apart, fake_of_the_grammar: steps, both languages apart, the model that is trained."""
    seen = []

    def look(one, data, steps):
        batch = next(iter(data))
        seen.append((type(one), steps, batch))

    monkeypatch.setattr(controls, "taught", look)
    assert set(controls.places_later(0)) == set(controls.marks_apart(0)) == {"twins", "words"}
    assert set(controls.fake_of_the_grammar(0)) == {"twins"}
    (later, long, _), (marks, as_long, batch), (_, short, grammar) = seen
    assert later is controls.PlacesLater and marks is XLM
    assert long == as_long == recipe.STEPS and short == controls.STEPS
    one, other = (set(batch.ids[batch.languages == n].tolist()) - {recipe.PAD} for n in (0, 1))
    assert not one & other  # not a token is shared
    first, second = (grammar.answers[grammar.languages.flatten()[grammar.places] == n] for n in (0, 1))
    assert first.max() < recipe.SPECIALS + controls.n_words() <= second.min()
