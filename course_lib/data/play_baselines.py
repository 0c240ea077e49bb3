"""What little knowledge is worth in the tasks on the plays: the numbers that a model has to beat."""

from __future__ import annotations

import re
from collections import Counter

from course_lib.data.baselines import bag_of_words, most_frequent, right
from course_lib.data.play_tasks import Pair, Tagged, Text, is_name, rows


def baseline(task: str, n: int | None = None, tested: int | None = None) -> dict[str, float]:
    """What test examples, the first `tested`, are worth to those who know little; they learn from the first n of train.

    The share that is right; for "names" F1 (`f1`). "names": a `dictionary` gives each word the tag that it had most
    often; `capitals too` takes a word that it has not seen for a person where it begins with a capital. "says": the
    `first speech` is always said. The others: the most frequent label, and a bag of words. Raises what `rows` raises.
    """
    train, test = rows(task, "train")[:n], rows(task, "test")[:tested]
    if task == "names":
        tags = _tags_seen(train)
        truth, unseen = [row.tags for row in test], {True: "person", False: "other"}
        known = [[tags.get(word.lower(), "other") for word in row.words] for row in test]
        capital = [[tags.get(word.lower(), unseen[word[:1].isupper()]) for word in row.words] for row in test]
        return {"dictionary": f1(known, truth), "capitals too": f1(capital, truth)}
    if task == "says":
        return {"first speech": right([_first_speech(row.words) for row in test], [row[2:] for row in test])}
    labels, truth = [row.label for row in train], [row.label for row in test]
    texts, asked = ([_one_text(row) for row in part] for part in (train, test))
    return {
        "most frequent": most_frequent(labels, truth),
        "bag of words": right(bag_of_words(texts, labels, asked), truth),
    }


def f1(said: list[list[str]], truth: list[list[str]]) -> float:
    """2 hits / (said + meant): over all words, a hit is the right tag, and "other" is no tag. 0 for no tag at all."""
    pairs = [pair for one, other in zip(said, truth, strict=True) for pair in zip(one, other, strict=True)]
    hits = sum(a == b != "other" for a, b in pairs)
    return 2 * hits / max(1, sum((a != "other") + (b != "other") for a, b in pairs))


def _one_text(row: Text | Pair) -> str:
    """Of a pair, the words of the first and those of the second are different words, and those of both once more."""
    if isinstance(row, Text):
        return row.text
    first, second = ({word.lower() for word in re.findall(r"[^\W_]+", part)} for part in row[:2])
    return " ".join(sorted([f"a{w}" for w in first] + [f"b{w}" for w in second] + [f"ab{w}" for w in first & second]))


def _tags_seen(train: list[Tagged]) -> dict[str, str]:
    seen: dict[str, Counter[str]] = {}
    for words, tags in train:
        for word, tag in zip(words, tags, strict=True):
            seen.setdefault(word.lower(), Counter())[tag] += 1
    return {word: counts.most_common(1)[0][0] for word, counts in seen.items()}


def _first_speech(words: list[str]) -> tuple[int, int]:
    """The places of the first and the last word of the first speech: from the first full stop to the second name."""
    first = words.index(".") + 1
    last = next((i for i in range(first, len(words)) if is_name(words[i])), len(words)) - 1
    return first, last
