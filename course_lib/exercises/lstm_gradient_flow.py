"""Lesson 02: the LSTM's step, the forget gates' product, the GRU's step, three planted bugs, lag 100."""

import itertools
import math
from collections.abc import Callable, Iterable

import torch
from torch import Tensor, sigmoid, tanh

from course_lib.exercises import Exercise, Quiz
from course_lib.lstm import gru_step, lstm_step


def close(a, b) -> bool:
    """Whether two tensors, or two tuples of tensors, hold the same numbers."""
    if isinstance(b, tuple):
        return isinstance(a, (tuple, list)) and len(a) == len(b) and all(map(close, a, b))
    return isinstance(a, Tensor) and a.shape == b.shape and torch.allclose(a.to(b.dtype), b, atol=1e-6, rtol=1e-5)


def numbers(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)


def named(got, mistakes: Iterable[tuple[Callable, str]], *arguments) -> str | None:
    """The message of the first known mistake that gives just what the answer gave."""
    return next((message for wrong, message in mistakes if close(got, wrong(*arguments))), None)


def not_a_state_pair(got, shape: tuple[int, ...]) -> str | None:
    """What is wrong with the form of an answer that should be (h, c), each of `shape`."""
    if not isinstance(got, (tuple, list)) or len(got) != 2 or not all(isinstance(part, Tensor) for part in got):
        what = f"of the type {type(got).__name__}" + (f", {len(got)} long" if isinstance(got, (tuple, list)) else "")
        if isinstance(got, Tensor):
            what = f"a tensor of shape {tuple(got.shape)}"
        return f"Return two tensors, the new h and the new c: `return h, c`. Yours is {what}."
    if any(part.shape != shape for part in got):
        shapes = " and ".join(str(tuple(part.shape)) for part in got)
        return f"The new h and the new c must have shape (B, H) = {shape} each; yours are {shapes}."
    return None


# 1 · the step of the LSTM -----------------------------------------------------------------------------------


def my_lstm_step(x, h, c, w_x, w_h, b):
    i, f, o, g = (x @ w_x + h @ w_h + b).chunk(4, dim=-1)
    i, f, o, g = torch.sigmoid(i), torch.sigmoid(f), torch.sigmoid(o), torch.tanh(g)
    c = f * c + i * g
    return o * torch.tanh(c), c


def lstm_like(order="ifog", cell=lambda c, i, f, o, g: f * c + i * g, out=lambda c, old, o: o * tanh(c), scores=None,
              **squash):
    """`my_lstm_step` with one thing another: the gates' order, the new c, the new h, the scores, a gate's squashing."""
    def answer(x, h, c, w_x, w_h, b):
        every = scores(x, h, c, w_x, w_h, b) if scores else x @ w_x + h @ w_h + b
        squashed = {name: squash.get(name, tanh if name == "g" else sigmoid)(part)
                    for name, part in zip(order, every.chunk(4, dim=-1), strict=True)}
        new = cell(c, *(squashed[name] for name in "ifog"))
        return out(new, c, squashed["o"]), new
    return answer


def swapped(step):
    return lambda *arguments: step(*arguments)[::-1]


def as_it_is(part):
    return part


def interleaved(x, h, c, w_x, w_h, b):
    i, f, o, g = (x @ w_x + h @ w_h + b).view(*h.shape, 4).unbind(-1)
    c = sigmoid(f) * c + sigmoid(i) * tanh(g)
    return sigmoid(o) * tanh(c), c


# Mistakes in the recurrence, whichever way the gates were read.
CELL_MISTAKES = (
    (swapped(my_lstm_step), "The two results are in the wrong order: return h first, then c."),
    (lambda x, h, c, w_x, w_h, b: (h, c), "h and c come back as they went in: the new ones are lost."),
    (lambda x, h, c, w_x, w_h, b: (my_lstm_step(x, h, c, w_x, w_h, b)[0], c),
     "Your h is right, but the c that comes back is the old one: nothing that is read is kept. Return the new c."),
    (lstm_like(out=lambda c, old, o: o * tanh(old)),
     "Your h is made of the old c. What a step writes must show at once: first the new c, then o * tanh(c)."),
    (lstm_like(out=lambda c, old, o: o * c), "The tanh is missing around c where h is made: h = o * tanh(c)."),
    (lstm_like(out=lambda c, old, o: tanh(c)), "The output gate o is missing: h = o * tanh(c)."),
    (lstm_like(out=lambda c, old, o: tanh(o * c)), "o belongs outside the tanh: h = o * tanh(c), not tanh(o * c)."),
    (lstm_like(out=lambda c, old, o: o * sigmoid(c)), "h is made with tanh: o * tanh(c). Yours has a sigmoid there."),
    (lstm_like(out=lambda c, old, o: o + tanh(c)), "You add o. A gate multiplies: h = o * tanh(c)."),
    (lstm_like(cell=lambda c, i, f, o, g: tanh(f * c + i * g), out=lambda c, old, o: o * c),
     "You put c itself through tanh. It must stay a plain sum, or the tanh's slope shrinks the gradient at every "
     "step: tanh is for h alone."),
    (lstm_like(cell=lambda c, i, f, o, g: tanh(f * c + i * g)),
     "There is a tanh around the new c, and another where h is made. Only the second belongs there."),
    (lstm_like(cell=lambda c, i, f, o, g: c + i * g),
     "The forget gate f is missing (the LSTM of 1997 had none): the old c comes in as f * c."),
    (lstm_like(cell=lambda c, i, f, o, g: f * c + g), "The input gate i is missing: what is new comes in as i * g."),
    (lstm_like(cell=lambda c, i, f, o, g: f * c), "Nothing is written: i * g is missing from the new c."),
    (lstm_like(cell=lambda c, i, f, o, g: i * g), "Nothing is kept: f * c is missing from the new c."),
    (lstm_like(cell=lambda c, i, f, o, g: f * c + (1 - f) * g),
     "You write with 1 - f in place of the input gate. The LSTM's i is a gate of its own."),
    (lstm_like(cell=lambda c, i, f, o, g: (1 - f) * c + i * g),
     "f is upside down: f = 1 keeps the old c, so it is f * c and not (1 - f) * c."),
    (lstm_like(cell=lambda c, i, f, o, g: f * (c + i * g)),
     "You forget what you have just written: f multiplies the old c alone."),
    (lstm_like(cell=lambda c, i, f, o, g: (f + c) * (i + g)),
     "Times and plus are exchanged: gates multiply, then the two products add up, f * c + i * g."),
    (lstm_like(cell=lambda c, i, f, o, g: f + c + i + g), "You only add. A gate multiplies: f * c + i * g."),
    (lstm_like(cell=lambda c, i, f, o, g: f * c * i * g), "You multiply all four. Two products add: f * c + i * g."),
    (lstm_like(cell=lambda c, i, f, o, g: f * c - i * g), "You take i * g away from f * c. The two products add."),
)
GATE_MISTAKES = (
    *((lstm_like(order="".join(order)),
       f"You read the gates in the order {', '.join(order)}"
       + (", PyTorch's own." if order == tuple("ifgo") else ".") + " Here they lie i, f, o, g.")
      for order in itertools.permutations("ifog") if order != tuple("ifog")),
    (interleaved, "You take every fourth number for a gate. The four lie side by side, each H wide: chunk(4, dim=-1)."),
    (lstm_like(g=sigmoid), "g has a sigmoid. It is no gate but what is written, and needs a sign: tanh."),
    (lstm_like(g=as_it_is), "g is not squashed: it needs a tanh."),
    *((lstm_like(**{name: tanh}), f"The gate {name} has a tanh. A gate opens from 0 to 1: sigmoid.") for name in "ifo"),
    *((lstm_like(**{name: as_it_is}), f"The gate {name} is not squashed: it needs a sigmoid.") for name in "ifo"),
    (lstm_like(scores=lambda x, h, c, w_x, w_h, b: x @ w_x + h @ w_h), "The bias b is missing."),
    (lstm_like(scores=lambda x, h, c, w_x, w_h, b: x @ w_x + h @ w_h + 2 * b), "The bias b is added twice."),
    (lstm_like(scores=lambda x, h, c, w_x, w_h, b: x @ w_x + b),
     "The old state h changes nothing: the gates must read it too, h @ w_h."),
    (lstm_like(scores=lambda x, h, c, w_x, w_h, b: h @ w_h + b), "x changes nothing: the gates must read it, x @ w_x."),
    (lstm_like(scores=lambda x, h, c, w_x, w_h, b: x @ w_x + c @ w_h + b),
     "Your gates read c where they must read h: h @ w_h."),
    (lstm_like(scores=lambda x, h, c, w_x, w_h, b: x @ w_x + (h + c) @ w_h + b),
     "Your gates read h + c. They read h alone; c meets them only in f * c."),
)


