"""Lessons keep their budgets, and no measured numeral is typed by hand; what is counted, shown on small notebooks."""

import json

import budgets
import pytest
from budgets import BUDGETS, Lesson, lowered, over, pasted, typed
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from course_lib.lesson import limits

HELD = budgets.held()

# --- the course as it stands


@pytest.mark.parametrize("name", HELD)
def test_it_keeps_its_budgets_or_the_list_has_it_and_it_falls(name):
    wrong = over(name, budgets.counted(HELD[name]), budgets.read().get(name, {}))
    assert not wrong, "\n" + "\n".join(wrong)


def test_the_list_names_only_what_is_there():
    assert budgets.read().keys() <= HELD.keys(), f"take what is gone out of the list: {budgets.LOWER}"


# --- what is counted


def text(source, kind=None, **more):
    return new_markdown_cell(source, metadata={"slideshow": {"slide_type": kind}} if kind else {}, **more)


def code(source, *outputs, kind=None, **more):
    metadata = more.pop("metadata", {}) | ({"slideshow": {"slide_type": kind}} if kind else {})
    return new_code_cell(source, outputs=list(outputs), metadata=metadata, **more)


def claimed(*numbers):
    """The outputs of claims with so many numbers each."""
    return [
        new_output(
            "display_data", {"text/plain": "✓"}, metadata={"unrolled": {"claim": "it holds", "values": [{}] * n}}
        )
        for n in numbers
    ]


def small(*more, laboratory=True, entry=None):
    """A lesson of two slides and 7 minutes, with these cells at the end of its core, and the same in its laboratory."""
    end = [text("# Laboratory", "slide", id="lab"), text("**Minutes.** 30", "notes", id="lab-notes")]
    end += [code("a = 1\nb = 2", *claimed(5), id="lab-code"), text("0.75 word " * 9, id="lab-text")]
    end[0].metadata["tags"] = ["laboratory"]
    cells = [
        text("# 01 · One two", "slide", id="title"),
        text("Five words in the notes.\n\n**Minutes.** 3", "notes", id="title-notes"),
        code("import torch\n\nx = 1", kind="skip", id="setup", metadata={"jupyter": {"source_hidden": True}}),
        text("## Three", "slide", id="step"),
        *more,
        text("**Minutes.** 4", "notes", id="step-notes"),
        *(end if laboratory else []),
    ]
    return Lesson("01_small.ipynb", new_notebook(cells=cells), entry or {})


def count(what, lesson):
    """The sum, and the cells that it comes from."""
    cells = BUDGETS[what].count(lesson)
    return sum(cells.values()), [cell for cell in cells if cells[cell]]


OPEN, CLAIMS, WORDS = "open lines of code in the core", "claims of the core", "words to read in the core"
ON_SLIDES, TOO_MANY = "lines missing on slides", "numbers too many in a claim"
TYPED, PASTED = "decimals typed in text", "decimals pasted in code"


def test_slides_and_minutes_of_the_core_alone():
    notes = text("**Minutes.** 2", "notes")
    lesson = small(notes, text("### Below", "subslide", id="below"), text("x", "fragment"))
    assert count("slides of the core", lesson) == (3, ["title", "step", "below"])
    assert count("minutes of the core", lesson) == (3 + 2 + 4, ["title", "step", "below"])


def test_a_lesson_without_a_laboratory_is_measured_as_a_whole_elsewhere():
    lesson = small(laboratory=False)
    assert count("slides of the core", lesson) == count("minutes of the core", lesson) == (0, [])
    assert count(OPEN, small(code("a", id="a"), laboratory=False)) == (1, ["a"])


@pytest.mark.parametrize(("cell", "lines"), [
    (code("# NBVAL_CHECK_OUTPUT\nx = 1\n\n# why\ny = 2", id="c"), 3),
    (code("x = 1", id="c", kind="skip"), 1),
    (code("draw()", id="c", metadata={"tags": ["figure"]}), 0),
    (code("draw()", id="c", metadata={"tags": ["figure"], "jupyter": {"source_hidden": False}}), 1),
    (code("def my(x):\n    ...\n\n\ncheck(my)", id="c", metadata={"tags": ["exercise"]}), 0),
    (code("quiz('a')", id="c"), 0),
    (code("# NBVAL_IGNORE_OUTPUT\ninvestigate('a')", id="c"), 0),
    (code("x = quiz", id="c"), 1),
    (code("x = 1", id="investigation-start"), 0),
    (text("x = 1", id="c"), 0),
])  # fmt: skip
def test_open_lines(cell, lines):
    assert count(OPEN, small(cell))[0] == lines


