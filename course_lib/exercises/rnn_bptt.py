"""Lesson 01: the step, back-propagation through time, clipping, truncation, a temperature."""

import math

import torch

from course_lib.exercises import Exercise
from course_lib.exercises.probes import OVERFLOW, Case, first_step, narrowed, on, tensors, without
from course_lib.exercises.slips import slips
from course_lib.recurrent.rnn import unroll


def my_step(x, h, w_x, w_h, b):
    return torch.tanh(x @ w_x + h @ w_h + b)


STEP = Exercise(
    solution=my_step,
    cases=on(
        "B D, B H, D H, H H, H",
        narrowed(
            (
                without("h", "b"),
                "With h = 0 and b = 0 it must be tanh(x w_x). Look at the term with x, and at the tanh.",
            ),
            (without("b"), "With b = 0 the answer must be tanh(x w_x + h w_h). Look at the term with h."),
            otherwise="Without a bias you are right; add b inside the tanh, once.",
        ),
    ),
    mistakes=slips("""
        torch.tanh( -> (  # You return the sum itself: tanh is missing around it.
        torch.tanh -> torch.sigmoid  # You squash with sigmoid. This step has a tanh: a state may be negative.
        x @ w_x + h @ w_h -> x @ w_x
            The old state h changes nothing in your step: the term h w_h is missing, so nothing is remembered.
        x @ w_x + h @ w_h -> h @ w_h  # The input x changes nothing in your step: the term x w_x is missing.
        h @ w_h + b -> h @ w_h  # The bias b is missing.
        h @ w_h + b) -> h @ w_h) + b  # You add b outside the tanh. It belongs inside, with the two products.
        h @ w_h -> h @ w_h.T  # You multiply h by w_h transposed. Here states are rows, so it is h @ w_h.
    """),
)


def my_bptt(x, h0, w_x, w_h, b, grad_hs):
    hs = unroll(x, h0, w_x, w_h, b)
    before = torch.cat([h0[:, None], hs[:, :-1]], dim=1)
    grad_w_h, from_later = torch.zeros_like(w_h), torch.zeros_like(h0)
    for t in reversed(range(x.shape[1])):
        da = (grad_hs[:, t] + from_later) * (1 - hs[:, t] ** 2)
        grad_w_h = grad_w_h + before[:, t].T @ da
        from_later = da @ w_h.T
    return grad_w_h


BPTT = Exercise(
    solution=my_bptt,
    cases=on(
        "B T D, B H, D H, H H, H, B T H",
        narrowed(
            (first_step, "A single step is wrong already. There it is h0.T @ (grad_hs[:, 0] * (1 - h_1 ** 2))."),
            otherwise="One step is right, ten are not. Print da_t at every step and compare it with `bptt`.",
        ),
        plain=True,
    ),
    mistakes=slips("""
        da @ w_h.T -> da @ w_h  # On the way back the signal goes through w_h transposed: da_t @ w_h.T.
        * (1 - hs[:, t] ** 2) -> * 1  # The derivative of tanh is missing: multiply by 1 - h_t ** 2 before you go on.
        1 - hs[:, t] ** 2 -> 1 - hs[:, t]  # tanh's slope is 1 - h_t ** 2; the square is missing.
        before[:, t].T -> hs[:, t].T
            Step t read the state *before* it: its share is h_{t-1}.T @ da_t, not h_t.T @ da_t.
        h0[:, None], hs -> hs[:, -1:], hs  # At t = 0, hs[:, t - 1] is the *last* state. Before the first step comes h0.
        from_later = da @ w_h.T -> pass
            Nothing comes back from later steps: pass da_t @ w_h.T on to step t - 1.
        from_later = da @ -> from_later = from_later + da @
            from_later grows by +=. What reaches step t - 1 is da_t @ w_h.T alone: da_t holds the rest.
        grad_w_h = grad_w_h + before -> grad_w_h = before
            Only one step's share is left. The steps share w_h, so their shares add up: use +=.
        (grad_hs[:, t] + from_later) -> (grad_hs[:, t] * (t == x.shape[1] - 1) + from_later)
            Only the last step's loss counts in your answer: add grad_hs[:, t] at every step.
        reversed(range(x.shape[1])) -> range(x.shape[1])
            You walk from the first step to the last. Signals come from later: reversed(range(T)).
        return grad_w_h -> return grad_w_h / x.shape[1]  # You average over the steps. The shares of all steps add up.
        return grad_w_h -> return grad_w_h.T
            Your gradient is transposed: the rows of w_h belong to the old state, so it is h_{t-1}.T @ da_t.
    """),
)


