"""Lesson 18, codes after words, written one by one; and dead codes, all moved onto one vector, to fix.

The notebook holds the broken function word for word, under the name of its exercise.
"""

from collections import Counter

import torch

from course_lib.workshop.exercises import Exercise
from course_lib.workshop.exercises.probes import OTHER_SIZES, SINGLE, Case, fresh, same


def my_draw(model, words, n, n_words):
    row = words
    for _ in range(n):
        logits = model(row)[:, -1]  # (B, V + K): what follows the sequence
        best = logits[:, n_words:].argmax(dim=1, keepdim=True)  # (B, 1): a code, from 0, and never a word
        row = torch.cat([row, best + n_words], dim=1)
    return row[:, words.shape[1] :] - n_words  # (B, n)


def one_by_one(logits, table):
    """A small model: its prediction depends on every token so far and its position. (B, T) -> (B, T, V + K)."""

    def model(row):
        places = torch.arange(1, row.shape[1] + 1, dtype=table.dtype)[:, None]
        read = (table[row] * torch.cos(places * torch.arange(1, table.shape[1] + 1))).cumsum(dim=1)  # (B, T, D)
        return torch.tanh(read) @ logits[1:] + logits[0]

    return model


def names(B=5, T=3, V=7, K=8, n=6, D=16):
    """Words (B, T), n, V, and the two tables of a model that finds any word more probable than any code."""
    logits = torch.randn(D + 1, V + K, dtype=torch.float64)
    logits[0, :V] += 20.0
    logits[0, V:] = -20.0
    return torch.randint(V, (B, T)), n, V, logits, torch.randn(V + K, D, dtype=torch.float64)


def the_last_code():
    """A model that has two words and nine codes, and always writes the last code."""
    words, n, n_words, logits, table = names(4, 3, 2, 9, 5)
    logits[0, -1] += 100.0
    return words, n, n_words, logits, table


def written(answer, words, n, n_words, logits, table):
    """For `Case.ask`: the codes that are generated with this model."""
    return answer(one_by_one(logits, table), words, n, n_words)


def which_code(answer, solution, arguments):
    """With how few names and codes it goes wrong already."""
    words, n, n_words, *tables = arguments
    for easy, said in (
        (
            (words[:1], 1),
            "The first code of a single name is wrong already: it is the best code by the logits of the last position, "
            "counted from 0. Nothing is sampled.",
        ),
        ((words, 1), "One name is right, several are not: each has its own best code."),
        ((words, 2), "The first code is right, the second is not: what does the model read before it?"),
    ):
        given = (*easy, n_words, *tables)
        if not same(written(answer, *fresh(given)), written(solution, *fresh(given))):
            return said
    return f"Two codes are right, {n} are not: each is read, with all before it, before you choose the next one."


def all_at_once(model, words, n, n_words):
    """The n best codes for the first position."""
    return model(words)[:, -1, n_words:].topk(n, dim=1).indices


def any_token(model, words, n, n_words):
    row = words
    for _ in range(n):
        row = torch.cat([row, model(row)[:, -1].argmax(dim=1, keepdim=True)], dim=1)
    return row[:, words.shape[1] :] - n_words


def reading(part):
    """A wrong answer to `my_draw`: the model reads part(sequence, number of words)."""

    def draw(model, words, n, n_words):
        return my_draw(lambda row: model(part(row, words.shape[1])), words, n, n_words)

    return draw


DRAW = Exercise(
    solution=my_draw,
    cases=(
        Case(names, which_code, written),
        Case(lambda: names(1, 1, 1, 3, 1), OTHER_SIZES, written),
        Case(lambda: names(2, 6, 30, 5, 4), "With more words than codes it is wrong.", written),
        Case(lambda: names(3, 2, 4, 1, 3), "With a single code it is wrong: that code, n times.", written),
        Case(the_last_code, "With more codes than words it is wrong: code k is token n_words + k.", written),
    ),
    mistakes={
        "any_token": any_token,
        "all_at_once": all_at_once,
        "words_alone": reading(lambda row, T: row[:, :T]),
        "words_forgotten": reading(lambda row, T: row[:, T:] if row.shape[1] > T else row),
        "first_position": lambda model, *more: my_draw(lambda row: model(row).flip(1), *more),
        "tokens_returned": lambda model, words, n, n_words: my_draw(model, words, n, n_words) + n_words,
        "last_code_only": lambda *given: my_draw(*given)[:, -1:],
        "one_too_many": lambda model, words, n, n_words: my_draw(model, words, n + 1, n_words),
    },
)


def broken_revive(codes, share, vectors):
    """The codes (K, E), each dead one moved onto a vector of its own. No gradient is needed.

    vectors (N, E): all different, and at least as many as dead codes. share (K,): how often each code is chosen, 1 if
    all are chosen equally; below 0.03 a code is dead.
    """
    codes = codes.clone()
    dead = (share < 0.03).nonzero().flatten()  # which ones
    drawn = torch.randint(len(vectors), (1,))  # where they go
    codes[dead] = vectors[drawn]
    return codes


