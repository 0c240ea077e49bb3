"""The unigram model: brute force over all segmentations, numbers by hand, EM never falls, Hugging Face's pieces."""

import json
import math
import random
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
import torch
from tokenizers import models

from course_lib.data import plays
from course_lib.text.unigram import (
    SPACE_MARK,
    UNIGRAM_SPECIALS,
    Unigram,
    arcs,
    backward_sums,
    chunks,
    corpus_log_p,
    em_step,
    expected_counts,
    forward_sums,
    log_add,
    losses,
    prune,
    sample,
    seed_pieces,
    viterbi,
)

# A vocabulary whose every sum can be done by hand: tenths.
TENTHS = {"h": 1, "u": 1, "g": 1, "s": 1, "hu": 1, "ug": 2, "hug": 2, "gs": 1}
HUG = {piece: math.log(n / 10) for piece, n in TENTHS.items()}
# word: (ways to write it, p(word) as a sum over them, its most probable way)
BY_HAND = {
    "h": (1, Fraction(1, 10), ["h"]),
    "hu": (2, Fraction(1, 10) + Fraction(1, 100), ["hu"]),
    "ug": (2, Fraction(2, 10) + Fraction(1, 100), ["ug"]),
    "gs": (2, Fraction(1, 10) + Fraction(1, 100), ["gs"]),
    "us": (1, Fraction(1, 100), ["u", "s"]),
    "hug": (4, Fraction(2, 10) + Fraction(1, 100) + Fraction(2, 100) + Fraction(1, 1000), ["hug"]),
    "ugs": (3, Fraction(2, 100) + Fraction(1, 100) + Fraction(1, 1000), ["ug", "s"]),
    "ugug": (4, Fraction(21, 100) ** 2, ["ug", "ug"]),
    "shug": (4, Fraction(231, 10000), ["s", "hug"]),
    "hugs": (6, Fraction(231, 10000) + Fraction(11, 100) * Fraction(1, 10), ["hug", "s"]),
}
TEXTS = [
    "the hug of the bug",
    "a bug hugs, the pug hugs: hug hug",
    "Η γλώσσα και οι γλώσσες",
    "язык и языки, слово и слова",
    "今日は良い天気です。今日は晴れです。",
    "नमस्ते दुनिया",
    "שלום עולם",
    "ça va, naïve É e\u0301",
    "👩‍👩‍👧 ok 👩‍👩‍👧",
]
ODD = ["", " ", "  two  spaces ", "\n\tline\r\n", " a", "a ", "no-space" * 60, "\x00", "\ufffd", "<s> </s><unk>"]


def segmentations(word, pieces):
    """All ways to write a word, by trying every set of cuts."""
    if not word:
        return [[]]
    ends = [end for end in range(1, len(word) + 1) if word[:end] in pieces]
    return [[word[:end], *rest] for end in ends for rest in segmentations(word[end:], pieces)]


def p_of(way, logp):
    return math.exp(sum(logp[piece] for piece in way))


def random_vocabulary(draw, letters="abc", more=9):
    """All letters and some longer pieces, with random probabilities that sum to 1."""
    pieces = {*letters} | {"".join(draw.choices(letters, k=draw.randint(2, 4))) for _ in range(more)}
    weights = {piece: draw.random() + 0.01 for piece in sorted(pieces)}
    return {piece: math.log(weight / sum(weights.values())) for piece, weight in weights.items()}


def random_words(draw, n=12, letters="abc", longest=7):
    return Counter("".join(draw.choices(letters, k=draw.randint(1, longest))) for _ in range(n))


@pytest.fixture(params=range(20))
def draw(request):
    return random.Random(request.param)


@pytest.fixture(scope="module")
def trained():
    return Unigram.train(TEXTS * 3, 140)


# --- by hand


@pytest.mark.parametrize("word", BY_HAND)
def test_ten_words_by_hand(word):
    """forward_sums: ten words whose sums are done by hand, in fractions."""
    ways, p, best = BY_HAND[word]
    assert len(segmentations(word, HUG)) == ways
    assert math.exp(forward_sums(word, HUG)[-1]) == pytest.approx(float(p), rel=1e-12)
    assert viterbi(word, HUG) == best


