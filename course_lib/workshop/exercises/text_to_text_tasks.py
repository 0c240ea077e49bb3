"""Lesson 13, how a task is given: the prefix, a language token, and a loss over targets alone."""

from functools import partial

import torch
import torch.nn.functional as F

from course_lib.workshop.exercises import Exercise
from course_lib.workshop.exercises.probes import NO_GRADIENT, OTHER_SIZES, OVERFLOW, SINGLE, Case, narrowed, pulled


def my_prefix(prefix, tokens, end, longest):
    room = longest - len(prefix) - 1
    return prefix + tokens[:room] + [end]


def asked(n=9, longest=8, n_prefix=3, end=2):
    """A prefix, a source, ids all, the end and how long the whole may be."""
    ids = torch.randint(4, 50, (n_prefix + n,)).tolist()
    return ids[:n_prefix], ids[n_prefix:], end, longest


def prefix_behind(prefix, tokens, end, longest):
    row = my_prefix(prefix, tokens, end, longest)
    return row[len(prefix) : -1] + prefix + [end]


def without_prefix(prefix, tokens, end, longest):
    return my_prefix(prefix, tokens, end, longest)[len(prefix) :]


PREFIX = Exercise(
    solution=my_prefix,
    cases=(
        Case(
            lambda: asked(9, 30),
            narrowed(
                (
                    lambda given: ([], given["tokens"], given["end"], given["longest"]),
                    "It is wrong already without a prefix: the source, then `end`.",
                ),
                otherwise="Without a prefix it is right. The prefix comes before the source.",
            ),
        ),
        Case(asked, "It is wrong if the row is too long: cut the source at its end, keep prefix and `end`."),
        Case(lambda: asked(9, 13), "It is wrong if the row just fits: count the prefix and `end`."),
        Case(lambda: asked(9, 12), "It is wrong if the row is one id too long: cut one token of the source."),
        Case(lambda: asked(5, 4), "If there is no room for the source, only prefix and `end` are left."),
        Case(lambda: asked(0, 9), "With an empty source, only prefix and `end` are left."),
        Case(lambda: asked(6, 20, end=1), "With another end it is wrong: use the id that is passed in as `end`."),
    ),
    mistakes={
        "end_cut_off": lambda prefix, tokens, end, longest: (prefix + tokens + [end])[:longest],
        "cut_in_front": lambda prefix, tokens, end, longest: (prefix + tokens + [end])[-longest:],
        "prefix_behind": prefix_behind,
        "not_cut": lambda prefix, tokens, end, longest: prefix + tokens + [end],
        "one_too_many": lambda prefix, tokens, end, longest: my_prefix(prefix, tokens, end, longest + 1),
        "prefix_not_counted": lambda prefix, *more: my_prefix(prefix, *more[:-1], more[-1] + len(prefix)),
        "without_end": lambda *given: my_prefix(*given)[:-1],
        "without_prefix": without_prefix,
    },
)


def my_language(source, lengths, language, first):
    token = first + language  # (B,)
    return torch.cat([token[:, None], source], dim=1), lengths + 1


def batch(B=4, S=7, n_languages=5, first=60):
    """Sources (B, S) padded with 0, their lengths, the number of each target's language, a first id."""
    lengths = torch.randint(1, S + 1, (B,))
    lengths[0] = S
    source = torch.randint(4, 50, (B, S)) * (torch.arange(S) < lengths[:, None])
    language = (torch.randperm(max(B, n_languages)) % n_languages)[:B]
    language[0] = min(1, n_languages - 1)
    return source, lengths, language, first


def behind_padding(source, lengths, language, first):
    return torch.cat([source, first + language[:, None]], dim=1), lengths + 1


def word_replaced(source, lengths, language, first):
    row, lengths = my_language(source, lengths, language, first)
    return torch.cat([row[:, :1], row[:, 2:], 0 * row[:, :1]], dim=1), lengths


LANGUAGE = Exercise(
    solution=my_language,
    cases=(
        Case(batch, "The shapes are right, but the ids are not: each source needs its language token in front."),
        Case(lambda: batch(1, 1, 3), OTHER_SIZES),
        Case(lambda: batch(6, 6, 9, 80), "It is wrong if B equals S: which dimension is the batch?"),
        Case(lambda: batch(3, 5, 1, 70), "It is wrong if all targets are in language 0, whose token is `first`."),
    ),
    mistakes={
        "behind_padding": behind_padding,
        "old_lengths": lambda source, lengths, *more: (my_language(source, lengths, *more)[0], lengths),
        "number_for_token": lambda source, lengths, language, first: my_language(source, lengths, language, 0),
        "language_0": lambda source, lengths, language, first: my_language(source, lengths, 0 * language, first),
        "first_language": lambda source, lengths, language, first: my_language(
            source, lengths, language[:1].expand_as(language), first
        ),
        "one_too_high": lambda *given: my_language(*given[:-1], given[-1] + 1),
        "word_replaced": word_replaced,
    },
)


