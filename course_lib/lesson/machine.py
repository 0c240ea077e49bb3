"""Is this machine ready for the course, and how long will a lesson take on it?"""

import json
import os
import platform
import sys
import time
from itertools import islice
from pathlib import Path

import torch

from course_lib.recurrent.language_model import CharRNN, TruncatedBPTT, streams
from course_lib.recurrent.rnn import RNN
from course_lib.train import pick_device

MEASURED = Path(__file__).resolve().parents[2] / "notebooks" / "measured.json"
SPEED = "speed"  # the name under which the start page reports what `speed` measured


def describe() -> dict[str, str]:
    """Python, PyTorch, device, cores and memory of this machine, in words."""
    device = pick_device()
    name = f" ({torch.cuda.get_device_name(device)})" if device.type == "cuda" else ""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "Python": platform.python_version() + ("" if sys.version_info >= (3, 11) else ", too old: 3.11 is needed"),
        "PyTorch": torch.__version__.split("+")[0],
        "device": device.type + name,
        "CPU cores": str(cores),
        "memory": _memory(),
    }


def _memory() -> str:
    if not hasattr(os, "sysconf") or "SC_PHYS_PAGES" not in os.sysconf_names:
        return "unknown here; a lesson needs 2 GB"
    gigabytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{gigabytes:.0f} GB" + (", little: a lesson may need 2 GB of it" if gigabytes < 3.5 else "")


def speed(seconds: float = 5.0) -> float:
    """Training steps a second of lesson 01's character model on random text, measured for `seconds` on one core."""
    threads, state = torch.get_num_threads(), torch.get_rng_state()
    torch.set_num_threads(1)
    try:
        model, loss_fn = CharRNN(71, RNN(64, 256)), TruncatedBPTT()
        optimiser = torch.optim.AdamW(model.parameters())
        steps, began = 0, None
        for batch in islice(streams(torch.randint(71, (200_000,)), 128, 32), 100_000):
            optimiser.zero_grad()
            loss_fn(model, batch).backward()
            optimiser.step()
            if began is None:  # the first step warms up and does not count
                began = time.perf_counter()
                continue
            steps += 1
            if time.perf_counter() - began >= seconds:
                break
        return steps / (time.perf_counter() - began)
    finally:
        torch.set_num_threads(threads)
        torch.set_rng_state(state)


def minutes_here(steps_a_second: float, measured: Path = MEASURED) -> dict[str, float]:
    """Estimated minutes of each lesson, by its number, on a machine of this `speed`, from what the authors' measured.

    Empty where notebooks/measured.json is missing or holds no speed to compare with.
    """
    try:
        found = json.loads(measured.read_text(encoding="utf-8"))
        theirs = next(entry["speed"] for entry in found.values() if "speed" in entry)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, StopIteration):
        return {}
    lessons = {name.partition("_")[0]: entry["seconds"] for name, entry in sorted(found.items())}
    return {number: seconds / 60 * theirs / steps_a_second for number, seconds in lessons.items()}
