"""What every model of the course is handed: token ids, lengths, masks, vectors, states; checked without waiting.

Shapes: B batch, T time, D d_in, H d_hidden, L n_layers. Batch first, always.

A check of values on a GPU would stop the program until the GPU has caught up. So shapes, types and devices are checked
everywhere, values only where they are `visible`; elsewhere a wrong id is the device's own error, and a NaN is found
by `fit` in the loss.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from operator import index

import torch
import torch.nn as nn
from torch import Tensor

from course_lib.inputs.shapes import check_shapes


def visible(tensor: Tensor) -> bool:
    """Whether the tensor's values can be looked at for nothing: it is a plain one, on the CPU, and the code is running.

    It is not running while `torch.compile` or `torch.export` reads it, and under `torch.func` (vmap, grad ...) a
    tensor may stand for many.
    """
    running = not (torch.compiler.is_compiling() or transformed())
    return running and tensor.is_cpu and type(tensor) in (Tensor, nn.Parameter)


def transformed() -> bool:
    """Whether a transform of `torch.func` (vmap, grad, jacrev ...) is at work."""
    return torch._C._are_functorch_transforms_active()


def autocast_is_on(x: Tensor) -> bool:
    """Whether autocast is on for the device of x: then a tensor of another dtype than the weights' is no mistake."""
    kind = x.device.type
    return torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind)


def full_precision(x: Tensor) -> AbstractContextManager:
    """A block without autocast on the device of x."""
    return torch.autocast(x.device.type, enabled=False) if autocast_is_on(x) else nullcontext()


def widened(x: Tensor) -> Tensor:
    """x in single precision where it is in half, else as it is: half has too few digits for differences and squares."""
    return x.float() if x.element_size() < 4 else x


