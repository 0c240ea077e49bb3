"""Controls: they redraw, keep a still, and outlive a value that cannot be drawn."""

import pytest

from course_lib.plots import Picture
from course_lib.widgets import WIDGET, explore


def draw(n, kind):
    if n == 3:
        raise ValueError("three <cannot> be drawn")
    return Picture(b"png", f"{kind} {n}")


def made():
    control = explore(draw, n=("how many", 1, 0, 5, 1), kind=("kind", "a", ["a", "b"]))
    slider, menu, shown = control.box.children
    return control, slider, menu, shown


def test_moves_through_its_whole_range():
    _, slider, menu, shown = made()
    for kind in ("b", "a"):
        menu.value = kind
        for n in range(6):
            slider.value = n
            assert ("three &lt;cannot&gt; be drawn" if n == 3 else f'alt="{kind} {n}"') in shown.value


def test_one_output_with_widget_still_and_text():
    control, slider, menu, _ = made()
    bundle = control._repr_mimebundle_()
    assert set(bundle) == {WIDGET, "text/html", "text/plain"}
    assert 'alt="a 1"' in bundle["text/html"] and "how many, kind" in bundle["text/html"]
    assert "Figure: a 1" in bundle["text/plain"]
    assert slider.description == slider.tooltip == "how many" and menu.description == "kind"


def test_whole_numbers_or_fractions():
    control = explore(lambda x: Picture(b"", str(x)), x=("x", 0.5, 0.0, 1.0, 0.1))
    assert type(control.box.children[0]).__name__ == "FloatSlider"


@pytest.mark.parametrize("wrong", [5, ("x",), ("x", 1, 2), [1, 2, 3]])
def test_a_control_of_another_form_is_refused_in_words(wrong):
    with pytest.raises((ValueError, TypeError), match="must be|iterable|options"):
        explore(lambda x: Picture(b"", "x"), x=wrong)


def test_a_first_picture_that_fails_is_an_error_in_the_notebook():
    with pytest.raises(ValueError, match="three"):
        explore(draw, n=("n", 3, 0, 5, 1), kind=("kind", "a", ["a"]))