def lstm_probe(step) -> str | None:
    """Where a step that fits no known mistake goes wrong first, one term at a time."""
    x, h, c, w_x, w_h, b = numbers(3, 4), numbers(3, 5), numbers(3, 5), numbers(4, 20), numbers(5, 20), numbers(20)
    zero = torch.zeros_like
    got = step(x, h, c, zero(w_x), zero(w_h), zero(b))
    if not close(got[1], c / 2):
        return ("With all weights and biases zero every gate is 1/2 and g is 0, so the new c must be half the old one. "
                "Yours is not: look at the sigmoids, and at f * c + i * g.")
    if not close(got[0], tanh(c / 2) / 2):
        return ("With all weights and biases zero your c is right, and h should be tanh(c / 2) / 2. Look at how h "
                "is made.")
    for arguments, message in (
        ((x, zero(h), zero(c), w_x, w_h, zero(b)), "With h, c and b zero only x w_x speaks, and that is wrong already. "
                                                   "Look at x @ w_x, at how it is cut in four, and at i * g."),
        ((x, h, zero(c), w_x, w_h, zero(b)), "With h = 0 you are right, with another h you are not: look at h @ w_h."),
        ((x, h, c, w_x, w_h, zero(b)), "With c = 0 you are right, with another c you are not: look at what "
                                       "multiplies the old c."),
        ((x, h, c, w_x, w_h, b), "Without a bias you are right: add b once, before the sigmoids and the tanh."),
    ):
        if not close(step(*arguments), lstm_step(*arguments)):
            return message
    return None


def lstm_at_the_edges(step) -> str | None:
    """What random numbers of one size do not show: another size, large scores, the way back."""
    small = numbers(1, 2), numbers(1, 1), numbers(1, 1), numbers(2, 4), numbers(1, 4), numbers(4)
    if not close(step(*small), lstm_step(*small)):
        return ("With B = 3, D = 4, H = 5 you are right, with B = 1, D = 2, H = 1 you are not: is a size written into "
                "the code, or a dimension squeezed away?")
    large = [part * 1000 for part in small]
    if not close(step(*large), lstm_step(*large)):
        return "Large numbers come out wrong (as NaN where exp overflows): torch.sigmoid and torch.tanh bear them."
    asked = [part.clone().requires_grad_() for part in small]
    if not all(part.requires_grad for part in step(*asked)):
        return "The numbers are right, but no gradient flows back: leave out detach, .data and no_grad."
    return None


def check_lstm_step(step) -> str | None:
    arguments = numbers(3, 4), numbers(3, 5), numbers(3, 5), numbers(4, 20), numbers(5, 20), numbers(20)
    got = step(*arguments)
    return (not_a_state_pair(got, (3, 5)) or named(got, CELL_MISTAKES + GATE_MISTAKES, *arguments)
            or lstm_probe(step) or lstm_at_the_edges(step))


def lstm_by_exp(x, h, c, w_x, w_h, b):
    def by_exp(a):
        return (torch.exp(a) - torch.exp(-a)) / (torch.exp(a) + torch.exp(-a))
    return lstm_like(g=by_exp, out=lambda c, old, o: o * by_exp(c))(x, h, c, w_x, w_h, b)


LSTM_WRONG = (
    *CELL_MISTAKES, *GATE_MISTAKES,
    (lambda x, h, c, w_x, w_h, b: my_lstm_step(x, h, c, w_x, w_h, b)[0], "Yours is a tensor of shape (3, 5)"),
    (lambda x, h, c, w_x, w_h, b: [*my_lstm_step(x, h, c, w_x, w_h, b), c], "Yours is of the type list, 3 long"),
    (lambda x, h, c, w_x, w_h, b: my_lstm_step(x, h, c, w_x, w_h.T, b), "shapes cannot be multiplied"),
    (lambda x, h, c, w_x, w_h, b: tuple(part.T for part in my_lstm_step(x, h, c, w_x, w_h, b)), "(5, 3) and (5, 3)"),
    (lambda x, h, c, w_x, w_h, b: my_lstm_step(x, h, c.mul_(1.5), w_x, w_h, b), "changes its input `c` in place"),
    (lstm_like(i=torch.relu, f=torch.relu, o=torch.relu), "every gate is 1/2"),
    (lstm_like(out=lambda c, old, o: o * o * tanh(c)), "your c is right"),
    (lambda x, h, c, w_x, w_h, b: my_lstm_step(2 * x, h, c, w_x, w_h, b), "wrong already"),
    (lambda x, h, c, w_x, w_h, b: my_lstm_step(x, 2 * h, c, w_x, w_h, b), "With h = 0 you are right"),
    (lstm_like(cell=lambda c, i, f, o, g: o * c + i * g), "With c = 0 you are right"),
    (lambda x, h, c, w_x, w_h, b: my_lstm_step(x, h, c, w_x, w_h, b / 2), "Without a bias you are right"),
    (lambda x, h, c, w_x, w_h, b: tuple(part.squeeze() for part in my_lstm_step(x, h, c, w_x, w_h, b)),
     "is a size written"),
    (lstm_by_exp, "Large numbers come out wrong"),
    (lambda *arguments: tuple(part.detach() for part in my_lstm_step(*arguments)), "no gradient flows back"),
)


# 2 · the product of forget gates --------------------------------------------------------------------------


def my_forget_product(f, lag):
    return f[:, f.shape[1] - lag:].prod(dim=1)


PRODUCTS = (
    (lambda f, lag: f[:, -lag - 1:].prod(1),
     "One gate too many: from c_{T-lag} to c_T there are `lag` steps, and the first gate on the way is that of step "
     "T - lag + 1."),
    (lambda f, lag: f[:, 1 - lag:].prod(1), "One gate is missing: `lag` steps lie between, so `lag` gates multiply."),
    (lambda f, lag: f[:, -lag - 1:-1].prod(1),
     "Your window ends one step early. c_T = f_T * c_{T-1} + ..., so the last gate, f_T, belongs to it."),
    (lambda f, lag: f[:, :lag].prod(1), "These are the first gates of the run. Back from c_T lie the last ones."),
    (lambda f, lag: f[:, :f.shape[1] - lag].prod(1), "These are the gates before c_{T-lag}. Take those after it."),
    (lambda f, lag: f.prod(1), "All gates of the run are in your product, whatever `lag` is. Take the last `lag`."),
    (lambda f, lag: f[:, -lag:].sum(1), "You add the gates. The chain rule multiplies from step to step."),
    (lambda f, lag: f[:, -lag:].mean(1), "You average the gates. The chain rule multiplies them."),
    (lambda f, lag: f[:, -lag:].log().sum(1), "This is the logarithm of the product: exp is missing."),
    (lambda f, lag: f[:, -lag:].prod(1) ** (1 / lag), "This is the mean gate (geometric). Leave out the root."),
    (lambda f, lag: f[:, -1] ** lag, "You use the last gate for every step. Every step has a gate of its own."),
    (lambda f, lag: f[:, -lag:].mean(1) ** lag, "A power of the mean gate is not the product of the gates."),
    (lambda f, lag: f.mean(1) ** lag, "You raise the mean gate of the whole run to a power. Multiply the last gates."),
    (lambda f, lag: f[:, -lag], "This is a single gate, that of one step. The gates of all steps since multiply."),
    (lambda f, lag: (1 - f[:, -lag:]).prod(1), "1 - f is what is lost. What comes through a step is f."),
    (lambda f, lag: sigmoid(f)[:, -lag:].prod(1), "f holds gates already, between 0 and 1: no second sigmoid."),
    (lambda f, lag: f[:, -lag:].cumprod(1).sum(1), "You add up the products of all lags. Only the whole one is asked."),
)
PRODUCT_SHAPES = {
    (): "You multiplied everything into one number. Every sequence and every unit has a product of its own, (B, H).",
    (3, 5): "You multiplied over the batch (dim=0). The steps lie along dim=1.",
    (2, 3): "You multiplied over the units (the last dimension). The steps lie along dim=1.",
    (2, 3, 5): "There is a number for every step left. Only the whole product is asked: (B, H).",
    (2, 7, 5): "This has the shape of f, (B, T, H). The steps multiply into one number for each unit: (B, H).",
    (2, 1, 5): "The dimension of time is still there, with length 1. Multiply without keepdim.",
}


