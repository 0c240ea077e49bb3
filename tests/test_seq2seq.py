"""translation/seq2seq.py: padding changes nothing, a step is the forward pass, some pairs are learnt and translated."""

import itertools
import math

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from course_lib.recurrent.lstm import lstm_step
from course_lib.show.record import capture
from course_lib.text.pairs import END, PADDING, START, UNKNOWN, batches, masked_loss, shift
from course_lib.translation.decode import beam_search, greedy
from course_lib.translation.seq2seq import Encoder, Seq2Seq

KINDS = [
    {},
    {"cell": "gru"},
    {"bidirectional": True, "n_layers": 2},
    {"attention": "additive", "bidirectional": True},
    {"attention": "dot", "cell": "gru"},
    {"attention": "general", "n_layers": 2},
    {"attention": "concat", "cell": "gru", "bidirectional": True},
    {"attention": "additive", "input_feeding": True},
    {"attention": "dot", "input_feeding": True, "cell": "gru"},
    {"attention": "general", "input_feeding": True, "n_layers": 2, "bidirectional": True},
]
every_kind = pytest.mark.parametrize("kind", KINDS, ids=str)


def model(kind, source_vocab=11, target_vocab=13):
    torch.manual_seed(0)
    return Seq2Seq(source_vocab, target_vocab, 6, 8, **kind).double()


def ids(rows):
    return torch.nn.utils.rnn.pad_sequence([torch.tensor(row).long() for row in rows], True, PADDING)


def a_batch():
    """Sentences of unlike lengths, one of them empty, one of one token."""
    source = ids([[4, 5, 6, 7, 8], [9], [], [3, 4, 3]])
    target = ids([[START, 5, 6, 12, END], [START, 4, END], [START, END], [START, 3, 3, 3, 7, END]])
    return source, torch.tensor([5, 1, 0, 3]), *shift(target)


# --- padding


@every_kind
def test_padding_changes_nothing(kind):
    m = model(kind)
    source, lengths, target_in, target_out = a_batch()
    real, written = torch.arange(5) < lengths[:, None], target_out != PADDING
    results = []
    for noise in range(3):
        if noise:
            source = torch.where(real, source, torch.randint(11, source.shape))
            target_in = torch.where(written, target_in, torch.randint(13, target_in.shape))
        wider = F.pad(source, (0, noise), value=noise)  # more of it, too
        logits, weights = m(wider, lengths, target_in)
        loss = masked_loss(logits, target_out)
        m.zero_grad()
        loss.backward()
        found = [loss, logits[written], *(p.grad for p in m.parameters())]
        if "attention" in kind:
            assert weights[..., 5:].sum() == 0
            found.append(weights[..., :5][written])
        results.append(found)
    for one, two in zip(results[0] * 2, results[1] + results[2], strict=True):
        assert_close(one, two, atol=1e-12, rtol=0)


@every_kind
def test_a_sentence_alone_gives_what_it_gives_in_a_batch(kind):
    m = model(kind)
    source, lengths, target_in, target_out = a_batch()
    logits, weights = m(source, lengths, target_in)
    assert logits.shape == (4, 5, 13)
    for row in range(4):
        s, t = lengths[row], (target_out[row] != PADDING).sum()
        alone, alone_weights = m(source[row : row + 1, :s], lengths[row : row + 1], target_in[row : row + 1, :t])
        assert_close(alone[0], logits[row, :t], atol=1e-12, rtol=0)
        if "attention" in kind:
            assert_close(alone_weights[0, :, :s], weights[row, :t, :s], atol=1e-12, rtol=0)


@every_kind
def test_lengths_may_be_left_to_the_padding(kind):
    m = model(kind)
    source, lengths, target_in, _ = a_batch()
    assert_close(m(source, None, target_in)[0], m(source, lengths, target_in)[0], atol=0, rtol=0)
    gap = ids([[4, PADDING, 5], [4, 5, 6]])  # a padding id inside a sentence does not cut it short
    assert_close(m(gap, None, target_in[:2])[0], m(gap, torch.tensor([3, 3]), target_in[:2])[0], atol=0, rtol=0)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if "attention" in kind], ids=str)
