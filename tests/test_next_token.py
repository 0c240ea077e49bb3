"""language/next_token.py: windows are stretches of the text, the loss is PyTorch's, and each bit has its context."""

import math
import random
from itertools import islice

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close

from course_lib.language.gpt import GPT, GPTConfig
from course_lib.language.muon import Muon
from course_lib.language.next_token import bits_per_token, next_token_loss, small_gpt, subwords, three_rounds, windows
from course_lib.train import fit

V = 7


def a_gpt(max_len=12, dropout=0.0, dtype=torch.float64):
    """A GPT whose answers depend on all that it reads: at its small first weights every context would do."""
    torch.manual_seed(1)
    model = small_gpt(V, max_len, 8, 2, 2, dropout).to(dtype)
    for weight in model.parameters():
        nn.init.normal_(weight, std=weight.shape[-1] ** -0.5 if weight.ndim > 1 else 0.5)
    return model


def a_text(N, seed=0):
    return torch.randint(V, (N,), generator=torch.Generator().manual_seed(seed))


# --- windows


@pytest.mark.parametrize("seed", range(12))
def test_each_window_is_a_stretch_of_the_text(seed):
    draw = random.Random(seed)
    batch, length = draw.choice([1, 2, 7]), draw.choice([1, 2, 5, 16])
    N = length + draw.choice([1, 2, 3, 50])
    for found in islice(windows(torch.arange(N), batch, length, seed), 5):
        assert found.shape == (batch, length + 1) and found.dtype == torch.int64
        assert torch.equal(found, found[:, :1] + torch.arange(length + 1))  # no step is left out, none is taken twice
        assert 0 <= found.min() and found.max() < N


def test_every_place_is_reached_and_none_more_than_the_others():
    starts = torch.cat([found[:, 0] for found in islice(windows(torch.arange(13), 100, 3), 100)])
    counts = starts.bincount(minlength=10)
    assert len(counts) == 10  # 0 to 9: the last window ends with the text
    assert (counts - 1000).abs().max() < 150  # 30 is what chance alone makes of 1,000


def test_a_seed_draws_the_same_windows_again_and_another_seed_others():
    torch.manual_seed(5)
    drawn = torch.rand(1)
    text = torch.arange(1000)
    some = [torch.stack(list(islice(windows(text, 4, 8, seed), 3))) for seed in (3, 3, 4)]
    assert torch.equal(some[0], some[1]) and not torch.equal(some[0], some[2])
    assert not torch.equal(some[0][0], some[0][1])
    torch.manual_seed(5)
    assert torch.equal(torch.rand(1), drawn)
    next(windows(text, 4, 8))
    state = torch.get_rng_state()
    next(windows(text, 4, 8))
    assert torch.equal(torch.get_rng_state(), state)  # dropout draws as it would without


def test_a_text_may_be_a_list():
    text = [1, 2, 3, 4, 5]
    assert torch.equal(next(windows(text, 2, 3)), next(windows(torch.tensor(text), 2, 3)))
    model = a_gpt(4)
    assert bits_per_token(model, text) == bits_per_token(model, torch.tensor(text))


# --- the loss


def test_the_loss_is_torchs():
    """By hand: -log softmax(logits)[next token], the mean over all but the first token of each row."""
    model, ids = a_gpt(), a_text(3 * 9).view(3, 9)
    logits = model(ids[:, :-1])
    by_hand = [-logits[b, t].log_softmax(-1)[ids[b, t + 1]] for b in range(3) for t in range(8)]
    assert_close(next_token_loss(model, ids), torch.stack(by_hand).mean(), atol=1e-12, rtol=0)
    assert_close(next_token_loss(model, ids), nn.CrossEntropyLoss()(logits.mT, ids[:, 1:]), atol=1e-12, rtol=0)


def test_the_loss_of_fixed_logits():
    """The model says (0, log 3) everywhere: token 1 has probability 3/4."""

    def model(ids):
        return torch.tensor([0.0, math.log(3)]).expand(*ids.shape, 2)

    ids = torch.tensor([[0, 1, 1], [1, 0, 1]])
    assert_close(next_token_loss(model, ids), torch.tensor(-(3 * math.log(3 / 4) + math.log(1 / 4)) / 4))


