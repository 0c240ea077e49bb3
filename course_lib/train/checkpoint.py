"""Training runs on disk as safetensors: plain numbers and a JSON header, so that loading one never runs code.

What is saved lies between two steps and is all that the next one depends on: weights, buffers, the optimiser's moments,
the state of the loss function, the random generators and where batches drew from them, the history.
"""

import hashlib
import json
import random
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from course_lib.data.beside import beside
from course_lib.train.readings import History

FORMAT = "unrolled run 2"
Restore = Callable[[nn.Module, torch.optim.Optimizer, Callable], None]


def save_run(
    path: str | Path,
    model: nn.Module,
    optimiser: torch.optim.Optimizer,
    loss_fn: Callable,
    history: History,
    settings: dict,
    drawn: dict[str, Tensor] | None = None,
) -> None:
    """Write all that a run needs to go on exactly, and the settings that it was begun with.

    drawn: what its `Batches` noted. The old file stays whole until the new one is. Raises OSError when it cannot be
    written, ValueError for a model or loss whose state is neither tensors nor, in a loss, what JSON keeps.
    """
    loss = loss_fn.state_dict() if hasattr(loss_fn, "state_dict") else {}
    tensors = (
        _prefixed("model.", model.state_dict())
        | _prefixed("buffer.", _unsaved_buffers(model))
        | _prefixed("optimiser.", _moments(model, optimiser))
        | _prefixed("loss.", {name: value for name, value in loss.items() if isinstance(value, Tensor)})
        | _prefixed("random.", _generators(model))
        | _prefixed("drawn.", drawn or {})
    )
    loss_rest = {name: value for name, value in loss.items() if not isinstance(value, Tensor)}
    wrong = [name for name, value in tensors.items() if not isinstance(value, Tensor)]
    wrong += [f"loss.{name}" for name, value in loss_rest.items() if not storable(value)]
    if wrong:
        raise ValueError(f"A checkpoint cannot keep {wrong[0]}: make it a tensor, or train without checkpoint=.")
    run = {
        "history": asdict(history),
        "settings": settings,
        "loss": loss_rest,
        "python": random.getstate(),
        "numpy": [value.tolist() if isinstance(value, np.ndarray) else value for value in np.random.get_state()],
        "tensors": sorted(tensors),
    }
    # Copies, because safetensors refuses tensors that share memory, as tied weights do.
    copies = {name: tensor.detach().to("cpu", copy=True).contiguous() for name, tensor in tensors.items()}
    header = {"format": FORMAT, "run": json.dumps(run)}
    try:
        with beside(path) as new:
            save_file(copies, new, metadata=header | {"sha256": _digest(copies, header)})
    except (OSError, SafetensorError) as error:
        raise OSError(
            f"The checkpoint {path} could not be written ({error}). What was there before is whole; make room, or name "
            "another place."
        ) from error


def load_run(path: str | Path) -> tuple[History, dict, Restore, dict[str, Tensor]]:
    """Read what `save_run` wrote: history, settings, a function that restores (model, optimiser, loss_fn), and `drawn`.

    What it restores is changed in place. Raises ValueError for a file that is no such run, is damaged, or belongs to
    another model or loss; then nothing has been changed.
    """
    path = Path(path).expanduser()
    try:
        with safe_open(path, framework="pt") as file:
            header = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}
    except (SafetensorError, OSError) as error:
        raise ValueError(f"{path} is no readable checkpoint ({error}): delete it, or name another.") from None
    if header.get("format") != FORMAT:
        raise ValueError(f"{path} is no training run of this course (mark {FORMAT!r} is missing): name another file.")
    if header.pop("sha256", None) not in (None, _digest(tensors, header)):  # None: from before there were sums
        raise ValueError(f"{path} is damaged, it is not what was written: delete it, or name another.")
    _check_depth(path, header)
    damaged = ValueError(f"{path} is damaged, its parts do not fit each other: delete it, or name another.")
    try:
        run = json.loads(header["run"])
        history, settings, loss_rest = History(**run["history"]), dict(run["settings"]), dict(run["loss"])
        history.watched = [(step, seen) for step, seen in history.watched]
        python, (kind, key, *rest) = run["python"], run["numpy"]
        python_state, numpy_state = (python[0], tuple(python[1]), python[2]), (kind, np.uint32(key), *rest)
        random.Random().setstate(python_state)
        np.random.RandomState().set_state(numpy_state)
        whole = len(history.loss) == len(history.grad_norm) == len(history.lr) and sorted(tensors) == run["tensors"]
    except (LookupError, TypeError, ValueError):
        raise damaged from None
    if not whole:
        raise damaged

    def part(prefix: str) -> dict[str, Tensor]:
        return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}

    def restore(model: nn.Module, optimiser: torch.optim.Optimizer, loss_fn: Callable) -> None:
        trained = {id(weight) for group in optimiser.param_groups for weight in group["params"]}
        sizes = {name: weight.shape for name, weight in model.named_parameters() if id(weight) in trained}
        wrong = _unlike(part("model."), model.state_dict()) + _unlike(part("buffer."), _unsaved_buffers(model))
        for name, tensor in part("optimiser.").items():
            slot, _, weight = name.partition(".")
            if weight not in sizes or tensor.ndim not in (0, len(sizes[weight])):
                wrong.append(f"{slot} of {weight}")
        if wrong:
            raise ValueError(
                f"{path} belongs to another model: {', '.join(wrong[:3])} do not match. "
                "Build the model that was saved, or name another file."
            )
        own, saved = _generators(model), part("random.")
        if "cpu" not in saved or any(
            _unlike({name: saved[name]}, {name: own[name]}) for name in own.keys() & saved.keys()
        ):
            raise damaged
        device = next(model.parameters()).device
        state = loss_rest | {name: tensor.to(device) for name, tensor in part("loss.").items()}
        try:
            if state or hasattr(loss_fn, "load_state_dict"):
                loss_fn.load_state_dict(state)
        except (AttributeError, KeyError, RuntimeError, TypeError, ValueError) as error:
            raise ValueError(
                f"{path} belongs to another loss function: this one does not take the state kept there ({error}). "
                "Pass the one that was saved, or name another file."
            ) from None
        model.load_state_dict(part("model."))
        with torch.no_grad():
            for name, tensor in part("buffer.").items():
                model.get_buffer(name).copy_(tensor)  # in place: another name, or a view, may hold the same numbers
        _set_moments(model, optimiser, part("optimiser."))
        random.setstate(python_state)
        np.random.set_state(numpy_state)
        _set_generators(model, saved)

    return history, settings, restore, part("drawn.")


