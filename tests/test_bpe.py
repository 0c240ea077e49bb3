"""Byte-pair encoding: the same merges and tokens as Hugging Face's, any text survives, no text forges a special."""

import copy
import json
import pickle
import random
import unicodedata
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from course_lib.data import plays
from course_lib.text.bpe import BPE, BYTE, SYMBOL, apply_merges, cut, learn_merges, merge, pair_counts
from course_lib.text.tokenizers import UNKNOWN_MARK, CharTokenizer, WordCache
from course_lib.text.unigram import Unigram
from course_lib.text.wordpiece import WordPiece

GPT2 = r"""'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""
END = "<|endoftext|>"
LINES = "low low low low low lower lower newest newest newest newest newest newest widest widest widest"
ODD = {
    "empty": "",
    "one character": "a",
    "one space": " ",
    "emoji": "😀 👩‍👩‍👧 🇫🇷 a😀b",
    "Thai": "สวัสดีชาวโลก ก่อนเที่ยง ๑๒๓",
    "control characters": "a\x00b\x04\x1b \x1c\x1d\x1f \x7f\x85\x9f",
    "combining marks": "e\u0301 a\u030a\u0323 \u0301",
    "white space": "a  b   1 2  \n\n x \t\r\n\xa0 \u2003y\u3000z\u180e \u2028\u200b\ufeff ",
    "numbers": "²½ Ⅷ 一二 3٣ 2024-01-31 3.14",
    "letters of many kinds": "ſ ǅ ʰ ª º ß İ Ω Ж 中文 にほん 한국 ﬁ 𝔘",
    "lines below": "_ __a_b _1 a_",
    "apostrophes": "I'm 'tis 'LL we'll they've 's' o'er",
    "a special spelt out": f"{END}{END} <|im_start|>",
    "the unknown mark": f"a{UNKNOWN_MARK}b",
    "far planes": "\U000f0000\U0010ffff\U00040000",
    "a very long word": "x" * 5_000,
    "a long gene": "".join(random.Random(0).choices("ACGT", k=2_000)),
    "many spaces": " " * 2_000 + "a",
}
ASSIGNED = [chr(c) for c in range(0x110000) if unicodedata.category(chr(c)) not in ("Cs", "Cn")]


def random_text(draw, length):
    kinds = (ASSIGNED, "ab 1'\n._ ", "\t\x1c\xa0é٣²😀")
    return "".join(draw.choice(draw.choice(kinds)) for _ in range(length))


def reference(text, vocab_size, alphabet):
    """The same tokenizer, trained by Hugging Face's library."""
    in_bytes = alphabet == "bytes"
    tokenizer = Tokenizer(models.BPE() if in_bytes else models.BPE(unk_token=UNKNOWN_MARK))
    gpt2 = pre_tokenizers.ByteLevel(add_prefix_space=False)
    cutter = gpt2 if in_bytes else pre_tokenizers.Split(Regex(GPT2), "isolated")
    tokenizer.pre_tokenizer = cutter
    tokenizer.decoder = decoders.ByteLevel() if in_bytes else decoders.Fuse()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=[] if in_bytes else [UNKNOWN_MARK],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet() if in_bytes else [],
        min_frequency=2,
        show_progress=False,
    )
    tokenizer.train_from_iterator([text], trainer)
    return tokenizer


def learnt(tokenizer):
    """The vocabulary and the merges of a tokenizer of Hugging Face's."""
    model = json.loads(tokenizer.to_str())["model"]
    return sorted(model["vocab"], key=model["vocab"].get), [tuple(pair) for pair in model["merges"]]


@pytest.fixture(scope="module")
def small():
    return BPE.train(plays.text("test")[:100_000], 256 + 301, specials=(END,))


# --- by eye


