"""The training loop of lesson 01, grown up: precision, schedule, clipping, looks, checkpoint, interrupt."""

import json
import math
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext, suppress
from itertools import islice
from pathlib import Path

import torch
from torch import nn
from tqdm.auto import tqdm

from course_lib.train.checkpoint import load_run, save_run, storable
from course_lib.train.device import pick_device, to_device
from course_lib.train.readings import History, Steps
from course_lib.train.together import between_steps, stopping


def cosine(step: int, steps: int, warmup: int = 0) -> float:
    """Learning-rate factor: linear from 0 to 1 over `warmup` steps, then half a cosine down to 0.1 at `steps`."""
    if step < warmup:
        return (step + 1) / (warmup + 1)
    return 0.1 + 0.45 * (1 + math.cos(math.pi * (step - warmup) / max(1, steps - warmup)))


@between_steps()
def fit(
    model: nn.Module,
    batches: Iterable,
    loss_fn: Callable,
    *,
    steps: int,
    lr: float = 1e-3,
    weight_decay: float = 0.0,
    clip: float | None = 1.0,
    schedule: Callable[[int, int], float] | None = cosine,
    device: torch.device | None = None,
    watch: Callable[[int], object] | None = None,
    watch_every: int = 0,
    checkpoint: str | Path | None = None,
    checkpoint_every: int = 500,
    progress: bool = True,
    optimiser: Callable[[nn.Module], torch.optim.Optimizer] | None = None,
) -> History:
    """Train `model` for `steps` batches with AdamW (Loshchilov and Hutter, 2019) and return its `History`.

    loss_fn(model, batch) -> scalar loss. optimiser: a function model -> another optimiser than AdamW, with a weight
    decay of its own; each step's learning rate goes to all of its groups. clip bounds the global gradient norm (Pascanu
    et al., 2013, section 3.2; None and 0 leave it). schedule(step, steps) multiplies lr; None keeps lr constant. On a
    CUDA device that can do it, bf16 autocast is on. watch(step) is called before the first step, every watch_every
    steps and at the end; its results are kept. checkpoint: a file, written every checkpoint_every steps and at the end;
    if it exists, the run goes on from it exactly as if it had not stopped, given the same batches from their start.

    An interrupt ends the run between two steps, and model and history so far are kept; a second one raises
    KeyboardInterrupt at once. Raises FloatingPointError when loss or gradient is not finite, with the weights of the
    step before; ValueError when the batches run out, for clip < 0, for what a checkpoint cannot keep (a result of
    watch, an optimiser of weights that are not the model's), and for a checkpoint of another run; OSError when a
    checkpoint cannot be written. Whatever is raised once the training has begun carries the `.history` so far. The
    model is left in eval mode.
    """
    _check_numbers(steps, clip)
    device = torch.device(device or pick_device())
    checkpoint = checkpoint and Path(checkpoint).expanduser()
    model.to(device)
    stepper = optimiser(model) if optimiser else torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=weight_decay)
    history, batches = History(), iter(batches)
    settings = {
        "weight_decay": float(weight_decay),
        "clip": float(clip) if clip else None,
        "optimiser": type(stepper).__name__,
        "options": _options(stepper),
    }

    def rate(step: int) -> float:
        return float(lr * (schedule(step, steps) if schedule else 1.0))

    if checkpoint:
        _check_weights(model, stepper)
    if checkpoint and checkpoint.exists():
        history, saved, restore = load_run(checkpoint)
        _check_same_run(checkpoint, history, saved, settings, steps, rate)
        for _ in islice(batches, len(history.loss)):  # drawn and dropped, so that the next one is the right one
            pass
        restore(model, stepper, loss_fn)
    history.interrupted = False
    first, before, began = len(history.loss), history.seconds, time.perf_counter()
    taken = Steps(model, stepper, history, clip, at_once=_reading_is_free(device))
    bf16 = device.type == "cuda" and torch.cuda.is_bf16_supported()

    def look(step: int) -> None:
        due = watch and (step in (0, steps) or (watch_every and step % watch_every == 0))
        if due and not (history.watched and history.watched[-1][0] == step):
            taken.read()
            model.eval()
            history.watched.append((step, _kept(watch(step), step, checkpoint)))
            model.train()

    def save() -> None:
        history.seconds = before + time.perf_counter() - began
        if checkpoint:
            save_run(checkpoint, model, stepper, loss_fn, history, settings)

    bar = tqdm(range(first, steps), initial=first, total=steps, disable=not progress, leave=False, unit="step")
    shown = began
    model.train()
    try:
        try:
            if first == 0 and not stopping():
                look(0)
            for step in bar:
                if stopping():
                    history.interrupted = True
                    break
                batch = to_device(_next(batches, step, steps), device)
                with torch.autocast(device.type, torch.bfloat16) if bf16 else nullcontext():
                    loss = loss_fn(model, batch)
                taken.take(loss, rate(step))
                if progress and time.perf_counter() - shown > 1:
                    taken.read()
                    bar.set_postfix(loss=f"{history.loss[-1]:.3f}", refresh=False)
                    shown = time.perf_counter()
                look(step + 1)
                if checkpoint_every and (step + 1) % checkpoint_every == 0 and step + 1 < steps:
                    taken.read()
                    save()
        finally:
            taken.read()
        if len(history.loss) > first or (checkpoint and not checkpoint.exists()):
            save()  # a run that was finished before is not written again: it may lie where nobody can write
    except BaseException as error:
        with suppress(Exception):  # there are errors that take nothing more
            error.history = history
        raise
    finally:
        history.seconds = before + time.perf_counter() - began
        bar.close()
        model.eval()
    if history.interrupted:
        print(f"Stopped after {len(history.loss)} of {steps} steps. The model and the history so far are kept.")
    return history


