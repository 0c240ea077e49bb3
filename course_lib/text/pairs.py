"""Pairs of sentences for a network: ids, batches with padding, what is read and what is written, the loss. Lesson 03.

Shapes: B batch, S source time, T target time, V vocabulary. Batch first, always.
Token ids: 0 padding, 1 start, 2 end, 3 unknown. Padding comes after a sentence.
"""

import random
from collections.abc import Iterator, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from course_lib.inputs.sequences import visible

PADDING, START, END, UNKNOWN = range(4)


def shift(target: Tensor, padding: int = PADDING) -> tuple[Tensor, Tensor]:
    """What the decoder reads and what it shall write, one token later: (B, T + 1) -> target_in, target_out, (B, T).

    target holds start, sentence, end, padding; the end is written and never read. Raises ValueError where T < 1.
    """
    _check_target(target)
    target_out = target[:, 1:]
    return target[:, :-1].masked_fill(target_out == padding, padding), target_out


def masked_loss(logits: Tensor, target_out: Tensor, padding: int = PADDING, smoothing: float = 0.0) -> Tensor:
    """Cross-entropy in nats, the mean over real tokens alone: padding is neither learned nor counted.

    logits (B, T, V), target_out (B, T) -> scalar. smoothing: the share of the target's probability that all V tokens
    get in equal parts (Szegedy et al., 2016, section 7). Raises ValueError where shapes differ or no token is real;
    on a device that is not looked for, and gives NaN.
    """
    _check_scored(logits, target_out, padding)
    return F.cross_entropy(logits.flatten(0, 1), target_out.flatten(), ignore_index=padding, label_smoothing=smoothing)


def batches(
    pairs: Sequence[tuple[Sequence[int], Sequence[int]]],
    batch_size: int,
    seed: int,
    padding: int = PADDING,
    reverse_source: bool = False,
) -> Iterator[tuple[Tensor, list[int], Tensor, Tensor]]:
    """Endless batches of pairs of id lists, without start and end: source (B, S), lengths, target_in, target_out.

    The lengths are a list of B whole numbers, which stays where it is when the batch moves to a device: whoever packs
    sentences by their length needs it on the CPU.
    Each pair comes once a round, in a random order (seed); a batch holds sentences of similar length, so that
    little of it is padding. reverse_source reads backwards (Sutskever et al., 2014, section 3.3).
    Raises ValueError for no pair, or ids that belong to padding, start and end.
    """
    _check_pairs(pairs, padding)
    sources = [torch.as_tensor(source, dtype=torch.long) for source, _ in pairs]
    targets = [[START, *map(int, target), END] for _, target in pairs]
    sizes = [(len(target), len(source)) for source, target in zip(sources, targets, strict=True)]

    def draw():
        rng, pool = random.Random(seed), 20 * batch_size  # sorted pool by pool: alike, and never the same batch again
        while True:
            order = rng.sample(range(len(pairs)), len(pairs))
            rows = [
                i for at in range(0, len(order), pool) for i in sorted(order[at : at + pool], key=sizes.__getitem__)
            ]
            cuts = [rows[at : at + batch_size] for at in range(0, len(rows), batch_size)]
            for cut in rng.sample(cuts, len(cuts)):
                read = [sources[i].flip(0) if reverse_source else sources[i] for i in cut]
                target = pad_sequence([torch.tensor(targets[i]) for i in cut], True, padding)  # (B, T + 1)
                yield pad_sequence(read, True, padding), [*map(len, read)], *shift(target, padding)

    return draw()


def _check_target(target: Tensor) -> None:
    if target.ndim != 2 or target.shape[1] < 2:
        raise ValueError(f"shift needs targets (batch, time) with start and end; got shape {tuple(target.shape)}.")


def _check_scored(logits: Tensor, target_out: Tensor, padding: int) -> None:
    if logits.shape[:-1] != target_out.shape or visible(target_out) and not (target_out != padding).any():
        raise ValueError(
            "masked_loss needs logits (batch, time, V), targets (batch, time) and in them one real token; "
            f"got {tuple(logits.shape)} and {tuple(target_out.shape)}."
        )


def _check_pairs(pairs: Sequence, padding: int) -> None:
    if not len(pairs):
        raise ValueError("batches got no pair: give it one or more.")
    for source, target in pairs:
        if padding in map(int, source) or {padding, START, END} & set(map(int, target)):
            raise ValueError(
                f"Give sources without padding ({padding}), targets without start and end: batches adds them."
            )
