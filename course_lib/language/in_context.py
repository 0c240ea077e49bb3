"""In-context learning: a prompt shows a task by examples, no weight changes, and how to measure it. Lesson 07.

Shapes: N words asked, T time, V vocab_size. A pair is (word, answer), an example is a pair that the prompt shows. The
model is called as `generate` calls it; the tokenizer has encode(text) -> ids (T,) and decode(ids) -> text.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from course_lib.inputs.sequences import reading, select_rows
from course_lib.language.generate import generate

Pair = tuple[str, str]
ARROW = " ->"
LINE_END = "\n"


class Reading(NamedTuple):
    """Of N right answers: whether greedy writing gives it, right (N,), and -log2 of its probability, bits (N,)."""

    right: Tensor
    bits: Tensor


def prompt(examples: Sequence[Pair], word: str) -> str:
    """A line for each example, then the question: "cat -> cats", "dog -> dogs", "house ->" (Brown et al., 2020)."""
    return "".join(f"{shown}{ARROW} {answer}{LINE_END}" for shown, answer in examples) + f"{word}{ARROW}"


def draw(pairs: Sequence[Pair], n: int, generator: torch.Generator | None = None) -> list[Pair]:
    """n different pairs in a random order; raises ValueError if there are fewer."""
    _check_enough(pairs, n)
    return [pairs[i] for i in torch.randperm(len(pairs), generator=generator)[:n]]


def wrong_labels(
    examples: Sequence[Pair], pairs: Sequence[Pair], generator: torch.Generator | None = None
) -> list[Pair]:
    """The same words, each with an answer drawn from `pairs` that is not its own (Min et al., 2022, section 4.1).

    The prompt looks as before: words of this task, answers of the right kind, the same form. Only the relation is gone.
    Raises ValueError where `pairs` has no other answer.
    """
    others = [sorted({answer for _, answer in pairs} - {right}) for _, right in examples]
    return [(word, draw(kinds, 1, generator)[0]) for (word, _), kinds in zip(examples, others, strict=True)]


def shuffled_pairs(examples: Sequence[Pair], generator: torch.Generator | None = None) -> list[Pair]:
    """The same words and the same answers, exchanged so that no word keeps its own: not a token of the prompt is new.

    Raises ValueError where that cannot be: one answer belongs to more than half of the words.
    """
    _check_exchange(examples)
    right = [answer for _, answer in examples]
    while True:
        mixed = draw(right, len(right), generator)
        if all(mine != own for mine, own in zip(mixed, right, strict=True)):
            return [(word, answer) for (word, _), answer in zip(examples, mixed, strict=True)]


@torch.no_grad()
def read(model, tokenizer, prompts: Sequence[str], answers: Sequence[str]) -> Reading:
    """How probable the right answer is behind each prompt, and whether the model would write it.

        bits = - sum over the answer's tokens and the line's end of log2 p(token | all before it)

    right: each of these tokens is the model's most probable one, so greedy writing gives this line. (Where the line
    should end, any token that begins with a line's end will do.) What all texts begin with, the examples mostly, is
    read once and kept in a cache. Texts are padded behind their end, where nothing real looks. The model reads in eval
    mode. Raises ValueError where a prompt is empty, and for a tokenizer that joins a prompt with its answer, or an
    answer with the line's end.
    """
    starts = [_ids(tokenizer, text) for text in prompts]
    texts = [_ids(tokenizer, f"{text} {answer}{LINE_END}") for text, answer in zip(prompts, answers, strict=True)]
    _check_cuts(tokenizer, starts, texts)
    shared = _shared(texts, min(map(len, starts)) - 1)  # a prompt's last token stays: it predicts the answer's first
    right, bits = [], []
    for start, text, logits in zip(starts, texts, _logits(model, texts, shared), strict=True):
        asked = text[len(start) :]  # A tokens: the answer and its line's end
        scores = logits[len(start) - 1 - shared : len(text) - 1 - shared]  # (A, V): what was expected at each of them
        scores = scores.to(torch.promote_types(scores.dtype, torch.get_default_dtype()))
        best = scores.argmax(-1).tolist()
        right.append(best[:-1] == asked[:-1] and tokenizer.decode(best[-1:]).startswith(LINE_END))
        bits.append(-scores.log_softmax(-1)[range(len(asked)), asked].sum() / math.log(2))
    return Reading(torch.tensor(right), torch.stack(bits).cpu())


def accuracy(model, tokenizer, examples: Sequence[Pair], asked: Sequence[Pair]) -> float:
    """The share of the words asked that greedy writing answers exactly, after these examples; raises as `read` does."""
    right, _ = read(model, tokenizer, [prompt(examples, word) for word, _ in asked], [answer for _, answer in asked])
    return right.to(torch.get_default_dtype()).mean().item()


def answers(model, tokenizer, prompts: Sequence[str], n_tokens: int = 10) -> list[str]:
    """What the model writes behind each prompt, greedily, up to the line's end and without spaces around it.

    An answer that has not ended after n_tokens tokens is cut. Raises what `generate` raises.
    """
    end = _ids(tokenizer, LINE_END)
    written = generate(model, [_ids(tokenizer, text) for text in prompts], n_tokens, temperature=0, stop=end)
    return [tokenizer.decode(ids).split(LINE_END)[0].strip() for ids in written]


def _logits(model, texts: list[list[int]], shared: int) -> Tensor:
    """Logits (N, T, V) of what stands behind the `shared` tokens with which all texts begin."""
    device = next(model.parameters()).device
    ids = [torch.tensor(text[shared:]) for text in texts]
    ids = torch.nn.utils.rnn.pad_sequence(ids, batch_first=True).to(device)  # (N, T)
    kept = None
    with reading(model):
        if shared:
            kept = [{} for _ in model.blocks]
            model(torch.tensor([texts[0][:shared]]).to(device), cache=kept)
            kept = select_rows(kept, torch.zeros(len(texts), dtype=torch.long, device=device))  # N times the same
        return model(ids, cache=kept)


def _ids(tokenizer, text: str) -> list[int]:
    return torch.as_tensor(tokenizer.encode(text)).tolist()


def _shared(texts: list[list[int]], at_most: int) -> int:
    """With how many equal tokens all texts begin, up to at_most."""
    same = (len(set(column)) == 1 for column in zip(*texts, strict=False))
    return min(at_most, next((n for n, equal in enumerate(same) if not equal), at_most))


def _check_enough(pairs: Sequence, n: int) -> None:
    if n > len(pairs):
        raise ValueError(f"draw has {len(pairs)} pairs to choose from; got n={n}.")


def _check_exchange(examples: Sequence[Pair]) -> None:
    right = [answer for _, answer in examples]
    if any(2 * right.count(answer) > len(right) for answer in right):
        raise ValueError("No exchange leaves every word without its own answer: one answer belongs to more than half.")


def _check_cuts(tokenizer, starts: list[list[int]], texts: list[list[int]]) -> None:
    for start, text in zip(starts, texts, strict=True):
        if not start or text[: len(start)] != start or tokenizer.decode(text[-1:]) != LINE_END:
            raise ValueError(
                "The tokens of a prompt must begin those of the prompt with its answer, and the line's end must be a "
                "token of its own: the prompt is empty or ends within a word, or this tokenizer joins them."
            )
