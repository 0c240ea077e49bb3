"""Lesson 00's exercise: what is said of a beginner's slips, the stub as the notebook hands it out."""

import nbformat
import pytest
import torch

from course_lib.lesson.judge import judge
from course_lib.lesson.watched import is_untouched
from course_lib.workshop.exercises import find
from course_lib.workshop.exercises.start_here import given_memory
from course_lib.workshop.publish import measured

MEMORY = find("my_memory")


def no_memory(x, w):
    return x


def rounded(x, w):
    return torch.stack([state.round(decimals=1) for state in MEMORY.solution(x, w)])


def not_a_tensor(x, w):
    return torch.tensor(MEMORY.solution(x, w).tolist())


def written_in(x, w):
    return MEMORY.solution(x, 0.8)


def twice_as_much(x, w):
    return 2 * MEMORY.solution(x, w)


def squared(x, w):
    return MEMORY.solution(x, w * w)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (no_memory, "Your states are the inputs"),
        (twice_as_much, "With w = 0 nothing is remembered"),
        (squared, "With w = 0.5 and x = [4, 0, 0] the states must be 4, 2, 1"),
        (rounded, "With w = 0 nothing is remembered"),
        (not_a_tensor, "yours is a tensor of shape (6,), float32"),
        (written_in, "is a number written into the code?"),
        (lambda x, w: MEMORY.solution(x.detach(), w), "no gradient flows back to `x`"),
    ],
)
def test_a_slip_that_is_not_listed_is_led_to_a_small_case(wrong, said):
    verdict = judge(MEMORY, wrong)
    assert verdict.kind == "wrong" and said in verdict.message, verdict


def test_the_numbers_that_a_sentence_gives_are_right():
    assert MEMORY.solution(torch.tensor([4.0, 0.0, 0.0]), 0.5).tolist() == [4, 2, 1]


def test_the_notebook_hands_out_the_stub_with_one_gap(tmp_path):
    notebook = nbformat.read(measured.NOTEBOOKS / "00_start_here.ipynb", as_version=4)
    (cell,) = [cell for cell in notebook.cells if "exercise" in cell.metadata.get("tags", [])]
    source, _, call = cell.source.partition("\n\n\n")
    assert call.strip() == "check(my_memory)" and source.count("...") == 1
    file = tmp_path / "handed_out.py"
    file.write_text(f"import torch\n\n\n{source}\n")
    namespace = {}
    exec(compile(file.read_text(), file, "exec"), namespace)
    assert is_untouched(namespace["my_memory"], given_memory)
    assert judge(MEMORY, namespace["my_memory"]).kind == "not attempted"
