"""bert/replaced_words.py: texts with replaced pieces by hand, draws by their frequencies, ELECTRA's own logits."""

import math
import random

import pytest
import torch
from parity import shaken
from test_bert import exact_or_not, near
from test_lean_bert import counted, lean, of_hf, text_for
from torch import nn
from torch.testing import assert_close

from course_lib.bert.replaced_words import Discriminator, Replaced, draw_pieces, replace, replaced_loss

EXACT = {"atol": 1e-12, "rtol": 0}


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


class Says(nn.Module):
    """A model that gives these scores, whatever it reads."""

    def __init__(self, scores):
        super().__init__()
        self.scores = nn.Parameter(scores)

    def forward(self, ids, segments=None, mask=None):
        return self.scores


# --- what is read, and what is asked


def test_by_hand():
    """replace, Replaced: drawn pieces in the chosen places, row by row; the text that came is as it was."""
    ids = torch.tensor([[1, 2, 3], [4, 5, 6]])
    chosen = torch.tensor([[False, True, True], [True, False, False]])
    mask = torch.tensor([[True, True, True], [True, True, False]])
    found = replace(ids, chosen, torch.tensor([7, 8, 9]), mask)
    assert found.ids.tolist() == [[1, 7, 8], [9, 5, 6]] and found.ids.dtype == torch.int64
    assert torch.equal(found.replaced, chosen) and found.mask is mask and isinstance(found, Replaced)
    assert ids.tolist() == [[1, 2, 3], [4, 5, 6]]
    assert replace(ids, chosen, torch.tensor([7, 8, 9])).mask is None


def test_what_is_drawn_as_it_was_is_not_replaced():
    """replace: the answer is "not replaced" where the draw is the piece that stood there."""
    ids, chosen = torch.tensor([[1, 2, 3]]), torch.tensor([[True, True, False]])
    found = replace(ids, chosen, torch.tensor([1, 9]))
    assert found.ids.tolist() == [[1, 9, 3]] and found.replaced.tolist() == [[False, True, False]]
    found = replace(ids, chosen, ids[chosen])
    assert torch.equal(found.ids, ids) and not found.replaced.any()


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0], ids=["none", "some", "all"])
def test_texts_drawn_at_random(share):
    """replace: nothing chosen, some, everything, against a loop."""
    for seed in range(6):
        draw = random.Random(seed)
        shape = draw.choice([(1, 1), (2, 5), (4, 3), (0, 3), (2, 0)])
        ids = torch.randint(5, shape, generator=seeded(seed))
        chosen = torch.rand(shape, generator=seeded(seed + 10)) < share
        drawn = torch.randint(5, (int(chosen.sum()),), generator=seeded(seed + 20))
        found, left = replace(ids, chosen, drawn), drawn.tolist()
        for row in range(shape[0]):
            for at in range(shape[1]):
                expected = left.pop(0) if chosen[row, at] else ids[row, at].item()
                assert found.ids[row, at] == expected
                assert found.replaced[row, at] == (expected != ids[row, at])
        assert not left and found.replaced.shape == shape and found.replaced.dtype == torch.bool


# --- what the generator puts there


@pytest.mark.parametrize("temperature", [0.3, 1.0, 4.0])
def test_pieces_come_as_often_as_they_are_likely(temperature):
    """draw_pieces: frequencies of 40,000 draws beside the softmax; the sum of the gaps is as chance would have it."""
    logits = torch.randn(7, generator=seeded()) / temperature
    found = draw_pieces(logits.expand(40_000, 7), seeded(1))
    assert found.shape == (40_000,) and found.dtype == torch.int64
    gaps = found.bincount(minlength=7) / 40_000 - logits.softmax(dim=-1)
    assert gaps.abs().sum() / 2 < 0.01  # chosen: total variation; chance makes about 0.005


def test_each_place_is_drawn_by_its_own_probabilities():
    """draw_pieces: rows that are sure are drawn surely, rows that are not differ from each other."""
    sure = torch.full((4, 5), -1e4).index_put((torch.arange(4), torch.tensor([3, 0, 4, 3])), torch.tensor(1e4))
    assert draw_pieces(sure, seeded()).tolist() == [3, 0, 4, 3]
    even = draw_pieces(torch.zeros(6000, 2), seeded())
    pairs = (2 * even[::2] + even[1::2]).bincount(minlength=4) / 3000
    assert (pairs - 0.25).abs().max() < 0.03


