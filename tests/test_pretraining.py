"""bert/pretraining.py: spans are stretches of the text, half of them follow, bits are those of masked pieces."""

import math
import random
from itertools import islice

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from course_lib.bert.bert_heads import MaskedWords
from course_lib.bert.masked_words import mask_tokens
from course_lib.bert.pretraining import (
    masked_bits,
    muon_on_blocks,
    play_pieces,
    short_rows_first,
    small_bert,
    span_pairs,
    spans,
)
from course_lib.language.muon import Muon
from course_lib.text.wordpiece import SPECIALS, WordPiece

WORDS = [chr(97 + i) + chr(97 + j) for i in range(26) for j in range(26)]
TOKENIZER = WordPiece([*SPECIALS, *WORDS])
NOTHING = {"share": 0.0}


def a_text(N=600, seed=0):
    return torch.randint(len(SPECIALS), len(TOKENIZER), (N,), generator=torch.Generator().manual_seed(seed))


def a_bert(max_len=32):
    """A model whose answers depend on all that it reads: at its small first weights every context would do."""
    torch.manual_seed(1)
    model = small_bert(len(TOKENIZER), max_len, 8, 2, 2, 0.1)
    for weight in model.parameters():
        nn.init.normal_(weight, std=weight.shape[-1] ** -0.5 if weight.ndim > 1 else 0.5)
    return model


# --- span_pairs


@pytest.mark.parametrize("seed", range(8))
def test_a_row_is_two_stretches_of_the_text_between_the_specials(seed):
    draw = random.Random(seed)
    batch, length, N = draw.choice([1, 3, 8]), draw.choice([20, 33, 64]), draw.choice([65, 500])
    text = torch.arange(5, 5 + N)  # a piece says where it stood
    for found in islice(span_pairs(text, TOKENIZER, batch, length, seed, **NOTHING), 12):
        B, T = found.ids.shape
        assert B in (batch, 2 * batch, 4 * batch) and T == length // (B // batch) and found.mask.all()
        for row, segments, label in zip(found.ids.tolist(), found.segments.tolist(), found.follows, strict=True):
            first, second = [i for i, piece in enumerate(row) if piece == TOKENIZER.sep]
            assert row[0] == TOKENIZER.cls and second == T - 1 and segments == [0] * (first + 1) + [1] * (T - first - 1)
            a, b = row[1:first], row[first + 1 : -1]
            assert a and b and all(y - x == 1 for part in (a, b) for x, y in zip(part, part[1:], strict=False))
            assert label == 1 or b[0] == a[-1] + 1


def test_half_of_the_second_spans_follow_and_every_length_comes():
    found = list(islice(span_pairs(a_text(), TOKENIZER, 10, 64, 3, **NOTHING), 300))
    follows = torch.cat([one.follows for one in found]).float()
    assert abs(follows.mean() - 0.5) < 4 * 0.5 / len(follows) ** 0.5
    assert {one.ids.shape for one in found} == {(10, 64), (20, 32), (40, 16)}


def test_words_are_masked_as_mask_tokens_does_and_asked_where_they_were():
    found = next(span_pairs(torch.arange(5, 505), TOKENIZER, 40, 64, kinds=(1.0, 0.0, 0.0)))
    read = found.ids.flatten()
    assert (read[found.places] == TOKENIZER.mask).all() and (read == TOKENIZER.mask).sum() == len(found.places)
    assert 0.1 < len(found.places) / found.ids.numel() < 0.2 and (found.answers >= 5).all()


def test_a_seed_draws_the_same_batches_again_and_leaves_the_global_generator_alone():
    state = torch.get_rng_state()
    one, same, other = (list(islice(span_pairs(a_text(), TOKENIZER, 2, 40, seed), 3)) for seed in (3, 3, 4))
    assert all(torch.equal(a.ids, b.ids) and torch.equal(a.places, b.places) for a, b in zip(one, same, strict=True))
    assert any(a.ids.shape != b.ids.shape or not torch.equal(a.ids, b.ids) for a, b in zip(one, other, strict=True))
    assert torch.equal(torch.get_rng_state(), state)


