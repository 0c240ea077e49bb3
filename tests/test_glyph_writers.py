"""recipes/glyph_writers.py: what the stored models that write names are worth, and a short run of each kind."""

import pytest
import torch

from course_lib.data.glyph_names import named
from course_lib.workshop.recipes import glyph_writers as ours
from course_lib.workshop.recipes import stored
from course_lib.workshop.recipes.glyph_captions import chosen, looked_at, taught_spotter


@pytest.mark.full  # the weights are those of their SHA-256; what they are worth, `make test-all` measures again
@pytest.mark.parametrize("name", ours.WRITERS)
def test_a_stored_model_is_worth_what_its_record_says(name):
    """Measured again as stored, in half precision; steps, curve and card belong to it."""
    (model, record), recipe = stored.load(name), ours.WRITERS[name]
    for part, share in recipe.measured(model).items():
        assert share == pytest.approx(record[part], abs=0.01)
    steps, shares = zip(*record["curve"], strict=True)
    assert steps[0] == 0 and steps[-1] == record["steps"] == recipe.steps and shares[-1] > shares[0]
    assert record["weights"] == sum(weight.numel() for weight in model.parameters())
    assert recipe.result(record) in stored.cards()


@pytest.fixture
def few(monkeypatch, tmp_path):
    """Forty letters of each part, whatever is asked for."""

    def images(self, split):
        known = named({"validation": "validation faces"}.get(split, split))
        return (looked_at(taught_spotter().eyes, chosen(known, list(range(0, 400, 5)))),)

    taught_spotter()
    monkeypatch.setattr(ours.WriterRecipe, "images", images)
    threads = torch.get_num_threads()
    yield tmp_path
    torch.set_num_threads(threads)


@pytest.mark.slow
@pytest.mark.parametrize("name", ours.WRITERS)
def test_a_run_makes_a_model_and_measures_it(few, name, monkeypatch):
    model, record = stored.train(name, steps=2, progress=False)
    assert record["steps"] == 2 and [step for step, _ in record["curve"]] == [0, 2]
    assert record["new_names"] == ours.WRITERS[name].measured(model)["new_names"]
    checkpoints = few / "data" / "checkpoints"
    checkpoints.mkdir(parents=True)
    (checkpoints / "names_words.safetensors").write_bytes((stored.CHECKPOINTS / "names_words.safetensors").read_bytes())
    stored.list_checksum(checkpoints / "names_words.safetensors")
    monkeypatch.setattr(stored, "CHECKPOINTS", checkpoints)
    stored.save(name, model, record)
    back, same = stored.load(name)
    assert same == record
    for (key, before), after in zip(model.state_dict().items(), back.state_dict().values(), strict=True):
        torch.testing.assert_close(before.half().float(), after, msg=key)
