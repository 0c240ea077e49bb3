"""Lesson 08, what is read: some pieces hidden, and one sentence or two in a row. All in ids.

The head that fills a blank, the best span and the mix of layers are in `bert_reading.py`, the loss that leaks in
`bert_leak.py`.
"""

import torch

from course_lib.workshop.exercises import Exercise
from course_lib.workshop.exercises.probes import OTHER_SIZES, Case, fresh, same

SPECIALS, VOCAB = 5, 40  # in the checks: the first five pieces are specials, number 3 is [MASK]


def my_masking(ids, special, mask_id, choice, kind, other):
    chosen = (choice < 0.15) & ~special[ids]  # (B, T): each piece by itself, but never a special
    read = torch.where(chosen & (kind < 0.9), other, ids)  # the last tenth of the chosen stays as it is
    read = torch.where(chosen & (kind < 0.8), mask_id, read)
    return read, chosen


def grid(B: int, T: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Two draws (B, T) that look random and hold every pair of twentieths alike: so each rule has its places.

    Just below and just above 0.15, and 0.8 and 0.9, lies one: so a threshold that is a little off shows.
    """
    both = (torch.randperm(B * T) % 400).view(B, T)
    twentieths = torch.arange(20)
    low, high = (twentieths + 0.004) / 20, (twentieths + 0.996) / 20  # (20,): near an end of each
    odd = twentieths % 2 == 1
    return torch.where(odd, low, high)[both // 20], torch.where(odd, high, low)[both % 20]


def hidden(B=8, T=50, first=0, mask_id=3):
    """Ids (B, T), specials from number `first` on (their 0 is padding, and stands behind some texts), the draws."""
    special = torch.zeros(VOCAB, dtype=torch.bool)
    special[first : first + SPECIALS] = True
    ordinary = (~special).nonzero()[:, 0]
    ids = ordinary[torch.randint(len(ordinary), (B, T))]
    ids[:, 0], ids[1::2, T - T // 4 :], ids[::2, -1] = first + 1, first, first + 2
    return ids, special, first + mask_id, *grid(B, T), ordinary[torch.randint(len(ordinary), (B, T))]


EXACT = (
    "Exactly at 0.15, 0.8 or 0.9 it is wrong. A token is chosen where `choice` is below 0.15; it becomes [MASK] where "
    "`kind` is below 0.8, another token below 0.9, and stays what it is from 0.9 on."
)


def exact():
    """One text (1, 8) whose draws stand exactly at 0.15, 0.8 and 0.9."""
    _, special, mask_id, *_ = hidden()
    choice = torch.tensor([[0.15, 0.1, 0.1, 0.1, 0.15, 0.0, 0.1, 0.2]], dtype=torch.float64)
    kind = torch.tensor([[0.0, 0.8, 0.9, 0.0, 0.8, 0.9, 0.5, 0.8]], dtype=torch.float64)
    return torch.arange(10, 18)[None], special, mask_id, choice, kind, torch.arange(20, 28)[None]


def which_place(answer, solution, arguments):
    """The first place where it goes wrong, and by which rule."""
    ids, special, mask_id, choice, kind, other = arguments
    (read, chosen), (right, asked) = answer(*fresh(arguments)), solution(*arguments)
    if not same(chosen, asked):
        b, t = (chosen != asked).nonzero()[0].tolist()
        what = "a special" if special[ids[b, t]] else "no special"
        rule = f"it is {what}, and `choice` is {choice[b, t]:.3f} there"
        return f"Row {b}, position {t}, counted from 0: {rule}, so `chosen` is {bool(asked[b, t])}; yours is not."
    b, t = (read != right).nonzero()[0].tolist()
    if not asked[b, t]:
        return f"Row {b}, position {t}, counted from 0, is not chosen, so it keeps its token. Yours has {read[b, t]}."
    became = {mask_id: "[MASK]", int(other[b, t]): "the token in `other`"}.get(int(right[b, t]), "what it was")
    return (
        f"Row {b}, position {t}, counted from 0, is chosen, and `kind` is {kind[b, t]:.3f}: it becomes {became}, "
        f"{right[b, t]}; yours has {read[b, t]}."
    )


def masks_asked_only(ids, special, mask_id, choice, kind, other):
    read, chosen = my_masking(ids, special, mask_id, choice, kind, other)
    return read, read == mask_id


MASKING = Exercise(
    solution=my_masking,
    cases=(
        Case(hidden, which_place),
        Case(lambda: hidden(first=20, mask_id=1), "With specials at other numbers it is wrong: ask `special[ids]`."),
        Case(exact, EXACT),
        Case(lambda: hidden(1, 400), OTHER_SIZES),
        Case(
            lambda: (torch.zeros(2, 3, dtype=torch.long), *hidden(2, 3)[1:]),
            "Texts of padding alone come back as they are, and nothing is asked: specials are never chosen.",
        ),
    ),
    mistakes={
        "specials_masked": lambda ids, special, *more: my_masking(ids, torch.zeros_like(special), *more),
        "specials_only": lambda ids, special, *more: my_masking(ids, ~special, *more),
        "most_chosen": lambda ids, special, mask, choice, *more: my_masking(ids, special, mask, 0.3 - choice, *more),
        "chosen_by_kind": lambda ids, special, mask, choice, kind, other: my_masking(
            ids, special, mask, kind, kind, other
        ),
        "masks_asked_only": masks_asked_only,
        "nothing_replaced": lambda ids, *more: my_masking(ids, *more[:-1], ids),
        "nothing_stays": lambda *given: my_masking(*given[:4], given[4].clamp(max=0.85), given[5]),
        "all_masked": lambda *given: my_masking(*given[:4], 0 * given[4], given[5]),
    },
)


def my_pair(first, second, cls, sep, padding, length):
    ids = [cls, *first, sep]
    segments = [0] * len(ids)
    if second:
        ids = [*ids, *second, sep]
        segments = segments + [1] * (len(second) + 1)
    empty = length - len(ids)
    mask = [True] * len(ids) + [False] * empty
    return torch.tensor(ids + [padding] * empty), torch.tensor(segments + [0] * empty), torch.tensor(mask)


def sentences(n=3, m=4, length=12, cls=101, sep=102, padding=0):
    """Two sentences of n and m pieces, the numbers of the specials, and how long the row shall be."""
    pieces = torch.randperm(900)[: n + m].add(1000).tolist()
    return pieces[:n], pieces[n:], cls, sep, padding, length


def which_row(answer, solution, arguments):
    """The first of the three that is wrong, and its first place."""
    answers = answer(*fresh(arguments))
    for name, got, right in zip(("ids", "segments", "mask"), answers, solution(*arguments), strict=True):
        if not same(got, right):
            t = int((got != right).nonzero()[0])
            first, second = arguments[:2]
            said = (
                f"For a = {first} and b = {second}, length {len(right)}, your {name} are wrong at position {t}, from 0:"
            )
            return f"{said.replace('mask are', 'mask is')} {right[t].item()} is right, yours has {got[t].item()}."
    return "The three are right."


def without_cls(first, second, cls, sep, padding, length):
    return tuple(row[1:] for row in my_pair(first, second, cls, sep, padding, length + 1))


def changed(change):
    """A wrong answer to `my_pair`: change(ids, segments, mask)."""
    return lambda first, second, cls, sep, padding, length: change(*my_pair(first, second, cls, sep, padding, length))


def padding_left(*rows):
    return tuple(row.roll(int((~rows[2]).sum())) for row in rows)


def last_sep_in_segment_0(ids, segments, mask):
    segments[mask.sum() - 1] = 0
    return ids, segments, mask


PAIR = Exercise(
    solution=my_pair,
    cases=(
        Case(lambda: sentences(3, 4, 9 + 3), which_row),
        Case(lambda: sentences(3, 0), "With one sentence, b = [], there is one [SEP] and all segments are 0."),
        Case(lambda: sentences(2, 3, 8), "Where the row is just as long as the text, nothing is added behind it."),
        Case(
            lambda: sentences(1, 1, 9, 7, 8, 5), "With other numbers for the specials it is wrong: use the arguments."
        ),
    ),
    mistakes={
        "without_cls": without_cls,
        "last_sep_in_segment_0": changed(last_sep_in_segment_0),
        "segments_from_1": changed(lambda ids, segments, mask: (ids, segments + mask, mask)),
        "mask_inverted": changed(lambda ids, segments, mask: (ids, segments, ~mask)),
        "padding_seen": changed(lambda ids, segments, mask: (ids, segments, torch.ones_like(mask))),
        "mask_of_numbers": changed(lambda ids, segments, mask: (ids, segments, mask.long())),
        "padding_left": changed(padding_left),
        "not_filled": lambda first, second, cls, sep, padding, length: my_pair(first, second, cls, sep, padding, 0),
    },
)

EXERCISES = [MASKING, PAIR]
