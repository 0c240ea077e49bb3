"""What notebooks say: claims, reports, source listings, the quiz, progress; as text, HTML and data."""

import errno
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

import course_lib.rnn
from course_lib.exercises import Quiz
from course_lib.lesson import (
    LESSONS,
    ClaimFailed,
    board,
    claim,
    measured,
    progress,
    quiz,
    report,
    show_source,
)
from course_lib.lesson import marks as kept
from course_lib.lesson.cards import prose
from course_lib.lesson.numerals import shown, shown_bound
from course_lib.lesson.quizzes import panel
from course_lib.lesson.sources import ROOT, address_of_test, code_of, fenced, heading
from course_lib.rnn import RNN, rnn_step


@pytest.fixture
def outputs(monkeypatch):
    """Every output that a notebook would get, as (data by mime type, what it says as data)."""
    import IPython
    import IPython.display

    said = []
    monkeypatch.setattr(IPython, "get_ipython", lambda: "a notebook")
    monkeypatch.setattr(
        IPython.display,
        "display",
        lambda data, raw, metadata: said.append((data, metadata.get("unrolled"))),
    )
    return said


# Claims ---------------------------------------------------------------------------------------------------


def test_a_claim_says_what_was_measured_and_the_bound(outputs):
    claim("the step equals PyTorch's", measured(torch.tensor(3.1e-7)) <= 1e-6)
    data, record = outputs[0]
    assert data["text/plain"] == "✓ claim: the step equals PyTorch's — measured 3.10e-7 ≤ 1e-6"
    assert "the step equals PyTorch's" in data["text/html"]
    assert "measured 3.10e-7 ≤ 1e-6" in data["text/html"]
    assert record["claim"] == "the step equals PyTorch's"
    assert record["holds"] is True
    assert record["values"] == [{"value": pytest.approx(3.1e-7), "operator": "≤", "bound": 1e-6}]


def test_a_false_claim_raises_a_sentence_and_shows_itself(outputs):
    with pytest.raises(ClaimFailed) as failed:
        claim("it is small.", measured(0.31, "bits") <= 0.1)
    assert isinstance(failed.value, AssertionError)
    assert str(failed.value) == (
        "the claim “it is small” does not hold: measured 0.310 bits, which is not ≤ 0.1."
    )
    assert failed.value._render_traceback_() == [f"ClaimFailed: {failed.value}"]
    assert outputs[0][1]["holds"] is False


@pytest.mark.parametrize(
    ("condition", "truth"),
    [
        (lambda m: m <= 2, True),
        (lambda m: m < 2, False),
        (lambda m: m >= 2, True),
        (lambda m: m > 2, False),
        (lambda m: m == 2, True),
        (lambda m: m != 2, False),
        (lambda m: 1 < m, True),
        (lambda m: 3 <= m, False),
        (lambda m: np.float64(1) < m, True),
        (lambda m: torch.tensor(3.0) < m, False),
        (lambda m: m < measured(3, name="other"), True),
        (lambda m: 1 < m < 3, True),
        (lambda m: 1 < m < 1.5, False),
        (lambda m: (m > 1) & (m < 3), True),
        (lambda m: (m > 1) & (m < 1.5), False),
        (lambda m: (m > 1) & False, False),
        (lambda m: True & (m > 1), True),
    ],
)
@pytest.mark.parametrize("two", [2, 2.0, torch.tensor(2.0), torch.tensor([2]), np.float32(2), np.array(2)])
def test_comparisons_are_those_of_the_numbers(condition, truth, two):
    assert bool(condition(measured(two))) is truth


@pytest.mark.parametrize("bound", [1, np.float64(1), np.array(1.0), torch.tensor(1.0)], ids=repr)
def test_the_measured_number_may_stand_on_the_right(bound):
    assert str((bound < measured(2)).comparisons[0]) == "2 > 1"


@pytest.mark.parametrize("sign", ["__le__", "__lt__", "__ge__", "__gt__", "__eq__", "__ne__"])
def test_nan_is_never_true(sign, outputs):
    for value, bound in ((float("nan"), 1.0), (1.0, float("nan")), (float("nan"), float("nan"))):
        condition = getattr(measured(value), sign)(bound)
        assert not condition
        with pytest.raises(ClaimFailed, match="a comparison with nan is never true"):
            claim("it is fine", condition)
    json.dumps([record for _, record in outputs], allow_nan=False)


