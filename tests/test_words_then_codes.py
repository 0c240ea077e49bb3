"""multimodal/words_then_codes.py: the loss by hand, drawing without a cache, draws as often as softmax says."""

import math
import random

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close

from course_lib.language.gpt import GPT, GPTConfig
from course_lib.language.next_token import next_token_loss
from course_lib.multimodal.words_then_codes import codes_loss, draw, nats, row_of

V, K = 5, 4
EXACT = {"atol": 1e-10, "rtol": 0}


def a_gpt(max_len=9, dropout=0.0, dtype=torch.float64):
    """A GPT of V words and K codes whose answers depend on all that it reads: its first weights are too small."""
    torch.manual_seed(1)
    model = GPT(GPTConfig(V + K, max_len, 8, 2, 2, dropout)).to(dtype)
    for weight in model.parameters():
        nn.init.normal_(weight, std=weight.shape[-1] ** -0.5 if weight.ndim > 1 else 0.5)
    return model


def words(B, T, seed=0):
    return torch.randint(V, (B, T), generator=torch.Generator().manual_seed(seed))


def rows(B, T, n, seed=0):
    codes = torch.randint(K, (B, n), generator=torch.Generator().manual_seed(seed + 100))
    return row_of(words(B, T, seed), codes, V)


# --- a row


def test_words_stand_first_and_codes_behind_all_words():
    """row_of: by example, and the codes can be had back."""
    assert row_of(torch.tensor([[3, 0]]), torch.tensor([[0, 2, 1]]), 5).tolist() == [[3, 0, 5, 7, 6]]
    some, codes = words(3, 4), torch.randint(K, (3, 6))
    row = row_of(some, codes, V)
    assert row.shape == (3, 10) and row.dtype == torch.int64
    assert torch.equal(row[:, :4], some) and torch.equal(row[:, 4:] - V, codes)
    assert torch.equal(row_of(some, codes[:, :0], V), some)
    assert row_of(some[:0], codes[:0], V).shape == (0, 10)


@pytest.mark.parametrize("whole", [np.int64, np.uint8])
def test_how_many_codes_may_be_a_number_of_numpys(whole):
    """codes_loss, nats, draw: one without a sign, too."""
    model, row = a_gpt(), rows(3, 4, 2)
    assert codes_loss(model, row, whole(2)) == codes_loss(model, row, 2)
    assert torch.equal(nats(model, row, whole(2)), nats(model, row, 2))
    drawn = [draw(model, row[:, :4], n, v, generator=torch.Generator().manual_seed(0))
             for n, v in ((2, V), (whole(2), whole(V)))]  # fmt: skip
    assert torch.equal(*drawn)


# --- the loss


@pytest.mark.parametrize("seed", range(8))
def test_the_loss_is_cross_entropy_of_the_codes_alone(seed):
    """codes_loss: -log softmax(logits)[code], each from all before it, the mean over n codes; one code too."""
    chance = random.Random(seed)
    B, T, n = chance.choice([1, 3]), chance.choice([1, 2, 4]), chance.choice([1, 2, 5])
    model, row = a_gpt(), rows(B, T, n, seed)
    by_hand = []
    for b in range(B):
        for at in range(T, T + n):
            logits = model(row[b : b + 1, :at])[0, -1]
            by_hand.append(logits.logsumexp(dim=0) - logits[row[b, at]])
    assert_close(codes_loss(model, row, n), torch.stack(by_hand).mean(), **EXACT)


def test_words_are_read_and_do_not_count():
    """Where the model is wrong about words alone, the loss is 0; another word changes the loss of the codes."""

    def model(ids):  # it is sure that code 0 follows whatever stands there
        return 1000.0 * F.one_hot(torch.full_like(ids, V), V + K).double()

    row = row_of(words(3, 4), torch.zeros(3, 2, dtype=torch.long), V)
    assert codes_loss(model, row, 2) == 0 and codes_loss(model, row, 3) > 100
    row, other = rows(1, 3, 4), rows(1, 3, 4)
    other[0, 0] = (other[0, 0] + 1) % V
    assert abs(codes_loss(a_gpt(), row, 4) - codes_loss(a_gpt(), other, 4)) > 1e-3


def test_it_is_lesson_07s_loss_where_all_but_the_first_are_asked():
    model, row = a_gpt(), rows(3, 1, 6)
    assert_close(codes_loss(model, row, 6), next_token_loss(model, row), **EXACT)
    assert_close(codes_loss(model, row[:, :2], 1), next_token_loss(model, row[:, :2]), **EXACT)


def test_the_loss_has_a_gradient():
    model = a_gpt()
    codes_loss(model, rows(2, 3, 4), 4).backward()
    assert all(weight.grad is not None for weight in model.parameters()) and model.tokens.weight.grad.abs().max() > 0


# --- drawing


@pytest.mark.parametrize(("B", "T", "n"), [(1, 1, 1), (3, 2, 5), (2, 4, 6), (4, 1, 9)])
def test_at_temperature_0_it_is_the_best_code_step_by_step(B, T, n):
    """draw: without a cache, everything read again at each step, the largest logit among the codes."""
    model, asked = a_gpt(), words(B, T)
    row = asked
    for _ in range(n):
        with torch.no_grad():
            best = model(row)[:, -1, V:].argmax(dim=1, keepdim=True)
        row = torch.cat([row, best + V], dim=1)
    found = draw(model, asked, n, V, temperature=0)
    assert found.shape == (B, n) and torch.equal(found, row[:, T:] - V)
    assert torch.equal(found, draw(model, asked, n, V, temperature=0))