def my_truncated(grad_hs, hs, w_h, chunk):
    da, from_later = torch.zeros_like(hs), torch.zeros_like(hs[:, 0])
    for t in reversed(range(hs.shape[1])):
        da[:, t] = (grad_hs[:, t] + from_later) * (1 - hs[:, t] ** 2)
        from_later = da[:, t] @ w_h.T if t % chunk else torch.zeros_like(from_later)
    return da


TRUNCATED = Exercise(
    solution=my_truncated,
    cases=(
        *on(  # ten steps are no multiple of four: counting from the wrong end shows
            "B T H, B T H, H H",
            narrowed(
                (lambda given: (*list(given.values())[:3], 10), "One chunk over all ten steps is wrong already."),
                otherwise="Without cuts you are right; with chunk = 4 you are not. The cuts are at t = 8 and at t = 4.",
            ),
            4,
            plain=True,
        ),
        Case(tensors("B T H, B T H, H H", 3), "With chunk = 4 you are right, with chunk = 3 you are not."),
        Case(tensors("B T H, B T H, H H", 1), "With chunk = 1 nothing comes from a later step: every step is a chunk."),
        Case(tensors("B T H, B T H, H H", 99), "One chunk of 99 holds the whole text: nothing is cut."),
    ),
    mistakes=slips("""
        if t % chunk -> if True  # You never cut: the signal must stop where a chunk begins, at t = chunk, 2 chunk, ...
        t % chunk -> (t + 1) % chunk
            You cut one step too early: nothing may leave the *first* step of a chunk (t = 0, chunk, 2 chunk, ...).
        t % chunk -> (t - 1) % chunk
            You cut one step too late: clear from_later *after* da_t is known, not before.
        t % chunk -> (hs.shape[1] - t) % chunk
            You count the chunks from the end. Count from the start: the cuts are at t = chunk, 2 chunk, ...
        if t % chunk -> if t != chunk  # Only the first cut is there: cut at every t that `chunk` divides.
        if t % chunk -> if False  # You cut at every step: nothing is learned over time. Cut where a chunk begins.
        grad_hs[:, t] + from_later -> grad_hs[:, t] * ((t + 1) % chunk != 0) + from_later
            The last step of each chunk lost its own grad_hs. Cut what comes from later, not the step's own loss.
        t % chunk -> t % 4  # You cut every 4 steps whatever `chunk` is: use the argument.
        w_h.T -> w_h  # On the way back the signal goes through w_h transposed: da_t @ w_h.T.
        * (1 - hs[:, t] ** 2) -> * 1  # The derivative of tanh is missing: multiply by 1 - h_t ** 2.
    """),
)


def my_probabilities(logits, temperature):
    scaled = (logits - logits.max(dim=-1, keepdim=True).values) / temperature
    weights = torch.exp(scaled)
    return weights / weights.sum(dim=-1, keepdim=True)


