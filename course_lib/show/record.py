"""capture(): hidden states, attention maps and their gradients out of any model, by name, in its own forward pass."""

from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from fnmatch import fnmatch

import torch
from torch import Tensor, nn

MOST_NAMES = 8  # told to whoever asks for one that is not there, at most


class Recording(dict):
    """Module name -> list of the tensors that the module put out, one a call, in order (of a tuple, the first).

    A recurrent layer calls its listener once a step, so `over_time` stacks the calls: (B, ...) each -> (B, T, ...).
    """

    def over_time(self, name: str) -> Tensor:
        """Values of every call of `name`, stacked along dimension 1 and detached: (B, T, ...)."""
        return torch.stack([value.detach() for value in self._calls(name)], dim=1)

    def grad(self, name: str) -> Tensor:
        """dL/d(value) of every call of `name` after loss.backward(), stacked along dimension 1: (B, T, ...).

        A call that the loss does not depend on has gradient zero. Raises ValueError before any backward pass.
        """
        calls = self._calls(name)
        if all(value.grad is None for value in calls):
            raise ValueError(
                f"No gradient has reached {name!r}: first call loss.backward() on a loss that depends "
                "on it, with gradients switched on."
            )
        return torch.stack([torch.zeros_like(v) if v.grad is None else v.grad for v in calls], dim=1)

    def _calls(self, name: str) -> list[Tensor]:
        _check_recorded(name, self)
        return self[name]


@contextmanager
def capture(model: nn.Module, *patterns: str) -> Iterator[Recording]:
    """Record what the named modules of `model` put out while the block runs; the model itself is left as it was.

        with capture(model, "*.hidden.*") as maps:
            model(x)[0].sum().backward()
        maps.over_time("rnn.hidden.0"), maps.grad("rnn.hidden.0")

    patterns are module names with * as wildcard; none means every module. Raises ValueError when none matches.
    """
    recording, handles = Recording(), []
    chosen = [
        (name, module)
        for name, module in model.named_modules()
        if not patterns or any(fnmatch(name, pattern) for pattern in patterns)
    ]
    _check_named(model, patterns, [name for name, _ in chosen])

    def listen(name: str):
        def hook(module, arguments, output):
            value = output[0] if isinstance(output, tuple) else output
            if isinstance(value, Tensor):
                if value.requires_grad:
                    value.retain_grad()
                recording.setdefault(name, []).append(value)

        return hook

    try:
        for name, module in chosen:
            handles.append(module.register_forward_hook(listen(name)))
        yield recording
    finally:
        for handle in handles:
            handle.remove()


def _check_recorded(name: str, recording: Recording) -> None:
    if not recording.get(name):
        known = _few(name, sorted(recording)) or "nothing yet: run the model inside the with block"
        raise KeyError(f"Nothing was recorded under {name!r}. Recorded: {known}.")


def _check_named(model: nn.Module, patterns: tuple[str, ...], chosen: list[str]) -> None:
    if not chosen:
        names = _few(patterns[0], [name for name, _ in model.named_modules() if name])
        raise ValueError(f"No module is named like {' or '.join(patterns)}. This model has: {names or 'none'}.")


def _few(wanted: str, names: list[str]) -> str:
    """The names; of many some that are like the one that was wanted, and how many there are."""
    if len(names) <= MOST_NAMES:
        return ", ".join(names)
    near = get_close_matches(wanted, names, MOST_NAMES, cutoff=0.5) or names[:MOST_NAMES]
    return f"{', '.join(near)}, and {len(names) - len(near)} more"
