"""Lesson 15, the sum over passages: the marginal, the gradient that lifts a passage, and an index to mend.

The notebook holds the broken function word for word, under the name of its exercise. BM25 and dense search are in
`retrieval_search.py`, what is asked in `retrieval_questions.py`.
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
    """In single precision: scores of hundreds, and the passage with the lowest score alone makes the answers likely."""
    scores = torch.tensor([[300.0, 299, 0], [-300, -301, -299]])
    log_y = torch.tensor([[-700.0, -2], [-699, -3], [-1, -1000]])
    return scores, torch.stack([log_y, log_y.flip(0)]), 1.0


MARGINAL = Exercise(
    title="The sum over passages",
    solution=my_marginal,
    returns="log p of each answer, (B, V)",
    cases=(
        Case(
            read,
            narrowed(
                (
                    lambda given: (given["scores"][:, :1], given["log_y"][:, :1], given["temperature"]),
                    "With a single passage it is wrong already: its p is 1, so log p is what the reader says.",
                ),
                (
                    lambda given: (0 * given["scores"], given["log_y"], given["temperature"]),
                    "With all scores 0 it is wrong: p is the plain mean over passages, and you return its log.",
                ),
                (
                    lambda given: (given["scores"], given["log_y"], 1.0),
                    "With all scores alike it is right, with others and temperature 1 not: log softmax over passages.",
                ),
                otherwise="At temperature 1 it is right. The scores are divided by the temperature before the softmax.",
            ),
        ),
        Case(lambda: read(1, 1, 2), OTHER_SIZES),
        Case(lambda: read(4, 4, 4), "Where all sizes are equal it is wrong: which dimension are the passages?"),
        Case(
            lambda: (read()[0], read()[1] - 2000, 1.0),
            "Where every p is as small as e^-2000 it is wrong: exp of that is 0. Stay in log space: torch.logsumexp.",
        ),
        Case(unlikely_passages, OVERFLOW),
        Case(read, NO_GRADIENT, ask=pulled),
        Case(lambda: read(dtype=torch.float32), SINGLE),
    ),
    hints=(
        "Two steps: log p(z | x) of the passages, (B, K), and then the sum over them, in log space.",
        "log p(z | x) is (scores / temperature).log_softmax(dim=1): over the passages of a question.",
        "A product is a sum of logs: log_z[..., None] + log_y is log p(z | x) p(y | x, z), (B, K, V).",
        "The sum over passages is torch.logsumexp(..., dim=1).",
    ),
    mistakes=slips("""
        torch.logsumexp(log_z[..., None] + log_y, dim=1) -> (log_z.exp()[..., None] * log_y).sum(dim=1)
            You take the mean of log p. p itself is the mean: one passage that excludes an answer would veto it in yours.
        torch.logsumexp(log_z[..., None] + log_y, dim=1) -> (log_z[..., None] + log_y).amax(dim=1)
            You take the best passage alone. The others count as well: sum over all of them.
        torch.logsumexp(log_z[..., None] + log_y, dim=1) -> log_y[torch.arange(len(log_y)), log_z.argmax(dim=1)]
            You read the first passage alone. All are read, each with its p.
        torch.logsumexp(log_z[..., None] + log_y, dim=1) -> (log_z[..., None] + log_y).sum(dim=1)
            You add up logs over the passages, so you multiply their p. They are alternatives: p is added.
        torch.logsumexp(log_z[..., None] + log_y, dim=1) -> torch.logsumexp(log_z[..., None] + log_y, dim=1).exp()
            That is p. Asked is log p.
        torch.logsumexp(log_z[..., None] + log_y, dim=1) -> (log_z.exp()[..., None] * log_y.exp()).sum(dim=1).log()
            The formula is right, and exp of a very small log is 0, whose log is minus infinity: torch.logsumexp.
        torch.logsumexp(log_z[..., None] + log_y, dim=1) -> torch.logsumexp(log_y, dim=1)
            Every passage counts alike in yours, and with a weight of 1. Each has its log p(z | x).
        (scores / temperature).log_softmax(dim=1) -> (scores * temperature).log_softmax(dim=1)
            You multiply by the temperature. Scores are divided by it: a low one sharpens.
        (scores / temperature).log_softmax(dim=1) -> scores.log_softmax(dim=1)
            You leave the temperature out.
        (scores / temperature).log_softmax(dim=1) -> scores.log_softmax(dim=1) / temperature
            You divide log p by the temperature, and then the p of the passages do not sum to 1.
        (scores / temperature).log_softmax(dim=1) -> (scores / temperature).log_softmax(dim=0)
            Your softmax is over the questions. Each question shares out 1 over its passages: dim=1.
        (scores / temperature).log_softmax(dim=1) -> scores / temperature
            You add raw scores. They become log p by log_softmax.
        (scores / temperature).log_softmax(dim=1) -> (scores / temperature).softmax(dim=1)
            You add p of the passages to log p of the answers. Both have to be logs.
        (scores / temperature).log_softmax(dim=1) -> (scores / temperature).sigmoid().log()
            A sigmoid asks each passage by itself. One of them is it: softmax over the passages.
    """),  # noqa: E501
)


def my_lift(scores, log_y):
    log_z = scores.log_softmax(dim=1)  # (B, K): before the answer is known
    told = (log_z + log_y).softmax(dim=1)  # (B, K): p(z | x, y)
    return told - log_z.exp()


def told(B=3, K=4, dtype=torch.float64):
    """Scores of K passages (B, K), a reader's log p of the one answer with each (B, K)."""
    return 2 * torch.randn(B, K, dtype=dtype), -3 * torch.rand(B, K, dtype=dtype) - 0.01


