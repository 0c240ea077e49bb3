"""translation/decode.py: greedy and beam search against every sentence there is, on vocabularies small enough."""

import itertools
import math

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from course_lib.inputs.sequences import select_rows
from course_lib.text.tokenizers import WordTokenizer
from course_lib.translation.decode import beam_search, exact_match, greedy, translate
from course_lib.translation.seq2seq import Seq2Seq

END = 1


class Table:
    """A model that has learnt a random table: the next token's logits depend on the sentence and on all tokens so far.

    Its state, a dict with a tuple in it, is a pair: which sentence (N,), which history (1, N), counted in base V.
    """

    def __init__(self, seed, sentences=3, vocab=3, max_len=4, sharpness=2.0):
        g = torch.Generator().manual_seed(seed)
        self.vocab, self.max_len, self.n_steps = vocab, max_len, 0
        self.start = torch.full((sentences,), vocab - 1)
        n = (vocab + 1) ** (max_len + 1)
        self.logits = sharpness * torch.randn(sentences, n, vocab, generator=g, dtype=torch.float64)
        self.state = {"which": (torch.arange(sentences), "not a tensor"), "history": torch.zeros(1, sentences).long()}

    def next(self, sentence, tokens):
        history = 0
        for token in [self.vocab - 1, *tokens]:
            history = (self.vocab + 1) * history + token + 1
        return torch.log_softmax(self.logits[sentence, history], dim=0)

    def step(self, tokens, state):
        self.n_steps += 1
        (which, _), history = state["which"], state["history"][0]
        assert len(tokens) == len(which) == len(history)
        history = (self.vocab + 1) * history + tokens + 1
        return self.logits[which, history], {"which": (which, "not a tensor"), "history": history[None]}

    @staticmethod
    def select(state, rows):
        return {"which": select_rows(state["which"], rows), "history": select_rows(state["history"], rows, dim=1)}

    def arguments(self, **changed):
        return {
            "step": self.step,
            "state": self.state,
            "start": self.start,
            "end": END,
            "max_len": self.max_len,
            "select": self.select,
            **changed,
        }

    def log_prob(self, sentence, tokens, ended):
        tokens = [*tokens, END] if ended else list(tokens)
        return float(sum(self.next(sentence, tokens[:t])[token] for t, token in enumerate(tokens)))

    def exhaustive(self, sentence, length_penalty):
        """Of all sentences that end within max_len steps or are cut there the best: log-probability and tokens."""
        others = [token for token in range(self.vocab) if token != END]
        found = []
        for length in range(self.max_len + 1):
            for tokens in itertools.product(others, repeat=length):
                ended = length < self.max_len
                log_p = self.log_prob(sentence, tokens, ended)
                found.append((log_p / ((5 + length + ended) / 6) ** length_penalty, log_p, list(tokens)))
        assert math.isclose(sum(math.exp(log_p) for _, log_p, _ in found), 1)
        return max(found)[1:]


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("length_penalty", [0.0, 0.6, 2.0])
@pytest.mark.parametrize("vocab, max_len", [(2, 4), (3, 4), (4, 3), (5, 1)])
def test_a_wide_beam_is_exhaustive_search(seed, length_penalty, vocab, max_len):
    model = Table(seed, vocab=vocab, max_len=max_len)
    found = beam_search(**model.arguments(width=vocab**max_len, length_penalty=length_penalty))
    for sentence in range(3):
        log_p, tokens = model.exhaustive(sentence, length_penalty)
        assert found.tokens[sentence] == tokens
        assert_close(float(found.log_probs[sentence]), log_p)
    assert model.n_steps <= max_len


@pytest.mark.slow
def test_length_penalty_chooses_longer_sentences():
    def words_written(length_penalty):
        found = [
            beam_search(**Table(seed, max_len=6).arguments(width=64, length_penalty=length_penalty))
            for seed in range(20)
        ]
        return sum(len(tokens) for decoded in found for tokens in decoded.tokens)

    assert words_written(0) < words_written(1) < words_written(4)


def best_first(model, sentence):
    """Greedy search written out, one sentence and one token at a time."""
    tokens, log_p = [], 0.0
    for _ in range(model.max_len):
        scores = model.next(sentence, tokens)
        log_p += float(scores.max())
        if int(scores.argmax()) == END:
            break
        tokens.append(int(scores.argmax()))
    return tokens, log_p


@pytest.mark.parametrize("seed", range(10))
def test_greedy_takes_the_best_token_and_so_does_a_beam_of_one(seed):
    model = Table(seed, sentences=6, vocab=4, max_len=5)
    found = greedy(**model.arguments())
    assert found.weights is None
    for sentence in range(6):
        tokens, log_p = best_first(model, sentence)
        assert found.tokens[sentence] == tokens
        assert_close(float(found.log_probs[sentence]), log_p)
    for length_penalty in (0.0, 0.6, 3.0):
        beam = beam_search(**model.arguments(width=1, length_penalty=length_penalty))
        assert beam.tokens == found.tokens
        assert_close(beam.log_probs, found.log_probs)


