"""Lesson 07, what reads and what is drawn: a merge of byte-pair encoding, the mask of what is new, top-p.

The cache and its missing place are in `gpt_cache.py`, the loss of fine-tuning in `gpt_fine_tuning.py`, what is asked
in `gpt_questions.py`.
"""

import random

import torch

from course_lib.exercises import Exercise
from course_lib.exercises.probes import OTHER_SIZES, SINGLE, Case, narrowed, same
from course_lib.exercises.slips import slips


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


MERGE = Exercise(
    solution=my_merge,
    cases=(Case(lines, first_line, of_each),),
    mistakes=slips("""
        merged, i = [], 0 -> return " ".join(tokens).replace(" ".join(pair), "".join(pair)).split()
            You join the tokens to one text and replace in it. There the end of a longer token looks like the pair:
            "xa b" holds "a b". Compare whole tokens.
        == pair: -> == pair and not merged.count("".join(pair)):
            Only the first pair is merged in yours. Every occurrence becomes one token.
        i += 2 -> i += 1
            Its right half comes once more behind the merged pair: go on two places further, i += 2.
        while i < len(tokens) -> while i < len(tokens) - 1
            The last token is lost where no pair ends the list: walk on to len(tokens).
        tuple(tokens[i : i + 2]) == pair -> (tokens[i], tokens[i + 1]) == pair
            At the last token there is no tokens[i + 1]. A slice, tokens[i : i + 2], ends where the list ends.
        merged, i = [], 0 -> merged, i, tokens, pair = [], 0, [t[::-1] for t in tokens[::-1]], (pair[1][::-1], pair[0])
        == pair -> == (pair[0], pair[1][::-1])
        return merged -> return [token[::-1] for token in merged[::-1]]
            You go from right to left: "a a a" becomes "a aa". Byte-pair encoding goes from left to right, "aa a".
        tuple(tokens[i : i + 2]) == pair -> len(tokens) > i + 1 and "".join(tokens[i : i + 2]) == "".join(pair)
            You compare the joined text, so that "ab" + "c" counts as the pair ("a", "bc"). Compare token by token.
        merged.append(tokens[i] + tokens[i + 1]) -> merged.append(pair)
            You append the pair itself. A token is a text: left + right.
        merged.append(tokens[i] + tokens[i + 1]) -> merged.append(" ".join(pair))
            There is a blank in your merged token. Nothing stands between its halves: left + right.
        tokens[i] + tokens[i + 1] -> tokens[i + 1] + tokens[i]
            Your merged token has its halves exchanged: left + right.
        == pair -> in (pair, pair[::-1])
            You merge right + left as well. A pair has an order: ("t", "h") is not ("h", "t").
        merged.append(tokens[i]) -> merged.extend(tokens[i : i + 2])
        i += 1 -> i += 2
            You ask at every second place. A pair may begin at any place: go on by one where none begins.
        merged.append(tokens[i]) -> pass
            What belongs to no pair is lost in yours. It stays as it is.
        while i < len(tokens) -> while i < len(tokens) and len(tokens) > 1
            A list of a single token comes back empty in yours. It has no pair, so it stays as it is.
    """),
)


def my_window(n_new, n_all):
    whole = torch.ones(n_new, n_all, dtype=torch.bool)  # (n_new, n_all)
    return whole.tril(n_all - n_new)  # the first new place stands behind so many others


def windows(answer, sizes):
    """For `Case.ask`: one mask for each pair of sizes."""
    return [answer(*pair) for pair in sizes]


