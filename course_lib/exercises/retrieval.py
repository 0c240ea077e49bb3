"""Lesson 15, the sum over passages: the marginal, the gradient that raises a passage, and an index with a bug.

The notebook holds the broken function word for word, under the name of its exercise. BM25 and dense search are in
`retrieval_search.py`, the questions in `retrieval_questions.py`.
"""

import torch

from course_lib.exercises import Exercise
from course_lib.exercises.probes import NO_GRADIENT, OTHER_SIZES, OVERFLOW, SINGLE, Case, narrowed, pulled
from course_lib.exercises.slips import slips


def my_marginal(scores, log_y, temperature):
    log_z = (scores / temperature).log_softmax(dim=1)  # (B, K)
    return torch.logsumexp(log_z[..., None] + log_y, dim=1)  # (B, V)


def read(B=3, K=4, V=5, temperature=0.7, dtype=torch.float64):
    """Scores of K passages (B, K), a reader's log p of V answers with each (B, K, V), a temperature."""
    log_y = (2 * torch.randn(B, K, V, dtype=dtype)).log_softmax(-1)
    return 2 * torch.randn(B, K, dtype=dtype), log_y, temperature


def unlikely_passages():
    """In single precision: scores of hundreds, and only the passage with the lowest score makes the answers likely."""
    scores = torch.tensor([[300.0, 299, 0], [-300, -301, -299]])
    log_y = torch.tensor([[-700.0, -2], [-699, -3], [-1, -1000]])
    return scores, torch.stack([log_y, log_y.flip(0)]), 1.0


MARGINAL = Exercise(
    solution=my_marginal,
    cases=(
        Case(
            read,
            narrowed(
                (
                    lambda given: (given["scores"][:, :1], given["log_y"][:, :1], given["temperature"]),
                    "It is wrong even with a single passage, whose p is 1: then log p(y | x) is the reader's log p.",
                ),
                (
                    lambda given: (0 * given["scores"], given["log_y"], given["temperature"]),
                    "It is wrong when all scores are 0. Then p is the plain mean over the passages; return its log.",
                ),
                (
                    lambda given: (given["scores"], given["log_y"], 1.0),
                    "It is right for equal scores but not for others. Take log_softmax over the passages.",
                ),
                otherwise="It is right at temperature 1. Divide the scores by the temperature before the softmax.",
            ),
        ),
        Case(lambda: read(1, 1, 2), OTHER_SIZES),
        Case(lambda: read(4, 4, 4), "It is wrong when all sizes are equal. Which dimension holds the passages?"),
        Case(
            lambda: (read()[0], read()[1] - 2000, 1.0),
            "It is wrong when every p is as small as e^-2000, where exp gives 0. Stay in log space: torch.logsumexp.",
        ),
        Case(unlikely_passages, OVERFLOW),
        Case(read, NO_GRADIENT, ask=pulled),
        Case(lambda: read(dtype=torch.float32), SINGLE),
    ),
    mistakes=slips("""
        torch.logsumexp(log_z[..., None] + log_y, dim=1) -> (log_z.exp()[..., None] * log_y).sum(dim=1)
            You average log p, so one passage that excludes an answer vetoes it. Average p itself, and then take the log.
        torch.logsumexp(log_z[..., None] + log_y, dim=1) -> (log_z[..., None] + log_y).amax(dim=1)
            You use only the best passage. The others count as well: sum over all of them.
        torch.logsumexp(log_z[..., None] + log_y, dim=1) -> log_y[torch.arange(len(log_y)), log_z.argmax(dim=1)]
            You read only the passage with the highest score. Read all of them, each weighted by its p.
        torch.logsumexp(log_z[..., None] + log_y, dim=1) -> (log_z[..., None] + log_y).sum(dim=1)
            You add logs over the passages, which multiplies their probabilities. The passages are alternatives, so add p.
        torch.logsumexp(log_z[..., None] + log_y, dim=1) -> torch.logsumexp(log_z[..., None] + log_y, dim=1).exp()
            That is p. The exercise asks for log p.
        torch.logsumexp(log_z[..., None] + log_y, dim=1) -> (log_z.exp()[..., None] * log_y.exp()).sum(dim=1).log()
            The formula is right, but exp of a very small log is 0, and log 0 is minus infinity. Use torch.logsumexp.
        torch.logsumexp(log_z[..., None] + log_y, dim=1) -> torch.logsumexp(log_y, dim=1)
            You give every passage a weight of 1. Add log p(z | x) of each passage first.
        (scores / temperature).log_softmax(dim=1) -> (scores * temperature).log_softmax(dim=1)
            You multiply by the temperature. Divide by it: a low temperature sharpens the distribution.
        (scores / temperature).log_softmax(dim=1) -> scores.log_softmax(dim=1)
            You leave the temperature out.
        (scores / temperature).log_softmax(dim=1) -> scores.log_softmax(dim=1) / temperature
            You divide log p by the temperature, so the probabilities of the passages no longer add up to 1.
        (scores / temperature).log_softmax(dim=1) -> (scores / temperature).log_softmax(dim=0)
            Your softmax is over the questions. The probabilities of one question's passages add up to 1: dim=1.
        (scores / temperature).log_softmax(dim=1) -> scores / temperature
            You add raw scores. log_softmax turns them into log p.
        (scores / temperature).log_softmax(dim=1) -> (scores / temperature).softmax(dim=1)
            You add p of the passages to log p of the answers. Both must be logs.
        (scores / temperature).log_softmax(dim=1) -> (scores / temperature).sigmoid().log()
            A sigmoid judges each passage by itself. Exactly one of them is the source, so take the softmax over the passages.
    """),  # noqa: E501
)


