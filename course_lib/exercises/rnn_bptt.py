"""Lesson 01: the step, back-propagation through time, truncation, sampling at a temperature, clipping."""

import math

import torch
from torch import Tensor

from course_lib.exercises import Exercise, Quiz
from course_lib.rnn import bptt, rnn_step, unroll


def close(a: Tensor, b: Tensor) -> bool:
    return a.shape == b.shape and torch.allclose(a.to(b.dtype), b, atol=1e-6, rtol=1e-5)


def numbers(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)


# 1 · the step -----------------------------------------------------------------------------------------------


def my_step(x, h, w_x, w_h, b):
    return torch.tanh(x @ w_x + h @ w_h + b)


def check_step(step) -> str | None:
    x, h, w_x, w_h, b = numbers(3, 4), numbers(3, 5), numbers(4, 5), numbers(5, 5), numbers(5)
    zero = torch.zeros_like
    got = step(x, h, w_x, w_h, b)
    if not isinstance(got, Tensor) or got.shape != (3, 5):
        shape = tuple(got.shape) if isinstance(got, Tensor) else type(got).__name__
        return f"The new state must have shape (B, H) = (3, 5); yours is {shape}."
    if close(got, x @ w_x + h @ w_h + b):
        return "You return the sum itself: tanh is missing around it."
    if not close(step(x, zero(h), w_x, w_h, zero(b)), torch.tanh(x @ w_x)):
        return "With h = 0 and b = 0 the answer must be tanh(x w_x). Look at the term with x, and at the tanh."
    if close(step(x, h, w_x, w_h, zero(b)), torch.tanh(x @ w_x)):
        return "The old state h changes nothing in your step: the term h w_h is missing, so nothing is remembered."
    if close(step(x, h, w_x, w_h, zero(b)), torch.tanh(x @ w_x + h @ w_h.T)):
        return "You multiply h by w_h transposed. Here states are rows, so it is h @ w_h."
    if not close(step(x, h, w_x, w_h, zero(b)), torch.tanh(x @ w_x + h @ w_h)):
        return "With b = 0 the answer must be tanh(x w_x + h w_h). Look at the term with h."
    if close(got, torch.tanh(x @ w_x + h @ w_h)):
        return "The bias b is missing."
    if not close(got, rnn_step(x, h, w_x, w_h, b)):
        return "Without a bias you are right; add b inside the tanh, once."
    return None


# 2 · back-propagation through time ------------------------------------------------------------------------


def my_bptt(x, h0, w_x, w_h, b, grad_hs):
    hs = unroll(x, h0, w_x, w_h, b)
    before = torch.cat([h0[:, None], hs[:, :-1]], dim=1)
    grad_w_h, from_later = torch.zeros_like(w_h), torch.zeros_like(h0)
    for t in reversed(range(x.shape[1])):
        da = (grad_hs[:, t] + from_later) * (1 - hs[:, t] ** 2)
        grad_w_h = grad_w_h + before[:, t].T @ da
        from_later = da @ w_h.T
    return grad_w_h


def wrong_bptt(transpose=True, local=True, previous=True, carry=True, last=False, own=True, mean=False,
               wrap=False, forward=False, pile=False, bare=False, batch=False, slope=None, first=True):
    """`my_bptt` with one thing wrong: what is False, or True where it is False above, is the mistake."""
    def answer(x, h0, w_x, w_h, b, grad_hs):
        hs = unroll(x, h0, w_x, w_h, b)
        before = torch.cat([hs[:, -1:] if wrap else h0[:, None] * first, hs[:, :-1]], dim=1) if previous else hs
        total, from_later = torch.zeros_like(w_h), torch.zeros_like(h0)
        for t in range(x.shape[1]) if forward else reversed(range(x.shape[1])):
            sent = grad_hs[:, t] if own or t == x.shape[1] - 1 else torch.zeros_like(h0)
            signal = sent + from_later
            da = signal * (1 if not local else slope(hs[:, t]) if slope else 1 - hs[:, t] ** 2)
            new = before[:, t].T @ da
            total = new if last else total + new
            if carry:
                from_later = from_later * pile + (signal if bare else da) @ (w_h.T if transpose else w_h)
        return total / (x.shape[1] if mean else len(x) if batch else 1)
    return answer


