"""The steps of one run and what they saw, read back from the device only when somebody looks."""

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

BLOCK = 100  # steps at most between two readings, so that a run that went wrong is noticed


@dataclass
class History:
    """What one run of `fit` saw, a number a step: loss, gradient norm before clipping, learning rate; wall seconds."""

    loss: list[float] = field(default_factory=list)
    grad_norm: list[float] = field(default_factory=list)
    lr: list[float] = field(default_factory=list)
    watched: list[tuple[int, object]] = field(default_factory=list)
    seconds: float = 0.0
    interrupted: bool = False


def _in_one_line(history: History) -> str:
    """What a notebook shows of a cell that ends with `fit(...)`: one line instead of every number."""
    steps = f"{len(history.loss):,} steps" if len(history.loss) != 1 else "1 step"
    return (
        f"History of {steps}"
        + (f", the last with a loss of {history.loss[-1]:.4g}" if history.loss else "")
        + (", interrupted" if history.interrupted else "")
    )


# Not in the class, whose text belongs to the digest of every recorded training: how it is shown changes no number.
setattr(History, "__repr__", _in_one_line)  # noqa: B010


class Steps:
    """Takes the steps of one run and writes them into its history.

    A step whose loss or gradient is not finite changes no weight; FloatingPointError tells which it was. Where reading
    a number is free (`at_once`, on the CPU) it is told before that step is taken. Elsewhere reading makes the program
    wait for the device: there each step is undone on the device itself when it or one before was not finite, and
    `read` tells it later.
    """

    def __init__(
        self, model: nn.Module, optimiser: torch.optim.Optimizer, history: History, clip: float | None, at_once: bool
    ):
        self.weights, self.optimiser, self.history = list(model.parameters()), optimiser, history
        self.clip, self.at_once = clip, at_once
        self.unread: list[tuple[Tensor, Tensor, float]] = []
        self.sound = None  # on the device: whether everything so far was finite

    def take(self, loss: Tensor, rate: float) -> None:
        """Gradients of `loss`, clipped, and a step of the optimiser at learning rate `rate`."""
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(self.weights, self.clip or math.inf)
        if self.at_once:
            seen = loss.item(), norm.item(), rate
            self._check(*seen)
            self.optimiser.step()
            self._note(*seen)
        else:
            loss = loss.detach().reshape(())
            finite = torch.isfinite(loss) & torch.isfinite(norm)
            self.sound = finite if self.sound is None else self.sound & finite
            self._step_if_sound()
            self.unread.append((loss, norm, rate))
            if len(self.unread) >= BLOCK:
                self.read()

    @torch.no_grad()
    def _step_if_sound(self) -> None:
        moved = [p for p in self.weights if p.grad is not None]
        before = [p.clone() for p in moved]
        self.optimiser.step()
        for p, old in zip(moved, before, strict=True):
            p.copy_(torch.where(self.sound, p, old))

    def read(self) -> None:
        """Bring what is still on the device into the history; raises FloatingPointError as the class says."""
        if not self.unread:
            return
        losses, norms, rates = zip(*self.unread, strict=True)
        self.unread = []
        for seen in zip(torch.stack(losses).tolist(), torch.stack(norms).tolist(), rates, strict=True):
            self._check(*seen)
            self._note(*seen)

    def _check(self, loss: float, norm: float, rate: float) -> None:
        if not (math.isfinite(loss) and math.isfinite(norm)):
            raise FloatingPointError(
                f"Step {len(self.history.loss)}: loss {loss}, gradient norm {norm}. The weights are those of the step "
                f"before. Lower the learning rate (now {rate:.2g}) or clip the gradient (clip={self.clip})."
            )

    def _note(self, loss: float, norm: float, rate: float) -> None:
        self.history.loss.append(loss)
        self.history.grad_norm.append(norm)
        self.history.lr.append(rate)
