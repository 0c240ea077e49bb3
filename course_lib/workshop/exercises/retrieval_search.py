"""Lesson 15, how a passage is found: BM25, which counts words, and dense search, which compares vectors."""

import math
import random
from functools import partial

import torch
import torch.nn.functional as F

from course_lib.workshop.exercises import Exercise
from course_lib.workshop.exercises.probes import NO_GRADIENT, OTHER_SIZES, SINGLE, Case, narrowed, pulled


def my_bm25(question, passages, k1, b):
    N, mean = len(passages), sum(map(len, passages)) / len(passages)
    scores = []
    for passage in passages:
        score = 0.0
        for word in question:
            n, tf = sum(word in other for other in passages), passage.count(word)
            idf = math.log(1 + (N - n + 0.5) / (n + 0.5))
            score += idf * tf / (tf + k1 * (1 - b + b * len(passage) / mean))
        scores.append(score)
    return scores


def texts(N=7, letters="abcdef", length=9, asked=2, k1=1.2, b=0.7):
    """A question and N passages as lists of words, which are letters; k1, b. No word occurs twice in the question."""
    draw = random.Random(int(torch.randint(2**31, ())))
    passages = [draw.choices(letters, k=draw.randint(1, length)) for _ in range(N)]
    passages[0] = [letters[0]] * 3 + passages[0]  # more than once in one passage, and in not all of them
    passages[-1] = [letter for letter in letters if letter != letters[0]]
    return [letters[0], *draw.sample(letters[1:], asked - 1)], passages, k1, b


def bm25_by(
    idf=lambda N, n: math.log(1 + (N - n + 0.5) / (n + 0.5)),
    flattened=lambda tf, k: tf / (tf + k),
):
    """A wrong answer to `my_bm25`: another weight of a word, or another count in a passage."""

    def bm25(question, passages, k1, b):
        mean, scores = sum(map(len, passages)) / len(passages), []
        found = [sum(word in passage for passage in passages) for word in question]
        for passage in passages:
            k = k1 * (1 - b + b * len(passage) / mean)
            counts = [flattened(passage.count(word), k) for word in question]
            scores.append(sum(idf(len(passages), n) * count for n, count in zip(found, counts, strict=True)))
        return scores

    return bm25


BM25 = Exercise(
    solution=my_bm25,
    cases=(
        Case(
            texts,
            narrowed(
                (
                    lambda given: (["x"], [["x"], ["y"]], given["k1"], 0.0),
                    "It is wrong for one word, in one of two passages, with b = 0. There idf is log 2 and tf is 1.",
                ),
                (
                    lambda given: (given["question"][:1], given["passages"], given["k1"], 0.0),
                    "It is wrong for one word in the question and b = 0. Check idf and tf / (tf + k1).",
                ),
                (
                    lambda given: (given["question"], given["passages"], given["k1"], 0.0),
                    "It is right for one word but not for two. The score is the sum over the words of the question.",
                ),
                otherwise="It is right for b = 0. With the length, k1 is multiplied by 1 - b + b length / mean length.",
            ),
        ),
        Case(
            lambda: (["a", "b", "a"], *texts()[1:]),
            "A word that occurs twice in the question counts twice, because the sum is over all its words.",
        ),
        Case(lambda: texts(letters="ab", length=4), "The score is wrong for a word that most passages contain."),
        Case(lambda: (["zebra", "a"], *texts()[1:]), "It is wrong for a word in no passage. Such a word adds nothing."),
        Case(lambda: ([], *texts()[1:]), "For a question without words, the score of each passage is 0."),
        Case(lambda: texts(1, "ab"), "It is wrong with a single passage."),
        Case(
            lambda: texts(k1=2.5),
            "With another k1 it is wrong: use the `k1` that is passed in.",
        ),
        Case(
            lambda: texts(b=0.2),
            "With another b it is wrong: use the `b` that is passed in.",
        ),
    ),
    mistakes={
        "without_1": bm25_by(lambda N, n: math.log((N - n + 0.5) / (n + 0.5))),
        "without_idf": bm25_by(lambda N, n: 1.0),
        "idf_of_tf_idf": bm25_by(lambda N, n: math.log(N / max(n, 1))),
        "idf_upside_down": bm25_by(lambda N, n: math.log(1 + (n + 0.5) / (N - n + 0.5))),
        "not_flattened": bm25_by(flattened=lambda tf, k: tf),
        "without_length": lambda question, passages, k1, b: my_bm25(question, passages, k1, 0.0),
        "b_exchanged": lambda question, passages, k1, b: my_bm25(question, passages, k1, 1 - b),
        "words_counted_once": lambda question, *more: my_bm25(list(dict.fromkeys(question)), *more),
    },
)


