"""data/glyph_names.py: every right name counts, no name or face is where it must not be; the batches."""

import pytest
import torch

from course_lib.data import glyphs
from course_lib.data.glyph_names import PARTS, Named, batches, hits, learned_names, named, names


@pytest.mark.slow
@pytest.mark.parametrize("part", PARTS)
def test_a_part_holds_what_its_splits_say(part):
    """named, names: own is the row's name, right are all names of equal images in the face."""
    known, (faces, side) = named(part), PARTS[part]
    assert known.images.shape == (len(known.rows), 1, 32, 32) and known.right.shape == (len(known.rows), len(names()))
    for n, row in enumerate(known.rows):
        assert row.face in glyphs.FACES[faces] and glyphs.name_split(row.name) == side
        assert names()[known.own[n]] == row.name and known.right[n, known.own[n]]
        assert {names()[v] for v in known.right[n].nonzero().flatten().tolist()} == {
            name for name in (row.name, *row.alike) if name in names()
        }


@pytest.mark.parametrize("part", [part for part in PARTS if part != "train"])
def test_no_image_is_judged_twice(part):
    known = named(part)
    assert len(known.images.flatten(1).unique(dim=0)) == len(known.images)


def test_new_names_are_new_and_their_equal_images_too():
    """learned_names: of what is new no right name was learned; where only faces are new, one at least."""
    for part in PARTS:
        learned = (named(part).right & learned_names()).any(dim=1)
        assert learned.all() if PARTS[part][1] == "train" else not learned.any(), part


def test_a_batch_knows_equal_names_and_equal_images():
    """batches: right[i, j] says whether name j is right for image i."""
    known = named("train")
    images, own, right = next(batches(known, 500, seed=3))
    assert images.shape == (500, 1, 32, 32) and right.diagonal().all()
    same_name = own[:, None] == own
    assert (right | ~same_name).all(), "another face's image of the same name has that name"
    rows = torch.randperm(len(known.own), generator=torch.Generator().manual_seed(3))[:500].tolist()
    for i, j in (right & ~same_name).nonzero().tolist():
        assert names()[own[j]] in known.rows[rows[i]].alike
    assert (right & ~same_name).any()


def test_a_round_of_batches_shows_each_row_once():
    known = named("validation both")
    stream = batches(known, 10)
    seen = torch.cat([next(stream)[0] for _ in range(len(known.own) // 10)])
    assert len(seen.flatten(1).unique(dim=0)) == len(known.own) // 10 * 10


def test_hits():
    """hits: among the k best."""
    scores = torch.tensor([[3.0, 1, 2], [0, 1, 2]])
    right = torch.tensor([[False, False, True], [False, False, True]])
    assert hits(scores, right).tolist() == [False, True]
    assert hits(scores, right, 2).tolist() == [True, True]
    assert hits(scores, ~right, 9).tolist() == [True, True]


def test_bad_input_is_refused_in_words():
    with pytest.raises(ValueError, match="'train', 'new names'.*got 'test'"):
        named("test")
    known = Named(torch.zeros(3, 1, 32, 32), torch.arange(3), torch.eye(3, dtype=torch.bool), [])
    for batch in (0, 4):
        with pytest.raises(ValueError, match=f"1 to 3 of these rows; got {batch}"):
            next(batches(known, batch))