def test_weights_sum_to_one_over_real_tokens_and_a_hidden_token_gets_none(kind):
    m = model(kind)
    source, lengths, target_in, target_out = a_batch()
    _, weights = m(source, lengths, target_in)
    assert weights.shape == (4, 5, 5)
    assert_close(weights.sum(-1), (lengths > 0).double()[:, None].expand(4, 5))
    assert weights[torch.arange(5).expand(4, 5, 5) >= lengths[:, None, None]].abs().max() == 0
    mask = torch.ones(4, 5, dtype=torch.bool)
    mask[0, 2] = mask[3] = False
    logits, hidden = m(source, lengths, target_in, mask)
    assert hidden[0, :, 2].abs().max() == 0 and hidden[3].abs().max() == 0 and hidden[1, :, 1:].abs().max() == 0
    assert_close(hidden[0].sum(-1), torch.ones(5).double())
    assert logits.isfinite().all()
    masked_loss(logits, target_out).backward()
    assert all(p.grad.isfinite().all() for p in m.parameters())


@every_kind
def test_nothing_of_the_target_is_seen_before_it_is_written(kind):
    m = model(kind)
    source, lengths, target_in, _ = a_batch()
    changed = target_in.clone()
    changed[:, 3:] = torch.randint(13, changed[:, 3:].shape)
    assert_close(m(source, lengths, changed)[0][:, :3], m(source, lengths, target_in)[0][:, :3], atol=0, rtol=0)


@every_kind
def test_the_source_is_read(kind):
    m = model(kind)
    source, lengths, target_in, _ = a_batch()
    before = m(source, lengths, target_in)[0]
    source[0, 0], source[3, 2] = 10, 10
    moved = (m(source, lengths, target_in)[0] - before).abs().amax(dim=(1, 2))
    assert moved[0] > 1e-4 and moved[3] > 1e-4 and moved[1] == moved[2] == 0


# --- one step, and the whole


@every_kind
def test_a_step_is_the_forward_pass_at_its_place(kind):
    m = model(kind)
    source, lengths, target_in, _ = a_batch()
    logits, weights = m(source, lengths, target_in)
    memory, state = m.encode(source, lengths)
    assert memory.shape == (4, 5, 8)
    mask = torch.arange(5) < lengths[:, None]
    for t in range(5):
        logits_t, state, weights_t = m.step(target_in[:, t], state, memory, mask)
        assert_close(logits_t, logits[:, t], atol=1e-12, rtol=0)
        assert (weights_t is None) == ("attention" not in kind)
        if weights is not None:
            assert_close(weights_t, weights[:, t], atol=1e-12, rtol=0)


@every_kind
def test_decoding_is_what_the_forward_pass_says_of_its_own_words(kind):
    m = model(kind)
    source, lengths, _, _ = a_batch()
    m.decoder.readout.weight.data *= 20  # surer of itself, so that sentences end at unlike times
    for found in (
        greedy(**m.decoding(source, lengths), max_len=9),
        beam_search(**m.decoding(source, lengths), max_len=9, width=4),
    ):
        for row, tokens in enumerate(found.tokens):
            written = torch.tensor([tokens + [END]])[:, :9]
            read = F.pad(written[:, :-1], (1, 0), value=START)
            logits, weights = m(source[row : row + 1], lengths[row : row + 1], read)
            log_p = torch.log_softmax(logits, -1).gather(2, written[..., None]).sum()
            assert_close(found.log_probs[row], log_p.detach(), atol=1e-8, rtol=0)
            if found.weights is not None:
                assert_close(found.weights[row, : written.shape[1]], weights[0].detach(), atol=1e-8, rtol=0)
                assert found.weights[row, written.shape[1] :].abs().sum() == 0


def test_decoding_hides_what_the_mask_hides_and_keeps_no_graph():
    m = model({"attention": "dot"})
    source, lengths, _, _ = a_batch()
    mask = torch.ones(4, 5, dtype=torch.bool)
    mask[0, 1] = False
    ready = m.decoding(source, lengths, mask)
    weights = greedy(**ready, max_len=4).weights
    assert weights[0, :, 1].abs().max() == 0 and weights[0, :, 2].min() > 0 and weights[1, :, 1:].abs().max() == 0
    assert not ready["state"][1].requires_grad


@every_kind
def test_recorded_it_gives_the_same_numbers(kind):
    m = model(kind)
    source, lengths, target_in, _ = a_batch()
    silent, weights = m(source, lengths, target_in)
    with capture(m) as maps:
        recorded, _ = m(source, lengths, target_in)
    assert_close(recorded, silent, atol=1e-12, rtol=0)
    assert maps.over_time("encoder.rnn.hidden.0").shape[:2] == (4, 5)
    if "attention" in kind:
        heard = maps.over_time("decoder.attention.weights")  # one call for all, or one call a step
        assert_close(heard.flatten(1, 2), weights.detach(), atol=1e-12, rtol=0)