def _reading_is_free(device: torch.device) -> bool:
    """Whether a number can be read without waiting for the device: on the CPU, where there is nothing to wait for."""
    return device.type == "cpu"


def _next(batches: Iterator, step: int, steps: int) -> object:
    try:
        return next(batches)
    except StopIteration:
        raise ValueError(
            f"The batches ran out after {step} of {steps} steps: ask for fewer steps, or pass "
            "endless batches such as itertools.cycle(list)."
        ) from None


def _kept(seen: object, step: int, checkpoint: Path | None) -> object:
    """What watch saw; ValueError for what `checkpoint` could not give back as it was."""
    if checkpoint and not storable(seen):
        raise ValueError(
            f"watch({step}) returned {seen!r:.80}, a {type(seen).__name__}, which a checkpoint cannot keep as it is: "
            "return numbers (float(...)), text, or lists and dicts of these."
        )
    return seen


def _check_numbers(steps: int, clip: float | None) -> None:
    if steps < 0:
        raise ValueError(f"steps is {steps}: a run has 0 steps or more.")
    if clip is not None and not clip >= 0:
        raise ValueError(
            f"clip is {clip}: it bounds the gradient's norm, so give a number above 0, or None for no bound."
        )


def _options(optimiser: torch.optim.Optimizer) -> list[dict]:
    """What each group of weights is stepped with, as JSON gives it back; not the rate, nor how it is computed."""
    left_out = {"params", "lr", "initial_lr", "foreach", "fused", "capturable"}
    groups = [{name: group[name] for name in group if name not in left_out} for group in optimiser.param_groups]
    return json.loads(json.dumps(groups, default=str))


def _check_weights(model: nn.Module, optimiser: torch.optim.Optimizer) -> None:
    own = {id(weight) for weight in model.parameters()}
    if any(id(weight) not in own for group in optimiser.param_groups for weight in group["params"]):
        raise ValueError(
            "A checkpoint keeps the optimiser's moments by the names of the model's weights, and this optimiser trains "
            "others too: make them a part of the model, or train without checkpoint=."
        )


def _check_same_run(path: Path, history: History, saved: dict, asked: dict, steps: int, rate: Callable) -> None:
    """Raise ValueError where the run at `path` was trained otherwise than is asked for now."""
    done = len(history.loss)
    saved = {"optimiser": "AdamW", "options": asked["options"]} | saved  # runs from before these were kept
    found = [f"{name} was {saved.get(name)} and is {asked[name]}" for name in asked if saved.get(name) != asked[name]]
    if len(found) > 1:
        found = [sentence for sentence in found if not sentence.startswith("options")]  # they hold the weight decay too
    if done > steps:
        found.append(f"it has {done} steps, and {steps} are asked for")
    for step in range(min(done, steps)):
        if not math.isclose(history.lr[step], now := rate(step), rel_tol=1e-9):
            found.append(f"in step {step} the learning rate was {history.lr[step]:.4g} and is {now:.4g}")
            break
    if found:
        raise ValueError(
            f"{path} is a run with other settings: {'; '.join(found)}. Ask for it as it was trained (lr, schedule, "
            "steps, weight_decay, clip, optimiser and its options), delete it, or name another file."
        )
