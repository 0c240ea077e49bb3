"""Tokenizers: nothing is lost on the way to numbers and back, and wrong input is refused in words."""

import json
import random

import numpy as np
import pytest
import torch

from course_lib.tokenizers import UNKNOWN, CharTokenizer


def test_by_eye():
    tokenizer = CharTokenizer("hello")
    assert tokenizer.vocab == [UNKNOWN, "e", "h", "l", "o"]
    assert len(tokenizer) == 5
    ids = tokenizer.encode("hole!")
    assert ids.dtype == torch.int64
    assert ids.tolist() == [2, 4, 3, 1, 0]
    assert tokenizer.decode(ids) == "hole" + UNKNOWN


@pytest.mark.parametrize("seed", range(20))
def test_round_trip_on_random_text(seed):
    draw = random.Random(seed)
    alphabet = [chr(draw.randrange(0x110000)) for _ in range(draw.randrange(1, 50))] + ["\n", " ", UNKNOWN]
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
    tokenizer = CharTokenizer(f"a{UNKNOWN}b")
    assert tokenizer.vocab == [UNKNOWN, "a", "b"]
    assert tokenizer.encode(UNKNOWN).tolist() == [0]


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


@pytest.mark.parametrize("wrong, error, message", [
    (torch.tensor([[1, 2]]), ValueError, r"shape \(T,\), but got \(1, 2\)"),
    (torch.tensor(1), ValueError, r"shape \(T,\), but got \(\)"),
    ([0, 3], ValueError, "indices from 0 to 3, but the vocabulary is 0 to 2"),
    ([-1, 1], ValueError, "indices from -1 to 1, but"),
    (torch.tensor([1.0]), TypeError, "whole numbers, not torch.float32"),
    ([True], TypeError, "whole numbers, not torch.bool"),
    ("ab", TypeError, "one row of whole numbers"),
    ([[1], [1, 2]], TypeError, "one row of whole numbers"),
    (7, TypeError, "one row of whole numbers"),
    (None, TypeError, "one row of whole numbers"),
])  # fmt: skip
def test_decode_refuses_in_words(wrong, error, message):
    with pytest.raises(error, match=message):
        CharTokenizer("ab").decode(wrong)


@pytest.mark.parametrize("wrong", [None, 3, b"bytes", ["a", "b"]])
def test_only_strings_are_text(wrong):
    with pytest.raises(TypeError, match=f"CharTokenizer needs a string, not {type(wrong).__name__}"):
        CharTokenizer(wrong)
    with pytest.raises(TypeError, match=f"encode needs a string, not {type(wrong).__name__}"):
        CharTokenizer("ab").encode(wrong)


def test_a_vocabulary_of_nothing_is_refused():
    with pytest.raises(ValueError, match="got an empty text"):
        CharTokenizer("")


@pytest.mark.parametrize("wrong", [
    "", "{", "[]", "3", "null", '"vocab"', "{}", '{"vocab": null}', '{"vocab": 3}', '{"vocab": [1, 2]}',
    None, 3,
])  # fmt: skip
def test_json_of_something_else_is_refused(wrong):
    with pytest.raises(ValueError, match="no CharTokenizer's JSON"):
        CharTokenizer.from_json(wrong)


@pytest.mark.parametrize(
    "vocab", [[UNKNOWN, "b", "a"], ["a", "b"], [UNKNOWN, "a", "a"], [UNKNOWN, "ab"], "ab"]
)
def test_a_changed_vocabulary_is_refused(vocab):
    with pytest.raises(ValueError, match="vocabulary is not one that a CharTokenizer makes"):
        CharTokenizer.from_json(json.dumps({"type": "CharTokenizer", "vocab": vocab}))


def test_another_kind_of_tokenizer_is_refused():
    with pytest.raises(ValueError, match="vocabulary is not one"):
        CharTokenizer.from_json(json.dumps({"type": "BPE", "vocab": [UNKNOWN, "a"]}))
