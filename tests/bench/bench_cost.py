"""`python tests/bench/bench_cost.py`: what a training step of our GPT costs, by length, width and depth.

One size grows, the others stay. slope: the line through log(seconds) over log(size), by least squares; 1 is in
proportion, 2 is by the square. flops: the same slope for 6 N + 12 L D T operations a token (Chowdhery et al., 2022,
appendix B; half of the second term is hidden by the mask, and none of the count is memory), N the numbers that are
multiplied: all but the table of places. GFLOP/s: that count over the seconds.
"""

from functools import partial

import numpy as np
import torch
from side_by_side import begin, in_turns, store, table

from course_lib.language.gpt import GPT, GPTConfig, parameter_count
from course_lib.language.next_token import next_token_loss

BATCH, VOCAB, HEAD = 2, 65, 32  # HEAD: how wide a head is
USUAL = {"T": 128, "D": 128, "L": 2}
RANGES = {"T": (64, 128, 256, 512, 1024), "D": (64, 128, 256, 512), "L": (1, 2, 4, 8)}


def config(T: int, D: int, L: int) -> GPTConfig:
    return GPTConfig(VOCAB, T, D, D // HEAD, L)


def flops(T: int, D: int, L: int) -> int:
    """Of a training step, forward and backward."""
    multiplied = parameter_count(config(T, D, L)) - T * D
    return BATCH * T * (6 * multiplied + 12 * L * D * T)


def training_step(model: GPT, ids: torch.Tensor) -> None:
    model.zero_grad(set_to_none=True)
    next_token_loss(model, ids).backward()


def slope(sizes: tuple[int, ...], costs: list[float]) -> float:
    return float(np.polyfit(np.log(sizes), np.log(costs), 1)[0])


def measure(name: str, device: torch.device) -> tuple[list[dict], dict]:
    """The times of each size, and the slopes."""
    sizes = [USUAL | {name: value} for value in RANGES[name]]
    steps = {}
    for size in sizes:
        ids = torch.randint(VOCAB, (BATCH, size["T"] + 1), device=device)
        steps[size[name]] = partial(training_step, GPT(config(**size)).to(device), ids)
    took = in_turns(steps, device, budget=8.0)
    times, counts = list(took.values()), [flops(**size) for size in sizes]
    rows = [
        size | {"grows": name, "ms": 1e3 * time, "GFLOP/s": count / time / 1e9}
        for size, time, count in zip(sizes, times, counts, strict=True)
    ]
    # Below some size the calls cost more than the numbers: the two largest sizes say where the slope goes to.
    found = {"grows": name, "from": RANGES[name][0], "to": RANGES[name][-1]}
    for part, last in (("", 0), (", last two", -2)):
        found[f"slope{part}"] = slope(RANGES[name][last:], times[last:])
        found[f"flops{part}"] = slope(RANGES[name][last:], counts[last:])
    return rows, found


def main() -> None:
    device = begin()
    measured = [measure(name, device) for name in RANGES]
    rows, slopes = [row for rows, _ in measured for row in rows], [found for _, found in measured]
    table(f"A training step of our GPT on {device}, {BATCH} texts", rows)
    table("How the cost grows: measured, and by the count of operations", slopes)
    store("cost", rows, device)
    store("cost_slopes", slopes, device)


if __name__ == "__main__":
    main()
