"""Two tasks in which only the order tells the answer, drawn without end: one asks for a distance, one for a place.

ids, answers = distance(64, 24)      # at every place: which symbol stands three places back?
ids, answers = place(64, 24)         # at every place: which symbol stands fifth?
ids, answers = place(64, 24, marked=True)    # the order-free twin: the symbol to name wears a mark
"""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

VERSION = 1
N_SYMBOLS = 15
N_TOKENS = 2 * N_SYMBOLS  # id s + N_SYMBOLS is symbol s with a mark
NOT_ASKED = -100  # what torch's cross_entropy leaves out


def distance(
    batch: int, length: int, back: int = 3, *, marked: bool = False, generator: torch.Generator | None = None
) -> tuple[Tensor, Tensor]:
    """At every place, name the symbol `back` places before it: ids (B, T) -> answers (B, T) below N_SYMBOLS.

    The first `back` places are NOT_ASKED. With `marked`, the twin in which no order is needed: one place of each
    sequence is asked, and the symbol to name there wears a mark. Raises ValueError unless length > back >= 1.
    """
    _check_sizes(batch, length, back=back)
    ids = torch.randint(N_SYMBOLS, (batch, length), generator=generator)  # (B, T)
    answers = torch.full_like(ids, NOT_ASKED)
    answers[:, back:] = ids[:, :-back]
    if marked:
        asked = torch.randint(back, length, (batch, 1), generator=generator)
        answers = torch.full_like(ids, NOT_ASKED).scatter(1, asked, answers.gather(1, asked))
        ids = _with_mark(ids, asked - back)
    return ids, answers


def place(
    batch: int, length: int, which: int = 5, *, marked: bool = False, generator: torch.Generator | None = None
) -> tuple[Tensor, Tensor]:
    """At every later place, name the symbol that stands `which`-th (the first is 1): ids (B, T) -> answers (B, T).

    The first `which` places are NOT_ASKED. With `marked`, the twin in which no order is needed: the symbol to name
    wears a mark. Raises ValueError unless length > which >= 1.
    """
    _check_sizes(batch, length, which=which)
    ids = torch.randint(N_SYMBOLS, (batch, length), generator=generator)  # (B, T)
    answers = torch.full_like(ids, NOT_ASKED)
    answers[:, which:] = ids[:, which - 1, None]
    return (_with_mark(ids, torch.full((batch, 1), which - 1)) if marked else ids), answers


def _with_mark(ids, at):
    """ids (B, T) with a mark on the symbol at `at` (B, 1) of each sequence."""
    return ids.scatter(1, at, ids.gather(1, at) + N_SYMBOLS)


def endless(
    task: Callable[..., tuple[Tensor, Tensor]], batch: int, shortest: int, longest: int, *, seed: int
) -> Iterator[tuple[Tensor, Tensor]]:
    """Batches of a task for ever, from one seed; each has a length of its own, `shortest` to `longest`, drawn evenly.

    Raises ValueError, with the first batch, for lengths in which the task asks nothing.
    """
    generator = torch.Generator().manual_seed(seed)
    while True:
        length = int(torch.randint(shortest, longest + 1, (), generator=generator))
        yield task(batch, length, generator=generator)


def bag_of_tokens(ids: Tensor, answers: Tensor) -> float:
    """The best accuracy to be expected of a reader who knows which symbols are in a sequence, but not where.

    All orders of the other symbols are equally likely, so the best guess is the most frequent of them, and it is
    right as often as its share among them. ids, answers (B, T) as above -> a number from 0 to 1.
    """
    asked = answers != NOT_ASKED  # (B, T)
    symbol = torch.nn.functional.one_hot(ids % N_SYMBOLS, N_SYMBOLS)  # (B, T, S)
    others = symbol.sum(1, keepdim=True) - symbol  # (B, T, S): how often each symbol stands elsewhere
    return (others.amax(-1)[asked] / (ids.shape[1] - 1)).mean().item()


def _check_sizes(batch: int, length: int, **asked: int) -> None:
    ((name, number),) = asked.items()
    if batch < 1 or number < 1 or length <= number:
        raise ValueError(
            f"Nothing would be asked: batch and {name} must be 1 or more and the length above {name}; "
            f"got batch={batch}, {name}={number}, length={length}."
        )
