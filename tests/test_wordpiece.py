"""WordPiece: the pieces of Hugging Face's tokenizer, on real texts and on odd ones; sentences, pairs, words; bad input.

What needs the vocabulary of the real model is skipped where it is not: nothing is downloaded in a test.
"""

import random

import pytest
import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

from course_lib.data import interface, plays
from course_lib.text.wordpiece import SPECIALS, WordPiece, clean, cut_words, longest_match
from course_lib.train import published

SMALL = [
    *SPECIALS,
    "una",
    "un",
    "##a",
    "##ffa",
    "##ble",
    "##ff",
    "the",
    "#",
    "##",
    "##x",
    "o",
    "'",
    "er",
    ",",
    "é",
    "e",
]
# Characters that were in Unicode when Hugging Face's table of it was made.
BLOCKS = [(0, 0x20), (0x20, 0x7F), (0x7F, 0x250), (0x300, 0x370), (0x370, 0x500), (0x5D0, 0x5EB), (0x621, 0x64B),
          (0x900, 0x970), (0xE01, 0xE5C), (0x2000, 0x2070), (0x3040, 0x3100), (0x4E00, 0x4F00), (0xAC00, 0xAD00),
          (0x1D400, 0x1D4FF), (0x1F300, 0x1F700), (0x2B800, 0x2B940), (0xE000, 0xE010), (0xFE00, 0xFE10),
          (0xFFF0, 0x10000)]  # fmt: skip
WORDS = [
    "[MASK]",
    "[SEP]",
    "[mask]",
    "[UNK]",
    "##ing",
    "#",
    "unaffable",
    "O'er",
    "ſt",
    "İ",
    "ß",
    "ΟΔΟΣ",
    "ǅ",
    "x" * 101,
]
ODD = {
    "empty": "",
    "spaces": " \t\n\r\x0b\x0c\x85\u2028\u3000",
    "controls": "a\x00b\ufffdc\x7fd\u200be\x1cf",
    "accents": "Ça, naïve Ångström Ž e\u0301 İstanbul ǘ",
    "scripts": "中文字 にほんご 한국어 ภาษาไทย हिन्दी עברית العربية Ελληνικά Привет",
    "emoji": "I ❤️ 👩‍👩‍👧 🇫🇷 👍🏽 #️⃣",
    "marks": "$5+3^2 = ~8|<b>`x`</b> «guillemets» „quotes“ … — ¿qué?",
    "specials": "a[MASK]b [CLS] [ MASK ] [mask] [PAD][UNK]",
    "a long word": "x" * 100 + " " + "x" * 101,
    "not assigned": "a\u0378b \U000effff",
    "ligatures": "ﬁ ﬀ Ⅷ ² ½ ª ŉ",
}


def hugging_faces(vocab, uncased=True):
    pieces = {piece: i for i, piece in enumerate(vocab)}
    theirs = Tokenizer(models.WordPiece(pieces, unk_token="[UNK]", max_input_chars_per_word=100))
    theirs.normalizer = normalizers.BertNormalizer(lowercase=uncased)
    theirs.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    theirs.post_processor = processors.BertProcessing(("[SEP]", pieces["[SEP]"]), ("[CLS]", pieces["[CLS]"]))
    theirs.add_special_tokens(list(SPECIALS))
    return theirs


@pytest.fixture(scope="module")
def real():
    """The real model's tokenizer, ours and Hugging Face's from the file that came with it."""
    weights = published.find("minilm")
    if weights is None:
        pytest.skip("MiniLM is not here: python -m course_lib.train.published minilm")
    theirs = Tokenizer.from_file(str(weights.with_name("tokenizer.json")))
    theirs.no_truncation(), theirs.no_padding()
    return WordPiece(weights.with_name("vocab.txt")), theirs


@pytest.fixture(scope="module")
def trained():
    return WordPiece.train(plays.text("validation"), 800)


def same(ours, theirs, text):
    found = ours.encode(text)
    assert found.dtype == torch.int64 and found.ndim == 1
    assert found.tolist() == theirs.encode(text, add_special_tokens=False).ids, ours.pieces(text)


def random_text(draw):
    def part():
        return draw.choice(WORDS) if draw.random() < 0.2 else chr(draw.randrange(*draw.choice(BLOCKS)))

    return "".join(part() for _ in range(draw.randrange(30)))


# --- by eye


