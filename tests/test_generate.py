"""language/generate.py: what top-k, top-p and temperature keep; prompts of unlike lengths; window, cache, stops."""

import math
import warnings

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from course_lib.language.generate import generate, keep_top_k, keep_top_p, next_probs
from course_lib.language.gpt import GPT, GPTConfig

PROMPTS = [[3, 1, 4, 1, 5], [9], [2, 6], [5, 3, 5, 8]]


def model(max_len=40, **sizes):
    """A GPT that is sure enough of itself, and of unlike things, that the best token is the same for every rounding."""
    torch.manual_seed(0)
    m = GPT(GPTConfig(**({"vocab_size": 11, "d_model": 12, "n_heads": 3, "n_layers": 2} | sizes), max_len=max_len))
    for weight in m.parameters():
        if weight.ndim > 1:
            torch.nn.init.normal_(weight, std=0.5)
    return m.double().eval()


def kept(logits):
    return logits.isfinite().tolist()


# --- what is kept


def test_top_k_keeps_the_k_best():
    """keep_top_k: by hand, among equals, with k larger than the vocabulary."""
    logits = torch.tensor([[1.0, 5, 3, 4], [2, 2, 2, 2]])
    assert kept(keep_top_k(logits, 2))[0] == [False, True, False, True]
    assert [sum(row) for row in kept(keep_top_k(logits, 3))] == [3, 3]
    assert torch.equal(keep_top_k(logits, 4), logits) and torch.equal(keep_top_k(logits, 400), logits)
    assert next_probs(logits, top_k=1).max(dim=-1).values.tolist() == [1, 1]


def test_top_p_keeps_the_smallest_set_that_reaches_p():
    """keep_top_p: by hand."""
    logits = torch.tensor([0.125, 0.5, 0.25, 0.125]).log()
    for p, tokens in [(0, 1), (0.3, 1), (0.6, 2), (0.8, 3), (0.9, 4), (1, 4)]:
        assert sum(kept(keep_top_p(logits, p))) == tokens, p
    assert kept(keep_top_p(logits, 0.6)) == [False, True, True, False]
    even = torch.zeros(4)
    assert [sum(kept(keep_top_p(even, p))) for p in (0, 0.25, 0.5, 0.51, 1)] == [1, 1, 2, 3, 4]


@pytest.mark.parametrize("p", [0.0, 0.01, 0.5, 0.9, 0.999, 1.0])
def test_top_p_against_a_search_by_hand_and_hugging_faces(p):
    from transformers import TopPLogitsWarper

    torch.manual_seed(0)
    logits = 4 * torch.randn(50, 37, dtype=torch.float64)
    found = keep_top_p(logits, p)
    for row, one in zip(logits.softmax(dim=-1).tolist(), kept(found), strict=True):
        total, wanted = 0.0, set()
        for token in sorted(range(37), key=lambda token: -row[token]):
            if total < p or not wanted:
                wanted.add(token)
                total += row[token]
        assert wanted == {token for token in range(37) if one[token]} or p == 1 and all(one)
    assert_close(found.softmax(dim=-1), TopPLogitsWarper(p)(None, logits).softmax(dim=-1), atol=1e-12, rtol=0)


def test_top_p_of_one_keeps_what_rounding_would_lose():
    logits = torch.full((2000,), -20.0)
    logits[3] = 10
    assert all(kept(keep_top_p(logits, 1.0))) and (next_probs(logits, top_p=1) > 0).all()


def test_a_temperature_divides_the_logits():
    """next_probs: softmax(logits / temperature), its limits, and the order of the three knobs."""
    torch.manual_seed(0)
    logits = torch.randn(3, 7, dtype=torch.float64)
    assert_close(next_probs(logits), logits.softmax(dim=-1), atol=1e-15, rtol=0)
    assert_close(next_probs(logits, 0.7), (logits / 0.7).softmax(dim=-1), atol=1e-15, rtol=0)
    best = torch.nn.functional.one_hot(logits.argmax(dim=-1), 7).double()
    for cold in (0, 0.0, 1e-300, 1e-12, 1e-5):
        assert_close(next_probs(logits, cold), best, atol=1e-12, rtol=0)
    assert_close(next_probs(logits, 1e9), torch.full_like(best, 1 / 7), atol=1e-8, rtol=0)
    expected = keep_top_p(keep_top_k(logits / 2, 4), 0.6).softmax(dim=-1)  # p is a share of what top_k left
    assert_close(next_probs(logits, 2.0, 4, 0.6), expected, atol=1e-15, rtol=0)