def test_one_line_by_hand():
    """pair_counts: Sennrich et al.'s words: "es" stands nine times, then "est", and so on."""
    pieces = Counter(LINES.split())
    counts = pair_counts(pieces)
    assert counts["e", "s"] == counts["s", "t"] == 9 and counts["w", "e"] == 8 and counts["l", "o"] == 7
    assert merge("newest", ("e", "s")) == ("n", "e", "w", "es", "t")
    vocab, merges = learn_merges(pieces, sorted(set(LINES) - {" "}), 16)
    assert merges[:3] == [("e", "s"), ("es", "t"), ("l", "o")]
    assert vocab[-len(merges) :] == [a + b for a, b in merges]
    ranks = {pair: rank for rank, pair in enumerate(merges)}
    assert apply_merges("lowest", ranks) == ("low", "est")
    assert apply_merges("", ranks) == () and apply_merges("x", ranks) == ("x",)


def test_overlapping_pairs_are_merged_from_the_left():
    assert merge("aaa", "aa") == ("aa", "a")
    assert merge("aaaa", ("a", "a")) == ("aa", "aa")
    assert merge(("ab", "a", "b"), ("a", "b")) == ("ab", "ab")
    assert merge((), ("a", "b")) == ()


def test_bytes_are_shown_as_gpt2_shows_them():
    assert set(BYTE) == set(pre_tokenizers.ByteLevel.alphabet()) and len(SYMBOL) == 256
    assert SYMBOL[ord("a")] == "a" and SYMBOL[ord(" ")] == "Ġ" and SYMBOL[ord("\n")] == "Ċ"


# --- against plain counting, and against Hugging Face's tokenizers


def plain_merges(pieces, alphabet, vocab_size):
    """Algorithm 1 without any bookkeeping: everything counted anew after every merge."""
    index, merges = {token: i for i, token in enumerate(alphabet)}, []
    while len(index) < vocab_size:
        counts = pair_counts(pieces)
        best = min(counts, key=lambda pair: (-counts[pair], index[pair[0]], index[pair[1]]), default=None)
        if best is None or counts[best] < 2:
            break
        merges.append(best)
        index.setdefault(best[0] + best[1], len(index))
        pieces = {merge(piece, best): n for piece, n in pieces.items()}
    return list(index), merges


@pytest.mark.parametrize("seed", range(30))
def test_counts_are_kept_up_to_date(seed):
    draw = random.Random(seed)
    pieces = Counter("".join(draw.choices("abcd"[: draw.randrange(1, 5)], k=draw.randrange(1, 12))) for _ in range(60))
    size = draw.randrange(4, 60)
    assert learn_merges(pieces, "abcd", size) == plain_merges(pieces, "abcd", size)


@pytest.mark.parametrize("seed", range(20))
def test_few_long_pieces_are_learnt_as_by_plain_counting(seed):
    draw = random.Random(seed)
    letters = "abcdefgh"[: draw.randrange(1, 9)]
    pieces = Counter("".join(draw.choices(letters, k=draw.randrange(1, 400))) for _ in range(draw.randrange(1, 4)))
    assert learn_merges(pieces, "abcdefgh", 60) == plain_merges(pieces, "abcdefgh", 60)


def plainly_applied(piece, ranks):
    """The pair that was learnt first is merged everywhere, then again from the beginning."""
    piece = tuple(piece)
    while found := [pair for pair in pairwise(piece) if pair in ranks]:
        piece = merge(piece, min(found, key=ranks.get))
    return piece


@pytest.mark.parametrize("seed", range(40))
def test_merges_are_applied_as_plainly(seed):
    """In the order of learning, and in orders that no training gives: a token may stand before its parts are made."""
    draw = random.Random(seed)
    letters = "abcd"[: draw.randrange(1, 5)]
    _, merges = learn_merges({"".join(draw.choices(letters, k=200)): 1}, letters, 40)
    if seed % 2:
        draw.shuffle(merges)
    ranks = {pair: rank for rank, pair in enumerate(merges)}
    for n in (0, 1, 2, 3, 10, 300):
        piece = "".join(draw.choices(letters + "z", k=n))
        assert apply_merges(piece, ranks) == plainly_applied(piece, ranks)


