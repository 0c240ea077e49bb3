"""Write data/README.md, which gathers the cards of all corpora: `python -m course_lib.data`."""

from __future__ import annotations

from pathlib import Path

from course_lib.data import (
    dates,
    digits,
    emoji,
    emoji_names,
    fashion,
    glyphs,
    grammar,
    interface,
    key_values,
    locale_names,
    long_memory,
    order,
    photographs,
    play_tasks,
    plays,
    scenes,
    senses,
    sounds,
    territories,
    word_tasks,
)
from course_lib.data.beside import write_beside

README = Path(__file__).resolve().parents[2] / "data" / "README.md"
OPENING = """# The data of this course

Real text and real images that come inside installed packages, so that every lesson runs with no network.
Every corpus has `load()`, which gives a `datasets.DatasetDict` with fixed train, validation and test splits
(test alone where nothing is trained on it), and `card()`, which says what follows here; tasks that are drawn without
end, and photographs that are only looked at, have their card here too. This file is written by
`python -m course_lib.data`.
"""


def readme() -> str:
    """The whole text of data/README.md: an opening and the card of every corpus."""
    corpora = (
        plays,
        dates,
        grammar,
        interface,
        digits,
        scenes,
        fashion,
        glyphs,
        photographs,
        long_memory,
        key_values,
        order,
        word_tasks,
        emoji,
        emoji_names,
        play_tasks,
        senses,
        sounds,
        territories,
        locale_names,
    )
    return "\n".join([OPENING, *(corpus.card() for corpus in corpora)])


def main() -> None:
    """Write the file; raises FileNotFoundError outside a checkout."""
    if not README.parent.is_dir():
        raise FileNotFoundError(f"{README.parent} does not exist: run this in a checkout of the course.")
    write_beside(README, readme())
    print(f"wrote {README}")


if __name__ == "__main__":
    main()