def check_forget_product(answer) -> str | None:
    f = sigmoid(numbers(2, 7, 5))
    got = answer(f, 3)
    if not isinstance(got, Tensor) or got.shape != (2, 5):
        shape = tuple(got.shape) if isinstance(got, Tensor) else type(got).__name__
        return PRODUCT_SHAPES.get(shape, f"Return one number for each sequence and unit, (B, H) = (2, 5); "
                                         f"yours is {shape}.")
    if message := named(got, PRODUCTS, f, 3):
        return message
    if not close(answer(f, 1), f[:, -1]):
        return "For lag 1 the answer is the last gate alone, f[:, -1]: c_T = f_T * c_{T-1} + i_T * g_T."
    if not close(got, f[:, -3] * f[:, -2] * f[:, -1]):
        return "Lag 1 is right and lag 3 is not. It is f_T * f_{T-1} * f_{T-2}, number by number."
    shut = f.clone()
    shut[:, 2], shut[0, -2] = 0, 0  # one gate shut before the window, in the first sequence one inside it too
    if not close(answer(shut, 3), shut[:, -3] * shut[:, -2] * shut[:, -1]):
        return "A gate that is shut (exactly 0) spoils your answer: multiply the gates you need, divide nothing away."
    if not close(answer(f, 7), f.prod(1)):
        return "For lag = T all gates multiply, from the first to the last. Yours loses its way at the run's beginning."
    nothing = answer(f, 0)
    if close(nothing, f.prod(1)):
        return "Lag 0 gives the product of all gates: -0 is 0, and f[:, -0:] is the whole run. It must be ones."
    if not close(nothing, torch.ones_like(f[:, 0])):
        return "For lag 0 no gate lies between c_T and itself: the answer is ones, of shape (B, H)."
    if not answer(f.clone().requires_grad_(), 3).requires_grad:
        return "The numbers are right, but they hang on nothing: stay with torch operations on f."
    return None


def in_place_product(f, lag):
    product = f[:, -1]
    for t in range(2, lag + 1):
        product *= f[:, -t]
    return product


def divided(f, lag):
    upto = f.cumprod(1)
    return upto[:, -1] / upto[:, -lag - 1] if lag < f.shape[1] else upto[:, -1]


def backwards(f, lag):
    product = torch.ones_like(f[:, 0])
    for t in range(f.shape[1] - 1, f.shape[1] - 1 - lag, -1):
        product = product * f[:, max(t, 1)]
    return product


PRODUCT_WRONG = (
    *PRODUCTS,
    (lambda f, lag: f[:, -lag:].prod(), PRODUCT_SHAPES[()]),
    (lambda f, lag: f[:, -lag:].prod(0), PRODUCT_SHAPES[3, 5]),
    (lambda f, lag: f[:, -lag:].prod(-1), PRODUCT_SHAPES[2, 3]),
    (lambda f, lag: f[:, -lag:].cumprod(1), PRODUCT_SHAPES[2, 3, 5]),
    (lambda f, lag: f.cumprod(1), PRODUCT_SHAPES[2, 7, 5]),
    (lambda f, lag: f[:, -lag:].prod(1, keepdim=True), PRODUCT_SHAPES[2, 1, 5]),
    (lambda f, lag: f[:, -lag:].prod(1).T, "yours is (5, 2)"),
    (lambda f, lag: f[:, -lag:].prod(1).tolist(), "yours is list"),
    (lambda f, lag: f[:, -lag::2].prod(1), "Lag 1 is right and lag 3 is not"),
    (lambda f, lag: 2 * f[:, -lag:].prod(1), "For lag 1 the answer is the last gate"),
    (lambda f, lag: f[:, -lag:].prod(1), "-0 is 0"),
    (lambda f, lag: f[:, f.shape[1] - lag:].prod(1) * (lag > 0), "no gate lies between c_T and itself"),
    (divided, "divide nothing away"),
    (backwards, "at the run's beginning"),
    (in_place_product, "changes its input `f` in place"),
    (lambda f, lag: torch.tensor(my_forget_product(f, lag).tolist(), dtype=f.dtype), "hang on nothing"),
)


# 3 · the step of the GRU ----------------------------------------------------------------------------------


def my_gru_step(x, h, w_x, w_h, b_x, b_h):
    r_x, z_x, n_x = (x @ w_x + b_x).chunk(3, dim=-1)
    r_h, z_h, n_h = (h @ w_h + b_h).chunk(3, dim=-1)
    r, z = torch.sigmoid(r_x + r_h), torch.sigmoid(z_x + z_h)
    n = torch.tanh(n_x + r * n_h)
    return z * h + (1 - z) * n


def gru_like(order="rzn", inside=lambda r, x, h, w, b: x + r * (h @ w + b), mix=lambda h, z, n, r: z * h + (1 - z) * n,
             r=lambda from_x, from_h: sigmoid(from_x + from_h), z=lambda from_x, from_h: sigmoid(from_x + from_h),
             squash=tanh):
    """`my_gru_step` with one thing another: the order, what is inside n's tanh, the mixing, r, z, n's squashing."""
    def answer(x, h, w_x, w_h, b_x, b_h):
        from_x = dict(zip(order, (x @ w_x + b_x).chunk(3, dim=-1), strict=True))
        w, b = (dict(zip(order, whole.chunk(3, dim=-1), strict=True)) for whole in (w_h, b_h))
        reset, update = (gate(from_x[name], h @ w[name] + b[name]) for name, gate in (("r", r), ("z", z)))
        return mix(h, update, squash(inside(reset, from_x["n"], h, w["n"], b["n"])), reset)
    return answer


def gru_interleaved(x, h, w_x, w_h, b_x, b_h):
    def side_by_side(whole):
        return torch.cat(whole.view(*whole.shape[:-1], -1, 3).unbind(-1), dim=-1)
    return my_gru_step(x, h, *map(side_by_side, (w_x, w_h, b_x, b_h)))


