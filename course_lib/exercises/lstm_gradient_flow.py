"""Lesson 02: the steps of LSTM and GRU, the forget gates' product, a memory that lasts 100 steps.

Its two planted bugs are in `lstm_gradient_flow_bugs.py`, what is asked in `lstm_gradient_flow_questions.py`.
"""

import math

import torch

from course_lib.exercises import Exercise
from course_lib.exercises.probes import (
    NO_GRADIENT,
    OTHER_SIZES,
    SINGLE,
    Case,
    is_number,
    narrowed,
    on,
    order_read,
    pulled,
    without,
)
from course_lib.exercises.slips import slips


def my_lstm_step(x, h, c, w_x, w_h, b):
    i, f, o, g = (x @ w_x + h @ w_h + b).chunk(4, dim=-1)
    i, f, o, g = torch.sigmoid(i), torch.sigmoid(f), torch.sigmoid(o), torch.tanh(g)
    c = f * c + i * g
    return o * torch.tanh(c), c


STEP = Exercise(
    solution=my_lstm_step,
    cases=on(
        "B D, B H, B H, D 4H, H 4H, 4H",
        order_read(
            "ifog",
            3,
            narrowed(
                (
                    without("w_x", "w_h", "b"),
                    "With all weights zero c must become c / 2, and h tanh(c / 2) / 2: gates at 1/2.",
                ),
                (without("h", "c", "b"), "With h, c and b zero only x speaks. Look at x @ w_x, its four parts, i * g."),
                (without("c", "b"), "With h = 0 you are right, with another h you are not: look at h @ w_h."),
                (without("b"), "With c = 0 you are right: look at what multiplies the old c."),
                otherwise="Without a bias you are right: add b once, before the sigmoids and the tanh.",
            ),
        ),
    ),
    mistakes=slips("""
        c = f * c + i * g -> old, c = c, f * c + i * g
        o * torch.tanh(c) -> o * torch.tanh(old)
            Your h is made of the old c. What a step writes must show at once: first the new c, then o * tanh(c).
        return o * torch.tanh(c), c -> return c, o * torch.tanh(c)  # The results are in the wrong order: return h, c.
        o * torch.tanh(c) -> o * c  # The tanh is missing around c where h is made: h = o * tanh(c).
        o * torch.tanh(c) -> torch.tanh(c)  # The output gate o is missing: h = o * tanh(c).
        c = f * c + i * g -> c = torch.tanh(f * c + i * g)
            You put c itself through tanh. It must stay a plain sum, or tanh's slope shrinks the gradient at every step.
        f * c + i * g -> c + i * g  # The forget gate f is missing (1997 had none): the old c comes in as f * c.
        f * c + i * g -> f * c + g  # The input gate i is missing: what is new comes in as i * g.
        f * c + i * g -> f * c + (1 - f) * g  # You write with 1 - f. The LSTM's input gate i is a gate of its own.
        f * c + i * g -> f * (c + i * g)  # You forget what you have just written: f multiplies the old c alone.
        torch.tanh(g) -> torch.sigmoid(g)  # g has a sigmoid. It is no gate but what is written, and needs a sign: tanh.
        .chunk(4, dim=-1) -> .unflatten(-1, (-1, 4)).unbind(-1)
            You take every fourth number for a gate. The four lie side by side, each H wide: chunk(4, dim=-1).
        h @ w_h + b -> h @ w_h  # The bias b is missing.
        + h @ w_h + b -> + b  # The old state h changes nothing: the gates must read it too, h @ w_h.
        h @ w_h + b -> c @ w_h + b  # Your gates read c where they must read h: h @ w_h.
    """),
)


def my_forget_product(f, lag):
    return f[:, f.shape[1] - lag :].prod(dim=1)


def gates(T=7, lag=3, shut=()):
    f = torch.sigmoid(torch.randn(2, T, 5, dtype=torch.float64))
    f[:, list(shut)] = 0
    return f, lag


PRODUCT = Exercise(
    solution=my_forget_product,
    cases=(
        Case(
            gates,
            narrowed(
                (
                    lambda given: (given["f"], 1),
                    "For lag 1 the answer is the last gate alone: c_T = f_T * c_{T-1} + ...",
                ),
                otherwise="Lag 1 is right and lag 3 is not. It is f_T * f_{T-1} * f_{T-2}, number by number.",
            ),
        ),
        Case(lambda: gates(shut=(2,)), "A gate that is shut (0) before the window spoils yours: divide nothing away."),
        Case(lambda: gates(lag=7), "For lag = T all gates multiply. Yours loses its way at the run's beginning."),
        Case(lambda: gates(lag=0), "For lag 0 no gate lies between c_T and itself: the answer is ones, (B, H)."),
        Case(lambda: (gates()[0][:1, :, :1], 3), OTHER_SIZES),
        Case(gates, NO_GRADIENT, ask=pulled),
        Case(lambda: (gates()[0].float(), 3), SINGLE),
    ),
    mistakes=slips("""
        f.shape[1] - lag -> -lag  # Lag 0 gives the product of all gates: -0 is 0, f[:, -0:] is the whole run, not ones.
        f.shape[1] - lag -> -lag - 1  # One gate too many: `lag` steps, and the first of them is T - lag + 1.
        f.shape[1] - lag -> 1 - lag  # One gate is missing: `lag` steps lie between, so `lag` gates multiply.
        f.shape[1] - lag : -> -lag - 1 : -1  # Your window ends one step early. The last gate, f_T, belongs to it.
        f.shape[1] - lag : -> : lag  # These are the first gates of the run. Back from c_T lie the last ones.
        f.shape[1] - lag : -> :  # All gates of the run are in your product, whatever `lag` is. Take the last `lag`.
        prod(dim=1) -> sum(dim=1)  # You add the gates. The chain rule multiplies from step to step.
        prod(dim=1) -> prod(dim=1, keepdim=True)  # The dimension of time is still there: multiply without keepdim.
        f[:, f.shape[1] - lag :].prod(dim=1) -> f[:, -1] ** lag  # Every step has a gate of its own, not the last one.
        f[:, -> (1 - f)[:,  # 1 - f is what is lost. What comes through a step is f.
        f[:, f.shape[1] - lag :].prod(dim=1) -> f.cumprod(1)[:, -1] / f.cumprod(1)[:, -lag - 1]
            You divide a longer product by a shorter one: 0 / 0 where a gate is shut. Multiply the gates you need.
    """),
)


