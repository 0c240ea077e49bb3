"""Lesson 13: one model that writes dates in ten languages, told by a token which; directions that it never trained.

A date of one language is written in another: 90 directions. "right" is the share of test dates written as CLDR does,
"in it" the share whose words all belong to the language that was asked for, "English" the share with an English word
that the language asked for does not have, where English was not asked for.
"""

from collections.abc import Iterable, Sequence
from functools import cache, partial
from itertools import permutations
from typing import NamedTuple

import torch

from course_lib.attention.transformer import Transformer
from course_lib.data import dates
from course_lib.text.pairs import batches
from course_lib.text.tokenizers import WordTokenizer
from course_lib.text_to_text.tasks import prefixed
from course_lib.train.loop import cosine, fit
from course_lib.translation.translator import Translator, translation_loss
from course_lib.workshop.experiments import experiment

HERE = ["default"]  # the instruction set of what is dear
CPU = torch.device("cpu")  # models this small are no faster on a GPU
LANGUAGES = ("en", "fr", "de", "es", "hu", "fi", "tr", "pl", "el", "ja")
ALL = tuple(permutations(LANGUAGES, 2))
ENGLISH = tuple(pair for pair in ALL if "en" in pair)
FROM_ENGLISH = tuple(pair for pair in ALL if pair[0] == "en")
FAR = tuple(pair for pair in ALL if "en" not in pair)  # 72 directions without English
DATES = {"train": 3000, "validation": 100, "test": 200}
Direction = tuple[str, str]
WIDTH, BATCH, STEPS, RATE = 64, 64, 1200, 4e-3
ROWS = 27_000  # dates that are learned from, in all directions together
LONGEST = 14  # words and marks that are written at most; the longest date of these has 8
EACH, FEW = 20, 10  # test dates asked in a direction, of the 18 and the 72


@cache
def written(split: str) -> dict[str, list[list[str]]]:
    """The same dates in each language, in words and marks, with the digits 0 to 9."""
    return {
        one: [pair.target for pair in dates.pairs(split, "en", one, 1, DATES[split], digits="latin")]
        for one in LANGUAGES
    }


def token(language: str) -> str:
    """The token that asks for a language, <2fr> as Johnson et al. (2017, section 3) write it."""
    return f"<2{language}>"


@cache
def tokenizer() -> WordTokenizer:
    """One vocabulary for all languages and their tokens."""
    every = [text for texts in written("train").values() for text in texts]
    return WordTokenizer([[token(one) for one in LANGUAGES], *every])


@cache
def own_words(language: str) -> frozenset[str]:
    """The words of a language's dates: names of days and months, and what stands between them; no number, no mark."""
    return frozenset(word for text in written("train")[language] for word in text if word.isalpha())


def rows(directions: Iterable[Direction], split: str, told: bool, n: int, apart: bool = False) -> list[tuple]:
    """(source, target) of n dates in each direction, in words; told: the token stands before the source.

    The same n, the first, in each direction; or, apart, each direction goes on where the one before it stopped.
    """
    texts, found = written(split), []
    for place, (here, there) in enumerate(directions):
        for k in range(n):
            date = (place * n * apart + k) % DATES[split]
            found.append((prefixed([token(there)] if told else [], texts[here][date]), texts[there][date]))
    return found


def learned(seed: int, directions: Sequence[Direction], steps: int, told: bool = True) -> Translator:
    """A model that was taught these directions, in equal parts, in one vocabulary; of the same number of dates."""
    torch.manual_seed(seed)
    words = tokenizer()
    model = Transformer(len(words), len(words), WIDTH, n_heads=4, n_layers=2, pre_norm=True, shared=True)
    one, texts = Translator(model, words, words), rows(directions, "train", told, ROWS // len(directions), True)
    fit(model, batches(one.ids(texts), BATCH, seed), translation_loss, steps=steps, lr=RATE,
        schedule=partial(cosine, warmup=50), device=CPU, progress=False)  # fmt: skip
    return one


class Shares(NamedTuple):
    """What was written: right, in the language asked for, and with English words where English was not asked for."""

    right: float
    in_it: float
    english: float


def shares(said: Sequence[Sequence[str]], wanted: Sequence[tuple[str, list[str]]]) -> Shares:
    """Of each text what `Shares` says; wanted: the language that was asked for, and the right text."""
    known = [{word for word in text if word.isalpha()} for text in said]
    return Shares(
        right=sum(list(text) == right for text, (_, right) in zip(said, wanted, strict=True)) / len(said),
        in_it=sum(bool(w) and w <= own_words(one) for w, (one, _) in zip(known, wanted, strict=True)) / len(said),
        english=sum(bool(w & own_words("en") - own_words(one)) for w, (one, _) in zip(known, wanted, strict=True))
        / len(said),
    )


def judged(one: Translator, directions: Sequence[Direction], n: int, told: bool = True) -> dict:
    """`shares` of n test dates in each direction, as a dict."""
    asked = rows(directions, "test", told, n)
    said = one.translate([source for source, _ in asked], max_len=LONGEST)
    languages = [there for _, there in directions for _ in range(n)]
    return shares(said, list(zip(languages, (target for _, target in asked), strict=True)))._asdict()


def by_english(one: Translator, directions: Sequence[Direction], n: int) -> dict:
    """`shares` where the same model writes the date in English first, and what it wrote there in the other language."""
    asked = rows(directions, "test", False, n)
    english = one.translate([prefixed([token("en")], source) for source, _ in asked], max_len=LONGEST)
    languages = [there for _, there in directions for _ in range(n)]
    said = one.translate([prefixed([token(to)], text) for to, text in zip(languages, english, strict=True)],
                         max_len=LONGEST)  # fmt: skip
    return shares(said, list(zip(languages, (target for _, target in asked), strict=True)))._asdict()


# --- what is trained, and what is asked that never was

# A ring, fr to de, de to es, ...: each language is read and written in training, these pairs of them never.
HELD_OUT = tuple(zip(LANGUAGES[1:], (*LANGUAGES[2:], LANGUAGES[1]), strict=True))
SETTINGS = {
    "through English": ENGLISH,
    "all but nine": tuple(pair for pair in ALL if pair not in HELD_OUT),
}


@experiment([{"taught": name, "told": True} for name in SETTINGS] + [{"taught": "through English", "told": False}],
            cpus=HERE)  # fmt: skip
def directions(seed, taught, told):
    """Dates in ten languages by one model, taught those with English or all but nine: directions taught, and never."""
    one = learned(seed, SETTINGS[taught], STEPS, told)
    found = {"with English": judged(one, ENGLISH, EACH, told), "from English": judged(one, FROM_ENGLISH, EACH, told),
             "without English": judged(one, FAR, FEW, told), "held out": judged(one, HELD_OUT, EACH, told),
             "weights": sum(part.numel() for part in one.model.parameters())}  # fmt: skip
    return found | ({"by English": by_english(one, FAR, FEW)} if told else {})


@experiment(seeds=range(3), cpus=HERE)
def longer(seed):
    """The model of 18 directions, trained twice as long: does what it never trained come with time?"""
    one = learned(seed, ENGLISH, 2 * STEPS)
    return {"with English": judged(one, ENGLISH, EACH), "without English": judged(one, FAR, FEW),
            "by English": by_english(one, FAR, FEW)}  # fmt: skip
