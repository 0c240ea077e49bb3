"""attention/transformer.py: padding, order and masks; a step is the forward pass; it learns pairs; its size."""

import itertools
import math
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close

from course_lib.attention.attention import padding_mask
from course_lib.attention.positions import LearnedPositions, sinusoidal
from course_lib.attention.transformer import PlacedEmbedding, Transformer, parameter_count
from course_lib.show.record import capture
from course_lib.text.pairs import END, PADDING, START, UNKNOWN, batches, masked_loss, shift
from course_lib.text.tokenizers import WordTokenizer
from course_lib.translation.decode import beam_search, greedy
from course_lib.translation.translator import Translator, translation_loss

KINDS = [
    {},
    {"pre_norm": True, "activation": F.gelu},
    {"n_layers": 1, "d_k": 3, "d_ff": 5, "positions": partial(LearnedPositions, 20)},
]
every_kind = pytest.mark.parametrize("kind", KINDS, ids=["post", "pre", "learned"])


def model(kind, source_vocab=11, target_vocab=13):
    torch.manual_seed(0)
    return Transformer(source_vocab, target_vocab, 8, 2, **({"n_layers": 2} | kind)).double()


def ids(rows):
    return torch.nn.utils.rnn.pad_sequence([torch.tensor(row).long() for row in rows], True, PADDING)


def a_batch():
    """Sentences of unlike lengths, one of them empty, one of one token."""
    source = ids([[4, 5, 6, 7, 8], [9], [], [3, 4, 3]])
    target = ids([[START, 5, 6, 12, END], [START, 4, END], [START, END], [START, 3, 3, 3, 7, END]])
    return source, torch.tensor([5, 1, 0, 3]), *shift(target)


# --- padding, order, masks


@every_kind
@pytest.mark.parametrize("heard", [False, True])
def test_padding_changes_nothing(kind, heard):
    m = model(kind)
    source, lengths, target_in, target_out = a_batch()
    real, written = torch.arange(5) < lengths[:, None], target_out != PADDING
    results = []
    for noise in range(3):
        if noise:
            source = torch.where(real, source, torch.randint(11, source.shape))
            target_in = torch.where(written, target_in, torch.randint(13, target_in.shape))
        with capture(m, "*.weights" if heard else "source"):
            logits, _ = m(F.pad(source, (0, noise), value=noise), lengths, target_in)
        loss = masked_loss(logits, target_out)
        m.zero_grad()
        loss.backward()
        results.append([loss, logits[written], *(p.grad for p in m.parameters())])
    for one, two in zip(results[0] * 2, results[1] + results[2], strict=True):
        assert_close(one, two, atol=1e-12, rtol=0)


@every_kind
def test_a_sentence_alone_gives_what_it_gives_in_a_batch(kind):
    m = model(kind)
    source, lengths, target_in, target_out = a_batch()
    logits, _ = m(source, lengths, target_in)
    assert logits.shape == (4, 5, 13)
    for row in (0, 1, 3):
        s, t = lengths[row], (target_out[row] != PADDING).sum()
        alone, _ = m(source[row : row + 1, :s], lengths[row : row + 1], target_in[row : row + 1, :t])
        assert_close(alone[0], logits[row, :t], atol=1e-12, rtol=0)


@every_kind
def test_lengths_may_be_left_to_the_padding(kind):
    m = model(kind)
    source, lengths, target_in, _ = a_batch()
    assert torch.equal(m(source, None, target_in)[0], m(source, lengths, target_in)[0])
    assert torch.equal(m(source, lengths.tolist(), target_in)[0], m(source, lengths, target_in)[0])
    gap = ids([[4, PADDING, 5], [4, 5, 6]])  # a padding id inside a sentence does not cut it short
    assert torch.equal(m(gap, None, target_in[:2])[0], m(gap, [3, 3], target_in[:2])[0])


@every_kind
def test_nothing_of_the_target_is_seen_before_it_is_written(kind):
    source, lengths, target_in, _ = a_batch()
    changed = target_in.clone()
    changed[:, 3:] = (changed[:, 3:] + 1) % 13
    for m in (model(kind), model(kind).to(torch.get_default_dtype())):
        assert torch.equal(m(source, lengths, changed)[0][:, :3], m(source, lengths, target_in)[0][:, :3])
        assert not torch.equal(m(source, lengths, changed)[0], m(source, lengths, target_in)[0])
        with capture(m, "*.weights"):
            difference = m(source, lengths, changed)[0] - m(source, lengths, target_in)[0]
        assert difference[:, :3].abs().max() <= 1e-6 < difference.abs().max()


