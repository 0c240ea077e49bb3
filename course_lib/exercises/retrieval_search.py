"""Lesson 15, how a passage is found: BM25, which counts words, and dense search, which compares vectors."""

import math
import random
from functools import partial

import torch
import torch.nn.functional as F

from course_lib.exercises import Exercise
from course_lib.exercises.probes import NO_GRADIENT, OTHER_SIZES, SINGLE, Case, narrowed, pulled
from course_lib.exercises.slips import slips

LESSON = "retrieval"


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
    """A question and N passages as lists of words, which are letters; k1, b. The question's words differ."""
    draw = random.Random(int(torch.randint(2**31, ())))
    passages = [draw.choices(letters, k=draw.randint(1, length)) for _ in range(N)]
    passages[0] = [letters[0]] * 3 + passages[0]  # more than once in one passage, and in not all of them
    passages[-1] = [letter for letter in letters if letter != letters[0]]
    return [letters[0], *draw.sample(letters[1:], asked - 1)], passages, k1, b


BM25 = Exercise(
    lesson=LESSON,
    title="BM25",
    solution=my_bm25,
    returns="a list with the score of each passage, N numbers",
    cases=(
        Case(
            texts,
            narrowed(
                (
                    lambda given: (["x"], [["x"], ["y"]], given["k1"], 0.0),
                    "Of one word that stands once in one of two passages, with b = 0: idf is log 2, and tf is 1.",
                ),
                (
                    lambda given: (given["question"][:1], given["passages"], given["k1"], 0.0),
                    "With one word in the question and b = 0 it is wrong: idf, and tf / (tf + k1).",
                ),
                (
                    lambda given: (given["question"], given["passages"], given["k1"], 0.0),
                    "One word is right, two are not: the score is the sum over the question's words.",
                ),
                otherwise="With b = 0 it is right. With length it is k1 (1 - b + b length / mean length).",
            ),
        ),
        Case(
            lambda: (["a", "b", "a"], *texts()[1:]),
            "A word that the question says twice counts twice: the sum is over the words as they are said.",
        ),
        Case(lambda: texts(letters="ab", length=4), "Of a word that most passages have the score is wrong."),
        Case(lambda: (["zebra", "a"], *texts()[1:]), "With a word that no passage has it is wrong: it adds nothing."),
        Case(lambda: ([], *texts()[1:]), "A question without words has the score 0 for each passage."),
        Case(lambda: texts(1, "ab"), "With a single passage it is wrong."),
        Case(
            lambda: texts(k1=2.5),
            "With another k1 it is wrong: use the `k1` that is passed in.",
        ),
        Case(
            lambda: texts(b=0.2),
            "With another b it is wrong: use the `b` that is passed in.",
        ),
    ),
    hints=(
        "Two loops: over the passages, and inside over the words of the question, whose shares are added up.",
        "n is in how many passages the word stands, tf how often in this one: sum(word in other ...), passage.count.",
        "idf = log(1 + (N - n + 0.5) / (n + 0.5)): large for a word that few passages have.",
        "The share is idf * tf / (tf + k1 * (1 - b + b * len(passage) / mean)), mean the mean length.",
    ),
    mistakes=slips("""
        sum(word in other for other in passages) -> sum(other.count(word) for other in passages)
            Your n counts how often the word stands anywhere. It counts passages, each once.
        math.log(1 + (N - n + 0.5) / (n + 0.5)) -> math.log((N - n + 0.5) / (n + 0.5))
            Your idf has no 1 inside the log: a word of more than half of the passages then counts against them.
        math.log(1 + (N - n + 0.5) / (n + 0.5)) -> 1.0
            Every word counts alike in yours. A word that few passages have says more: idf.
        math.log(1 + (N - n + 0.5) / (n + 0.5)) -> math.log(N / max(n, 1))
            That is the idf of tf-idf, log N / n. BM25's is log(1 + (N - n + 0.5) / (n + 0.5)).
        math.log(1 + (N - n + 0.5) / (n + 0.5)) -> math.log(1 + (n + 0.5) / (N - n + 0.5))
            Your idf is turned over: frequent words count most.
        math.log(1 + (N - n + 0.5) / (n + 0.5)) -> math.log2(1 + (N - n + 0.5) / (n + 0.5))
            You take the logarithm to base 2. It is the natural one.
        idf * tf / (tf + k1 * (1 - b + b * len(passage) / mean)) -> idf * tf
            In yours ten times the word is ten times the score. tf / (tf + k1 ...) flattens: it never passes 1.
        idf * tf / (tf -> idf * tf * (k1 + 1) / (tf
            You multiply by k1 + 1, as many texts do. It changes no order, and here it is left out.
        1 - b + b * len(passage) / mean -> 1
            You leave the length out: a long passage has every word more often.
        1 - b + b * len(passage) / mean -> b + (1 - b) * len(passage) / mean
            b and 1 - b have changed places: with b = 0 the length must not count.
        1 - b + b * len(passage) / mean -> 1 - b + b * mean / len(passage)
            Your length is upside down: a long passage is favoured. It is length / mean.
        sum(map(len, passages)) / len(passages) -> max(map(len, passages))
            You divide by the longest length. It is the mean length.
        in question: -> in set(question):
            You count each word of the question once. One that it says twice counts twice.
        idf * tf / (tf + k1 * (1 - b + b * len(passage) / mean)) -> idf * tf / (tf + k1) / (1 - b + b * len(passage) / mean)
            The length stands outside in yours. It multiplies k1, inside.
    """),  # noqa: E501
)