def test_a_lattice_by_hand():
    """arcs: the lattice of hug, in the order of starts, then of ends."""
    assert arcs("hug", HUG) == [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]
    assert (
        arcs("xhx", HUG) == [(1, 2)] and arcs("", HUG) == [] and arcs("xyz", HUG) == [] and arcs("h", {"h"}) == [(0, 1)]
    )


def test_sums_of_logarithms():
    """log_add: log(exp a + exp b), also where exp a is no number or 0."""
    assert log_add(math.log(2), math.log(3)) == pytest.approx(math.log(5))
    assert log_add(-1e4, -1e4) == pytest.approx(-1e4 + math.log(2)) and log_add(0.0, -1e9) == 0.0
    assert log_add(-math.inf, -3.0) == log_add(-3.0, -math.inf) == -3.0
    assert log_add(-math.inf, -math.inf) == -math.inf


# --- against brute force


def test_the_sums_are_those_over_all_segmentations(draw):
    """backward_sums: at every place the sum over all ways, from the start and from the end."""
    logp = random_vocabulary(draw)
    for word in random_words(draw):
        before, after = forward_sums(word, logp), backward_sums(word, logp)
        for j in range(len(word) + 1):
            assert math.exp(before[j]) == pytest.approx(sum(p_of(x, logp) for x in segmentations(word[:j], logp)))
            assert math.exp(after[j]) == pytest.approx(sum(p_of(x, logp) for x in segmentations(word[j:], logp)))
        assert before[-1] == pytest.approx(after[0])


def test_viterbi_finds_the_most_probable_way(draw):
    """viterbi: no other of all ways is more probable."""
    logp = random_vocabulary(draw)
    for word in random_words(draw):
        found = viterbi(word, logp)
        assert "".join(found) == word
        assert p_of(found, logp) == pytest.approx(max(p_of(x, logp) for x in segmentations(word, logp)))
    assert viterbi("", logp) == []


def test_the_e_step_counts_what_all_segmentations_hold(draw):
    """expected_counts: each way's pieces, weighted by p(way | word)."""
    logp, words = random_vocabulary(draw), random_words(draw)
    expected = dict.fromkeys(logp, 0.0)
    for word, n in words.items():
        ways = segmentations(word, logp)
        total = sum(p_of(x, logp) for x in ways)
        for way in ways:
            for piece in way:
                expected[piece] += n * p_of(way, logp) / total
    assert expected_counts(words, logp) == pytest.approx(expected, abs=1e-12)


def test_the_log_likelihood_is_the_sum_over_words(draw):
    """corpus_log_p: each word as often as it occurs."""
    logp, words = random_vocabulary(draw), random_words(draw)
    expected = sum(n * math.log(sum(p_of(x, logp) for x in segmentations(word, logp))) for word, n in words.items())
    assert corpus_log_p(words, logp) == pytest.approx(expected)


def test_em_never_lowers_the_likelihood(draw):
    """em_step: probabilities that sum to 1, and a likelihood that never falls."""
    logp, words = random_vocabulary(draw), random_words(draw, n=30)
    likelihoods = [corpus_log_p(words, logp)]
    for _ in range(25):
        logp = em_step(words, logp)
        assert sum(map(math.exp, logp.values())) == pytest.approx(1)
        likelihoods.append(corpus_log_p(words, logp))
    assert all(b >= a - 1e-9 * abs(a) for a, b in zip(likelihoods, likelihoods[1:], strict=False))
    assert likelihoods[-1] > likelihoods[0]


