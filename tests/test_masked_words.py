"""bert/masked_words.py: which pieces are masked and how often, never a special; the loss; blanks; bad input."""

from itertools import islice

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from course_lib.bert.bert import Bert, BertConfig
from course_lib.bert.bert_heads import MaskedWords
from course_lib.bert.masked_words import (
    KINDS,
    SHARE,
    Masked,
    fill,
    mask_tokens,
    masked,
    masked_loss,
    texts_in_order,
)
from course_lib.text.wordpiece import SPECIALS, WordPiece

VOCAB = [*SPECIALS, *"abcdefgh", *(f"##{c}" for c in "abcdefgh")]
T = WordPiece(VOCAB)


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def within_three_errors(count, n, share):
    """A share of n draws, within three standard errors."""
    return abs(count / n - share) <= 3 * (share * (1 - share) / n) ** 0.5


def texts(n=400, length=40, seed=0):
    """Rows of ordinary pieces with [CLS], [SEP] and padding, and an unknown piece here and there."""
    ids = torch.randint(5, len(T), (n, length), generator=seeded(seed))
    ids[:, 0], ids[:, -8] = T.cls, T.sep
    ids[:, -7:] = T.padding
    ids[::3, 5] = T.unknown
    return ids


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("whole_words", [False, True])
def test_the_rates_are_those_of_the_paper(whole_words, seed):
    """mask_tokens, SHARE, KINDS: 15 %, of these 80/10/10, within three standard errors; never a special."""
    ids = texts(2_000, seed=seed)
    read, chosen = mask_tokens(ids, T, seeded(seed), whole_words=whole_words)
    ordinary = ids >= len(SPECIALS)
    n, asked = int(ordinary.sum()), int(chosen.sum())
    assert not (chosen & ~ordinary).any() and torch.equal(read[~chosen], ids[~chosen])
    assert SHARE == 0.15 and KINDS == (0.8, 0.1, 0.1)
    begins = ~T.continues[ids] & ordinary if whole_words else ordinary  # words are drawn, not pieces
    assert within_three_errors(int((chosen & begins).sum()), int(begins.sum()), 0.15) and abs(asked / n - 0.15) < 0.01
    hidden, new = read[chosen] == T.mask, read[chosen]
    assert within_three_errors(int(hidden.sum()), asked, 0.8)
    same = new == ids[chosen]
    other = (~hidden & ~same).sum()  # one in 16 of the drawn pieces is the old one again
    assert within_three_errors(int(other), asked, 0.1 * (1 - 1 / 16))
    assert within_three_errors(int(same.sum()), asked, 0.1 + 0.1 / 16)
    assert (new[~hidden] >= len(SPECIALS)).all()
    drawn = torch.bincount(new[~hidden & ~same], minlength=len(T))[5:]
    assert drawn.min() > 0  # any ordinary piece can come


def test_every_place_is_as_likely_and_each_is_drawn_alone():
    ids = texts(4_000)
    chosen = mask_tokens(ids, T, seeded())[1].double()
    rates = chosen[:, [3, 10, 20, 30]].mean(dim=0)
    assert ((rates - 0.15).abs() < 3.5 * (0.15 * 0.85 / 4_000) ** 0.5).all()
    together = (chosen[:, 3] * chosen[:, 4]).mean()
    assert abs(together - 0.15**2) < 3.5 * (0.0225 / 4_000) ** 0.5


def test_whole_words_are_chosen_with_all_their_pieces():
    ids = texts(500)
    chosen = mask_tokens(ids, T, seeded(), whole_words=True)[1]
    goes_on = T.continues[ids]
    before = ids.roll(1, dims=1)
    inside = goes_on & (before >= len(SPECIALS))
    inside[:, 0] = False
    assert torch.equal(chosen[inside], chosen.roll(1, dims=1)[inside])
    alone = mask_tokens(ids, T, seeded())[1]
    assert not torch.equal(alone[inside], alone.roll(1, dims=1)[inside])


def test_a_seed_says_what_is_masked_and_the_ids_stay():
    ids = texts(20)
    before = ids.clone()
    one, again, other = (mask_tokens(ids, T, seeded(seed)) for seed in (1, 1, 2))
    assert torch.equal(ids, before)
    assert all(map(torch.equal, one, again)) and not torch.equal(one[1], other[1])


