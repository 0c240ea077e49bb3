"""recipes/glyph_writers.py: what the stored models that write names are worth, and a short run of each kind."""

from dataclasses import replace
from functools import partial

import pytest

from course_lib.data.glyph_names import named
from course_lib.workshop.recipes import glyph_writers as ours
from course_lib.workshop.recipes.glyph_captions import chosen, looked_at, taught_spotter
from course_lib.workshop.recipes.stored import load

both = pytest.mark.parametrize("recipe", [ours.WRITER, ours.FILLER], ids=lambda recipe: recipe.name)


@pytest.mark.full  # the weights are those of their SHA-256; what they are worth, `make test-all` measures again
@both
def test_a_stored_model_is_worth_what_its_record_says(recipe):
    """Measured again as stored, in half precision."""
    model, record = load(recipe)
    for part, share in recipe.train.keywords["measure"](model).items():
        assert share == pytest.approx(record[part], abs=0.01)
    assert record["curve"][-1][1] > record["curve"][0][1]


@pytest.mark.slow
@both
def test_a_run_makes_a_model_and_measures_it(recipe, short_run, monkeypatch):
    def few(split):
        known = named({"validation": "validation faces"}.get(split, split))
        return (looked_at(taught_spotter().eyes, chosen(known, list(range(0, 400, 5)))),)

    monkeypatch.setattr(ours, "grids_and_names", few)
    model, record = short_run(replace(recipe, train=partial(recipe.train, data=few)))
    assert record["new_names"] == recipe.train.keywords["measure"](model)["new_names"]