def test_em_by_hand():
    """One word, two ways: EM puts everything on the piece that writes it alone, and the rest stays writable."""
    logp = {"a": math.log(0.25), "b": math.log(0.25), "ab": math.log(0.5)}
    counts = expected_counts({"ab": 9}, logp)
    assert counts == pytest.approx({"a": 1, "b": 1, "ab": 8})  # p: 1/16 for a·b, 8/16 for ab
    assert {piece: math.exp(x) for piece, x in em_step({"ab": 9}, logp).items()} == pytest.approx(
        {"a": 0.1, "b": 0.1, "ab": 0.8}
    )
    for _ in range(3000):
        logp = em_step({"ab": 9}, logp)
    assert math.exp(logp["ab"]) == 1 and all(map(math.isfinite, logp.values())) and viterbi("ba", logp) == ["b", "a"]


def test_a_loss_is_what_a_likelihood_falls_by_when_others_write_the_piece():
    """losses: the corpus whose every `hug` is written by other pieces, by hand."""
    words = {"hug": 3, "ug": 2}
    counts, loss = expected_counts(words, HUG), losses(words, HUG)
    assert loss["hug"] == pytest.approx(counts["hug"] * math.log(0.2 / 0.031))  # h·ug + hu·g + h·u·g
    assert loss["ug"] == pytest.approx(counts["ug"] * math.log(0.2 / 0.01))
    assert loss["gs"] == 0 and not {"h", "u", "g", "s"} & loss.keys()
    assert losses({"xy": 1}, {"xy": math.log(0.5), "x": math.log(0.5)}) == {"xy": math.inf}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_what_a_loss_says_is_near_what_a_likelihood_loses(seed):
    """On lines of plays: a piece is taken out for good, EM makes a step with the others, and the order is the same."""
    lines = [line for line in plays.text("validation").split("\n") if line]
    words = Counter(chunk for line in random.Random(seed).sample(lines, 40) for chunk in chunks(line))
    logp = seed_pieces(words, longest=5, most=120)
    for _ in range(4):
        logp = em_step(words, logp)
    loss, whole = losses(words, logp), corpus_log_p(words, logp)
    fell = {}
    for piece in loss:
        rest = {other: x for other, x in logp.items() if other != piece}
        fell[piece] = whole - corpus_log_p(words, em_step(words, rest))
    ranks = [{piece: i for i, piece in enumerate(sorted(d, key=d.get))} for d in (loss, fell)]
    n = len(loss)
    spearman = 1 - 6 * sum((ranks[0][piece] - ranks[1][piece]) ** 2 for piece in loss) / (n * (n * n - 1))
    assert spearman > 0.9


def test_pruning_keeps_the_characters_and_the_dearest_pieces():
    """prune: as many as asked for, every word still written, probabilities that sum to 1."""
    words = {"hug": 3, "hugs": 5, "ug": 2}
    loss = losses(words, HUG)
    for size in range(4, 9):
        left = prune(words, HUG, size)
        assert len(left) == size and {"h", "u", "g", "s"} <= left.keys()
        assert sum(map(math.exp, left.values())) == pytest.approx(1) and math.isfinite(corpus_log_p(words, left))
        out = HUG.keys() - left.keys()
        assert max((loss[piece] for piece in out), default=0) <= min((loss[p] for p in left if p in loss), default=9e9)
    assert prune(words, HUG, 99) == pytest.approx(HUG)
    with pytest.raises(ValueError, match="4 or more"):
        prune(words, HUG, 3)


@pytest.mark.slow
@pytest.mark.parametrize("alpha", [0, 0.5, 1.0, 3])
def test_samples_are_as_frequent_as_they_are_probable(alpha):
    """sample: p(x)^alpha / Z over all segmentations, by a chi-squared of the counts of 3,000 draws."""
    ways = segmentations("hugs", HUG)
    weights = [p_of(x, HUG) ** alpha for x in ways]
    generator, draws = torch.Generator().manual_seed(5), 3000
    found = Counter(tuple(sample("hugs", HUG, alpha, generator)) for _ in range(draws))
    expected = {tuple(x): draws * w / sum(weights) for x, w in zip(ways, weights, strict=True)}
    assert found.keys() <= expected.keys()
    squares = sum((found[x] - n) ** 2 / n for x, n in expected.items())
    assert squares < 20.5  # five degrees of freedom: passed by one in a thousand


