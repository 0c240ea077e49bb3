"""The two senses: sentences without slips that a machine can see, no word gives a sense away, the card's numbers."""

import re
from collections import Counter

import datasets
import pytest

from course_lib.data import read_card, senses
from course_lib.data.senses import EACH, SENTENCES, WORDS, rows

# Words that tell nothing of a sense: only these may come in more than one sentence of a word.
SMALL = set(
    """
    a an the of in on at to from for by with and but so as that this it its he she they we i us his her my our them is
    was were are be has have had did does do not no one two there up out down under over into when which what where
    before after until since could would
""".split()
)


def spoken(sentence: str) -> list[str]:
    return re.findall(r"[a-z]+", sentence.lower())


def test_the_checksum_is_pinned():
    assert senses.checksum() == "60d488cb2959f55b4223679869ba04ebd3c4ec9caa334ae228b5a39b493f33d3"


def test_every_word_has_two_senses_of_four_sentences():
    assert len(WORDS) == 12 and len(rows()) == 12 * 2 * EACH
    for word in WORDS:
        found = rows(word)
        first, second = SENTENCES[word]
        assert [row.sense for row in found] == [first] * EACH + [second] * EACH
        assert {row.word for row in found} == {word}
    assert rows() == [row for word in WORDS for row in rows(word)]


def test_the_word_stands_once_in_each_sentence_in_small_letters():
    for row in rows():
        assert spoken(row.sentence).count(row.word) == 1 and row.word in row.sentence
        assert row.sentence == " ".join(row.sentence.split()) and row.sentence[0].isupper()
        assert row.sentence[-1] in ".?" and row.sentence.isascii()
    assert len({row.sentence for row in rows()}) == len(rows())


@pytest.mark.parametrize("word", WORDS)
def test_no_other_word_comes_in_two_sentences_of_a_word_but_small_ones(word):
    counts = Counter(part for row in rows(word) for part in set(spoken(row.sentence)) - SMALL - {word})
    assert not [part for part, n in counts.items() if n > 1]


def test_load_gives_the_rows_as_one_split():
    loaded = senses.load()
    assert isinstance(loaded, datasets.DatasetDict) and list(loaded) == ["test"]
    assert [tuple(row.values()) for row in loaded["test"]] == [tuple(row) for row in rows()]


def test_an_unknown_word_is_refused():
    with pytest.raises(ValueError, match="word must be one of 'bank', .*; got 'pitch'"):
        rows("pitch")


def test_the_card_states_what_the_sentences_are():
    text = " ".join(read_card("senses").split())
    assert "12 words with two senses, 4 sentences for each sense" in text and "96 sentences" in text
    assert f"3 of 7 cases, {3 / 7:.2f}" in text and senses.checksum() in text
    assert "twelve words" in senses.__doc__