def test_some_sentences_end_and_some_are_cut():
    """So that the tests above have seen both, and the empty sentence."""
    lengths = [
        len(tokens)
        for seed in range(10)
        for tokens in greedy(**Table(seed, sentences=6, vocab=4, max_len=5).arguments()).tokens
    ]
    assert {0, 1, 3, 5} <= set(lengths)


@pytest.mark.parametrize("width", [1, 2, 3, 5, 50])
def test_log_probability_is_that_of_the_sentence_and_neighbours_do_not_matter(width):
    model = Table(3, sentences=5, vocab=4, max_len=5)
    found = beam_search(**model.arguments(width=width))
    for sentence, tokens in enumerate(found.tokens):
        assert END not in tokens
        assert_close(float(found.log_probs[sentence]), model.log_prob(sentence, tokens, len(tokens) < model.max_len))
        row = torch.tensor([sentence])
        only = {"state": model.select(model.state, row), "start": model.start[row]}
        alone = beam_search(**model.arguments(width=width, **only))
        assert alone.tokens == [tokens]


def chain(table):
    """A model whose next token depends on the last alone: table[last][next] are probabilities; 2 is the start."""
    log_p = torch.tensor(table).log()
    return {"step": lambda tokens, state: (log_p[tokens], state), "state": (), "start": torch.tensor([2]), "end": END}


def test_a_wider_beam_finds_what_a_narrow_one_misses():
    """3 looks better than 4 at first, but nothing good comes after it."""
    never = [0.0, 1.0, 0.0, 0.0, 0.0]
    model = chain([never, never, [0.0, 0.0, 0.0, 0.6, 0.4], [0.3, 0.1, 0.3, 0.2, 0.1], [0.02, 0.9, 0.02, 0.03, 0.03]])
    assert greedy(**model, max_len=5).tokens[0][0] == 3
    best = beam_search(**model, max_len=5, width=2, length_penalty=0)
    assert best.tokens == [[4]]
    assert_close(float(best.log_probs), math.log(0.4 * 0.9))


def test_a_sentence_that_has_ended_is_not_pushed_out_by_what_only_looks_better():
    """The empty sentence has 0.2. Behind 3 there are two beginnings of 0.4, but neither ends with more than 0.1."""
    never, fades = [0.0, 1.0, 0.0, 0.0, 0.0], [0.25, 0.25, 0.0, 0.25, 0.25]
    model = chain([fades, never, [0.0, 0.2, 0.0, 0.8, 0.0], [0.5, 0.0, 0.0, 0.0, 0.5], fades])
    for width in (2, 3, 9):
        best = beam_search(**model, max_len=6, width=width, length_penalty=0)
        assert best.tokens == [[]]
        assert_close(float(best.log_probs), math.log(0.2))


def test_log_probabilities_and_logits_give_the_same():
    model = Table(1)
    shifted = beam_search(**model.arguments(width=3))

    def step(tokens, state):
        logits, state = model.step(tokens, state)
        return torch.log_softmax(logits, -1), state

    plain = beam_search(**model.arguments(width=3, step=step))
    assert plain.tokens == shifted.tokens
    assert_close(plain.log_probs, shifted.log_probs)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_low_precision_logits_are_summed_in_single(dtype):
    logits = torch.randn(1, 6).to(dtype)
    logits[:, END] = -30
    found = greedy(lambda tokens, state: (logits, state), None, torch.tensor([0]), END, max_len=100)
    assert found.log_probs.dtype == torch.float32
    assert_close(found.log_probs, 100 * torch.log_softmax(logits.float(), -1).max(-1).values, rtol=1e-4, atol=0)


def writes(lengths):
    """A model that writes token 2 as often as its sentence is long, and counts the rows that it is asked for."""
    asked = []

    def step(tokens, left):
        asked.append(len(tokens))
        logits = torch.zeros(len(tokens), 4)
        logits[:, 2], logits[:, END] = 20.0 * (left > 0), 20.0 * (left <= 0)
        weights = torch.stack([left, -left], dim=1).float()
        return logits, left - 1, weights

    return {"step": step, "state": torch.tensor(lengths), "start": torch.zeros(len(lengths)).long(), "end": END}, asked


def test_stops_when_every_sentence_has_ended_and_greedy_drops_those_that_have():
    model, asked = writes([2, 0, 3, 2])
    found = greedy(**model, max_len=50)
    assert found.tokens == [[2, 2], [], [2, 2, 2], [2, 2]] and asked == [4, 3, 3, 1]
    model, asked = writes([2, 0, 3])
    assert beam_search(**model, max_len=50, width=1).tokens == [[2, 2], [], [2, 2, 2]] and len(asked) == 4
    model, asked = writes([2, 0, 3])
    assert beam_search(**model, max_len=50, width=2).tokens == [[2, 2], [], [2, 2, 2]] and len(asked) < 10