@pytest.mark.parametrize("temperature", [0, 1e-30, 0.5, 1])
@pytest.mark.parametrize("broken", [math.nan, math.inf])
def test_no_probabilities_come_of_broken_logits(temperature, broken):
    """next_probs: at temperature 0 the best of NaN is no token; the rows beside it are what they were."""
    found = next_probs(torch.tensor([[1.0, broken, 2.0], [1.0, 3.0, 2.0]]), temperature)
    assert found[0].isnan().all() and found[1].isfinite().all() and found[1].argmax() == 1


def test_knobs_on_extreme_logits():
    for logits in (torch.tensor([3e38, -3e38, 0]), torch.tensor([-math.inf, 2.0, -math.inf]), torch.zeros(1)):
        for temperature in (0, 1e-7, 1, 1e30):
            for top_k in (None, 1, 5):
                for top_p in (None, 0, 0.5, 1):
                    probs = next_probs(logits, temperature, top_k, top_p)
                    assert probs.isfinite().all() and abs(probs.sum() - 1) < 1e-6
    half = next_probs(torch.randn(2, 50).half(), 0.5, 5, 0.9)
    assert half.dtype == torch.float32 and (half.sum(dim=-1) - 1).abs().max() < 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("whole", [np.int64, np.uint8, np.int8, torch.tensor])
def test_whole_numbers_may_be_numpys_or_a_tensors(whole):
    """keep_top_k, next_probs, generate: whatever Python takes for one."""
    logits, m = torch.tensor([[1.0, 5, 3, 4], [2, 2, 2, 2]]), model()
    assert torch.equal(keep_top_k(logits, whole(2)), keep_top_k(logits, 2))
    assert torch.equal(keep_top_k(logits, whole(100)), logits)
    wanted = generate(m, PROMPTS, 5, temperature=0, top_k=3, stop=[2, 7])
    for stop in ([whole(2), 7], {7, 2}, (whole(7), whole(2)), np.array([2, 7]), torch.tensor([2, 7])):
        assert generate(m, PROMPTS, whole(5), temperature=0, top_k=whole(3), stop=stop) == wanted
    for stop in (whole(2), np.array(2), torch.tensor([2])):
        assert generate(m, PROMPTS, 5, temperature=0, stop=stop) == generate(m, PROMPTS, 5, temperature=0, stop=2)


def test_knobs_may_be_numbers_of_numpys():
    logits = torch.tensor([1.0, 5, 3, 4])
    assert torch.equal(next_probs(logits, np.float64(0.5), 3, np.float64(0.75)), next_probs(logits, 0.5, 3, 0.75))
    assert torch.equal(next_probs(logits, np.int64(2), 3, np.int64(1)), next_probs(logits, 2, 3, 1))
    assert torch.equal(next_probs(logits, np.float32(0.5), top_p=np.float32(0.75)), next_probs(logits, 0.5, top_p=0.75))


# --- what is written


@pytest.mark.slow
@pytest.mark.parametrize("cache", [True, False], ids=["cache", "none"])
def test_a_prompt_in_a_batch_is_continued_as_alone(cache):
    """generate: prompts of unlike lengths, together and each alone, by the model's own argmax."""
    m = model()
    together = generate(m, PROMPTS, 12, temperature=0, cache=cache)
    for prompt, found in zip(PROMPTS, together, strict=True):
        assert generate(m, [prompt], 12, temperature=0, cache=cache) == [found]
        text = list(prompt)
        for _ in range(12):
            text.append(int(m(torch.tensor([text]))[0, -1].argmax()))
        assert text[len(prompt) :] == found
    assert len({tuple(row) for row in together}) > 1


@pytest.mark.slow
def test_a_stop_token_ends_its_row_and_no_other():
    m = model()
    whole = generate(m, PROMPTS, 12, temperature=0)
    for stop in range(11):
        cut = [row[: row.index(stop)] if stop in row else row for row in whole]
        for cache in (True, False):
            assert generate(m, PROMPTS, 12, temperature=0, stop=[stop], cache=cache) == cut
    assert generate(m, PROMPTS, 12, temperature=0, stop=range(11)) == [[]] * 4
    assert generate(m, PROMPTS, 12, temperature=0, stop=whole[0][3]) == generate(
        m, PROMPTS, 12, temperature=0, stop={whole[0][3]}
    )


@pytest.mark.slow
@pytest.mark.parametrize("stop", [(), (4, 7)], ids=["through", "stop"])
@pytest.mark.parametrize("cache", [True, False], ids=["cache", "none"])
def test_a_text_longer_than_the_model_reads_slides_and_says_so(cache, stop):
    m, prompts = model(max_len=7), [*PROMPTS, [1, 2, 3, 4, 5, 6, 7, 8, 9]]
    with pytest.warns(UserWarning, match="this model reads 7.*the last 7 tokens only") as said:
        together = generate(m, prompts, 15, temperature=0, cache=cache, stop=stop)
    assert len(said) == 1 and said[0].filename == __file__
    for prompt, found in zip(prompts, together, strict=True):
        text = list(prompt)
        for _ in range(15):
            word = int(m(torch.tensor([text[-7:]]))[0, -1].argmax())
            if word in stop:
                break
            text.append(word)
        assert text[len(prompt) :] == found