def test_a_piece_that_cannot_be_is_never_drawn():
    logits = torch.zeros(5000, 4)
    logits[:, 1] = -torch.inf
    assert {*draw_pieces(logits, seeded()).tolist()} == {0, 2, 3}
    alone = torch.full((50, 4), -torch.inf)
    alone[:, 2] = -50.0
    assert {*draw_pieces(alone, seeded()).tolist()} == {2}


def test_it_is_gumbels_draw():
    """draw_pieces: argmax(logits + g), g = -log(-log u); what is added to all logits changes no draw."""
    logits = torch.randn(200, 9, generator=seeded())
    u = torch.rand(200, 9, generator=seeded(1))
    assert torch.equal(draw_pieces(logits, seeded(1)), (logits - (-u.log()).log()).argmax(dim=-1))
    assert torch.equal(draw_pieces(logits, seeded(1)), draw_pieces(logits + 8, seeded(1)))


def test_a_generator_repeats_the_draw_and_leaves_the_others():
    logits = torch.zeros(50, 9)
    assert torch.equal(draw_pieces(logits, seeded(3)), draw_pieces(logits, seeded(3)))
    assert not torch.equal(draw_pieces(logits, seeded(3)), draw_pieces(logits, seeded(4)))
    state = torch.get_rng_state()
    draw_pieces(logits, seeded())
    assert torch.equal(torch.get_rng_state(), state)
    assert not torch.equal(draw_pieces(logits), draw_pieces(logits))


def test_no_gradient_goes_through_a_draw():
    """draw_pieces: whole numbers; of no place none, of one piece always that."""
    found = draw_pieces(torch.zeros(3, 4, requires_grad=True), seeded())
    assert not found.requires_grad and found.shape == (3,) and 0 <= found.min() and found.max() < 4
    assert draw_pieces(torch.zeros(0, 4)).shape == (0,)
    assert not draw_pieces(torch.zeros(9, 1)).any()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64], ids=str)
def test_any_kind_of_logits(dtype):
    """draw_pieces: half precision too."""
    logits = torch.full((50, 4), -9.0, dtype=dtype)
    logits[:, 2] = 20
    assert draw_pieces(logits, seeded()).tolist() == [2] * 50


# --- the loss


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_the_loss_by_brute_force(seed, masked):
    """replaced_loss: -log p where it was replaced, -log(1 - p) where not, the mean over real places; its gradient."""
    draw = random.Random(seed)
    B, T = draw.choice([1, 3]), draw.choice([1, 2, 6])
    model = Says(2 * torch.randn(B, T, generator=seeded(seed), dtype=torch.float64))
    replaced = torch.rand(B, T, generator=seeded(seed + 1)) < 0.3
    mask = torch.rand(B, T, generator=seeded(seed + 2)) < 0.6 if masked else None
    loss = replaced_loss(model, Replaced(torch.zeros(B, T).long(), replaced, mask))
    places = [(n, t) for n in range(B) for t in range(T) if mask is None or mask[n, t]]
    terms, gradient = [], torch.zeros(B, T, dtype=torch.float64)
    for n, t in places:
        p = 1 / (1 + math.exp(-model.scores[n, t].item()))
        terms.append(-math.log(p if replaced[n, t] else 1 - p))
        gradient[n, t] = (p - replaced[n, t].item()) / len(places)
    assert loss.item() == pytest.approx(sum(terms) / max(1, len(places)), abs=1e-12)
    loss.backward()
    assert_close(model.scores.grad, gradient, **EXACT)


def test_large_scores_stay_finite():
    """replaced_loss: as sure and wrong as can be costs what the score says, not infinity."""
    model = Says(torch.tensor([[1e4, -1e4]]))
    assert replaced_loss(model, Replaced(torch.zeros(1, 2).long(), torch.tensor([[False, True]]))).item() == 1e4
    assert replaced_loss(model, Replaced(torch.zeros(1, 2).long(), torch.tensor([[True, False]]))).item() == 0