def check_bptt(answer) -> str | None:
    x, h0, w_x, w_h, b = numbers(2, 4, 3), numbers(2, 5), numbers(3, 5), numbers(5, 5) / 2, numbers(5)
    every = numbers(2, 4, 5)
    def fresh(*tensors):  # copies: whoever asks autograd may switch it on, and no .grad is left over
        return [tensor.clone() for tensor in tensors]

    one = (x[:, :1], h0, w_x, w_h, b, every[:, :1])
    full = (x, h0, w_x, w_h, b, every)
    got = answer(*fresh(*full))
    if isinstance(got, Tensor) and close(got, wrong_bptt(wrap=True)(*full)):
        return "At t = 0, hs[:, t - 1] is hs[:, -1], the *last* state. The state before the first step is h0."
    if isinstance(got, Tensor) and close(got, wrong_bptt(first=False)(*full)):
        return "The first step's share is missing: it read h0, so it adds h0.T @ da."
    got = answer(*fresh(*one))
    if not isinstance(got, Tensor) or got.shape != (5, 5):
        return "Return the gradient of w_h, a tensor of shape (H, H) = (5, 5)."
    if close(got, wrong_bptt(local=False)(*one)):
        return "The derivative of tanh is missing: multiply by 1 - h_t ** 2 before you go on."
    if close(got, wrong_bptt(previous=False)(*one)):
        return "Step t read the state *before* it: its share is h_{t-1}.T @ da_t, not h_t.T @ da_t."
    if close(got, bptt(*one).w_h.T):
        return "Your gradient is transposed: the rows of w_h belong to the old state, so it is h_{t-1}.T @ da_t."
    for mistake, message in (
        ({"slope": lambda h: 1 - h}, "tanh's slope is 1 - h_t ** 2; the square is missing."),
        ({"slope": lambda h: h * (1 - h)}, "h (1 - h) is the slope of the sigmoid. That of tanh is 1 - h ** 2."),
        ({"slope": lambda h: 1 - torch.tanh(h) ** 2}, "h_t is tanh already: its slope is 1 - h_t ** 2."),
        ({"batch": True}, "You average over the batch. grad_hs says all about that: here the shares add up."),
    ):
        if close(got, wrong_bptt(**mistake)(*one)):
            return message
    if not close(got, bptt(*one).w_h):
        return "A sequence of a single step is wrong already. There it is h0.T @ (grad_hs[:, 0] * (1 - h_1 ** 2))."
    got = answer(*fresh(*full))
    known = (
        ({"carry": False}, "Nothing comes back from later steps: pass da_t @ w_h.T on to step t - 1."),
        ({"transpose": False}, "On the way back the signal goes through w_h transposed: da_t @ w_h.T."),
        ({"last": True}, "Only one step's share is left. The steps share w_h, so their shares add up: use +=."),
        ({"own": False}, "Only the last step's loss counts in your answer: add grad_hs[:, t] at every step."),
        ({"mean": True}, "You average over the steps. Shared weights collect the sum of all shares."),
        ({"forward": True}, "You walk from the first step to the last. Signals come from later: reversed(range(T))."),
        ({"pile": True}, "from_later grows by +=. What reaches step t - 1 is da_t @ w_h.T alone: da_t holds the rest."),
        ({"bare": True}, "What you pass back has not been through tanh: pass da_t @ w_h.T, with the slope in da_t."),
    )
    for mistake, message in known:
        if close(got, wrong_bptt(**mistake)(*full)):
            return message
    if not close(got, bptt(*full).w_h):
        return "One step is right, four are not. Print da_t at every step and compare it with `bptt`."
    return None


# 3 · truncation -------------------------------------------------------------------------------------------


def my_truncated(grad_hs, hs, w_h, chunk):
    da, from_later = torch.zeros_like(hs), torch.zeros_like(hs[:, 0])
    for t in reversed(range(hs.shape[1])):
        da[:, t] = (grad_hs[:, t] + from_later) * (1 - hs[:, t] ** 2)
        from_later = da[:, t] @ w_h.T if t % chunk else torch.zeros_like(from_later)
    return da


def wrong_truncated(cut):
    """`my_truncated` with the signal cut after step t where cut(t, chunk, T) says so."""
    def answer(grad_hs, hs, w_h, chunk):
        da, from_later = torch.zeros_like(hs), torch.zeros_like(hs[:, 0])
        for t in reversed(range(hs.shape[1])):
            da[:, t] = (grad_hs[:, t] + from_later) * (1 - hs[:, t] ** 2)
            from_later = da[:, t] @ w_h.T * (not cut(t, chunk, hs.shape[1]))
        return da
    return answer


