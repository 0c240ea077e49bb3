"""What a deck needs beside itself: reveal.js, MathJax and fonts, copied out of packages that ship them.

Nothing of it lies in this repository, and a deck asks no server for it.
"""

import base64
import io
import shutil
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path


@dataclass(frozen=True)
class Source:
    """A package that ships files: what they are, its names for pip and for import, the folder inside it."""

    what: str
    package: str
    module: str
    inside: str
    wanted: tuple[str, ...]  # files and folders


REVEAL = Source(
    "reveal.js", "sphinx-revealjs==3.2.1", "sphinx_revealjs", "_static/revealjs",
    ("dist/reset.css", "dist/reveal.css", "dist/reveal.js", "plugin/notes/notes.js"),
)  # fmt: skip
# Formulas are drawn as SVG, from outlines: a web font may be refused in a page that was opened from disk.
MATHJAX = Source(
    "MathJax", "sphinx-mathjax-offline==0.0.2", "sphinx-mathjax-offline", "static/mathjax",
    ("startup.js", "core.js", "input/tex-full.js", "output/svg.js", "output/svg/fonts/tex.js",
     "a11y/assistive-mml.js"),
)  # fmt: skip
FONTS = Source(
    "DejaVu fonts", "matplotlib==3.11.2", "matplotlib", "mpl-data/fonts/ttf",
    ("DejaVuSans.ttf", "DejaVuSans-Bold.ttf", "DejaVuSans-Oblique.ttf",
     "DejaVuSansMono.ttf", "DejaVuSansMono-Bold.ttf", "DejaVuSansMono-Oblique.ttf"),
)  # fmt: skip
FOLDERS = {"reveal": REVEAL, "mathjax": MATHJAX}

# Latin, Greek, punctuation, super- and subscripts, letters, arrows, mathematics, boxes, shapes, marks.
CHARACTERS = [(0x20, 0x17F), (0x370, 0x3FF), (0x2000, 0x20CF), (0x2100, 0x22FF), (0x2300, 0x23FF),
              (0x2500, 0x25FF), (0x2600, 0x26FF), (0x2700, 0x27BF), (0xFFFD, 0xFFFD)]  # fmt: skip


def collect(folder: Path) -> None:
    """Copy reveal.js and MathJax into `folder`, write fonts.css; ValueError names a missing package."""
    for name, source in FOLDERS.items():
        for wanted in source.wanted:
            original, copy = _found(source, wanted), folder / name / wanted
            copy.parent.mkdir(parents=True, exist_ok=True)
            if original.is_dir():
                shutil.copytree(original, copy, dirs_exist_ok=True)
            else:
                shutil.copyfile(original, copy)
    (folder / "fonts.css").write_text("".join(_face(_found(FONTS, name)) for name in FONTS.wanted))


def _found(source: Source, wanted: str) -> Path:
    spec = find_spec(source.module)
    if spec is None:
        raise ValueError(
            f"The slides need {source.what}, and its package is not installed: pip install {source.package}"
        )
    path = Path(spec.submodule_search_locations[0], source.inside, wanted)
    if not path.exists():
        raise ValueError(
            f"The slides need {source.what}, and the installed package has no {source.inside}/{wanted}: "
            f"pip install --force-reinstall {source.package}"
        )
    return path


def _face(path: Path) -> str:
    """A font as a CSS rule that holds it, so that every line ends at the same place on every machine."""
    from fontTools import subset

    options = subset.Options(flavor="woff", hinting=False, layout_features=["kern"], notdef_outline=True)
    options.drop_tables += ["FFTM"]  # when the font was made
    with subset.load_font(path, options) as font:
        chosen = subset.Subsetter(options)
        chosen.populate(unicodes=[code for low, high in CHARACTERS for code in range(low, high + 1)])
        chosen.subset(font)
        file = io.BytesIO()
        font.save(file)
    family = "DejaVu Sans Mono" if "Mono" in path.stem else "DejaVu Sans"
    weight = "bold" if "Bold" in path.stem else "normal"
    style = "oblique" if "Oblique" in path.stem else "normal"
    data = base64.b64encode(file.getvalue()).decode()
    return (
        f'@font-face {{ font-family: "{family}"; font-weight: {weight}; font-style: {style}; '
        f'src: url("data:font/woff;base64,{data}") format("woff"); }}\n'
    )


def png_size(base64_start: str) -> tuple[int, int]:
    """Width and height of a PNG, in pixels, from the first 32 characters of its Base64."""
    header = base64.b64decode(base64_start)
    return int.from_bytes(header[16:20]), int.from_bytes(header[20:24])