def mended_revive(codes, share, vectors):
    codes = codes.clone()
    dead = (share < 0.03).nonzero().flatten()  # which ones
    drawn = torch.randperm(len(vectors))[: len(dead)]  # where they go: no vector twice
    codes[dead] = vectors[drawn]
    return codes


def codebook(living=6, dead=14, N=22, E=3, dtype=torch.float64):
    """Codes of which so many are dead and lie far away, how often each is chosen, and vectors."""
    shares = torch.cat([torch.rand(living) + 0.5, 0.029 * torch.rand(dead)]).double()
    shares[:living][:1], shares[living:][:2] = 0.05, 0.0  # one is just alive, two are never chosen
    shares[:living][1:2] = 0.03 if dtype == torch.float64 else 0.031  # alive as well: not below 0.03
    codes = torch.cat([torch.randn(living, E), 50 + torch.randn(dead, E)])
    order = torch.randperm(living + dead)
    return codes[order].to(dtype), shares[order].to(dtype), torch.randn(N, E).to(dtype)


def lies(code, own, others, vectors):
    """Where a code lies now, in words."""
    for place, points in (("where it was", own[None]), ("on a vector", vectors), ("on a living code", others)):
        if (points == code).all(dim=1).any():
            return place
    if ((vectors - code).norm(dim=1) < 0.1).any():
        return "near a vector"
    return "near where it was" if (own - code).norm() < 0.5 else "elsewhere"


def places(answer, codes, share, vectors):
    """For `Case.ask`: where living codes and dead ones lie afterwards, in words; what is no codebook, as it is."""
    found, dead = answer(codes, share, vectors), share < 0.03
    if not isinstance(found, torch.Tensor) or (found.shape, found.dtype) != (codes.shape, codes.dtype):
        return found
    told = []
    for name, which in (("living", ~dead), ("dead", dead)):
        counts = Counter(
            lies(found[i], codes[i], codes[~dead & (torch.arange(len(codes)) != i)], vectors)
            for i in which.nonzero().flatten()
        )
        told += [f"{name}: {count} {place}" for place, count in sorted(counts.items())]
    different = len(found[dead].unique(dim=0))
    return "; ".join(
        [*told, {int(dead.sum()): "each alone", 1: "all at one point"}.get(different, "some at one point")]
    )


def form(answer, codes, share, vectors):
    """For `Case.ask`: zeros where the result has numbers, because where a code is put may be random."""
    found = answer(codes, share, vectors)
    return 0 * found if isinstance(found, torch.Tensor) else found


def where_they_lie(answer, solution, arguments):
    """What is wrong about where codes lie."""
    return f"After yours the codes lie so: {places(answer, *arguments)}. It should be: {places(solution, *arguments)}."


def moving(where):
    """A wrong answer to `mended_revive`: where(dead codes, vectors) is where they go."""

    def revive(codes, share, vectors):
        codes, dead = codes.clone(), share < 0.03
        codes[dead] = where(codes[dead], vectors)
        return codes

    return revive


REVIVE = Exercise(
    solution=mended_revive,
    cases=(
        Case(codebook, "A codebook is K codes of E numbers.", form),
        Case(codebook, where_they_lie, places),
        Case(lambda: codebook(5, 0, 4), "Where no code is dead it is wrong: all stay."),
        Case(
            lambda: codebook(4, 1, 1),
            "With one dead code and one vector it is wrong: that code moves onto the vector, the others stay.",
        ),
        Case(lambda: codebook(3, 11, 11), where_they_lie, places),
        Case(lambda: codebook(0, 4, 9, 1), "Where all codes are dead it is wrong: all move.", places),
        Case(lambda: codebook(2, 1, 1, dtype=torch.float32), SINGLE),
    ),
    stub=broken_revive,
    mistakes={
        "bug_still_there": broken_revive,
        "some_share": moving(lambda dead, vectors: vectors[torch.randint(len(vectors), (len(dead),))]),
        "mean": moving(lambda dead, vectors: vectors.mean(dim=0)),
        "nearby": moving(lambda dead, vectors: dead + 0.01 * torch.randn_like(dead)),
        "elsewhere": moving(lambda dead, vectors: 5 + torch.randn_like(dead)),
        "never_chosen_only": lambda codes, share, vectors: mended_revive(codes, (share > 0).to(share), vectors),
        "living_moved": lambda codes, share, vectors: mended_revive(codes, (share < 0.03).to(share), vectors),
        "nothing_moves": lambda codes, share, vectors: codes.clone(),
    },
)

EXERCISES = [DRAW, REVIVE]