def drops_loss_at_edge(grad_hs, hs, w_h, chunk):
    grad_hs = grad_hs.clone()
    grad_hs[:, chunk - 1::chunk] = 0
    return my_truncated(grad_hs, hs, w_h, chunk)


TRUNCATIONS = (
    (wrong_truncated(lambda t, chunk, T: False),
     "You never cut: the signal must stop where a chunk begins, at every t that `chunk` divides."),
    (wrong_truncated(lambda t, chunk, T: (t + 1) % chunk == 0),
     "Your cut is one step too early: the last step of a chunk still sends its signal to the step before it. "
     "Nothing may leave the *first* step of a chunk (t = 0, chunk, 2 chunk, ...)."),
    (wrong_truncated(lambda t, chunk, T: (T - t) % chunk == 0),
     "You count the chunks from the end. Count from the start: the cuts are at t = chunk, 2 chunk, ..."),
    (wrong_truncated(lambda t, chunk, T: (t - 1) % chunk == 0),
     "Your cut is one step too late: what step 1 of a chunk sends back never reaches its first step. "
     "Set from_later to zero *after* da_t is known, not before."),
    (wrong_truncated(lambda t, chunk, T: t == chunk),
     "Only the first cut is there: cut at every t that `chunk` divides."),
    (wrong_truncated(lambda t, chunk, T: True),
     "You cut at every step, so that nothing is learned over time. Cut only where a chunk begins."),
    (drops_loss_at_edge,
     "The last step of each chunk lost its own grad_hs. Cut what comes from later, not the step's own loss."),
)


def check_truncated(answer) -> str | None:
    grad_hs, hs, w_h = numbers(2, 10, 4), torch.tanh(numbers(2, 10, 4)), numbers(4, 4) / 2
    got = answer(grad_hs, hs, w_h, 4)  # 10 is no multiple of 4: counting from the wrong end shows
    if not isinstance(got, Tensor) or got.shape != (2, 10, 4):
        return "Return da for every step: a tensor of the shape of hs, (B, T, H)."
    for wrong, message in TRUNCATIONS:
        if close(got, wrong(grad_hs, hs, w_h, 4)):
            return message
    whole = answer(grad_hs, hs, w_h, 10)
    if close(whole, my_truncated(grad_hs, hs, w_h, 4)):
        return "You cut every 4 steps whatever `chunk` is: use the argument."
    if close(whole, my_truncated(grad_hs, hs, w_h.T, 10)):
        return "On the way back the signal goes through w_h transposed: da_t @ w_h.T."
    if close(whole, my_truncated(grad_hs, hs, w_h, 10) / (1 - hs**2)) or close(whole[:, -1], grad_hs[:, -1]):
        return "The derivative of tanh is missing: multiply by 1 - h_t ** 2."
    if not close(whole, my_truncated(grad_hs, hs, w_h, 10)):
        return "One chunk over all ten steps is plain back-propagation through time, and that is wrong already."
    if not close(got, my_truncated(grad_hs, hs, w_h, 4)):
        return "Without cuts you are right; with chunk = 4 you are not. The signal stops at t = 8 and at t = 4."
    return None


def off_everywhere(grad_hs, hs, w_h, chunk):
    return my_truncated(grad_hs, hs, w_h.T, chunk)


# 4 · sampling at a temperature ----------------------------------------------------------------------------


def my_probabilities(logits, temperature):
    scaled = (logits - logits.max(dim=-1, keepdim=True).values) / temperature
    weights = torch.exp(scaled)
    return weights / weights.sum(dim=-1, keepdim=True)


