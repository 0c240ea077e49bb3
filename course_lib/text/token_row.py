"""Pieces of text as one row of tokens, and where in it each pair stands: a merge costs only the places it changes.

A piece may be as long as a text (a line of Chinese, of DNA), so no merge may read a piece from its beginning. The row
is a linked list: of each token the places of its neighbours are kept. Behind each piece stands None, in no pair.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

Pair = tuple[str, str]


class TokenRow:
    """The tokens of all `pieces`, one behind the other; pieces: how often each piece, a row of tokens, occurs.

    counts: how often each pair of neighbours occurs; where: the places of its left token in the row, in the order in
    which they were found, some of them out of date. Every place is given up once at most, so all merges together take
    time in proportion to the row's length, but for sorting.
    """

    def __init__(self, pieces: Mapping[Sequence[str], int]) -> None:
        self.tokens: list[str | None] = [None]
        self.times = [0]  # how often the piece occurs that a place lies in
        for piece, n in pieces.items():
            self.tokens += (*piece, None)
            self.times += [n] * (len(piece) + 1)
        self.left, self.right = [*range(-1, len(self.tokens) - 1)], [*range(1, len(self.tokens) + 1)]
        self.counts: defaultdict[Pair, int] = defaultdict(int)
        self.where: defaultdict[Pair, list[int]] = defaultdict(list)
        for i, pair in enumerate(zip(self.tokens, self.tokens[1:], strict=False)):
            if None not in pair:
                self.counts[pair] += self.times[i]
                self.where[pair].append(i)

    def __iter__(self) -> Iterator[str]:
        """The tokens, from left to right."""
        return (token for token in self.tokens if token is not None)

    def merge(self, pair: Pair) -> set[Pair]:
        """Put the one token ab in the place of every (a, b) = `pair`, from left to right -> the pairs newly counted."""
        tokens, left, right, changed = self.tokens, self.left, self.right, set()
        for i in sorted(self.where.pop(pair, ())):
            j = right[i]
            if (tokens[i], tokens[j]) != pair:  # one of the two was merged since, as in "aaa"
                continue
            before, behind, n = left[i], right[j], self.times[i]
            self.counts[pair] -= n
            for one, other in ((before, i), (j, behind)):
                if tokens[one] is not None and tokens[other] is not None:
                    self.counts[tokens[one], tokens[other]] -= n
                    changed.add((tokens[one], tokens[other]))
            tokens[i], tokens[j] = pair[0] + pair[1], None
            right[i], left[behind] = behind, i
            for one, other in ((before, i), (i, behind)):
                if tokens[one] is not None and tokens[other] is not None:
                    self.counts[tokens[one], tokens[other]] += n
                    self.where[tokens[one], tokens[other]].append(one)
                    changed.add((tokens[one], tokens[other]))
        return changed
