"""Lesson 15, the sum over passages: the marginal, the gradient that raises a passage, and an index with a bug.

The notebook holds the broken function word for word, under the name of its exercise. BM25 and dense search are in
`retrieval_search.py`.
"""

import torch

from course_lib.workshop.exercises import Exercise
from course_lib.workshop.exercises.probes import NO_GRADIENT, OTHER_SIZES, OVERFLOW, SINGLE, Case, narrowed, pulled


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


def mixed(mix):
    """A wrong answer to `my_marginal`: mix(log p of the passages (B, K, 1), log p of the answers (B, K, V))."""
    return lambda scores, log_y, temperature: mix((scores / temperature).log_softmax(dim=1)[..., None], log_y)


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
    mistakes={
        "mean_of_logs": mixed(lambda log_z, log_y: (log_z.exp() * log_y).sum(dim=1)),
        "best_passage": mixed(lambda log_z, log_y: (log_z + log_y).amax(dim=1)),
        "logs_added": mixed(lambda log_z, log_y: (log_z + log_y).sum(dim=1)),
        "equal_weights": mixed(lambda log_z, log_y: torch.logsumexp(log_y, dim=1)),
        "underflow": mixed(lambda log_z, log_y: (log_z.exp() * log_y.exp()).sum(dim=1).log()),
        "probabilities": lambda *given: my_marginal(*given).exp(),
        "without_temperature": lambda scores, log_y, temperature: my_marginal(scores, log_y, 1.0),
        "multiplied": lambda scores, log_y, temperature: my_marginal(scores, log_y, 1 / temperature),
    },
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


def one_label(scores, log_y):
    right = log_y == log_y.amax(dim=1, keepdim=True)
    return right.to(scores) - scores.softmax(dim=1)


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
    mistakes={
        "reversed": lambda scores, log_y: -my_lift(scores, log_y),
        "posterior": lambda scores, log_y: my_lift(scores, log_y) + scores.softmax(dim=1),
        "prior_left_out": lambda scores, log_y: log_y.softmax(dim=1) - scores.softmax(dim=1),
        "one_label": one_label,
        "not_divided": lambda scores, log_y: scores.softmax(dim=1) * (log_y.exp() - 1),
        "uniform_prior": lambda scores, log_y: my_lift(scores, log_y) + scores.softmax(dim=1) - 1 / scores.shape[1],
        "mean_over_questions": lambda scores, log_y: my_lift(scores, log_y) / len(scores),
    },
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


def rebuilt(questions, every):
    """For each step the step at which its index was built."""
    steps = torch.arange(len(questions))
    return steps - steps % every


def worst(questions, *more):
    places, scores = mended_kept_index(-questions, *more)
    return places, -scores


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
    mistakes={
        "bug_still_there": broken_kept_index,
        "never_rebuilt": lambda questions, *more: mended_kept_index(questions, *more[:-1], len(questions)),
        "always_rebuilt": lambda *given: mended_kept_index(*given[:-1], 1),
        "stored_scores": lambda questions, passages, w_x, w_z, k, every: mended_kept_index(
            questions, passages, w_x, w_z[rebuilt(questions, every)], k, every
        ),
        "old_question_tower": lambda questions, passages, w_x, w_z, k, every: mended_kept_index(
            questions, passages, w_x[rebuilt(questions, every)], w_z, k, every
        ),
        "worst": worst,
        "scores_first": lambda *given: mended_kept_index(*given)[::-1],
    },
)

EXERCISES = [MARGINAL, LIFT, INDEX]