def test_all_nothing_and_other_kinds():
    ids = texts(50)
    ordinary = ids >= len(SPECIALS)
    read, chosen = mask_tokens(ids, T, share=1.0, kinds=(1, 0, 0))
    assert torch.equal(chosen, ordinary) and (read[ordinary] == T.mask).all()
    assert torch.equal(mask_tokens(ids, T, share=0.0)[0], ids)
    assert torch.equal(mask_tokens(ids, T, share=1.0, kinds=(0, 0, 1))[0], ids)
    assert (mask_tokens(ids, T, share=1.0, kinds=(0, 1, 0))[0][ordinary] >= len(SPECIALS)).all()
    for shape in ((0, 4), (2, 0), (1, 1)):
        read, chosen = mask_tokens(torch.full(shape, 6), T, whole_words=True)
        assert read.shape == chosen.shape == shape


def a_model(pairs=False):
    torch.manual_seed(0)
    return MaskedWords(Bert(BertConfig(len(T), 16, 32, 2, 2, 0.0)), pairs)


def test_the_loss_asks_the_masked_places_alone():
    """masked, masked_loss, Masked: the mean over places, beside every place's logits; 0 where none is masked."""
    m, read = a_model(), T.batch(["abc de", ("fgh", "ab cd")])
    batch = masked(read, T, generator=seeded(3), share=0.5)
    assert len(batch.places) > 0 and torch.equal(read.ids.flatten()[batch.places], batch.answers)
    logits = m(batch.ids, batch.segments, batch.mask).flatten(0, 1)[batch.places]
    assert_close(masked_loss(m, batch), F.cross_entropy(logits, batch.answers))
    assert masked_loss(m, masked(read, T, share=0.0)) == 0 and batch.follows is None
    both = masked(read, T, torch.tensor([0, 1]), generator=seeded(3))
    words, pair = a_model(True)(*both[:4])
    expected = F.cross_entropy(words, both.answers) + F.cross_entropy(pair, both.follows)
    assert_close(masked_loss(a_model(True), both), expected)


@pytest.mark.slow
def test_it_learns_sentences_by_heart_and_fills_their_blanks():
    """fill: after some steps it knows what stood there; before, it does not."""
    m, sentences = a_model(), ["a e f g", "h g f e"]
    optimiser, draws = torch.optim.AdamW(m.parameters(), lr=2e-3), seeded()
    for _ in range(300):
        loss = masked_loss(m, masked(T.batch(sentences * 4), T, generator=draws, share=0.3))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    m.eval()
    found = fill(m, T, "a e [MASK] g", n=3)
    assert len(found) == 1 and len(found[0]) == 3 and found[0][0].piece == "f" and found[0][0].p > 0.5
    assert len(fill(m, T, "h [MASK] f [MASK]")) == 2 and fill(m, T, "h g f [MASK]")[0][0].piece == "e"
    assert sum(guess.p for guess in fill(m, T, "[MASK]", n=99)[0]) == pytest.approx(1, abs=1e-5)


def test_texts_come_once_a_round():
    """texts_in_order: every text once before any twice, in another order each time."""
    rounds = [sum(islice(texts_in_order(range(6), 2, g), 3), []) for g in [seeded()]]
    assert sorted(rounds[0]) == list(range(6))
    drawn = list(islice(texts_in_order(range(50), 50, seeded()), 2))
    assert drawn[0] != drawn[1] and sorted(drawn[1]) == list(range(50))


@pytest.mark.parametrize(
    "wrong, error, words",
    [
        (lambda m: mask_tokens(texts(1), T, share=15), ValueError, "from 0 to 1; got 15"),
        (lambda m: fill(m, T, "abc"), ValueError, r"There is no \[MASK\] in 'abc': write \[MASK\], in capitals"),
        (lambda m: fill(m, T, "[mask] a"), ValueError, "There is no"),
        (lambda m: masked_loss(a_model(True), masked(T.batch(["a"]), T)), ValueError, "pairs=True needs a batch with"),
        (lambda m: next(texts_in_order(["a"], 2, seeded())), ValueError, "A batch of 2 needs as many texts; got 1"),
    ],
)
def test_bad_input_is_refused_in_words(wrong, error, words):
    with pytest.raises(error, match=words):
        wrong(a_model())


def test_a_batch_can_be_moved_with_or_without_pairs():
    from course_lib.train.device import to_device

    batch = to_device(masked(T.batch(["abc"]), T), torch.device("cpu"))
    assert isinstance(batch, Masked) and batch.follows is None