GRU_MISTAKES = (
    *((gru_like(order="".join(order)),
       f"You read the parts in the order {', '.join(order)}. PyTorch's lie r, z, n: reset, update, new.")
      for order in itertools.permutations("rzn") if order != tuple("rzn")),
    (gru_interleaved, "You take every third number for a gate. The three lie side by side, each H wide."),
    (gru_like(inside=lambda r, x, h, w, b: x + (r * h) @ w + b),
     "This is the form of Cho et al.: r * h goes through w_h. In PyTorch's, h goes through w_h (and b_h is added) "
     "first, then r multiplies."),
    (gru_like(inside=lambda r, x, h, w, b: x + r * (h @ w) + b),
     "b_h stands outside the reset product. In PyTorch's form r multiplies h w_h + b_h, the bias included."),
    (gru_like(inside=lambda r, x, h, w, b: x + (r * h) @ w + r * b),
     "You let r multiply h before the product with w_h. PyTorch's form multiplies after it, as with the bias."),
    (gru_like(inside=lambda r, x, h, w, b: x + h @ w + b),
     "The reset gate r is missing: the state's share of n comes in as r * (h w_h + b_h)."),
    (gru_like(inside=lambda r, x, h, w, b: r * (x + h @ w + b)),
     "r multiplies the input's share too. It resets what comes from h alone."),
    (gru_like(inside=lambda r, x, h, w, b: r * x + h @ w + b),
     "r multiplies what comes from x. It belongs to what comes from h."),
    (gru_like(inside=lambda r, x, h, w, b: x + (1 - r) * (h @ w + b)),
     "r is upside down: r = 1 lets the old state into n, so it is r * (h w_h + b_h)."),
    (gru_like(inside=lambda r, x, h, w, b: x), "n knows nothing of h: r * (h w_h + b_h) is missing from it."),
    (gru_like(inside=lambda r, x, h, w, b: r * (h @ w + b)), "n knows nothing of x: x w_x + b_x is missing from it."),
    (gru_like(mix=lambda h, z, n, r: (1 - z) * h + z * n),
     "z and 1 - z are exchanged. In PyTorch's form z = 1 keeps the old state: z * h + (1 - z) * n."),
    (gru_like(mix=lambda h, z, n, r: z * h + n), "n comes in whole: it is weighted by 1 - z, so that both make one."),
    (gru_like(mix=lambda h, z, n, r: h + (1 - z) * n), "h comes in whole: it is weighted by z."),
    (gru_like(mix=lambda h, z, n, r: z * h + z * n), "Both are weighted by z: n's weight is 1 - z."),
    (gru_like(mix=lambda h, z, n, r: (1 - z) * n), "The old state is missing from the mix: z * h."),
    (gru_like(mix=lambda h, z, n, r: n), "You return n, the candidate. The new state is z * h + (1 - z) * n."),
    (gru_like(mix=lambda h, z, n, r: z * (r * h) + (1 - z) * n),
     "r meets h once more in the mix. There h comes as it is: z * h."),
    (gru_like(mix=lambda h, z, n, r: tanh(z * h + (1 - z) * n)),
     "There is a tanh around the mix. It must stay a plain sum, or every step shrinks the gradient."),
    (gru_like(mix=lambda h, z, n, r: r * h + (1 - r) * n), "You mix with r. Mixing is z's work, r's is inside n."),
    (gru_like(squash=sigmoid), "n has a sigmoid. It is no gate but a new state, and needs a sign: tanh."),
    (gru_like(squash=as_it_is), "n is not squashed: it needs a tanh."),
    (gru_like(r=lambda x, h: tanh(x + h)), "The gate r has a tanh. A gate opens from 0 to 1: sigmoid."),
    (gru_like(z=lambda x, h: tanh(x + h)), "The gate z has a tanh. A gate opens from 0 to 1: sigmoid."),
    (gru_like(r=lambda x, h: x + h), "The gate r is not squashed: it needs a sigmoid."),
    (gru_like(z=lambda x, h: x + h), "The gate z is not squashed: it needs a sigmoid."),
    (gru_like(r=lambda x, h: sigmoid(x)), "The gate r reads x alone: h w_h + b_h is missing from it."),
    (gru_like(z=lambda x, h: sigmoid(x)), "The gate z reads x alone: h w_h + b_h is missing from it."),
    (gru_like(r=lambda x, h: sigmoid(h)), "The gate r reads h alone: x w_x + b_x is missing from it."),
    (gru_like(z=lambda x, h: sigmoid(h)), "The gate z reads h alone: x w_x + b_x is missing from it."),
    (lambda x, h, w_x, w_h, b_x, b_h: my_gru_step(x, h, w_x, w_h, 0 * b_x, b_h), "The bias b_x is missing."),
    (lambda x, h, w_x, w_h, b_x, b_h: my_gru_step(x, h, w_x, w_h, b_x, 0 * b_h), "The bias b_h is missing."),
    (lambda x, h, w_x, w_h, b_x, b_h: my_gru_step(x, h, w_x, w_h, 0 * b_x, 0 * b_h), "Both biases are missing."),
    (lambda x, h, w_x, w_h, b_x, b_h: my_gru_step(x, h, w_x, w_h, b_h, b_x),
     "The two biases are exchanged: b_x goes with x w_x, b_h with h w_h."),
    (lambda x, h, w_x, w_h, b_x, b_h: my_gru_step(x, h, w_x, w_h, 0 * b_x, b_x + b_h),
     "Both biases stand with h w_h, so that r multiplies b_x too. b_x goes with x w_x."),
    (lambda x, h, w_x, w_h, b_x, b_h: h, "h comes back as it went in: the new state is lost."),
)


def check_gru_step(step) -> str | None:
    x, h, w_x, w_h, b_x, b_h = numbers(3, 4), numbers(3, 5), numbers(4, 15), numbers(5, 15), numbers(15), numbers(15)
    zero = torch.zeros_like
    got = step(x, h, w_x, w_h, b_x, b_h)
    if isinstance(got, (tuple, list)):
        return "A GRU has one state only: return the new h alone, a tensor of shape (B, H)."
    if not isinstance(got, Tensor) or got.shape != (3, 5):
        shape = tuple(got.shape) if isinstance(got, Tensor) else type(got).__name__
        return f"The new state must have shape (B, H) = (3, 5); yours is {shape}."
    if message := named(got, GRU_MISTAKES, x, h, w_x, w_h, b_x, b_h):
        return message
    if not close(step(x, h, zero(w_x), zero(w_h), zero(b_x), zero(b_h)), h / 2):
        return ("With all weights and biases zero both gates are 1/2 and n is 0, so the new state must be h / 2. "
                "Look at the sigmoids, and at z * h + (1 - z) * n.")
    for arguments, message in (
        ((x, zero(h), w_x, w_h, zero(b_x), zero(b_h)),
         "With h and both biases zero the new state is (1 - z) * tanh of x's share, and that is wrong already. Look at "
         "x @ w_x and how it is cut in three."),
        ((x, h, w_x, w_h, zero(b_x), zero(b_h)),
         "With h = 0 you are right, with another h you are not: look at h @ w_h, and at r inside n."),
        ((x, h, w_x, w_h, b_x, zero(b_h)), "Without biases you are right: add b_x to x @ w_x, once, in all three."),
        ((x, h, w_x, w_h, b_x, b_h), "With b_h = 0 you are right: add b_h to h @ w_h, once, before r multiplies."),
    ):
        if not close(step(*arguments), gru_step(*arguments)):
            return message
    small = numbers(1, 2), numbers(1, 1), numbers(2, 3), numbers(1, 3), numbers(3), numbers(3)
    if not close(step(*small), gru_step(*small)):
        return ("With B = 3, D = 4, H = 5 you are right, with B = 1, D = 2, H = 1 you are not: is a size written into "
                "the code, or a dimension squeezed away?")
    if not step(*(part.clone().requires_grad_() for part in small)).requires_grad:
        return "The numbers are right, but no gradient flows back: leave out detach, .data and no_grad."
    return None


GRU_WRONG = (
    *GRU_MISTAKES,
    (lambda x, h, *rest: (my_gru_step(x, h, *rest), h), "one state only"),
    (lambda x, h, *rest: my_gru_step(x, h, *rest).T, "yours is (5, 3)"),
    (lambda x, h, w_x, w_h, b_x, b_h: my_gru_step(x, h, w_x, w_h.T, b_x, b_h), "shapes cannot be multiplied"),
    (gru_like(z=lambda x, h: torch.relu(x + h)), "both gates are 1/2"),
    (lambda x, h, *rest: my_gru_step(2 * x, h, *rest), "wrong already"),
    (gru_like(inside=lambda r, x, h, w, b: x + r * (2 * h @ w + b)), "look at h @ w_h, and at r inside n"),
    (lambda x, h, w_x, w_h, b_x, b_h: my_gru_step(x, h, w_x, w_h, 2 * b_x, b_h), "add b_x to x @ w_x, once"),
    (lambda x, h, w_x, w_h, b_x, b_h: my_gru_step(x, h, w_x, w_h, b_x, 2 * b_h), "add b_h to h @ w_h, once"),
    (lambda x, h, *rest: my_gru_step(x, h, *rest).squeeze(), "is a size written"),
    (lambda *arguments: my_gru_step(*arguments).detach(), "no gradient flows back"),
)


