"""Controls: they redraw, keep a still, and outlive a value that cannot be drawn."""

import importlib
import sys
from pathlib import Path

import pytest
import torch

from course_lib.show.attention_views import head_view
from course_lib.show.plots import Picture
from course_lib.show.widgets import WIDGET, explore, live


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


def test_a_line_of_text_is_drawn_as_it_is_typed():
    control = explore(lambda said: Picture(b"", said), said=("say", "to be"))
    line, shown = control.box.children
    assert line.continuous_update is False and 'alt="to be"' in shown.value
    line.value = "<not> to be"
    assert 'alt="&lt;not&gt; to be"' in shown.value


@pytest.mark.parametrize("wrong", [5, ("x", 1), ("x",), ("x", 1, 2), [1, 2, 3]])
def test_a_control_of_another_form_is_refused_in_words(wrong):
    with pytest.raises((ValueError, TypeError), match="must be|iterable|options"):
        explore(lambda x: Picture(b"", "x"), x=wrong)


def test_what_draws_no_picture_is_refused_in_words():
    with pytest.raises(TypeError, match=r"picture\(ax, alt=...\); got NoneType: is there a `return picture"):
        explore(lambda x: None, x=("x", 0.5, 0.0, 1.0, 0.1))


def test_half_a_character_in_a_sentence_is_spelt_out():
    def fail(n):
        if n:
            raise ValueError("half \ud800")
        return Picture(b"", "x")

    control = explore(fail, n=("n", 0, 0, 1, 1))
    control.box.children[0].value = 1
    assert "half \\ud800" in control.box.children[1].value


def test_without_ipywidgets_it_is_said_in_one_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "ipywidgets", None)
    monkeypatch.delitem(sys.modules, "course_lib.show.widgets")
    with pytest.raises(ModuleNotFoundError, match="need the package ipywidgets, which is missing") as missing:
        importlib.import_module("course_lib.show.widgets")
    pinned = str(missing.value).split("`")[1].removeprefix("pip install ")
    assert f'"{pinned}"' in (Path(__file__).parents[1] / "pyproject.toml").read_text()


def test_a_first_picture_that_fails_is_an_error_in_the_notebook():
    with pytest.raises(ValueError, match="three"):
        explore(draw, n=("n", 3, 0, 5, 1), kind=("kind", "a", ["a"]))


def test_a_view_moves_where_a_kernel_runs_and_stores_its_pictures_alone():
    """live: the frame with its scripts is in the widget, the stills are in the page."""
    view = head_view([torch.eye(3)[None, None]], ["a", "b", "c"])
    shown = live(view)
    bundle = shown._repr_mimebundle_()
    assert "<iframe" in shown.box.value and "<iframe" not in bundle["text/html"]
    assert bundle["text/html"].count("<img") == len(view.pictures) == 1
    assert "Run the cell" in bundle["text/plain"] and repr(view) in bundle["text/plain"]
