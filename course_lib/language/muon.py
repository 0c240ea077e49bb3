"""Muon: a step for matrices that is as long in every direction, and AdamW for whatever is no matrix. Lesson 07.

The gradients of a matrix, averaged over the last steps, are long in a few directions and short in all others (Jordan
et al., 2024). Muon steps along U V^T, not along that average's U S V^T: the same directions, each as long as the other.
Shapes: a matrix is (m, n); dots stand for any number of matrices before it.
"""

from collections.abc import Callable
from functools import partial

import torch
import torch.nn as nn
from torch import Tensor

from course_lib.inputs.shapes import check_shapes

NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)  # a, b, c: steep at 0, so that five rounds are enough


def orthogonalise(matrix: Tensor, rounds: int = 5) -> Tensor:
    """About U V^T for a matrix U S V^T, by products alone (Newton and Schulz; Jordan et al., 2024).

        X <- a X + b (X X^T) X + c (X X^T)^2 X,    which takes each singular value s to a s + b s^3 + c s^5

    matrix (..., m, n) -> (..., m, n). It begins at matrix / its length, so no s is above 1. Five rounds bring an s
    between 0.002 and 1 to one between 0.68 and 1.21, near 1 and not to it; a smaller one stays smaller, and 0 is 0.
    Raises ValueError or TypeError, in words, for what is no matrix of real numbers.
    """
    check_shapes("orthogonalise", matrix=(matrix, "... m+ n+"))
    a, b, c = NEWTON_SCHULZ
    x = matrix / matrix.abs().amax(dim=(-2, -1), keepdim=True).clamp(min=1)  # or the squares in its length overflow
    x = x / x.norm(dim=(-2, -1), keepdim=True).clamp(min=1e-7)
    tall = x.shape[-2] > x.shape[-1]
    x = x.mT if tall else x  # X X^T is the smaller of the two squares then
    for _ in range(rounds):
        square = x @ x.mT  # (..., m, m)
        x = a * x + (b * square + c * square @ square) @ x
    return x.mT if tall else x


def split(model: nn.Module) -> list[dict]:
    """A model's weights in the two groups that `Muon` is made of: the matrices inside its blocks, and all the rest.

    A row of an embedding is the vector of one token, and a row of the read-out its score: they are tables, of which one
    batch moves some rows much and others not at all, and AdamW serves them better (Jordan et al., 2024).
    """
    layers = [part for part in model.blocks.modules() if isinstance(part, nn.Linear)]
    inside = {id(layer.weight): layer.weight for layer in layers}
    rest = [weight for weight in model.parameters() if id(weight) not in inside]
    return [{"params": list(inside.values()), "matrices": True}, {"params": rest, "matrices": False}]


class Muon(torch.optim.Optimizer):
    """Muon for groups marked `matrices`, AdamW for the others (Jordan et al., 2024; Loshchilov and Hutter, 2019).

        matrices:  M <- mu M + (1 - mu) G,   W <- W - lr sqrt(max(1, m / n)) orthogonalise(mu M + (1 - mu) G)

    groups: what `split` gives, or dicts with "params", "matrices" and whatever differs there. weight_decay as in AdamW,
    for both kinds. Raises ValueError for `matrices` that are none, TypeError for weights without a group.
    """

    along = staticmethod(orthogonalise)  # where a matrix lies in parts on many devices, another class gathers it first

    def __init__(
        self,
        groups: list[dict],
        lr: float = 0.02,
        momentum: float = 0.95,
        rounds: int = 5,
        betas: tuple[float, float] = (0.9, 0.95),
        weight_decay: float = 0.0,
    ):
        groups = _check_groups(groups)
        own = {"lr": lr, "momentum": momentum, "rounds": rounds, "betas": betas, "weight_decay": weight_decay}
        super().__init__(groups, {**own, "matrices": False})

    def add_param_group(self, group: dict) -> None:
        """One group more, as torch.optim.Optimizer has it; raises ValueError for `matrices` that are none."""
        super().add_param_group(group)
        _check_group(self.param_groups[-1])

    @torch.no_grad()
    def step(self, closure=None):
        """One step along the gradients; a weight that has none stays. closure, if given, is called first."""
        with torch.enable_grad():
            loss = closure() if closure else None
        for group in self.param_groups:
            update = partial(_muon, along=self.along) if group["matrices"] else _adam
            for weight in group["params"]:
                if weight.grad is not None:
                    weight.mul_(1 - group["lr"] * group["weight_decay"])
                    weight.sub_(group["lr"] * update(weight.grad, self.state[weight], group))
        return loss


def _muon(gradient: Tensor, state: dict, group: dict, along: Callable) -> Tensor:
    mu, (m, n) = group["momentum"], gradient.shape
    mean = state.setdefault("momentum", torch.zeros_like(gradient)).lerp_(gradient, 1 - mu)
    ahead = gradient.lerp(mean, mu)  # Nesterov's look ahead: where the mean will be after one more such gradient
    return max(1, m / n) ** 0.5 * along(ahead, group["rounds"])


def _adam(gradient: Tensor, state: dict, group: dict, eps: float = 1e-8) -> Tensor:
    beta_1, beta_2 = group["betas"]
    if not state:
        count = gradient.new_zeros((), dtype=torch.promote_types(gradient.dtype, torch.get_default_dtype()))
        state.update(step=count, mean=torch.zeros_like(gradient), square=torch.zeros_like(gradient))
    state["step"] += 1  # a tensor, as a checkpoint keeps it, and on the device, where nobody waits for it
    mean = state["mean"].lerp_(gradient, 1 - beta_1) / (1 - beta_1 ** state["step"])
    square = state["square"].lerp_(gradient.square(), 1 - beta_2) / (1 - beta_2 ** state["step"])
    return mean / (square.sqrt() + eps)


def _check_groups(groups) -> list[dict]:
    groups = list(groups)
    if strangers := [type(group).__name__ for group in groups if not isinstance(group, dict)]:
        raise TypeError(
            "Muon must be told which weights are matrices inside blocks: Muon(split(model)), or a list of dicts with "
            f'"params" and "matrices"; got a list of {strangers[0]}.'
        )
    return groups


def _check_group(group: dict) -> None:
    shapes = [tuple(weight.shape) for weight in group["params"] if group["matrices"]]
    if wrong := [shape for shape in shapes if len(shape) != 2]:
        raise ValueError(f"Muon steps matrices; {wrong[0]} is the shape of none: put it where `matrices` is False.")