# 4 · a planted bug in the step ----------------------------------------------------------------------------
# The notebook holds the three broken functions below word for word, each under the name of its exercise.


def broken_step(x, h, c, w_x, w_h, b):
    """One LSTM step. x (B, D), h and c (B, H), gates in the order i, f, o, g -> new h and c, (B, H) each."""
    i, f, o, g = (x @ w_x + h @ w_h + b).chunk(4, dim=-1)
    i, f, o, g = torch.sigmoid(i), torch.sigmoid(f), torch.sigmoid(o), torch.tanh(g)
    c, h = f * c + i * g, o * torch.tanh(c)
    return h, c


def mended_step(x, h, c, w_x, w_h, b):
    i, f, o, g = (x @ w_x + h @ w_h + b).chunk(4, dim=-1)
    i, f, o, g = torch.sigmoid(i), torch.sigmoid(f), torch.sigmoid(o), torch.tanh(g)
    c = f * c + i * g
    h = o * torch.tanh(c)
    return h, c


def updated_twice(x, h, c, w_x, w_h, b):
    i, f, o, g = (x @ w_x + h @ w_h + b).chunk(4, dim=-1)
    i, f, o, g = sigmoid(i), sigmoid(f), sigmoid(o), tanh(g)
    c = f * c + i * g
    return o * tanh(f * c + i * g), c


STEP_MENDS = (
    (lstm_like(out=lambda c, old, o: o * tanh(old)),
     "The bug is still there. Start from h = 0 and c = 0: your new h is zero, whatever x holds. So what a step writes "
     "is not heard before the step after. The new c is right; look at how h comes about."),
    (lambda *arguments: broken_step(*arguments)[::-1],
     "The bug is still there, and h and c have changed places on their way out: return h, c."),
    *((lstm_like(order="".join(order), out=lambda c, old, o: o * tanh(old)),
       f"The bug is still there, and you read the gates in the order {', '.join(order)}. Here they lie i, f, o, g, as "
       "the line says. Look at how h comes about.")
      for order in itertools.permutations("ifog") if order != tuple("ifog")),
    (updated_twice, "Now c moves on twice on its way to h: the h that comes back is a step ahead of the c beside it."),
    (lstm_like(cell=lambda c, i, f, o, g: f * c + i * g, out=lambda c, old, o: o * tanh(c - old)),
     "Your h shows only what has changed in c. Old memories must be heard too."),
    (lstm_like(out=lambda c, old, o: o * (tanh(c) + tanh(old))), "Your h is made of the old c and the new one both."),
)


def only_what_is_new(x, h, c, w_x, w_h, b):
    return lstm_step(x, h, 0 * c, w_x, w_h, b)[0], lstm_step(x, h, c, w_x, w_h, b)[1]


def check_mended_step(step) -> str | None:
    arguments = numbers(3, 4), numbers(3, 5), numbers(3, 5), numbers(4, 20), numbers(5, 20), numbers(20)
    got = step(*arguments)
    if message := not_a_state_pair(got, (3, 5)) or named(got, STEP_MENDS, *arguments):
        return message
    if close(got, only_what_is_new(*arguments)):
        return "Your h holds what was just written and nothing older: c remembers, and nobody hears of it."
    if message := named(got, CELL_MISTAKES + GATE_MISTAKES, *arguments):
        return f"Your repair touched what was right. {message}"
    return lstm_probe(step) or lstm_at_the_edges(step)


# 5 · a planted bug in the loop ----------------------------------------------------------------------------


def broken_run(x, h, c, w_x, w_h, b):
    """The LSTM along a sequence. x (B, T, D), h and c (B, H) at the start -> hs (B, T, H), the last c (B, H)."""
    hs = []
    for t in range(x.shape[1]):
        h_t, c = lstm_step(x[:, t], h, c, w_x, w_h, b)
        hs.append(h_t)
    return torch.stack(hs, dim=1), c


def mended_run(x, h, c, w_x, w_h, b):
    hs = []
    for t in range(x.shape[1]):
        h, c = lstm_step(x[:, t], h, c, w_x, w_h, b)
        hs.append(h)
    return torch.stack(hs, dim=1), c


def run_like(carry=lambda new, old, hs, first: new, shown=lambda new, old: new[0], dim=1,
             last=lambda new, first: new[1], start=lambda h, c: (h, c), at=lambda t, T: t):
    """`mended_run` with one thing another: what is carried on, shown, stacked over, returned, started with, read."""
    def answer(x, h, c, w_x, w_h, b):
        first, hs = (h, c), []
        now = start(h, c)
        for t in range(x.shape[1]):
            new = lstm_step(x[:, at(t, x.shape[1])], *now, w_x, w_h, b)
            hs.append(shown(new, now))
            now = carry(new, now, hs, first)
        return torch.stack(hs, dim=dim), last(new, first)
    return answer


RUNS = (
    (run_like(carry=lambda new, old, hs, first: (first[0], new[1])),
     "The bug is still there. The first step is right, the others are not: of the state hs[:, 0] no later gate ever "
     "hears. Two things must travel from step to step; look at what each call of `lstm_step` is given."),
    (run_like(carry=lambda new, old, hs, first: (first[0], new[1]), shown=lambda new, old: old[0]),
     "hs holds the h that came in, at every step. Two things must travel from step to step, and the new h is lost."),
    (run_like(carry=lambda new, old, hs, first: (new[0], first[1]), last=lambda new, first: first[1]),
     "Now h travels and c does not: every step starts from the first c, and that one comes back. Both must travel."),
    (run_like(carry=lambda new, old, hs, first: (new[0], first[1])),
     "h is carried on now, but every step starts from the first c. Both must travel."),
    (run_like(carry=lambda new, old, hs, first: first), "Neither h nor c is carried on: every step starts afresh."),
    (run_like(carry=lambda new, old, hs, first: (new[1], new[1])),
     "The gates of the next step read c where they must read h."),
    (run_like(carry=lambda new, old, hs, first: new[::-1], shown=lambda new, old: new[1],
              last=lambda new, first: new[0]),
     "After each step h and c have changed names: `lstm_step` returns h first."),
    (run_like(carry=lambda new, old, hs, first: new[::-1]),
     "From the second step on h and c have changed places: `lstm_step` wants x, h, c in this order."),
    (run_like(carry=lambda new, old, hs, first: (old[0] + new[0], new[1])),
     "You add the new h to the old one. It takes the old one's place."),
    (run_like(carry=lambda new, old, hs, first: (torch.stack(hs).mean(0), new[1])),
     "The next step is given the mean of all states so far. It needs the last one."),
    (run_like(carry=lambda new, old, hs, first: (hs[0], new[1])),
     "Every later step is given the state of the first step. It needs that of the step before."),
    (run_like(carry=lambda new, old, hs, first: (tanh(new[0]), new[1])),
     "h passes a second tanh between the steps. It travels as it is."),
    (run_like(start=lambda h, c: (torch.zeros_like(h), c)),
     "Your run forgets the h that it is given and starts from zero. A text read in pieces would lose its thread."),
    (run_like(start=lambda h, c: (h, torch.zeros_like(c))),
     "Your run forgets the c that it is given and starts from zero. A text read in pieces would lose its thread."),
    (run_like(start=lambda h, c: (torch.zeros_like(h), torch.zeros_like(c))),
     "Your run forgets both states that it is given. A text read in pieces would lose its thread."),
    (run_like(shown=lambda new, old: old[0]),
     "hs is one step late: it begins with the h that came in, and the last state is missing."),
    (run_like(shown=lambda new, old: new[1]), "hs holds the cells c. What goes out of an LSTM is h."),
    (run_like(last=lambda new, first: new[0]), "Beside hs you return the last h. Asked is the last c."),
    (run_like(last=lambda new, first: first[1]), "The c that comes back is the one that went in."),
    (run_like(at=lambda t, T: T - 1 - t), "You read the sequence from its end."),
    (run_like(at=lambda t, T: 0), "Every step reads x[:, 0]."),
)
CUTS = (  # the same numbers, another gradient
    (run_like(carry=lambda new, old, hs, first: (new[0].detach(), new[1])),
     "The numbers are right. But you detach h, and no gradient comes back through the gates from later steps."),
    (run_like(carry=lambda new, old, hs, first: (new[0], new[1].detach())),
     "The numbers are right. But you detach c, and with it the gradient's highway is cut."),
    (run_like(carry=lambda new, old, hs, first: (new[0].detach(), new[1].detach())),
     "The numbers are right. But you detach h and c: nothing can be learned over more than one step."),
)