def test_joined_conditions_say_which_part_fails(outputs):
    rnn = measured(2.31, "bits/char", "RNN")
    claim("it beats both", (rnn < measured(4.7, name="unigram")) & (rnn < measured(2.6, name="trigram")))
    assert outputs[0][0]["text/plain"].endswith(
        "measured RNN 2.31 < unigram 4.70 bits/char and RNN 2.31 < trigram 2.60 bits/char"
    )
    assert [value["bound_name"] for value in outputs[0][1]["values"]] == ["unigram", "trigram"]
    with pytest.raises(ClaimFailed) as failed:
        claim("it beats both", (rnn < measured(4.7, name="unigram")) & (rnn < measured(2, name="best")))
    assert str(failed.value).endswith("measured RNN 2.31 bits/char, which is not < best 2.")


def test_plain_bools_are_conditions_too(outputs):
    for true in (True, np.bool_(True), torch.tensor([1, 1]).eq(1).all()):
        claim("both are equal", true)
    assert outputs[0][0]["text/plain"] == "✓ claim: both are equal"
    with pytest.raises(ClaimFailed, match="its condition is false"):
        claim("both are equal", torch.tensor(False))


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        ("yes", "got str"),
        (None, "got NoneType"),
        (1, "got int"),
        (torch.tensor([True, True]), r"shape \(2,\)"),
        (np.array([True]), r"shape \(1,\)"),
        (torch.tensor(1.0), r"got Tensor of shape \(\)"),
        (measured(1), "not compared with anything"),
    ],
    ids=str,
)
def test_a_claim_on_anything_else_is_refused_in_words(condition, said):
    with pytest.raises(TypeError, match=said):
        claim("it holds", condition)


def test_misused_claims_say_what_to_do():
    with pytest.raises(TypeError, match="starts with its sentence"):
        claim(measured(1) < 2, "the wrong way round")
    with pytest.raises(TypeError, match="brackets around each comparison"):
        claim("both", measured(1) < 2 & measured(3) < 4)
    with pytest.raises(TypeError, match="neither true nor false"):
        assert measured(1)


@pytest.mark.parametrize("value", [torch.ones(2), np.ones((2, 2)), torch.ones(0), "3", None, True, 1j, [1.0]])
def test_only_one_number_can_be_measured(value):
    with pytest.raises(TypeError, match="a measured value must be one number"):
        measured(value)
    with pytest.raises(TypeError, match="the bound of a claim must be one number"):
        assert measured(1) < value


@pytest.mark.parametrize(
    ("condition", "text"),
    [
        (measured(0.99999) < 1, "0.99999 < 1"),
        (measured(1.0000001) > 1.0, "1.0000001 > 1"),
        (measured(0.5) >= 0.5, "0.500 ≥ 0.5"),
        (measured(1 / 3) < measured(0.3334), "0.3333 < 0.3334"),
        (measured(65_013_248) == 65_013_248, "65,013,248 = 65,013,248"),
        (measured(3, "s") < measured(4, "min"), "3 s < 4 min"),
    ],
    ids=str,
)
def test_the_shown_digits_tell_the_same_story_as_the_numbers(condition, text):
    assert str(condition.comparisons[0]) == text


def test_a_failure_shows_as_many_digits_as_it_needs(outputs):
    with pytest.raises(ClaimFailed, match="measured 1.00001, which is not ≤ 1."):
        claim("it is at most one", measured(1.00001) <= 1)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"), (12, "12"), (1_234_567, "1,234,567"), (3.14159, "3.14"), (0.0123, "0.0123"),
        (12345.6, "12,346"),
        (1.5e-7, "1.50e-7"), (2.5e9, "2.50e9"), (float("inf"), "inf"), (float("nan"), "nan"), (-2.5, "-2.50"),
    ],
)  # fmt: skip
def test_numbers_are_shown_to_three_digits(value, text):
    assert shown(value) == text


def test_bounds_are_shown_as_typed():
    assert [shown_bound(b) for b in (1e-10, 0.05, 2, 1.91, 1 / 3)] == ["1e-10", "0.05", "2", "1.91", "0.333"]


# Reports --------------------------------------------------------------------------------------------------