LONG = {
    "Chinese": "".join(map(chr, range(0x4E00, 0x4E00 + 20_000))),
    "DNA": "".join(random.Random(0).choices("ACGT", k=200_000)),
    "one letter": "a" * 200_000,
}


@pytest.mark.slow
@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", LONG)
def test_a_line_without_a_space_costs_seconds(name):
    """Merges that read their piece from the beginning take minutes here, or hours."""
    tokenizer = BPE.train(LONG[name], 256 + 1_000)
    ids = tokenizer.encode(LONG[name])
    assert len(ids) < len(LONG[name].encode()) and tokenizer.decode(ids) == LONG[name]


@pytest.mark.parametrize("alphabet", ["bytes", "characters"])
@pytest.mark.parametrize("seed", range(25))
def test_small_texts_full_of_ties_are_learnt_and_read_as_by_hugging_face(seed, alphabet):
    draw = random.Random(seed)
    letters = draw.choice(["ab", "abc", "aé😀ก่", "ab \n1", "a\x04\x1c_²½"])
    text = "".join(draw.choices(letters, k=draw.randrange(1, 400)))
    size = (256 if alphabet == "bytes" else len(set(text)) + 1) + draw.randrange(40)
    ours, theirs = BPE.train(text, size, alphabet=alphabet), reference(text, size, alphabet)
    assert (ours.vocab, ours.merges) == learnt(theirs)
    for _ in range(5):
        other = "".join(draw.choices(letters + "zกa ", k=draw.randrange(100)))
        assert ours.encode(other).tolist() == theirs.encode(other).ids
        ids = [draw.randrange(len(ours)) for _ in range(30)]
        assert ours.decode(ids) == theirs.decode(ids, skip_special_tokens=False)


@pytest.mark.slow
@pytest.mark.timeout(600)  # on a machine that others use
@pytest.mark.parametrize("alphabet", ["bytes", pytest.param("characters", marks=pytest.mark.full)])
def test_the_plays_are_learnt_and_read_as_by_hugging_face(alphabet):
    train, test = plays.text("train"), plays.text("test")
    size = 1_000 + (256 if alphabet == "bytes" else len(set(train)) + 1)
    ours, theirs = (
        BPE.train(train, size, alphabet=alphabet),
        reference(train, size, alphabet),
    )
    assert len(ours.merges) == 1_000 and (ours.vocab, ours.merges) == learnt(theirs)
    ids = ours.encode(test)
    assert ids.tolist() == theirs.encode(test).ids
    assert ours.decode(ids) == test


@pytest.mark.parametrize("digits", [False, True])
@pytest.mark.parametrize("name", ODD)
def test_odd_texts_are_read_as_by_hugging_face(small, name, digits):
    text = ODD[name]
    ours = BPE(small.vocab, small.merges, [END], digits=digits)
    theirs = Tokenizer(models.BPE({token: i for i, token in enumerate(small.vocab)}, small.merges))
    digit = [pre_tokenizers.Digits(individual_digits=True)] if digits else []
    theirs.pre_tokenizer = pre_tokenizers.Sequence([*digit, pre_tokenizers.ByteLevel(add_prefix_space=False)])
    ids = ours.encode(text)
    assert ids.dtype == torch.int64 and ids.dim() == 1
    assert ids.tolist() == theirs.encode(text).ids
    assert ours.decode(ids) == text
    assert "".join(cut(text, digits)) == text


def test_random_texts_are_cut_as_by_hugging_face():
    draw = random.Random(0)
    theirs = pre_tokenizers.Split(Regex(GPT2), "isolated")
    for _ in range(500):
        text = random_text(draw, draw.randrange(1, 40))
        assert cut(text) == [piece for piece, _ in theirs.pre_tokenize_str(text)]
        assert all(len(piece) == 1 for piece in cut(text, digits=True) if any(map(str.isdecimal, piece)))


# --- what holds for any text


