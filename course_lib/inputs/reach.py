"""Reach: how far a change of one input moves one output. The same question in every lesson, of every model.

Shapes: B batch, T time, D width of an input, K width of an output.
"""

import warnings
from collections.abc import Callable

import torch
from torch import Tensor

from course_lib.inputs.shapes import check_shapes


def reach(read: Callable[[Tensor], Tensor | tuple], x: Tensor, at: int = -1, *, each: bool = False) -> Tensor:
    """|| d out_at / d x_t || for every place t, the root of its mean square over the batch -> (T,).

    read: a model or any function that maps x (B, T, D) to out (B, T, K), or to a tuple that begins with it: an RNN, an
    nn.LSTM, a SelfAttention, a language model behind its embedding. The norm is Frobenius', over all D times K partial
    derivatives. at: the place of the output, from the end where negative. each: a curve for each sequence, (B, T); a
    mean square hides whether all reach alike, or a few of them far. Gradients and mode of the model stay as they are;
    with dropout at work each call differs, so use eval(). The sequences of a batch must not meet in the model.
    Raises ValueError or TypeError, in words, for an x or an output that is none, and an output that x does not move.
    """
    check_shapes("reach", x=(x, "B+ T+ width+"))
    # Without cuDNN, whose recurrent layers have no gradient in eval().
    with torch.enable_grad(), torch.backends.cudnn.flags(enabled=False):
        x = x.detach().clone().requires_grad_()
        out = read(x)
        out = out[0] if isinstance(out, tuple) else out
        check_shapes("reach", x=(x, "B T width"), out=(out, "B time_out+ width_out+"))
        _check_depends(out, x)
        squares = sum(_squares(out[:, at], x, some) for some in torch.eye(out.shape[-1]).to(out).split(64))
    return squares.sqrt() if each else squares.mean(0).sqrt()  # (B, T) or (T,)


def _squares(out: Tensor, x: Tensor, directions: Tensor) -> Tensor:
    """The squares of d (direction . out) / d x, summed over D and over the directions (N, K) -> (B, T)."""
    cotangents = directions[:, None].expand(-1, *out.shape)  # (N, B, K)
    wide = torch.promote_types(x.dtype, torch.get_default_dtype())  # half precision has no room for squares
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of operations that can be batched only one by one
            (grads,) = torch.autograd.grad(out, x, cotangents, retain_graph=True, is_grads_batched=True)
        return grads.to(wide).square().sum((0, -1))  # (N, B, T, D) -> (B, T)
    except RuntimeError:  # an operation on the way back refuses to be batched, or there is no memory for so many
        one_by_one = (torch.autograd.grad(out, x, one, retain_graph=True)[0] for one in cotangents)
        return sum(grad.to(wide).square().sum(-1) for grad in one_by_one)


def _check_depends(out: Tensor, x: Tensor) -> None:
    if not out.requires_grad or torch.autograd.grad(out.sum(), x, retain_graph=True, allow_unused=True)[0] is None:
        raise ValueError(
            "The output does not depend on x: read must compute it from the x that it is handed, and without no_grad() "
            "or detach() on the way."
        )
