"""recipes/glyph_matching.py: wrong names, pairs, and a matcher that learns some of them by heart."""

import pytest
import torch

from course_lib.data.glyph_names import learned_names, named
from course_lib.text.pairs import PADDING
from course_lib.workshop.experiments.images_and_words.captions import seen
from course_lib.workshop.recipes import glyph_matching as ours
from course_lib.workshop.recipes.glyph_captions import chosen, learned
from course_lib.workshop.recipes.glyph_names import name_ids


@pytest.fixture(scope="module")
def few():
    """Some letters of the training part, as grids."""
    return chosen(seen("train"), list(range(0, 400, 5)))


@pytest.mark.slow
def test_rivals_are_the_best_of_the_wrong_names(few):
    among = learned_names().nonzero().flatten()
    scores = torch.randn(len(few.own), len(among), generator=torch.Generator().manual_seed(3))
    found = ours.rivals(few, among, scores, 4)
    for n in range(len(few.own)):
        wrong = [at for at in range(len(among)) if not few.right[n, among[at]]]
        best = sorted(wrong, key=lambda at: -float(scores[n, at]))[:4]
        assert found[n].tolist() == [int(among[at]) for at in best]


def test_no_rival_is_right_even_where_every_right_name_scores_best(few):
    among = learned_names().nonzero().flatten()
    found = ours.rivals(few, among, few.right[:, among].float(), 10)
    assert not few.right.gather(1, found).any()


def test_a_batch_holds_each_image_with_its_own_name_and_with_a_wrong_one(few):
    among = learned_names().nonzero().flatten()
    wrong = ours.rivals(few, among, torch.zeros(len(few.own), len(among)), 3)
    data = ours.pairs(few, wrong, 8, seed=5)
    kinds = set()
    for _ in range(6):
        images, ids, mask, fits = next(data)
        assert images.shape == (16, 64, 8, 8) and ids.shape == mask.shape and fits.tolist() == [1.0] * 8 + [0.0] * 8
        assert (images[:8] == images[8:]).all() and (mask == (ids != PADDING)).all()
        for image, own, other in zip(images[:8], ids[:8], ids[8:], strict=True):
            n = next(
                n for n, one in enumerate(few.images) if (one == image).all() and (name_ids()[few.own[n]] == own).all()
            )
            place = [int(at) for at in wrong[n] if (name_ids()[at] == other).all()]
            assert place
            kinds.add((n, place[0]))
    assert len({other for _, other in kinds}) > 1


@pytest.mark.slow
def test_it_learns_a_few_pairs_by_heart_and_tells_them(few):
    torch.manual_seed(0)
    some = chosen(few, list(range(16)))
    wrong = some.own.roll(3)[:, None]
    assert not some.right.gather(1, wrong).any()
    model, history = learned(ours.Matcher(), ours.pairs(some, wrong, 16), ours.match_loss, steps=60, lr=ours.RATE)
    own, other = (ours.matched(model, some.images, places) for places in (some.own[:, None], wrong))
    assert own.shape == (16, 1) and (own > other).double().mean() == 1.0
    assert ours.match_loss(ours.Matcher(), next(ours.pairs(some, wrong, 16))) > 0.5  # an untrained one guesses


def test_matched_does_not_depend_on_what_stands_beside(few):
    torch.manual_seed(0)
    model = ours.Matcher()
    places = torch.stack([few.own, few.own.roll(1)], dim=1)
    together = ours.matched(model, few.images, places)
    alone = torch.cat([ours.matched(model, few.images[n : n + 1], places[n : n + 1]) for n in range(5)])
    torch.testing.assert_close(together[:5], alone, atol=1e-5, rtol=1e-5)
    assert named("train").right.shape[1] == few.right.shape[1]