def check_mended_run(run) -> str | None:
    arguments = numbers(3, 6, 4), numbers(3, 5), numbers(3, 5), numbers(4, 20), numbers(5, 20), numbers(20)
    got = run(*arguments)
    if not isinstance(got, (tuple, list)) or len(got) != 2 or not all(isinstance(part, Tensor) for part in got):
        return "Return two tensors as before: all states hs (B, T, H), and the last c (B, H)."
    if got[0].shape == (6, 3, 5):
        return "The steps lie along the first dimension of hs. Here the batch comes first: stack along dim=1."
    if got[0].shape != (3, 6, 5) or got[1].shape != (3, 5):
        return (f"hs must have shape (B, T, H) = (3, 6, 5) and c (B, H) = (3, 5); yours are {tuple(got[0].shape)} and "
                f"{tuple(got[1].shape)}.")
    if message := named(got, RUNS, *arguments):
        return message
    if not close(run(arguments[0][:, :1], *arguments[1:]), mended_run(arguments[0][:, :1], *arguments[1:])):
        return "A sequence of one single step is wrong already. There the answer is that of `lstm_step`, once."
    if not close(got, mended_run(*arguments)):
        return "One step is right, six are not. Print h and c before each call of `lstm_step`: which one is stale?"

    def pull(of):  # what the last state sends back to every input
        x = arguments[0].clone().requires_grad_()
        hs = of(x, *arguments[1:])[0]
        if not hs.requires_grad:
            return torch.zeros_like(x)
        return torch.autograd.grad(hs[:, -1].sum(), x, materialize_grads=True)[0]

    pulled = pull(run)
    if message := next((message for cut, message in CUTS if close(pulled, pull(cut))), None):
        return message
    if not close(pulled, pull(mended_run)):
        return "The numbers are right, but the gradient is not: leave out detach, .data and no_grad."
    return None


RUN_WRONG = (
    *RUNS, *CUTS,
    (lambda *arguments: mended_run(*arguments)[0], "Return two tensors as before"),
    (run_like(dim=0), "The steps lie along the first dimension"),
    (run_like(dim=2), "yours are (3, 5, 6)"),
    (lambda x, h, c, *rest: (mended_run(x, h, c, *rest)[0][:, -1], mended_run(x, h, c, *rest)[1]), "yours are (3, 5)"),
    (lambda x, h, c, *rest: mended_run(x, 2 * h, c, *rest), "one single step is wrong already"),
    (run_like(carry=lambda new, old, hs, first: (old[0] / 2 + new[0] / 2, new[1])), "One step is right, six are not"),
    (torch.no_grad()(mended_run), "but the gradient is not"),
)


# 6 · a planted bug on the way from PyTorch ----------------------------------------------------------------


def broken_from_torch(cell):
    """The weights of an nn.LSTMCell for `lstm_step`: w_x (D, 4H), w_h (H, 4H), b (4H). PyTorch's lie i, f, g, o."""
    def reordered(weight):
        i, f, g, o = weight.chunk(4)
        return torch.cat([i, f, o, g])

    w_x, w_h = reordered(cell.weight_ih).T, reordered(cell.weight_hh).T
    return w_x, w_h, cell.bias_ih + cell.bias_hh


def mended_from_torch(cell):
    def reordered(weight):
        i, f, g, o = weight.chunk(4)
        return torch.cat([i, f, o, g])

    w_x, w_h = reordered(cell.weight_ih).T, reordered(cell.weight_hh).T
    return w_x, w_h, reordered(cell.bias_ih) + reordered(cell.bias_hh)


def in_order(weight, order="ifog"):
    parts = dict(zip("ifgo", weight.chunk(4), strict=True))
    return torch.cat([parts[name] for name in order])


def square_blocks(cell):
    """Each gate's block of w_h laid side by side as it is, not transposed: (H, H) either way, so no shape tells."""
    w_x, _, b = mended_from_torch(cell)
    return w_x, torch.cat(in_order(cell.weight_hh).chunk(4), dim=1), b


def converted(weights="ifog", bias=lambda of_x, of_h: in_order(of_x + of_h)):
    """`mended_from_torch` with the weights in another order, or another bias."""
    return lambda cell: (in_order(cell.weight_ih, weights).T, in_order(cell.weight_hh, weights).T,
                         bias(cell.bias_ih, cell.bias_hh))


CONVERSIONS = (
    (broken_from_torch,
     "The bug is still there. A cell whose biases are zero comes over right; with others i and f are right, o and g "
     "are not. Look at what the weights go through on their way, and what the biases go through."),
    (converted("ifgo", lambda of_x, of_h: of_x + of_h),
     "Nothing is put in order any more: all lie i, f, g, o, as in PyTorch, and `lstm_step` reads i, f, o, g."),
    (converted("ifgo"), "b is right now, but the weights lie i, f, g, o, as in PyTorch. They were right before."),
    (converted(bias=lambda of_x, of_h: in_order(of_x) + of_h),
     "You put bias_ih in order and add bias_hh as it lies in PyTorch. Both need it."),
    (converted(bias=lambda of_x, of_h: of_x + in_order(of_h)),
     "You put bias_hh in order and add bias_ih as it lies in PyTorch. Both need it."),
    (converted(bias=lambda of_x, of_h: in_order(of_x)), "bias_hh is lost. PyTorch adds two, one must hold both."),
    (converted(bias=lambda of_x, of_h: in_order(of_h)), "bias_ih is lost. PyTorch adds two, one must hold both."),
    (converted(bias=lambda of_x, of_h: of_x), "You left bias_hh out. That hides half of the trouble; PyTorch adds it."),
    (converted(bias=lambda of_x, of_h: of_h), "You left bias_ih out. That hides half of the trouble; PyTorch adds it."),
    (converted(bias=lambda of_x, of_h: 2 * in_order(of_x)), "bias_ih is in it twice, and bias_hh not at all."),
    (converted(bias=lambda of_x, of_h: 2 * in_order(of_h)), "bias_hh is in it twice, and bias_ih not at all."),
    (converted(bias=lambda of_x, of_h: in_order(of_x + of_h) / 2), "You average the two biases. PyTorch adds them."),
    (converted(bias=lambda of_x, of_h: in_order(of_x - of_h)), "You take bias_hh away. PyTorch adds the two."),
    (converted(bias=lambda of_x, of_h: 0 * of_x), "Without any bias two cells agree only as long as both have none."),
    (square_blocks, "w_h has the right shape and the wrong numbers: its four blocks are square, so a transposition "
                    "left out in each of them does not show. PyTorch stores W, and computes h @ W.T."),
    (lambda cell: (in_order(cell.weight_ih).view(3, 16), in_order(cell.weight_hh).view(4, 16),
                   in_order(cell.bias_ih + cell.bias_hh)),
     "The weights have the right shapes and the wrong numbers: view and reshape do not transpose."),
    *((converted(bias=lambda of_x, of_h, order=order: in_order(of_x + of_h, order)),
       f"The parts of b lie in the order {', '.join(order)}; `lstm_step` reads i, f, o, g.")
      for order in itertools.permutations("ifog") if order not in (tuple("ifog"), tuple("ifgo"))),
)


