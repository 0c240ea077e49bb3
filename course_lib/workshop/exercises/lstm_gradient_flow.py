"""Lesson 02: the steps of LSTM and GRU, the forget gates' product, a memory that lasts 100 steps.

Its two planted bugs are in `lstm_gradient_flow_bugs.py`.
"""

import math

import torch

from course_lib.workshop.exercises import Exercise
from course_lib.workshop.exercises.probes import (
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


def my_lstm_step(x, h, c, w_x, w_h, b):
    i, f, o, g = (x @ w_x + h @ w_h + b).chunk(4, dim=-1)
    i, f, o, g = torch.sigmoid(i), torch.sigmoid(f), torch.sigmoid(o), torch.tanh(g)
    c = f * c + i * g
    return o * torch.tanh(c), c


def gated(cell=lambda i, f, g, c: f * c + i * g, out=lambda o, c, old: o * torch.tanh(c), g_of=torch.tanh):
    """A wrong answer to `my_lstm_step`: the right gates, put together another way."""

    def step(x, h, c, w_x, w_h, b):
        i, f, o, g = (x @ w_x + h @ w_h + b).chunk(4, dim=-1)
        i, f, o, g = torch.sigmoid(i), torch.sigmoid(f), torch.sigmoid(o), g_of(g)
        new = cell(i, f, g, c)
        return out(o, new, c), new

    return step


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
    mistakes={
        "h_of_old_c": gated(out=lambda o, c, old: o * torch.tanh(old)),
        "returns_c_h": lambda x, h, c, w_x, w_h, b: my_lstm_step(x, h, c, w_x, w_h, b)[::-1],
        "h_without_tanh": gated(out=lambda o, c, old: o * c),
        "without_output_gate": gated(out=lambda o, c, old: torch.tanh(c)),
        "c_through_tanh": gated(lambda i, f, g, c: torch.tanh(f * c + i * g)),
        "without_forget_gate": gated(lambda i, f, g, c: c + i * g),
        "without_input_gate": gated(lambda i, f, g, c: f * c + g),
        "g_is_a_gate": gated(g_of=torch.sigmoid),
    },
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
    mistakes={
        "lag_0_is_all": lambda f, lag: f[:, -lag:].prod(dim=1),
        "one_too_many": lambda f, lag: f[:, -lag - 1 :].prod(dim=1),
        "one_too_few": lambda f, lag: f[:, 1 - lag :].prod(dim=1),
        "first_gates": lambda f, lag: f[:, :lag].prod(dim=1),
        "all_gates": lambda f, lag: f.prod(dim=1),
        "added": lambda f, lag: f[:, f.shape[1] - lag :].sum(dim=1),
        "power": lambda f, lag: f[:, -1] ** lag,
        "divided_away": lambda f, lag: f.cumprod(1)[:, -1] / f.cumprod(1)[:, -lag - 1],
    },
)


def my_gru_step(x, h, w_x, w_h, b_x, b_h):
    r_x, z_x, n_x = (x @ w_x + b_x).chunk(3, dim=-1)
    r_h, z_h, n_h = (h @ w_h + b_h).chunk(3, dim=-1)
    r, z = torch.sigmoid(r_x + r_h), torch.sigmoid(z_x + z_h)
    n = torch.tanh(n_x + r * n_h)
    return z * h + (1 - z) * n


def mixed(new=lambda n_x, n_h, r: torch.tanh(n_x + r * n_h), mix=lambda z, r, h, n: z * h + (1 - z) * n):
    """A wrong answer to `my_gru_step`: the right gates, put together another way."""

    def step(x, h, w_x, w_h, b_x, b_h):
        r_x, z_x, n_x = (x @ w_x + b_x).chunk(3, dim=-1)
        r_h, z_h, n_h = (h @ w_h + b_h).chunk(3, dim=-1)
        r, z = torch.sigmoid(r_x + r_h), torch.sigmoid(z_x + z_h)
        return mix(z, r, h, new(n_x, n_h, r))

    return step


def reset_before(x, h, w_x, w_h, b_x, b_h):
    r, z = torch.sigmoid(x @ w_x + b_x + h @ w_h + b_h).chunk(3, dim=-1)[:2]
    (*_, n_x), (*_, w_n), (*_, b_n) = ((x @ w_x + b_x).chunk(3, -1), w_h.chunk(3, -1), b_h.chunk(3, -1))
    return z * h + (1 - z) * torch.tanh(n_x + (r * h) @ w_n + b_n)


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
    mistakes={
        "reset_before": reset_before,
        "without_reset": mixed(new=lambda n_x, n_h, r: torch.tanh(n_x + n_h)),
        "input_reset": mixed(new=lambda n_x, n_h, r: torch.tanh(r * (n_x + n_h))),
        "z_reversed": mixed(mix=lambda z, r, h, n: (1 - z) * h + z * n),
        "mixed_with_r": mixed(mix=lambda z, r, h, n: r * h + (1 - r) * n),
        "candidate_alone": mixed(mix=lambda z, r, h, n: n),
        "n_is_a_gate": mixed(new=lambda n_x, n_h, r: torch.sigmoid(n_x + r * n_h)),
        "without_b_h": lambda x, h, w_x, w_h, b_x, b_h: my_gru_step(x, h, w_x, w_h, b_x, 0 * b_h),
    },
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
    mistakes={
        "usual_start": 1.0,
        "steps": 100.0,
        "one_over_e": math.log(100),
        "wrong_sign": -lag_100(),
        "gate_itself": 2**-0.01,
        "log_of_gate": -0.01 * math.log(2),
        "without_logarithm": 1 / (2**0.01 - 1),
        "base_2": lag_100() / math.log(2),
    },
)


EXERCISES = [STEP, PRODUCT, GRU_STEP, LAG]
