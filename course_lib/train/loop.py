"""The training loop of lesson 01, grown up: precision, schedule, clipping, looks, checkpoint, interrupt."""

import json
import math
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from itertools import islice
from pathlib import Path

import torch
from torch import nn
from tqdm.auto import tqdm

from course_lib.train.batches import Batches
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
    Where the shared generators of PyTorch, NumPy and Python and a DataLoader's own stood when a batch drew from them is
    kept there too, so that a shuffled DataLoader gives the same batches again; another generator is yours to put back.

    An interrupt ends the run between two steps, and model and history so far are kept; a second one raises
    KeyboardInterrupt at once. Raises FloatingPointError when loss or gradient is not finite, with the weights of the
    step before; ValueError when the batches run out, for clip < 0, for what a checkpoint cannot keep (a result of
    watch, an optimiser of weights that are not the model's), and for a checkpoint of another run; OSError when a
    checkpoint cannot be written. Whatever is raised once the training has begun carries the `.history` so far. The
    model is left in eval mode.
    """
    _check_numbers(steps, clip)
    device = torch.device(device or pick_device())
    model.to(device)
    stepper = optimiser(model) if optimiser else torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=weight_decay)
    settings = _settings(stepper, weight_decay, clip)
    run = _Run(model, stepper, loss_fn, checkpoint and Path(checkpoint).expanduser(), settings)

    def rate(step: int) -> float:
        return float(lr * (schedule(step, steps) if schedule else 1.0))

    batches = run.go_on(batches, steps, rate)
    run.taken = Steps(model, stepper, run.history, clip, at_once=_reading_is_free(device))
    bar = tqdm(range(run.done, steps), initial=run.done, total=steps, disable=not progress, leave=False, unit="step")
    bf16 = device.type == "cuda" and torch.cuda.is_bf16_supported()
    with run.under_way(bar):
        if watch and run.done == 0 and not stopping():
            run.look(0, watch)
        for step in bar:
            if stopping():
                run.history.interrupted = True
                break
            batch = to_device(_next(batches, step, steps), device)
            with torch.autocast(device.type, torch.bfloat16) if bf16 else nullcontext():
                loss = loss_fn(model, batch)
            run.taken.take(loss, rate(step))
            run.show(bar)
            if watch and _due(step + 1, watch_every, steps):
                run.look(step + 1, watch)
            if step + 1 < steps and _due(step + 1, checkpoint_every):
                run.save()
    if run.history.interrupted:
        print(f"Stopped after {run.done} of {steps} steps. The model and the history so far are kept.")
    return run.history


class _Run:
    """One run under way: what it has seen, in `history`, and the file where it is kept, if one was named."""

    def __init__(
        self, model: nn.Module, stepper: torch.optim.Optimizer, loss_fn: Callable, path: Path | None, settings: dict
    ):
        self.model, self.stepper, self.loss_fn, self.path, self.settings = model, stepper, loss_fn, path, settings
        self.history, self.taken, self.shown = History(), None, time.perf_counter()
        if path:
            _check_weights(model, stepper)

    @property
    def done(self) -> int:
        """Steps so far, those that were read back."""
        return len(self.history.loss)

    def go_on(self, batches: Iterable, steps: int, rate: Callable) -> Iterator:
        """Bring the run to where its file says it stood, if there is one, and start its clock -> the next batches."""
        if self.path and self.path.exists():
            self.history, saved, restore, drawn = load_run(self.path)
            _check_same_run(self.path, self.history, saved, self.settings, steps, rate)
            self.batches = Batches(batches, drawn)
            for _ in islice(self.batches, self.done):  # drawn and dropped, so that the next one is the right one
                pass
            restore(self.model, self.stepper, self.loss_fn)
        else:
            self.batches = Batches(batches, {}) if self.path else iter(batches)
        self.history.interrupted = False
        self.began = time.perf_counter() - self.history.seconds
        return self.batches

    @contextmanager
    def under_way(self, bar: tqdm) -> Iterator[None]:
        """Inside, steps are taken; at the end they are read back and saved, and an error carries the history."""
        first = self.done
        self.model.train()
        try:
            try:
                yield
            finally:
                self.taken.read()
            if self.done > first or (self.path and not self.path.exists()):
                self.save()  # a run that was finished before is not written again: it may lie where nobody can write
        except BaseException as error:
            with suppress(Exception):  # there are errors that take nothing more
                error.history = self.history
            raise
        finally:
            self.history.seconds = time.perf_counter() - self.began
            bar.close()
            self.model.eval()

    def look(self, step: int, watch: Callable[[int], object]) -> None:
        """What `watch` sees after so many steps, unless it has looked there before."""
        watched = self.history.watched
        if not (watched and watched[-1][0] == step):
            self.taken.read()
            self.model.eval()
            watched.append((step, _kept(watch(step), step, self.path)))
            self.model.train()

    def show(self, bar: tqdm) -> None:
        """The loss behind the bar, once a second."""
        if not bar.disable and time.perf_counter() - self.shown > 1:
            self.taken.read()
            bar.set_postfix(loss=f"{self.history.loss[-1]:.3f}", refresh=False)
            self.shown = time.perf_counter()

    def save(self) -> None:
        """Everything so far into the file, if one was named."""
        self.taken.read()
        self.history.seconds = time.perf_counter() - self.began
        if self.path:
            parts = (self.model, self.stepper, self.loss_fn, self.history, self.settings, self.batches.drawn)
            save_run(self.path, *parts)


def _due(step: int, every: int, last: int | None = None) -> bool:
    """Whether something is to be done after so many steps: every so many, if any, and after the last."""
    return step == last or bool(every) and step % every == 0


def _settings(stepper: torch.optim.Optimizer, weight_decay: float, clip: float | None) -> dict:
    """What a run was begun with, as its file keeps it, but for the learning rates."""
    return {
        "weight_decay": float(weight_decay),
        "clip": float(clip) if clip else None,
        "optimiser": type(stepper).__name__,
        "options": _options(stepper),
    }


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
