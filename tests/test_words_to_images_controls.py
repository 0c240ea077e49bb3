"""experiments/words_to_images_controls.py: each control changes what it says, and gives plain numbers."""

import pytest
import torch
from torch.testing import assert_close

from course_lib.vision.patches import patchify
from course_lib.workshop.experiments.words_to_images import controls
from course_lib.workshop.experiments.words_to_images.core import some_of
from course_lib.workshop.recipes.words_to_images import N_CODES, unnamed, vq_vae


def test_an_encoder_at_random_learns_nothing_and_the_rest_does():
    model = vq_vae(0)
    controls.frozen(model, unnamed()[:8]).backward()
    assert all(weight.grad is None for weight in model.encoder.parameters())
    assert model.quantiser.codes.grad.abs().sum() > 0
    assert all(weight.grad is not None for weight in model.decoder.parameters())


def test_the_list_of_patches_has_white_and_63_others():
    patches = controls.patch_list(rounds=2)
    assert patches.shape == (N_CODES, 16) and patches[0].abs().sum() == 0
    assert (patches[1:].amax(dim=1) > 0).all() and 0 <= patches.min() <= patches.max() <= 1


@pytest.mark.slow
def test_patches_are_pasted_in_their_places():
    codes = torch.randint(N_CODES, (3, 64), generator=torch.Generator().manual_seed(0))
    images = controls.pasted_patches(codes)
    assert images.shape == (3, 1, 32, 32)
    assert_close(patchify(images, 4), controls.patch_list()[codes])


def test_learned_names_with_a_mark_are_drawn_once_and_for_all():
    one, other = controls.marked(40), controls.marked(40)
    assert all(row.marks for row in one.rows) and one.rows == other.rows and len(one.images) == len(one.name) == 40


def test_what_is_taken_are_the_letters_at_these_places():
    known = some_of("test", 5)
    some = controls.taken(known, [3, 0])
    assert some.rows == [known.rows[3], known.rows[0]] and torch.equal(some.images, known.images[[3, 0]])


@pytest.mark.parametrize(("start", "revived"), [("vectors", 0), ("random", 1)])
def test_codes_begin_and_are_revived_as_is_said(start, revived, monkeypatch):
    seen = {}

    def coded(model, seed, steps, awake):
        seen.update(awake=awake, codes=model.quantiser.codes.detach().clone())

    monkeypatch.setattr(controls, "coded", coded)
    monkeypatch.setattr(controls, "kept", lambda model: {"used": 1})
    assert controls.dead_codes(0, start=start, revived=revived) == {"used": 1}
    assert seen["awake"] == controls.AWAKE * revived
    assert torch.equal(seen["codes"], vq_vae(0).quantiser.codes) == (start == "vectors")


def test_who_picks_by_another_name_sees_no_name_that_was_asked_for(monkeypatch):
    told = []
    monkeypatch.setattr(controls, "pictures", lambda texts, temperature, seed: some_of("test", 6, 1).images)
    monkeypatch.setattr(controls, "fits", lambda clip, images, texts: told.append(texts) or torch.rand(len(images)))
    found = controls.picks.function(0, several=2, n=6)
    assert found == dict.fromkeys(("CLIP", "CLIP, another name", "one", "one, cooler"), 1.0)
    asked = some_of("test", 6, 1).texts
    assert told[:2] == [asked, asked] and told[2] == told[3] == asked[3:] + asked[:3]


@pytest.mark.slow
def test_patches_drawn_judges_what_is_pasted(monkeypatch):
    """With the true patches written, nearly all letters are still themselves; the GPT alone is left out."""
    monkeypatch.setattr(controls, "written", lambda model, rows: next(rows))
    true = lambda model, texts, temperature, seed: controls.nearest_code(  # noqa: E731
        patchify(some_of("test").images if texts == some_of("test").texts else controls.marked(300).images, 4),
        controls.patch_list(),
    )
    monkeypatch.setattr(controls, "drawn", true)
    found = controls.patches_drawn(0)
    assert found["test"]["right"] > 0.8 and found["train"]["right"] > 0.8