def test_a_report_shows_rounded_and_stores_exact(outputs):
    report("training time", 21.4567, "s")
    report("bits", {"uniform": torch.tensor(6.125), "RNN": 2.0}, unit="bits/char", digits=2)
    report("runs", {"plain": {"loss": 1.25, "time": 20}, "clipped": {"loss": 1.5}}, {"time": "s"})
    texts = [data["text/plain"] for data, _ in outputs]
    assert texts[0] == "training time: 21.5 s"
    assert texts[1] == "bits\n         bits/char\nuniform       6.12\nRNN           2.00"
    assert texts[2] == "runs\n         loss  time (s)\nplain    1.25        20\nclipped  1.50"
    records = [record["report"] for _, record in outputs]
    assert records[0] == {"training time": {"value": 21.4567, "unit": "s"}}
    assert records[1] == {"bits": {"value": {"uniform": 6.125, "RNN": 2.0}, "unit": "bits/char"}}
    assert records[2]["runs"]["unit"] == {"time": "s"}
    assert outputs[1][0]["text/html"].count("<tr>") == 3


@pytest.mark.parametrize(
    ("value", "error"),
    [
        ({}, "table is empty"),
        ({"a": None}, "report 'x, a' must be one number"),
        ({"a": 1, "b": {"c": 2}}, "either"),
    ],
)
def test_a_report_of_no_numbers_is_refused_in_words(value, error):
    with pytest.raises((TypeError, ValueError), match=error):
        report("x", value)


def test_text_is_escaped_and_code_is_set_as_code():
    assert prose("`a < b` & *never* 2*h*w\nnext") == (
        "<code>a &lt; b</code> &amp; <em>never</em> 2*h*w<br>next"
    )


# Source listings ------------------------------------------------------------------------------------------


def test_show_source_shows_the_text_that_runs_under_file_line_and_test(outputs):
    show_source(rnn_step)
    data, record = outputs[0]
    line = rnn_step.__code__.co_firstlineno
    assert data["text/markdown"].startswith(
        f"`course_lib/rnn.py` · line {line} · tested by `tests/test_rnn.py::test_"
    )
    assert "```python\ndef rnn_step(" in data["text/markdown"]
    listed = data["text/markdown"].split("```python\n")[1].split("\n```")[0]
    assert listed in Path(course_lib.rnn.__file__).read_text()
    assert listed in data["text/plain"]
    assert str(ROOT) not in data["text/plain"] + data["text/markdown"]
    assert record == {"source": ["course_lib.rnn:rnn_step"]}


def test_several_sources_make_one_output(outputs):
    show_source(rnn_step, RNN.forward)
    assert len(outputs) == 1
    assert outputs[0][1] == {"source": ["course_lib.rnn:rnn_step", "course_lib.rnn:RNN.forward"]}


def test_docstrings_can_be_left_out_and_the_rest_still_runs():
    source = code_of(rnn_step, docstring=False)
    assert '"""' not in source
    space = {"torch": torch, "Tensor": torch.Tensor}
    exec(source, space)
    arguments = [torch.randn(*shape) for shape in ((2, 3), (2, 4), (3, 4), (4, 4), (4,))]
    assert torch.equal(space["rnn_step"](*arguments), rnn_step(*arguments))
    assert '"""' not in code_of(RNN, docstring=False)
    compile(code_of(RNN, docstring=False), "RNN", "exec")


def test_a_fence_is_longer_than_any_inside():
    assert fenced("x").startswith("```python\n")
    assert fenced("a\n````\nb").startswith("`````python\n")


def test_the_test_is_found_by_its_name_then_by_what_it_mentions(tmp_path):
    (tmp_path / "pyproject.toml").touch()
    assert address_of_test(rnn_step, tmp_path) == ""
    tests = tmp_path / "tests" / "test_rnn.py"
    tests.parent.mkdir()
    tests.write_text("def test_other(): pass\n")
    assert address_of_test(rnn_step, tmp_path) == "tests/test_rnn.py"
    tests.write_text(
        "def test_all():\n    assert rnn_step\n\nclass TestX:\n    def test_my_rnn_step_size(self): pass\n"
    )
    assert address_of_test(rnn_step, tmp_path) == "tests/test_rnn.py::TestX::test_my_rnn_step_size"
    tests.write_text("def test_rnn_steps(): pass\n\ndef test_all():\n    assert rnn_step\n")
    assert address_of_test(rnn_step, tmp_path) == "tests/test_rnn.py::test_all"
    assert address_of_test(RNN.forward, tmp_path) == "tests/test_rnn.py"
    (tmp_path / "pyproject.toml").unlink()
    assert address_of_test(rnn_step, tmp_path) == ""


