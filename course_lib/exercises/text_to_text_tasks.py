"""Lesson 13, how a task is given: the prefix, a language token, and a loss over targets alone."""

from functools import partial

import torch

from course_lib.exercises import Exercise
from course_lib.exercises.probes import NO_GRADIENT, OTHER_SIZES, OVERFLOW, SINGLE, Case, narrowed, pulled
from course_lib.exercises.slips import slips


def my_prefix(prefix, tokens, end, longest):
    room = longest - len(prefix) - 1
    return prefix + tokens[:room] + [end]


def asked(n=9, longest=8, n_prefix=3, end=2):
    """A prefix, a source, ids all, the end and how long the whole may be."""
    ids = torch.randint(4, 50, (n_prefix + n,)).tolist()
    return ids[:n_prefix], ids[n_prefix:], end, longest


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
    mistakes=slips("""
        prefix + tokens[:room] + [end] -> (prefix + tokens + [end])[:longest]
            A long source cuts off your `end`. Cut the source first, then append `end`.
        prefix + tokens[:room] + [end] -> (prefix + tokens + [end])[-longest:]
            You cut at the front, so you lose the prefix, and the model does not know which task it is.
        prefix + tokens[:room] + [end] -> tokens[:room] + prefix + [end]
            Your prefix comes after the source. Put it in front.
        prefix + tokens[:room] + [end] -> prefix + tokens[len(tokens) - room if room < len(tokens) else 0 :] + [end]
            You keep the end of a long source. Keep its beginning.
        prefix + tokens[:room] + [end] -> prefix + tokens + [end]
            You cut nothing. Return at most `longest` ids.
        longest - len(prefix) - 1 -> longest - len(prefix)
            You keep one token too many: `end` takes one id as well.
        longest - len(prefix) - 1 -> longest - 1
            Your row is too long: the prefix counts as well.
        longest - len(prefix) - 1 -> longest - len(prefix) - 2
            You cut one token too many: count `end` once.
        prefix + tokens[:room] + [end] -> prefix + tokens[:room]
            You leave out `end`, which the encoder reads too.
        prefix + tokens[:room] + [end] -> tokens[:room] + [end]
            You leave out the prefix, so nothing says which task it is.
        prefix + tokens[:room] + [end] -> prefix + [end] + tokens[:room]
            Your `end` comes between prefix and source. Put it after both.
        prefix + tokens[:room] + [end] -> prefix + tokens[:room] + [end] * max(1, room - len(tokens) + 1)
            You fill the row with `end`. It comes once; padding is added later, when a batch is made.
    """),
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


LANGUAGE = Exercise(
    solution=my_language,
    cases=(
        Case(batch, "The shapes are right, but the ids are not: each source needs its language token in front."),
        Case(lambda: batch(1, 1, 3), OTHER_SIZES),
        Case(lambda: batch(6, 6, 9, 80), "It is wrong if B equals S: which dimension is the batch?"),
        Case(lambda: batch(3, 5, 1, 70), "It is wrong if all targets are in language 0, whose token is `first`."),
    ),
    mistakes=slips("""
        torch.cat([token[:, None], source], dim=1) -> torch.cat([source, token[:, None]], dim=1)
            Your token comes after the padding, where the encoder does not attend. Put it in front.
        torch.cat([token[:, None], source], dim=1) -> torch.nn.functional.pad(source, (0, 1)).scatter(1, lengths[:, None], token[:, None])
            Your token comes after the last word. Put it before the first.
        lengths + 1 -> lengths
            Each source is one token longer now: with the old length its last word is masked.
        lengths + 1 -> torch.full_like(lengths, source.shape[1] + 1)
            You count padding as words. Add 1 to each real length.
        first + language -> language
            The number of a language is not its token: the first ids are padding, start and words.
        first + language -> first + 0 * language
            All your sources get the token of language 0. Each has its own language.
        first + language -> first + language[0] + 0 * language
            All your sources get the language of the first source. Each has its own.
        first + language -> first + torch.arange(len(language))
            You number the sources. Use the language of each.
        first + language -> first + language + 1
            Your ids are one too high: the token of language 0 is `first`.
        [token[:, None], source] -> [token[:, None], source[:, 1:], source[:, :1] * 0]
            You replace the first word by the token. Put the token before it, so that the row grows by one.
        [token[:, None], source] -> [source[:, :1], token[:, None], source[:, 1:]]
            Your token comes after the first word. It must be the very first.
        return torch.cat([token[:, None], source], dim=1), lengths + 1 -> return torch.cat([token[:, None], source], dim=1), lengths + 2
            Each source is one token longer, not two.
    """),  # noqa: E501
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
    mistakes=slips("""
        (place >= n_read[:, None]) & (ids[:, 1:] != padding) -> ids[:, 1:] != padding
            You count the source as well: that is a language model's loss. Only the target counts here.
        place >= n_read -> place > n_read
            You leave out the first token of each target, whose position is n_read itself.
        place >= n_read[:, None] -> place >= n_read[:, None] - 1
            You also count the last token of the source.
        place >= n_read -> place < n_read
            You count the source instead of the target.
        & (ids[:, 1:] != padding) -> & (ids[:, 1:] == ids[:, 1:])
            You count padding. There is nothing to learn after the end of the target.
        logits[:, :-1] -> logits[:, 1:]
            You use the logits at the token's own position, where the model has already seen it. Go back one position.
        -said[asked].mean() -> -said[asked].sum()
            You return the sum. Return the mean over the tokens that count.
        -said[asked].mean() -> -(said * asked).mean()
            You divide by all positions, including those that do not count.
        -said[asked].mean() -> -((said * asked).sum(1) / asked.sum(1).clamp(min=1)).mean()
            You average each row and then the rows, so tokens of a short target count more.
        -said[asked] -> said[asked]
            The sign is missing: the loss is -log p.
        log_softmax(dim=-1) -> softmax(dim=-1)
            You take p. The loss is -log p.
        log_softmax(dim=-1) -> log_softmax(dim=1)
            Your softmax is over the positions. It must be over the vocabulary, the last dimension.
        log_softmax(dim=-1) -> softmax(dim=-1).log()
            The formula is right, but with large logits some p is 0 and its log is minus infinity. Use log_softmax.
    """),
)

EXERCISES = [PREFIX, LANGUAGE, TARGET_LOSS]