@every_kind
def test_the_source_is_read_and_its_order_too(kind):
    m = model(kind)
    source, lengths, target_in, _ = a_batch()
    before = m(source, lengths, target_in)[0]
    source[0, 0], source[3] = 10, ids([[4, 3, 3, 0, 0]])
    moved = (m(source, lengths, target_in)[0] - before).abs().amax(dim=(1, 2))
    assert moved[0] > 1e-4 and moved[3] > 1e-4 and moved[1] == moved[2] == 0


def test_a_mask_hides_source_tokens_from_encoder_and_decoder():
    m = model({"align": (1, 0)})
    source, lengths, target_in, _ = a_batch()
    mask = torch.ones(4, 5, dtype=torch.bool)
    mask[0, 2] = mask[3] = False
    other = source.clone()
    other[0, 2], other[3, :3] = 9, 9
    logits, weights = m(source, lengths, target_in, mask)
    assert_close(m(other, lengths, target_in, mask)[0], logits, atol=1e-12, rtol=0)
    assert weights[0, :, 2].abs().max() == 0 and weights[3].abs().max() == 0 and weights[1, :, 1:].abs().max() == 0
    logits.sum().backward()
    assert all(p.grad.isfinite().all() for p in m.parameters())


# --- what it is made of


def test_tokens_are_embedded_scaled_and_placed_and_read_out_by_the_same_weights():
    """PlacedEmbedding, PlacedEmbedding.forward, PlacedEmbedding.readout: sqrt(D) E[token] + PE(place), and x E^T."""
    torch.manual_seed(0)
    embedding, tokens = PlacedEmbedding(7, 6).double(), torch.randint(7, (2, 5))
    E = embedding.tokens.weight
    expected = math.sqrt(6) * E[tokens] + sinusoidal(9, 6, dtype=E.dtype)[4:]
    assert_close(embedding(tokens, past=4), expected, atol=1e-12, rtol=0)
    assert_close(embedding(tokens), embedding(torch.cat([tokens, tokens], dim=1))[:, :5], atol=0, rtol=0)
    assert_close(embedding.readout(expected), expected @ E.T)


def test_the_forward_pass_is_encoder_decoder_and_readout():
    """Transformer, Transformer.forward: each part called by hand."""
    m = model({})
    source, lengths, target_in, _ = a_batch()
    real = padding_mask(lengths, 5)
    memory = m.encoder(m.source(source), real)
    assert_close(m.encode(source, lengths)[0], memory, atol=0, rtol=0)
    logits = m.decoder(m.target(target_in), memory, real) @ m.target.tokens.weight.T
    assert_close(m(source, lengths, target_in)[0], logits, atol=1e-12, rtol=0)


def test_a_shared_embedding_is_one_matrix():
    m = model({"shared": True}, 13, 13)
    assert m.source.tokens is m.target.tokens
    assert sum(p.numel() for p in m.parameters()) == parameter_count(13, 8, 2, 32, 2)
    apart = model({}, 13, 13)
    assert sum(p.numel() for p in apart.parameters()) == parameter_count(13, 8, 2, 32, 2) + 13 * 8


def test_dropout_is_where_the_paper_has_it():
    torch.manual_seed(0)
    m = Transformer(11, 13, 8, 2, n_layers=2, dropout=0.5)
    source, lengths, target_in, _ = a_batch()
    assert not torch.equal(m(source, lengths, target_in)[0], m(source, lengths, target_in)[0])
    m.eval()
    with capture(m, "*dropout") as maps:
        assert torch.equal(m(source, lengths, target_in)[0], m(source, lengths, target_in)[0])
    parts = {f"{side}coder.blocks.{i}.dropout": n for side, n in (("en", 4), ("de", 6)) for i in range(2)}
    assert {name: len(heard) for name, heard in maps.items()} == {"source.dropout": 2, "target.dropout": 2} | parts
    assert {module.p for module in m.modules() if isinstance(module, nn.Dropout)} == {0.5}


@every_kind
def test_recorded_it_gives_the_same_numbers_and_gradients(kind):
    m = model(kind)
    source, lengths, target_in, target_out = a_batch()

    def found():
        logits = m(source, lengths, target_in)[0]
        return [logits, *torch.autograd.grad(masked_loss(logits, target_out), list(m.parameters()))]

    silent = found()
    with capture(m, "*.weights") as maps:
        recorded = found()
    for one, other in zip(silent, recorded, strict=True):
        assert_close(one, other, atol=1e-10, rtol=0)
    assert maps["encoder.blocks.0.attention.weights"][0].shape == (4, 2, 5, 5)
    assert maps["decoder.blocks.0.cross.weights"][0].shape == (4, 2, 5, 5)
    assert len(maps) == 3 * len(m.encoder.blocks)


