"""What the benches behind `make bench` share: two sides timed in turns, a table, and their section of build/bench.json.

Whatever else the machine does slows both sides alike, so what counts is the ratio of their medians.
"""

import json
import os
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch

from course_lib.train import pick_device, seed_everything

OUT = Path(__file__).resolve().parents[2] / "build" / "bench.json"
WARM_UP = 2  # rounds that are not counted


def begin() -> torch.device:
    """The device to measure on, seeded; on the CPU one thread."""
    seed_everything(0)
    torch.set_num_threads(1)
    device = pick_device()
    if device.type == "cuda":
        # Both sides in full precision: what cuDNN computes for PyTorch's layers would otherwise be cut to 10 bits.
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    return device


def seconds(step: Callable[[], object], device: torch.device) -> float:
    """How long a call takes, until the device is done with it.

    On the CPU its seconds of CPU: on one thread these are the wall's, less what other programs take.
    """
    clock = time.process_time if device.type == "cpu" else time.perf_counter
    _wait(device)
    began = clock()
    step()
    _wait(device)
    return clock() - began


def in_turns(
    sides: dict[str, Callable[[], object]], device: torch.device, budget: float = 3.0, least: int = 7, most: int = 50
) -> dict[str, float]:
    """The median seconds of each side. A round calls each once; as many rounds as fit into `budget` seconds."""
    taken, began = {name: [] for name in sides}, time.perf_counter()
    for turn in range(WARM_UP + most):
        if turn >= WARM_UP + least and time.perf_counter() - began > budget:
            break
        for name, step in sides.items():
            taken[name].append(seconds(step, device))
    return {name: statistics.median(times[WARM_UP:]) for name, times in taken.items()}


def table(title: str, rows: list[dict]) -> None:
    """Rows of equal keys, on the screen."""
    print(f"\n{title}")
    cells = [[*rows[0]], *([_shown(value) for value in row.values()] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for line in cells:
        print("  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)), flush=True)


def store(section: str, rows: list[dict], device: torch.device) -> None:
    """Put a bench's rows into build/bench.json, in the place of those that it put there before."""
    sections = json.loads(OUT.read_text(encoding="utf-8")) if OUT.exists() else {}
    machine = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.machine()
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None  # how busy the machine was; Windows has none
    about = {"torch": torch.__version__, "device": device.type, "machine": machine, "load": load}
    sections[section] = about | {"rows": rows}
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(json.dumps(sections, indent=1) + "\n", encoding="utf-8")


def _wait(device: torch.device) -> None:
    if device.type != "cpu":
        getattr(torch, device.type).synchronize()


def _shown(value: object) -> str:
    if not isinstance(value, float):
        return str(value)
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3g}" if abs(value) < 0.1 else f"{value:.2f}"