def test_rows_and_batches_of_padding():
    """replaced_loss: a row of padding adds nothing, a batch of it is 0; every gradient is finite."""
    model, ids = shaken(Discriminator(lean())).double(), torch.randint(11, (2, 5))
    replaced, mask = torch.rand(2, 5) < 0.5, torch.tensor([[True] * 5, [False] * 5])
    alone = replaced_loss(model, Replaced(ids[:1], replaced[:1]))
    assert_close(replaced_loss(model, Replaced(ids, replaced, mask)), alone, **EXACT)
    for some in (mask, mask & False):
        model.zero_grad()
        loss = replaced_loss(model, Replaced(ids, replaced, some))
        loss.backward()
        assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())
    assert loss == 0 and not model.readout.weight.grad.any()


def test_the_whole_way():
    """A generator's draws, the text with them, the loss at all places: it goes to the discriminator alone."""
    torch.manual_seed(0)
    model, ids = Discriminator(lean()).double(), torch.randint(11, (4, 6))
    chosen = torch.rand(4, 6, generator=seeded(2)) < 0.4
    logits = torch.randn(int(chosen.sum()), 11, requires_grad=True)
    batch = replace(ids, chosen, draw_pieces(logits, seeded()))
    assert batch.replaced.any() and not (batch.replaced & ~chosen).any()
    replaced_loss(model, batch).backward()
    assert logits.grad is None and model.readout.weight.grad.any() and model.bert.tokens.weight.grad.any()


# --- the discriminator


@exact_or_not
@pytest.mark.parametrize("seed", range(4))
def test_its_logits_and_gradients_are_hugging_faces(seed, dtype):
    """Discriminator, Discriminator.forward, Discriminator.from_hf: beside ElectraForPreTraining; its loss too."""
    theirs = of_hf("ElectraForPreTraining", seed, dtype, hidden_act="gelu")
    ours = Discriminator.from_hf(theirs)
    assert not ours.training and ours.bert.pooler is None and counted(ours) == theirs.num_parameters()
    ids, segments, mask, given = text_for(theirs)
    found, expected = ours(ids, segments, mask), theirs(**given).logits
    assert found.shape == ids.shape
    near(found[mask], expected[mask], dtype)
    for logits in (found, expected):
        logits[mask].square().sum().backward()
    near(ours.bert.tokens.weight.grad, theirs.get_input_embeddings().weight.grad, dtype)
    near(ours.transform.weight.grad, theirs.discriminator_predictions.dense.weight.grad, dtype)
    labels = torch.rand(ids.shape, generator=seeded(seed)) < 0.3
    told = theirs(ids, mask.long(), labels=labels.long()).loss  # their answers are single precision
    assert abs(replaced_loss(ours, Replaced(ids, labels, mask)).item() - told.item()) < 1e-5


def test_it_is_the_formula():
    """Discriminator: w f(h W + b) + c at each place; nothing of the size of the vocabulary; padding changes nothing."""
    bert = lean(rotary=True, n_segments=0, pooler=False)
    model, ids = shaken(Discriminator(bert)).double(), torch.randint(11, (3, 6))
    mask = torch.arange(6) < torch.tensor([6, 3, 1])[:, None]
    h = model.bert(ids, None, mask)
    inside = nn.functional.gelu(h @ model.transform.weight.T + model.transform.bias)
    assert_close(model(ids, None, mask), inside @ model.readout.weight[0] + model.readout.bias, **EXACT)
    assert counted(model) - counted(bert) == 13 * 12 + 12 + 1
    other = torch.where(mask, ids, torch.randint(11, (3, 6)))
    assert_close(model(other, None, mask)[mask], model(ids, None, mask)[mask], **EXACT)


# --- bad input


IDS, HERE = torch.zeros(2, 3).long(), torch.tensor([[True, False, True], [False] * 3])


@pytest.mark.parametrize(
    ("wrong", "error", "words"),
    [
        (lambda: replace(IDS, HERE, IDS[0]), ValueError, "2 chosen places and 3 pieces for them: one each"),
        (lambda: replace(IDS, HERE.long(), IDS[0, :2]), TypeError, "chosen .batch, time. of bool"),
        (lambda: Discriminator.from_hf(nn.Linear(2, 2)), TypeError, "ElectraForPreTraining; got Linear"),
    ],
)
def test_bad_input_is_refused_in_words(wrong, error, words):
    with pytest.raises(error, match=words):
        wrong()