def my_lift(scores, log_y):
    log_z = scores.log_softmax(dim=1)  # (B, K): before the answer is known
    told = (log_z + log_y).softmax(dim=1)  # (B, K): p(z | x, y)
    return told - log_z.exp()


def told(B=3, K=4, dtype=torch.float64):
    """Scores of K passages (B, K), a reader's log p of the correct answer with each (B, K)."""
    return 2 * torch.randn(B, K, dtype=dtype), -3 * torch.rand(B, K, dtype=dtype) - 0.01


def far_apart():
    """In single precision: scores of hundreds, far apart between questions, and an unlikely answer."""
    log_y = torch.tensor([[-1001.0, -1000, -800], [-1, -900, -2.5]])
    return torch.tensor([[300.0, 299, 100], [-300, -301, -299]]), log_y


def without_autograd(answer, *arguments):
    """For `Case.ask`: where nothing can have a gradient."""
    with torch.inference_mode():
        return answer(*arguments)


LIFT = Exercise(
    solution=my_lift,
    cases=(
        Case(
            told,
            narrowed(
                (
                    lambda given: (given["scores"], torch.full_like(given["log_y"], -1.0)),
                    "If the reader gives the answer the same p with each passage, all gradients are 0. Yours are not.",
                ),
                (
                    lambda given: (0 * given["scores"], given["log_y"]),
                    "It is wrong even for equal scores, where it is the posterior of each passage minus 1 / K.",
                ),
                otherwise="It is right for equal scores but not for others. Prior and posterior both need p(z | x).",
            ),
        ),
        Case(lambda: told(1, 1), OTHER_SIZES),
        Case(lambda: told(4, 4), "It is wrong with as many passages as questions. Which dimension holds the passages?"),
        Case(
            lambda: (told()[0], told()[1] - 1000),
            "It is wrong when the answer is as unlikely as e^-1000: a quotient of such p is 0 / 0. Stay in log space.",
        ),
        Case(far_apart, OVERFLOW),
        Case(told, "Here autograd is switched off, so write the derivative down as a formula.", without_autograd),
        Case(lambda: told(dtype=torch.float32), SINGLE),
    ),
    mistakes=slips("""
        told - log_z.exp() -> log_z.exp() - told
            Your sign is reversed, so you lower the passage that helped. The gradient is posterior minus prior.
        told - log_z.exp() -> told
            That is the posterior, p(z | x, y). Subtract the prior: what the passage had before the answer was known.
        told - log_z.exp() -> log_z.exp() * (log_y.exp() - (log_z + log_y).exp().sum(dim=1, keepdim=True))
            That is the gradient of p(y | x). For its log, divide by p(y | x).
        told - log_z.exp() -> log_y.exp() / (log_z + log_y).exp().sum(dim=1, keepdim=True) - 1
            The factor p(z | x) is missing. The gradient is p(z | x) (p(y | x, z) / p(y | x) - 1).
        (log_z + log_y).softmax(dim=1) -> log_y.softmax(dim=1)
            You leave the prior out of the posterior, but p(z | x, y) is proportional to p(z | x) p(y | x, z).
        (log_z + log_y).softmax(dim=1) -> torch.nn.functional.one_hot(log_y.argmax(dim=1), log_y.shape[1]).to(log_y)
            You treat one passage as the correct one, which would be a label. Each passage gets its share of the posterior.
        told - log_z.exp() -> told.log() - log_z
            You subtract logs. The gradient is the difference of the probabilities themselves.
        (log_z + log_y).softmax(dim=1) -> (log_z + log_y).exp()
            p(z | x) p(y | x, z) is not yet the posterior. Divide it by its sum over the passages, p(y | x).
        (log_z + log_y).softmax(dim=1) -> (log_z.exp() + log_y.exp()).softmax(dim=1)
            You add probabilities. The posterior is proportional to their product, so add their logs.
        scores.log_softmax(dim=1) -> scores.log_softmax(dim=0)
            Your prior is normalised over the questions. Normalise over the passages of each question: dim=1.
        (log_z + log_y).softmax(dim=1) -> (log_z + log_y).softmax(dim=0)
            Your posterior is normalised over the questions. Normalise over the passages of each question: dim=1.
        told - log_z.exp() -> log_z.exp() * (log_y - (log_z.exp() * log_y).sum(dim=1, keepdim=True))
            That is the gradient of the mean of log p. You need the log of the mean: the log of the sum over the passages.
        told - log_z.exp() -> (told - log_z.exp()) / len(scores)
            You divide by the number of questions. Return the gradient of each question's own log p.
        told - log_z.exp() -> told - 1 / scores.shape[1]
            You subtract 1 / K, as if all scores were equal. Subtract p(z | x).
        return told - log_z.exp() -> p = log_y.exp(); y = (log_z.exp() * p).sum(1, keepdim=True); return log_z.exp() * (p / y - 1)
            The formula is right, but where every p is tiny it gives 0 / 0. Work with logs, as softmax does.
    """),  # noqa: E501
)


