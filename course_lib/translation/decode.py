"""From next-token scores to sentences: greedy and beam search, for any model that can take one step. Lesson 03.

Shapes: N rows that the model steps at once, B sentences, K hypotheses of each, V vocabulary.
A step is a function step(tokens (N,), state) -> (logits or log-probabilities (N, V), state), for greedy also
(..., state, attention weights (N, S)). What a state is made of only `select` has to know.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from course_lib.inputs.sequences import is_whole, select_rows


class Decoded(NamedTuple):
    """Sentences as lists of token ids without start and end; log p of each (B,), in nats, its end included;
    attention weights (B, steps, S), zero behind a sentence's end, or None."""

    tokens: list[list[int]]
    log_probs: Tensor
    weights: Tensor | None = None


@torch.no_grad()
def greedy(step: Callable, state, start: Tensor, end: int, max_len: int, select: Callable = select_rows) -> Decoded:
    """The most probable token, again and again, until it is the end; sentences that have ended leave the batch.

    start (B,), a tensor or a list: the token before the first. max_len: steps at most, the end counts as one; a
    sentence that has not ended by then is cut. Waits for a device once a step, to see who has ended. Raises ValueError,
    in words, for no sentence, max_len < 1, or scores that are no (N, V).
    """
    start = _check(start, max_len=max_len)
    tokens, log_probs, maps = [[] for _ in range(len(start))], None, []
    sentences, live, token = list(range(len(start))), torch.arange(len(start), device=start.device), start
    for _ in range(max_len):  # row n belongs to sentence live[n], the same as sentences[n]
        scores, state, *weights = step(token, state)
        best, token = _log_softmax(scores, len(live), end).max(dim=-1)  # (N,), (N,)
        log_probs = best.clone() if log_probs is None else log_probs.index_add(0, live, best)
        if weights and weights[0] is not None:
            maps.append(weights[0].new_zeros(len(start), weights[0].shape[-1]).index_copy(0, live, weights[0]))
        words = _look(token, best.isnan())
        on = [row for row, word in enumerate(words) if word != end]
        for row in on:
            tokens[sentences[row]].append(words[row])
        if not on:
            break
        if len(on) < len(words):
            rows, sentences = torch.tensor(on).to(live.device), [sentences[row] for row in on]
            live, token, state = live[rows], token[rows], select(state, rows)
    return Decoded(tokens, log_probs, torch.stack(maps, dim=1) if maps else None)


@torch.no_grad()
def beam_search(
    step: Callable,
    state,
    start: Tensor,
    end: int,
    max_len: int,
    width: int = 5,
    length_penalty: float = 0.6,
    select: Callable = select_rows,
) -> Decoded:
    """The best sentence that a beam of `width` hypotheses finds, under a score that favours short ones less:

        log p(Y) / lp(Y),   lp(Y) = ((5 + |Y|) / 6) ^ length_penalty      (Wu et al., 2016, section 7, equation 14)

    where |Y| counts the end. A hypothesis that ends keeps its seat in the beam, so that nothing found is lost
    (Sutskever et al., 2014, section 3.2, take it out to a list of its own); a sentence is done when all its seats
    have ended. width 1 is `greedy`; a beam as wide as there are sentences is exhaustive search. start, max_len and
    errors as for `greedy`, and for a length_penalty below 0; a hypothesis cut at max_len competes like one that
    ended. For the winner's attention weights run the model over its tokens.
    """
    start = _check(start, length_penalty, max_len=max_len, width=width)
    first = torch.arange(len(start), device=start.device)[:, None]  # (B, 1)
    written, ended, score = start[:, None, None], torch.zeros_like(start, dtype=torch.bool)[:, None], None
    for _ in range(max_len):
        n_seats = written.shape[1]
        scores, state = step(written[:, :, -1].flatten(), state)[:2]
        log_p = _log_softmax(scores, ended.numel(), end).unflatten(0, ended.shape)  # (B, K, V)
        broken = log_p.isnan().any()
        is_end = torch.arange(log_p.shape[-1], device=start.device) == end  # (V,)
        # An ended hypothesis has one continuation, `end` once more, free of charge.
        log_p = torch.where(ended[..., None], torch.where(is_end, 0.0, -math.inf), log_p)
        total = log_p if score is None else score[..., None] + log_p  # (B, K, V)
        seated = ended[..., None] & total.isfinite()
        rank = total.masked_fill(seated, math.inf).flatten(1)  # (B, K * V)
        chosen = rank.topk(min(width, rank.shape[1])).indices  # (B, K')
        score, parent, token = total.flatten(1).gather(1, chosen), chosen // len(is_end), chosen % len(is_end)
        written = torch.cat([written[first, parent], token[..., None]], dim=-1)  # (B, K', 1 + t)
        ended = token == end  # newly or once more
        done = (ended | score.isneginf()).all()  # minus infinity: a seat for which there was no sentence left
        if _look(done, broken):
            break
        state = select(state, (first * n_seats + parent).flatten())
    written = written[:, :, 1:]
    length = (written != end).sum(dim=-1) + ended  # (B, K)
    best = (score / ((5 + length) / 6) ** length_penalty).argmax(dim=1)  # (B,)
    winners = written[first[:, 0], best].tolist()
    return Decoded([row[: row.index(end)] if end in row else row for row in winners], score[first[:, 0], best])