@pytest.mark.parametrize("seed", range(20))
def test_any_text_survives(small, seed):
    text = random_text(random.Random(seed), 300)
    ids = small.encode(text)
    assert small.decode(ids) == small.decode(ids.tolist()) == text
    assert b"".join(small.token_bytes(i) for i in ids.tolist()) == text.encode()


def test_no_text_spells_a_special():
    text = f"{END} and {END}. " * 50
    learnt_from = BPE.train(text, 256 + 60, specials=(END, "<|pad|>"))
    assert learnt_from.specials == {END: 0, "<|pad|>": 1} and learnt_from.vocab[:2] == [END, "<|pad|>"]
    ids = learnt_from.encode(text)
    assert ids.min() > 1 and learnt_from.decode(ids) == text
    assert learnt_from.decode([0, *learnt_from.encode("a b").tolist(), 1]) == f"{END}a b<|pad|>"
    # One that the merges make letter by letter stays another token than the special of that name.
    twin = BPE(["ab", "a", "b", "ab"], [("a", "b")], ["ab"], alphabet="characters")
    assert twin.encode("ab").tolist() == [3] and twin.specials == {"ab": 0}


def test_half_a_character_is_decoded_to_the_replacement_mark(small):
    ids = small.encode("😀")
    assert len(ids) > 1 and small.decode(ids[:1]) == UNKNOWN_MARK
    assert small.decode([*ids[:1].tolist(), *small.encode("a").tolist()]) == f"{UNKNOWN_MARK}a"
    assert small.token_bytes(int(ids[0])) == "😀".encode()[: len(small.token_bytes(int(ids[0])))]


def test_an_unknown_character_and_a_missing_byte():
    characters = BPE.train(LINES, 20, alphabet="characters")
    assert characters.vocab[0] == UNKNOWN_MARK
    assert (
        characters.encode("löw").tolist()[1] == 0 and characters.decode(characters.encode("löw")) == f"l{UNKNOWN_MARK}w"
    )
    few = BPE(["a", "b", "ab"], [("a", "b")])
    assert few.encode("a\x04b").tolist() == [0, 1]  # three pieces
    assert few.encode("a\u00e9b").tolist() == [2]  # one, whose neighbours meet


def test_a_long_piece_takes_the_merges_in_their_order():
    draw = random.Random(0)
    tokenizer = BPE.train("".join(draw.choices("ACGT", k=3_000)), 256 + 60)
    text = "".join(draw.choices("ACGT", k=1_000))
    ids = tokenizer.encode(text).tolist()
    ranks = {pair: rank for rank, pair in enumerate(tokenizer.merges)}
    assert tokenizer.decode(ids) == text
    assert not any(pair in ranks for pair in pairwise(tokenizer.vocab[i] for i in ids))


def test_fewer_pairs_than_asked_for_and_rare_ones():
    assert len(BPE.train("ab ab", 500).merges) == 1  # "a" "b"; after that " " "ab" stands once
    assert BPE.train("aaab aaab aaab", 400, min_count=7).merges == []  # "a" "a" stands six times
    assert len(BPE.train("abc", 256)) == 256
    assert BPE.train("a", 2, alphabet="characters").vocab == [UNKNOWN_MARK, "a"]


@pytest.mark.parametrize("whole", [np.int64, np.uint16, torch.tensor])
def test_sizes_and_counts_may_be_whole_numbers_of_any_kind(whole):
    """BPE.train, pair_counts: as many tokens as the number says."""
    made = BPE.train(LINES, whole(270), specials=(END,), min_count=whole(3))
    assert vars(made) == vars(BPE.train(LINES, 270, specials=(END,), min_count=3))
    assert pair_counts({"abc": whole(3), "ab": 1}) == {("a", "b"): 4, ("b", "c"): 3}


