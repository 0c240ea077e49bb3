"""Several trainings at once: an interrupt ends them all between two steps, and their histories are kept."""

import itertools
import signal
import subprocess
import sys
import threading
import time
from functools import partial

import pytest
import torch
from torch import nn

from course_lib.train import fit, stopping, train_together

PATIENCE = 60  # seconds until a loop that nobody stops gives up, and its test fails


def squared_error(model, batch):
    x, y = batch
    return (model(x) - y).square().mean()


def batches(seed=0, before_each=lambda number: None):
    generator, until = torch.Generator().manual_seed(seed), time.monotonic() + PATIENCE
    for number in itertools.count():
        assert time.monotonic() < until
        before_each(number)
        x = torch.randn(8, 4, generator=generator)
        yield x, x.sum(1, keepdim=True)


def training(seed=0, steps=20, **options):
    torch.manual_seed(seed)
    quiet = {"device": torch.device("cpu"), "progress": False}
    return partial(fit, nn.Linear(4, 1), batches(seed, **options), squared_error, steps=steps, **quiet)


def loop(turns=None):
    """A loop of somebody's own: counts until it is told to stop."""
    count, until = 0, time.monotonic() + PATIENCE
    while not stopping() and time.monotonic() < until and count != turns:
        count += 1
        time.sleep(0.001)
    assert time.monotonic() < until
    return count


def interrupt_at(number):
    """Interrupts the main thread, as Ctrl-C does, when it is called with this number."""
    return lambda asked: asked == number and signal.raise_signal(signal.SIGINT)


def test_results_come_in_order_and_are_those_of_one_after_the_other():
    alone = [training(seed)() for seed in range(5)]
    together = train_together([training(seed) for seed in range(5)])
    assert [history.loss for history in together] == [history.loss for history in alone]
    named = train_together({"b": training(1), "a": training(0), ("c", 2): partial(loop, 3)}, at_once=3)
    assert list(named) == ["b", "a", ("c", 2)] and named["a"].loss == alone[0].loss and named["c", 2] == 3
    assert train_together([]) == [] and train_together({}) == {}


@pytest.mark.parametrize("at_once", [1, 2, 3])
def test_as_many_run_at_once_as_are_asked_for(at_once):
    running, most, lock = set(), [], threading.Lock()

    def job(name):
        with lock:
            running.add(name)
            most.append(len(running))
        time.sleep(0.05)
        with lock:
            running.remove(name)
        return name

    assert train_together([partial(job, name) for name in range(6)], at_once) == list(range(6))
    assert max(most) == at_once


@pytest.mark.slow
def test_an_interrupt_ends_fits_and_loops_and_those_not_begun_and_keeps_what_they_have(capsys):
    looks = []
    jobs = {
        "long": training(steps=10**9, before_each=interrupt_at(30)),
        "loop": loop,
        "waiting": partial(training(steps=10**9), watch=looks.append),
        "waiting loop": loop,
    }
    found = train_together(jobs)
    assert found["long"].interrupted and len(found["long"].loss) >= 31 and found["loop"] > 0
    assert found["waiting"].interrupted and found["waiting"].loss == looks == [] and found["waiting loop"] == 0
    assert "of 1000000000 steps" in capsys.readouterr().out
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler and not stopping()
    assert train_together([partial(loop, 3)]) == [3]  # the next ones are not stopped


def test_a_second_interrupt_raises_at_once_and_the_threads_end():
    ended = []

    def deaf():
        signal.raise_signal(signal.SIGINT)
        time.sleep(0.05)
        signal.raise_signal(signal.SIGINT)
        ended.append(loop())

    with pytest.raises(KeyboardInterrupt):
        train_together([deaf, loop])
    until = time.monotonic() + PATIENCE
    while not ended and time.monotonic() < until:
        time.sleep(0.01)
    assert ended == [0]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_error_ends_the_others_and_brings_what_they_have():
    def fails(number):
        if number == 3:
            raise OSError("bad file")

    with pytest.raises(OSError, match="bad file") as caught:
        train_together({"bad": training(before_each=fails), "loop": loop, "waiting": training(steps=10**9)})
    assert len(caught.value.history.loss) == 3
    results = caught.value.results
    assert results["bad"] is caught.value.history and results["loop"] > 0 and results["waiting"].interrupted


@pytest.mark.slow
def test_inside_another_training_one_interrupt_ends_both():
    inner = []

    def watch(step):
        if step:
            inner.extend(train_together([training(steps=10**9, before_each=interrupt_at(5)), loop]))

    outer = training(steps=10)(watch=watch, watch_every=4)
    assert inner[0].interrupted and outer.interrupted and len(outer.loss) == 4


def test_off_the_main_thread_interrupts_are_left_alone_and_it_runs():
    found = []
    thread = threading.Thread(target=lambda: found.append(train_together([partial(loop, 3), training()])))
    thread.start()
    thread.join()
    assert found[0][0] == 3 and len(found[0][1].loss) == 20


@pytest.mark.parametrize(
    ("jobs", "at_once", "kind", "words"),
    [
        ([training()()], 2, TypeError, r"Job 0 is a History, no function: write partial\(fit"),
        ({"a": 3}, 2, TypeError, "Job 'a' is a int"),
        ([loop], 0, ValueError, "at_once is 0"),
    ],
)
def test_what_cannot_be_run_is_refused_in_words(jobs, at_once, kind, words):
    with pytest.raises(kind, match=words):
        train_together(jobs, at_once)


def test_nothing_asks_to_stop_where_nothing_listens():
    assert stopping() is False


@pytest.mark.slow
def test_an_interrupt_from_outside_ends_a_program_that_trains_in_threads():
    """As JupyterLab's Stop: a signal to the process, which reaches the main thread alone."""
    program = """
import itertools, time, torch
from functools import partial
from course_lib.train import fit, stopping, train_together
steps = itertools.count()
def loss_fn(model, batch):
    if next(steps) == 3:
        print("training", flush=True)
    return model(batch).square().mean()
def loop():
    while not stopping():
        time.sleep(0.001)
    return "ended"
model = torch.nn.Linear(4, 1)
long = partial(fit, model, itertools.cycle([torch.ones(2, 4)]), loss_fn, steps=10**9, progress=False)
history, said = train_together([long, loop])
print(said, history.interrupted, len(history.loss) >= 3)
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "training\n"
        process.send_signal(signal.SIGINT)
        rest, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0 and rest.endswith("ended True True\n")
