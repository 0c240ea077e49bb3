"""Lesson 07, what is kept and what is learned: a head with a cache, and a step that forgets its place.

The notebook holds the broken function word for word, under the name of its exercise.
"""

import torch

from course_lib.workshop.exercises import Exercise
from course_lib.workshop.exercises.gpt import my_window
from course_lib.workshop.exercises.probes import (
    NO_GRADIENT,
    OVERFLOW,
    SINGLE,
    Case,
    far_apart,
    fresh,
    pulled,
    same,
    tensors,
)


def my_cached(x, cache, w_q, w_k, w_v, window):
    q, k, v = x @ w_q, x @ w_k, x @ w_v  # (B, n, d): of the new places alone
    if cache:
        k = torch.cat([cache["k"], k], dim=1)  # (B, T, d): the old places first
        v = torch.cat([cache["v"], v], dim=1)
    cache["k"], cache["v"] = k, v
    scores = q @ k.mT / k.shape[-1] ** 0.5  # (B, n, T)
    scores = scores.masked_fill(~window(x.shape[1], k.shape[1]), -torch.inf)
    return torch.softmax(scores, dim=-1) @ v  # (B, n, d)


def keeps_x(x, cache, w_q, w_k, w_v, window):
    """A wrong answer: right numbers, and nothing saved."""
    every = cache["x"] = torch.cat([cache["x"], x], dim=1) if cache else x
    return my_cached(every, {}, w_q, w_k, w_v, window)[:, every.shape[1] - x.shape[1] :]


def text(B=3, chunks=(3, 1, 2), D=6, d=4, dtype=torch.float64):
    """A text x (B, T, D), cut into so many places at a time, and three matrices (D, d)."""
    shapes = "B T D, D S, D S, D S"
    given = tensors(shapes, sizes={"B": B, "T": sum(chunks), "D": D, "S": d})()
    x, *matrices = (a.to(dtype) for a in given)
    return x, chunks, matrices


def read(answer, x, chunks, matrices):
    """For `Case.ask`: what each call gives, chunk by chunk, with one cache."""
    cache = {}
    return [answer(part, cache, *matrices, my_window) for part in x.split(list(chunks), dim=1)]


def read_twice(answer, x, chunks, matrices):
    """For `Case.ask`: a second text, with a cache of its own, read in turns with the first."""
    one, other = {}, {}
    return [
        answer(part * sign, cache, *matrices, my_window)
        for part in x.split(list(chunks), dim=1)
        for sign, cache in ((1, one), (-1, other))
    ]


def read_with_other_matrices(answer, x, chunks, matrices):
    """For `Case.ask`: other matrices for the last chunk, which shows whether old keys are made anew."""
    cache, parts = {}, x.split(list(chunks), dim=1)
    for part in parts[:-1]:
        answer(part, cache, *matrices, my_window)
    return answer(parts[-1], cache, *(2 - 3 * w for w in matrices), my_window)


def gradient(answer, x, chunks, matrices):
    """For `Case.ask`: the gradient of the whole text read at once, as in training."""
    return pulled(lambda x, *matrices: answer(x, {}, *matrices, my_window), x, *matrices)


def where_it_goes_wrong(answer, solution, arguments):
    """Which is the first wrong way to read: at once, one by one, or several behind others."""
    x, chunks, matrices = arguments
    for cut, sentence in (
        ((x.shape[1],), "With an empty cache it is wrong already: softmax(q kᵀ / √d) v, with `window` as the mask."),
        ((1,) * x.shape[1], "All at once is right, one token at a time is not: what does the cache hold after a call?"),
    ):
        given = (x, cut, matrices)
        if not same(read(answer, *fresh(given)), read(solution, *fresh(given))):
            return sentence
    return "All at once and one by one are right, several new tokens after old ones are not: window(n_new, n_all)."


def last_only(x, cache, *more):
    seen = my_cached(x, cache, *more)
    cache["k"], cache["v"] = cache["k"][:, -x.shape[1] :], cache["v"][:, -x.shape[1] :]
    return seen


def looking_by(change):
    """A wrong answer to `my_cached`: change(window) is the mask."""
    return lambda x, cache, w_q, w_k, w_v, window: my_cached(x, cache, w_q, w_k, w_v, change(window))


def scaled(factor):
    """A wrong answer to `my_cached`: the scores are factor(d, D) times what they should be."""
    return lambda x, cache, w_q, *more: my_cached(x, cache, w_q * factor(w_q.shape[1], w_q.shape[0]), *more)


CACHED = Exercise(
    solution=my_cached,
    in_place=True,  # the cache is there to be changed
    cases=(
        Case(lambda: text(1, (2, 2)), where_it_goes_wrong, read),
        Case(text, where_it_goes_wrong, read),
        Case(
            text, "Two texts are read in turns, each with a cache of its own: keep nothing outside `cache`.", read_twice
        ),
        Case(
            text,
            "You compute the keys and values of old tokens again. Take them from the cache as they are.",
            read_with_other_matrices,
        ),
        Case(lambda: text(D=5, d=7), "Where keys are 7 wide it is wrong, 4 wide it is right: divide by √d.", read),
        Case(lambda: (far_apart(), (1, 2), [torch.eye(2)] * 3), OVERFLOW, read),
        Case(text, NO_GRADIENT, gradient),
        Case(lambda: text(dtype=torch.float32), SINGLE, read),
    ),
    mistakes={
        "cache_stays_empty": lambda x, cache, *more: my_cached(x, {}, *more),
        "last_only": last_only,
        "nothing_hidden": looking_by(lambda window: lambda n, T: torch.ones(n, T, dtype=torch.bool)),
        "mask_inverted": looking_by(lambda window: lambda n, T: ~window(n, T)),
        "first_rows": looking_by(lambda window: lambda n, T: window(T, T)[:n]),
        "undivided": scaled(lambda d, D: d**0.5),
        "divided_by_root_of_D": scaled(lambda d, D: (d / D) ** 0.5),
        "keeps_x": keeps_x,
    },
)