@contextmanager
def reading(model: nn.Module) -> Iterator[None]:
    """A block in which the whole model is in eval mode; behind it each part is in its own mode again.

    model.train() behind it would wake the dropout of parts that somebody had frozen.
    """
    modes = [(part, part.training) for part in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for part, training in modes:
            part.training = training


def token_ids(name: str, ids, embed: nn.Embedding, shortest: int = 0) -> Tensor:
    """Token ids (B, T) for an embedding, int64; a tensor, NumPy array or list of equally long lists.

    Raises TypeError for what holds no whole numbers, ValueError for other shapes, fewer than `shortest` tokens, another
    device than the embedding's, and, where it can be seen, an id that the embedding does not have.
    """
    if not isinstance(ids, Tensor):
        ids = _as_tensor(f"{name} must be token ids (batch, time)", ids).to(embed.weight.device)
    if not _whole(ids):
        raise TypeError(
            f"{name} must be token ids (batch, time), whole numbers; got {ids.dtype}: encode the text first."
        )
    ids = ids.long()
    if ids.ndim != 2 or not len(ids) or ids.shape[1] < shortest:
        raise ValueError(f"{name} must be token ids (batch, time), not empty; got {ids.dtype}, {tuple(ids.shape)}.")
    if ids.device != embed.weight.device:
        raise ValueError(f"{name} is on {ids.device}, the weights on {embed.weight.device}: move one of them.")
    if visible(ids) and ids.numel() and not 0 <= int(ids.min()) <= int(ids.max()) < embed.num_embeddings:
        raise ValueError(
            f"{name} must hold ids from 0 to {embed.num_embeddings - 1}; got {int(ids.min())} ... {int(ids.max())}."
        )
    return ids


def text_places(ids: Tensor, mask: Tensor | None = None, past: int = 0) -> Tensor:
    """The place of each of ids (B, T) in its text, of which `past` tokens were read before: (T,), counted from 0.

    With a mask (B, past + T), True = a real token, (B, T), counted from the first real token of each row: so padding on
    the left moves nothing. Padding gets place 0.
    """
    if mask is None:
        return torch.arange(past, past + ids.shape[1], device=ids.device)
    return (mask.cumsum(dim=1) - 1).clamp(min=0)[:, past:]


def check_text(model: nn.Module, ids: Tensor, mask: Tensor | None, past: int) -> None:
    """Raise ValueError or TypeError, in words, unless a language model can read ids (B, T) behind `past` others.

    The model reads max_len tokens; the mask is bool (B, past + T), its padding on the left.
    """
    T_all = past + ids.shape[1]
    if T_all > model.max_len:
        raise ValueError(
            f"The text is {T_all} tokens long, and this model reads {model.max_len}: cut it, or let `generate` slide a "
            "window over it."
        )
    check_shapes(type(model).__name__, mask=(mask, "bool B T"))
    if mask is not None and mask.shape != (len(ids), T_all):
        raise ValueError(f"The mask must be (batch, time) = {(len(ids), T_all)}; got {tuple(mask.shape)}.")
    if mask is not None and visible(mask) and (mask[:, :-1] & ~mask[:, 1:]).any():
        raise ValueError(
            "The mask has padding behind a real token. Padding must stand on the left, so that all rows end together; "
            "on the right it needs no mask, for nothing looks ahead."
        )


def whole_lengths(lengths, longest: int, n_sequences: int | None = None) -> Tensor:
    """Lengths (B,) of sequences, int64; a tensor, NumPy array or list of whole numbers from 0 to `longest`.

    Raises ValueError, in words, for anything else. They stay where they are, on the CPU or on a device.
    """
    if not isinstance(lengths, Tensor):
        lengths = _as_tensor(_wanted(longest, n_sequences), lengths)
    lengths = lengths.long() if _whole(lengths) else lengths
    fits = lengths.ndim == 1 and n_sequences in (None, len(lengths)) and (_whole(lengths) or not len(lengths))
    if not fits or visible(lengths) and ((lengths < 0) | (lengths > longest)).any():
        got = lengths.tolist() if visible(lengths) else f"{lengths.dtype}, {tuple(lengths.shape)}"
        raise ValueError(f"{_wanted(longest, n_sequences)}; got {got}.")
    return lengths.long()


def is_whole(number) -> bool:
    """Whether this is a whole number: an int, or what Python takes for one, as a number of NumPy's is. True is none."""
    try:
        index(number)
    except TypeError:
        return False
    return not isinstance(number, bool)


def check_sequence(layer: nn.Module, x: Tensor, *states: Tensor, n_directions: int = 1) -> None:
    """Raise ValueError or TypeError, in words, unless a recurrent layer can read x (B, T, D) from these states."""
    sequence = {"x": (x, f"B+ T+ {layer.d_in}")}
    check_shapes(type(layer).__name__, **sequence)
    state = f"{layer.n_layers * n_directions} B {layer.d_hidden}"
    check_shapes(type(layer).__name__, **sequence, **{f"state_{i}": (part, state) for i, part in enumerate(states)})


def map_state(state, change: Callable[[Tensor], Tensor]):
    """`change` applied to every tensor of a state, a nested tuple, list or dict; what is no tensor stays as it is."""
    if isinstance(state, Tensor):
        return change(state)
    if isinstance(state, dict):
        return {name: map_state(part, change) for name, part in state.items()}
    if isinstance(state, (tuple, list)):
        parts = [map_state(part, change) for part in state]
        return type(state)(*parts) if hasattr(state, "_fields") else type(state)(parts)
    return state


def select_rows(state, rows: Tensor, dim: int = 0):
    """The state of these rows (N'), in this order, repeats allowed.

    dim is where its tensors have their batch, 1 for the (h, c) of an LSTM.
    """
    return map_state(state, lambda part: part.index_select(dim, rows))


def _wanted(longest: int, n_sequences: int | None) -> str:
    """What lengths must be; written only when it is said, for a size in a text is fixed in a compiled graph."""
    rows = "sequence" if n_sequences is None else f"of {n_sequences} sequences"
    return f"lengths must hold a whole number from 0 to {longest} for each {rows}"


def _as_tensor(wanted: str, values) -> Tensor:
    try:
        try:
            return torch.as_tensor(values)
        except (TypeError, ValueError):  # an array in an order, or of a type, that PyTorch does not know
            return torch.tensor(values.tolist())
    except (AttributeError, TypeError, ValueError, RuntimeError) as error:
        raise ValueError(f"{wanted}, as a tensor, a NumPy array or a list; got {values!r:.80}.") from error


def _whole(tensor: Tensor) -> bool:
    return not (tensor.is_floating_point() or tensor.is_complex() or tensor.dtype == torch.bool)
