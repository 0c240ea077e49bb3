"""Tokenizers: nothing is lost on the way to numbers and back, and wrong input is refused in words."""

import json
import random

import numpy as np
import pytest
import torch

from course_lib.data import SPLITS, dates
from course_lib.text.tokenizers import UNKNOWN_MARK, WORD_SPECIALS, CharTokenizer, WordTokenizer, words


def test_by_eye():
    tokenizer = CharTokenizer("hello")
    assert tokenizer.vocab == [UNKNOWN_MARK, "e", "h", "l", "o"]
    assert len(tokenizer) == 5
    ids = tokenizer.encode("hole!")
    assert ids.dtype == torch.int64
    assert ids.tolist() == [2, 4, 3, 1, 0]
    assert tokenizer.decode(ids) == "hole" + UNKNOWN_MARK


@pytest.mark.parametrize("seed", range(20))
def test_round_trip_on_random_text(seed):
    draw = random.Random(seed)
    codes = [draw.choice((draw.randrange(0xD800), draw.randrange(0xE000, 0x110000))) for _ in range(50)]
    alphabet = [*map(chr, codes[: draw.randrange(1, 50)]), "\n", " ", UNKNOWN_MARK]
    text = "".join(draw.choices(alphabet, k=draw.randrange(1, 500)))
    tokenizer = CharTokenizer(text)
    ids = tokenizer.encode(text)
    assert ids.shape == (len(text),) and ids.max() < len(tokenizer)
    assert tokenizer.decode(ids) == tokenizer.decode(ids.tolist()) == text
    again = CharTokenizer.from_json(tokenizer.to_json())
    assert again.vocab == tokenizer.vocab
    assert torch.equal(again.encode(text), ids)


def test_the_order_of_the_text_does_not_matter():
    assert CharTokenizer("abcabc").vocab == CharTokenizer("cba").vocab


def test_the_unknown_mark_in_the_text_keeps_index_zero():
    tokenizer = CharTokenizer(f"a{UNKNOWN_MARK}b")
    assert tokenizer.vocab == [UNKNOWN_MARK, "a", "b"]
    assert tokenizer.encode(UNKNOWN_MARK).tolist() == [0]


def test_an_empty_text_encodes_to_nothing_and_back():
    tokenizer = CharTokenizer("ab")
    ids = tokenizer.encode("")
    assert ids.shape == (0,) and ids.dtype == torch.int64
    assert tokenizer.decode(ids) == tokenizer.decode([]) == ""


def test_decode_takes_numpy_and_small_integers():
    tokenizer = CharTokenizer("ab")
    assert tokenizer.decode(np.array([1, 2])) == "ab"
    assert tokenizer.decode(torch.tensor([2, 1], dtype=torch.int32)) == "ba"
    assert tokenizer.decode(int(i) for i in "12") == "ab"


@pytest.mark.parametrize(
    "wrong, error, message",
    [
        (torch.tensor([[1, 2]]), ValueError, r"shape \(T,\), but got \(1, 2\)"),
        ([0, 3], ValueError, "indices from 0 to 3, but the vocabulary is 0 to 2"),
        ([-1, 1], ValueError, "indices from -1 to 1, but"),
        (torch.tensor([1.0]), TypeError, "whole numbers, not torch.float32"),
    ],
)
def test_decode_refuses_in_words(wrong, error, message):
    with pytest.raises(error, match=message):
        CharTokenizer("ab").decode(wrong)


def test_half_a_character_is_refused_in_words():
    """Two halves of a pair in one token would come back from JSON as one character, and no text file holds either."""
    for half in ("a\ud83d", "\ude00", "\ud83d\ude00"):
        for read in (
            CharTokenizer,
            CharTokenizer("ab").encode,
            words,
            lambda text: WordTokenizer([text]),
            lambda text: WordTokenizer([[text]]),
            lambda text: WordTokenizer([text], characters=True),
            WordTokenizer(["a b"]).encode,
        ):
            with pytest.raises(ValueError, match=r"half a character, U\+D[8E][03][0D], which no file can hold: read"):
                read(half)
    whole = "\U0001f600 \U0010ffff"
    assert CharTokenizer(whole).decode(CharTokenizer(whole).encode(whole)) == whole


def test_only_strings_are_text():
    with pytest.raises(TypeError, match="CharTokenizer needs a string, not list"):
        CharTokenizer(["a", "b"])


def test_a_vocabulary_of_nothing_is_refused():
    with pytest.raises(ValueError, match="got an empty text"):
        CharTokenizer("")


