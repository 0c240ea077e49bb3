"""`python -m course_lib.workshop.publish.motion`: the README's picture, notebooks/motion.gif, of a control that moves.

The pictures are those that `make frames` has drawn for it; below them a slider stands where it would stand.
"""

import base64
import io
import sys

import nbformat
from matplotlib.font_manager import findfont
from PIL import Image, ImageDraw, ImageFont

from course_lib.data.beside import write_beside
from course_lib.workshop.publish import frames, measured

LESSON, CONTROL = "01_rnn_bptt.ipynb", "hello-control"
TARGET = measured.NOTEBOOKS / "motion.gif"
WIDTH, ROW = 900, 46  # pixels: of the whole, and of the slider's row below the picture
REST, LAST = 450, 2500  # milliseconds that a position stands, and the last one
ROUNDS = 4  # then it stands still
INK, LINE, KNOB = "#1F2933", "#C5CDD5", "#1769AA"


def motion(control: dict) -> bytes:
    """A control's positions, as `frames.of` has them, as an animated GIF; ValueError for other than one slider."""
    sliders = [axis for axis in control["axes"] if axis["kind"] == "slider"]
    if len(control["axes"]) != 1 or not sliders:
        raise ValueError("only a control of one slider can be shown in motion: name another.")
    (axis,) = sliders
    painted = [_painted(one, axis, at) for at, one in enumerate(control["pictures"]) if "png" in one]
    first, *others = [
        one.quantize(128, Image.Quantize.MEDIANCUT, kmeans=1, dither=Image.Dither.NONE) for one in painted
    ]
    rests = [REST] * len(others) + [LAST]
    file = io.BytesIO()
    first.save(file, "GIF", save_all=True, append_images=others, duration=rests, loop=ROUNDS, optimize=True)
    return file.getvalue()


def _painted(picture, axis, at):
    """One position: its picture, and the slider below."""
    drawn = Image.open(io.BytesIO(base64.b64decode(picture["png"]))).convert("RGB")
    drawn = drawn.resize((WIDTH, round(drawn.height * WIDTH / drawn.width)), Image.Resampling.LANCZOS)
    paper = Image.new("RGB", (WIDTH, drawn.height + ROW), "white")
    paper.paste(drawn)
    pen, middle = ImageDraw.Draw(paper), drawn.height + ROW // 2
    font = ImageFont.truetype(findfont("DejaVu Sans"), 17)
    pen.text((24, middle), axis["label"], INK, font, anchor="lm")
    left, right = 60 + int(pen.textlength(axis["label"], font)), WIDTH - 90
    knob = left + (right - left) * at / (len(axis["shown"]) - 1)
    pen.line([(left, middle), (right, middle)], LINE, 5)
    pen.line([(left, middle), (knob, middle)], KNOB, 5)
    pen.ellipse([(knob - 10, middle - 10), (knob + 10, middle + 10)], KNOB)
    pen.text((right + 34, middle), axis["shown"][at], INK, font, anchor="lm")
    return paper


def main() -> int:
    """The command; 0 if the picture was drawn, 1 if the control's positions are not there."""
    found = frames.of(nbformat.read(measured.NOTEBOOKS / LESSON, as_version=4), LESSON)
    if not found or CONTROL not in found:
        print(f"{CONTROL} of {LESSON} is not drawn: run `make frames FILES=notebooks/{LESSON}`.", file=sys.stderr)
        return 1
    made = motion(found[CONTROL])
    write_beside(TARGET, made)
    print(f"{TARGET.relative_to(measured.ROOT)}: {len(made):,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
