"""Which tests go together: a lesson's notebook and that lesson in JupyterLab, and each other file of tests.

A group stays on one worker, in its own order; but a lesson's notebook comes first, and its tests in JupyterLab go on
where that ended (browser/one_run.py). Groups are handed out longest first, so that no worker is left alone with a long
one at the end. All of it follows from the list of lessons and from the minutes that were measured.
"""

from pathlib import PurePath

from xdist.scheduler import LoadScopeScheduling

from course_lib.lesson.syllabus import LESSONS
from course_lib.workshop.publish import measured

# Driven in JupyterLab by `make test`: together they have every kind of cell that a student meets, which
# browser/test_lessons_in_lab.py computes. The others are driven by `make test-all`.
DRIVEN = ("01_rnn_bptt.ipynb", "02_lstm_gradient_flow.ipynb", "08_bert.ipynb")
# Their pages are of one small site, which is built once.
ANSWERING = {"test_alive.py", "test_alive_words.py", "test_inside_gpt.py"}
IN_LAB = 100  # about the seconds of a lesson's tests in JupyterLab


def group_of(node: str) -> str:
    """The group of a test, from its id ("tests/test_rnn.py::test_step[1]").

    A test in JupyterLab that names a lesson, as its parameter or in its file's name, goes with that lesson's notebook;
    the pages at which models answer go together.
    """
    file = PurePath(node.partition("::")[0])
    if file.suffix == ".ipynb":
        return f"lesson {file.stem}"
    if "browser" in file.parts and "lab" in file.stem.split("_"):
        for name in (lesson.notebook.removesuffix(".ipynb") for lesson in LESSONS):
            if name in node:
                return f"lesson {name}"
    if "browser" in file.parts and file.name in ANSWERING:
        return (file.parent / "test_alive.py").as_posix()
    return file.as_posix()


def sample(items: list) -> list:
    """Of each test that has many cases, the first, the middle and the last one: `make test-fast`."""
    cases = {}
    for item in items:
        cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    return [of_one[n] for of_one in cases.values() for n in sorted({0, len(of_one) // 2, len(of_one) - 1})]


def in_order(items: list) -> list:
    """The tests, group after group: lessons by their minutes, then files, slow ones first."""
    groups = {}
    for item in items:
        groups.setdefault(group_of(item.nodeid), []).append(item)
    seconds = {name.removesuffix(".ipynb"): entry["seconds"] for name, entry in measured.read().items()}

    def first(group):
        _, is_lesson, name = group.partition("lesson ")
        expected = seconds.get(name, 600) if is_lesson else 0  # a new notebook may take any time
        if is_lesson and any(map(by_kernel, groups[group])):
            expected += IN_LAB
        slow = sum(any(item.iter_markers("slow")) for item in groups[group])
        return -expected, "browser" not in group, -slow, -len(groups[group]), group

    return [item for group in sorted(groups, key=first) for item in sorted(groups[group], key=by_kernel)]


def by_kernel(item) -> int:
    """What comes first in a group: the notebook (0), which leaves its kernel; then what uses and ends it (1)."""
    return int(PurePath(item.nodeid.partition("::")[0]).suffix != ".ipynb")


class ByLesson(LoadScopeScheduling):
    """Hands out whole groups in the order in which they come.

    xdist's own marks for groups (--dist loadgroup) do nothing under the pytest that the course pins: it no longer
    reads the ids that they write.
    """

    def __init__(self, config, log=None):
        super().__init__(config, log)
        config.option.loadscopereorder = False  # else the group with the most tests comes first, not the longest

    def _split_scope(self, nodeid):
        return group_of(nodeid)