def test_a_sample_at_a_large_alpha_is_viterbis(draw):
    logp = random_vocabulary(draw)
    for word in random_words(draw):
        way = sample(word, logp, 10_000.0, torch.Generator().manual_seed(0))
        assert p_of(way, logp) == pytest.approx(p_of(viterbi(word, logp), logp))
    assert sample("", logp) == []


def test_the_same_generator_gives_the_same_sample():
    ways = [[sample("hugs", HUG, 1.0, torch.Generator().manual_seed(s)) for s in range(20)] for _ in range(2)]
    assert ways[0] == ways[1] and len({*map(tuple, ways[0])}) > 2


def test_seeds_are_characters_and_the_substrings_that_cover_most():
    """seed_pieces: p in proportion to count times length; what occurs once is no seed, unless it is a character."""
    logp = seed_pieces({"abab": 2, "z": 1})
    weights = {"a": 4, "b": 4, "z": 1, "ab": 8, "ba": 4, "aba": 6, "bab": 6, "abab": 8}
    assert {piece: math.exp(x) for piece, x in logp.items()} == pytest.approx({p: n / 41 for p, n in weights.items()})
    assert [*seed_pieces({"abab": 2, "z": 1}, most=5)] == ["a", "b", "z", "ab", "abab"]
    assert {*seed_pieces({"abab": 2, "z": 1}, longest=1)} == {*seed_pieces({"abab": 2, "z": 1}, most=0)} == {*"abz"}


# --- against Hugging Face's


def test_the_pieces_are_hugging_faces(draw):
    """The same vocabulary gives the same segmentation, or one that is exactly as probable."""
    logp = random_vocabulary(draw, letters="abcde", more=30)
    theirs = models.Unigram([("<unk>", 0.0), *logp.items()], unk_id=0)
    for word in random_words(draw, n=40, letters="abcde", longest=25):
        ours, other = viterbi(word, logp), [token.value for token in theirs.tokenize(word)]
        assert ours == other or math.isclose(p_of(ours, logp), p_of(other, logp), rel_tol=1e-9), (ours, other)


def test_a_trained_vocabulary_reads_as_hugging_faces(trained):
    """Texts in nine scripts with characters that the vocabulary lacks: theirs makes one <unk> of several in a row."""
    scores = [(piece, trained.logp.get(piece, 0.0)) for piece in trained.vocab]
    theirs = models.Unigram(scores, unk_id=trained.unknown)
    for text in [*TEXTS, "zzz hug ΩΩ bug", "日本 hugs"]:
        for chunk in chunks(text):
            ours = [*map(trained.vocab.__getitem__, trained.encode(chunk.removeprefix(SPACE_MARK)))]
            other = [trained.vocab[token.id] for token in theirs.tokenize(chunk)]
            fused = [piece for i, piece in enumerate(ours) if piece != "<unk>" or ours[i - 1 : i] != ["<unk>"]]
            same = fused == other
            scored = [sum(trained.logp.get(piece, 0.0) for piece in way) for way in (fused, other)]
            assert same or math.isclose(*scored, rel_tol=1e-9), (fused, other)


# --- the tokenizer


def test_chunks_join_to_the_text():
    """chunks: a mark ahead, one for every space, nothing lost."""
    assert chunks("to be") == ["▁to", "▁be"] and chunks("") == [] and chunks(" ") == ["▁", "▁"]
    assert chunks("a  b ") == ["▁a", "▁", "▁b", "▁"] and chunks("今日は") == ["▁今日は"]
    for text in [*TEXTS, *ODD]:
        assert "".join(chunks(text)) == ("▁" + text.replace(" ", "▁") if text else "")
        assert all(len(chunk) <= 200 for chunk in chunks(text))
    assert [*map(len, chunks("x" * 450))] == [200, 200, 51]