def my_target_loss(logits, ids, n_read, padding):
    place = torch.arange(1, ids.shape[1])
    asked = (place >= n_read[:, None]) & (ids[:, 1:] != padding)  # (B, T - 1)
    log_p = logits[:, :-1].log_softmax(dim=-1)
    said = log_p.gather(2, ids[:, 1:, None])[..., 0]  # (B, T - 1)
    return -said[asked].mean()


def read(B=3, T=9, V=6, dtype=torch.float64, scale=1.0, full=False):
    """Logits (B, T, V) of one stack, ids (B, T): source, target, padding; the source's tokens; the padding, 0."""
    longest = torch.full((B,), T) if full else torch.randint(4, T + 1, (B,))
    n_read = (torch.rand(B) * (longest - 2)).long() + 1
    n_read[0] = n_read[0].clamp(min=3)
    ids = torch.randint(1, V, (B, T)) * (torch.arange(T) < longest[:, None])
    return scale * torch.randn(B, T, V, dtype=dtype), ids, n_read, 0


def another_padding():
    """The padding is 5 here, and 0 is a token like any other."""
    ids = torch.tensor([[3, 1, 0, 2, 5, 5], [4, 0, 0, 5, 5, 5]])
    return torch.randn(2, 6, 6, dtype=torch.float64), ids, torch.tensor([2, 1]), 5


def certain():
    """Logits in the hundreds in single precision, far apart from token to token; the last is confident and wrong."""
    logits = torch.tensor([[300.0, 299, 0], [-300, -301, -299], [0, 0, 300], [0, 0, 0]])
    return logits[None], torch.tensor([[2, 1, 2, 1]]), torch.tensor([1]), 0


def without_a_target():
    """As `read`, and the second row has a source alone."""
    logits, ids, n_read, padding = read()
    n_read[1] = ids.shape[1]
    return logits, ids, n_read, padding


about = partial(Case, tolerance=1e-5)  # who adds a millionth to the number of tokens, against 0 / 0, is right


def counted(where):
    """A wrong answer to `my_target_loss`: where(position, tokens of the source, no padding) counts."""

    def loss(logits, ids, n_read, padding):
        missed = F.cross_entropy(logits[:, :-1].mT, ids[:, 1:], reduction="none")  # (B, T - 1)
        return missed[where(torch.arange(1, ids.shape[1]), n_read[:, None], ids[:, 1:] != padding)].mean()

    return loss


def row_by_row(logits, ids, n_read, padding):
    rows = zip(logits.split(1), ids.split(1), n_read.split(1), strict=True)
    return torch.stack([my_target_loss(*row, padding) for row in rows]).mean()


TARGET_LOSS = Exercise(
    solution=my_target_loss,
    cases=(
        about(
            read,
            narrowed(
                (
                    lambda given: (given["logits"][:1, :2], given["ids"][:1, :2], given["n_read"][:1] * 0 + 1, 0),
                    "It is wrong for one source and one target token: -log p of the second, by the first's logits.",
                ),
                otherwise="With one source and one target token it is right. Which positions count in a row of source, "
                "target and padding? And what do you divide by?",
            ),
        ),
        about(lambda: read(full=True), "It is wrong without padding: then only the source is left out."),
        about(without_a_target, "It is wrong if a row has no target at all: such a row does not count in the mean."),
        about(lambda: read(1, 4, 2), OTHER_SIZES),
        about(another_padding, "With another padding it is wrong: use the id that is passed in; 0 may be a token."),
        about(certain, OVERFLOW),
        about(
            lambda: read(scale=1000.0),
            "It is wrong for logits as large as a thousand: exp overflows.",
        ),
        about(read, NO_GRADIENT, ask=pulled),
        about(lambda: read(dtype=torch.float32), SINGLE),
    ),
    mistakes={
        "source_counts": counted(lambda place, n_read, real: real),
        "first_left_out": counted(lambda place, n_read, real: (place > n_read) & real),
        "last_of_source": counted(lambda place, n_read, real: (place >= n_read - 1) & real),
        "source_alone": counted(lambda place, n_read, real: (place < n_read) & real),
        "padding_counts": counted(lambda place, n_read, real: place >= n_read),
        "own_position": lambda logits, *more: my_target_loss(logits.roll(-1, 1), *more),
        "row_by_row": row_by_row,
        "wrong_sign": lambda *given: -my_target_loss(*given),
    },
)

EXERCISES = [PREFIX, LANGUAGE, TARGET_LOSS]