def _check_depth(path: Path, header: dict[str, str]) -> None:
    try:
        json.loads(header.get("run", ""))
    except RecursionError:
        raise ValueError(f"{path} is damaged, its history cannot be read: delete it, or name another.") from None
    except ValueError:
        pass  # told with the parts that do not fit


def storable(value: object) -> bool:
    """Whether JSON gives `value` back as it was: numbers, text, truth, None, and lists and dicts (by text) of these."""
    if isinstance(value, list):
        return all(map(storable, value))
    if isinstance(value, dict):
        return all(isinstance(key, str) and storable(item) for key, item in value.items())
    return (
        value is None or isinstance(value, bool | float | str) or isinstance(value, int) and value.bit_length() < 10_000
    )


def _digest(tensors: dict[str, Tensor], header: dict[str, str]) -> str:
    """SHA-256 of everything that a file holds."""
    seen = hashlib.sha256(json.dumps([header, sorted(tensors)], sort_keys=True).encode())
    for name in sorted(tensors):
        seen.update(tensors[name].reshape(-1).view(torch.uint8).numpy())
    return seen.hexdigest()


def _prefixed(prefix: str, named: dict) -> dict:
    return {prefix + name: value for name, value in named.items()}


def _unlike(saved: dict[str, Tensor], own: dict[str, Tensor]) -> list[str]:
    """The names under which the two hold something else: another shape or type, or nothing."""
    return sorted(
        name
        for name in saved.keys() | own.keys()
        if name not in saved
        or name not in own
        or (saved[name].shape, saved[name].dtype) != (own[name].shape, own[name].dtype)
    )


def _unsaved_buffers(model: nn.Module) -> dict[str, Tensor]:
    """The buffers that a model leaves out of its state_dict (persistent=False)."""
    kept = model.state_dict()
    return {name: tensor for name, tensor in model.named_buffers() if name not in kept}


def _moments(model: nn.Module, optimiser: torch.optim.Optimizer) -> dict[str, Tensor]:
    """What the optimiser keeps for each weight, by slot and the weight's name: `exp_avg.readout.bias`."""
    return {
        f"{slot}.{name}": torch.as_tensor(value)
        for name, weight in model.named_parameters()
        for slot, value in optimiser.state.get(weight, {}).items()
    }


def _set_moments(model: nn.Module, optimiser: torch.optim.Optimizer, moments: dict[str, Tensor]) -> None:
    """Hand each weight its own moments, in whatever order the optimiser was given the weights."""
    weights, place = dict(model.named_parameters()), {}
    for weight in (weight for group in optimiser.param_groups for weight in group["params"]):
        place[id(weight)] = len(place)
    slots: dict[int, dict[str, Tensor]] = {}
    for key, tensor in moments.items():
        slot, _, name = key.partition(".")
        slots.setdefault(place[id(weights[name])], {})[slot] = tensor
    optimiser.load_state_dict({"state": slots, "param_groups": optimiser.state_dict()["param_groups"]})


def _generators(model: nn.Module) -> dict[str, Tensor]:
    """The states of PyTorch's random generators: the CPU's, and that of the device the model is on."""
    device = next(model.parameters()).device
    states = {"cpu": torch.get_rng_state()}
    if device.type == "cuda":
        states["cuda"] = torch.cuda.get_rng_state(device)
    if device.type == "mps":
        states["mps"] = torch.mps.get_rng_state()
    return states


def _set_generators(model: nn.Module, states: dict[str, Tensor]) -> None:
    device = next(model.parameters()).device
    torch.set_rng_state(states["cpu"])
    if device.type == "cuda" and "cuda" in states:
        torch.cuda.set_rng_state(states["cuda"], device)
    if device.type == "mps" and "mps" in states:
        torch.mps.set_rng_state(states["mps"])