def test_the_decoder_is_one_step_after_another_from_the_encoders_state():
    """Decoder.forward: the target's embeddings through the LSTM's steps from (h, c), then the readout."""
    decoder, target = model({}).decoder, torch.randint(13, (2, 4))
    h, c = torch.randn(2, 2, 8).double()
    logits, (last_h, last_c), weights = decoder(target, (h[None], c[None]))
    for t in range(4):
        h, c = lstm_step(decoder.embed.weight[target[:, t]], h, c, *decoder.rnn.weights())
        assert_close(logits[:, t], h @ decoder.readout.weight.T + decoder.readout.bias)
    assert_close((last_h[0], last_c[0]), (h, c))
    assert weights is None


@pytest.mark.parametrize("feeding", [False, True])
def test_it_looks_as_the_paper_says(feeding):
    """AttentionDecoder.look, AttentionDecoder: scores, weights, context and s~ written out for each step."""
    decoder = model({"attention": "general", "input_feeding": feeding}).decoder
    memory, (h, c) = torch.randn(2, 5, 8).double(), torch.randn(2, 1, 2, 8).double()
    target, mask = torch.randint(13, (2, 4)), torch.tensor([[True] * 5, [True, True, False, True, False]])
    logits, last, weights = decoder(target, decoder.start((h, c)), memory, mask)
    h, c, fed = h[0], c[0], torch.zeros(2, 8).double()
    for t in range(4):
        x = decoder.embed.weight[target[:, t]]
        h, c = lstm_step(torch.cat([x, fed], dim=-1) if feeding else x, h, c, *decoder.rnn.weights())
        scores = torch.einsum("bi,ji,bsj->bs", h, decoder.attention.w.weight, memory)
        a = torch.softmax(scores.masked_fill(~mask, -math.inf), dim=-1)
        context = torch.einsum("bs,bsj->bj", a, memory)
        fed = torch.tanh(torch.cat([context, h], dim=-1) @ decoder.combine.weight.T)
        assert_close(weights[:, t], a)
        assert_close(logits[:, t], fed @ decoder.readout.weight.T + decoder.readout.bias)
    (last_h, last_c), last_fed = last if feeding else (last, fed[None])
    assert_close(torch.cat([last_h[0], last_c[0], last_fed[0]]), torch.cat([h, c, fed]))


def test_directions_are_put_side_by_side_layer_by_layer():
    torch.manual_seed(0)
    encoder, lengths = Encoder(11, 6, 8, n_layers=3, bidirectional=True), torch.tensor([4, 2])
    source = ids([[4, 5, 6, 7], [8, 9]])
    memory, (h, c) = encoder(source, lengths)
    theirs = encoder.rnn.fused(torch.nn.utils.rnn.pack_padded_sequence(encoder.embed(source), lengths, True))[1]
    for ours, part in ((h, theirs[0]), (c, theirs[1])):
        assert ours.shape == (3, 2, 8)
        for layer in range(3):
            assert_close(ours[layer], torch.cat([part[2 * layer], part[2 * layer + 1]], dim=-1))
    assert_close(h[2, :, :4], torch.stack([memory[0, 3, :4], memory[1, 1, :4]]))  # forward ends at the last real token
    assert_close(h[2, :, 4:], memory[:, 0, 4:])  # backward ends at the first


def test_dropout_is_on_in_training_alone():
    torch.manual_seed(0)
    for kind in ({}, {"attention": "dot"}, {"attention": "dot", "input_feeding": True}):
        m = Seq2Seq(11, 13, 6, 8, dropout=0.5, **kind)
        source, lengths, target_in, _ = a_batch()
        assert not torch.equal(m(source, lengths, target_in)[0], m(source, lengths, target_in)[0])
        m.eval()
        with capture(m, "*.dropout") as maps:
            assert torch.equal(m(source, lengths, target_in)[0], m(source, lengths, target_in)[0])
        assert len(maps["encoder.dropout"]) == 2  # behind the embedding
        assert len(maps["decoder.dropout"]) == 4  # and before the read-out


# --- learning and translating