def test_greedy_keeps_the_attention_weights_of_each_step():
    model, _ = writes([2, 0, 3])
    weights = greedy(**model, max_len=50).weights
    assert weights.shape == (3, 4, 2)
    assert weights[:, :, 0].tolist() == [[2, 1, 0, 0], [0, 0, 0, 0], [3, 2, 1, 0]]
    assert torch.equal(weights[:, :, 1], -weights[:, :, 0])


def test_the_start_may_be_a_list_or_an_array():
    for start in ([0, 0, 0], np.zeros(3, dtype=np.int64)):
        model, _ = writes([2, 0, 3])
        assert greedy(**{**model, "start": start}, max_len=9).tokens == [[2, 2], [], [2, 2, 2]]
        model, _ = writes([2, 0, 3])
        assert beam_search(**{**model, "start": start}, max_len=9).tokens == [[2, 2], [], [2, 2, 2]]


def test_cut_at_max_len():
    for max_len in (1, 2, 3):
        model, asked = writes([5, 1])
        assert greedy(**model, max_len=max_len).tokens == [[2] * max_len, [2]] and len(asked) == max_len
        model, _ = writes([5, 1])
        assert beam_search(**model, max_len=max_len, width=3).tokens == [[2] * max_len, [2]]


def test_the_start_may_be_the_end_token():
    model, _ = writes([2, 0])
    model["start"] = torch.full((2,), END)
    assert greedy(**model, max_len=9).tokens == beam_search(**model, max_len=9).tokens == [[2, 2], []]


def test_a_token_that_may_not_follow_is_never_written():
    def step(tokens, state):
        return torch.tensor([-math.inf, 0.0, 1.0]).expand(len(tokens), 3), state

    for found in (
        greedy(step, None, torch.zeros(2).long(), END, 4),
        beam_search(step, None, torch.zeros(2).long(), END, 4, width=40),
    ):
        assert found.log_probs.isfinite().all() and all(0 not in tokens for tokens in found.tokens)


def test_a_beam_wider_than_there_are_sentences_stops_all_the_same():
    """Two sentences exist, `3` and the empty one; ten seats, and fifty steps to fill them in."""
    only_end, asked = [0.0, 1.0, 0.0, 0.0], []
    model = chain([only_end, only_end, [0.0, 0.4, 0.0, 0.6], only_end])

    def step(tokens, state):
        asked.append(len(tokens))
        return model["step"](tokens, state)

    assert beam_search(**{**model, "step": step}, max_len=50, width=10).tokens == [[3]] and len(asked) == 2


def test_steps_and_seats_may_be_numbers_of_numpys():
    model, _ = writes([2, 3])
    assert greedy(**model, max_len=np.int64(5)).tokens == greedy(**model, max_len=5).tokens
    found = beam_search(**model, max_len=np.uint8(5), width=np.int64(3))
    assert found.tokens == beam_search(**model, max_len=5, width=3).tokens


def test_no_gradient_is_kept():
    bias = torch.zeros(4, requires_grad=True)
    for search in (greedy, beam_search):
        found = search(lambda tokens, state: (bias.expand(len(tokens), 4), state), None, torch.tensor([0]), END, 3)
        assert not found.log_probs.requires_grad


@pytest.mark.parametrize("search", [greedy, beam_search])
def test_bad_input_is_refused_in_words(search):
    model, _ = writes([2, 3])
    for changed, words in [
        ({"start": torch.zeros(0).long()}, "at least one"),
        ({"start": torch.zeros(2, 1).long()}, r"\(sentences,\)"),
        ({"max_len": 0}, "max_len must be a whole number, 1 or more; got 0"),
    ]:
        with pytest.raises(ValueError, match=words):
            search(**{**model, "max_len": 5, **changed})
    with pytest.raises(ValueError, match="NaN"):
        search(lambda tokens, state: (torch.full((2, 4), math.nan), state), None, torch.zeros(2).long(), END, 5)


def test_translate_is_the_search_over_the_tokenizers_ids():
    torch.manual_seed(0)
    read, write = WordTokenizer(["a b c"]), WordTokenizer(["u v w x"])
    model = Seq2Seq(len(read), len(write), 6, 8).double()
    sentences = ["a b", "c", "", "b nowhere a", ["a", "b"]]  # shorter, empty, with an unknown word, as tokens
    source, mask = read.batch(sentences)
    for width in (1, 3):
        ask = {**model.decoding(source, mask.sum(1)), "max_len": 7}
        ids = greedy(**ask).tokens if width == 1 else beam_search(**ask, width=width, length_penalty=1.0).tokens
        found = translate(model, read, write, sentences, max_len=7, width=width, length_penalty=1.0)
        assert found == [write.decode(row) if sentence else [] for row, sentence in zip(ids, sentences, strict=True)]
        assert found[0] == found[4] and found[2] == []
        alone = [translate(model, read, write, [s], 7, width, 1.0)[0] for s in sentences]
        assert found == alone  # neighbours and their padding do not matter
    with pytest.raises(ValueError, match="no sentence"):
        translate(model, read, write, [])


def test_exact_match_counts_whole_sentences():
    assert exact_match([["a"], ["a", "b"], [], ["b", "a"]], [["a"], ["a"], [], ["a", "b"]]) == 0.5