def my_dense_search(asked, known, k):
    asked, known = F.normalize(asked, dim=-1), F.normalize(known, dim=-1)
    cosines = asked @ known.T  # (M, N)
    best = cosines.topk(k, dim=1)
    return best.indices, best.values  # (M, k), (M, k)


def vectors(M=4, N=9, E=6, k=3, dtype=torch.float64):
    """Vectors of questions (M, E) and of passages (N, E), each of another length, 0.5 or more, and k."""
    asked, known = (F.normalize(torch.randn(rows, E, dtype=dtype), dim=-1) for rows in (M, N))
    return asked * (0.5 + 3 * torch.rand(M, 1, dtype=dtype)), known * (0.5 + 5 * torch.rand(N, 1, dtype=dtype)), k


def of_length_one(given):
    """A step of `narrowed`: all vectors have length 1 already."""
    return F.normalize(given["asked"], dim=-1), F.normalize(given["known"], dim=-1), given["k"]


about = partial(Case, tolerance=1e-4)  # who adds a millionth to a length, against 0 / 0, is right


DENSE = Exercise(
    lesson=LESSON,
    title="Dense search",
    solution=my_dense_search,
    returns="places int64 (M, k) and cosines (M, k) of the k nearest, a pair",
    cases=(
        about(
            vectors,
            narrowed(
                (
                    lambda given: (*of_length_one(given)[:2], 1),
                    "With vectors of length 1 and k = 1 it is wrong already: the largest product and where it stands.",
                ),
                (of_length_one, "With k = 1 it is right, with more not: the best first, for each question."),
                otherwise="With vectors of length 1 it is right. A cosine is the product of normalised ones.",
            ),
        ),
        about(lambda: vectors(1, 1, 2, 1), OTHER_SIZES),
        about(lambda: vectors(5, 5, 5, 5), "Where all sizes are equal it is wrong: there a turned tensor fits."),
        about(lambda: vectors(6, 40, 3, 12), "With many passages it is wrong."),
        about(vectors, NO_GRADIENT, ask=pulled),
        about(lambda: vectors(dtype=torch.float32), SINGLE),
    ),
    hints=(
        "Bring every vector to length 1: F.normalize(x, dim=-1). Then a product of two is their cosine.",
        "asked @ known.T has a row for each question and a column for each passage, (M, N).",
        "cosines.topk(k, dim=1) gives the k largest of each row, the largest first.",
        "It has .values and .indices: return the places, then the cosines.",
    ),
    mistakes=slips("""
        asked, known = F.normalize(asked, dim=-1), F.normalize(known, dim=-1) -> pass
            Your vectors keep their length, so a long passage wins whatever its direction: normalise both.
        F.normalize(known, dim=-1) -> known
            Your passages keep their length: a long one wins whatever its direction.
        F.normalize(asked, dim=-1), F -> asked, F
            Your questions keep their length: the order is right, and the numbers are no cosines.
        F.normalize(asked, dim=-1), F.normalize(known, dim=-1) -> F.normalize(asked, dim=0), F.normalize(known, dim=0)
            You normalise over the batch. Each vector, a row, is brought to length 1: dim=-1.
        F.normalize(asked, dim=-1), F.normalize(known, dim=-1) -> asked.softmax(-1), known.softmax(-1)
            A softmax is no direction: numbers below 0 are lost. Divide by the length.
        cosines = asked @ known.T -> cosines = -torch.cdist(asked, known)
            Those are distances. Of vectors of length 1 the order is the same, the numbers are not: cosines are asked.
        cosines.topk(k, dim=1) -> cosines.topk(k, dim=1, largest=False)
            You take the k furthest. The largest cosine is the nearest.
        cosines.topk(k, dim=1) -> cosines.topk(k, dim=1).__class__(cosines.topk(k, dim=1)[0].flip(1), cosines.topk(k, dim=1)[1].flip(1))
            Yours has the nearest last. The nearest comes first.
        cosines.topk(k, dim=1) -> cosines.abs().topk(k, dim=1)
            You take the largest without their sign: a passage that points the other way is the furthest.
        best.indices, best.values -> best.values, best.indices
            You return the cosines first. The places come first.
        best.indices, best.values -> best.indices, best.values.softmax(dim=1)
            Those are weights. The cosines themselves are asked.
        best = cosines.topk(k, dim=1) -> best = cosines.T.topk(k, dim=1)
            You look for the nearest questions of each passage. Asked are the nearest passages of each question.
        return best.indices, best.values -> return best.indices
            You return the places alone. Their cosines are wanted too, as a pair.
    """),  # noqa: E501
)

EXERCISES = [BM25, DENSE]
