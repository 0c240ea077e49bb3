"""The character model: what it may see, how text is cut into streams, and that its bits are counted right."""

import itertools
import math

import numpy as np
import pytest
import torch
from torch import nn
from torch.testing import assert_close

from course_lib.recurrent.language_model import CharRNN, TruncatedBPTT, bits_per_character, streams
from course_lib.recurrent.lstm import GRU, LSTM
from course_lib.recurrent.rnn import RNN
from course_lib.train import fit, seed_everything


def model(vocab=5, layers=1):
    torch.manual_seed(1)
    return CharRNN(vocab, RNN(6, 8, layers))


def test_shapes_and_no_look_into_the_future():
    m, tokens = model(layers=2).double(), torch.randint(5, (3, 9))
    logits, state = m(tokens)
    assert logits.shape == (3, 9, 5) and state.shape == (2, 3, 8)
    changed = tokens.clone()
    changed[:, 5:] = (changed[:, 5:] + 1) % 5
    assert_close(m(changed)[0][:, :5], logits[:, :5], atol=0, rtol=0)
    assert (m(changed)[0][:, 5:] != logits[:, 5:]).any()


@pytest.mark.parametrize("length, batch, chunk", [(101, 4, 5), (26, 1, 25), (50, 7, 1), (1000, 13, 11)])
def test_streams_continue_and_targets_are_one_ahead(length, batch, chunk):
    """streams: a chunk begins where the one before it ended, and nothing is read twice in a round."""
    ids = torch.arange(length)
    per_epoch = (length - 1) // batch // chunk
    pairs = list(itertools.islice(streams(ids, batch, chunk), per_epoch + 1))
    for x, y in pairs:
        assert x.shape == y.shape == (batch, chunk) and torch.equal(y, x + 1)
    for (x, _), (following, _) in itertools.pairwise(pairs[:-1]):
        assert torch.equal(following[:, 0], x[:, -1] + 1)
    assert torch.equal(pairs[-1][0], pairs[0][0])  # endless
    assert len(torch.cat([x for x, _ in pairs[:-1]], 1).unique()) == batch * chunk * per_epoch  # nothing read twice


@pytest.mark.parametrize("layer", [LSTM(6, 8, 2), GRU(6, 8)])
def test_gated_layers_carry_their_state_over_chunks_and_through_a_saved_run(layer):
    m, ids = CharRNN(5, layer).double(), torch.randint(5, (2, 13))
    whole = nn.functional.cross_entropy(m(ids[:, :-1])[0].flatten(0, 1), ids[:, 1:].flatten())
    loss_fn, parts = TruncatedBPTT(), []
    for start in range(0, 12, 4):
        parts.append(loss_fn(m, (ids[:, start : start + 4], ids[:, start + 1 : start + 5])))
        saved, loss_fn = loss_fn.state_dict(), TruncatedBPTT()
        loss_fn.load_state_dict(saved)
    assert_close(sum(parts) / 3, whole, atol=1e-12, rtol=0)


@pytest.mark.parametrize("length, batch, chunk", [(10, 4, 3), (0, 1, 1)])
def test_a_text_too_short_is_refused_in_words(length, batch, chunk):
    with pytest.raises(ValueError, match="streams in chunks of"):
        next(streams(torch.arange(length), batch, chunk))


def test_truncation_carries_the_state_and_cuts_the_gradient():
    """TruncatedBPTT: chunk by chunk the loss of one long pass, and a gradient that is not its."""
    m, ids = model().double(), torch.randint(5, (2, 13))
    whole = nn.functional.cross_entropy(m(ids[:, :-1])[0].flatten(0, 1), ids[:, 1:].flatten())
    loss_fn, parts = TruncatedBPTT(), []
    for start in range(0, 12, 4):
        parts.append(loss_fn(m, (ids[:, start : start + 4], ids[:, start + 1 : start + 5])))
    assert_close(sum(parts) / 3, whole, atol=1e-12, rtol=0)  # the same loss, so the state was carried
    assert not loss_fn.state.requires_grad
    cut = torch.autograd.grad(sum(parts) / 3, m.rnn.w_h[0])[0]
    full = torch.autograd.grad(whole, m.rnn.w_h[0])[0]
    assert (cut - full).abs().max() > 1e-6  # another gradient, so it was cut


