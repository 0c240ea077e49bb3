"""A JupyterLab of the course on this machine, started as `make lab` or `make present` do, and a notebook.

It works on copies of notebooks and settings and with an empty home: no test touches a student's.
"""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from course_lib.show.frames import ASKED, UNDER_TEST

ROOT = Path(__file__).resolve().parents[2]
NEWS_OFF = Path(sys.prefix) / "state" / "jupyter" / "labconfig"  # what the Makefile's set-up writes
# JupyterLab saves by itself every two minutes. A test that saves in that moment meets its own file: a question comes
# up, whether to overwrite it, and keeps every key from the lesson.
OWN_SAVES = ("@jupyterlab/docmanager-extension/plugin.jupyterlab-settings", {"autosave": False})
# The Makefile drops them.
NOT_OURS = {"PYTHONPATH", "PYTHONHOME", "JUPYTER_PATH", "JUPYTER_CONFIG_PATH", "MPLBACKEND"}
APP_IS_SEEN = "--LabApp.expose_app_in_browser=True"  # a page says when a save has ended
PATIENCE = 120_000  # milliseconds; other tests run beside these, and other programs
# Asked of the cells and not of their prompts: JupyterLab draws those alone that are near what it shows.
UNDER_WAY = "jupyterapp.shell.currentWidget.content.widgets.some((cell) => cell.model.executionState === 'running')"
RUN_ALL = "01_rnn_bptt.ipynb"  # JupyterLab's own "Run All Cells" is tried with it
STARTING = 240  # seconds for a server or a kernel to start: hundreds of files are read, and other tests run beside it


class Server:
    """A running JupyterLab: its address with the token, the folder it serves, the home of its students.

    `have_run` names the notebooks that ran to their end in a kernel of it which is still alive.
    """

    def __init__(self, folder: Path, target: str):
        self.folder, self.home, self.runtime = folder / "course", folder / "home", folder / "runtime"
        self._log, self.have_run = folder / "log.txt", set()
        settings, command = as_make_says(target)
        shutil.copytree(ROOT / "notebooks", self.folder / "notebooks")
        shutil.copytree(NEWS_OFF, folder / "config" / "labconfig")
        only_when_asked = folder / "settings" / OWN_SAVES[0]
        only_when_asked.parent.mkdir(parents=True)
        only_when_asked.write_text(json.dumps(OWN_SAVES[1]))
        inherited = {name: value for name, value in os.environ.items() if name not in NOT_OURS}
        environment = (
            inherited
            | settings
            | {
                "COURSE_HOME": str(self.home),
                ASKED: UNDER_TEST,  # what the controls draw is looked at on pages and slides too
                "IPYTHONDIR": str(folder / "ipython"),
                "JUPYTER_CONFIG_DIR": str(folder / "config"),
                "JUPYTER_DATA_DIR": str(folder / "data"),
                "JUPYTER_RUNTIME_DIR": str(self.runtime),
                "JUPYTERLAB_SETTINGS_DIR": str(folder / "settings"),
                "JUPYTERLAB_WORKSPACES_DIR": str(folder / "workspaces"),
                "JUPYTER_PREFER_ENV_PATH": "1",
            }
        )
        with open(self._log, "w") as log:
            self._process = subprocess.Popen(
                [*command, f"--ServerApp.root_dir={self.folder}", "--ServerApp.port=0", "--no-browser", APP_IS_SEEN],
                cwd=folder,
                env=environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        facts = self._wait_for(partial(_read, self.runtime / f"jpserver-{self._process.pid}.json"))
        page = next(part for part in command if part.startswith("--LabApp.default_url=")).partition("=")[2]
        self.address, self.token = facts["url"].rstrip("/"), facts["token"]
        self.first_page = f"{self.address}{page}?token={self.token}"
        self._wait_for(partial(self.ask, "GET", "api/status"))  # it says where it listens a while before it does

    def _wait_for(self, what):
        """What `what` gives, as soon as it fails no longer."""
        until = time.monotonic() + STARTING
        while time.monotonic() < until and self._process.poll() is None:
            try:
                return what()
            except (OSError, ValueError):
                time.sleep(0.1)
        self.stop()
        raise AssertionError(f"JupyterLab did not start: {self._log.read_text()[-2000:]}")

    def end_kernels(self):
        """End every kernel: a lesson's holds about a gigabyte, and the page that it was for is closed."""
        for kernel in self.ask("GET", "api/kernels"):
            self.ask("DELETE", f"api/kernels/{kernel['id']}")
        self.have_run.clear()

    def ask(self, method: str, what: str, body: dict | None = None):
        """What the server answers to a request of its REST interface, as data; None where it says nothing."""
        headers = {"Authorization": f"token {self.token}", "Content-Type": "application/json"}
        sent = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.address}/{what}", sent, headers, method=method)
        with urllib.request.urlopen(request, timeout=STARTING) as answer:  # a session begins with its kernel
            said = answer.read()
        return json.loads(said) if said else None

    def stop(self):
        """End the server and, with it, its kernels."""
        self._process.terminate()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()