def test_the_longest_piece_goes_first():
    """longest_match: by hand, and what fits nowhere."""
    pieces = set(SMALL)
    assert longest_match("unaffable", pieces) == ["una", "##ffa", "##ble"]
    assert longest_match("unable", pieces) == ["una", "##ble"]
    assert longest_match("unaffx", pieces) == ["una", "##ff", "##x"]
    assert longest_match("the", pieces) == ["the"] and longest_match("", pieces) == []
    assert longest_match("thexy", pieces) is None and longest_match("zthe", pieces) is None
    # A shorter first piece would have led to the end: nobody looks back.
    assert longest_match("abc", {"ab", "a", "##bc"}) is None
    assert longest_match("aaaa", {"a", "##a"}, longest=4) == ["a"] + ["##a"] * 3
    assert longest_match("aaaa", {"a", "##a"}, longest=3) is None


def test_a_text_is_cleaned_and_cut():
    """clean, cut_words: small letters, no accents, no control characters; marks and Chinese characters alone."""
    assert clean("The\tNaïve\x00  ÉE\u0301") == "the naive  ee"
    assert clean("Naïve É", uncased=False) == "Naïve É"
    assert cut_words(clean("O'er, don't—中文!")) == ["o", "'", "er", ",", "don", "'", "t", "—", "中", "文", "!"]
    assert clean("") == "" and cut_words("") == [] and cut_words("a$b ^") == ["a", "$", "b", "^"]


def test_pieces_ids_and_back():
    """WordPiece, WordPiece.encode, WordPiece.pieces, WordPiece.decode: a small table, by hand."""
    t = WordPiece(SMALL)
    assert (t.padding, t.unknown, t.cls, t.sep, t.mask) == (0, 1, 2, 3, 4) and len(t) == len(SMALL)
    assert t.pieces("The unaffable, zebra") == ["the", "una", "##ffa", "##ble", ",", "[UNK]"]
    assert t.encode("").tolist() == [] and t.encode("  \n").dtype == torch.int64
    assert t.decode(t.encode("The unaffable o'er")) == "the unaffable o ' er"
    assert t.decode([2, 10, 4, 3, 0]) == "##ff" and t.decode([2, 11, 4, 3], specials=True) == "[CLS] the [MASK] [SEP]"
    assert t.continues.tolist() == [piece.startswith("##") and piece != "##" for piece in SMALL]


def test_a_text_spells_specials_only_where_it_may():
    t = WordPiece(SMALL)
    assert t.pieces("the [MASK]the[SEP]") == ["the", "[MASK]", "the", "[SEP]"]
    assert t.mask not in t.encode("the [MASK] the", specials=False) and "[MASK]" not in t.pieces("the [mask]")
    ids = t.batch([["the", "[MASK]"]], specials=False).ids
    assert t.mask not in ids and int((ids == t.sep).sum()) == 1
    # A word that is spelt like a special of other names is not that special either.
    named = WordPiece(["pad", "unk", "cls", "sep", "mask", "##k", "mas"], ["pad", "unk", "cls", "sep", "mask"])
    assert named.encode("mask", specials=False).tolist() == [6, 5] and named.encode("mask").tolist() == [4]


# --- beside Hugging Face's


@pytest.mark.parametrize("name", ODD)
def test_odd_texts_are_read_as_by_the_real_models_tokenizer(real, name):
    same(*real, ODD[name])


@pytest.mark.slow
def test_random_texts_are_read_as_by_the_real_models_tokenizer(real):
    draw = random.Random(0)
    for _ in range(2_000):
        same(*real, random_text(draw))


@pytest.mark.slow
def test_plays_and_interface_are_read_as_by_the_real_models_tokenizer(real):
    ours, theirs = real
    for row in plays.rows("test")[:1_500]:
        same(ours, theirs, row.text)
    for row in interface.rows("test"):
        for sentence in row[:2]:
            same(ours, theirs, sentence if isinstance(sentence, str) else " ".join(sentence))


def test_the_table_of_the_real_model(real):
    ours, _ = real
    assert len(ours) == 30_522 and list(ours.specials.values()) == [0, 100, 101, 102, 103]
    assert ours.pieces("unaffable embeddings") == ["una", "##ffa", "##ble", "em", "##bed", "##ding", "##s"]
    for text in ("To be, or not to be", "embeddings 2019"):
        ids = ours.encode(text)
        assert torch.equal(ours.encode(ours.decode(ids)), ids)