def test_a_packages_file_is_tested_under_the_packages_name():
    assert address_of_test(claim).startswith("tests/test_lesson.py::test_")
    assert heading(claim).startswith("`course_lib/lesson/claims.py` · line ")


def typed_here():
    pass


@pytest.mark.parametrize(
    ("thing", "said"),
    [
        (len, "this is a builtin_function_or_method"),
        (3, "this is a int"),
        (lambda x: x, "a lambda has no name"),
        (typed_here, "belongs to"),
        (torch.nn.Linear, "belongs to torch"),
        (course_lib.rnn, "name one of the module course_lib.rnn"),
        (RNN(2, 3), r"write show_source\(RNN\)"),
    ],
    ids=["builtin", "number", "lambda", "elsewhere", "torch", "module", "object"],
)
def test_what_has_no_source_in_the_course_is_refused_in_words(thing, said):
    with pytest.raises(TypeError, match=said):
        show_source(thing)


def test_what_was_typed_in_the_notebook_is_refused_in_words(monkeypatch):
    monkeypatch.setattr(typed_here, "__module__", "__main__")
    with pytest.raises(TypeError, match="typed_here was typed in this notebook"):
        show_source(typed_here)
    with pytest.raises(TypeError, match="needs a function"):
        show_source()


# Quiz -----------------------------------------------------------------------------------------------------

REASONS = ("Because of this.", "Not because of that.", "Nor of those.")
QUESTION = Quiz(
    "which",
    "Which is `it`?",
    tuple(zip(("`this` one", "that", "those"), REASONS, strict=True)),
    0,
    "rnn_bptt",
)


def test_a_question_is_one_output_with_a_still_that_gives_nothing_away(outputs):
    quiz("which", among=[QUESTION])
    assert len(outputs) == 1
    data, record = outputs[0]
    assert data["application/vnd.jupyter.widget-view+json"]["model_id"]
    assert "Which is <code>it</code>?" in data["text/html"]
    assert data["text/plain"] == "Question. Which is it?\n  A. this one\n  B. that\n  C. those"
    assert not any(reason in data["text/html"] + data["text/plain"] for reason in REASONS)
    assert record == {"quiz": "which"}


def test_each_answer_is_given_its_reason_and_the_right_one_is_marked():
    box = panel(QUESTION)
    assert box.choice.index is None
    box.button.click()
    assert "Choose an answer first" in box.feedback.value
    for wrong in (1, 2):
        box.choice.index = wrong
        assert box.feedback.value == ""  # the verdict on another option is gone
        box.button.click()
        assert "Not this one" in box.feedback.value
        assert REASONS[wrong] in box.feedback.value
        assert kept.marks()[0]["quiz"] == {}
    box.choice.index = 0
    box.button.click()
    assert "Right" in box.feedback.value
    assert REASONS[0] in box.feedback.value
    assert kept.marks()[0]["quiz"] == {"rnn_bptt": {"which"}}


def test_an_unknown_question_is_answered_with_a_near_one():
    with pytest.raises(LookupError, match="no quiz question called 'wich'. Did you mean 'which'?"):
        quiz("wich", among=[QUESTION])


# Progress -------------------------------------------------------------------------------------------------


def test_marks_are_kept_and_nothing_else_is_left_in_the_folder(home):
    assert kept.marks() == ({"exercises": {}, "quiz": {}}, "")
    assert not home.exists()  # looking makes nothing
    assert kept.mark("rnn_bptt", "exercises", "my_step") == ""
    kept.mark("rnn_bptt", "quiz", "sharing")
    assert kept.marks()[0] == {"exercises": {"rnn_bptt": {"my_step"}}, "quiz": {"rnn_bptt": {"sharing"}}}
    assert [file.name for file in home.iterdir()] == ["progress.json"]
    with pytest.raises(ValueError, match="expected one of"):
        kept.mark("rnn_bptt", "homework", "x")