@pytest.mark.parametrize("wrong", [
    "", "[]", '{"vocab": [1, 2]}', "[" * 100_000,
])  # fmt: skip
def test_json_of_something_else_is_refused(wrong):
    with pytest.raises(ValueError, match="no CharTokenizer's JSON"):
        CharTokenizer.from_json(wrong)


@pytest.mark.parametrize(
    "vocab", [[UNKNOWN_MARK, "b", "a"], ["a", "b"], [UNKNOWN_MARK, "a", "a"], [UNKNOWN_MARK, "ab"], "ab"]
)
def test_a_changed_vocabulary_is_refused(vocab):
    with pytest.raises(ValueError, match="vocabulary is not one that a CharTokenizer makes"):
        CharTokenizer.from_json(json.dumps({"type": "CharTokenizer", "vocab": vocab}))


def test_another_kind_of_tokenizer_is_refused():
    with pytest.raises(ValueError, match="vocabulary is not one"):
        CharTokenizer.from_json(json.dumps({"type": "BPE", "vocab": [UNKNOWN_MARK, "a"]}))


# Words, and characters, for translation

SENTENCES = [["le", "chat", "noir", "."], ["le", "chien", "-", "loup", "!"], ["l'eau"]]


def test_words_by_eye():
    tokenizer = WordTokenizer(SENTENCES)
    assert tokenizer.vocab == [*WORD_SPECIALS, "!", "-", ".", "chat", "chien", "l'eau", "le", "loup", "noir"]
    assert (tokenizer.padding, tokenizer.start, tokenizer.end, tokenizer.unknown) == (0, 1, 2, 3)
    assert [tokenizer.vocab[i] for i in range(4)] == ["<padding>", "<start>", "<end>", "<unknown>"]
    ids = tokenizer.encode("le loup, noir!", start=True, end=True)
    assert ids.dtype == torch.int64 and ids.tolist() == [1, 10, 11, 3, 12, 4, 2]
    assert tokenizer.decode(ids) == ["le", "loup", "<unknown>", "noir", "!"]
    assert tokenizer.encode(["le", "chat"]).tolist() == [10, 7]
    assert len(tokenizer) == 13


def test_characters_by_eye():
    tokenizer = WordTokenizer(["日本", "本 月"], characters=True)
    assert tokenizer.vocab == [*WORD_SPECIALS, " ", "日", "月", "本"]
    assert tokenizer.encode("日月 火", end=True).tolist() == [5, 6, 4, 3, 2]
    assert "".join(tokenizer.decode([1, 5, 6, 4, 7, 2, 0])) == "日月 本"


@pytest.mark.parametrize("text, expected", [
    ("Thursday, August 13, 1992.", ["Thursday", ",", "August", "13", ",", "1992", "."]),
    ("aujourd'hui, peut-être (l\u2019eau)!", ["aujourd'hui", ",", "peut-être", "(", "l\u2019eau", ")", "!"]),
    ("गुरुवार, 13 अगस्त", ["गुरुवार", ",", "13", "अगस्त"]),
    ("الخميس، ١٣\u200f أغسطس", ["الخميس", "،", "١٣", "أغسطس"]),
    ("a\u00a0b\u202fc\td\ne", ["a", "b", "c", "d", "e"]),
    ("2+2=4 €", ["2", "+", "2", "=", "4", "€"]),
    ("", []),
    (" \u200f ", []),
])  # fmt: skip
def test_words_and_marks_in_any_script(text, expected):
    assert words(text) == expected


@pytest.mark.parametrize("code", "en fr de es pt_BR hu ru sw vi hi tr fa".split())
def test_a_typed_date_is_cut_as_the_corpus_is(code):
    for row in dates.load(code, code, sizes=dict.fromkeys(SPLITS, 20))["train"]:
        assert words(row["source"]) == row["source_tokens"]


@pytest.mark.parametrize("seed", range(10))
def test_a_batch_is_the_sentences_padded(seed):
    draw = random.Random(seed)
    sentences = [draw.choices("abcdef", k=draw.randrange(9)) for _ in range(draw.randrange(1, 9))] + [["a"]]
    tokenizer = WordTokenizer(sentences)
    start, end = draw.choice([True, False]), draw.choice([True, False])
    ids, mask = tokenizer.batch(sentences, start, end)
    longest = max(map(len, sentences)) + start + end
    assert ids.shape == mask.shape == (len(sentences), longest)
    assert ids.dtype == torch.int64 and mask.dtype == torch.bool
    for row, real, sentence in zip(ids, mask, sentences, strict=True):
        assert torch.equal(row[real], tokenizer.encode(sentence, start, end))
        assert real.tolist() == [True] * int(real.sum()) + [False] * int((~real).sum())
        assert (row[~real] == tokenizer.padding).all()
        assert tokenizer.decode(row) == sentence


