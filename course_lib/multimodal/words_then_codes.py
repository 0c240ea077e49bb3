"""One GPT over one sequence, the words of a name and then the codes of its image. Lesson 18.

    p(codes | words) = product over i of p(code_i | words, code_1 ... code_(i-1))    (Ramesh et al., 2021, section 2.2)

Shapes: B batch, T tokens of a name, padded to one length, n codes of an image, V words, K codes. A word is 0 to V - 1
in a row, a code V to V + K - 1: one vocabulary of V + K.
"""

import math
from operator import index

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.inputs.sequences import reading, visible
from course_lib.inputs.shapes import check_shapes
from course_lib.language.generate import next_probs


def row_of(words: Tensor, codes: Tensor, n_words: int) -> Tensor:
    """Words first, then the codes, numbered behind all words: (B, T) and (B, n) -> (B, T + n)."""
    check_shapes("row_of", words=(words, "int B T+"), codes=(codes, "int B n"))
    return torch.cat([words, codes + n_words], dim=1)


def codes_loss(model: nn.Module, rows: Tensor, n_codes: int) -> Tensor:
    """Nats per code: mean -log p of the last n_codes tokens of each row, rows (B, T + n), each from all before it.

    Lesson 07's loss, asked for the image alone. (Ramesh et al., 2021, section 2.2, count the words too, by one eighth.)
    """
    check_shapes("codes_loss", rows=(rows, "int B T+"))
    _check_count(rows, n_codes)
    n_codes = index(n_codes)  # a number of NumPy's may have no opposite
    logits = model(rows[:, :-1])[:, -n_codes:]  # (B, n, V + K)
    return F.cross_entropy(logits.flatten(0, 1), rows[:, -n_codes:].flatten())


@torch.no_grad()
def draw(model: nn.Module, words: Tensor, n_codes: int, n_words: int, temperature: float = 1.0,
         generator: torch.Generator | None = None) -> Tensor:  # fmt: skip
    """Write n_codes codes after each name, one by one: words (B, T) -> codes (B, n), whole numbers from 0.

    No word can be sampled where a code has to stand. Keys and values are cached: each step reads one token. The model
    is in eval mode meanwhile. generator: on the model's device. Raises ValueError or TypeError as `next_probs` does.
    """
    check_shapes("draw", words=(words, "int B T+"))
    _check_draw(model, words.shape[1] + n_codes)
    new, cache, drawn = words, [{} for _ in model.blocks], []
    with reading(model):
        for _ in range(n_codes):
            logits = model(new, None, cache)[:, -1]  # (B, V + K)
            logits[:, :n_words] = -math.inf
            probs = next_probs(logits, temperature)
            _check_probs(probs)
            new = torch.multinomial(probs, 1, generator=generator)  # (B, 1)
            drawn.append(new - n_words)
    return torch.cat(drawn, dim=1) if drawn else words[:, :0]


@torch.no_grad()
def nats(model: nn.Module, rows: Tensor, n_codes: int) -> Tensor:
    """How surprising each image is after its name: -log p of its codes, summed, rows (B, T + n) -> (B,)."""
    check_shapes("nats", rows=(rows, "int B T+"))
    _check_count(rows, n_codes)
    n_codes = index(n_codes)
    with reading(model):
        logits = model(rows[:, :-1])[:, -n_codes:]
    return F.cross_entropy(logits.transpose(1, 2), rows[:, -n_codes:], reduction="none").sum(dim=1)


def _check_count(rows: Tensor, n_codes: int) -> None:
    if not 1 <= n_codes < rows.shape[1]:
        raise ValueError(f"Behind a word or more stand 1 to {rows.shape[1] - 1} codes; got n_codes={n_codes}.")


def _check_draw(model: nn.Module, together: int) -> None:
    if together > model.max_len + 1:  # the last one is written, not read
        raise ValueError(f"Words and codes are {together} tokens together; this model reads {model.max_len}.")


def _check_probs(probs: Tensor) -> None:
    if visible(probs) and not probs.isfinite().all():
        raise ValueError("No code has a probability: the model may have diverged in training, or n_words is too large.")