@pytest.mark.parametrize(
    "damage",
    [b"", b"{", b"\xff\xfe", b"[]", b"null", b'{"exercises": []}', b'{"quiz": {"a": [1]}}', b"[" * 100_000],
)
@pytest.mark.parametrize("look_first", [True, False])
def test_a_damaged_file_is_put_aside_and_said(home, damage, look_first):
    home.mkdir()
    (home / "progress.damaged-1.json").write_text("an older one")
    (home / "progress.json").write_bytes(damage)
    if look_first:
        found, sentence = kept.marks()
        assert found["exercises"] == {}
    else:
        sentence = kept.mark("gpt", "exercises", "top_p")
    assert (
        sentence
        == "The progress file was damaged; it is kept as progress.damaged-2.json, and a new one begins."
    )
    assert (home / "progress.damaged-2.json").read_bytes() == damage
    assert (home / "progress.damaged-1.json").read_text() == "an older one"
    kept.mark("gpt", "exercises", "bpe_merge")
    assert "bpe_merge" in kept.marks()[0]["exercises"]["gpt"]


def test_what_a_later_version_wrote_stays(home):
    home.mkdir()
    (home / "progress.json").write_text('{"exercises": {"gpt": ["top_p"]}, "streak": 7}')
    kept.mark("gpt", "exercises", "bpe_merge")
    stored = json.loads((home / "progress.json").read_text())
    assert stored == {"exercises": {"gpt": ["bpe_merge", "top_p"]}, "quiz": {}, "streak": 7}


def test_a_full_disk_loses_nothing_and_the_session_goes_on(home, monkeypatch):
    kept.mark("gpt", "exercises", "top_p")
    before = (home / "progress.json").read_text()

    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        sentence = kept.mark("gpt", "exercises", "bpe_merge")
    assert sentence == (
        "Progress could not be saved (No space left on device); it is kept until this kernel stops."
    )
    assert (home / "progress.json").read_text() == before
    assert [file.name for file in home.iterdir()] == ["progress.json"]
    assert kept.marks()[0]["exercises"]["gpt"] == {"top_p", "bpe_merge"}
    assert kept.mark("gpt", "quiz", "masks") == ""  # there is room again: all of it is written
    assert json.loads((home / "progress.json").read_text())["exercises"]["gpt"] == ["bpe_merge", "top_p"]


def test_a_kernel_killed_while_it_writes_leaves_the_old_file(home, monkeypatch):
    kept.mark("gpt", "exercises", "top_p")
    before = (home / "progress.json").read_text()

    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(os, "replace", killed)
        kept.mark("gpt", "exercises", "bpe_merge")
    assert (home / "progress.json").read_text() == before
    assert [file.name for file in home.iterdir()] == ["progress.json"]


