"""ROUGE: how much of a reference summary a text contains, by words, by runs of n words, by words in order. Lesson 13.

S: tokens that are said, T: tokens of the reference. Tokens are taken as they are: no stop word is left out and no
ending is cut off, both of which the paper's program can do.
"""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple


class Overlap(NamedTuple):
    """recall = hits / all of the reference, precision = hits / all that is said, f1 = 2 P R / (P + R), from 0 to 1."""

    recall: float
    precision: float
    f1: float


def rouge_n(said: Sequence, reference: Sequence, n: int = 1) -> Overlap:
    """Hits are runs of n tokens that both have, each as often as the rarer has it (Lin, 2004, section 2, equation 1).

    said (S), reference (T). The paper's ROUGE-N is the recall; with several references it takes the best of them. All
    are 0 where there is no hit, so also where a text has fewer than n tokens. Raises TypeError for text that is not
    cut into tokens.
    """
    _check_tokens(said, reference)
    mine, theirs = _runs(said, n), _runs(reference, n)
    return _overlap((mine & theirs).total(), mine.total(), theirs.total())


def rouge_l(said: Sequence, reference: Sequence) -> Overlap:
    """Hits are the longest common subsequence: tokens in the same order, gaps allowed (Lin, 2004, section 3.1).

    said (S), reference (T), each one sentence, or read as one; f1 is equation 4 with beta = 1. Raises as `rouge_n`.
    """
    _check_tokens(said, reference)
    return _overlap(longest_common(said, reference), len(said), len(reference))


def longest_common(said: Sequence, reference: Sequence) -> int:
    """How many tokens the longest common subsequence of said (S) and reference (T) has.

    c(i, j) = c(i - 1, j - 1) + 1 if said_i = reference_j, else max(c(i - 1, j), c(i, j - 1)),   c(i, 0) = c(0, j) = 0
    """
    before = [0] * (len(reference) + 1)  # c(i - 1, .)
    for token in said:
        now = [0]
        for j, wanted in enumerate(reference, 1):
            now.append(before[j - 1] + 1 if token == wanted else max(before[j], now[j - 1]))
        before = now
    return before[-1]


def _runs(tokens: Sequence, n: int) -> Counter:
    """How often each run of n tokens occurs."""
    return Counter(tuple(tokens[i : i + n]) for i in range(len(tokens) - n + 1))


def _overlap(hits: int, n_said: int, n_reference: int) -> Overlap:
    """f1 = 2 hits / (all that is said + all of the reference), which is 2 P R / (P + R)."""
    if not hits:
        return Overlap(0.0, 0.0, 0.0)
    return Overlap(hits / n_reference, hits / n_said, 2 * hits / (n_said + n_reference))


def _check_tokens(said: Sequence, reference: Sequence) -> None:
    if isinstance(said, str) or isinstance(reference, str):
        raise TypeError("ROUGE compares tokens, and a string is a row of letters: call .split(), say.")