def check_mended_from_torch(answer) -> str | None:
    cell = torch.nn.LSTMCell(3, 4, dtype=torch.float64)
    before = {name: weight.clone() for name, weight in cell.state_dict().items()}
    got = answer(cell)
    if any(not torch.equal(weight, before[name]) for name, weight in cell.state_dict().items()):
        return "Afterwards PyTorch's cell is not what it was: copy its weights, do not write into them."
    if not isinstance(got, (tuple, list)) or len(got) != 3 or not all(isinstance(part, Tensor) for part in got):
        return "Return three tensors as before: w_x (D, 4H), w_h (H, 4H) and b (4H)."
    shapes = [tuple(part.shape) for part in got]
    if shapes != [(3, 16), (4, 16), (16,)]:
        return f"With D = 3 and H = 4 the shapes must be (3, 16), (4, 16) and (16,); yours are {str(shapes)[1:-1]}."
    if message := named(got, CONVERSIONS, cell):
        return message
    for part, right, name in zip(got, mended_from_torch(cell), ("w_x", "w_h", "b"), strict=True):
        if not close(part, right):
            return (f"Your {name} is not what it should be. Try nn.LSTMCell beside `lstm_step` on one input, with all "
                    f"other weights zero.")
    return None


def written_into(cell):
    with torch.no_grad():
        for bias in (cell.bias_ih, cell.bias_hh):
            bias.copy_(in_order(bias))
    return broken_from_torch(cell)


CONVERSION_WRONG = (
    *((wrong, message) for wrong, message in CONVERSIONS if wrong is not broken_from_torch),
    (converted(bias=lambda of_x, of_h: in_order(in_order(of_x + of_h))), "The bug is still there"),  # twice is not once
    (written_into, "not what it was"),
    (lambda cell: mended_from_torch(cell)[:2], "Return three tensors"),
    (lambda cell: (in_order(cell.weight_ih), in_order(cell.weight_hh), in_order(cell.bias_ih + cell.bias_hh)),
     "yours are (16, 3), (16, 4), (16,)"),
    (converted(bias=lambda of_x, of_h: torch.stack([in_order(of_x), in_order(of_h)])), "(3, 16), (4, 16), (2, 16)"),
    (lambda cell: (2 * mended_from_torch(cell)[0], *mended_from_torch(cell)[1:]), "Your w_x is not"),
    (lambda cell: (mended_from_torch(cell)[0], 2 * mended_from_torch(cell)[1], mended_from_torch(cell)[2]),
     "Your w_h is not"),
    (converted(bias=lambda of_x, of_h: in_order(of_x + of_h) + 1), "Your b is not"),
)


# 7 · a start for lag 100 ------------------------------------------------------------------------------------


def lag_100():
    f = 2 ** (-1 / 100)
    return math.log(f / (1 - f))


GATE = 2 ** (-1 / 100)
BIASES = (
    (0.0, "b = 0 opens the gate half: every step halves c, so half is gone after a single one."),
    (1.0, "b = 1, the usual start, opens the gate to 0.731: half is gone after 2.2 steps. It must be open wider."),
    (2.0, "b = 2 opens the gate to 0.881: half is gone after 5.5 steps. It must be open wider."),
    (100.0, "100 is the number of steps. As a bias it opens the gate so wide that nothing is ever forgotten."),
    (math.log(100), "log(100) is the start for a time constant of 100 steps: 1/e, 37 %, is left by then. Here a half "
                    "must be left, so the gate is open a little wider."),
    (math.log(100 * math.log(2)), "Upside down: 1 - f is close to log(2) / 100, so f / (1 - f) is close to "
                                  "100 / log(2), not to 100 * log(2)."),
    (-lag_100(), "The right size and the wrong sign: this gate is open by 0.7 %, and one step forgets nearly all."),
    (GATE, "This is the gate itself, f = 2 ** (-1/100). Asked is the bias that opens it so far: undo the sigmoid."),
    (1 - GATE, "This is 1 - f, the share that is lost in a step. Asked is the bias: undo the sigmoid of f."),
    (math.log(GATE), "This is log(f). Undoing the sigmoid takes log(f / (1 - f))."),
    (GATE / (1 - GATE), "This is f / (1 - f). The logarithm is missing."),
    (1 / (1 + math.exp(-GATE)), "You put the gate through the sigmoid once more. The way back is log(f / (1 - f))."),
    (math.log2(GATE / (1 - GATE)), "You took the logarithm to base 2. The sigmoid is made with e: math.log."),
    (math.log10(GATE / (1 - GATE)), "You took the logarithm to base 10. The sigmoid is made with e: math.log."),
    (0.5, "1/2 is what must be left after 100 steps. Which gate leaves it, and which bias opens that gate?"),
)


def check_lag_100(answer) -> str | None:
    b = float(answer)
    if math.isnan(b):
        return "Your answer is NaN: is there a logarithm of a negative number on the way?"
    if abs(b - lag_100()) <= 0.02:
        return None
    for wrong, message in BIASES:  # log(99), from 1 / (1 - f) = 100, counts as log(100)
        if abs(b - wrong) <= (0.02 if abs(wrong) > 2 else 0.0005):
            return message
    # softplus(-b) = -log(sigmoid(b)), and stays exact where the sigmoid is 1 in every digit
    rate = math.log1p(math.exp(-abs(b))) + max(-b, 0)
    if rate == 0 or math.log(2) / rate > 1e6:
        return f"With b = {b:.4g} practically nothing is ever forgotten, not even in a million steps."
    return (f"With b = {b:.4g} half is left after {math.log(2) / rate:.3g} steps, not after 100. "
            f"The gate must be open {'wider' if b < lag_100() else 'less wide'}.")


# 8 · a prediction; tests/test_long_memory.py trains the four ---------------------------------------------------


def predict_100():
    return "D"


PREDICTIONS = (
    ("A", "At its start, the plain network's gradient over 100 steps is about 1e-17 of what it was. Nothing in 700 "
          "steps tells it what the first symbol has to do with the answer."),
    ("B", "With b = 0 the gate z starts at one half: after 100 steps 2 ** -100 of the state is left. At lag 24 it "
          "failed already."),
    ("C", "With b = 1 the gate starts at 0.73, and 0.73 ** 100 is 1e-14. At lag 24 it failed already."),
)


def check_predict_100(answer) -> str | None:
    if not isinstance(answer, str) or answer.strip().upper() not in ("A", "B", "C", "D"):
        return 'Answer with one letter in quotes: "A", "B", "C" or "D".'
    return dict(PREDICTIONS).get(answer.strip().upper())