def broken_kept_index(questions, passages, w_x, w_z, k, every):
    """questions (S, B, D), one batch per step; passages (N, D); w_x, w_z (S, D, E): the two towers at each step.

    The index of all passages is rebuilt every `every` steps. Returns what each step reads, (S, B, k), and its scores.
    """
    chosen, scores = [], []
    for step in range(len(questions)):
        if step // every == 0:
            index = passages @ w_z[step]  # (N, E): kept until it is rebuilt
        asked = questions[step] @ w_x[step]  # (B, E)
        places = (asked @ index.T).topk(k, dim=1).indices  # (B, k): chosen by the index
        now = passages[places] @ w_z[step]  # (B, k, E): scored by the current tower
        chosen.append(places)
        scores.append((now @ asked[..., None])[..., 0])
    return torch.stack(chosen), torch.stack(scores)


def mended_kept_index(questions, passages, w_x, w_z, k, every):
    chosen, scores = [], []
    for step in range(len(questions)):
        if step % every == 0:
            index = passages @ w_z[step]  # (N, E)
        asked = questions[step] @ w_x[step]  # (B, E)
        places = (asked @ index.T).topk(k, dim=1).indices  # (B, k)
        now = passages[places] @ w_z[step]  # (B, k, E)
        chosen.append(places)
        scores.append((now @ asked[..., None])[..., 0])
    return torch.stack(chosen), torch.stack(scores)


def steps(S=9, every=3, k=4, B=5, N=30, D=8, E=6, dtype=torch.float64):
    """Questions and towers that differ at each step, one memory, k, and how often the index is rebuilt."""
    questions, passages = torch.randn(S, B, D, dtype=dtype), torch.randn(N, D, dtype=dtype)
    return questions, passages, *torch.randn(2, S, D, E, dtype=dtype), k, every


INDEX = Exercise(
    solution=mended_kept_index,
    cases=(
        Case(
            steps,
            narrowed(
                (
                    lambda given: tuple(a[:1] if n in ("questions", "w_x", "w_z") else a for n, a in given.items()),
                    "It is wrong in the first step: build the index, take the k best passages, score them again.",
                ),
                (
                    lambda given: (*list(given.values())[:-1], 1),
                    "The first step is right. With every=1 the index is rebuilt at each step, and yours is not.",
                ),
                otherwise="It is right with every=1. With every=3, steps 3, 4 and 5 use step 3's index, no others.",
            ),
        ),
        Case(lambda: steps(4, 1), "It is wrong with every=1, where the index is rebuilt at each step."),
        Case(lambda: steps(4, 10), "If `every` exceeds the number of steps, the first index stays. Yours does not."),
        Case(lambda: steps(2, 1, 1, 1, 3), OTHER_SIZES),
        Case(steps, NO_GRADIENT, ask=pulled),
        Case(lambda: steps(dtype=torch.float32), SINGLE),
    ),
    stub=broken_kept_index,
    mistakes=slips("""
        step % every == 0 -> step // every == 0
            The bug is still there: from step `every` on, the index is never rebuilt. The scores are up to date, so it trains, but the passages that it reads get worse.
        step % every == 0 -> step == 0
            Your index stays that of the first step: built once, or rebuilt with the first step's tower, w_z[0].
        step % every == 0 -> True
            You rebuild the index at every step. The passages are right, but it is as expensive as having no index. Keep it for `every` steps.
        step % every == 0 -> step == 0 or step % every == every - 1
            You rebuild it one step early, at 2, 5 and 8. Rebuild it at steps 0, 3 and 6.
        step % every == 0 -> step == 0 or step % every == 1 % every
            You rebuild it one step late, at 1, 4 and 7. Rebuild it at steps 0, 3 and 6.
        index = passages @ w_z[step] -> index = passages @ w_x[step]
            You embed the passages with the tower for questions. Their own tower is w_z.
        passages[places] @ w_z[step] -> index[places]
            You score with the stored vectors. An old index may choose the passages, but the current tower must score them, or it learns nothing.
        asked = questions[step] @ w_x[step] -> asked = questions[step] @ w_x[step - step % every]
            You embed the questions with an old tower. Only the index of passages is old.
        topk(k, dim=1) -> topk(k, dim=1, largest=False)
            You take the k worst passages. Take the k best.
        torch.stack(chosen), torch.stack(scores) -> torch.stack(scores), torch.stack(chosen)
            You return the scores first. The indices of the passages come first.
    """),  # noqa: E501
)

EXERCISES = [MARGINAL, LIFT, INDEX]
