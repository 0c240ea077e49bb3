"""Training runs on disk as safetensors: plain numbers and a JSON header, so that loading one never runs code."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

FORMAT = "unrolled run 1"


def moment_of(loss_fn: Callable) -> dict[str, Tensor]:
    """What a step changes besides weights: the state that loss_fn carries, and PyTorch's random generators."""
    moment = {"random.cpu": torch.get_rng_state()}
    if torch.cuda.is_available():
        moment["random.cuda"] = torch.cuda.get_rng_state()
    if hasattr(loss_fn, "state_dict"):
        moment |= {f"loss.{name}": tensor for name, tensor in loss_fn.state_dict().items() if tensor is not None}
    return moment


def save_run(path: str | Path, model: nn.Module, optimiser: torch.optim.Optimizer, moment: dict[str, Tensor],
             history: dict) -> None:
    """Write all that a run needs to go on exactly: weights, optimiser, `moment_of` its loss_fn, and the history.

    The file is written beside its place and then renamed: a full disk or a killed process leaves the old one whole.
    """
    tensors = moment | {f"model.{name}": tensor for name, tensor in model.state_dict().items()}
    for index, slots in optimiser.state_dict()["state"].items():
        tensors |= {f"optimiser.{index}.{slot}": torch.as_tensor(value) for slot, value in slots.items()}
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        # Copies, because safetensors refuses tensors that share memory, as tied weights do.
        save_file({name: tensor.detach().cpu().clone().contiguous() for name, tensor in tensors.items()}, beside,
                  metadata={"format": FORMAT, "history": json.dumps(history)})
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def load_run(path: str | Path) -> tuple[dict, Callable[[nn.Module, torch.optim.Optimizer, Callable], None]]:
    """Read what `save_run` wrote: the history, and a function that restores (model, optimiser, loss_fn) in place.

    Raises ValueError for a file that is no such run, is damaged, or belongs to another model.
    """
    try:
        with safe_open(path, framework="pt") as file:
            header = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}
    except (SafetensorError, OSError) as error:
        raise ValueError(f"{path} is no readable checkpoint ({error}): delete it, or name another.") from None
    if header.get("format") != FORMAT:
        raise ValueError(f"{path} is no training run of this course (mark {FORMAT!r} is missing): name another file.")

    def part(prefix: str) -> dict[str, Tensor]:
        return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}

    def restore(model: nn.Module, optimiser: torch.optim.Optimizer, loss_fn: Callable) -> None:
        weights, own = part("model."), model.state_dict()
        wrong = sorted(name for name in weights.keys() | own.keys()
                       if name not in weights or name not in own or weights[name].shape != own[name].shape)
        if wrong:
            raise ValueError(f"{path} belongs to another model: {', '.join(wrong[:3])} do not match. "
                             "Build the model that was saved, or name another file.")
        model.load_state_dict(weights)
        slots: dict[int, dict[str, Tensor]] = {}
        for name, tensor in part("optimiser.").items():
            index, slot = name.split(".", 1)
            slots.setdefault(int(index), {})[slot] = tensor
        optimiser.load_state_dict({"state": slots, "param_groups": optimiser.state_dict()["param_groups"]})
        if hasattr(loss_fn, "load_state_dict"):
            device = next(model.parameters()).device
            loss_fn.load_state_dict({name: tensor.to(device) for name, tensor in part("loss.").items()})
        torch.set_rng_state(tensors["random.cpu"])
        if "random.cuda" in tensors and torch.cuda.is_available():
            torch.cuda.set_rng_state(tensors["random.cuda"])

    return json.loads(header["history"]), restore