WINDOW = Exercise(
    solution=my_window,
    cases=(
        Case(
            lambda: (3, 8),
            narrowed(
                (lambda given: (8, 8), "With n_new = n_all it is wrong already: that is the triangle of lesson 06."),
                (lambda given: (1, 8), "With one new place it is wrong: the last of all may look at all, itself too."),
                otherwise="The triangle is right, and so is a single new place. With 3 new ones of 8 the first of them "
                "stands at place 5, counted from 0, and may look at places 0 to 5.",
            ),
        ),
        Case(lambda: ([(2, 3), (1, 1), (1, 6), (4, 4), (5, 6), (2, 20)],), OTHER_SIZES, windows),
    ),
    mistakes=slips("""
        .tril(n_all - n_new) -> .tril()
            Your rows are those of the first n_new places. The new places are the last ones: move the triangle.
        n_all - n_new -> n_all - n_new - 1
            A new place cannot see itself in yours. It may: it asks with what it has read, itself included.
        n_all - n_new -> n_all - n_new + 1
            Each new place sees the one after it, which it has to predict. It looks at itself and back.
        n_all - n_new -> n_new - n_all
            The triangle moves the wrong way: n_all - n_new places stand in front of the first new one.
        n_all - n_new -> n_new
            You move the triangle by n_new. What stands in front of the first new place are n_all - n_new others.
        .tril(n_all - n_new) -> .triu(n_all - n_new)
            Your new places look at themselves and ahead. They look back: tril.
        .tril(n_all - n_new) -> .triu(n_all - n_new + 1)
            Your mask is the reverse, True = hidden, as PyTorch's layers want it. Here True = may be attended to.
        .tril(n_all - n_new) -> .tril(n_all - n_new).float()
            Your mask is made of 1.0 and 0.0. Here a mask is bool: leave out float().
        return whole.tril(n_all - n_new) -> return torch.where(whole.tril(n_all - n_new), 0.0, -torch.inf)
            Yours is a mask to be added, 0 and minus infinity. Here it is bool, True = may be attended to.
        ones(n_new, -> ones(n_all,
        .tril(n_all - n_new) -> .tril()
            You give a row to every place. Only the new ones ask: of this triangle their rows, the last n_new.
        ones(n_new, n_all -> ones(n_new, n_new
        .tril(n_all - n_new) -> .tril()
            Your new places see only each other. All that came before is in the cache, and they may look at it.
        ones(n_new, n_all -> ones(n_all, n_new
        .tril(n_all - n_new) -> .tril()
            Rows and columns are exchanged: a row for each new place, a column for each place that there is.
        .tril(n_all - n_new) -> .clone()
            Nothing is hidden in yours. With several new places at once, the first must not see those after it.
        .tril(n_all - n_new) -> .tril(n_all - n_new) & (torch.arange(n_all) >= n_all - n_new)
            The old places are hidden in yours. They all stand before the new ones: True.
    """),
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
    mistakes=slips("""
        before < p -> before + ordered < p
            You drop the token with which the sum reaches p. It is needed: without it the sum stays below p.
        before < p -> (before < p) | (before < p).roll(1, -1)
            You keep one token too many: the sum has reached p already before it.
        before < p -> before <= p
            Where the sum is exactly p you take one more token. It has reached p, so that is enough.
        before < p -> ordered >= p
            You compare each single probability with p. It is their sum, from the most probable on, that reaches p.
        return kept / kept.sum(dim=-1, keepdim=True) -> return kept
            Your rows no longer add up to 1: divide each one by its own sum.
        torch.zeros_like(probs).scatter(-1, order, ordered * keep) -> ordered * keep
            Your rows are still sorted. Each probability belongs to a token: put it back to its place.
        torch.zeros_like(probs).scatter(-1, order, ordered * keep) -> (ordered * keep).gather(-1, order)
            gather with `order` sorts once more, and does not undo the sort. Use scatter, or gather with order.argsort.
        kept.sum(dim=-1, keepdim=True) -> kept.sum()
            All rows together add up to 1. Each row is a distribution of its own: divide it by its own sum.
        return kept / kept.sum(dim=-1, keepdim=True) -> return torch.softmax(kept, dim=-1)
            A softmax of probabilities gives the tokens that were cut off exp(0) = 1 again. Divide by the sum.
        descending=True -> descending=False
            You begin with the least probable tokens, and keep the tail. Sort in descending order.
        cumsum(dim=-1) -> cumsum(dim=0)
            You add up over the rows. The tokens lie along the last dimension.
        keep = before < p -> keep = (before < p)[:1].repeat(len(probs), 1)
            Each row keeps as many tokens as the first one. How many are needed differs from row to row.
        keep = before < p -> keep = before >= p
            You keep what comes after p is reached, and drop what should stay.
        keep[:, 0] = True -> pass
            With p = 0 no token is left, and 0 / 0 is NaN. The most probable one always stays.
        keep[:, 0] = True -> keep[:, 0] = True; keep = ordered >= ordered.masked_fill(~keep, 2).amin(-1, keepdim=True)
            You keep all tokens that are as probable as the last one needed. Asked is the smallest set: any of them.
    """),
)

EXERCISES = [MERGE, WINDOW, TOP_P]
