"""A time limit around code that may never end, and may refuse to be ended."""

import ctypes
import threading
import time
from collections.abc import Callable
from typing import Any

GRACE = 1.0  # seconds that code whose time is up is given to end
BUSY = 2  # times as many seconds, where other programs keep the processor busy


class OutOfTime(SystemExit):
    """The time is up.

    Not an Exception, or `except Exception` in a student's loop would swallow it; and a thread may end by a SystemExit
    without a word.
    """


def within(seconds: float, run: Callable[[], Any]) -> Any:
    """What `run()` returns or raises; raises OutOfTime when it has not ended after `seconds`, whatever Python it runs.

    Where others have the processor meanwhile, it gets up to BUSY times as long: a busy machine makes no right answer
    wrong. It runs in a thread of its own, so that the caller comes back in any case, and hears an interrupt. When its
    time is up, or the student interrupts, it is ended between two Python steps. Code that swallows even that is left
    running, and OutOfTime says so. A single call into C that never ends and holds the interpreter
    (`sum(range(10**12))`) lets nobody in: no thread can end it.
    """
    came, over = [], threading.Event()

    def work():
        try:
            came.append((run(), None))
        except BaseException as error:
            came.append((None, error))
        over.set()

    worker = threading.Thread(target=work, daemon=True)
    worker.start()
    started, used = time.monotonic(), time.process_time()
    try:
        while not over.is_set() and (passed := time.monotonic() - started) < BUSY * seconds:
            if passed >= seconds and time.process_time() - used >= seconds / 2:
                break
            over.wait(min(seconds / 4, 0.1))  # in short waits: on Windows an interrupt is heard only between two
        late = not over.is_set()
    finally:
        ended = _ended(worker, over)
    if late:
        raise OutOfTime("" if ended else "It goes on in the background: restart the kernel to stop it.")
    value, error = came[0]
    if error is not None:
        raise error
    return value


def _ended(worker, over) -> bool:
    """End `worker` if it is not over, by raising OutOfTime in it again and again; whether it has ended.

    Neither is_alive nor join is asked: after an interrupt in join, Python 3.11 takes a running thread for an ended one.
    """
    until = time.monotonic() + GRACE
    while not over.is_set() and time.monotonic() < until:
        ident, out = ctypes.c_ulong(worker.ident), ctypes.py_object(OutOfTime)
        if not ctypes.pythonapi.PyThreadState_SetAsyncExc(ident, out):
            return True  # no such thread runs any more
        over.wait(0.01)
    return over.is_set()