def test_lines_on_slides_are_those_that_the_room_sees():
    shown, hidden = "\n".join(["x = 1"] * 39), code("y = 1\n" * 50, kind="skip")
    folded = code("y = 1\n" * 50, metadata={"jupyter": {"source_hidden": True}})
    assert count(ON_SLIDES, small(hidden, folded)) == (40, ["slides"])
    assert count(ON_SLIDES, small(code(shown + "\nclaim('a', True)"), hidden, folded)) == (1, ["slides"])
    assert count(ON_SLIDES, small(code(shown + "\ny = 2"))) == (0, [])


def test_claims_are_those_that_were_made_and_their_numbers_too():
    lesson = small(code("for _ in range(3): claim(...)", *claimed(1, 2, 2), id="a"), code("x", *claimed(5, 3), id="b"))
    assert count(CLAIMS, lesson) == (5, ["a", "b"])
    assert count(TOO_MANY, lesson) == (3 + 1, ["b"])


def test_words_are_those_that_a_student_reads():
    lesson = small(text("Two words $a + b = c$ and – *four*.\n\n$$\nx\n= y$$", "skip", id="a"))
    assert count(WORDS, lesson) == (3 + 1 + 6, ["title", "step", "a"])  # "01 One two", "Three", then a's


@pytest.mark.parametrize(("source", "mb"), [("x = 1", 600), ("published.fetch('model')", 0)])
def test_seconds_and_memory_are_the_recorded_runs(source, mb):
    lesson = small(code(source), entry={"seconds": 80, "peak_mb": limits.MEMORY_MB + 600})
    assert count("seconds of Run All", lesson) == (80, ["Run All"])
    assert count("MB beyond the limit", lesson)[0] == mb


def test_numerals_count_in_the_whole_notebook():
    lesson = small(code("seen = [0.1, 0.2, 0.3, 0.4]", id="a"), text("It is 0.5.", "notes", id="b"))
    assert count(TYPED, lesson) == (1 + 9, ["b", "lab-text"])
    assert count(PASTED, lesson) == (4, ["a"])


# --- numerals


@pytest.mark.parametrize("marked", [
    "With $b = 0.5$ and `lr=0.01`, $$x = 1.5$$",
    "```\nx = 0.5\n```",
    "It had 28.4 BLEU (Vaswani et al., 2017, table 2).",
    "Liu et al. (2019, table 7) found 91.0, 94.9 and 95.6.",
    "By Press and Wolf, 2017, it fell to 65.1. So it helps.",
    "From the paper's table (Devlin et al., 2019):\n\n| a | b |\n| --- | --- |\n| 84.4 | 88.4. |\n| 1.0 | 2.0 |",
    "See section 3.2, equation 4.1, tables 5.1 and 5.2, figure A.1 and arXiv:1706.03762.",
    "- A. Vaswani et al. (2017). *Attention.* NeurIPS. Section 3: the model; 3.2: heads.",
    "Python 3.11 or newer, PyTorch 2.13.0, CC BY 4.0.",
    "*Run All:* 1.5 minutes on two CPU cores",
    "Read [this](https://example.org/v1.5/a) and https://example.org/2.5 and [that](a-0.5.md).",
    "<!-- made:bits -->\n| a | 0.5 |\n<!-- /made -->",
    "1,157 images, 3 of 10, version 1.2.3, GPT-3.5",
])  # fmt: skip
def test_a_marked_decimal_is_allowed(marked):
    assert typed(marked) == []


@pytest.mark.parametrize(("source", "found"), [
    ("The RNN needs 2.41 bits.", ["2.41"]),
    ("It is 0.5, not $0.4$.", ["0.5"]),
    ("(Vaswani et al., 2017) had it. Ours has 0.91.", ["0.91"]),
    ("Ours has 0.91. Vaswani et al. (2017) had more.", ["0.91"]),
    ("- Liu et al. (2019): yes\n- ours: 0.5", ["0.5"]),
    ("On May 4, 1981 it was 0.5.", ["0.5"]),
    ("Since July 2019 it is 0.5.", ["0.5"]),
    ("Ours:\n\n| a | 0.5 |\n| b | 1,234.5 |", ["0.5", "1,234.5"]),
    ("Devlin et al. (2019) had 84.4.\n\nOurs:\n\n| a | 0.5 |", ["0.5"]),
    ("**Ask.** At 1.2?", ["1.2"]),
    ("It takes 1.5 minutes", ["1.5"]),
    ("<!-- made:bits -->\n0.5\n<!-- /made -->\n0.6", ["0.6"]),
    ("It costs 0.5 $", ["0.5"]),
])  # fmt: skip
def test_a_typed_decimal_is_found(source, found):
    assert typed(source) == found


