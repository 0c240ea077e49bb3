"""Lesson 15, how a passage is found: BM25, which counts words, and dense search, which compares vectors."""

import math
import random
from functools import partial

import torch
import torch.nn.functional as F

from course_lib.exercises import Exercise
from course_lib.exercises.probes import NO_GRADIENT, OTHER_SIZES, SINGLE, Case, narrowed, pulled
from course_lib.exercises.slips import slips


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
    mistakes=slips("""
        sum(word in other for other in passages) -> sum(other.count(word) for other in passages)
            Your n counts all occurrences of the word. It should count each passage that contains it once.
        math.log(1 + (N - n + 0.5) / (n + 0.5)) -> math.log((N - n + 0.5) / (n + 0.5))
            Your idf has no 1 inside the log, so a word that is in more than half of the passages gets a negative weight.
        math.log(1 + (N - n + 0.5) / (n + 0.5)) -> 1.0
            You give every word the same weight. A word that few passages contain says more: multiply by its idf.
        math.log(1 + (N - n + 0.5) / (n + 0.5)) -> math.log(N / max(n, 1))
            That is the idf of tf-idf, log N / n. BM25's is log(1 + (N - n + 0.5) / (n + 0.5)).
        math.log(1 + (N - n + 0.5) / (n + 0.5)) -> math.log(1 + (n + 0.5) / (N - n + 0.5))
            Your idf is upside down, so frequent words count most.
        math.log(1 + (N - n + 0.5) / (n + 0.5)) -> math.log2(1 + (N - n + 0.5) / (n + 0.5))
            You take the logarithm to base 2. Take the natural one.
        idf * tf / (tf + k1 * (1 - b + b * len(passage) / mean)) -> idf * tf
            If a word occurs ten times, you give ten times the score. tf / (tf + k1 ...) flattens: it never exceeds 1.
        idf * tf / (tf -> idf * tf * (k1 + 1) / (tf
            You multiply by k1 + 1, as many texts do. It does not change the order, and we leave it out here.
        1 - b + b * len(passage) / mean -> 1
            You leave the length out. A long passage contains every word more often, so it would be favoured.
        1 - b + b * len(passage) / mean -> b + (1 - b) * len(passage) / mean
            You have swapped b and 1 - b. With b = 0 the length must not count.
        1 - b + b * len(passage) / mean -> 1 - b + b * mean / len(passage)
            Your length ratio is upside down, so you favour long passages. It is length / mean.
        sum(map(len, passages)) / len(passages) -> max(map(len, passages))
            You divide by the length of the longest passage. Divide by the mean length.
        in question: -> in set(question):
            You count each word of the question once. A word that occurs twice counts twice.
        idf * tf / (tf + k1 * (1 - b + b * len(passage) / mean)) -> idf * tf / (tf + k1) / (1 - b + b * len(passage) / mean)
            You put the length factor outside the fraction. It multiplies k1 inside the denominator.
    """),  # noqa: E501
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
    mistakes=slips("""
        asked, known = F.normalize(asked, dim=-1), F.normalize(known, dim=-1) -> pass
            Your vectors keep their length, so a long one wins whatever its direction. Normalise both.
        F.normalize(known, dim=-1) -> known
            The vectors of your passages keep their length, so a long one wins whatever its direction. Normalise them too.
        F.normalize(asked, dim=-1), F -> asked, F
            The vectors of your questions keep their length. The order is right, but the numbers are not cosines.
        F.normalize(asked, dim=-1), F.normalize(known, dim=-1) -> F.normalize(asked, dim=0), F.normalize(known, dim=0)
            You normalise over the batch. Scale each vector, which is a row, to length 1: dim=-1.
        F.normalize(asked, dim=-1), F.normalize(known, dim=-1) -> asked.softmax(-1), known.softmax(-1)
            A softmax does not keep the direction: numbers below 0 become positive. Divide by the length.
        cosines = asked @ known.T -> cosines = -torch.cdist(asked, known)
            Those are distances. For vectors of length 1 the order is the same, but the exercise asks for cosines.
        cosines.topk(k, dim=1) -> cosines.topk(k, dim=1, largest=False)
            You take the k passages that are farthest away. The largest cosine is the nearest.
        cosines.topk(k, dim=1) -> cosines.topk(k, dim=1).__class__(cosines.topk(k, dim=1)[0].flip(1), cosines.topk(k, dim=1)[1].flip(1))
            You return the nearest last. Return it first.
        cosines.topk(k, dim=1) -> cosines.abs().topk(k, dim=1)
            You ignore the sign, but a passage that points the other way is the farthest away.
        best.indices, best.values -> best.values, best.indices
            You return the cosines first. The indices come first.
        best.indices, best.values -> best.indices, best.values.softmax(dim=1)
            Those are weights. Return the cosines themselves.
        best = cosines.topk(k, dim=1) -> best = cosines.T.topk(k, dim=1)
            You find the nearest questions of each passage. Find the nearest passages of each question.
        return best.indices, best.values -> return best.indices
            You return only the indices. Return their cosines too, as a pair.
    """),  # noqa: E501
)

EXERCISES = [BM25, DENSE]
