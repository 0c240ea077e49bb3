"""Language models that only count: how often each run of n tokens occurs. What a network has to beat. Lesson 07.

Shapes: N tokens of a text. Every count is kept as one whole number a run, so that a sort is all the counting there is.
"""

import torch
from torch import Tensor

from course_lib.inputs.shapes import check_shapes

LARGEST = 2**63  # of the numbers that stand for runs


def count_bits(train: Tensor, test: Tensor, vocab_size: int, longest: int, weight: float = 10.0) -> list[float]:
    """Bits a token, -log2 p, on a test text, of counts of 1, 2, ... `longest` tokens in a row in a training text.

        p(w | context) = (count(context w) + weight * p(w | shorter context)) / (count(context) + weight)

    train (N,), test (N',) -> `longest` means. The shorter context counts like `weight` sightings (MacKay and Peto,
    1995, section 2: one smoothing constant for all contexts); the shortest, no context at all, has each token seen once
    more than it was. All are means over the same tokens of the test text, those behind the first longest - 1.
    Raises ValueError or TypeError, for no texts of ids, ids outside the vocabulary, and runs too many to be counted.
    """
    check_shapes("count_bits", train=(train, "int64 N+"), test=(test, "int64 M+"))
    _check_runs(train, test, vocab_size, longest)
    p, bits = (_occurrences(test, train) + 1.0) / (len(train) + vocab_size), []  # (N',)
    bits.append(p[longest - 1 :])
    for n in range(2, longest + 1):
        runs = _occurrences(_codes(test, n, vocab_size), _codes(train, n, vocab_size))  # (N' - n + 1,)
        contexts = _occurrences(_codes(test[:-1], n - 1, vocab_size), _codes(train, n - 1, vocab_size))
        p = (runs + weight * p[1:]) / (contexts + weight)
        bits.append(p[longest - n :])
    return [-float(p.log2().mean()) for p in bits]


def _codes(text: Tensor, n: int, vocab_size: int) -> Tensor:
    """Each run of n tokens as one number: (N,) -> (N - n + 1,)."""
    return sum(text[k : len(text) - n + 1 + k] * vocab_size ** (n - 1 - k) for k in range(n))


def _occurrences(wanted: Tensor, text: Tensor) -> Tensor:
    """How often each of the wanted numbers occurs in a text of them."""
    known, counts = torch.unique(text, return_counts=True)
    place = torch.searchsorted(known, wanted).clamp(max=len(known) - 1)
    return counts[place] * (known[place] == wanted)


def _check_runs(train: Tensor, test: Tensor, vocab_size: int, longest: int) -> None:
    ids = torch.cat([train, test])
    if not 0 <= int(ids.min()) <= int(ids.max()) < vocab_size:
        raise ValueError(f"The texts must hold ids from 0 to {vocab_size - 1}.")
    if vocab_size**longest >= LARGEST:
        raise ValueError(f"Runs of {longest} of {vocab_size} tokens are more than a whole number can tell apart.")
