"""A lesson's notebook runs once: where nbval runs it, its tests in JupyterLab go on.

A lesson takes minutes. Where its tests in JupyterLab follow, nbval gets a kernel of that JupyterLab, with a student's
folder and home. After every cell has passed, the kernel stays alive, and the notebook that JupyterLab opens holds what
this run has shown. After anything less the kernel is ended, and those tests run the notebook themselves. Where none
follow (notebooks alone, no Chromium, the start page), or where they begin with "Run All Cells", the kernel is nbval's
own, and ends with the notebook.

Either draws some of what the controls show, for the tests that move them on a page and on slides. A cell fails whose
control cannot draw what it is moved to, or whose claim does not hold: neither ends the run.
"""

import os
from pathlib import Path
from unittest import mock

import nbformat
import pytest
from jupyter_client import BlockingKernelClient
from nbval.kernel import RunningKernel
from nbval.plugin import IPyNbCell, IPyNbFile

from course_lib.lesson.syllabus import IN_WRITING
from course_lib.show.frames import ASKED, MIME, UNDER_TEST

from .lab import RUN_ALL, STARTING, Server, lab_of


def pytest_ignore_collect(collection_path, config):
    """A notebook that is being written is run where it is named on the command line, not with the course."""
    named = (Path(config.invocation_params.dir, argument).resolve() for argument in config.args)
    if collection_path.name in {lesson.notebook for lesson in IN_WRITING}:
        return collection_path not in named
    return None  # whoever else has a say


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path, parent):
    found = yield
    return [NotebookRun.from_parent(parent, path=file_path) if isinstance(it, IPyNbFile) else it for it in found]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    ended = yield
    if isinstance(item, IPyNbCell) and (wrong := faults(item.test_outputs or [])):
        item.raise_cell_error("; ".join(wrong))
    return ended


def faults(outputs: list) -> list[str]:
    """What is wrong in what a cell has shown, though it ran: claims that do not hold, controls that cannot draw.

    Where nothing can be drawn of what is typed, or of two controls together, a sentence may say so; an error's own
    words are none.
    """
    found = []
    for output in outputs:
        told = output.get("metadata", {}).get("unrolled", {})
        if told.get("holds") is False:
            found.append(f"a claim does not hold: {told['claim']}")
        drawn = output.get("data", {}).get(MIME, {"tried": [], "pictures": []})
        for one in drawn["tried"]:
            if not (one["typed"] and one["says"].endswith(".")):
                found.append(f"a control was moved, {one['moved']} to {one['to']!r}, and drew nothing: {one['says']}")
        said = {one["says"] for one in drawn["pictures"] if not one.get("says", ".").endswith(".")}
        found += [f"a control drew nothing: {says}" for says in sorted(said)]
    return found


class ClientOfLab(BlockingKernelClient):
    """Asks JupyterLab whether the kernel lives: while it starts on a busy machine it may miss a heartbeat."""

    kernel = None

    async def _async_is_alive(self) -> bool:
        return self.kernel.is_alive()


class KernelOfLab:
    """A new kernel of a JupyterLab, with all that nbval asks of the manager of a kernel of its own."""

    kernel_spec = None

    def __init__(self, lab: Server, notebook: str):
        body = {"path": f"notebooks/{notebook}", "name": notebook, "type": "notebook", "kernel": {"name": "python3"}}
        self._lab, self._id = lab, lab.ask("POST", "api/sessions", body)["kernel"]["id"]

    def client(self) -> BlockingKernelClient:
        client = ClientOfLab(connection_file=str(self._lab.runtime / f"kernel-{self._id}.json"))
        client.kernel = self
        client.load_connection_file()  # with the keys, where kernels talk encrypted
        return client

    def is_alive(self) -> bool:
        return any(kernel["id"] == self._id for kernel in self._lab.ask("GET", "api/kernels"))

    def interrupt_kernel(self):
        self._lab.ask("POST", f"api/kernels/{self._id}/interrupt")

    def restart_kernel(self, now: bool):
        self._lab.ask("POST", f"api/kernels/{self._id}/restart")

    def shutdown_kernel(self, now: bool):
        self._lab.ask("DELETE", f"api/kernels/{self._id}")


class RunningInLab(RunningKernel):
    """nbval's running kernel; only where it comes from is another."""

    def __init__(self, lab: Server, notebook: str, startup_timeout: float):
        self.km = KernelOfLab(lab, notebook)
        self.kc = self.km.client()
        self.kc.start_channels()
        self.kc.wait_for_ready(timeout=startup_timeout)
        self._ensure_iopub_up()


class NotebookRun(IPyNbFile):
    """nbval's notebook file, whose kernel may outlive it."""

    failed_before = 0

    def setup(self):
        self.failed_before = self.session.testsfailed
        if not self._is_followed():
            with mock.patch.dict(os.environ, {ASKED: UNDER_TEST}):
                return super().setup()
        self.kernel = RunningInLab(lab_of(self.config), self.path.name, STARTING)
        self.setup_sanitize_files()

    def teardown(self):
        if isinstance(self.kernel, RunningInLab) and self._is_whole():
            self._hand_over(lab_of(self.config))
        else:
            super().teardown()

    def _is_followed(self) -> bool:
        """Whether tests of this run look at the notebook in JupyterLab, as nbval leaves it."""
        return self.path.name != RUN_ALL and any(
            "lab" in getattr(item, "fixturenames", ())
            and hasattr(item, "callspec")
            and item.callspec.params.get("lesson") == self.path.name
            and item.get_closest_marker("skip") is None
            for item in self.session.items
        )

    def _cells(self) -> list:
        return [item for item in self.session.items if item.parent is self]

    def _is_whole(self) -> bool:
        """Whether every code cell ran, and none failed."""
        ran = [cell for cell in self._cells() if cell.test_outputs is not None]
        written = sum(cell.cell_type == "code" for cell in self.nb.cells)
        return len(ran) == written and self.session.testsfailed == self.failed_before

    def _hand_over(self, lab: Server):
        """Leave the kernel alone, and give JupyterLab the notebook as this run shows it: live, as after a reload."""
        for number, item in enumerate(self._cells(), 1):
            item.cell.execution_count, item.cell.outputs = number, item.test_outputs
        nbformat.write(self.nb, lab.folder / "notebooks" / self.path.name)
        self.kernel.kc.stop_channels()
        lab.ask("POST", f"api/contents/notebooks/{self.path.name}/trust")  # as what is run there is
        lab.have_run.add(self.path.name)
