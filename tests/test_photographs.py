"""The photographs: scikit-learn's own, cut to their middle square."""

import numpy as np
import pytest
from sklearn.datasets import load_sample_image

from course_lib.data.photographs import CREDITS, photograph


@pytest.mark.parametrize("name", CREDITS)
def test_the_square_in_the_middle_is_scikit_learns(name):
    """photograph: at its own height it is the middle of the source, dot for dot."""
    source = load_sample_image(f"{name}.jpg")
    left = (source.shape[1] - source.shape[0]) // 2
    np.testing.assert_array_equal(photograph(name, len(source)), source[:, left : left + len(source)])


def test_a_smaller_one_has_the_same_colours():
    small, whole = photograph("china", 56), photograph("china", 427)
    assert small.shape == (56, 56, 3) and small.dtype == np.uint8
    np.testing.assert_allclose(small.mean((0, 1)), whole.mean((0, 1)), atol=1)


@pytest.mark.parametrize("name, side", [("cat", 224), ("china", 0)])
def test_what_is_not_there_is_refused_in_words(name, side):
    with pytest.raises(ValueError, match="There are china and flower"):
        photograph(name, side)
