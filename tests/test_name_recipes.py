"""recipes/glyph_names.py: words and ids of names, sizes, losses, the optimiser, shares by hand; a few steps help."""

import pytest
import torch
from torch.testing import assert_close

from course_lib.data.glyph_names import batches, named, names
from course_lib.multimodal.contrastive import contrastive_loss
from course_lib.workshop.recipes.glyph_names import (
    BATCH,
    WIDTH,
    candidates,
    clip,
    clip_loss,
    features,
    image_tower,
    learned,
    muon,
    name_ids,
    scored,
    share_right,
    text_tower,
    tokenizer,
)


def made(make):
    torch.manual_seed(0)
    return make()


def test_every_name_is_written_in_known_words():
    """tokenizer, name_ids: start, words, end, padding; a new name has no unknown word."""
    ids = name_ids()
    assert len(ids) == len(names())
    place = names().index("LATIN SMALL LETTER E WITH CIRCUMFLEX AND ACUTE")
    words = ["<start>", "LATIN", "SMALL", "LETTER", "E", "WITH", "CIRCUMFLEX", "AND", "ACUTE", "<end>"]
    assert [tokenizer().vocab[i] for i in ids[place].tolist()][: len(words)] == words
    assert ((ids == tokenizer().end).sum(dim=1) == 1).all()
    for part in ("train", "new names", "validation names"):
        assert not (ids[named(part).own] == tokenizer().unknown).any(), part


def test_towers_meet_in_one_width():
    images, texts = made(image_tower)(torch.rand(3, 1, 32, 32)), made(text_tower)(name_ids()[:2])
    assert images.shape == (3, WIDTH) and texts.shape == (2, WIDTH)


def test_the_loss_is_the_librarys_with_the_tables_targets():
    """clip_loss: right ones as the batch says, or the diagonal alone."""
    model, batch = made(clip), next(batches(named("train"), 40))
    images, own, right = batch
    scores = model(images, name_ids()[own])
    assert_close(clip_loss(model, batch), contrastive_loss(scores, right))
    alone = clip_loss(model, batch, index=True)
    assert_close(alone, contrastive_loss(scores, torch.eye(40, dtype=torch.bool)))
    if right.sum() > 40:
        assert not torch.isclose(alone, clip_loss(model, batch))


def test_the_optimiser_has_every_weight_once():
    """muon: matrices of the text's blocks and windows but the first; the rest at a share of the rate."""
    model = made(clip)
    matrices, rest = (group["params"] for group in muon(model).param_groups)
    assert sorted(map(id, matrices + rest)) == sorted(map(id, model.parameters()))
    assert sum(weight.ndim == 4 for weight in matrices) == 5
    assert any(weight is model.log_scale for weight in rest)


def test_features_do_not_depend_on_how_images_are_parted():
    model, images = made(clip), named("validation both").images[:7]
    assert_close(features(model, "image", images, at_once=3), model.eval().image_features(images).detach())


def test_shares_are_those_counted_by_hand():
    """share_right, scored, candidates: the best name of each image, and whether it is one of its own."""
    model, known = made(clip), named("validation both")
    among = candidates(known)
    assert {names()[v] for v in among.tolist()} == {row.name for row in known.rows} | {
        other for row in known.rows for other in row.alike if other in names()
    }
    table = scored(model, known, among)
    assert table.shape == (len(known.own), len(among)) and table.abs().max() <= 1 + 1e-5
    best = [among[row.argmax()].item() for row in table]
    right = [known.right[n, v].item() for n, v in enumerate(best)]
    assert share_right(model, known) == pytest.approx(sum(right) / len(right))
    assert share_right(model, known, k=len(among)) == 1


@pytest.mark.slow
def test_a_few_steps_help():
    """learned: after 12 steps the loss of the batch that it learned from is lower than that of a model that guesses."""
    batch = next(batches(named("train"), BATCH))
    model, history = learned(made(clip), iter([batch] * 12), clip_loss, 12)
    assert history.loss[-1] < 0.8 * history.loss[0]