def test_the_last_token_is_an_answer_only_and_the_first_is_none():
    class Shown(nn.Module):
        def forward(self, ids):
            self.read = ids
            return torch.zeros(*ids.shape, V)

    model, ids = Shown(), a_text(10).view(2, 5)
    assert_close(next_token_loss(model, ids), torch.tensor(float(V)).log())
    assert torch.equal(model.read, ids[:, :-1])


# --- bits


def asked_one_by_one(model, ids, length):
    """Bits of each token that is asked, and how many stand before it in its window: one token at a time."""
    bits, context = [], []
    for first in range(0, len(ids) - length, math.ceil(length / 2)):
        for at in range(first + length // 2 + 1, first + length + 1):
            logits = model(ids[None, first:at])[0, -1]
            bits.append(-logits.log_softmax(-1)[ids[at]].item() / math.log(2))
            context.append(at - first)
    return bits, context


@pytest.mark.parametrize("length", [2, 3, 4, 5, 8, 11, 12])
@pytest.mark.parametrize("more", [1, 2, 5, 6, 30])
def test_bits_are_those_of_one_token_after_the_other(length, more):
    """bits_per_token: each asked token has half a window before it, and a full one at most; each is asked once."""
    model, ids = a_gpt(), a_text(length + more)
    with torch.no_grad():
        bits, context = asked_one_by_one(model, ids, length)
    assert min(context) > length / 2 and max(context) == length
    rows = 1 + (more - 1) // math.ceil(length / 2)
    assert len(bits) == rows * math.ceil(length / 2)
    assert math.isclose(bits_per_token(model, ids, length), sum(bits) / len(bits), rel_tol=1e-10)


def test_a_context_that_is_cut_short_would_be_seen():
    """The control: the same tokens with one token less before each have other bits."""
    model, ids = a_gpt(), a_text(40)
    with torch.no_grad():
        logits = torch.stack([model(ids[None, at - 6 : at])[0, -1] for at in range(7, 40)])
    shorter = F.cross_entropy(logits, ids[7:]).item() / math.log(2)
    assert abs(bits_per_token(model, ids) - shorter) > 1e-3


def test_each_token_is_asked_once_and_none_of_the_first_half():
    class Counts(nn.Module):
        """Says of every token that it follows itself plus one, but for one pair that it has wrong."""

        max_len = 6

        def __init__(self, wrong):
            super().__init__()
            self.wrong = nn.Parameter(torch.tensor(wrong))

        def forward(self, ids):
            sure = F.one_hot(ids + 1, 40) * 100.0
            return torch.where((ids == self.wrong - 1)[..., None], 0.0, sure)  # log2(40) bits for that token

    asked = [round(bits_per_token(Counts(float(n)), torch.arange(15)) * 9 / math.log2(40), 4) for n in range(1, 15)]
    assert asked == [0] * 3 + [1] * 9 + [0] * 2  # windows at 0, 3, 6 ask 4-6, 7-9, 10-12; 13 and 14 fill no window


def test_a_text_that_fills_no_second_window_is_read_in_one():
    model, ids = a_gpt(), a_text(18)
    whole = F.cross_entropy(model(ids[None, :12])[0, 6:], ids[7:13]).item() / math.log(2)
    for N in (13, 14, 18):  # the second window would begin at 6 and need 19 tokens
        assert math.isclose(bits_per_token(model, ids[:N]), whole, rel_tol=1e-10)
    assert not math.isclose(bits_per_token(model, a_text(19)), whole, rel_tol=1e-4)


def test_many_windows_are_those_of_one_batch():
    """More tokens than are read at once: 2,048 of them, in windows of 2 and of 1,500."""
    model = a_gpt(1500, dtype=torch.float32)
    for length, N in ((2, 2500), (1500, 3100)):
        ids = a_text(N)
        rows = ids.unfold(0, length + 1, length - length // 2)
        with torch.no_grad():
            logits = model(rows[:, :-1])[:, length // 2 :]
        expected = F.cross_entropy(logits.flatten(0, 1), rows[:, length // 2 + 1 :].flatten()).item() / math.log(2)
        assert math.isclose(bits_per_token(model, ids, length), expected, rel_tol=1e-5)


def test_a_model_that_knows_nothing_pays_the_vocabulary():
    model = a_gpt()
    nn.init.zeros_(model.tokens.weight)  # the read-out is the same table
    assert math.isclose(bits_per_token(model, a_text(100)), math.log2(V), rel_tol=1e-12)


@pytest.mark.parametrize("training", [True, False])
def test_a_model_is_left_in_its_mode_and_measured_without_dropout(training):
    model, ids = a_gpt(dropout=0.5).train(training), a_text(50)
    found = bits_per_token(model, ids)
    assert model.training == model.dropout.training == training
    assert found == bits_per_token(model, ids) == bits_per_token(a_gpt(), ids)
    assert all(weight.grad is None for weight in model.parameters())
    with pytest.raises(ValueError, match="ids from 0 to 6"):
        bits_per_token(model, ids + 1)
    assert model.training == model.dropout.training == training  # after an error too


def test_a_text_elsewhere_than_the_model_is_brought_to_it():
    """A model on a device gets its windows there: here "there" is a device that keeps no numbers.

    That nothing waits for a device but once, at the end, is shown in test_accelerator.py.
    """
    with torch.device("meta"):
        model = small_gpt(V, 12, 8, 2, 2, 0.0)
    seen = []
    model.register_forward_hook(lambda module, given, out: seen.append((given[0].device, out.device)))
    with pytest.raises((RuntimeError, NotImplementedError), match="meta"):  # the one look, which has nothing to see
        bits_per_token(model, a_text(30))
    assert {device.type for pair in seen for device in pair} == {"meta"}


# --- the parts of the stored GPT


@pytest.mark.slow
def test_the_parts_of_the_stored_gpt_train_it():
    """subwords, small_gpt, three_rounds: 1,256 tokens at most, a GPT of those sizes, Muon with three rounds."""
    text = "to be or not to be, that is the question: " * 30
    tokens = subwords(text)
    ids = tokens.encode(text)
    assert 256 < len(tokens) <= 1256 and tokens.decode(ids) == text and len(ids) < len(text) / 3
    torch.manual_seed(0)
    model = small_gpt(len(tokens), 16, 24, 3, 2, 0.1)
    assert isinstance(model, GPT) and model.config == GPTConfig(len(tokens), 16, 24, 3, 2, 0.1)
    optimiser = three_rounds(model)
    assert isinstance(optimiser, Muon)
    assert {group["rounds"] for group in optimiser.param_groups} == {3}
    inside = {id(weight) for weight in optimiser.param_groups[0]["params"]}
    assert inside == {id(w) for name, w in model.named_parameters() if name.startswith("blocks") and w.ndim == 2}
    before = bits_per_token(model, ids)
    drawn = windows(ids, 8, 16)
    how = {"device": torch.device("cpu"), "progress": False, "optimiser": three_rounds}
    fit(model, drawn, next_token_loss, steps=40, lr=0.02, **how)
    assert bits_per_token(model, ids) < 3 < 7 < before  # the vocabulary is worth log2(279) = 8.1 bits


def test_sizes_of_a_gpt_that_do_not_fit_are_refused_in_words():
    with pytest.raises(ValueError, match="multiple of n_heads"):
        small_gpt(10, 8, 9, 2, 1, 0.0)


# --- bad input


@pytest.mark.parametrize(
    "wrong, words",
    [
        (lambda: next(windows(a_text(8), 2, 8)), r"Windows of 8 tokens .* longer than that; got \(8,\)"),
        (lambda: next(windows(a_text(8).view(2, 4), 2, 1)), r"\(N,\) longer than that; got \(2, 4\)"),
        (lambda: bits_per_token(a_gpt(), a_text(12)), r"Windows of 12 tokens .* got \(12,\)"),
        (lambda: bits_per_token(a_gpt(), a_text(30), 13), "13 tokens long, and this model reads 12"),
    ],
)
def test_bad_input_is_refused_in_words(wrong, words):
    with pytest.raises(ValueError, match=words):
        wrong()
