"""The training loop of lesson 01, grown up: device, seed, precision, schedule, clipping, checkpoint, interrupt."""

import math
import os
import random
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from tqdm.auto import tqdm

from course_lib.checkpoint import load_run, moment_of, save_run


def pick_device() -> torch.device:
    """The device to compute on: CUDA, else MPS, else CPU; the environment variable COURSE_DEVICE overrides.

    Raises ValueError when COURSE_DEVICE names no device of this machine.
    """
    wanted = os.environ.get("COURSE_DEVICE", "").strip().lower()
    counts = {"cpu": 1, "cuda": torch.cuda.device_count(), "mps": int(torch.backends.mps.is_available())}
    if not wanted:
        return torch.device(next(name for name in ("cuda", "mps", "cpu") if counts[name]))
    name, _, index = wanted.partition(":")
    if name not in counts or (index and not index.isdecimal()) or wanted.endswith(":"):
        raise ValueError(f"COURSE_DEVICE={wanted!r} is no device: set it to cpu, cuda, cuda:0 (or another number) "
                         "or mps, or unset it.")
    if int(index or 0) >= counts[name]:
        raise ValueError(f"COURSE_DEVICE={wanted!r} asks for a device that PyTorch does not find here: it sees "
                         f"{counts['cuda']} CUDA and {counts['mps']} MPS devices. Set it to cpu, or unset it.")
    return torch.device(wanted)


def seed_everything(seed: int | None = None) -> int:
    """Seed Python, NumPy and PyTorch; without an argument use the environment variable COURSE_SEED, else 0.

    Returns the seed, so that a lesson can derive others from it. Raises ValueError for a seed that is no number.
    """
    if seed is None:
        text = os.environ.get("COURSE_SEED", "0").strip() or "0"
        if not text.isdecimal() or int(text) >= 2**32:
            raise ValueError(f"COURSE_SEED={text!r} is no seed: set it to a whole number from 0 to {2**32 - 1}.")
        seed = int(text)
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    return seed


@dataclass
class History:
    """What one run of `fit` saw, a number a step: loss, gradient norm before clipping, learning rate; wall seconds."""

    loss: list[float] = field(default_factory=list)
    grad_norm: list[float] = field(default_factory=list)
    lr: list[float] = field(default_factory=list)
    watched: list[tuple[int, object]] = field(default_factory=list)
    seconds: float = 0.0
    interrupted: bool = False


def cosine(step: int, steps: int, warmup: int = 0) -> float:
    """Learning-rate factor: linear from 0 to 1 over `warmup` steps, then half a cosine down to 0.1 at `steps`."""
    if step < warmup:
        return (step + 1) / (warmup + 1)
    return 0.1 + 0.45 * (1 + math.cos(math.pi * (step - warmup) / max(1, steps - warmup)))


def to_device(batch, device: torch.device):
    """The same batch (tensor, tuple, list or dict of tensors; anything else unchanged) on `device`."""
    if isinstance(batch, Tensor):
        return batch.to(device)
    if isinstance(batch, dict):
        return {key: to_device(value, device) for key, value in batch.items()}
    if isinstance(batch, (tuple, list)):
        return type(batch)(to_device(value, device) for value in batch)
    return batch


def fit(model: nn.Module, batches: Iterable, loss_fn: Callable, *, steps: int, lr: float = 1e-3,
        weight_decay: float = 0.0, clip: float | None = 1.0, schedule: Callable[[int, int], float] | None = cosine,
        device: torch.device | None = None, watch: Callable[[int], object] | None = None, watch_every: int = 0,
        checkpoint: str | Path | None = None, checkpoint_every: int = 500, progress: bool = True) -> History:
    """Train `model` for `steps` batches with AdamW (Loshchilov and Hutter, 2019) and return its `History`.

    loss_fn(model, batch) -> scalar loss. clip bounds the global gradient norm (Pascanu et al., 2013, section 3.2;
    None leaves it). schedule(step, steps) multiplies lr; None keeps lr constant. On a CUDA device that can do it,
    bf16 autocast is on. watch(step) is called before the first step, every watch_every steps and at the end; its
    results are kept. checkpoint: a file, written every checkpoint_every steps and at the end; if it exists, the run
    goes on from it exactly as if it had not stopped, given the same batches from their start.
    Interrupting keeps model and history. Raises FloatingPointError, history attached, when loss or gradient is not
    finite, and ValueError when the batches run out.
    """
    device = device or pick_device()
    model.to(device).train()
    bf16 = device.type == "cuda" and torch.cuda.is_bf16_supported()
    optimiser = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=weight_decay)
    history, batches = History(), iter(batches)
    if checkpoint and Path(checkpoint).exists():
        saved, restore = load_run(checkpoint)
        history = History(**saved | {"interrupted": False})
        for _ in islice(batches, len(history.loss)):  # drawn and dropped, so that the next one is the right one
            pass
        restore(model, optimiser, loss_fn)
    first, before, began, moment = len(history.loss), history.seconds, time.perf_counter(), moment_of(loss_fn)

    def look(step: int) -> None:
        if watch and (step == steps or (watch_every and step % watch_every == 0)):
            model.eval()
            history.watched.append((step, watch(step)))
            model.train()

    def save(moment: dict[str, Tensor]) -> None:
        history.seconds = before + time.perf_counter() - began
        if checkpoint:
            save_run(checkpoint, model, optimiser, moment, asdict(history))

    bar = tqdm(range(first, steps), initial=first, total=steps, disable=not progress, leave=False, unit="step")
    try:
        if first == 0:
            look(0)
        for step in bar:
            moment = moment_of(loss_fn)
            try:
                batch = to_device(next(batches), device)
            except StopIteration:
                raise ValueError(f"The batches ran out after {step} of {steps} steps: ask for fewer steps, or pass "
                                 "endless batches such as itertools.cycle(list).") from None
            rate = lr * (schedule(step, steps) if schedule else 1.0)
            for group in optimiser.param_groups:
                group["lr"] = rate
            with torch.autocast(device.type, torch.bfloat16, enabled=bf16):
                loss = loss_fn(model, batch)
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            norm = nn.utils.clip_grad_norm_(model.parameters(), clip or math.inf).item()
            if not (math.isfinite(loss.item()) and math.isfinite(norm)):
                error = FloatingPointError(
                    f"Step {step}: loss {loss.item()}, gradient norm {norm}. The weights are those of the step before. "
                    f"Lower the learning rate (now {rate:.2g}) or clip the gradient (clip={clip}).")
                error.history = history
                raise error
            optimiser.step()
            history.loss.append(loss.item())
            history.grad_norm.append(norm)
            history.lr.append(rate)
            bar.set_postfix(loss=f"{history.loss[-1]:.3f}", refresh=False)
            look(step + 1)
            if checkpoint_every and (step + 1) % checkpoint_every == 0 and step + 1 < steps:
                save(moment_of(loss_fn))
        moment = moment_of(loss_fn)
    except KeyboardInterrupt:  # `moment` is still the one before the step that was broken off: it will be run again
        history.interrupted = True
        print(f"Stopped after {len(history.loss)} of {steps} steps. The model and the history so far are kept.")
    finally:
        bar.close()
    save(moment)
    model.eval()
    return history