def check_probabilities(answer) -> str | None:
    logits = numbers(3, 6)
    got = answer(logits, 1.0)
    if not isinstance(got, Tensor) or got.shape != (3, 6):
        return "Return one probability a symbol: a tensor of the shape of logits, (B, V) = (3, 6)."
    if close(got, torch.log_softmax(logits, -1)):
        return "These are logarithms of probabilities: leave out the log."
    if close(got, torch.softmax(logits.flatten(), 0).view(3, 6)):
        return "All rows together sum to 1. Every row is a distribution of its own: sum over the last dimension."
    if close(got, torch.softmax(logits, 0)):
        return "The columns sum to 1, not the rows: the symbols lie along the last dimension."
    if not close(got, torch.softmax(logits, -1)):
        return "At temperature 1 the answer must be the softmax of the logits over the last dimension."
    got = answer(logits, 0.5)
    if close(got, torch.softmax(logits, -1)):
        return "The temperature changes nothing in your answer."
    if close(got, torch.softmax(logits * 0.5, -1)):
        return "You multiply by the temperature. Divide: a low temperature must make the likely symbol likelier."
    if close(got, torch.softmax(logits, -1) / 0.5):
        return "You divide the probabilities, so that they no longer sum to 1. Divide the logits, before softmax."
    if not close(got, torch.softmax(logits / 0.5, -1)):
        return "At temperature 0.5 the answer must be the softmax of logits / 0.5."
    far, large = logits + torch.tensor([[0.0], [2000.0], [-2000.0]], dtype=logits.dtype), answer(logits * 1000, 0.1)
    if not torch.isfinite(large).all() or not torch.isfinite(answer(far, 1.0)).all():
        return "Large logits overflow exp. Subtract each row's largest logit first; it cancels in the fraction."
    pairs = ((large, torch.softmax(logits * 10000, -1)), (answer(far, 1.0), torch.softmax(far, -1)))
    if not all(torch.allclose(mine.to(right.dtype), right, atol=1e-2) for mine, right in pairs):
        return "Large logits give no error and a wrong answer. Do not cut them off: subtract each row's largest first."
    return None


# 5 · clipping ---------------------------------------------------------------------------------------------


def my_clip(grads, max_norm):
    norm = math.sqrt(sum(float((g ** 2).sum()) for g in grads))
    scale = min(1.0, max_norm / norm) if norm > 0 else 1.0
    return [g * scale for g in grads]


def clip_each(grads, max_norm):
    return [g * min(1.0, max_norm / float(g.norm())) for g in grads]


def check_clip(answer) -> str | None:
    grads, small = [numbers(4, 3), 3 * numbers(5)], [numbers(4, 3) / 1000, numbers(5) / 1000]
    got = answer(grads, 2.0)  # not 1: dividing by max_norm, or the fraction upside down, would not show
    if not isinstance(got, (list, tuple)) or [g.shape for g in got] != [g.shape for g in grads]:
        return "Return a list with one gradient for each that came in, each of its old shape."
    def scaled(factor):
        return all(close(mine, g * factor) for mine, g in zip(got, grads, strict=True))

    norms = torch.stack([g.norm() for g in grads])
    norm = norms.norm()
    if scaled(1):
        return "The gradients come back as they were. Together they are longer than max_norm, so scale them down."
    for wrong, message in (
        (2 / norm**2, "You divide by the squared norm: the square root is missing."),
        (1 / norm, "You scale to length 1, not to max_norm: the factor is max_norm / norm."),
        (norm / 2, "Your factor is upside down: it is max_norm / norm."),
        (1 / 2, "You divide by max_norm. The factor is max_norm / norm."),
        (0, "A long gradient becomes zero in yours. Shorten it and keep its direction."),
        (2 / norms.sum(), "You add the norms. Add the squares of all entries, then take one root."),
        (2 / norms.max(), "You use the longest tensor's norm. Use one norm, over all of them together."),
        (2 / sum(g.abs().sum() for g in grads), "You add absolute values: take the root of the sum of squares."),
    ):
        if scaled(wrong):
            return message
    if all(map(close, got, clip_each(grads, 2.0))):
        return "You clip each tensor on its own, which turns the direction. Use one norm, over all of them together."
    if all(map(close, got, [g.clamp(-2.0, 2.0) for g in grads])):
        return "You clip single entries, which turns the direction. Scale all of them by one common factor."
    if not all(map(close, got, my_clip(grads, 2.0))):
        return "All gradients together must have norm max_norm = 2 and keep their direction. Yours do not."
    if not all(map(close, answer(small, 1.0), small)):
        return "A short gradient must stay as it is: you lengthen it. Clipping only ever shortens."
    if not all(torch.isfinite(g).all() for g in answer([torch.zeros(3, dtype=torch.float64)], 1.0)):
        return "A gradient of zero becomes NaN: do not divide by its norm."
    return None