def test_the_same_tokens_give_the_same_vocabulary_through_json_too():
    tokenizer = WordTokenizer(SENTENCES)
    assert tokenizer.vocab == WordTokenizer(reversed(SENTENCES * 2)).vocab
    for made in (tokenizer, WordTokenizer(["abc"], characters=True)):
        again = WordTokenizer.from_json(made.to_json())
        assert again.vocab == made.vocab and again.characters is made.characters
        assert torch.equal(again.encode("le chat cab"), made.encode("le chat cab"))


def test_a_rare_token_stays_unknown():
    tokenizer = WordTokenizer(["a b a", "b c"], min_count=2)
    assert tokenizer.vocab == [*WORD_SPECIALS, "a", "b"]
    assert tokenizer.encode("c a").tolist() == [3, 4]


def test_a_special_spelt_out_in_a_sentence_is_no_special():
    tokenizer = WordTokenizer([["a", "<end>", "<padding>"]])
    assert tokenizer.vocab == [*WORD_SPECIALS, "a"]
    assert tokenizer.encode(["<end>", "a", "<padding>"]).tolist() == [3, 4, 3]


def test_what_comes_after_the_end_is_not_decoded():
    tokenizer = WordTokenizer(["a b"])
    assert tokenizer.decode(torch.tensor([1, 4, 2, 5, 2, 0])) == ["a"]
    assert tokenizer.decode([2, 4]) == tokenizer.decode([0, 0]) == tokenizer.decode([]) == []


def test_an_empty_or_an_unknown_sentence_is_encoded():
    tokenizer = WordTokenizer(["a b"])
    assert tokenizer.encode("").shape == tokenizer.encode([]).shape == (0,)
    assert tokenizer.encode("", start=True, end=True).tolist() == [1, 2]
    assert tokenizer.encode("x y z").tolist() == [3, 3, 3]
    ids, mask = tokenizer.batch(["", "a"])
    assert ids.tolist() == [[0], [4]] and mask.tolist() == [[False], [True]]


def test_only_strings_and_lists_of_tokens_are_sentences():
    with pytest.raises(TypeError, match="a list of tokens, not bytes"):
        WordTokenizer(["a"]).encode(b"a")


def test_one_string_is_not_many_sentences():
    with pytest.raises(TypeError, match="WordTokenizer needs a list of sentences, not one string"):
        WordTokenizer("a b")
    with pytest.raises(TypeError, match="batch needs a list of sentences, not one string"):
        WordTokenizer(["a b"]).batch("a b")


def test_no_sentence_at_all_is_refused():
    for nothing in ([], [""], [[]], [["<end>"]]):
        with pytest.raises(ValueError, match="found no token that occurs 1 times"):
            WordTokenizer(nothing)
    with pytest.raises(ValueError, match="batch got no sentence"):
        WordTokenizer(["a"]).batch([])


@pytest.mark.parametrize(
    "wrong, error, message",
    [
        ([0, 5], ValueError, "indices from 0 to 5, but the vocabulary is 0 to 4"),
        (torch.tensor([1.0]), TypeError, "whole numbers, not torch.float32"),
    ],
)
def test_decode_of_words_refuses_in_words(wrong, error, message):
    with pytest.raises(error, match=message):
        WordTokenizer(["a"]).decode(wrong)


@pytest.mark.parametrize("wrong", [
    "", "[]", "[" * 100_000, CharTokenizer("ab").to_json(),
    '{"type": "WordTokenizer", "characters": false, "vocab": [1]}',
    '{"type": "WordTokenizer", "characters": false, "vocab": ["<padding>", "<start>", "<end>", "<unknown>"]}',
])  # fmt: skip
def test_json_of_no_word_tokenizer_is_refused(wrong):
    with pytest.raises(ValueError, match="no WordTokenizer's JSON"):
        WordTokenizer.from_json(wrong)


@pytest.mark.parametrize("change", [
    {"vocab": [*WORD_SPECIALS, "b", "a"]}, {"vocab": ["a", "b"]}, {"vocab": [*WORD_SPECIALS, "a", "a"]},
    {"type": "CharTokenizer"}, {"characters": 1}, {"vocab": "ab"},
])  # fmt: skip
def test_a_changed_word_vocabulary_is_refused(change):
    saved = json.loads(WordTokenizer(["a b"]).to_json()) | change
    with pytest.raises(ValueError, match="vocabulary is not one that a WordTokenizer makes"):
        WordTokenizer.from_json(json.dumps(saved))
