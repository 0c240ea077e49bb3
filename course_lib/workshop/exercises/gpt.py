"""Lesson 07, what reads and what is drawn: a merge of byte-pair encoding, the mask of what is new, top-p.

The cache and its missing position are in `gpt_cache.py`, the loss of fine-tuning in `gpt_fine_tuning.py`.
"""

import random

import torch

from course_lib.workshop.exercises import Exercise
from course_lib.workshop.exercises.probes import OTHER_SIZES, SINGLE, Case, narrowed, same


def my_merge(tokens, pair):
    merged, i = [], 0
    while i < len(tokens):
        if tuple(tokens[i : i + 2]) == pair:  # behind the last token stands none: one alone is no pair
            merged.append(tokens[i] + tokens[i + 1])
            i += 2
        else:
            merged.append(tokens[i])
            i += 1
    return merged


def lines():
    """Token lists and pairs, the simple ones first: what goes wrong is then shown on the shortest line."""
    fixed = [
        ("t h e", "t h"),
        ("b o t h", "t h"),
        ("t h a t", "t h"),
        ("t h i s t h a t", "t h"),
        ("o t h e r", "t h"),
        ("h t t h", "t h"),
        ("a a a", "a a"),
        ("a a a a a", "a a"),
        ("xa b a bx a b", "a b"),
        ("ab c a bc abc", "a bc"),
        ("th e th er", "th e"),
        ("q", "t h"),
        ("th", "t h"),
        ("", "t h"),
    ]
    drawn = [(" ".join(random.choices("ab", k=12)), pair) for pair in ("a b", "a a", "b a") for _ in range(3)]
    given = [(line.split(), tuple(pair.split())) for line, pair in fixed + drawn]
    return ([*given, (["o", " ", "t", "h"], (" ", "t"))],)


def of_each(answer, lines):
    """For `Case.ask`: all that comes back as one text; but what is no list of tokens as it is, for a look at it."""
    results = [answer(list(tokens), pair) for tokens, pair in lines]
    for result in results:
        if not isinstance(result, (list, tuple)) or not all(isinstance(token, str) for token in result):
            return result
    return "\n".join("|".join(result) for result in results)


def first_line(answer, solution, arguments):
    """The first line on which an answer goes wrong, and how."""
    simple, pair = arguments[0][0]
    if str(answer(list(simple), pair)) != str(answer(list(simple), pair)):
        return "Two calls with the same tokens give different lists: begin with an empty list in every call."
    for tokens, pair in arguments[0]:
        got, right = answer(list(tokens), pair), solution(tokens, pair)
        if not same(got, right):
            return f"{tokens} with the pair {pair} gives {right}; yours gives {got}."
    return "Each line alone is right, all in a row are not: begin with an empty list in every call."


def merge_where(begins=lambda tokens, i, pair: tuple(tokens[i : i + 2]) == pair, token="".join, further=2):
    """A wrong answer to `my_merge`: another test for the pair, another token for it, or a walk of another length."""

    def merge(tokens, pair):
        merged, i = [], 0
        while i < len(tokens):
            found = begins(tokens, i, pair)
            merged.append(token(tokens[i : i + 2]) if found else tokens[i])
            i += further if found else 1
        return merged

    return merge


def right_to_left(tokens, pair):
    backwards = my_merge([token[::-1] for token in tokens[::-1]], (pair[1][::-1], pair[0][::-1]))
    return [token[::-1] for token in backwards[::-1]]


def joined_compared(tokens, i, pair):
    return len(tokens) > i + 1 and tokens[i] + tokens[i + 1] == pair[0] + pair[1]


MERGE = Exercise(
    solution=my_merge,
    cases=(Case(lines, first_line, of_each),),
    mistakes={
        "joined_text": lambda tokens, pair: " ".join(tokens).replace(" ".join(pair), "".join(pair)).split(),
        "right_half_again": merge_where(further=1),
        "past_the_end": merge_where(lambda tokens, i, pair: (tokens[i], tokens[i + 1]) == pair),
        "right_to_left": right_to_left,
        "joined_compared": merge_where(joined_compared),
        "pair_itself": merge_where(token=tuple),
        "blank_between": merge_where(token=" ".join),
        "either_order": merge_where(lambda tokens, i, pair: tuple(tokens[i : i + 2]) in (pair, pair[::-1])),
    },
)


def my_window(n_new, n_all):
    whole = torch.ones(n_new, n_all, dtype=torch.bool)  # (n_new, n_all)
    return whole.tril(n_all - n_new)  # the first new place stands behind so many others


def windows(answer, sizes):
    """For `Case.ask`: one mask for each pair of sizes."""
    return [answer(*pair) for pair in sizes]


def triangle(n_new, n_all, diagonal=0):
    return torch.ones(n_new, n_all, dtype=torch.bool).tril(diagonal)