def test_padding_that_outgrows_the_window_is_no_reason_to_slide():
    """A long prompt stops at once; the short one beside it may still write as much as it could alone."""
    m = model(max_len=9)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        alone = generate(m, [[2, 6]], 8, temperature=0)[0]
    for first in range(11):
        long = [first, 9, 4, 1, 7, 2, 8, 3]
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            stop = generate(m, [long], 1, temperature=0)[0]
            if stop[0] not in alone:
                assert generate(m, [long, [2, 6]], 8, temperature=0, stop=stop) == [[], alone]
                return
    raise AssertionError("no long prompt ended where the short one went on")


@pytest.mark.slow
def test_what_is_drawn_can_be_repeated_and_follows_the_probabilities():
    m = model()

    def drawn(seed, **knobs):
        return generate(m, PROMPTS, 10, generator=torch.Generator().manual_seed(seed), **knobs)

    assert drawn(1) == drawn(1) == drawn(1, cache=False) != drawn(2)
    assert drawn(1, top_k=1) == drawn(2, top_p=0) == drawn(3, temperature=0)
    probs = next_probs(m(torch.tensor([PROMPTS[0]]))[0, -1], 1.5, top_k=6)
    words = generate(m, [PROMPTS[0]] * 20_000, 1, 1.5, top_k=6, generator=torch.Generator().manual_seed(0))
    counts = torch.tensor(words).flatten().bincount(minlength=11) / 20_000
    assert (counts - probs).abs().max() < 0.02 and (counts[probs == 0] == 0).all()


def test_prompts_may_be_tensors_arrays_or_lists():
    m = model()
    expected = generate(m, [[3, 1], [4, 1]], 5, temperature=0)
    for prompts in (
        torch.tensor([[3, 1], [4, 1]]),
        [torch.tensor([3, 1]), [4, 1]],
        np.array([[3, 1], [4, 1]]),
        ((3, 1), np.array([4, 1], dtype=np.uint8)),
    ):
        assert generate(m, prompts, 5, temperature=0) == expected
    assert generate(m, [[3, 1]], 0) == [[]]


def test_dropout_is_off_while_it_writes_and_on_again_behind():
    m = model(dropout=0.5).train()
    assert generate(m, PROMPTS, 8, temperature=0) == generate(m.eval(), PROMPTS, 8, temperature=0)
    with pytest.raises(ValueError, match="ids from 0 to 10"):
        generate(m.train(), [[11]], 3)
    assert m.training


def test_each_part_keeps_its_own_mode():
    """generate: who freezes the dropout of one block finds it frozen afterwards, and the others at work."""
    m = model(dropout=0.5).train()
    m.blocks[0].eval()
    modes = [part.training for part in m.modules()]
    generate(m, PROMPTS, 3)
    assert [part.training for part in m.modules()] == modes and {*modes} == {True, False}


@pytest.mark.parametrize(
    "wrong, error, words",
    [
        (lambda m: generate(m, [[1], []], 3), ValueError, "Prompt 1 is empty: a model needs a token"),
        (lambda m: generate(m, "to be", 3), TypeError, "Encode a text first"),
        (lambda m: generate(m, [[-1]], 3), ValueError, "whole numbers from 0"),
        (lambda m: generate(m, [[1]], 0, temperature=-1), ValueError, "temperature must be a number from 0 .* got -1"),
        (lambda m: generate(m, [[1]], 0, top_k=0), ValueError, "top_k 1 or more"),
        (lambda m: generate(m, [[1]], 0, top_p=1.1), ValueError, "top_p from 0 to 1; got 1.0, None and 1.1"),
        (lambda m: generate(m, [[1]], 3, stop="\n"), TypeError, "encode the text at which to stop"),
    ],
)
def test_bad_input_is_refused_in_words(wrong, error, words):
    with pytest.raises(error, match=words):
        wrong(model())


@pytest.mark.parametrize("broken", [math.nan, math.inf])
@pytest.mark.parametrize("temperature", [0, 1])
def test_a_diverged_model_is_refused_in_words(broken, temperature):
    m = model()
    with torch.no_grad():
        m.norm.shift[0] = broken
    with pytest.raises(ValueError, match="may have diverged in training"):
        m.generate([[1]], 3, temperature=temperature)
