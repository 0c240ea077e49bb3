"""The sum over passages, drawn: every number is there, the pieces make the sum, arrows point at the posterior."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from plain import in_plain_pictures

from course_lib.show.summed import summed

TEXTS = [
    f"Passage {n} is about a place of which somebody would like to know something, or so it says." for n in range(4)
]
WEIGHTS, GIVEN = [0.6, 0.2, 0.15, 0.05], [0.1, 0.9, 0.0, 1.0]


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def widths(ax):
    return [bar.get_width() for bar in ax.patches]


def test_the_bars_are_the_numbers_and_the_pieces_make_the_sum():
    weight, reader, product = summed(TEXTS, WEIGHTS, GIVEN, answer="lev", question="What?").axes
    np.testing.assert_allclose(widths(weight), WEIGHTS)
    np.testing.assert_allclose(widths(reader), GIVEN)
    terms = np.multiply(WEIGHTS, GIVEN)
    np.testing.assert_allclose(widths(product), [*terms, *terms])
    last = product.patches[-1]
    assert last.get_x() + last.get_width() == pytest.approx(terms.sum())
    said = [text.get_text() for ax in (weight, product) for text in ax.texts]
    assert "0.29" in said and "p(“lev” | x), the sum" in said and sum("Passage" in text for text in said) == 4


def test_an_arrow_leads_to_the_posterior_where_it_moves():
    weight = summed(TEXTS, WEIGHTS, GIVEN, answer="lev", lift=True).axes[0]
    arrows = [text for text in weight.texts if getattr(text, "arrow_patch", None)]
    after = np.multiply(WEIGHTS, GIVEN) / np.dot(WEIGHTS, GIVEN)
    np.testing.assert_allclose([arrow.xy[0] for arrow in arrows], after)
    np.testing.assert_allclose([arrow.xyann[0] for arrow in arrows], WEIGHTS)
    nothing = summed(TEXTS, WEIGHTS, [0.0] * 4, answer="lev", lift=True).axes[0]
    assert not any(getattr(text, "arrow_patch", None) for text in nothing.texts)


@pytest.mark.parametrize(
    ("weights", "given", "said"),
    [
        (WEIGHTS[1:], GIVEN, "A weight and a probability for each of 4"),
        (WEIGHTS, GIVEN[1:], "A weight and a probability"),
        ([0.5] * 4, GIVEN, "sum to 1"),
        (WEIGHTS, [2.0] * 4, "a probability, 0 to 1"),
        ([1.2, -0.2, 0, 0], GIVEN, "0 or more"),
    ],
)
def test_what_does_not_fit_is_refused(weights, given, said):
    with pytest.raises(ValueError, match=said):
        summed(TEXTS, weights, given, answer="lev")


@pytest.mark.slow
def test_a_move_is_quick():
    assert in_plain_pictures(lambda: summed(TEXTS, WEIGHTS, GIVEN, answer="lev", lift=True)) < 3