def test_align_gives_the_weights_of_one_head_and_changes_nothing_else():
    m = model({})
    source, lengths, target_in, _ = a_batch()
    logits, nothing = m(source, lengths, target_in)
    assert nothing is None
    with capture(m, "decoder.blocks.1.cross.weights") as maps:
        m(source, lengths, target_in)
    for head in range(2):
        m.align = (1, head)
        same, weights = m(source, lengths, target_in)
        assert_close(same, logits, atol=1e-10, rtol=0)
        assert_close(weights, maps["decoder.blocks.1.cross.weights"][0][:, head], atol=0, rtol=0)
    assert not any(module._forward_hooks for module in m.modules())
    assert_close(weights.sum(-1), (lengths > 0).double()[:, None].expand(4, 5))


# --- one step, and the whole


@every_kind
@pytest.mark.parametrize("align", [None, (0, 1)], ids=str)
def test_a_step_is_the_forward_pass_at_its_place(kind, align):
    """Transformer.step: with a cache, the numbers of a pass without one."""
    m = model({**kind, "align": align})
    source, lengths, target_in, _ = a_batch()
    logits, weights = m(source, lengths, target_in)
    memory, state = m.encode(source, lengths)
    mask = padding_mask(lengths, 5)
    for t in range(5):
        m.step(torch.full((4,), 6), state, memory, mask)  # a step that is not gone leaves the state as it is
        logits_t, state, weights_t = m.step(target_in[:, t], state, memory, mask)
        assert_close(logits_t, logits[:, t], atol=1e-12, rtol=0)
        assert (weights_t is None) == (align is None)
        if align:
            assert_close(weights_t, weights[:, t], atol=1e-12, rtol=0)


@every_kind
def test_decoding_is_what_the_forward_pass_says_of_its_own_words(kind):
    m = model({**kind, "align": (0, 1)})
    source, lengths, _, _ = a_batch()
    m.target.tokens.weight.data *= 3  # surer of itself, so that sentences end at unlike times
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


def test_decoding_hides_what_the_mask_hides_and_keeps_no_graph():
    m = model({"align": (1, 1)})
    source, lengths, _, _ = a_batch()
    mask = torch.ones(4, 5, dtype=torch.bool)
    mask[0, 1] = False
    ready = m.decoding(source, lengths, mask)
    weights = greedy(**ready, max_len=4).weights
    assert weights[0, :, 1].abs().max() == 0 and weights[0, :, 2].min() > 0 and weights[1, :, 1:].abs().max() == 0
    assert not ready["state"][1].requires_grad


def test_nothing_but_empty_sentences_is_translated_to_something_finite():
    m = model({})
    assert all(len(tokens) <= 4 for tokens in greedy(**m.decoding(torch.zeros(2, 0).long()), max_len=4).tokens)


# --- learning and translating


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", [pytest.param({}, marks=pytest.mark.full), {"pre_norm": True, "shared": True}], ids=["post", "pre"]
)
def test_learns_a_few_pairs_by_heart_and_translates_them(kind):
    pairs = [
        ([4, 5, 6], [9, 8, 7]),
        ([6, 5, 4], [7, 8, 9]),
        ([4], [9]),
        ([5, 5, 5, 5, 5, 5], [8, 8]),
        ([7, 8], [6, 5, 4, 4, 4, 5, 6]),
        ([UNKNOWN, 4], [UNKNOWN, 9]),
    ]
    torch.manual_seed(0)
    m = Transformer(13, 13, 32, 4, n_layers=2, **kind)
    optimiser = torch.optim.AdamW(m.parameters(), lr=2e-3)
    falling = torch.optim.lr_scheduler.LinearLR(optimiser, 1, 0, 200)
    for source, lengths, target_in, target_out in itertools.islice(batches(pairs, len(pairs), seed=0), 200):
        loss = masked_loss(m(source, lengths, target_in)[0], target_out, smoothing=0.1)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        falling.step()
    right = m(source, lengths, target_in)[0].softmax(-1).gather(2, target_out[..., None])[target_out != PADDING]
    assert_close(right, torch.full_like(right, 0.9 + 0.1 / 13), atol=0.05, rtol=0)  # as sure as smoothing lets it be
    source, wanted = ids([source for source, _ in pairs]), [target for _, target in pairs]
    for found in (greedy(**m.decoding(source), max_len=20), beam_search(**m.decoding(source), max_len=20, width=3)):
        assert found.tokens == wanted