def test_ids_may_be_a_list_or_an_array():
    m, text = model(), [0, 1, 2, 3, 4] * 5
    for ids in (text, np.array(text), np.array(text, dtype=np.uint8)):
        x, y = next(streams(ids, 2, 4))
        assert x.tolist() == [[0, 1, 2, 3], [2, 3, 4, 0]] and y.tolist() == [[1, 2, 3, 4], [3, 4, 0, 1]]
        assert bits_per_character(m, ids, 2, 4) == bits_per_character(m, torch.tensor(text), 2, 4)
    assert torch.equal(m([[1, 2], [3, 4]])[0], m(torch.tensor([[1, 2], [3, 4]]))[0])
    assert torch.equal(
        m.sample(np.array([[1, 2]]), 3, temperature=0), m.sample(torch.tensor([[1, 2]]), 3, temperature=0)
    )


def test_bits_by_eye_and_against_one_long_pass():
    blind = model().double()
    with torch.no_grad():
        blind.readout.weight.zero_()
        blind.readout.bias.zero_()
    ids = torch.randint(5, (2 * 3 * 4 + 1,))
    assert math.isclose(bits_per_character(blind, ids, n_streams=2, chunk=4), math.log2(5), rel_tol=1e-9)
    m = model().double()
    logits = m(ids[:24].view(2, 12))[0].detach()
    nats = nn.functional.cross_entropy(logits.flatten(0, 1), ids[1:25].view(2, 12).flatten())
    assert math.isclose(bits_per_character(m, ids, n_streams=2, chunk=4), float(nats) / math.log(2), rel_tol=1e-9)


def test_sampling_follows_the_temperature():
    m, prompt = model(), torch.tensor([[1, 2, 3]])
    greedy = m.sample(prompt, 6, temperature=0)
    assert greedy.shape == (1, 9) and torch.equal(greedy[:, :3], prompt)
    tokens = prompt
    for _ in range(6):
        tokens = torch.cat([tokens, m(tokens)[0][:, -1:].argmax(-1)], 1)
    assert torch.equal(greedy, tokens)
    expected = torch.softmax(m(prompt)[0][0, -1] / 0.5, -1)
    drawn = m.sample(prompt.expand(20_000, -1), 1, temperature=0.5, generator=torch.Generator().manual_seed(0))[:, -1]
    assert_close(torch.bincount(drawn, minlength=5) / 20_000, expected, atol=0.015, rtol=0)
    assert torch.equal(m.sample(prompt, 0), prompt)
    assert torch.equal(m.sample(prompt, 6, temperature=1e-40), greedy), "too cold to divide by"


@pytest.mark.parametrize(
    "tokens, error, words",
    [
        (torch.zeros(1, 3), TypeError, "encode the text first"),
        (torch.tensor([[0, 5]]), ValueError, r"ids from 0 to 4; got 0 \.\.\. 5"),
        (torch.zeros(0, 3, dtype=torch.long), ValueError, r"not empty; got torch.int64, \(0, 3\)"),
    ],
)
def test_bad_tokens_are_refused_in_words(tokens, error, words):
    with pytest.raises(error, match=words):
        model()(tokens)


@pytest.mark.slow
def test_learns_a_rhyme_by_heart():
    seed_everything(0)
    ids = torch.tensor([0, 1, 2, 0, 3, 4] * 40)
    m = model()
    fit(m, streams(ids, 4, 12), TruncatedBPTT(), steps=250, lr=2e-2, device=torch.device("cpu"), progress=False)
    assert bits_per_character(m, ids, n_streams=1, chunk=120) < 0.1