def far_apart():
    """In single precision: scores of hundreds, far apart from question to question, and an answer that is unlikely."""
    log_y = torch.tensor([[-1001.0, -1000, -800], [-1, -900, -2.5]])
    return torch.tensor([[300.0, 299, 100], [-300, -301, -299]]), log_y


def without_autograd(answer, *arguments):
    """For `Case.ask`: where nothing can have a gradient."""
    with torch.inference_mode():
        return answer(*arguments)


LIFT = Exercise(
    title="The gradient that lifts a passage",
    solution=my_lift,
    returns="d log p(y | x) / d score of each passage, (B, K)",
    cases=(
        Case(
            told,
            narrowed(
                (
                    lambda given: (given["scores"], torch.full_like(given["log_y"], -1.0)),
                    "Where the reader says the answer with the same p whatever it reads, no score has a gradient: 0.",
                ),
                (
                    lambda given: (0 * given["scores"], given["log_y"]),
                    "With equal scores it is wrong already: the p of passages, told the answer, less 1 / K.",
                ),
                otherwise="With equal scores it is right. With others p(z | x) stands in both: before and after.",
            ),
        ),
        Case(lambda: told(1, 1), OTHER_SIZES),
        Case(lambda: told(4, 4), "With as many passages as questions it is wrong: which dimension are the passages?"),
        Case(
            lambda: (told()[0], told()[1] - 1000),
            "Where the answer is as unlikely as e^-1000 it is wrong: a quotient of such p is 0 / 0. Stay in log space.",
        ),
        Case(far_apart, OVERFLOW),
        Case(told, "Here autograd is switched off: write the derivative down as a formula.", without_autograd),
        Case(lambda: told(dtype=torch.float32), SINGLE),
    ),
    hints=(
        "log p(y | x) = logsumexp over z of (log p(z | x) + log p(y | x, z)). Differentiate by one score: two terms.",
        "One term is p(z | x, y), which passage it was, told the answer: softmax over z of (log_z + log_y).",
        "The other comes from the sum below p(z | x) = exp(score) / sum of exp: it is p(z | x), with a minus.",
        "So (log_z + log_y).softmax(dim=1) - log_z.exp(). Compare it with autograd.",
    ),
    mistakes=slips("""
        told - log_z.exp() -> log_z.exp() - told
            The sign is turned: yours lowers the passage that helped. It is posterior less prior.
        told - log_z.exp() -> told
            That is the posterior, p(z | x, y). What the passage had before the answer is known is taken off.
        told - log_z.exp() -> log_z.exp() * (log_y.exp() - (log_z + log_y).exp().sum(dim=1, keepdim=True))
            That is the gradient of p(y | x). Of its log it is that, divided by p(y | x).
        told - log_z.exp() -> log_y.exp() / (log_z + log_y).exp().sum(dim=1, keepdim=True) - 1
            The factor p(z | x) is missing: p(z | x) (p(y | x, z) / p(y | x) - 1).
        (log_z + log_y).softmax(dim=1) -> log_y.softmax(dim=1)
            You leave the prior out of the posterior: p(z | x, y) is in proportion to p(z | x) p(y | x, z).
        (log_z + log_y).softmax(dim=1) -> torch.nn.functional.one_hot(log_y.argmax(dim=1), log_y.shape[1]).to(log_y)
            You name one passage as the right one: that would be a label. Each gets its share of the posterior.
        told - log_z.exp() -> told.log() - log_z
            You subtract logs. The gradient is the difference of the two probabilities.
        (log_z + log_y).softmax(dim=1) -> (log_z + log_y).exp()
            p(z | x) p(y | x, z) is not yet the posterior: it is divided by its sum over passages, p(y | x).
        (log_z + log_y).softmax(dim=1) -> (log_z.exp() + log_y.exp()).softmax(dim=1)
            You add probabilities. The posterior is in proportion to their product: their logs are added.
        scores.log_softmax(dim=1) -> scores.log_softmax(dim=0)
            Your softmax is over the questions. The passages of a question share out 1: dim=1.
        (log_z + log_y).softmax(dim=1) -> (log_z + log_y).softmax(dim=0)
            Your posterior is over the questions. It is over the passages of each: dim=1.
        told - log_z.exp() -> log_z.exp() * (log_y - (log_z.exp() * log_y).sum(dim=1, keepdim=True))
            That is the gradient of the mean of log p. The log is taken of the mean: log of the sum over passages.
        told - log_z.exp() -> (told - log_z.exp()) / len(scores)
            You divide by the number of questions. Asked is the gradient of each question's own log p.
        told - log_z.exp() -> told - 1 / scores.shape[1]
            You take off 1 / K, as if all scores were equal. It is p(z | x) that is taken off.
        return told - log_z.exp() -> p = log_y.exp(); y = (log_z.exp() * p).sum(1, keepdim=True); return log_z.exp() * (p / y - 1)
            The formula is right, and where every p is tiny it is 0 / 0: work with logs, as softmax does.
    """),  # noqa: E501
)