WINDOW = Exercise(
    solution=my_window,
    cases=(
        Case(
            lambda: (3, 8),
            narrowed(
                (lambda given: (8, 8), "With n_new = n_all it is wrong already: that is the triangle of lesson 06."),
                (lambda given: (1, 8), "With one new token it is wrong: it is the last, so it may attend to all."),
                otherwise="The triangle is right, and so is a single new token. With 3 new ones of 8 the first "
                "stands at position 5, counted from 0, and may attend to positions 0 to 5.",
            ),
        ),
        Case(lambda: ([(2, 3), (1, 1), (1, 6), (4, 4), (5, 6), (2, 20)],), OTHER_SIZES, windows),
    ),
    mistakes={
        "first_rows": triangle,
        "itself_hidden": lambda n_new, n_all: triangle(n_new, n_all, n_all - n_new - 1),
        "next_seen": lambda n_new, n_all: triangle(n_new, n_all, n_all - n_new + 1),
        "reversed": lambda n_new, n_all: ~my_window(n_new, n_all),
        "numbers": lambda n_new, n_all: my_window(n_new, n_all).float(),
        "all_rows": lambda n_new, n_all: triangle(n_all, n_all),
        "new_only": lambda n_new, n_all: triangle(n_new, n_new),
        "nothing_hidden": lambda n_new, n_all: triangle(n_new, n_all, n_all),
    },
)


def my_top_p(probs, p):
    ordered, order = probs.sort(dim=-1, descending=True)  # (B, V): the most probable token first
    before = ordered.cumsum(dim=-1) - ordered  # (B, V): what all tokens before this one add up to
    keep = before < p  # a token is needed as long as those before it do not reach p
    keep[:, 0] = True  # the best stays, also with p = 0
    kept = torch.zeros_like(probs).scatter(-1, order, ordered * keep)  # (B, V): at their own places again
    return kept / kept.sum(dim=-1, keepdim=True)


def rows(B=6, V=9, p=0.5, scale=1.0):
    """Probabilities (B, V), rows of very different sharpness, and p."""
    return (torch.randn(B, V).double() * scale * torch.linspace(0.5, 2, B).double()[:, None]).softmax(-1), p


def halves():
    """Probabilities whose sums are exact, in an order of their own: with p = 0.75 the sum reaches p exactly."""
    halved = torch.tensor([0.5, 0.25, 0.125, 0.0625, 0.0625]).double()
    return torch.stack([halved[torch.randperm(5)] for _ in range(3)]), 0.75


def in_order(answer, probs, p):
    """For `Case.ask`: the probabilities sorted, for with ties any choice is right."""
    result = answer(probs, p)
    return result.sort(dim=-1).values if isinstance(result, torch.Tensor) and result.dim() == 2 else result


def keeping(keep):
    """A wrong answer to `my_top_p`: keep(sorted probabilities, the sum before each, p) says which tokens stay."""

    def top_p(probs, p):
        ordered, order = probs.sort(dim=-1, descending=True)
        kept = ordered * keep(ordered, ordered.cumsum(dim=-1) - ordered, p)
        kept[:, 0] = ordered[:, 0]
        kept = torch.zeros_like(probs).scatter(-1, order, kept)
        return kept / kept.sum(dim=-1, keepdim=True)

    return top_p


def not_normalised(probs, p):
    return probs * (my_top_p(probs, p) > 0)


TOP_P = Exercise(
    solution=my_top_p,
    cases=(
        Case(
            rows,
            narrowed(
                (lambda given: (given["probs"], 1.0), "With p = 1 every token stays, so probs should come back."),
                (lambda given: (given["probs"], 0.0), "With p = 0 the most probable token of each row is left, at 1."),
                (lambda given: (given["probs"][:1], given["p"]), "With a single row it is wrong already."),
                otherwise="One row is right, several are not: each row has its own order, its own sum, its own number.",
            ),
        ),
        Case(lambda: rows(p=0.0), "With p = 0 the most probable token of each row is left, with probability 1."),
        Case(lambda: rows(p=1.0), "With p = 1 every token stays, so probs should come back."),
        Case(halves, "Where the sum reaches p exactly, as 0.5 + 0.25 does with p = 0.75, no further token is needed."),
        Case(lambda: (torch.full((2, 8), 0.125).double(), 0.5), "Of 8 equal ones, 4 are enough for p = 0.5.", in_order),
        Case(lambda: rows(1, 3), OTHER_SIZES),
        Case(lambda: (rows()[0].float(), 0.5), SINGLE),
    ),
    mistakes={
        "last_dropped": keeping(lambda ordered, before, p: before + ordered < p),
        "one_too_many": keeping(lambda ordered, before, p: (before < p) | (before < p).roll(1, -1)),
        "exactly_p": keeping(lambda ordered, before, p: before <= p),
        "each_compared": keeping(lambda ordered, before, p: ordered >= p),
        "not_normalised": not_normalised,
        "one_sum": lambda probs, p: not_normalised(probs, p) / not_normalised(probs, p).sum(),
        "softmax": lambda probs, p: torch.softmax(not_normalised(probs, p), dim=-1),
        "still_sorted": lambda probs, p: my_top_p(probs, p).sort(dim=-1, descending=True).values,
    },
)

EXERCISES = [MERGE, WINDOW, TOP_P]
