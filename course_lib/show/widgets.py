"""Controls: a slider or a menu bound to a function that draws, and a still for where no kernel runs."""

import html
from collections.abc import Callable

from course_lib.show.plots import Picture, quickly

try:
    import ipywidgets
except ModuleNotFoundError as missing:
    if missing.name != "ipywidgets":
        raise
    raise ModuleNotFoundError(
        "Controls need the package ipywidgets, which is missing: run `pip install ipywidgets==8.1.9`, then restart "
        "the kernel."
    ) from None

WIDGET = "application/vnd.jupyter.widget-view+json"


class Control:
    """Live controls above a picture; where no kernel runs (a page, a slide, a repository viewer), the still instead."""

    def __init__(self, box: ipywidgets.Widget, still: str, plain: str):
        self.box, self._still, self._plain = box, still, plain

    def _repr_mimebundle_(self, include=None, exclude=None) -> dict:
        live = self.box._repr_mimebundle_()
        return {WIDGET: live[WIDGET], "text/html": self._still, "text/plain": self._plain}


def explore(draw: Callable[..., Picture], **controls) -> Control:
    """Bind controls to draw(**values) -> Picture, which is called anew, with all values, whenever one of them moves.

    Each control is (label, start, low, high, step) for a slider, whole numbers or fractions, (label, start, options)
    for a menu, or (label, start) for a line of text, which is drawn when Enter is pressed. Raises ValueError for any
    other form, TypeError where draw gives no Picture. A value that draw cannot draw is answered with its own sentence.
    """
    made = {name: _control(name, spec) for name, spec in controls.items()}
    first = draw(**{name: control.value for name, control in made.items()})
    if not isinstance(first, Picture):
        raise TypeError(
            f"What a control draws must come back as picture(ax, alt=...); got {type(first).__name__}: "
            "is there a `return picture(...)` missing?"
        )
    shown = ipywidgets.HTML(first._repr_html_())

    def redraw(_change=None) -> None:
        try:
            with quickly():
                shown.value = draw(**{name: control.value for name, control in made.items()})._repr_html_()
        except Exception as error:  # the student sees the sentence, and the control stays alive
            text = (str(error) or type(error).__name__).encode("utf-8", "backslashreplace").decode()
            shown.value = f"<p role='alert'>{html.escape(text)}</p>"

    for control in made.values():
        control.observe(redraw, names="value")
    labels = ", ".join(control.description.rstrip(":") for control in made.values())
    still = (
        f'{first._repr_html_()}<p style="margin:.2em 0;opacity:.8">Still picture. Run the cell to move: '
        f"<strong>{html.escape(labels)}</strong>.</p>"
    )
    plain = f"{first!r}\nStill picture. Run the cell to move: {labels}."
    return Control(ipywidgets.VBox([*made.values(), shown]), still, plain)


def live(view) -> Control:
    """A view of `attention_views`, moving where a kernel runs, and its still pictures elsewhere.

    The scripts of a view are larger than all pictures of a lesson: so they are not stored with the notebook.
    """
    stills = "".join(still._repr_html_() for still in view.pictures)
    note = "Still picture. Run the cell for the view that moves."
    return Control(
        ipywidgets.HTML(view._repr_html_()),
        f'{stills}<p style="margin:.2em 0;opacity:.8">{note}</p>',
        f"{view!r}\n{note}",
    )


def _control(name: str, spec: tuple) -> ipywidgets.Widget:
    look = {"style": {"description_width": "initial"}, "layout": ipywidgets.Layout(width="min(36rem, 95%)")}
    if isinstance(spec, tuple) and len(spec) == 5:
        label, start, low, high, step = spec
        slider = ipywidgets.IntSlider if all(isinstance(v, int) for v in spec[1:]) else ipywidgets.FloatSlider
        return slider(description=label, value=start, min=low, max=high, step=step, tooltip=label, **look)
    if isinstance(spec, tuple) and len(spec) == 3:
        label, start, options = spec
        return ipywidgets.Dropdown(description=label, value=start, options=options, tooltip=label, **look)
    if isinstance(spec, tuple) and len(spec) == 2 and isinstance(spec[1], str):
        label, start = spec
        return ipywidgets.Text(description=label, value=start, continuous_update=False, tooltip=label, **look)
    raise ValueError(
        f"Control {name!r} must be (label, start, low, high, step), (label, start, options) or (label, text); "
        f"got {spec!r}."
    )