@pytest.mark.slow
@pytest.mark.parametrize("uncased", [True, False])
def test_random_texts_of_any_table(trained, uncased):
    draw, ours = random.Random(1), WordPiece(trained.vocab, uncased=uncased)
    theirs = hugging_faces(ours.vocab, uncased)
    for _ in range(500):
        text = random_text(draw) + draw.choice(["", " To be or NOT to be", " Café"])
        same(ours, theirs, text)


def test_sentences_pairs_and_words_are_framed_as_by_hugging_face(trained):
    """WordPiece.batch, Read: ids, segments, mask and words; cut to a length too."""
    theirs, draw = hugging_faces(trained.vocab), random.Random(2)
    speeches = [row.text for row in plays.rows("validation")[:200]]
    for trial in range(60):
        pair, max_len = trial % 2 == 0, draw.choice([None, 5, 12, 40])
        texts = [
            tuple(draw.sample(speeches, 2)) if pair else draw.choice(speeches) for _ in range(draw.randrange(1, 6))
        ]
        if trial % 3 == 0:
            texts = [tuple(map(str.split, t)) if pair else t.split() for t in texts]
        theirs.no_truncation()
        if max_len is not None:
            theirs.enable_truncation(max_len, strategy="longest_first")
        theirs.enable_padding(pad_id=0, pad_token="[PAD]")
        expected = theirs.encode_batch(texts, is_pretokenized=trial % 3 == 0)
        found = trained.batch(texts, max_len)
        real_ones = torch.tensor([row.attention_mask for row in expected]).bool()
        assert torch.equal(found.mask, real_ones)
        if max_len is None:
            assert found.ids.tolist() == [row.ids for row in expected]
            assert found.segments.tolist() == [row.type_ids for row in expected]
            words = [[-1 if n is None else n for n in row.word_ids] for row in expected]
            if trial % 3 == 0:  # of a text they count the words anew in each part of it, as we do
                assert found.words.tolist() == words
        elif not pair:
            assert found.ids.tolist() == [row.ids for row in expected]


def test_the_longer_sentence_is_shortened_piece_by_piece():
    """WordPiece.batch: as Google's: the longer loses its last piece, of two as long the second."""
    t = WordPiece(SMALL)
    read = t.batch([(["the"] * 6, ["o"] * 3), ("the", "o o")], max_len=8)
    assert read.ids.tolist() == [[2, 11, 11, 11, 3, 15, 15, 3], [2, 11, 3, 15, 15, 3, 0, 0]]
    assert read.segments.tolist() == [[0] * 5 + [1] * 3, [0] * 3 + [1] * 3 + [0] * 2]
    assert read.words.tolist() == [[-1, 0, 1, 2, -1, 0, 1, -1], [-1, 0, -1, 0, 1, -1, -1, -1]]
    assert read.mask.tolist() == [[True] * 8, [True] * 6 + [False] * 2]
    assert t.batch([("the", "o")], max_len=3).ids.tolist() == [[2, 3, 3]]
    assert t.batch([""]).ids.tolist() == [[2, 3]] and t.batch([[]]).ids.tolist() == [[2, 3]]


def test_words_that_are_cut_already_keep_their_number():
    t = WordPiece(SMALL)
    read = t.batch([["unaffable", "o'er", "", "zebra"]])
    assert [t.vocab[i] for i in read.ids[0]] == "[CLS] una ##ffa ##ble o ' er [UNK] [SEP]".split()
    assert read.words.tolist() == [[-1, 0, 0, 0, 1, 1, 1, 3, -1]]


# --- trained