PROBABILITIES = Exercise(
    solution=my_probabilities,
    cases=(
        *on(
            "B V",
            narrowed(
                (
                    lambda given: (given["logits"], 1.0),
                    "At temperature 1 it must be the softmax over the last dimension.",
                ),
                otherwise="At temperature 1/2 the answer must be the softmax of logits / 0.5.",
            ),
            0.5,
        ),
        Case(lambda: (torch.tensor([[0.0, 1.0], [-3e3, -2e3]]), 1.0), "Rows that lie far apart come out wrong."),
        Case(lambda: (torch.tensor([[300.0, 100.0, 299.0], [-300.0, -301.0, -500.0]]), 2.0), OVERFLOW),
    ),
    mistakes=slips("""
        .values) / temperature -> .values)  # The temperature changes nothing in your answer.
        / temperature -> * temperature
            You multiply by the temperature. Divide: a low temperature must make the likely symbol likelier.
        .values) / temperature -> .values)
        .sum(dim=-1, keepdim=True) -> .sum(dim=-1, keepdim=True) / temperature
            You divide the probabilities, so that they no longer sum to 1. Divide the logits, before softmax.
        dim=-1 -> dim=0  # The columns sum to 1, not the rows: the symbols lie along the last dimension.
        - logits.max(dim=-1, keepdim=True).values -> - 0
        weights.sum(dim=-1, keepdim=True) -> weights.sum()
            All rows together sum to 1. Every row is a distribution of its own: sum over the last dimension.
        return weights / weights.sum(dim=-1, keepdim=True) -> return torch.log_softmax(scaled, -1)
            These are logarithms of probabilities: leave out the log.
        - logits.max(dim=-1, keepdim=True).values -> - 0
            Large logits overflow exp. Subtract each row's largest logit first; it cancels in the fraction.
        (logits - logits.max(dim=-1, keepdim=True).values) -> logits.clamp(-30, 30)
            Large logits give no error and a wrong answer. Do not cut them off: subtract each row's largest first.
        logits.max(dim=-1, keepdim=True).values -> logits.max()
            You subtract one number from all rows, and in a row of small logits exp vanishes: each row needs its own.
    """),
)


def my_clip(grads, max_norm):
    norm = math.sqrt(sum(float((g**2).sum()) for g in grads))
    scale = min(1.0, max_norm / norm) if norm > 0 else 1.0
    return [g * scale for g in grads]


def gradients(first=1.0, second=3.0):
    return [first * torch.randn(4, 3).double(), second * torch.randn(5).double()], 2.0  # 1 would hide some mistakes


CLIP = Exercise(
    solution=my_clip,
    cases=(
        Case(gradients, "All gradients together must have norm max_norm = 2 and keep their direction. Yours do not."),
        Case(lambda: gradients(1e-3, 1e-3), "A short gradient must stay as it is. Clipping only ever shortens."),
        Case(lambda: gradients(0.0, 0.0), "A gradient of zero stays zero: do not divide by its norm."),
        Case(lambda: ([torch.randn(9)], 2.0), "With a single tensor, in single precision, the answer is wrong."),
        Case(lambda: ([torch.tensor([0.6, -0.8])], 0.5), "With max_norm = 0.5, [0.6, -0.8] becomes [0.3, -0.4]."),
        Case(lambda: ([torch.tensor([3.0, -4.0])], 5.0), "A gradient of length max_norm, here 5, stays as it is."),
        Case(lambda: ([torch.tensor([3.0, -4.0])], 7.0), "With max_norm = 7, [3, -4] has length 5 and stays as it is."),
    ),
    mistakes=slips("""
        g * scale for -> g * min(1.0, max_norm / float(g.norm())) for
            You clip each tensor on its own, which turns the direction. Use one norm, over all of them together.
        g * scale for -> g.clamp(-max_norm, max_norm) for
            You clip single entries, which turns the direction. Scale all of them by one common factor.
        g * scale for -> g for
            The gradients come back as they were. Together they are longer than max_norm, so scale them down.
        math.sqrt( -> float(  # You divide by the squared norm: the square root is missing.
        max_norm / norm -> 1 / norm  # You scale to length 1, not to max_norm: the factor is max_norm / norm.
        min(1.0, max_norm / norm) -> norm / max_norm  # Your factor is upside down: it is max_norm / norm.
        (g**2).sum()) -> g.norm())
        math.sqrt( -> float(  # You add the norms. Add the squares of all entries, then take one root.
        math.sqrt(sum( -> max(list(
        (g**2).sum()) -> g.norm())
            You use the longest tensor's norm. Use one norm, over all of them together.
        min(1.0, max_norm / norm) -> max_norm / norm
            A short gradient must stay as it is: you lengthen it. Clipping only ever shortens.
        if norm > 0 else 1.0 -> if True else 1.0  # All gradients may be zero: do not divide by a norm of 0.
    """),
)

EXERCISES = [STEP, BPTT, CLIP, TRUNCATED, PROBABILITIES]