def test_a_text_too_short_is_refused():
    with pytest.raises(ValueError, match="longer than that"):
        next(span_pairs(a_text(64), TOKENIZER, 2, 64))


def test_a_text_may_be_a_list_and_must_be_one_row():
    assert next(span_pairs(a_text().tolist(), TOKENIZER, 2, 20)).follows.shape[0] in (2, 4, 8)
    with pytest.raises(ValueError, match=r"\(N,\)"):
        next(span_pairs(a_text().view(2, 300), TOKENIZER, 2, 20))


# --- spans, masked_bits


def test_spans_are_read_as_the_tokenizer_would_read_a_pair():
    words = [WORDS[i] for i in (1, 5, 9, 2, 40)]
    expected = TOKENIZER.batch([(words[:2], words[2:])])
    a, b = (TOKENIZER.encode(part)[None] for part in (words[:2], words[2:]))
    for ours, theirs in zip(spans(a, b, TOKENIZER)[:3], expected, strict=False):
        assert torch.equal(ours, theirs)


@pytest.mark.parametrize("training", [True, False])
def test_masked_bits_are_those_of_each_masked_piece(training):
    model, text = a_bert().train(training), a_text(200)
    found = masked_bits(model, text, TOKENIZER, seed=2)
    assert model.training == training
    generator, bits = torch.Generator().manual_seed(2), []
    rows = text[: 200 // 29 * 29].view(-1, 29)
    read = spans(rows[:, :14], rows[:, 14:], TOKENIZER)
    ids, chosen = mask_tokens(read.ids, TOKENIZER, generator, kinds=(1.0, 0.0, 0.0))
    with torch.no_grad():
        logits, _ = model.eval()(ids, read.segments, read.mask)
    for b, t in chosen.nonzero().tolist():
        bits.append(-F.log_softmax(logits[b, t], dim=0)[read.ids[b, t]].item() / math.log(2))
    assert abs(found - sum(bits) / len(bits)) < 1e-4 * found


def test_masked_bits_of_a_text_shorter_than_a_row_are_refused():
    with pytest.raises(ValueError, match="longer than that"):
        masked_bits(a_bert(), a_text(32), TOKENIZER)


# --- the stored model's parts


@pytest.mark.slow
def test_the_stored_models_pieces_are_learned_from_the_text():
    pieces = play_pieces(
        "the sea sees what the seas see. " * 50 + " ".join(a + b for a in WORDS[::3] for b in WORDS[::3]) * 2
    )
    assert len(pieces) == 2_000 and "sea" in pieces.vocab


def test_rows_are_short_at_first_and_those_of_the_stored_model_for_9000_batches():
    text = a_text(5_000)
    found = [one.ids.shape for one in islice(span_pairs(text, TOKENIZER, 2, 80, short=30), 60)]
    assert set(found[:30]) == {(8, 20)} and set(found[30:]) == {(2, 80), (4, 40), (8, 20)}
    stored = short_rows_first(text, TOKENIZER, 2, 80)
    for one, other in islice(zip(stored, span_pairs(text, TOKENIZER, 2, 80, short=9_000), strict=True), 3):
        assert one.ids.shape == (8, 20) and torch.equal(one.ids, other.ids)


def test_small_bert_has_the_heads_of_pre_training():
    model = a_bert()
    assert isinstance(model, MaskedWords) and model.bert.config.d_ff is None and model.bert.max_len == 32
    words, pairs = model(torch.randint(5, 30, (2, 7)))
    assert words.shape == (2, 7, len(TOKENIZER)) and pairs.shape == (2, 2)


def test_muon_has_each_weight_once_and_the_blocks_matrices_alone():
    model = a_bert()
    optimiser = muon_on_blocks(model)
    assert isinstance(optimiser, Muon)
    held = [id(weight) for group in optimiser.param_groups for weight in group["params"]]
    assert sorted(held) == sorted(map(id, model.parameters()))
    [matrices] = [group["params"] for group in optimiser.param_groups if group["matrices"]]
    expected = [w for name, w in model.bert.blocks.named_parameters() if w.ndim == 2]
    assert {id(w) for w in matrices} == {id(w) for w in expected}