@pytest.mark.parametrize(("source", "found"), [
    ("a = [0.1, 0.2, 0.3]", 0),
    ("a = [0.1, 0.2, 0.3, 0.4]", 4),
    ("%matplotlib inline\na = {'x': (0.1, -0.2), 'y': [0.3, 0.4]}", 4),
    ("a = [f(0.1), 0.2, f(0.3), 0.4, b[0.5]]", 0),
    ("explore(f, rate=('rate', 0.1, 0.2, 0.3, 0.4))", 0),
    ("a = [1, 2, 3, 4, 5]", 0),
    ("a = '''\n0.1 0.2\n0.3 0.4\n'''", 4),
    ("alt = 'bars of 0.1, 0.2, 0.3 and 0.4'", 0),
    ("assert_close(mine, torch.tensor([0.1, 0.2, 0.3, 0.4]))", 0),
    ("x = torch.tensor([[1.0, 0.0], [0.0, 1.0]])", 0),
    ("assert f(1) == [0.1, 0.2, 0.3, 0.4]", 0),
    ("# chosen: a small language\na = {'le': 0.5, 'un': 0.3, 'du': 0.1, 'la': 0.1}", 0),
    ("a = [0.1, 0.2,\n     0.3, 0.4]  # Devlin et al., 2019, table 5", 0),
    ("# Devlin et al., 2019\n\n\na = [0.1, 0.2, 0.3, 0.4]", 4),
    ("a = [0.1, 0.2, 0.3, 0.4]\nb = [0.5, 0.6, 0.7, 0.8, 0.9]", 9),
])  # fmt: skip
def test_pasted_decimals(source, found):
    assert pasted(source) == found


# --- the list


TEN = {CLAIMS: {"a": 4, "b": 6}}


@pytest.mark.parametrize(("listed", "said"), [
    ({}, "x: 10 claims of the core, at most 8 (most in: b 6, a 4)"),
    ({CLAIMS: 10}, None),
    ({CLAIMS: 9}, "x: 10 claims of the core, and 9 when the list was made: it may only fall (most in: b 6, a 4)"),
    ({CLAIMS: 11}, "x: claims of the core have fallen from 11 to 10: write that into the list"),
    ({CLAIMS: 10, "jokes": 3}, "x: the list has “jokes”, which is no budget of it"),
])  # fmt: skip
def test_a_count_may_only_fall(listed, said):
    wrong = over("x", TEN, listed)
    assert len(wrong) == (said is not None) and all(sentence.startswith(said) for sentence in wrong)


def test_what_keeps_its_limit_leaves_the_list():
    assert over("x", {CLAIMS: {"a": 8}}, {}) == []
    (sentence,) = over("x", {CLAIMS: {"a": 8}}, {CLAIMS: 9})
    assert sentence.startswith("x: claims of the core keep their limit now: take them out of the list")


@pytest.mark.parametrize(("now", "faults"), [(116, 1), (114, 0), (100, 0), (88, 0), (80, 1), (75, 1)])
def test_seconds_may_wobble(now, faults):
    assert len(over("x", {"seconds of Run All": {"Run All": now}}, {"seconds of Run All": 100})) == faults


def test_the_list_is_lowered_and_never_raised(tmp_path, monkeypatch):
    now = TEN | {WORDS: {"a": 2400}, OPEN: {"a": 200}}
    assert lowered(now, {CLAIMS: 12, WORDS: 3000}) == {CLAIMS: 10}
    assert lowered(now, {CLAIMS: 9, OPEN: 300, "jokes": 3}) == {CLAIMS: 9, OPEN: 200}
    monkeypatch.setattr(budgets, "LIST", tmp_path / "list.json")
    monkeypatch.setattr(budgets, "held", lambda: {"x": tmp_path})
    monkeypatch.setattr(budgets, "counted", lambda path: now)
    budgets.LIST.write_text(json.dumps({"x": {CLAIMS: 9, OPEN: 300}, "gone": {CLAIMS: 9}}))
    assert budgets.main() == 1 and budgets.read() == {"x": {CLAIMS: 9, OPEN: 200}}