def _read(file: Path) -> dict:
    return json.loads(file.read_text())


@contextmanager
def serving(folder: Path, target: str):
    """The server that `make TARGET` would start, for as long as the block runs."""
    server = Server(folder, target)
    try:
        yield server
    finally:
        server.stop()


LAB = pytest.StashKey[Server]()


def lab_of(config: pytest.Config) -> Server:
    """This worker's JupyterLab, as `make lab` starts it: whoever asks first starts it, and it ends with the run."""
    if LAB not in config.stash:
        folder = tempfile.TemporaryDirectory(prefix="unrolled-lab-", ignore_cleanup_errors=True)
        config.add_cleanup(folder.cleanup)
        config.stash[LAB] = Server(Path(folder.name), "lab")
        config.add_cleanup(config.stash[LAB].stop)
    return config.stash[LAB]


def as_make_says(target: str) -> tuple[dict[str, str], list[str]]:
    """The environment and the command with which `make TARGET` ends, less the folder that it serves."""
    dry = ["make", "--dry-run", "--no-print-directory", target]
    told = subprocess.run(dry, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    told = told.replace("\\\n", " ").replace("$(pwd -P)", str(ROOT))  # no shell reads it
    words = shlex.split(told.strip().splitlines()[-1])
    settings = {}
    while "=" in words[0]:
        name, _, value = words.pop(0).partition("=")
        settings[name] = value
    assert words[1:3] == ["-m", "jupyterlab"], f"make {target} ends with something else: {words}"
    assert not any("$" in word for word in (*words, *settings.values())), f"left for a shell: {words}, {settings}"
    return settings, [sys.executable, *(word for word in words[1:] if "root_dir" not in word)]


class Notebook:
    """A notebook that is open in JupyterLab: what is in it is found by cell id.

    JupyterLab first shows an empty cell of its own, which goes when the file has come: found by its place among the
    cells, the first cell would be that one.
    """

    def __init__(self, page, path: Path):
        self.page, self.path = page, path
        self.cells = {cell["id"]: cell for cell in json.loads(path.read_text())["cells"]}
        page.locator("#jp-main-dock-panel .lm-TabBar-tab.lm-mod-current", has_text=path.name).wait_for()
        self.cell(next(iter(self.cells))).wait_for()
        page.locator("#jp-main-statusbar", has_text="| Idle").wait_for()

    def cell(self, name: str):
        """The cell on the page, wherever it stands."""
        return self.page.locator(f".jp-NotebookPanel:not(.lm-mod-hidden) .jp-Cell[data-jpf-cell-id='{name}']")

    def choose(self, menu: str, item: str):
        """Choose an item of a menu of the menu bar; on the page its shortcut follows its name."""
        self.page.get_by_role("menuitem", name=menu, exact=True).click()
        self.page.get_by_role("menuitem", name=re.compile(rf"^{re.escape(item)}(\s.*)?$")).click()

    def select(self, name: str):
        """Make a cell the active one, in command mode."""
        self.cell(name).locator(".jp-InputPrompt").first.click()
        self.page.locator(f".jp-Cell.jp-mod-active[data-jpf-cell-id='{name}']").wait_for()

    def run(self, name: str, source: str | None = None, patience: int = PATIENCE) -> str:
        """Run one cell, with another source if one is given; what its outputs say."""
        editor = self.cell(name).locator(".cm-content")
        editor.click()
        if source is not None:
            self.page.keyboard.press("Control+A")
            self.page.keyboard.insert_text(source)
        # A count may come out as it was, after a restart: the old one is wiped, to see the new one come.
        prompt = self.cell(name).locator(".jp-InputPrompt").first
        prompt.evaluate("prompt => { prompt.textContent = '' }")
        self.page.keyboard.press("Control+Enter")
        prompt.filter(has_text=re.compile(r"\[\d+]")).wait_for(state="attached", timeout=patience)
        return "\n".join(self.cell(name).locator(".jp-OutputArea-output").all_inner_texts())

    def run_many(self, item: str, patience: int):
        """Choose an item of the menu Run; wait until it has begun, and then until no cell has yet to run."""
        self.choose("Run", item)
        self.page.wait_for_function(UNDER_WAY)
        self.page.wait_for_function(f"!{UNDER_WAY}", timeout=patience)
        self.page.locator("#jp-main-statusbar", has_text="| Idle").wait_for()

    def saved(self) -> dict:
        """The notebook as JupyterLab stores it now.

        Asked by its command and not by its keys: it answers no key until the save before has ended, which no one sees.
        """
        self.page.evaluate("jupyterapp.commands.execute('docmanager:save')")
        return json.loads(self.path.read_text())