def test_a_word_is_never_drawn():
    """Also from a model that would write nothing but words, and if hot; what was handed in stays as it was."""
    model, asked = a_gpt(), words(20, 2)
    with torch.no_grad():
        model.norm.shift.copy_(20 * model.tokens.weight[2])
    before = asked.clone()
    for temperature in (0, 0.3, 1.0, 50.0):
        found = draw(model, asked, 6, V, temperature, torch.Generator().manual_seed(0))
        assert found.min() >= 0 and found.max() < K
    assert len(found.unique()) == K and torch.equal(asked, before)


def test_a_name_does_not_hang_on_its_batch():
    model, asked = a_gpt(), words(4, 3)
    together = draw(model, asked, 5, V, temperature=0)
    assert torch.equal(together, torch.cat([draw(model, one[None], 5, V, temperature=0) for one in asked]))


def test_the_model_is_in_eval_mode_meanwhile_and_as_it_was_behind():
    model, asked = a_gpt(dropout=0.9), words(3, 2)
    expected = draw(model.eval(), asked, 6, V, temperature=0)
    model.train()
    model.blocks[1].eval()  # somebody has frozen it
    assert torch.equal(draw(model, asked, 6, V, temperature=0), expected)
    nats(model, rows(2, 2, 3), 3)
    with pytest.raises(ValueError, match="temperature"):
        draw(model, asked, 6, V, temperature=-1)
    assert model.training and model.blocks[0].training and not model.blocks[1].training


def test_a_generator_repeats_the_draws_and_nothing_else_is_drawn():
    model, asked = a_gpt(), words(8, 2)
    some = [draw(model, asked, 6, V, generator=torch.Generator().manual_seed(seed)) for seed in (3, 3, 4)]
    assert torch.equal(some[0], some[1]) and not torch.equal(some[0], some[2])
    state = torch.get_rng_state()
    draw(model, asked, 6, V, generator=torch.Generator())
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.slow
@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_codes_come_as_often_as_softmax_says(temperature):
    """The first code and, behind each first one, the second, over 20,000 draws: chi-square with K - 1 = 3 each."""
    N, model, asked = 20_000, a_gpt(), words(1, 3)
    found = draw(model, asked.expand(N, -1), 2, V, temperature, torch.Generator().manual_seed(0))
    with torch.no_grad():
        firsts = (model(asked)[0, -1, V:] / temperature).softmax(dim=0)
        seconds = [
            (model(row_of(asked, torch.tensor([[first]]), V))[0, -1, V:] / temperature).softmax(dim=0)
            for first in range(K)
        ]
    assert chi_square(found[:, 0], firsts) < 21.1  # chosen: 1 draw in 10,000 is above
    for first in range(K):
        second = found[found[:, 0] == first, 1]
        if len(second) > 500:
            assert chi_square(second, seconds[first]) < 21.1
    wrong = firsts.roll(1)
    assert chi_square(found[:, 0], wrong) > 100, "the test sees another distribution"


def chi_square(drawn, p):
    expected = p * len(drawn)
    return ((drawn.bincount(minlength=K) - expected).square() / expected).sum()


def test_no_codes_are_none():
    assert draw(a_gpt(), words(3, 2), 0, V).shape == (3, 0)


def test_a_row_may_fill_the_model_and_one_more():
    """The last code is written and not read."""
    model = a_gpt(max_len=6)
    assert draw(model, words(2, 3), 4, V).shape == (2, 4)
    assert nats(model, rows(2, 3, 4), 4).shape == (2,)
    with pytest.raises(ValueError, match="8 tokens together; this model reads 6"):
        draw(model, words(2, 3), 5, V)


# --- nats


def test_nats_are_summed_over_an_images_codes():
    """nats: of one row, n times `codes_loss`; of more, each its own; the mean over all is the loss again."""
    model, some = a_gpt(), rows(5, 2, 4)
    found = nats(model, some, 4)
    assert found.shape == (5,) and not found.requires_grad
    for n in (1, 3, 4):
        each = torch.stack([n * codes_loss(model, row[None], n) for row in some])
        assert_close(nats(model, some, n), each.detach(), **EXACT)
    assert_close(found.mean() / 4, codes_loss(model, some, 4).detach(), **EXACT)


def test_who_knows_nothing_is_surprised_by_log_of_all():
    class Even(nn.Module):
        def forward(self, ids):
            return torch.zeros(*ids.shape, V + K)

    assert_close(nats(Even(), rows(2, 3, 4), 4), torch.full((2,), 4 * math.log(V + K)))
    assert_close(codes_loss(Even(), rows(2, 3, 4), 4), torch.tensor(math.log(V + K)))


# --- bad input


def diverged():
    model = a_gpt()
    with torch.no_grad():
        model.tokens.weight[0] = math.nan
    return model


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        (lambda: codes_loss(a_gpt(), rows(2, 3, 4), 0), ValueError, "stand 1 to 6 codes; got n_codes=0"),
        (lambda: codes_loss(a_gpt(), rows(2, 3, 4), 7), ValueError, "stand 1 to 6 codes; got n_codes=7"),
        (lambda: draw(a_gpt(), words(2, 3), 4, V + K), ValueError, "No code has a probability.*n_words is too large"),
        (lambda: draw(diverged(), words(2, 3), 4, V), ValueError, "No code has a probability.*diverged"),
        (lambda: draw(a_gpt(), words(2, 3), 4, V, -0.1), ValueError, "temperature must be a number from 0"),
    ],
)
def test_bad_input_is_refused_in_words(wrong, error, message):
    with pytest.raises(error, match=message):
        wrong()