def test_nothing_but_empty_sentences_is_a_batch_too():
    batch = next(batches([([], []), ([], [4])], 2, 0))
    assert batch[0].shape == (2, 0) and batch[1] == [0, 0]
    for kind in KINDS:
        m = model(kind)
        logits, weights = m(*batch[:3])
        assert logits.shape == (2, 2, 13) and logits.isfinite().all()
        assert weights is None or weights.abs().sum() == 0
        assert all(len(tokens) <= 4 for tokens in greedy(**m.decoding(batch[0]), max_len=4).tokens)
        masked_loss(logits, batch[3]).backward()
        assert all(p.grad is None or p.grad.isfinite().all() for p in m.parameters())


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind",
    [
        pytest.param({}, marks=pytest.mark.full),
        pytest.param({"attention": "additive", "bidirectional": True}, marks=pytest.mark.full),
        {"attention": "dot", "cell": "gru", "input_feeding": True},
    ],
    ids=str,
)
def test_learns_a_few_pairs_by_heart_and_translates_them(kind):
    pairs = [
        ([4, 5, 6], [9, 8, 7]),
        ([6, 5, 4], [7, 8, 9]),
        ([4], [9]),
        ([5, 5, 5, 5, 5, 5], [8, 8]),
        ([7, 8], [6, 5, 4, 4, 4, 5, 6]),
        ([], [10, 11]),
        ([UNKNOWN, 4], [UNKNOWN, 9]),
    ]
    torch.manual_seed(0)
    m = Seq2Seq(11, 13, 16, 32, **kind)
    optimiser = torch.optim.AdamW(m.parameters(), lr=1e-2)
    for source, lengths, target_in, target_out in itertools.islice(batches(pairs, 4, seed=0), 160):
        loss = masked_loss(m(source, lengths, target_in)[0], target_out)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    source, wanted = ids([source for source, _ in pairs]), [target for _, target in pairs]
    for found in (greedy(**m.decoding(source), max_len=20), beam_search(**m.decoding(source), max_len=20, width=3)):
        assert found.tokens == wanted
        assert found.log_probs.min() > -0.7


# --- bad input


def test_bad_names_and_sizes_are_refused_in_words():
    with pytest.raises(ValueError, match="no attention 'luong': choose one of additive, dot, general, concat"):
        Seq2Seq(5, 5, 4, 4, attention="luong")
    with pytest.raises(ValueError, match="no cell 'rnn': choose one of lstm, gru"):
        Seq2Seq(5, 5, 4, 4, cell="rnn")
    with pytest.raises(ValueError, match="choose an attention too"):
        Seq2Seq(5, 5, 4, 4, input_feeding=True)


@every_kind
def test_bad_batches_are_refused_in_words(kind):
    m = model(kind)
    source, lengths, target_in, _ = a_batch()
    for bad_source, bad_lengths, bad_target, words in [
        (source[:0], lengths[:0], target_in[:0], r"The source .* not empty; got torch.int64, \(0, 5\)"),
        (source - 1, None, target_in, "The source must hold ids from 0 to 10; got -1"),
        (source, lengths, target_in + 1, "The target must hold ids from 0 to 12; got 1 ... 13"),
        (source, lengths + 1, target_in, "lengths must hold a whole number from 0 to 5"),
        (source, lengths[:3], target_in, "lengths must hold"),
    ]:
        with pytest.raises(ValueError, match=words):
            m(bad_source, bad_lengths, bad_target)
    for mask in (torch.ones(4, 4, 5, dtype=torch.bool), torch.ones(1, 5, dtype=torch.bool)):
        with pytest.raises(ValueError, match="Seq2Seq needs mask .batch, source time."):
            m(source, lengths, target_in, mask)


@every_kind
def test_ids_and_lengths_may_be_lists_or_arrays(kind):
    m = model(kind)
    source, lengths, target_in, _ = a_batch()
    expected, weights = m(source, lengths, target_in)
    for form in (torch.Tensor.tolist, torch.Tensor.numpy):
        given = [form(part) for part in (source, lengths, target_in)]
        for found, found_weights in (m(*given), m(given[0], None, given[2])):
            assert_close(found, expected)
            assert weights is None or torch.equal(found_weights > 0, weights > 0)
        assert greedy(**m.decoding(*given[:2]), max_len=5).tokens == greedy(**m.decoding(source), max_len=5).tokens


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@every_kind
def test_same_numbers_on_cuda_and_under_autocast(kind, monkeypatch):
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)  # its recurrent layers would keep 10 bits
    m = model(kind).float()
    source, lengths, target_in, target_out = a_batch()
    here = m(source, lengths, target_in)[0]
    found = greedy(**m.decoding(source, lengths), max_len=6)
    m, source, target_in, target_out = m.cuda(), source.cuda(), target_in.cuda(), target_out.cuda()
    for where in (lengths, lengths.cuda(), None):
        assert_close(m(source, where, target_in)[0].cpu(), here, atol=1e-4, rtol=1e-4)
    there = beam_search(**m.decoding(source, lengths), max_len=6, width=1)
    assert there.tokens == found.tokens
    with torch.autocast("cuda", torch.bfloat16):
        loss = masked_loss(m(source, lengths, target_in)[0], target_out)
    loss.backward()
    assert_close(loss.float().cpu(), masked_loss(here, target_out.cpu()), atol=5e-2, rtol=5e-2)
