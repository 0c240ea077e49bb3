"""What holds for every test and notebook under test: a home of its own, no network, one thread a worker."""

import gc
import itertools
import os
import shutil
import signal
import socket
import tempfile
from pathlib import Path

import pytest

# Set before torch is imported or a kernel started: it inherits them. Workers share the cores: a thread each.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["COURSE_HOME"] = HOME = tempfile.mkdtemp(prefix="unrolled-test-")
# A test starts from the course's own defaults, not from those of whoever runs it.
for name in ("COURSE_SEED", "COURSE_DEVICE", "MPLBACKEND"):
    os.environ.pop(name, None)

TESTS = itertools.count()
DRAWS = 5
LOCAL = {"localhost", "127.0.0.1", "::1", "0.0.0.0"}
_connect = socket.socket.connect


def _connect_locally(self, address):
    """Refuse any address that is not this machine: the course must run with no network once installed."""
    if isinstance(address, tuple) and address[0] not in LOCAL:
        raise RuntimeError(f"a test asked the network for {address[0]}: the course must run without it")
    return _connect(self, address)


def pytest_addoption(parser):
    parser.addoption("--tell", action="store_true", help="a line for each lesson with its seconds, no dots")
    parser.addoption("--sample", action="store_true", help="of a test with many cases the first, middle and last alone")


def pytest_configure(config):
    import matplotlib

    matplotlib.use("Agg")  # not by environment variable: kernels would inherit it and show no pictures
    if config.option.nbval or config.option.nbval_lax:
        from browser import one_run

        config.pluginmanager.register(one_run)
    socket.socket.connect = _connect_locally
    if config.option.tell and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Tells(config))


class Tells:
    """Says what has been run as it ends: each lesson, and each other file of tests that took long, with its seconds."""

    LONG = 10

    def __init__(self, config):
        self._config, self._running = config, {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(self, report):
        return ("passed", "", "") if report.passed and report.when == "call" else None  # no dot

    def pytest_runtest_logreport(self, report):
        from groups import group_of

        worker, group = getattr(report, "node", None), group_of(report.nodeid)
        if self._running.get(worker, {}).get("group") != group:
            self._say(worker)
            self._running[worker] = {"group": group, "seconds": 0, "tests": set()}
        self._running[worker]["seconds"] += report.duration
        self._running[worker]["tests"].add(report.nodeid)

    def pytest_sessionfinish(self):
        for worker in list(self._running):
            self._say(worker)

    def _say(self, worker):
        ended = self._running.pop(worker, None)
        if ended and (ended["group"].startswith("lesson") or ended["seconds"] >= self.LONG):
            reporter = self._config.pluginmanager.get_plugin("terminalreporter")
            reporter.ensure_newline()
            reporter.write_line(f"{ended['group']}: {len(ended['tests'])} tests, {ended['seconds']:.0f} s")


def pytest_unconfigure(config):
    socket.socket.connect = _connect
    shutil.rmtree(HOME, ignore_errors=True)


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Ten thousand tests are made and kept: nothing is searched for garbage meanwhile, nor are they afterwards."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


def pytest_itemcollected(item):
    """Of what is drawn at random, by a `seed` of a test, `make test` looks at the first draws; the rest is `full`."""
    seed = item.callspec.params.get("seed") if hasattr(item, "callspec") else None
    if isinstance(seed, int) and seed >= DRAWS:
        item.add_marker(pytest.mark.full)


@pytest.hookimpl(trylast=True)  # after -m and -k have chosen theirs
def pytest_collection_modifyitems(config, items):
    from groups import in_order, sample  # imports the course, and that PyTorch: after the settings above

    on_gpu = [item for item in items if item.get_closest_marker("cuda")]
    if on_gpu:
        import torch

        if not torch.cuda.is_available():
            for item in on_gpu:
                item.add_marker(pytest.mark.skip(reason="no CUDA device on this machine"))
    chosen = sample(items) if config.option.sample else items
    if len(chosen) < len(items):
        kept = set(chosen)
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = in_order(chosen)


def pytest_terminal_summary(terminalreporter):
    """What is being written, and what of it is left: a list, not a failure."""
    from course_lib.lesson.syllabus import IN_WRITING
    from course_lib.workshop.publish.new_lesson import left_to_write

    for lesson in IN_WRITING:
        terminalreporter.section(f"to be written: lesson {lesson.number:02d}, {lesson.title}")
        for path, count in left_to_write(lesson).items():
            terminalreporter.write_line(f"{path}: {count}")
        terminalreporter.write_line(
            "When nothing is left: see the end of what `make lesson` printed, or CONTRIBUTING.md."
        )


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    from groups import ByLesson

    return ByLesson(config, log)


@pytest.fixture(autouse=True)
def home(monkeypatch):
    """A new COURSE_HOME for each test, made by whoever writes there first: most of ten thousand tests do not."""
    place = Path(HOME) / f"test-{next(TESTS)}"
    monkeypatch.setenv("COURSE_HOME", str(place))
    return place


@pytest.fixture(autouse=True)
def interruptible():
    """Ctrl-C is heard in each test, also where a shell began the run in the background, and so ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


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


@pytest.fixture
def short_run(tmp_path, monkeypatch):
    """short_run(recipe): its first steps, saved in an empty folder and loaded -> the model as trained, its record.

    What came back is the same, as exactly as its file keeps it, and its card says what was measured.
    """
    import json

    import torch

    from course_lib.workshop.recipes import stored
    from course_lib.workshop.recipes.__main__ import card

    def run(recipe, steps=2, checkpoint=None):
        model, record = stored.train(recipe, steps, progress=False, checkpoint=checkpoint)
        assert record["steps"] == steps and [step for step, _ in record["curve"]] == [0, steps]
        assert record.keys() >= stored.RECORD | {*recipe.holds} and record["recipe"]["lr"] == recipe.lr
        monkeypatch.setattr(stored, "CHECKPOINTS", tmp_path / "data" / "checkpoints")
        stored.save(recipe, model, record)
        back, same = stored.load(recipe)
        plain, told = (
            {key: part.to_json() if key == "tokenizer" else part for key, part in one.items()} for one in (same, record)
        )
        assert plain == json.loads(json.dumps(told)) and not back.training and type(back) is type(model)
        kept = {key: part.half().float() if recipe.half else part for key, part in model.state_dict().items()}
        assert all(torch.equal(part, kept[key]) for key, part in back.state_dict().items())
        told = card(recipe, same)
        assert told.startswith(f"## `{recipe.name}`") and recipe.worth.format(**record) in told
        assert f"{steps:,} steps of {recipe.reads.format(recipe.batch, recipe.length)}, " in told
        return model, record

    threads = torch.get_num_threads()
    yield run
    torch.set_num_threads(threads)