def my_gru_step(x, h, w_x, w_h, b_x, b_h):
    r_x, z_x, n_x = (x @ w_x + b_x).chunk(3, dim=-1)
    r_h, z_h, n_h = (h @ w_h + b_h).chunk(3, dim=-1)
    r, z = torch.sigmoid(r_x + r_h), torch.sigmoid(z_x + z_h)
    n = torch.tanh(n_x + r * n_h)
    return z * h + (1 - z) * n


GRU_STEP = Exercise(
    solution=my_gru_step,
    cases=on(
        "B D, B H, D 3H, H 3H, 3H, 3H",
        order_read(
            "rzn",
            2,
            narrowed(
                (without("w_x", "w_h", "b_x", "b_h"), "With all weights zero both gates are 1/2, n is 0: h / 2."),
                (
                    without("h", "b_x", "b_h"),
                    "With h and the biases zero it is (1 - z) * n of x alone: look at x @ w_x.",
                ),
                (without("b_x", "b_h"), "With h = 0 you are right: look at h @ w_h, and at r inside n."),
                (without("b_h"), "Without biases you are right: add b_x to x @ w_x, once, in all three."),
                otherwise="With b_h = 0 you are right: add b_h to h @ w_h, once, before r multiplies.",
            ),
        ),
    ),
    mistakes=slips("""
        r * n_h -> (r * h) @ w_h.chunk(3, -1)[2] + b_h.chunk(3, -1)[2]
            This is the form of Cho et al.: r * h goes through w_h. In PyTorch's, h goes through w_h first, then r acts.
        r * n_h -> r * (h @ w_h.chunk(3, -1)[2]) + b_h.chunk(3, -1)[2]
            b_h stands outside the reset product. In PyTorch's form r multiplies h w_h + b_h, the bias included.
        r * n_h -> n_h  # The reset gate r is missing: the state's share of n comes in as r * (h w_h + b_h).
        n_x + r * n_h -> r * (n_x + n_h)  # r multiplies the input's share too. It resets what comes from h alone.
        z * h + (1 - z) * n -> (1 - z) * h + z * n
            z and 1 - z are exchanged. In PyTorch's form z = 1 keeps the old state: z * h + (1 - z) * n.
        z * h + (1 - z) * n -> r * h + (1 - r) * n  # You mix with r. Mixing is z's work, r's is inside n.
        z * h + (1 - z) * n -> n  # You return n, the candidate. The new state is z * h + (1 - z) * n.
        torch.tanh(n_x -> torch.sigmoid(n_x  # n has a sigmoid. It is no gate but a new state, and needs a sign: tanh.
        h @ w_h + b_h -> h @ w_h  # The bias b_h is missing.
    """),
)


def lag_100():
    f = 2 ** (-1 / 100)
    return math.log(f / (1 - f))


def check_lag_100(answer) -> str | None:
    if not is_number(answer):
        return "Answer with one number, b."
    b = float(answer)
    if not math.isfinite(b):
        return "Your answer is no finite number: is there a logarithm of 0 or of a negative number on the way?"
    # softplus(-b) = -log(sigmoid(b)), and stays exact where the sigmoid is 1 in every digit
    rate = math.log1p(math.exp(-abs(b))) + max(-b, 0)
    after = f"{math.log(2) / rate:.3g} steps" if rate > 1e-9 else "a billion steps or more"
    wrong = f"With b = {b:.4g} half is left after {after}, not after 100 steps: open the gate"
    return None if abs(b - lag_100()) <= 0.02 else f"{wrong} {'wider' if b < lag_100() else 'less wide'}."


LAG = Exercise(
    solution=lag_100,
    check=check_lag_100,
    value=True,
    mistakes=(
        (1.0, "b = 1, the usual start, opens the gate to 0.731: half is gone after 2.2 steps. It must be open wider."),
        (100.0, "100 is the number of steps. As a bias it opens the gate so wide that nothing is ever forgotten."),
        (
            math.log(100),
            "log(100) is right for 1/e, 37 %, left after 100 steps. Here a half: the gate is a little wider.",
        ),
        (-lag_100(), "The right size and the wrong sign: this gate is open by 0.7 %, and one step forgets nearly all."),
        (2**-0.01, "This is the gate itself, f = 2 ** (-1/100). Asked is the bias that opens it so: undo the sigmoid."),
        (-0.01 * math.log(2), "This is log(f). Undoing the sigmoid takes log(f / (1 - f))."),
        (1 / (2**0.01 - 1), "This is f / (1 - f). The logarithm is missing."),
        (lag_100() / math.log(2), "You took the logarithm to base 2. The sigmoid is made with e: math.log."),
        (0.5, "1/2 is what must be left after 100 steps. Which gate leaves it, and which bias opens that gate?"),
        (5.0, "half is left after 103 steps, not after 100 steps: open the gate less wide."),
    ),
)


EXERCISES = [STEP, PRODUCT, GRU_STEP, LAG]
