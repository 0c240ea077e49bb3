"""Ending between two steps: what an interrupt does to one training, and to several that run at once."""

import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from contextvars import ContextVar, copy_context


class _Wish:
    """Whether somebody wants the trainings that share this to end."""

    def __init__(self):
        self.asked = False


_wish: ContextVar[_Wish | None] = ContextVar("wish", default=None)


def stopping() -> bool:
    """Whether the training that asks should end now, between two of its steps: `if stopping(): break`.

    `fit` asks before each step. True inside `train_together` after an interrupt (Ctrl-C, or Stop in JupyterLab) or
    after an error in a job beside; where nothing listens for interrupts always False.
    """
    wish = _wish.get()
    return wish is not None and wish.asked


@contextmanager
def between_steps() -> Iterator[_Wish]:
    """Inside, a first interrupt does nothing but make `stopping` true; a second one raises KeyboardInterrupt at once.

    Python hands interrupts to the main thread alone, and a program may have its own way with them: elsewhere, and
    there, nothing is changed. Inside another such block the two share one wish.
    """
    if (shared := _wish.get()) is not None:
        yield shared
        return
    wish = _Wish()

    def note(signum, frame):
        if wish.asked:
            signal.default_int_handler(signum, frame)
        wish.asked = True

    ours = (
        threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    )
    mark = _wish.set(wish)
    try:
        if ours:
            signal.signal(signal.SIGINT, note)
        yield wish
    finally:
        if ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        _wish.reset(mark)


def train_together(jobs: list[Callable] | dict[object, Callable], at_once: int = 2) -> list | dict:
    """Run several trainings in threads, `at_once` at a time, begun in their order -> the result of each, as given.

    jobs: functions without arguments, in a list or in a dict by name, for example
    `partial(fit, model, batches, loss, steps=800, progress=False)`. The results come back as such a list or dict.

    An interrupt ends them all between two steps: each `fit` returns the history that it has, and a loop of your own
    ends where it asks `stopping()`; jobs not begun yet are called as well, and end at their first question. A second
    interrupt raises KeyboardInterrupt at once. An error in one job ends the others in the same way and is raised,
    with what they returned as its `.results` (for a job that failed its history, or None).

    All threads draw from the same global generators: what must come out the same each time draws from its own.
    Raises TypeError for a job that is no function, ValueError for at_once < 1.
    """
    named = dict(jobs) if isinstance(jobs, dict) else dict(enumerate(jobs))
    for name, job in named.items():
        if not callable(job):
            raise TypeError(
                f"Job {name!r} is a {type(job).__name__}, no function: write partial(fit, model, ...), "
                "which is called later, for fit(model, ...), which is called now."
            )
    if at_once < 1:
        raise ValueError(f"at_once is {at_once}: at least one training must run at a time.")

    def in_form(results: dict) -> list | dict:
        return results if isinstance(jobs, dict) else list(results.values())

    pool = ThreadPoolExecutor(at_once, thread_name_prefix="training")
    with between_steps() as wish:
        try:
            runs = {name: pool.submit(copy_context().run, job) for name, job in named.items()}
            running = set(runs.values())
            while running:  # with a pause, because on Windows a thread that only waits hears no interrupt
                done, running = wait(running, timeout=0.5, return_when=FIRST_EXCEPTION)
                wish.asked |= any(run.exception() for run in done)
        except BaseException:  # a second interrupt: leave at once; the threads end at their next step
            wish.asked = True
            raise
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
    if failed := [run.exception() for run in runs.values() if run.exception()]:
        with suppress(Exception):  # there are errors that take nothing more
            failed[0].results = in_form({name: _came_of(run) for name, run in runs.items()})
        raise failed[0]
    return in_form({name: run.result() for name, run in runs.items()})


def _came_of(run: Future) -> object:
    """What a job returned; of one that failed the history so far, if it was a `fit`."""
    error = run.exception()
    return run.result() if error is None else getattr(error, "history", None)
