"""TokenRow: after any merges the row, its counts and its places are those of the pieces counted anew."""

import random
from collections import Counter

import pytest

from course_lib.text.bpe import merge, pair_counts
from course_lib.text.token_row import TokenRow


def counted(row):
    return Counter({pair: n for pair, n in row.counts.items() if n})


def test_one_row_by_hand():
    row = TokenRow({"low": 2, "owl": 1})
    assert list(row) == [*"lowowl"]
    assert counted(row) == {("l", "o"): 2, ("o", "w"): 3, ("w", "l"): 1}  # no pair over the border of two pieces
    assert row.merge(("o", "w")) == {("l", "o"), ("l", "ow"), ("w", "l"), ("ow", "l")}
    assert list(row) == ["l", "ow", "ow", "l"]
    assert counted(row) == {("l", "ow"): 2, ("ow", "l"): 1}
    assert row.merge(("o", "w")) == set() and list(TokenRow({})) == [] == list(TokenRow({"": 3}))


def test_overlapping_pairs_are_merged_from_the_left():
    for length, expected in ((2, ["aa"]), (3, ["aa", "a"]), (4, ["aa", "aa"]), (5, ["aa", "aa", "a"])):
        row = TokenRow({"a" * length: 1})
        row.merge(("a", "a"))
        assert list(row) == expected and counted(row) == pair_counts({tuple(expected): 1})


@pytest.mark.parametrize("seed", range(30))
def test_a_row_is_its_pieces_merged_one_by_one(seed):
    draw = random.Random(seed)
    pieces = [("".join(draw.choices("abc", k=draw.randrange(30))), draw.randrange(1, 4)) for _ in range(12)]
    pieces = list(dict(pieces).items())
    row = TokenRow(dict(pieces))
    for _ in range(12):
        found = [pair for pair, n in counted(row).items() if n]
        if not found:
            break
        pair = draw.choice(found)
        before = counted(row)
        changed = row.merge(pair)
        pieces = [(merge(piece, pair), n) for piece, n in pieces]
        assert list(row) == [token for piece, _ in pieces for token in piece]
        expected = Counter()
        for piece, n in pieces:
            expected.update({pair: k * n for pair, k in pair_counts({piece: 1}).items()})
        assert counted(row) == expected
        assert {p for p in before.keys() | expected.keys() if before[p] != expected[p]} <= changed | {pair}