@pytest.mark.parametrize("seed", range(15))
def test_small_texts_are_learnt_as_by_hugging_face(seed):
    """WordPiece.train: the same merges. Theirs numbers its ##-characters by chance, so they are handed over here."""
    draw = random.Random(seed)
    text = "".join(draw.choices(draw.choice(["ab ", "abc #", "aé😀 中.", "lowest newer "]), k=draw.randrange(1, 400)))
    least = len(WordPiece.train(text + " z", 5_000, uncased=seed % 2 == 0))
    ours = WordPiece.train(text + " z", draw.randrange(least // 2 + 12, least + 12), uncased=seed % 2 == 0)
    symbols = [p for p in ours.vocab if p in SPECIALS or len(p.removeprefix("##") or p) == 1]
    theirs = hugging_faces(SPECIALS, seed % 2 == 0)
    trainer = trainers.WordPieceTrainer(
        vocab_size=len(ours), special_tokens=symbols, min_frequency=2, show_progress=False
    )
    theirs.train_from_iterator([text + " z"], trainer)
    vocab = theirs.get_vocab()
    assert ours.vocab == sorted(vocab, key=vocab.get)


@pytest.mark.slow
def test_the_plays_are_learnt_as_by_hugging_face():
    """WordPiece.train: 2,000 pieces of the test plays, with nothing handed over: the same pieces."""
    text, theirs = plays.text("test"), hugging_faces(SPECIALS)
    ours = WordPiece.train(text, 2_000)
    trainer = trainers.WordPieceTrainer(
        vocab_size=2_000, special_tokens=list(SPECIALS), min_frequency=2, show_progress=False
    )
    theirs.train_from_iterator(text.split("\n"), trainer)
    assert len(set(ours.vocab) ^ set(theirs.get_vocab())) <= 4  # among equally frequent pairs theirs picks by chance
    assert ours.unknown not in ours.encode(text)


def test_what_was_learnt_reads_what_it_was_learnt_from(trained):
    text = plays.text("validation")[:20_000]
    ids = trained.encode(text)
    assert trained.unknown not in ids and len(trained) == 800
    assert trained.decode(ids) == " ".join(cut_words(clean(text)))
    assert trained.pieces("Żółw 中")[-1] == "[UNK]"


# --- bad input, in words


@pytest.mark.parametrize(
    "wrong, error, words",
    [
        (lambda t: t.encode("a\ud83d"), ValueError, r"half a character, U\+D83D"),
        (lambda t: t.encode(["a", 3]), TypeError, "each a string; got int in a list"),
        (lambda t: t.batch("the"), TypeError, "a list of texts, or of pairs of texts, not str"),
        (lambda t: t.batch([("a", "b", "c")]), ValueError, r"one sentence, or two as a pair \(a, b\); got 3"),
        (lambda t: t.batch([("a", "b")], 2), ValueError, "are 3 pieces: max_len must be 3 or more; got 2"),
        (lambda t: t.decode([99]), ValueError, "indices from 99 to 99"),
        (lambda t: WordPiece("nowhere.txt"), FileNotFoundError, "no file nowhere.txt"),
        (lambda t: WordPiece(["the"]), ValueError, r"lacks the specials \[PAD\], \[UNK\]"),
        (lambda t: WordPiece([*SPECIALS, "a", "a"]), ValueError, r"holds \['a'\] twice"),
        (lambda t: WordPiece(SMALL, ["[PAD]"]), ValueError, "The specials are five"),
        (lambda t: WordPiece.train("", 100), ValueError, "nothing to learn"),
        (lambda t: WordPiece.train("abc", 5), ValueError, "vocab_size must be 10 or more, not 5"),
    ],
)
def test_bad_input_is_refused_in_words(wrong, error, words):
    with pytest.raises(error, match=words):
        wrong(WordPiece(SMALL))


def test_a_file_of_a_vocabulary(tmp_path):
    """WordPiece: a vocab.txt, with a line feed at its end or without, and a file that is none."""
    path = tmp_path / "vocab.txt"
    for text in ("\n".join(SMALL), "\n".join(SMALL) + "\n", "\r\n".join(SMALL) + "\r\n"):
        for encoding in ("utf-8", "utf-8-sig"):  # the second has a mark in front, as some editors write it
            path.write_bytes(text.encode(encoding))
            assert WordPiece(path).vocab == WordPiece(str(path)).vocab == SMALL
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match="vocab.txt is no vocab.txt: it holds no text in UTF-8"):
        WordPiece(path)
    with pytest.raises(FileNotFoundError, match="There is no file"):
        WordPiece(tmp_path)


def test_json_gives_the_same_tokenizer():
    text = "the unaffable Ça [MASK] o'er # x"
    for made in (WordPiece(SMALL), WordPiece(SMALL, uncased=False), WordPiece.train(text * 3, 70)):
        again = WordPiece.from_json(made.to_json())
        assert (again.vocab, again.specials, again.uncased) == (made.vocab, made.specials, made.uncased)
        assert torch.equal(again.encode(text), made.encode(text))


@pytest.mark.parametrize(
    "wrong",
    ["", "[]", "[" * 100_000, '{"type": "BPE", "vocab": ["a"]}',
     '{"type": "WordPiece", "vocab": ["a"]}',
     '{"type": "WordPiece", "vocab": "vocab.txt"}', '{"type": ["WordPiece"], "vocab": []}'],
)  # fmt: skip
def test_json_of_something_else_is_refused(wrong):
    with pytest.raises(ValueError, match="no WordPiece's JSON"):
        WordPiece.from_json(wrong)
