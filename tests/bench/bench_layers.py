"""`make bench`: one training step of each of the course's layers beside PyTorch's own of equal size.

Both run in turn in one process, on one thread and on the same input; what counts is the ratio of the medians.
The table goes to the screen, the numbers to build/bench.json.
"""

import json
import statistics
import time
from pathlib import Path

import torch
from torch import nn

from course_lib.lstm import GRU, LSTM
from course_lib.record import capture
from course_lib.rnn import RNN

LAYERS = {"RNN": (nn.RNN, RNN), "LSTM": (nn.LSTM, LSTM), "GRU": (nn.GRU, GRU)}

# Batch, time, d_in, d_hidden: the lesson's character model, a small and a large one.
SIZES = [(128, 32, 64, 256), (32, 64, 32, 64), (32, 128, 256, 512)]
ROUNDS = 15


def seconds(step) -> float:
    began = time.perf_counter()
    step()
    return time.perf_counter() - began


def training_step(layer: nn.Module, x: torch.Tensor):
    def step():
        layer.zero_grad(set_to_none=True)
        layer(x)[0].square().mean().backward()
    return step


def step_by_step(layer: nn.Module, x: torch.Tensor):
    def step():
        with capture(layer, "hidden.*"):
            training_step(layer, x)()
    return step


def compare(name: str, batch: int, length: int, d_in: int, d_hidden: int) -> dict:
    """A row of the table: milliseconds of PyTorch's layer, and how many times as fast ours is."""
    torchs, course = LAYERS[name]
    x = torch.randn(batch, length, d_in, requires_grad=True)  # as behind an embedding
    theirs = torchs(d_in, d_hidden, batch_first=True)
    ours = course.from_torch(theirs)
    steps = {"torch": training_step(theirs, x), "ours": training_step(ours, x), "recorded": step_by_step(ours, x)}
    taken = {kind: [] for kind in steps}
    for _ in range(ROUNDS):
        for kind, step in steps.items():
            taken[kind].append(seconds(step))
    median = {kind: statistics.median(times[2:]) for kind, times in taken.items()}
    return {"layer": name, "batch": batch, "time": length, "d_in": d_in, "d_hidden": d_hidden,
            "torch_ms": 1e3 * median["torch"], "speed": median["torch"] / median["ours"],
            "speed_recorded": median["torch"] / median["recorded"]}


def main() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    rows = [compare(name, *size) for name in LAYERS for size in SIZES]
    print("Speed relative to torch: above 1 is faster. `recorded`: step by step, while capture() listens.")
    print("layer  batch  time  d_in  d_hidden   torch, ms    ours   recorded")
    for r in rows:
        sizes = f"{r['batch']:5}  {r['time']:4}  {r['d_in']:4}  {r['d_hidden']:8}"
        print(f"{r['layer']:5}  {sizes}   {r['torch_ms']:9.1f}   {r['speed']:5.2f}      {r['speed_recorded']:5.2f}")
    out = Path(__file__).resolve().parents[2] / "build" / "bench.json"
    out.parent.mkdir(exist_ok=True)
    out.write_text(json.dumps({"torch": torch.__version__, "rows": rows}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
