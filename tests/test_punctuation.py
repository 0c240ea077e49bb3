"""data/punctuation.py: words and the mark behind each, by examples; speeches of the plays; bad input."""

import pytest

from course_lib.data import SPLITS, plays
from course_lib.data.punctuation import LONGEST, MARKS, SHORTEST, Row, rows, with_marks, without_marks

# --- a text without its marks


@pytest.mark.parametrize(
    ("text", "words", "marks"),
    [
        ("To be, or not to be.", "to be or not to be", ["", ",", "", "", "", "."]),
        ("Who? Me!", "who me", ["?", "!"]),
        ("Stay: hear; go", "stay hear go", [":", ";", ""]),
        ("What?! No... no.,;", "what no no", ["?", ".", "."]),  # of several the first
        ("What ?", "what", ["?"]),  # a space before it
        (", . ! Well", "well", [""]),  # marks before the first word
        ("HAMLET ENTERS", "hamlet enters", ["", ""]),
        ("I know't; 'tis John's, o'er th' hill", "i know't tis john's o'er th' hill", ["", ";", "", ",", "", "", ""]),
        ("the lords’ men’s", "the lords’ men’s", ["", "", ""]),
        ("well-known - yes -- no", "well-known yes no", ["", "", ""]),  # a dash is no mark
        ("He goes—he stays", "he goes he stays", ["", "", "", ""]),
        ("Über Ænone, naïve", "über ænone naïve", ["", ",", ""]),
        ("Act 2, scene 10.", "act 2 scene 10", ["", ",", "", "."]),
        ('"Good," he said (so) [there] _here_', "good he said so there here", [",", "", "", "", "", ""]),
        ("one\n\ntwo,\tthree", "one two three", ["", ",", ""]),
        ("a", "a", [""]),
        ("¿Qué? 你好。", "qué 你好", ["?", ""]),  # a full stop of another script is no mark
        ("", "", []),
        (" \n", "", []),
        ("?!.,", "", []),
        ("--- ' ’ … €", "", []),
    ],
)
def test_words_and_marks_by_examples(text, words, marks):
    """without_marks: several marks, marks first, dashes, apostrophes, capitals, nothing at all."""
    assert without_marks(text) == Row(words.split(), marks)


def test_each_word_has_one_mark_of_those_listed():
    """Row, MARKS: for every speech of the test plays as it stands, directions and all."""
    for row in plays.rows("test")[:2000]:
        found = without_marks(row.text)
        assert len(found.words) == len(found.marks) and {*found.marks} <= {*MARKS}
        assert all(word and word == word.lower() and not {*word} & {*",.;:?! "} for word in found.words)
    assert MARKS[0] == "" and len({*MARKS}) == len(MARKS) == 7


# --- and with them again


@pytest.mark.parametrize("text", ["", "a", "to be, or not to be.", "who? me! o'er: th' well-known; 2"])
def test_a_clean_text_is_what_it_was(text):
    """with_marks: of what `without_marks` gave, for a text in small letters with one mark behind a word at most."""
    assert with_marks(*without_marks(text)) == text


def test_what_was_put_together_is_found_again():
    """with_marks, without_marks: for every speech of a split, and for any marks behind its words."""
    for row in rows("validation"):
        assert without_marks(with_marks(*row)) == row
        marks = [MARKS[len(word) % len(MARKS)] for word in row.words]
        assert without_marks(with_marks(row.words, marks)) == (row.words, marks)


# --- the speeches


@pytest.mark.slow
@pytest.mark.parametrize("split", SPLITS)
def test_speeches_are_of_their_lengths(split):
    """rows: from `SHORTEST` to `LONGEST` words, a mark for each; no direction, no bracket; a list of one's own."""
    found = rows(split)
    assert found and isinstance(found[0], Row)
    assert min(len(row.words) for row in found) == SHORTEST and max(len(row.words) for row in found) == LONGEST
    assert all(len(row.words) == len(row.marks) and {*row.marks} <= {*MARKS} for row in found)
    found.clear()
    assert rows(split) == rows(split) != []


@pytest.mark.slow
@pytest.mark.parametrize("split", SPLITS)
def test_they_are_the_speeches_of_the_plays_in_reading_order(split):
    """rows: beside a reading that is written out; so the scenes of the splits are those of the plays, none in two."""
    expected = []
    for row in plays.rows(split):
        if not row.speaker:
            continue
        first, *others = row.text.split("[")
        spoken = first + " ".join(["", *(part.partition("]")[2] for part in others)])
        whole = without_marks(spoken)
        if len(whole.words) >= SHORTEST:
            expected.append((whole.words[:LONGEST], whole.marks[:LONGEST]))
    found = rows(split)
    assert len(found) == len(expected)
    assert [one for one, other in zip(found, expected, strict=True) if one != other] == []


def test_no_whole_speech_stands_in_two_splits():
    """rows: a speech of `LONGEST` words that is in train is in no other split."""
    train, validation, test = ({tuple(row.words) for row in rows(split) if len(row.words) == LONGEST}
                               for split in SPLITS)  # fmt: skip
    assert not train & validation and not train & test and not validation & test


def test_every_mark_is_there_and_many_words_have_none():
    for split in SPLITS:
        marks = [mark for row in rows(split) for mark in row.marks]
        assert {*marks} == {*MARKS} and marks.count("") > len(marks) / 2


# --- bad input


@pytest.mark.parametrize(
    ("wrong", "error", "words"),
    [
        (lambda: rows("training"), ValueError, "'train', 'validation' or 'test', not 'training'"),
        (lambda: rows(""), ValueError, "not ''"),
        (lambda: rows(3), ValueError, "not 3"),
        (lambda: rows(None), ValueError, "not None"),
        (lambda: without_marks(None), TypeError, "A text is a string; got NoneType"),
        (lambda: without_marks(b"to be"), TypeError, "got bytes"),
        (lambda: without_marks(["to be"]), TypeError, "got list"),
        (lambda: with_marks(["to", "be"], [","]), ValueError, "2 words and 1 marks: one each, an empty one for none"),
        (lambda: with_marks([], [""]), ValueError, "0 words and 1 marks"),
    ],
)
def test_bad_input_is_refused_in_words(wrong, error, words):
    with pytest.raises(error, match=words):
        wrong()