def test_a_small_tokenizer_by_hand():
    """Unigram, Unigram.encode, Unigram.pieces, Unigram.decode: ids, unknown characters, specials."""
    vocab = {**dict.fromkeys(UNIGRAM_SPECIALS, 0.0), "▁": -2.0, **HUG, "▁hug": -2.0}
    t = Unigram(vocab)
    assert (t.padding, t.unknown, t.cls, t.sep, t.mask) == (0, 1, 2, 3, 4) and len(t) == 15
    assert t.pieces("hugs hug") == ["▁hug", "s", "▁hug"] and t.encode("hugs").tolist() == [14, 9]
    assert t.pieces("xyhug") == ["▁", "<unk>", "<unk>", "hug"] and t.decode(t.encode("xyhug")) == "\ufffd\ufffdhug"
    assert t.decode([2, 14, 4, 3, 0]) == "hug" and t.decode([14, 4, 3], specials=True) == " hug<mask></s>".strip()
    assert t.encode("").dtype == torch.int64 and t.encode("").shape == (0,) and t.decode([]) == ""
    assert t.pieces("<s>")[0] == "▁" and t.cls not in t.encode("<s>")  # what a text spells is no special
    assert t.decode(torch.tensor([12])) == "hug"  # that of a "ug" is not a beginning: no space is taken from it


def test_specials_stand_where_a_vocabulary_has_them():
    t = Unigram({"<s>": 0, "<pad>": 0, "</s>": 0, "<unk>": 0, "▁": -1.0, "a": -1.5, "<mask>": 0})
    assert (t.padding, t.unknown, t.cls, t.sep, t.mask) == (1, 3, 0, 2, 6) and t.encode("ab").tolist() == [4, 5, 3]


@pytest.fixture(scope="module")
def wide():
    return Unigram.train([*TEXTS, *ODD], 200)


@pytest.mark.parametrize("text", [*TEXTS, *ODD])
def test_a_round_trip_loses_nothing(text, wide):
    """Unigram.train: any script, spaces, line ends; drawn pieces spell the same text."""
    t = wide
    assert t.decode(t.encode(text)) == text
    generator = torch.Generator().manual_seed(1)
    assert t.decode(t.encode(text, alpha=0.1, generator=generator)) == text
    assert "".join(t.pieces(text)) == "".join(chunks(text))


def test_training_gives_the_size_and_the_order_of_p(trained):
    assert len(trained) == 140 and tuple(trained.vocab[:5]) == UNIGRAM_SPECIALS
    scores = [*trained.logp.values()]
    assert scores == sorted(scores, reverse=True) and sum(map(math.exp, scores)) == pytest.approx(1)
    assert {c for text in TEXTS for c in text.replace(" ", "▁")} <= trained.logp.keys()
    assert len(Unigram.train(["hug"], 9999)) < 20  # there are no more pieces to be had


def test_counts_are_copies():
    """A text that counts three times is the text three times; parts of a count are welcome."""
    texts = ["hug bug", "pug mug hug"]
    one, other = Unigram.train([texts[0]] * 3 + [texts[1]], 20), Unigram.train({texts[0]: 3, texts[1]: 1}, 20)
    assert one.vocab == other.vocab and one.logp == pytest.approx(other.logp)
    assert len(Unigram.train({"hug bug": 2.5, "hug": 3.25}, 16)) <= 16


def test_a_frequent_word_becomes_a_piece():
    t = Unigram.train(["the hug", "the bug", "the pug", "the mug", "the hut"] * 10, 18)
    assert t.pieces("the") == ["▁the"]


def test_no_character_is_left_without_probability(trained):
    """EM alone takes t, h and e away where ▁the writes them all: a new word would pay for it, and so would a draw."""
    alone = [log_p for piece, log_p in trained.logp.items() if len(piece) == 1]
    assert min(alone) > -10 and trained.pieces("teh")[0] == "▁"


def test_drawn_pieces_differ_and_are_not_remembered(trained):
    before = trained.pieces("the hugs")
    generator = torch.Generator().manual_seed(0)
    drawn = {tuple(trained.pieces("the hugs", alpha=0.1, generator=generator)) for _ in range(40)}
    assert len(drawn) > 1 and all("".join(way) == "▁the▁hugs" for way in drawn)
    assert trained.pieces("the hugs") == before
    assert trained.pieces("ΩΩ", alpha=0.5, generator=generator)[-2:] == ["<unk>", "<unk>"]