EXERCISES = [
    Exercise(
        name="my_step", lesson="rnn_bptt", title="The step", check=check_step, solution=my_step,
        hints=("Three terms go into the tanh: what comes in, what is remembered, and a constant.",
               "Shapes decide the order: x is (B, D) and w_x is (D, H), so the product is x @ w_x.",
               "return torch.tanh(x @ w_x + ... + b); the missing term has h and w_h."),
        wrong=(
            (lambda x, h, w_x, w_h, b: x @ w_x + h @ w_h + b, "tanh is missing"),
            (lambda x, h, w_x, w_h, b: torch.tanh(x @ w_x + b), "nothing is remembered"),
            (lambda x, h, w_x, w_h, b: torch.tanh(x @ w_x + h @ w_h), "bias b is missing"),
            (lambda x, h, w_x, w_h, b: torch.tanh(x @ w_x + h @ w_h.T + b), "w_h transposed"),
            (lambda x, h, w_x, w_h, b: torch.sigmoid(x @ w_x + h @ w_h + b), "must be tanh(x w_x)"),
            (lambda x, h, w_x, w_h, b: torch.tanh(x @ w_x + h @ w_h) + b, "inside the tanh"),
            (lambda x, h, w_x, w_h, b: torch.tanh(x @ w_x + 2 * h @ w_h + b), "Look at the term with h"),
            (lambda x, h, w_x, w_h, b: torch.tanh(x @ w_x + h @ w_h + b).T, "shape (B, H)"),
        )),
    Exercise(
        name="my_bptt", lesson="rnn_bptt", title="Back-propagation through time", check=check_bptt, solution=my_bptt,
        hints=("Walk from the last step to the first and carry what later steps send back.",
               "At step t: da_t = (grad_hs[:, t] + from_later) * (1 - h_t ** 2).",
               "Step t adds h_{t-1}.T @ da_t to the gradient of w_h, and sends da_t @ w_h.T to step t - 1."),
        wrong=(
            (wrong_bptt(transpose=False), "through w_h transposed"),
            (wrong_bptt(local=False), "derivative of tanh is missing"),
            (wrong_bptt(previous=False), "the state *before* it"),
            (wrong_bptt(carry=False), "Nothing comes back from later steps"),
            (wrong_bptt(last=True), "Only one step's share"),
            (wrong_bptt(own=False), "Only the last step's loss"),
            (wrong_bptt(mean=True), "You average over the steps"),
            (wrong_bptt(batch=True), "You average over the batch"),
            (wrong_bptt(wrap=True), "the *last* state"),
            (wrong_bptt(first=False), "first step's share is missing"),
            (wrong_bptt(forward=True), "from the first step to the last"),
            (wrong_bptt(pile=True), "grows by +="),
            (wrong_bptt(bare=True), "has not been through tanh"),
            (wrong_bptt(slope=lambda h: h * (1 - h)), "slope of the sigmoid"),
            (lambda *arguments: my_bptt(*arguments).T, "gradient is transposed"),
            (lambda *arguments: 2 * my_bptt(*arguments), "single step is wrong already"),
        )),
    Exercise(
        name="my_truncated", lesson="rnn_bptt", title="Truncation", check=check_truncated, solution=my_truncated,
        hints=("Start from back-propagation through time without cuts; only what is passed back changes.",
               "Chunks begin at t = 0, chunk, 2 chunk, ...; from such a step nothing goes to the step before.",
               "After da_t is known: from_later = da_t @ w_h.T, or zeros where t % chunk == 0."),
        wrong=(*((wrong, message[:24]) for wrong, message in TRUNCATIONS),
               (off_everywhere, "w_h transposed"))),
    Exercise(
        name="my_probabilities", lesson="rnn_bptt", title="Temperature", check=check_probabilities,
        solution=my_probabilities,
        hints=("A low temperature makes differences between logits larger.",
               "Divide the logits by the temperature, then take the softmax over the last dimension.",
               "exp overflows for large numbers: subtract each row's maximum before exp. It cancels."),
        wrong=(
            (lambda logits, temperature: torch.softmax(logits * temperature, -1), "multiply by the temperature"),
            (lambda logits, temperature: torch.softmax(logits, -1) / temperature, "divide the probabilities"),
            (lambda logits, temperature: torch.softmax(logits, -1), "changes nothing"),
            (lambda logits, temperature: torch.softmax(logits / temperature, 0), "columns sum to 1"),
            (lambda logits, temperature: torch.log_softmax(logits / temperature, -1), "leave out the log"),
            (lambda logits, temperature: (logits / temperature).exp() / (logits / temperature).exp().sum(),
             "All rows together sum to 1"),
            (lambda logits, temperature: (logits / temperature).exp() / (logits / temperature).exp().sum(-1, True),
             "overflow exp"),
        )),
    Exercise(
        name="my_clip", lesson="rnn_bptt", title="Clipping", check=check_clip, solution=my_clip,
        hints=("One number decides: the length of all gradients together, as if they were one long vector.",
               "norm = sqrt(sum of all squared entries of all tensors); the common factor is max_norm / norm.",
               "Use the factor only where it shortens: min(1, max_norm / norm), and beware of norm = 0."),
        wrong=(
            (clip_each, "each tensor on its own"),
            (lambda grads, max_norm: [g.clamp(-max_norm, max_norm) for g in grads], "single entries"),
            (lambda grads, max_norm: grads, "come back as they were"),
            (lambda grads, max_norm: [g * max_norm / math.sqrt(sum(float((v ** 2).sum()) for v in grads) + 1e-30)
                                      for g in grads], "you lengthen it"),
            (lambda grads, max_norm: [g * max_norm / sum(float((v ** 2).sum()) for v in grads) for g in grads],
             "square root is missing"),
            (lambda grads, max_norm: [g * torch.tensor(max_norm / math.sqrt(sum(float((v ** 2).sum()) for v in grads))
                                                       if any(v.any() for v in grads) else math.nan).clamp(max=1)
                                      for g in grads], "becomes NaN"),
        )),
]

