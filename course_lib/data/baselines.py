"""What a model has to beat: the most frequent label, and a bag of words."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def most_frequent(labels: Sequence[str], truth: Sequence[str]) -> float:
    """The share of `truth` that is right when the most frequent of `labels` is always said."""
    _check_labels(labels, truth)
    return sum(label == Counter(labels).most_common(1)[0][0] for label in truth) / len(truth)


def bag_of_words(texts: Sequence[str], labels: Sequence[str], asked: Sequence[str]) -> list[str]:
    """What a bag of words says of the texts `asked`, after it has seen `texts` with their labels.

    Each word of a text counts once, in small letters, wherever it stands; logistic regression weighs them
    (scikit-learn's, C = 10). Raises ValueError for no text, and for as many labels as do not fit.
    """
    _check_labels(texts, labels, same=True)
    if len(set(labels)) == 1:
        return [labels[0]] * len(asked)
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    words = CountVectorizer(binary=True, token_pattern=r"[^\W_]+")
    return list(make_pipeline(words, LogisticRegression(C=10, max_iter=1_000)).fit(texts, labels).predict(asked))


def right(said: Sequence, truth: Sequence) -> float:
    """The share of answers that are right. Raises ValueError for none, or as many as do not fit."""
    _check_labels(said, truth, same=True)
    return sum(a == b for a, b in zip(said, truth, strict=True)) / len(truth)


def _check_labels(texts: Sequence, labels: Sequence, same: bool = False) -> None:
    if not len(texts) or not len(labels):
        raise ValueError("A baseline needs one labelled text or more.")
    if same and len(texts) != len(labels):
        raise ValueError(f"There are {len(texts)} answers for {len(labels)} questions.")