def test_a_folder_that_cannot_be_made_is_said_without_its_path(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("COURSE_HOME", str(tmp_path / "file" / "home"))
    sentence = kept.mark("gpt", "exercises", "top_p")
    assert sentence.startswith("Progress could not be saved (")
    assert str(tmp_path) not in sentence
    assert kept.marks()[0]["exercises"] == {"gpt": {"top_p"}}


def test_notebooks_that_write_at_once_keep_each_others_marks(tmp_path):
    program = (
        "import sys; from pathlib import Path; from course_lib.lesson.marks import mark\n"
        "Path(f'{sys.argv[1]}.ready').touch()\n"
        "while not (Path('a.ready').exists() and Path('b.ready').exists()): pass\n"
        "for i in range(25): assert mark('gpt', 'exercises', f'{sys.argv[1]}{i}') == ''"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    writers = [
        subprocess.Popen([sys.executable, "-c", program, name], cwd=tmp_path, env=env) for name in ("a", "b")
    ]
    assert [writer.wait(60) for writer in writers] == [0, 0]
    assert kept.marks()[0]["exercises"]["gpt"] == {f"{name}{i}" for name in "ab" for i in range(25)}


def test_a_lock_left_by_a_killed_kernel_is_removed(home):
    home.mkdir()
    (home / "progress.lock").touch()
    os.utime(home / "progress.lock", (0, 0))
    started = time.monotonic()
    assert kept.mark("gpt", "exercises", "top_p") == ""
    assert time.monotonic() - started < 1
    assert not (home / "progress.lock").exists()


def test_a_lock_that_stays_does_not_hang_the_notebook(home, monkeypatch):
    home.mkdir()
    (home / "progress.lock").touch()
    monkeypatch.setattr(kept._alone.__wrapped__, "__defaults__", (0.1, 10.0))
    assert kept.mark("gpt", "exercises", "top_p") == ""
    assert kept.marks()[0]["exercises"] == {"gpt": {"top_p"}}


def test_the_home_of_progress_is_the_users_data_folder_unless_told(monkeypatch, tmp_path):
    monkeypatch.setenv("COURSE_HOME", "~/course")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    assert kept.home() == tmp_path / "course"
    monkeypatch.delenv("COURSE_HOME")
    assert kept.home().name == "unrolled"


def test_the_board_shows_every_lesson_and_counts_what_is_asked_today(outputs, monkeypatch):
    toys = [
        type("Toy", (), {"name": name, "key": name, "lesson": "rnn_bptt"}) for name in ("one", "two", "three")
    ]
    monkeypatch.setattr(board, "all_exercises", lambda: toys)
    monkeypatch.setattr(board, "all_quizzes", lambda: toys[:1])
    monkeypatch.setattr(board, "ROOT", Path("nowhere"))
    for name in ("two", "asked no longer"):
        kept.mark("rnn_bptt", "exercises", name)
    progress()
    data, record = outputs[0]
    lines = data["text/plain"].split("\n")
    assert len(lines) == 1 + len(LESSONS)
    assert re.fullmatch(r"01  Recurrent networks and .* time +●○○ 1/3 +○ 0/1", lines[2])
    assert re.fullmatch(r"09  Vision Transformer +to come", lines[-1])
    assert record["progress"]["rnn_bptt"] == ["●○○ 1/3", "○ 0/1"]
    assert data["text/html"].count("<tr>") == 1 + len(LESSONS)


def test_the_board_tells_of_damage(outputs, home):
    home.mkdir()
    (home / "progress.json").write_text("{")
    progress()
    assert "kept as progress.damaged-1.json" in outputs[0][0]["text/plain"]
    assert "kept as progress.damaged-1.json" in outputs[0][0]["text/html"]


def test_a_lesson_is_there_once_its_notebook_is(tmp_path, monkeypatch):
    monkeypatch.setattr(board, "ROOT", tmp_path)
    last = LESSONS[-1]
    assert not board.is_there(last)
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "notebooks" / "09_vit.ipynb").touch()
    assert board.is_there(last)


def test_lessons_are_numbered_in_order():
    assert [lesson.number for lesson in LESSONS] == list(range(10))
    assert LESSONS[1].notebook == "01_rnn_bptt.ipynb"


# All of it in a real kernel -------------------------------------------------------------------------------


def test_in_a_notebook_each_output_carries_its_data_and_no_cell_stops_but_a_false_claim():
    import nbformat
    from nbclient import NotebookClient

    cells = [
        "from course_lib.lesson import *\nfrom course_lib.rnn import rnn_step",
        "claim('two is small', measured(2) < 3)\nreport('size', 2)\nshow_source(rnn_step)\nprogress()",
        "quiz('sharing')\nhint('my_step')\nsolution('my_step')",
        "def my_step(x, h, w_x, w_h, b):\n    ...\ncheck(my_step)",
        "def my_step(x, h, w_x, w_h, b):\n    y = x @ h\n    return y\ncheck(my_step)",
        "def my_step(x, h, w_x, w_h, b):\n    while True: pass\n"
        "import course_lib.exercises as e\nfrom dataclasses import replace\n"
        "check(my_step, among=[replace(e.find('my_step'), seconds=0.3)])",
        "claim('two is large', measured(2) > 3)",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in cells])
    notebook.cells[-1].metadata.tags = ["raises-exception"]
    NotebookClient(
        notebook, timeout=60, kernel_name="python3", resources={"metadata": {"path": ROOT}}
    ).execute()
    nbformat.validate(notebook)

    records = [
        [output.metadata.unrolled for output in cell.outputs if "metadata" in output]
        for cell in notebook.cells
    ]
    assert [list(record)[0] for record in records[1]] == ["claim", "report", "source", "progress"]
    assert [list(record)[0] for record in records[2]] == ["quiz", "hint", "solution"]
    assert [records[i][0]["verdict"] for i in (3, 4, 5)] == ["not attempted", "error", "unfinished"]
    assert "in line 2, `y = x @ h`" in notebook.cells[4].outputs[0].data["text/plain"]
    assert "application/vnd.jupyter.widget-view+json" in notebook.cells[2].outputs[0].data
    stopped = notebook.cells[-1].outputs[-1]
    assert stopped.ename == "ClaimFailed"
    assert stopped.traceback == [
        "ClaimFailed: the claim “two is large” does not hold: measured 2, which is not > 3."
    ]
