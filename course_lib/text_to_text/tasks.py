"""Every task as text: prefixes and language tokens, numbers as words, one stack for source and target. Lesson 13.

Shapes: B batch, T time (source, then target, then padding), V vocabulary. Batch first. Masks are boolean, True = may be
attended to.
"""

from collections.abc import Sequence
from decimal import Decimal

import torch
import torch.nn.functional as F
from torch import Tensor

from course_lib.inputs.sequences import whole_lengths
from course_lib.inputs.shapes import check_shapes


def prefixed(prefix: Sequence, tokens: Sequence) -> list:
    """The tokens behind those that say what is asked (Raffel et al., 2020, section 2.4).

    The prefix is some words, "translate English to German:", or one token that names the language to be written
    (Johnson et al., 2017, section 3).
    """
    return [*prefix, *tokens]


def number_as_text(number: float, step: float = 0.2) -> str:
    """A number as the nearest multiple of `step`, written out: regression as one of a few texts, 2.57 as "2.6".

    So T5 scores how alike two sentences are, from 1 to 5 (Raffel et al., 2020, section 2.4). A text that is
    no number from 1 to 5 counts as wrong there. In the middle between two multiples it is the even one, as in T5's
    code, 1.9 as "2.0".
    """
    multiple = round(round(number / step, 5))  # 1.9 / 0.2 is 9.499999999999998, in single precision 9.4999999
    digits = max(0, -Decimal(f"{step:.12g}").normalize().as_tuple().exponent)
    return f"{multiple * step:.{digits}f}"


def prefix_mask(n_read: Tensor, T: int) -> Tensor:
    """What may attend to what in one stack that reads and writes: n_read (B,) -> bool (B, T, T).

    The first n_read tokens are the source, and every position attends to all of them; a target's token also attends to
    what came before it (prefix LM; Raffel et al., 2020, section 3.2.1, figures 3 and 4). Padding comes last, and no
    real token attends to it.
    """
    place = torch.arange(T, device=n_read.device)
    n_read = whole_lengths(n_read, T)
    return (place[None, :] <= place[:, None]) | (place < n_read[:, None])[:, None, :]  # (B, T, T)


def target_loss(logits: Tensor, ids: Tensor, n_read: Tensor, padding: int = 0) -> Tensor:
    """Nats per target token, of one stack that reads source and target in one row: the source does not count.

    logits (B, T, V), those at position t for the token at t + 1; ids (B, T); n_read (B,): source tokens -> scalar.
    The first token of the target is predicted at the source's last position. NaN where there is no target at all.
    """
    check_shapes("target_loss", logits=(logits, "B T+ V"), ids=(ids, "int64 B T"))
    n_read = whole_lengths(n_read, ids.shape[1], len(ids))
    place = torch.arange(1, ids.shape[1], device=ids.device)
    asked = ids[:, 1:].masked_fill(place < n_read[:, None], padding)  # (B, T - 1)
    return F.cross_entropy(logits[:, :-1].flatten(0, 1), asked.flatten(), ignore_index=padding)


def mixing_rates(sizes: Sequence[int], limit: float | None = None, temperature: float = 1.0) -> Tensor:
    """How often each task is sampled: min(size, limit)^(1 / temperature), as shares of 1, (tasks,).

    In proportion to the number of examples, of which a large task counts `limit` at most; a temperature above 1 evens
    the shares out, and infinity makes them equal (Raffel et al., 2020, section 3.5.2).
    """
    counted = torch.tensor([float(size if limit is None else min(size, limit)) for size in sizes])
    return (counted.log() / temperature).softmax(dim=0)
