"""Lesson 13, how a task is asked: the prefix, a language token, and a loss over targets alone."""

from functools import partial

import torch

from course_lib.exercises import Exercise
from course_lib.exercises.probes import NO_GRADIENT, OTHER_SIZES, OVERFLOW, SINGLE, Case, narrowed, pulled
from course_lib.exercises.slips import slips

LESSON = "text_to_text"


def my_prefix(prefix, tokens, end, longest):
    room = longest - len(prefix) - 1
    return prefix + tokens[:room] + [end]


def asked(n=9, longest=8, n_prefix=3, end=2):
    """A prefix, a source, ids all, the end and how long the whole may be."""
    ids = torch.randint(4, 50, (n_prefix + n,)).tolist()
    return ids[:n_prefix], ids[n_prefix:], end, longest


PREFIX = Exercise(
    lesson=LESSON,
    title="The prefix",
    solution=my_prefix,
    returns="the ids that the encoder reads, a list of at most `longest`",
    cases=(
        Case(
            lambda: asked(9, 30),
            narrowed(
                (
                    lambda given: ([], given["tokens"], given["end"], given["longest"]),
                    "Without a prefix it is wrong already: the source, then the end.",
                ),
                otherwise="Without a prefix it is right. The prefix stands in front of the source.",
            ),
        ),
        Case(asked, "Where it is too long it is wrong: the source is cut, at its end; prefix and end stay."),
        Case(lambda: asked(9, 13), "Where it just fits it is wrong: count the prefix and the end."),
        Case(lambda: asked(9, 12), "Where it is one too long it is wrong: one token of the source goes."),
        Case(lambda: asked(5, 4), "Where there is no room for the source, prefix and end are left."),
        Case(lambda: asked(0, 9), "With an empty source, prefix and end are left."),
        Case(lambda: asked(6, 20, end=1), "With another end it is wrong: use the id that is passed in as `end`."),
    ),
    hints=(
        "In which order do prefix, source and end stand? Which of the three may be cut?",
        "The end takes one place and the prefix len(prefix): how many are left for the source?",
        "room = longest - len(prefix) - 1, and tokens[:room].",
    ),
    mistakes=slips("""
        prefix + tokens[:room] + [end] -> (prefix + tokens + [end])[:longest]
            Your end is cut off where the source is long. The source is cut, and then comes the end.
        prefix + tokens[:room] + [end] -> (prefix + tokens + [end])[-longest:]
            You cut in front, and there stands the prefix: then the model is not told what to do.
        prefix + tokens[:room] + [end] -> tokens[:room] + prefix + [end]
            Your prefix stands behind the source. It stands in front.
        prefix + tokens[:room] + [end] -> prefix + tokens[len(tokens) - room if room < len(tokens) else 0 :] + [end]
            You keep the end of a long source. Its beginning is kept.
        prefix + tokens[:room] + [end] -> prefix + tokens + [end]
            You cut nothing: at most `longest` ids.
        longest - len(prefix) - 1 -> longest - len(prefix)
            One too many where it is too long: the end takes a place.
        longest - len(prefix) - 1 -> longest - 1
            Too long where there is a prefix: it takes places as well.
        longest - len(prefix) - 1 -> longest - len(prefix) - 2
            You cut one token too many: count the end once.
        prefix + tokens[:room] + [end] -> prefix + tokens[:room]
            The end is missing: the encoder reads it too.
        prefix + tokens[:room] + [end] -> tokens[:room] + [end]
            The prefix is missing: nothing says what is to be done.
        prefix + tokens[:room] + [end] -> prefix + [end] + tokens[:room]
            The end stands between prefix and source. It stands behind both.
        prefix + tokens[:room] + [end] -> prefix + tokens[:room] + [end] * max(1, room - len(tokens) + 1)
            You fill up with ends. There is one; padding comes later, when a batch is made.
    """),
)


def my_language(source, lengths, language, first):
    token = first + language  # (B,)
    return torch.cat([token[:, None], source], dim=1), lengths + 1