def broken_kept_index(questions, passages, w_x, w_z, k, every):
    """questions (S, B, D), one batch a step; passages (N, D); w_x, w_z (S, D, E): the two towers as each step has them.

    The index of all passages is made anew every so many steps. Gives what each step reads, (S, B, k), and its scores.
    """
    chosen, scores = [], []
    for step in range(len(questions)):
        if step // every == 0:
            index = passages @ w_z[step]  # (N, E): kept until it is made anew
        asked = questions[step] @ w_x[step]  # (B, E)
        places = (asked @ index.T).topk(k, dim=1).indices  # (B, k): chosen by the index
        now = passages[places] @ w_z[step]  # (B, k, E): scored by the tower of now
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
    """Questions and towers that are others in each step, one memory, k and how often the index is made anew."""
    questions, passages = torch.randn(S, B, D, dtype=dtype), torch.randn(N, D, dtype=dtype)
    return questions, passages, *torch.randn(2, S, D, E, dtype=dtype), k, every


INDEX = Exercise(
    title="Find the bug: an index that was not renewed",
    solution=mended_kept_index,
    returns="what each step reads (S, B, k) and its scores (S, B, k), a pair",
    cases=(
        Case(
            steps,
            narrowed(
                (
                    lambda given: tuple(a[:1] if n in ("questions", "w_x", "w_z") else a for n, a in given.items()),
                    "In the first step it is wrong already: an index of that step, its k best, scored anew.",
                ),
                (
                    lambda given: (*list(given.values())[:-1], 1),
                    "The first step is right. With every=1 the index is of now in each step, and yours is not.",
                ),
                otherwise="With every=1 it is right. With 3 the index of step 3 serves steps 3, 4 and 5, and no other.",
            ),
        ),
        Case(lambda: steps(4, 1), "With every=1 it is wrong: then the index is of now in each step."),
        Case(lambda: steps(4, 10), "With more steps between than there are, the first index stays: yours does not."),
        Case(lambda: steps(2, 1, 1, 1, 3), OTHER_SIZES),
        Case(steps, NO_GRADIENT, ask=pulled),
        Case(lambda: steps(dtype=torch.float32), SINGLE),
    ),
    stub=broken_kept_index,
    hints=(
        "Write down for every=3 in which of the steps 0 to 8 the index ought to be made anew. In which is it?",
        "Print step // every and step % every for these steps.",
        "// says how often 3 goes into the step: 0 for the first three steps, and never again.",
        "step % every == 0 holds in the steps 0, 3, 6.",
    ),
    mistakes=slips("""
        step % every == 0 -> step // every == 0
            The bug is still there: from step `every` on the index stays what it was. Scores are made anew, so it trains, and what it reads grows worse.
        step % every == 0 -> step == 0
            Your index stays that of the first step: made once, or made again by the first step's tower, w_z[0].
        step % every == 0 -> True
            The index is made anew in every step: that is right, and as dear as having none. Keep it `every` steps.
        step % every == 0 -> step == 0 or step % every == every - 1
            You renew it one step early, in 2, 5, 8. It is renewed in the steps 0, 3, 6.
        step % every == 0 -> step == 0 or step % every == 1 % every
            You renew it one step late, in 1, 4, 7. It is renewed in the steps 0, 3, 6.
        index = passages @ w_z[step] -> index = passages @ w_x[step]
            You embed passages by the tower of questions. Theirs is w_z.
        passages[places] @ w_z[step] -> index[places]
            You score by what was kept. An old index may choose; the scores are made by the tower of now, or it learns nothing.
        asked = questions[step] @ w_x[step] -> asked = questions[step] @ w_x[step - step % every]
            You embed the questions by an old tower. Only the passages are kept.
        topk(k, dim=1) -> topk(k, dim=1, largest=False)
            You take the k worst.
        torch.stack(chosen), torch.stack(scores) -> torch.stack(scores), torch.stack(chosen)
            You return the scores first. The passages that are read come first.
    """),  # noqa: E501
)

EXERCISES = [MARGINAL, LIFT, INDEX]
