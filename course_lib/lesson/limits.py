"""A time limit around code that may never end."""

import signal
import threading
import time
from contextlib import contextmanager


class OutOfTime(BaseException):
    """The time is up. Not an Exception, or `except Exception` in a student's loop would swallow it."""


@contextmanager
def time_limit(seconds: float):
    """Raise OutOfTime in the body after `seconds`; without effect on Windows and outside the main thread.

    It cuts in between two Python steps, so one long call into a library ends first. An alarm that somebody
    else had set (a test runner) is set again afterwards.
    """
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return

    def ring(signum, frame):
        raise OutOfTime

    started = time.monotonic()
    handler = signal.signal(signal.SIGALRM, ring)
    left, every = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler if handler is not None else signal.SIG_DFL)
        if left:
            signal.setitimer(signal.ITIMER_REAL, max(left - (time.monotonic() - started), 0.01), every)
