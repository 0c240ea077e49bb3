"""The one vector, drawn: nothing of what is to come is shown, every token is named, and it is quick enough to move."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from plain import in_plain_pictures

from course_lib.show.one_vector import one_vector

READ, WRITTEN = ["k", "n", "i", "t", "<end>"], ["<start>", "N", "IH1", "T"]
KEPT, STATES = np.linspace(0, 1, 36).reshape(4, 9), np.linspace(-1, 1, 9 * 40).reshape(9, 40)


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


@pytest.mark.parametrize("step", [1, 5, 9])
def test_what_comes_after_the_step_is_blank_and_the_state_is_that_of_the_step(step):
    left, right = one_vector(KEPT, STATES, READ, WRITTEN, step).axes
    shown = left.images[0].get_array().filled(np.nan)
    np.testing.assert_array_equal(shown[:, :step], KEPT[:, :step])
    assert np.isnan(shown[:, step:]).all()
    cells = right.images[0].get_array().filled(np.nan)
    np.testing.assert_array_equal(cells[~np.isnan(cells)], STATES[step - 1])
    assert [*READ, *WRITTEN][step - 1] in right.texts[0].get_text()


def test_every_token_is_named_and_the_line_stands_between_the_two_networks():
    left, _ = one_vector(KEPT, STATES, READ, WRITTEN, 7).axes
    assert [label.get_text() for label in left.get_xticklabels()] == [*READ, *WRITTEN]
    assert [label.get_text() for label in left.get_yticklabels()] == READ[:4]
    assert left.lines[0].get_xdata()[0] == len(READ) - 0.5


@pytest.mark.parametrize(
    ("kept", "states", "step"), [(KEPT[:, 1:], STATES, 3), (KEPT, STATES[1:], 3), (KEPT, STATES, 0), (KEPT, STATES, 10)]
)
def test_sizes_that_do_not_fit_are_refused(kept, states, step):
    with pytest.raises(ValueError, match="A column of `kept`"):
        one_vector(kept, states, READ, WRITTEN, step)


@pytest.mark.slow
def test_a_move_is_quick():
    long = ["x"] * 18, ["AH0"] * 19
    assert in_plain_pictures(lambda: one_vector(np.zeros((18, 37)), np.zeros((37, 256)), *long, 20)) < 3