def broken_next(ids, cache, tokens, places, look, readout):
    """Logits (B, n, V) for what follows each new token: ids (B, n), cache {} at first, tables (V, D) and (T, D)."""
    n = ids.shape[1]
    x = tokens[ids] + places[:n]  # (B, n, D): what stands there, and where
    x = x + look(x, cache)  # a head with a cache: afterwards cache["k"] holds one key for each place so far
    return readout(x)


def mended_next(ids, cache, tokens, places, look, readout):
    n = ids.shape[1]
    past = cache["k"].shape[1] if cache else 0  # so many places are read already
    x = tokens[ids] + places[past : past + n]  # (B, n, D): what stands there, and where
    x = x + look(x, cache)  # a head with a cache: afterwards cache["k"] holds one key for each place so far
    return readout(x)


def writer(B=3, chunks=(3, 1, 2, 1), D=6, V=9, places=11, dtype=torch.float64):
    """Ids (B, T), cut so, and what the step is given: tables, matrices of the head, and of the readout."""
    shapes = "V D, P D, D D, D D, D D, D V"
    sizes = {"B": B, "D": D, "V": V, "P": places}
    given = [a.to(dtype) for a in tensors(shapes, sizes=sizes, scale=1.0)()]
    return torch.randint(V, (B, sum(chunks))), chunks, given


def steps(answer, ids, chunks, given):
    """For `Case.ask`: the logits of each call."""
    tokens, places, *matrices, out = given
    cache = {}

    def look(x, cache):
        own = {key: cache[key] for key in ("k", "v") if key in cache}  # a student may keep more in it
        seen = my_cached(x, own, *matrices, my_window)
        cache.update(own)
        return seen

    return [answer(part, cache, tokens, places, look, lambda x: x @ out) for part in ids.split(list(chunks), dim=1)]


def way_back(answer, ids, chunks, given):
    """For `Case.ask`: the gradient of tables and matrices where the text is read at once, as in training."""
    return pulled(lambda *given: steps(answer, ids, (ids.shape[1],), given), *given)


def ids_after(answer, ids, chunks, given):
    """For `Case.ask`: the logits of each call, and the texts after all of them."""
    return steps(answer, ids, chunks, given), ids


def which_call(answer, solution, arguments):
    """In which call it goes wrong: the first, one with a single new token, or one with several."""
    got, right = steps(answer, *fresh(arguments)), steps(solution, *fresh(arguments))
    wrong = next(call for call in range(len(right)) if not same(got[call], right[call]))
    n, before = arguments[1][wrong], sum(arguments[1][:wrong])
    if not wrong:
        return "With an empty cache it is wrong already, where the function was right: positions 0 to n - 1."
    return f"The call with {n} new after {before} is wrong: their positions are {before} to {before + n - 1}, from 0."


def placed(vectors):
    """A wrong answer to `mended_next`: vectors(places, cache, n) is added to the tokens."""

    def step(ids, cache, tokens, places, look, readout):
        x = tokens[ids] + vectors(places, cache, ids.shape[1])
        return readout(x + look(x, cache))

    return step


def placed_after(past):
    """A wrong answer to `mended_next`: n positions from past(cache) on, where the cache is not empty."""
    return placed(lambda places, cache, n: places[past(cache) if cache else 0 :][:n])


NEXT = Exercise(
    solution=mended_next,
    in_place=True,
    cases=(
        Case(writer, which_call, steps),
        Case(lambda: writer(1, (1, 1, 1), 4), "With one text and one token at a time it is wrong.", steps),
        Case(lambda: writer(2, (1, 3, 4, 3)), "Up to the last position of the table it is wrong.", steps),
        Case(writer, "The logits are right, and `ids` is not as it was before the call. Leave it as it is.", ids_after),
        Case(writer, NO_GRADIENT, way_back),
        Case(lambda: writer(dtype=torch.float32), SINGLE, steps),
    ),
    stub=broken_next,
    mistakes={
        "bug_still_there": broken_next,
        "length_of_cache": placed_after(len),
        "number_of_texts": placed_after(lambda cache: len(cache["k"])),
        "one_too_far": placed_after(lambda cache: cache["k"].shape[1] + 1),
        "one_position": placed(lambda places, cache, n: places[cache["k"].shape[1] if cache else 0, None]),
        "first_call_only": placed(lambda places, cache, n: 0 if cache else places[:n]),
        "head_without_cache": lambda ids, cache, tokens, places, look, readout: mended_next(
            ids, cache, tokens, places, lambda x, cache: look(x, {}), readout
        ),
    },
)


EXERCISES = [CACHED, NEXT]