def batch(B=4, S=7, n_languages=5, first=60):
    """Sources (B, S) with padding 0 behind them, their lengths, the number of each target's language, a first id."""
    lengths = torch.randint(1, S + 1, (B,))
    lengths[0] = S
    source = torch.randint(4, 50, (B, S)) * (torch.arange(S) < lengths[:, None])
    language = (torch.randperm(max(B, n_languages)) % n_languages)[:B]
    language[0] = min(1, n_languages - 1)
    return source, lengths, language, first


LANGUAGE = Exercise(
    lesson=LESSON,
    title="The language token",
    solution=my_language,
    returns="the sources (B, 1 + S) and their lengths (B,), a pair",
    cases=(
        Case(batch, "The shapes are right, the ids are not: in front of each source the token of its language."),
        Case(lambda: batch(1, 1, 3), OTHER_SIZES),
        Case(lambda: batch(6, 6, 9, 80), "With as many sources as places it is wrong: which dimension is the batch?"),
        Case(lambda: batch(3, 5, 1, 70), "Where all have the first language it is wrong: its token is `first`."),
    ),
    hints=(
        "Languages are numbered from 0, and their tokens are ids: first, first + 1 and so on.",
        "The tokens are (B,). A column, to be put in front of (B, S), is (B, 1): token[:, None].",
        "torch.cat([column, source], dim=1). And how many real tokens has each source now?",
    ),
    mistakes=slips("""
        torch.cat([token[:, None], source], dim=1) -> torch.cat([source, token[:, None]], dim=1)
            Your token stands behind the padding, where the encoder does not look. Put it in front.
        torch.cat([token[:, None], source], dim=1) -> torch.nn.functional.pad(source, (0, 1)).scatter(1, lengths[:, None], token[:, None])
            Your token stands behind the last word. It stands in front of the first.
        lengths + 1 -> lengths
            Each source is one longer now: with the old length its last word is hidden.
        lengths + 1 -> torch.full_like(lengths, source.shape[1] + 1)
            You count padding as words. Each length grows by 1.
        first + language -> language
            The number of a language is not its token: the ids from 0 on are padding, start and words.
        first + language -> first + 0 * language
            All your sources ask for the first language.
        first + language -> first + language[0] + 0 * language
            All your sources ask for the language of the first one. Each has its own.
        first + language -> first + torch.arange(len(language))
            You number the sources. Take each one's language.
        first + language -> first + language + 1
            Your tokens are one too high: language 0 has the id `first`.
        [token[:, None], source] -> [token[:, None], source[:, 1:], source[:, :1] * 0]
            You put the token in place of the first word. It comes before it, and the row grows by one.
        [token[:, None], source] -> [source[:, :1], token[:, None], source[:, 1:]]
            Your token stands behind the first word. It is the first of all.
        return torch.cat([token[:, None], source], dim=1), lengths + 1 -> return torch.cat([token[:, None], source], dim=1), lengths + 2
            Each source has one token more, not two.
    """),  # noqa: E501
)


def my_target_loss(logits, ids, n_read, padding):
    place = torch.arange(1, ids.shape[1])
    asked = (place >= n_read[:, None]) & (ids[:, 1:] != padding)  # (B, T - 1)
    log_p = logits[:, :-1].log_softmax(dim=-1)
    said = log_p.gather(2, ids[:, 1:, None])[..., 0]  # (B, T - 1)
    return -said[asked].mean()


def read(B=3, T=9, V=6, dtype=torch.float64, scale=1.0, full=False):
    """Logits (B, T, V) of one stack, ids (B, T): source, target, padding; how many are the source's; the padding, 0."""
    longest = torch.full((B,), T) if full else torch.randint(4, T + 1, (B,))
    n_read = (torch.rand(B) * (longest - 2)).long() + 1
    n_read[0] = n_read[0].clamp(min=3)
    ids = torch.randint(1, V, (B, T)) * (torch.arange(T) < longest[:, None])
    return scale * torch.randn(B, T, V, dtype=dtype), ids, n_read, 0


def another_padding():
    """The padding is 5 here, and 0 is a token like the others."""
    ids = torch.tensor([[3, 1, 0, 2, 5, 5], [4, 0, 0, 5, 5, 5]])
    return torch.randn(2, 6, 6, dtype=torch.float64), ids, torch.tensor([2, 1]), 5