def test_the_translator_takes_it_as_it_takes_the_recurrent_one():
    pairs = [(["May", "4"], ["le", "4", "mai"]), (["June"], ["juin"])]
    reads, writes = (WordTokenizer([pair[side] for pair in pairs]) for side in (0, 1))
    torch.manual_seed(0)
    m = Transformer(len(reads), len(writes), 8, 2, n_layers=2)
    translator = Translator(m, reads, writes)
    found = translator.translate(["May 4", "June", ""], max_len=5)
    assert len(found) == 3 and found[2] == [] and all(len(words) <= 5 for words in found)
    assert translator.translate([""], max_len=3, width=2) == [[]]
    with pytest.raises(ValueError, match=r"align=\(layer, head\)"):
        translator.attention(pairs)
    m.align = (1, 1)
    weights = translator.attention(pairs)
    assert [tuple(w.shape) for w in weights] == [(3, 2), (1, 1)]
    assert_close(weights[0].sum(1), torch.ones(3))
    batch = next(batches(translator.ids(pairs), 2, seed=0))
    logits = m(*batch[:3])[0]
    assert_close(translation_loss(m, batch, smoothing=0.1), masked_loss(logits, batch[3], smoothing=0.1))


# Table 3 of the paper, in millions: (d_model, heads, d_ff, layers, d_k) of each row whose size it gives.
TABLE = {
    "base": ((512, 8, 2048, 6, 64), 65),
    "B 16": ((512, 8, 2048, 6, 16), 58),
    "B 32": ((512, 8, 2048, 6, 32), 60),
    "C 2": ((512, 8, 2048, 2, 64), 36),
    "C 4": ((512, 8, 2048, 4, 64), 50),
    "C 8": ((512, 8, 2048, 8, 64), 80),
    "C 256": ((256, 8, 2048, 6, 32), 28),
    "C 1024": ((1024, 8, 2048, 6, 128), 168),
    "C ff 1024": ((512, 8, 1024, 6, 64), 53),
    "C ff 4096": ((512, 8, 4096, 6, 64), 90),
}
BIG = (1024, 16, 4096, 6, 64)


@pytest.mark.parametrize("row", TABLE)
def test_parameter_count_gives_the_papers_table(row):
    """parameter_count: every row but the big one, to the million, for a vocabulary of 41,000."""
    sizes, millions = TABLE[row]
    assert round(parameter_count(41_000, *sizes) / 1e6) == millions


def test_base_and_big_of_the_papers_own_vocabulary_come_near_its_table():
    base, big = parameter_count(37_000, *TABLE["base"][0]), parameter_count(37_000, *BIG)
    assert (base, big) == (63_082_496, 214_245_376)
    assert abs(base / 65e6 - 1) < 0.03 and abs(big / 213e6 - 1) < 0.01
    assert round(parameter_count(36_000, *BIG) / 1e6) == 213


@pytest.mark.parametrize("sizes", [*(sizes for sizes, _ in TABLE.values()), BIG], ids=str)
def test_the_count_is_that_of_a_model_without_numbers(sizes):
    D, H, d_ff, L, d_k = sizes
    with torch.device("meta"):
        m = Transformer(37_000, 37_000, D, H, L, shared=True, d_ff=d_ff, d_k=d_k)
    assert sum(p.numel() for p in m.parameters()) == parameter_count(37_000, D, H, d_ff, L, d_k)


# --- bad input

SOURCE, TARGET = torch.tensor([[4, 5, 0], [6, 7, 8]]), torch.tensor([[1, 5], [1, 6]])
REAL = SOURCE != PADDING


@pytest.mark.parametrize(
    "wrong, error, words",
    [
        (lambda m: Transformer(11, 13, 8, 2, shared=True), ValueError, "got 11 and 13 tokens"),
        (lambda m: m(SOURCE + 9, None, TARGET), ValueError, "The source must hold ids from 0 to 10; got 9 ... 17"),
        (lambda m: m(SOURCE, None, TARGET[:1]), ValueError, "MultiHead needs x .* and memory"),
        (lambda m: m(SOURCE, [2, 4], TARGET), ValueError, "from 0 to 3"),
        (lambda m: m(SOURCE, None, TARGET, ~REAL), ValueError, "reverse of PyTorch's key_padding_mask"),
        (lambda m: m(SOURCE, None, TARGET, REAL[:, :2]), ValueError, "Transformer needs mask .batch, source time."),
    ],
)
def test_bad_input_is_refused_in_words(wrong, error, words):
    with pytest.raises(error, match=words):
        wrong(model({}))


def test_a_text_longer_than_its_positions_is_refused_by_name():
    m = model({"positions": partial(LearnedPositions, 2)})
    with pytest.raises(ValueError, match="made for 2 places, x has 3"):
        m(SOURCE, None, TARGET)
    with pytest.raises(ValueError, match="made for 2 places, x has 3"):
        greedy(**m.decoding(SOURCE[:, :2]), max_len=3)
