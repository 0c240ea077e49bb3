"""Lesson 08, what is read: some pieces hidden, and one sentence or two in a row. All in ids.

The head that fills a blank, the best span and the mix of layers are in `bert_reading.py`, the loss that leaks in
`bert_leak.py`, what is asked in `bert_questions.py`.
"""

import torch

from course_lib.exercises import Exercise
from course_lib.exercises.probes import OTHER_SIZES, Case, fresh, same
from course_lib.exercises.slips import slips

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
        return f"Row {b}, place {t}, counted from 0: {rule}, so `chosen` is {bool(asked[b, t])}; yours is not."
    b, t = (read != right).nonzero()[0].tolist()
    if not asked[b, t]:
        return f"Row {b}, place {t}, counted from 0, is not chosen: what stands there stays. Yours has {read[b, t]}."
    became = {mask_id: "[MASK]", int(other[b, t]): "the piece in `other`"}.get(int(right[b, t]), "what it was")
    return (
        f"Row {b}, place {t}, counted from 0, is chosen, and `kind` is {kind[b, t]:.3f}: it becomes {became}, "
        f"{right[b, t]}; yours has {read[b, t]}."
    )


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
    mistakes=slips("""
        (choice < 0.15) & ~special[ids] -> choice < 0.15
            You hide specials too: [CLS], [SEP] and padding are no words, and there is nothing to guess.
        ~special[ids] -> special[ids]
            You choose specials alone. special[ids] is True where one stands: take ~special[ids].
        choice < 0.15 -> choice > 0.15
            You choose 85 in 100. `choice` is below 0.15 in 15 of 100 places: those are meant.
        choice < 0.15 -> kind < 0.15
            You choose with `kind`, and then all that you choose become [MASK]. `choice` says which are chosen.
        return read, chosen -> return read, read == mask_id
            `chosen` holds your [MASK]s alone. The model is asked at replaced and at unchanged pieces too.
        return read, chosen -> return read, chosen & (kind < 0.9)
            The pieces that stay as they are must be asked too: they are chosen, and the model cannot know it.
        mask_id, read) -> mask_id, ids)
            No piece becomes another one in yours: where `kind` is from 0.8 to 0.9, the piece in `other` stands.
        chosen & (kind < 0.9), other -> chosen, other
            None of your chosen pieces stays as it is: where `kind` is 0.9 or more, it does.
        torch.where(chosen & (kind < 0.8), mask_id, read) -> torch.where(chosen, mask_id, ids)
            Every chosen piece becomes [MASK] in yours. Only 80 in 100 do, 10 become another one, 10 stay.
        chosen & (kind < 0.8), mask_id -> chosen & (kind < 0.1), mask_id
            Yours are 10 in 100 [MASK] and 80 another piece. It is the other way round.
        chosen & (kind < 0.8), mask_id -> chosen & (kind >= 0.2), mask_id
            Your [MASK]s stand where `kind` is 0.2 or more. They are 80 in 100, but here the first 80: kind < 0.8.
        chosen & (kind < 0.8), mask_id -> (kind < 0.8), mask_id
            You hide 80 in 100 of all pieces. `kind` counts only where a piece is chosen: chosen & (kind < 0.8).
        chosen & (kind < 0.9), other -> (kind < 0.9), other
            Pieces that are not chosen are replaced in yours. Only chosen ones may change: chosen & (kind < 0.9).
        mask_id, read) -> 103, read)
            103 is [MASK] in Google's vocabulary. In this one it is mask_id.
        return read, chosen -> return chosen, read
            The two are exchanged: first what is read, then where it is asked.
        return read, chosen -> return read, chosen.long()
            Your `chosen` is made of whole numbers. It picks places, so it is bool: True where it is asked.
        return read, chosen -> return read, ids[chosen]
            You return the answers. Asked is where they stood, bool (B, T): with it, ids[chosen] are the answers.
    """),
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
            said = f"For a = {first} and b = {second}, length {len(right)}, your {name} are wrong at place {t}, from 0:"
            return f"{said.replace('mask are', 'mask is')} {right[t].item()} is right, yours has {got[t].item()}."
    return "The three are right."


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
    mistakes=slips("""
        ids = [cls, *first, sep] -> ids = [*first, sep]
            [CLS] is missing: it stands in front of every text, and answers about the whole text are read there.
        ids = [cls, *first, sep] -> ids = [cls, *first]
            Nothing stands between your two sentences. Each one ends with [SEP], the first too.
        [*ids, *second, sep] -> [*ids, *second]
        (len(second) + 1) -> len(second)
            The [SEP] behind the second sentence is missing. Each sentence ends with one.
        [*ids, *second, sep] -> [*ids, cls, *second, sep]
        (len(second) + 1) -> (len(second) + 2)
            Your second sentence has a [CLS] of its own. There is one in a text, at place 0.
        if second: -> if True:
            One sentence has two [SEP] in yours. Where the second list is empty, nothing is added for it.
        segments = [0] * len(ids) -> segments = [0] * (len(ids) - 1)
        (len(second) + 1) -> (len(second) + 2)
            The first [SEP] is in segment 1 in yours. It ends the first sentence: segment 0.
        [1] * (len(second) + 1) -> [1] * len(second) + [0]
            Your last [SEP] is in segment 0. It ends the second sentence: segment 1.
        segments + [0] * empty -> segments + segments[-1:] * empty
            Your padding goes on with segment 1. Nobody looks at it, and here it is 0.
        segments = [0] * len(ids) -> segments = [1] * len(ids)
        [1] * (len(second) + 1) -> [2] * (len(second) + 1)
            You count segments from 1. The table of segments has the rows 0 and 1.
        mask = [True] * len(ids) + [False] * empty -> mask = [False] * len(ids) + [True] * empty
            Your mask is upside down. Here True = may be attended to, and padding is False.
        [False] * empty -> [True] * empty
            Your mask lets everybody look at padding: it is True only at real pieces.
        torch.tensor(mask) -> torch.tensor(mask).long()
            Your mask is made of 1 and 0, as Hugging Face's is. Here a mask is bool.
        ids + [padding] * empty -> [padding] * empty + ids
        segments + [0] * empty -> [0] * empty + segments
        torch.tensor(mask) -> torch.tensor(mask).flip(0)
            Your padding stands on the left. BERT reads no further to the right: padding stands behind the text.
        ids + [padding] * empty -> ids + [sep] * empty
            You fill up with [SEP]. What fills up is `padding`.
        + [padding] * empty -> + []
        + [0] * empty -> + []
        + [False] * empty -> + []
            You do not fill up: each of the three has `length` places.
    """),
)

EXERCISES = [MASKING, PAIR]
