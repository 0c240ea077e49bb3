"""How far what a model says is from what it should say, token by token. Lesson 03.

S: tokens that are said, T: tokens that are right.
"""

from collections.abc import Sequence


def edit_distance(said: Sequence, right: Sequence) -> int:
    """How many tokens must be put in, left out or changed to make `right` (T) of `said` (S) (Levenshtein, 1966).

    d(i, j) = min(d(i - 1, j) + 1, d(i, j - 1) + 1, d(i - 1, j - 1) + [said_i != right_j]),   d(i, 0) = d(0, i) = i
    """
    before = list(range(len(right) + 1))  # d(i - 1, .)
    for i, token in enumerate(said, 1):
        now = [i]
        for j, wanted in enumerate(right, 1):
            now.append(min(before[j] + 1, now[j - 1] + 1, before[j - 1] + (token != wanted)))
        before = now
    return before[-1]


def error_rate(said: Sequence[Sequence], right: Sequence[Sequence]) -> float:
    """Edits over right tokens, of all sentences together: of words the word error rate, of sounds the phoneme's.

    It may exceed 1. Raises ValueError for unequal numbers of sentences, or where no token is right.
    """
    _check_both(said, right)
    return sum(map(edit_distance, said, right)) / sum(map(len, right))


def _check_both(said: Sequence, right: Sequence) -> None:
    if len(said) != len(right) or not any(map(len, right)):
        raise ValueError(f"Each sentence needs its right one, and one a token; got {len(said)} and {len(right)}.")
