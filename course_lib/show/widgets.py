"""Controls: a slider or a menu bound to a function that draws, and a still for where no kernel runs."""

import html
from collections.abc import Callable

from course_lib.show import frames
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

    def __init__(self, box: ipywidgets.Widget, still: str, plain: str, positions: dict | None = None):
        self.box, self._still, self._plain = box, still, plain
        self._positions = {frames.MIME: positions} if positions else {}

    def _repr_mimebundle_(self, include=None, exclude=None) -> dict:
        live = self.box._repr_mimebundle_()
        return {WIDGET: live[WIDGET], "text/html": self._still, "text/plain": self._plain, **self._positions}


def explore(draw: Callable[..., Picture], **controls) -> Control:
    """Bind controls to draw(**values) -> Picture, which is called anew, with all values, whenever one of them moves.

    Each control is (label, start, low, high, step) for a slider, whole numbers or fractions, (label, start, options)
    for a menu, or (label, start) for a line of text, which is drawn when Enter is pressed. Raises ValueError for any
    other form, TypeError where draw gives no Picture. A value that draw cannot draw is answered with its own sentence.
    """
    made = {name: _control(name, spec) for name, spec in controls.items()}
    first = frames.picture_of(draw, {name: control.value for name, control in made.items()})
    shown = ipywidgets.HTML(first._repr_html_())

    def redraw(_change=None) -> None:
        with quickly():
            found = frames.drawn(draw, {name: control.value for name, control in made.items()})
        # Where nothing can be drawn the student sees why, and the control stays alive.
        shown.value = f"<p role='alert'>{found}</p>" if isinstance(found, str) else found._repr_html_()

    for control in made.values():
        control.observe(redraw, names="value")
    labels = ", ".join(control.description.rstrip(":") for control in made.values())
    still = f"{first._repr_html_()}{frames.STANDS}<strong>{html.escape(labels)}</strong>.</p>"
    plain = f"{first!r}\nStill picture. Run the cell to move: {labels}."
    positions = frames.frames(draw, controls) if frames.asked() else None
    return Control(ipywidgets.VBox([*made.values(), shown]), still, plain, positions)


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
        steps = (start - low) / step
        if not low <= start <= high or abs(steps - round(steps)) > 1e-6:
            raise ValueError(f"Control {name!r} starts at {start}, which is none of {low}, {low + step} … {high}.")
        slider = ipywidgets.IntSlider if all(isinstance(v, int) for v in spec[1:]) else ipywidgets.FloatSlider
        return slider(description=label, value=start, min=low, max=high, step=step, tooltip=label, **look)
    if isinstance(spec, tuple) and len(spec) == 3:
        label, start, options = spec
        if not options:
            raise ValueError(f"Control {name!r} is a menu with nothing to choose.")
        return ipywidgets.Dropdown(description=label, value=start, options=options, tooltip=label, **look)
    if isinstance(spec, tuple) and len(spec) == 2 and isinstance(spec[1], str):
        label, start = spec
        return ipywidgets.Text(description=label, value=start, continuous_update=False, tooltip=label, **look)
    raise ValueError(
        f"Control {name!r} must be (label, start, low, high, step), (label, start, options) or (label, text); "
        f"got {spec!r}."
    )
