"""A model of the student's own parts: theirs where they are right, the course's where not, and a table that says so."""

import time
from types import SimpleNamespace

import IPython
import pytest
import torch
from toys import TOYS, Hostile, twice

from course_lib.attention.positions import rotate, sinusoidal
from course_lib.lesson import own_parts
from course_lib.lesson.marks import marks
from course_lib.workshop.exercises import find


def stand_in(x):
    return 2 * x


@pytest.fixture
def notebook(outputs, monkeypatch):
    """What the student has defined, by name."""
    defined = {}
    monkeypatch.setattr(IPython, "get_ipython", lambda: SimpleNamespace(user_ns=defined))
    return defined


def whose(outputs, **parts):
    """The part `doubled`, and what is said of it: as data and in plain text."""
    outputs.clear()
    made = own_parts(among=TOYS, doubled=("double", stand_in), **parts)
    ((data, record),) = outputs
    return made.doubled, record["parts"]["doubled"], data["text/plain"]


def test_a_right_function_of_the_students_is_the_part(notebook, outputs):
    notebook["double"] = mine = lambda x: x + x
    part, owner, text = whose(outputs)
    assert part is mine and owner == "yours"
    assert text == "1 of 1 parts of this model are yours.\n  ✓ doubled: yours, double"
    assert marks()["exercises"] == {}  # only `check` marks


def raising(x):
    raise RuntimeError("no")


def leaving(x):
    raise SystemExit


NOT_WRITTEN = {"None": None, "a gap": lambda x: ...}
NOT_RIGHT = {
    "another": lambda x: x * x,
    "other arguments": lambda x, y: x + x,
    "an error": raising,
    "an exit": leaving,
    "a number": 5,
    "an object that only raises": Hostile(),
    "a layer": torch.nn.Linear(2, 1),
    "torch's": torch.tanh,
}


@pytest.mark.parametrize("name", NOT_WRITTEN | NOT_RIGHT)
def test_for_any_other_the_courses_stands_in_and_nothing_is_raised(notebook, outputs, capsys, name):
    notebook["double"] = (NOT_WRITTEN | NOT_RIGHT)[name]
    reason = "is not written yet" if name in NOT_WRITTEN else "is not right yet"
    part, owner, text = whose(outputs)
    assert part is stand_in and owner == "the course's"
    assert text.endswith(f"○ doubled: the course's, for double {reason}")
    assert capsys.readouterr().out == ""


def test_the_librarys_own_function_is_not_the_students(notebook, outputs, monkeypatch):
    notebook["double"] = dressed = lambda x: x + x
    dressed.__module__ = "course_lib.doubles"
    assert whose(outputs)[0] is stand_in


def test_what_it_prints_is_not_shown_and_what_never_ends_does_not_hold_the_notebook_up(notebook, outputs, capsys):
    def chatty(x):
        print("here")
        return x + x

    def endless(x):
        while True:
            time.sleep(0.01)

    notebook["double"] = chatty
    assert whose(outputs)[0] is chatty
    notebook["double"] = endless
    start = time.monotonic()
    assert whose(outputs)[0] is stand_in
    assert time.monotonic() - start < 8
    assert capsys.readouterr().out == ""


def test_a_restarted_notebook_has_only_the_courses_parts_and_so_has_a_script(notebook, outputs, monkeypatch, capsys):
    assert whose(outputs)[0] is stand_in
    monkeypatch.setattr(IPython, "get_ipython", lambda: None)
    parts = own_parts(among=TOYS, doubled=("double", stand_in))
    assert parts.doubled is stand_in
    assert capsys.readouterr().out.startswith("0 of 1 parts of this model are yours.")


def test_an_unknown_exercise_is_answered_with_a_near_one(notebook):
    with pytest.raises(LookupError, match="Did you mean 'double'"):
        own_parts(among=TOYS, doubled=("duoble", twice))


def typed(function):
    """As the student would have it: the same, defined in the notebook."""
    return lambda *args: function(*args)


def test_a_model_of_the_solved_parts_is_the_same_as_one_of_the_courses(notebook, outputs):
    """What the last cell of lesson 05 builds: the parts meet as they do there, and a gradient comes back."""
    asked = {
        "self_attention": ("my_self_attention", find("my_self_attention").solution),
        "sinusoids": ("my_sinusoids", sinusoidal),
        "rotate": ("my_rotate", rotate),
    }
    torch.manual_seed(0)
    x, weights = torch.randn(2, 7, 8), [torch.randn(8, 8, requires_grad=True) for _ in range(3)]

    def looked(parts):
        out = parts.self_attention(x + parts.sinusoids(7, 8), *weights, lambda q: parts.rotate(q, torch.arange(7)))
        return out, *torch.autograd.grad(out.square().sum(), weights)

    course = looked(own_parts(**asked))
    for name, _ in asked.values():
        notebook[name] = typed(find(name).solution)
    student = looked(own_parts(**asked))
    assert [set(record["parts"].values()) for _, record in outputs] == [{"the course's"}, {"yours"}]
    torch.testing.assert_close(student, course, rtol=1e-4, atol=1e-4)
