"""translation/error_rate.py: edits against every way to edit short rows, and rates over all tokens."""

import itertools
from functools import cache

import pytest

from course_lib.translation.error_rate import edit_distance, error_rate


@cache
def by_every_way(said, right):
    """The fewest edits, each way tried."""
    if not said or not right:
        return len(said) + len(right)
    return min(
        by_every_way(said[1:], right) + 1,
        by_every_way(said, right[1:]) + 1,
        by_every_way(said[1:], right[1:]) + (said[0] != right[0]),
    )


def test_edit_distance_is_the_fewest_edits():
    rows = [row for n in range(5) for row in itertools.product("ab", repeat=n)]
    for said, right in itertools.product(rows, rows):
        assert edit_distance(said, right) == by_every_way(said, right) == edit_distance(right, said)
    assert edit_distance("kitten", "sitting") == 3 and edit_distance(["N", "AY1", "T"], ["N", "AY0", "T"]) == 1


def test_error_rate_is_over_the_right_tokens_of_all():
    assert error_rate([["a"], ["b", "c", "d"]], [["a", "b"], ["b", "c"]]) == 2 / 4
    assert error_rate([[]], [["a"]]) == 1 and error_rate([["a", "b", "c"]], [["x"]]) == 3
    assert error_rate([["a"]], [["a"]]) == 0


@pytest.mark.parametrize("said, right", [([["a"]], []), ([], []), ([["a"]], [[]])])
def test_what_has_no_rate_is_refused_in_words(said, right):
    with pytest.raises(ValueError, match="Each sentence needs its right one"):
        error_rate(said, right)