def my_dense_search(asked, known, k):
    asked, known = F.normalize(asked, dim=-1), F.normalize(known, dim=-1)
    cosines = asked @ known.T  # (M, N)
    best = cosines.topk(k, dim=1)
    return best.indices, best.values  # (M, k), (M, k)


def vectors(M=4, N=9, E=6, k=3, dtype=torch.float64):
    """Vectors of questions (M, E) and of passages (N, E), of different lengths, 0.5 or more, and k."""
    asked, known = (F.normalize(torch.randn(rows, E, dtype=dtype), dim=-1) for rows in (M, N))
    lengths = 0.5 + 3 * torch.rand(M, 1, dtype=dtype), 0.5 + 5 * torch.rand(N, 1, dtype=dtype)
    lengths[0][0] = lengths[1][0] = 0.5
    return asked * lengths[0], known * lengths[1], k


def of_length_one(given):
    """A step of `narrowed`: all vectors already have length 1."""
    return F.normalize(given["asked"], dim=-1), F.normalize(given["known"], dim=-1), given["k"]


about = partial(Case, tolerance=1e-4)  # an answer that adds a millionth to a length, against 0 / 0, is right


def best_of(scores, k):
    best = scores.topk(k, dim=1)
    return best.indices, best.values


def passages_not_normalised(asked, known, k):
    return best_of(F.normalize(asked, dim=-1) @ known.T, k)


def over_the_batch(asked, known, k):
    return best_of(F.normalize(asked, dim=0) @ F.normalize(known, dim=0).T, k)


def distances(asked, known, k):
    return best_of(-torch.cdist(F.normalize(asked, dim=-1), F.normalize(known, dim=-1)), k)


DENSE = Exercise(
    solution=my_dense_search,
    cases=(
        about(
            vectors,
            narrowed(
                (
                    lambda given: (*of_length_one(given)[:2], 1),
                    "It is wrong even for length 1 and k = 1. Return the largest product and its index.",
                ),
                (of_length_one, "It is right for k = 1 but not for more. Return the best first, for each question."),
                otherwise="It is right for vectors of length 1. A cosine is the dot product of normalised vectors.",
            ),
        ),
        about(lambda: vectors(1, 1, 2, 1), OTHER_SIZES),
        about(lambda: vectors(5, 5, 5, 5), "It is wrong when all sizes are equal: check for a transposed tensor."),
        about(lambda: vectors(6, 40, 3, 12), "It is wrong with many passages."),
        about(vectors, NO_GRADIENT, ask=pulled),
        about(lambda: vectors(dtype=torch.float32), SINGLE),
    ),
    mistakes={
        "not_normalised": lambda asked, known, k: best_of(asked @ known.T, k),
        "passages_not_normalised": passages_not_normalised,
        "over_the_batch": over_the_batch,
        "distances": distances,
        "nearest_last": lambda *given: tuple(part.flip(1) for part in my_dense_search(*given)),
        "cosines_first": lambda *given: my_dense_search(*given)[::-1],
        "indices_only": lambda *given: my_dense_search(*given)[0],
    },
)

EXERCISES = [BM25, DENSE]