@pytest.mark.parametrize("most", [40, 1])
def test_words_that_were_read_are_not_kept_without_end(small, most, monkeypatch):
    """WordCache: for BPE, WordPiece and Unigram; what they read stays the same."""
    monkeypatch.setattr(WordCache, "most", most)
    texts = [f"word{n} and {n}" for n in range(30)]
    for made in (BPE.train(LINES, 300), WordPiece.train(LINES, 60), Unigram.train([LINES], 60)):
        wanted = [type(made).from_json(made.to_json()).encode(text).tolist() for text in texts]
        for _ in range(2):
            assert [made.encode(text).tolist() for text in texts] == wanted
            assert 1 <= len(made._known) <= 1 + most // 10
        assert len(pickle.loads(pickle.dumps(made))._known) == len(made._known)
        assert copy.deepcopy(made).encode(texts[0]).tolist() == wanted[0]


def test_a_later_vocabulary_holds_the_earlier_one(small):
    """A control over the number of merges may take the first n of one list."""
    fewer = BPE.train(plays.text("test")[:100_000], 256 + 101, specials=(END,))
    assert small.merges[:100] == fewer.merges and small.vocab[: len(fewer)] == fewer.vocab


def test_json_gives_the_same_tokenizer(small):
    for made in (small, BPE.train(LINES, 20, alphabet="characters"), BPE.train("ab 12 ab", 257, digits=True)):
        again = BPE.from_json(made.to_json())
        assert vars(again) | {"_known": None} == vars(made) | {"_known": None}
        assert torch.equal(again.encode("lower 12 é"), made.encode("lower 12 é"))


# --- bad input, in words


def test_only_strings_are_text():
    with pytest.raises(TypeError, match="needs a string, not list"):
        cut(["a"])


def test_half_a_character_is_refused(small):
    for read in (small.encode, cut, lambda text: BPE.train(text, 300)):
        with pytest.raises(ValueError, match=r"half a character, U\+D83D"):
            read("a\ud83d")


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"text": ""}, ValueError, "nothing to learn merges from"),
        ({"vocab_size": 255}, ValueError, "vocab_size must be 256 or more, not 255"),
        ({"alphabet": "words"}, ValueError, r"one of \['bytes', 'characters'\], not 'words'"),
        ({"specials": [END, END]}, ValueError, "are named twice, or are no tokens"),
        ({"specials": ["\ud83d"]}, ValueError, "half a character"),
    ],
)
def test_training_refuses_in_words(arguments, error, message):
    with pytest.raises(error, match=message):
        BPE.train(**{"text": "abc", "vocab_size": 300} | arguments)


@pytest.mark.parametrize(
    ("vocab", "merges", "specials", "error", "message"),
    [
        (["a", "b"], [("a", "b")], [], ValueError, r"need \['ab'\], which the vocabulary lacks"),
        (["a", "a"], [], [], ValueError, r"holds \['a'\] twice"),
        (["a"], [], [END], ValueError, "are named twice, or are no tokens"),
        (["a", "a b"], [], [], ValueError, r"\['a b'\] are not made of byte symbols"),
    ],
)
def test_parts_that_do_not_fit_are_refused(vocab, merges, specials, error, message):
    with pytest.raises(error, match=message):
        BPE(vocab, merges, specials)


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        ([0, 10_000], ValueError, "indices from 0 to 10000, but the vocabulary is 0 to 556"),
        (torch.tensor([1.0]), TypeError, "whole numbers"),
    ],
)
def test_decode_refuses_in_words(small, wrong, error, message):
    with pytest.raises(error, match=message):
        small.decode(wrong)


@pytest.mark.parametrize(
    "wrong",
    ["", "[]", "{}", CharTokenizer("ab").to_json(), '{"type": "BPE", "vocab": ["a"]}',
     "[" * 100_000, '{"type": ' * 100_000,
     '{"type": "BPE", "vocab": ["a"], "merges": [["a", "b"]]}', '{"type": ["BPE"], "vocab": [], "merges": []}'],
)  # fmt: skip
def test_json_of_something_else_is_refused(wrong):
    with pytest.raises(ValueError, match="no BPE's JSON"):
        BPE.from_json(wrong)