EXERCISES = [
    Exercise(
        name="my_lstm_step", lesson="lstm_gradient_flow", title="The step of the LSTM", check=check_lstm_step,
        solution=my_lstm_step, wrong=LSTM_WRONG,
        hints=("All four parts come from one sum, x @ w_x + h @ w_h + b, of shape (B, 4H).",
               "i, f, o, g = (...).chunk(4, dim=-1): three of them are gates (sigmoid), one is what is written (tanh).",
               "The new c keeps a share and takes in a share: f * c + i * g.",
               "h is made last, from the new c: o * torch.tanh(c). Return h, c.")),
    Exercise(
        name="my_forget_product", lesson="lstm_gradient_flow", title="The product of forget gates",
        check=check_forget_product, solution=my_forget_product, wrong=PRODUCT_WRONG,
        hints=("Along the cell c_T = f_T * c_{T-1} + (what is new). So how far does c_{T-1} move c_T?",
               "One step back gives f_T, two steps f_T * f_{T-1}: `lag` steps multiply the last `lag` gates.",
               "tensor.prod(dim=1) multiplies over the steps; over none of them it gives ones.",
               "f[:, -lag:] goes wrong for lag = 0. Count from the front: f[:, T - lag:], with T = f.shape[1].")),
    Exercise(
        name="my_gru_step", lesson="lstm_gradient_flow", title="The step of the GRU", check=check_gru_step,
        solution=my_gru_step, wrong=GRU_WRONG,
        hints=("Keep the two sums apart, x @ w_x + b_x and h @ w_h + b_h, and cut each in three: r, z, n.",
               "r = sigmoid(r_x + r_h) and z = sigmoid(z_x + z_h). For n the two parts do not simply add.",
               "In PyTorch's form r multiplies the state's whole part, bias included: n = tanh(n_x + r * n_h).",
               "The new state keeps a share z of h and takes a share 1 - z of n.")),
    Exercise(
        name="mended_step", lesson="lstm_gradient_flow", title="Find the bug: the step", check=check_mended_step,
        solution=mended_step, stub=broken_step,
        wrong=(*STEP_MENDS, (only_what_is_new, "nobody hears of it"),
               *((wrong, f"Your repair touched what was right. {message}")
                 for wrong, message in CELL_MISTAKES + GATE_MISTAKES if "made of the old c" not in message)),
        hints=("Run it beside `lstm_step` on one input, with h = 0 and c = 0. Which of the two results differs?",
               "c is right. h is zero, whatever x holds: so nothing of what this step writes is in it.",
               "h should be made of the new c. When Python meets `a, b = ..., ...`, which c does the right side see?",
               "The whole right side is worked out before c gets its new value. Write two lines: first c, then h.")),
    Exercise(
        name="mended_run", lesson="lstm_gradient_flow", title="Find the bug: the loop", check=check_mended_run,
        solution=mended_run, stub=broken_run, wrong=RUN_WRONG,
        hints=("Run it beside an `LSTM` over one step, then over two. From which step on do the states differ?",
               "Two things travel from step to step. For each, ask: where is it written, and who reads it next?",
               "c is written in the loop and read in the next round. Which name holds the new h, and who reads that?",
               "h, c = lstm_step(x[:, t], h, c, w_x, w_h, b), and then hs.append(h).")),
    Exercise(
        name="mended_from_torch", lesson="lstm_gradient_flow", title="Find the bug: weights from PyTorch",
        check=check_mended_from_torch, solution=mended_from_torch, stub=broken_from_torch, wrong=CONVERSION_WRONG,
        hints=("Compare with nn.LSTMCell on one input. Then set both biases of the cell to zero, and compare again.",
               "Without biases the two agree. Which of the four parts i, f, o, g differ once there are biases?",
               "PyTorch's order holds for everything that is 4H long: two matrices, and what else?",
               "A bias lies i, f, g, o as well: it needs `reordered`, as the weights do.")),
    Exercise(
        name="lag_100", lesson="lstm_gradient_flow", title="A start that remembers 100 steps", check=check_lag_100,
        solution=lag_100, wrong=(*BIASES, (5.0, "after 103 steps"),
                                 (4.9, "after 93.4 steps"), (-200, "after 0.00347 steps"), (1e9, "million steps"),
                                 (math.nan, "NaN"), ("four", "can make nothing of your answer")), value=True,
        hints=("When nothing is written, every step multiplies c by f. After 100 steps f ** 100 of it is left.",
               "f ** 100 = 1/2 gives f = 2 ** (-1/100), about 0.9931. But f = sigmoid(b).",
               "Undo the sigmoid: b = log(f / (1 - f)), with the natural logarithm.")),
    Exercise(
        name="predict_100", lesson="lstm_gradient_flow", title="Predict: who solves lag 100?",
        check=check_predict_100, solution=predict_100, value=True,
        wrong=(*PREDICTIONS, ("E", "one letter in quotes")),
        hints=("At the start, which share of a state is left after 100 steps? For a gate about sigmoid(b) ** 100.",
               "sigmoid(0) = 0.5, sigmoid(1) = 0.73, sigmoid(5) = 0.993. Raise each to the power of 100.")),
]

QUIZ = [
    Quiz("gate_path", "Why can the gradient survive along the cell c?", (
        ("An LSTM has more weights, so more paths lead back.",
         "More weights do not help where each path shrinks. It is the kind of step along c that differs."),
        ("Sigmoids have a steeper slope than tanh, so less is lost.",
         "The sigmoid's slope is at most 1/4, that of tanh at most 1. On the way along c neither slope occurs."),
        ("From c to c each step multiplies by f alone, and f may be near 1.",
         "Yes. No matrix and no tanh lie on that way, and every unit has its own f: it can hold on or let go."),
        ("The gates clip it to a safe range whenever it gets too long or too short.",
         "Gates multiply, they do not clip. A gradient can still vanish along c where f stays well below 1."),
    ), correct=2),
    Quiz("forget_bias", "A forget gate starts with a bias of 1, all else near zero. How long does its cell remember?", (
        ("About 2 steps: then half is gone.",
         "Yes. sigmoid(1) = 0.73, and 0.73^2.2 = 1/2. After 20 steps 0.2 % is left; training has to open the gate."),
        ("For ever, since a gate at 1 is fully open.",
         "The bias is 1, the gate is sigmoid(1) = 0.73. It multiplies at every step."),
        ("One step, exactly as a plain RNN does.",
         "Neither of them stops at one step. Here what is left shrinks to 0.73 of itself at every step."),
        ("It cannot be said before the network is trained.",
         "What it learns cannot be said, but where it starts can: f is about sigmoid(1) in every unit."),
    ), correct=0),
    Quiz("gru_reset", "What sets the GRU of Cho et al. (2014) apart from the one that `torch.nn.GRU` computes?", (
        ("Nothing: (r * h) w_h and r * (h w_h) are equal.",
         "Only if w_h were diagonal. In general the units mix in the product, so it matters when r multiplies."),
        ("Cho's has no update gate, and always takes half of the new state.",
         "Both have z. The update gate is what lets either of them keep its state unchanged."),
        ("In Cho's form z = 1 takes the new state, in PyTorch's it keeps the old one.",
         "In both z = 1 keeps the old state. (Chung et al., 2014, write it the other way round.)"),
        ("Cho resets h before its product with w_h, PyTorch after it.",
         "Yes: tanh(... + (r * h) w_h) against tanh(... + r * (h w_h + b_h)). Weights of one do not fit the other."),
    ), correct=3),
    Quiz("recall_bias", "Same recall task, same size, same steps: one LSTM solves it, another stays at chance. Why?", (
        ("Luck alone: with another seed it would be the other way round.",
         "Seeds move the result a little. The order held for the seeds that were tried, so there is a cause."),
        ("Where its gates start: a forget gate near 1 lets the gradient reach the first symbol.",
         "Yes. A cell can learn to remember only if at the start some signal comes back over the whole lag."),
        ("The number of weights: only the larger one has room for the first symbol.",
         "They were of equal size, and the symbol takes 3 bits. Room is not what was missing."),
        ("The cell: whatever is called an LSTM remembers, so the other must have had a bug.",
         "The equations only make it possible to remember. With gates half open the gradient fades as in an RNN."),
    ), correct=1),
    Quiz("bidirectional_lm", "Why can a two-layer bidirectional LSTM not be trained to predict the next word?", (
        ("It would need twice the memory, and the two directions would learn at different speeds.",
         "Cost and speed are no obstacle. Taggers with two bidirectional layers are trained every day."),
        ("The second layer would see the answer, which the backward half of the first has read.",
         "Yes, and the loss would fall to nothing without any learning. ELMo trains two stacks that never meet."),
        ("The backward direction has no words to read at the end of a sentence.",
         "It starts there from its initial state, as the forward one does at the beginning. That does no harm."),
        ("Gradients of the two directions would cancel out.",
         "They are added, as for any two paths, and each direction has weights of its own."),
    ), correct=1),
]