def test_a_vocabulary_is_kept_as_json(trained):
    """to_json and from_json: the same vocabulary, the same probabilities, to the last bit."""
    again = Unigram.from_json(trained.to_json())
    assert again.vocab == trained.vocab and again.logp == trained.logp and again.specials == trained.specials
    for wrong in ("", "[]", '{"type": "BPE"}', json.dumps({"type": "Unigram"}), "[" * 9999):
        with pytest.raises(ValueError, match="no Unigram's JSON"):
            Unigram.from_json(wrong)


# --- what is refused


@pytest.mark.parametrize("function", [viterbi, sample])
def test_a_word_that_no_pieces_write_is_refused(function):
    with pytest.raises(ValueError, match="cannot write 'hugx'"):
        function("hugx", HUG)
    assert forward_sums("xh", HUG) == [0.0, -math.inf, -math.inf]


@pytest.mark.parametrize("function", [corpus_log_p, expected_counts, em_step, losses, lambda w, p: prune(w, p, 4)])
@pytest.mark.parametrize(
    ("words", "logp", "error", "said"),
    [
        ({}, HUG, ValueError, "empty"),
        ({"hugx": 1}, HUG, ValueError, "cannot write 'hugx'"),
        ({"hug": 1}, {}, ValueError, "cannot write"),
        ({"hug": 1}, {**HUG, "x": math.nan}, ValueError, "finite number"),
        ({"hug": 1}, {**HUG, "x": 0.3}, ValueError, "Is it p"),
    ],
)
def test_no_corpus_is_refused(function, words, logp, error, said):
    with pytest.raises(error, match=said):
        function(words, logp)


def test_numbers_may_be_numpys():
    """Unigram.train and its steps: sizes, counts, probabilities and powers, whole and real."""
    words, logp = {"hug": np.int64(3), "hugs": np.float32(2)}, {piece: np.float64(n) for piece, n in HUG.items()}
    assert seed_pieces(words, np.int8(3), np.uint8(9)) == seed_pieces({"hug": 3, "hugs": 2}, 3, 9)
    assert corpus_log_p({"hug": np.float32(3)}, logp) == pytest.approx(corpus_log_p({"hug": 3}, HUG))
    assert em_step({"hug": 3}, logp, np.float32(0.5)) == pytest.approx(em_step({"hug": 3}, HUG, 0.5))
    assert prune({"hug": 3}, HUG, np.int64(4)) == prune({"hug": 3}, HUG, 4)
    assert "".join(sample("hug", HUG, np.float32(0.5), torch.Generator().manual_seed(0))) == "hug"
    made = Unigram.train(["hug hugs"], np.int8(20), longest=np.int64(4), keep=np.float32(0.5))
    assert made.logp == Unigram.train(["hug hugs"], 20, longest=4).logp


def test_seeds_need_a_character():
    with pytest.raises(ValueError, match="corpus is empty"):
        seed_pieces({"": 2})


@pytest.mark.parametrize(
    ("texts", "size", "error", "said"),
    [
        ("hug", 20, TypeError, "a list of texts, not one string"),
        ([""], 20, ValueError, "empty"),
        (["hug"], 8, ValueError, "vocab_size must be 9 or more"),
        (["\ud800"], 20, ValueError, "half a character"),
    ],
)
def test_no_training_texts_are_refused(texts, size, error, said):
    with pytest.raises(error, match=said):
        Unigram.train(texts, size)


def test_other_arguments_are_refused(trained):
    for keep in (0, 1, 1.5, math.nan):
        with pytest.raises(ValueError, match="keep is the part"):
            Unigram.train(["hug"], 20, keep=keep)
    with pytest.raises(ValueError, match="specials are five"):
        Unigram({"a": -1.0}, ("<pad>",))
    with pytest.raises(ValueError, match="lacks the specials <pad>"):
        Unigram({"a": -1.0})


def test_a_long_text_without_spaces_takes_no_square_of_its_length(trained):
    assert trained.decode(trained.encode("hug" * 3000)) == "hug" * 3000
