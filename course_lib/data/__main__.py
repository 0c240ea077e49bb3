"""Make anew what is made, not typed, in data/README.md, the cards of all corpora: `python -m course_lib.data`.

Between `<!-- made:NAME -->` and `<!-- /made -->` stands one of: `contents`, all cards with the lessons that use them;
a table of `TABLES`; `NAME version`, the version and the checksum of a corpus. The rest is written by hand.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from datetime import date

import numpy as np

from course_lib.data import (
    README,
    SPLITS,
    dates,
    digits,
    emoji,
    emoji_names,
    glyphs,
    grammar,
    interface,
    locale_names,
    play_tasks,
    plays,
    scenes,
    senses,
    sounds,
    territories,
    word_tasks,
)
from course_lib.data.beside import write_beside

BLOCK = re.compile(r"(<!-- made:([\w ]+) -->\n).*?(<!-- /made -->)", re.DOTALL)
TITLE = re.compile(r"^## (.+ \(`course_lib\.data\.(\w+)`\))$", re.MULTILINE)
# Modules that give a corpus another form: a lesson that imports one of them uses the corpus.
FORMS = {"glyphs": ("glyph_names", "letter_names"), "plays": ("punctuation",)}


def contents() -> Iterable[tuple]:
    """Each card, and the lessons whose notebook imports its corpus."""
    notebooks = sorted((README.parents[1] / "notebooks").glob("*.ipynb"))
    imports = {path: re.findall(r'"(?:from|import) course_lib\.data.*', path.read_text("utf-8")) for path in notebooks}
    for title, corpus in TITLE.findall(README.read_text(encoding="utf-8")):
        name = re.compile(rf"\b({'|'.join((corpus, *FORMS.get(corpus, ())))})\b")
        used = [path for path, lines in imports.items() if name.search(" ".join(lines))]
        anchor = re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")
        lessons = " · ".join(f"[{path.stem[:2]}](../notebooks/{path.name})" for path in used)
        yield f"[{title.partition(' (')[0]}](#{anchor})", lessons


def _plays():
    for split in SPLITS:
        part = plays.rows(split)
        scenes, speeches = {row[:4] for row in part}, sum(bool(row.speaker) for row in part)
        n_plays = len({row.play for row in part})
        yield split, n_plays, len(scenes), speeches, len(part) - speeches, len(plays.text(split))


def _written_dates():
    for code in ("en", *dates.SHOWN):
        language = dates.Language(code)
        written = language.write([date(1992, 8, 13), date(2001, 3, 5)]).text
        yield language.locale.english_name, f"`{code}`", written


def _dates():
    for split in SPLITS:
        part = dates.pairs(split)
        yield split, len(dates.days(split)), len(part), *(sum(map(len, side)) for side in zip(*part, strict=True))


def _grammar():
    for split in SPLITS:
        part = grammar.pairs(split, 300)
        source, target, links = (sum(map(len, column)) / len(part) for column in zip(*part, strict=True))
        alone = 1 - sum(len({i for i, _ in pair.alignment}) for pair in part) / len(part) / source
        yield split, grammar.SIZES[split], f"{source:.1f}", f"{target:.1f}", f"{links:.1f}", f"{alone:.1%}"


def _interface():
    for split in SPLITS:
        part = interface.rows(split)
        french = [token for row in part for token in row.target_tokens]
        yield split, len(part), sum(len(row.source_tokens) for row in part), len(french), len(set(french))


def _digits():
    for split in SPLITS:
        labels = digits.arrays(split)[1]
        yield split, len(labels), ", ".join(map(str, np.bincount(labels)))


def _scenes():
    for kind, crowded in (("plain", False), ("crowded", True)):
        shares = scenes.shares(scenes.scenes("test", 1000, crowded))
        yield kind, ", ".join(f"{share:.0%}" for share in shares), f"`{scenes.SHARED[crowded]}`"


def _glyphs():
    for faces, which in glyphs.FACES.items():
        counts = [len(glyphs.letters(faces, names)[1]) for names in SPLITS]
        yield faces, " · ".join(which), *counts, len(glyphs.glyphs(faces)[1])


def _word_tasks():
    for task in word_tasks.TASKS:
        yield task, " · ".join(" → ".join(pair) for pair in word_tasks.pairs(task, "train")[:3])


def _emoji():
    groups = [Counter(row.group for row in emoji.rows(split)) for split in SPLITS]
    for group in emoji.GROUPS:
        yield group, *(counts[group] for counts in groups)
    yield "all", *(counts.total() for counts in groups)


def _emoji_names():
    english = [row.name for split in SPLITS for row in emoji_names.names(split, "en")]
    for code, language in emoji_names.LANGUAGES.items():
        rows = [row for split in SPLITS for row in emoji_names.names(split, code)]
        names, tomato = [row.name for row in rows], next(row.name for row in rows if row.emoji == "🍅")
        yield f"`{code}`", *language, tomato, sum(map(len, names)), _equal(names, english)


def _senses():
    for word, of_word in senses.SENTENCES.items():
        yield word, *(f"{sense}: {sentences[0]}" for sense, sentences in of_word.items())


def _sounds():
    for split in SPLITS:
        lengths = [len(row.word) for row in sounds.words(split)]
        yield split, len(lengths), round(sum(lengths) / len(lengths)), sum(length >= 14 for length in lengths)


def _territories():
    parts = [territories.facts(split) for split in SPLITS]
    for kind in territories.KINDS:
        answers = [one.answer for part in parts for one in part if one.kind == kind]
        often = max(sorted(set(answers)), key=answers.count)
        most = f"{often}: {answers.count(often) / len(answers):.0%}"
        yield kind, *(sum(one.kind == kind for one in part) for part in parts), len(set(answers)), most
    yield "all", *map(len, parts), "", ""


def _kinds_of_names():
    parts = [locale_names.items(split) for split in SPLITS]
    for kind in locale_names.KINDS:
        yield kind, *(sum(one.kind == kind for one in part) for part in parts)
    yield "all", *map(len, parts)


def _names():
    size, english = locale_names.amounts(), locale_names.names("en")
    egypt = next(i for i, one in enumerate(locale_names.items()) if (one.kind, one.code) == ("territory", "EG"))
    for code, language in locale_names.LANGUAGES.items():
        names = locale_names.names(code)
        yield f"`{code}`", *language, names[egypt], size[code], _equal(names, english)


def _equal(names: list[str], english: list[str]) -> int:
    return sum(one == other for one, other in zip(names, english, strict=True))


# The columns, where those of numbers are set to the right by a >, and what gives the rows.
TABLES = {
    "contents": ("card | lessons", contents),
    "plays": ("split | plays | scenes | speeches | directions | characters of `text()`", _plays),
    "written dates": ('language | code | two dates, `style="full"`', _written_dates),
    "dates": ("split | days | pairs | English tokens | French tokens | links", _dates),
    "grammar": (
        "split | pairs | English tokens | French tokens | links | English tokens with no counterpart",
        _grammar,
    ),
    "interface": ("split | pairs | English tokens | French tokens | different French tokens", _interface),
    "digits": ("split | images | of the digits 0, 1, … 9", _digits),
    "scenes": (
        f"scenes | with 0, 1, … {scenes.MOST} objects | two boxes share at most (intersection over union)",
        _scenes,
    ),
    "glyphs": ("faces | which | >names: train | >names: validation | >names: test | >all signs", _glyphs),
    "word tasks": ("task | the first three pairs", _word_tasks),
    "emoji": ("group | train | validation | test", _emoji),
    "emoji names": ("code | language | script | family | 🍅 | >characters | >names as in English", _emoji_names),
    "senses": ("word | the first sense | the second sense", _senses),
    "sounds": ("split | >words | >letters a word | >of 14 letters or more", _sounds),
    "territories": (
        "kind | >train | >validation | >test | >different answers | the most frequent one",
        _territories,
    ),
    "kinds of names": ("kind | >train | >validation | >test", _kinds_of_names),
    "names": (
        "code | language | script | family | Egypt | >characters of train | >names as in English",
        _names,
    ),
}


# What has a version and a checksum, by the name of its module.
VERSIONED = {
    corpus.__name__.rpartition(".")[2]: corpus
    for corpus in (
        *(dates, digits, emoji, emoji_names, glyphs, grammar, interface, locale_names),
        *(play_tasks, plays, scenes, senses, sounds, territories, word_tasks),
    )
}


def made(name: str) -> str:
    """The block of this name; raises KeyError for a table or a corpus that there is not."""
    if name.endswith(" version"):
        corpus = VERSIONED[name.removesuffix(" version")]
        return f"**Version** {corpus.VERSION}, checksum `{corpus.checksum()}`."
    columns, rows = TABLES[name][0].split(" | "), TABLES[name][1]()
    lines = [[column.removeprefix(">") for column in columns], ["---:" if c[0] == ">" else "---" for c in columns]]
    lines += [[f"{cell:,}" if isinstance(cell, int) else cell for cell in row] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def readme() -> str:
    """The text of data/README.md with its blocks made anew; raises FileNotFoundError outside a checkout."""
    return BLOCK.sub(lambda found: f"{found[1]}{made(found[2])}\n{found[3]}", README.read_text(encoding="utf-8"))


def main() -> None:
    """Write the file; raises FileNotFoundError outside a checkout."""
    write_beside(README, readme())
    print(f"wrote {README}")


if __name__ == "__main__":
    main()
