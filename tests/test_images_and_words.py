"""Lesson 11's experiments: towers that know order or not, pairs in a batch, rivals' scores by hand, what is asked."""

from functools import partial

import pytest
import torch
from torch.testing import assert_close

from course_lib.data.glyph_names import Named, learned_names, named, names
from course_lib.data.glyphs import parts_of
from course_lib.workshop.experiments.images_and_words import core as main
from course_lib.workshop.experiments.images_and_words import laboratory
from course_lib.workshop.recipes.glyph_names import candidates, clip, features, image_tower, name_ids, tokenizer


def made(make):
    torch.manual_seed(0)
    return make().eval()


def ids(*texts):
    return tokenizer().batch(texts, start=True, end=True)[0]


def some(part="validation both", n=12) -> Named:
    known = named(part)
    return Named(known.images[:n], known.own[:n], known.right[:n], known.rows[:n])


@pytest.mark.parametrize("tower", [main.BagTower, main.RecurrentTower])
def test_a_tower_sees_no_padding(tower):
    model = made(tower)
    short, long = ids("LATIN SMALL LETTER A"), ids("LATIN SMALL LETTER A", "LATIN SMALL LETTER A WITH ACUTE")
    assert_close(model(short)[0], model(long)[0])


def test_a_bag_knows_no_order_and_a_recurrent_tower_does():
    one, other = ids("LATIN SMALL LETTER A", "SMALL LETTER LATIN A")
    bag, recurrent = made(main.BagTower), made(main.RecurrentTower)
    assert_close(bag(one[None]), bag(other[None]))
    assert not torch.allclose(recurrent(one[None]), recurrent(other[None]))


def test_changes_change_what_they_say():
    """changed: the scale learned or not, the towers, features of their own length; as many weights, within a tenth."""
    plain = main.counted(made(clip))
    for change in main.CHANGES:
        model = made(partial(main.changed, change))
        fixed = change.startswith("temperature")
        assert model.log_scale.requires_grad is not fixed, change
        assert main.counted(model) / plain == pytest.approx(1, abs=0.1), change
    assert made(partial(main.changed, "temperature 1")).log_scale.item() == 0
    raw, images = made(partial(main.changed, "not normalised")), torch.rand(2, 1, 32, 32)
    assert_close(raw.image_features(images), raw.image(images))
    assert not torch.allclose(raw.image_features(images).norm(dim=1), torch.ones(2))
    texts = ids("LATIN SMALL LETTER A")
    assert_close(raw(images, texts), raw.image(images) @ raw.text(texts).T)


def test_in_groups_each_chooses_among_its_own_group_alone():
    """grouped_loss."""
    known, model = some("train", 16), made(clip)
    batch = known.images, known.own, known.right[:, known.own]
    assert_close(main.grouped_loss(model, batch, 16), main.clip_loss(model, batch))
    halves = [main.clip_loss(model, (known.images[at], known.own[at], known.right[at][:, known.own[at]]))
              for at in (slice(0, 8), slice(8, 16))]  # fmt: skip
    assert_close(main.grouped_loss(model, batch, 8), sum(halves) / 2)


def test_words_are_those_of_the_name():
    """word_table: no specials; a sum of logits is the score of a name."""
    table = main.word_table()
    for place in (0, len(names()) // 2):
        words = {tokenizer().vocab[w] for w in table[place].nonzero().flatten().tolist()}
        assert words == set(tokenizer().split(names()[place]))
    known, model = some(), made(partial(image_tower, len(tokenizer())))
    among = candidates(known)
    logits = model(known.images).detach()
    by_hand = [[sum(logits[n, w] for w in table[v].nonzero().flatten()) for v in among] for n in range(3)]
    assert_close(main.words_scored(model, known, among)[:3], torch.tensor(by_hand), atol=1e-4, rtol=1e-4)


def test_the_nearest_images_name_decides():
    """nearest_scored: an image that was learned is its own nearest, and its own name scores best of all: F1 is 1."""
    known = some("train", 20)
    scores = main.nearest_scored(known, torch.arange(len(names())), 1)
    best = scores.argmax(dim=1)
    assert_close(scores.max(dim=1).values, torch.ones(20))
    assert all(known.right[n, v] for n, v in enumerate(best.tolist()))


def test_what_is_told_rightly_is_counted_by_parts():
    """told_rightly: script, case, letter, marks of the answer and of a right name."""
    known = some()
    assert set(laboratory.told_rightly(known, known.own).values()) == {1.0}
    place = {parts_of(name): n for n, name in enumerate(names())}
    script, case, letter, marks = parts_of(names()[known.own[0]])
    bare = torch.tensor([place[script, case, letter, ()]])
    one = Named(known.images[:1], known.own[:1], known.right[:1], known.rows[:1])
    assert laboratory.told_rightly(one, bare) == {"script": 1, "case": 1, "letter": 1, "marks": 0, "all": 0}


def test_words_out_of_order_are_the_same_words():
    """shuffled_words: start, end and padding stay."""
    plain, mixed = name_ids(), laboratory.shuffled_words()
    assert plain.sort(dim=1).values.equal(mixed.sort(dim=1).values) and not plain.equal(mixed)
    for special in (tokenizer().start, tokenizer().end, tokenizer().padding):
        assert (plain == special).equal(mixed == special)


def test_classes_of_names_are_what_the_names_say():
    for task, classes in laboratory.TASKS.items():
        table = laboratory.class_of_names(task)
        assert (table.sum(dim=1) == 1).all()
        for name, row in list(zip(names(), table, strict=True))[::97]:
            assert classes[int(row.argmax())] in name.split()


@pytest.mark.slow
def test_each_way_to_tell_a_class_scores_every_class():
    """ways, prompted: of every image, finite; the best name's class is one class; prompts are of length 1."""
    model, known = made(clip), some()
    x = features(model, "image", known.images)
    for task, classes in laboratory.TASKS.items():
        for text in laboratory.prompted(model, task).values():
            assert text.shape == (len(classes), x.shape[1])
            assert_close(text.norm(dim=1), torch.ones(len(classes)))
        for name, way in laboratory.ways(model, task).items():
            scores = way(x)
            assert scores.shape == (len(x), len(classes)) and scores.isfinite().all(), name
    best = laboratory.ways(model, "case")["best name"](x)
    assert best.sum(dim=1).tolist() == [1.0] * len(x)


@pytest.mark.slow
def test_pictures_of_two_letters_hold_both():
    """two_in_one, labelled, narrow: with a model that is asked nothing, the numbers are shares and the counts hold."""
    model = made(clip)
    known = named("new faces")
    wide = (known.images[laboratory.narrow(known)].amax(dim=(1, 2)) > 0).sum(1)
    assert wide.max() <= 14
    for found in (laboratory.two_in_one(model), laboratory.labelled(model)):
        shares = [value for name, value in found.items() if name != "pictures"]
        assert all(0 <= value <= 1 for value in shares)
        if "pictures" in found:
            assert found["pictures"] == len(wide) > 500
            assert found["both, left, 5"] >= found["both, left, 1"]


def test_chance_is_one_through_the_number_of_names_at_least():
    found = main.chance(0)
    assert found["learned"] == int(learned_names().sum()) and found["names"] == len(names())
    assert 1 / found["new"] <= found["new names"] < 3 / found["new"]
    assert 1 / found["names"] <= found["all"] < 3 / found["names"]