def translate(
    model,
    source_words,
    target_words,
    sentences: Sequence,
    max_len: int = 60,
    width: int = 1,
    length_penalty: float = 0.6,
) -> list[list[str]]:
    """Sentences, as text or as tokens, through a model that offers `decoding` -> their translations, in tokens.

    source_words, target_words: the tokenizers of both sides; a word that the first does not know is read as unknown.
    An empty sentence has an empty translation. width 1 is `greedy`, more is `beam_search`; both stop after max_len
    steps. Raises what these and `batch` raise.
    """
    source, mask = source_words.batch(sentences)  # (B, S)
    device = next(model.parameters()).device
    ask = model.decoding(source.to(device), mask.sum(dim=1)) | {"max_len": max_len}
    if width == 1:
        found = greedy(**ask)
    else:
        found = beam_search(**ask, width=width, length_penalty=length_penalty)
    return [
        target_words.decode(tokens) if read else []
        for tokens, read in zip(found.tokens, mask.any(dim=1).tolist(), strict=True)
    ]


def exact_match(found: Sequence[Sequence[str]], wanted: Sequence[Sequence[str]]) -> float:
    """The share of sentences that are right in every token and end where they should."""
    return sum(list(mine) == list(right) for mine, right in zip(found, wanted, strict=True)) / len(found)


def _log_softmax(scores: Tensor, n_rows: int, end: int) -> Tensor:
    """Log-probabilities (N, V) of a step's logits, half precision in single; log-probabilities stay what they are."""
    return torch.log_softmax(scores.to(torch.promote_types(scores.dtype, torch.get_default_dtype())), dim=-1)


def _look(found: Tensor, broken: Tensor):
    """What a step found, as whole numbers, -1 where it is broken: the one look in a step, which waits for a device."""
    found = torch.where(broken, -1, found.long()).tolist()
    _check_chosen(found)
    return found


def _check(start, length_penalty: float = 0.0, **counts: int) -> Tensor:
    start = torch.as_tensor(start)
    if start.ndim != 1 or not len(start) or start.is_floating_point():
        raise ValueError(
            f"start must hold one token id for each sentence, shape (sentences,), at least one; got "
            f"{start.dtype} of shape {tuple(start.shape)}."
        )
    for name, count in counts.items():
        if not is_whole(count) or count < 1:
            raise ValueError(f"{name} must be a whole number, 1 or more; got {count}.")
    if not 0 <= length_penalty < math.inf:
        raise ValueError(f"length_penalty must be 0 or more; got {length_penalty}.")
    return start


def _check_chosen(found) -> None:
    if -1 in (found if isinstance(found, list) else [found]):
        raise ValueError("A step returned NaN, or no token that may follow: its model may have diverged in training.")