def certain():
    """Logits of hundreds in single precision, far apart from token to token; the last is sure, and wrong."""
    logits = torch.tensor([[300.0, 299, 0], [-300, -301, -299], [0, 0, 300], [0, 0, 0]])
    return logits[None], torch.tensor([[2, 1, 2, 1]]), torch.tensor([1]), 0


def without_a_target():
    """As `read`, and the second row has a source alone."""
    logits, ids, n_read, padding = read()
    n_read[1] = ids.shape[1]
    return logits, ids, n_read, padding


about = partial(Case, tolerance=1e-5)  # who adds a millionth to the number of tokens, against 0 / 0, is right


TARGET_LOSS = Exercise(
    lesson=LESSON,
    title="The loss over targets alone",
    solution=my_target_loss,
    returns="one number, nats a target token",
    cases=(
        about(
            read,
            narrowed(
                (
                    lambda given: (given["logits"][:1, :2], given["ids"][:1, :2], given["n_read"][:1] * 0 + 1, 0),
                    "With one token to read and one to write it is wrong: -log p of the second, by the first's logits.",
                ),
                otherwise="With one token to read and one to write it is right. Which places are asked for in a row of "
                "source, target and padding? And what is it a mean of?",
            ),
        ),
        about(lambda: read(full=True), "Without padding it is wrong: only the source is left out then."),
        about(without_a_target, "Where a row has no target at all it is wrong: it has no part in the mean."),
        about(lambda: read(1, 4, 2), OTHER_SIZES),
        about(another_padding, "With another padding it is wrong: use the id that is passed in; 0 may be a token."),
        about(certain, OVERFLOW),
        about(
            lambda: read(scale=1000.0),
            "Logits as large as a thousand come out wrong: exp overflows there.",
        ),
        about(read, NO_GRADIENT, ask=pulled),
        about(lambda: read(dtype=torch.float32), SINGLE),
    ),
    hints=(
        "The logits at place t are for the token at t + 1: logits[:, :-1] belong to ids[:, 1:].",
        "log p of the token that came: log_softmax over V, then gather it by ids[:, 1:, None].",
        "A token is asked for where its own place is n_read or more, and where it is no padding.",
        "The mean is over all tokens that are asked for in the batch: -said[asked].mean().",
    ),
    mistakes=slips("""
        (place >= n_read[:, None]) & (ids[:, 1:] != padding) -> ids[:, 1:] != padding
            You ask for the source as well: that is a language model's loss. Only the target is to be written.
        place >= n_read -> place > n_read
            The first token of each target is not asked for in yours: its place is n_read itself.
        place >= n_read[:, None] -> place >= n_read[:, None] - 1
            You ask for the last token of the source too.
        place >= n_read -> place < n_read
            You ask for the source and not for the target.
        & (ids[:, 1:] != padding) -> & (ids[:, 1:] == ids[:, 1:])
            You ask for padding. Behind the end there is nothing to be learned.
        logits[:, :-1] -> logits[:, 1:]
            You read the logits at the token's own place, where it has been read already: it is one place before.
        -said[asked].mean() -> -said[asked].sum()
            You take the sum. It is the mean over the tokens that are asked for.
        -said[asked].mean() -> -(said * asked).mean()
            You divide by all places, those that are not asked for too.
        -said[asked].mean() -> -((said * asked).sum(1) / asked.sum(1).clamp(min=1)).mean()
            You take the mean of each row and then of the rows: a token of a short target would count more.
        -said[asked] -> said[asked]
            The sign is missing: the loss is -log p.
        log_softmax(dim=-1) -> softmax(dim=-1)
            You take p. The loss is -log p.
        log_softmax(dim=-1) -> log_softmax(dim=1)
            Your softmax is over the places. It is over the vocabulary, the last dimension.
        log_softmax(dim=-1) -> softmax(dim=-1).log()
            The formula is right, and with large logits some p is 0, whose log is minus infinity: log_softmax.
    """),
)

EXERCISES = [PREFIX, LANGUAGE, TARGET_LOSS]