QUIZ = [
    Quiz("sharing", "Why can one recurrent network read sequences of any length?", (
        ("Every step uses the same weights, so the number of weights does not depend on the length.",
         "Yes. The loop may run five times or five thousand; w_x, w_h and b stay what they are."),
        ("It holds weights for the longest sequence and leaves the rest unused.",
         "Then a longer sequence than any before could not be read. Weights are shared, not stored a step."),
        ("It cuts the sequence into windows of a fixed size.",
         "That is what a network without recurrence has to do. Here the state carries on from step to step."),
        ("Short sequences are padded to the same length.",
         "Padding only makes a batch rectangular. One sequence alone needs none."),
    ), correct=0),
    Quiz("vanishing", "The largest singular value of w_h is 0.9. How much can a change of h_t move h_{t+50}?", (
        ("By the same amount: tanh only bends.", "tanh never stretches (its slope is at most 1) and w_h shrinks."),
        ("At most 0.9^50 of the change, about 0.5 %.",
         "Yes. Each step multiplies by w_h (at most 0.9) and by tanh's slope (at most 1)."),
        ("At most 0.9 of the change.", "That holds for one step. Fifty steps multiply fifty such factors."),
        ("It cannot be said: the weights could still be large.",
         "No entry of w_h can exceed its largest singular value: it bounds the whole matrix."),
    ), correct=1),
    Quiz("exploding", "The largest singular value of w_h is 1.3. Must the gradient explode?", (
        ("Yes, it grows like 1.3^k.", "Without tanh it could. But states near +1 or -1 have a slope near 0."),
        ("No: gradients cannot explode when a tanh is there.",
         "They can: with quiet input and σ = 1.5 the norm grew to about 100."),
        ("Yes, unless it is clipped.", "Clipping changes the step that is taken, not the gradient itself."),
        ("No: tanh's slope can bring the product below 1 at every step.",
         "Yes. More than 1 is needed for an explosion, but it does not suffice (Pascanu et al., 2013)."),
    ), correct=3),
    Quiz("truncation", "Chunks of 32 characters, state carried over. What can the model not learn directly?", (
        ("To use anything from more than 32 characters ago.",
         "It can use what the state holds, however old. Only the gradient stops, the state does not."),
        ("Words that straddle two chunks.", "The state is carried over, so both halves are read as one word."),
        ("To store something now because it helps more than 32 steps later.",
         "Yes, and less where a cut comes sooner: no gradient crosses it, so nothing rewards storing."),
        ("The order of the chunks.", "They are read in order, and the state passes from each to the next."),
    ), correct=2),
    Quiz("bits", "A model reaches 2.2 bits per character on held-out plays. What does the number say?", (
        ("It errs in 2.2 % of the characters.", "It says nothing on right or wrong guesses, only on probabilities."),
        ("On average it gives the next character a probability of 2^-2.2, about 0.22.",
         "Yes, in the geometric mean: as unsure as a fair draw from 4.6 characters."),
        ("Each character is stored in 2.2 bits of weights.", "The weights are another matter: this is about text."),
        ("It knows 2.2 of the 70 characters.", "It gives every character some probability; none is left out."),
    ), correct=1),
]
