"""Lesson 05: self-attention, sinusoids, and the open question which scheme suits which task.

What turns, the matrix that moves sinusoids and rotary positions, is in `positional_encodings_turns.py`.
"""

import torch
from torch import Tensor

from course_lib.exercises import Exercise, Investigation, questions
from course_lib.exercises.probes import (
    NO_GRADIENT,
    OTHER_SIZES,
    OVERFLOW,
    SINGLE,
    SMALL,
    Case,
    far_apart,
    narrowed,
    pulled,
    single,
    tensors,
    without,
)
from course_lib.exercises.slips import slips


def my_self_attention(x, w_q, w_k, w_v, turn=None):
    q, k, v = x @ w_q, x @ w_k, x @ w_v  # (B, T, d_k) each
    if turn is not None:
        q, k = turn(q), turn(k)
    scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5  # (B, T, T): a row for each query
    return torch.softmax(scores, dim=-1) @ v  # (B, T, d_k)


SHAPES = "B T D, D N, D N, D N"  # N: d_k
SQUARE = {"B": 3, "T": 6, "D": 5, "N": 5}  # here a turned matrix fits


def by_place(x):
    """Stands for a rotary: multiplies each number by one for its position and column. x (..., T, d_k) -> as x."""
    return x * (1 + torch.outer(torch.arange(x.shape[-2]), torch.arange(x.shape[-1])) / 10)


ATTENTION = Exercise(
    title="Self-attention",
    solution=my_self_attention,
    returns="one vector for each token, (B, T, d_k)",
    cases=(
        Case(
            tensors(SHAPES, None, sizes=SQUARE),
            narrowed(
                (
                    without("w_q", "w_k"),
                    "With w_q and w_k zero all scores are equal: each token gets the mean of x @ w_v.",
                ),
                otherwise="The mean of all values comes out right, the weights do not: softmax(q kᵀ / √d_k).",
            ),
        ),
        Case(tensors(SHAPES, None), "Where D and d_k are equal you are right, and where they differ you are not."),
        Case(tensors(SHAPES, None, sizes=SMALL), OTHER_SIZES),
        Case(tensors(SHAPES, by_place), "With `turn` it is wrong: queries and keys go through it, before they meet."),
        Case(
            tensors(SHAPES, None, scale=10.0), "With scores in the thousands it is wrong: leave exp to torch.softmax."
        ),
        Case(lambda: (far_apart(), *[torch.eye(2)] * 3, None), OVERFLOW),
        Case(tensors(SHAPES, None), NO_GRADIENT, ask=pulled),
        Case(tensors(SHAPES, by_place), NO_GRADIENT, ask=pulled),
        Case(single(tensors(SHAPES, None)), SINGLE),
    ),
    hints=(
        "Three projections of the same x: q = x @ w_q, k = x @ w_k, v = x @ w_v, (B, T, d_k) each.",
        "Every query meets every key: q @ k.transpose(-2, -1) is (B, T, T). Divide by the square root of d_k.",
        "Softmax over the keys, the last dimension, gives weights; weights @ v is the answer.",
        "Where `turn` is given: q, k = turn(q), turn(k), right after the projections. v stays as it is.",
    ),
    mistakes=slips("""
        q.shape[-1] ** 0.5 -> 1
            You do not divide by √d_k. The sum has d_k terms: undivided, scores grow with it, and softmax is too sharp.
        q.shape[-1] ** 0.5 -> q.shape[-1]  # You divide by d_k. It is the square root: √d_k.
        q.shape[-1] ** 0.5 -> x.shape[-2] ** 0.5  # You divide by √T. It is the width of a query that counts, √d_k.
        q.shape[-1] ** 0.5 -> x.shape[-1] ** 0.5
            You divide by √D, the width of x. The sum in a score has d_k terms: √d_k, the width of a query.
        dim=-1 -> dim=-2
            Your columns sum to one. Each row is one query that shares out its weight: softmax over the last dimension.
        dim=-1 -> dim=0
            Your softmax runs over the batch: sentences share their weight. It is the last dimension, the keys.
        q @ k.transpose(-2, -1) -> k @ q.transpose(-2, -1)
            Queries and keys are exchanged: row t should hold the scores of query t, q_t · k_1, q_t · k_2 ...
        dim=-1) @ v -> dim=-1) @ k  # You take the mean of the keys. Keys are for being found; what is handed on is v.
        dim=-1) @ v -> dim=-1) @ x  # You take the mean of x itself. What a token hands on is its value, x @ w_v.
        x @ w_q, x @ w_k, x @ w_v -> x @ w_q.T, x @ w_k.T, x @ w_v.T
            You turn the matrices round. They are (D, d_k) here, not as in nn.Linear: x @ w_q.
        torch.softmax(scores, dim=-1) @ v -> scores @ v  # The softmax is missing: scores are not yet weights.
        torch.softmax(scores, dim=-1) @ v -> v.mean(-2, keepdim=True).expand_as(v)
            Every token gets the plain mean of all values: no query is asked. The weights are softmax(scores).
        q, k = turn(q), turn(k) -> pass  # You make no use of `turn`. Queries and keys go through it before they meet.
        q, k = turn(q), turn(k) -> q, k, v = turn(q), turn(k), turn(v)
            You turn the values too. Positions shall decide who is looked at, and leave alone what is handed on.
        q, k = turn(q), turn(k) -> q = turn(q)
            Only the queries are turned. A score can see the distance only if the keys are turned as well.
        q, k = turn(q), turn(k) -> q, k, v = turn(x) @ w_q, turn(x) @ w_k, turn(x) @ w_v
            You turn x, before the projections. `turn` is for queries and keys: turn(x @ w_q).
    """),
)


ROUNDED = 5e-6  # tolerance: five times what any order of operations loses in single precision


def wide(answer, *arguments):
    """For `Case.ask`: what comes back in double precision, for one may have worked in it, another in single."""
    result = answer(*arguments)
    return result.double() if isinstance(result, Tensor) and result.is_floating_point() else result


def my_sinusoids(max_len, d_model):
    steps = torch.arange(0, d_model, 2) / d_model  # (D/2,): 0, 2/D, 4/D ...
    angles = torch.arange(max_len)[:, None] / 10000**steps  # (T, D/2): one for each place and pair
    sin, cos = angles.sin(), angles.cos()
    return torch.stack([sin, cos], dim=-1).flatten(-2)  # (T, D): sin, cos, sin, cos ...


SINUSOIDS = Exercise(
    title="Sinusoids",
    solution=my_sinusoids,
    returns="a row for each place, real numbers (max_len, d_model)",
    cases=(
        Case(
            lambda: (12, 8),
            "Print your row 1: it should be sin 1, cos 1, sin 0.1, cos 0.1, sin 0.01 ...",
            wide,
            ROUNDED,
        ),
        Case(lambda: (40, 14), "For 12 places and width 8 you are right, for 40 and 14 you are not.", wide, ROUNDED),
        Case(lambda: (1, 2), "For one place and one pair the table is [[0, 1]]: sin 0 and cos 0.", wide, ROUNDED),
    ),
    hints=(
        "One angle for each place t and pair i: t / 10000^(2i/D), a table (max_len, D/2).",
        "places[:, None] / 10000 ** (torch.arange(0, D, 2) / D) makes that table by broadcasting.",
        "Column 2i is the sine and column 2i + 1 the cosine of the same angle.",
        "torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2) lays them side by side.",
    ),
    mistakes=slips("""
        torch.stack([sin, cos], dim=-1).flatten(-2) -> torch.cat([sin, cos], dim=-1)
            All your sines come first, then all cosines. Here they alternate: sin, cos, sin, cos ...
        [sin, cos] -> [cos, sin]
            Sine and cosine are exchanged: even columns, from 0, are sines.
        torch.arange(0, d_model, 2) / d_model -> torch.arange(d_model) / d_model
        torch.stack([sin, cos], dim=-1).flatten(-2) -> torch.where(torch.arange(d_model) % 2 == 0, sin, cos)
            Every column has its own angle in yours. The sine and the cosine of a pair share one: 2i/D for both.
        torch.arange(0, d_model, 2) -> torch.arange(d_model // 2)
            Your exponent is i/D. It is 2i/D: 0, 2/D, 4/D ..., up to nearly 1.
        torch.arange(0, d_model, 2) / d_model -> torch.linspace(0, 1, d_model // 2)
            Your exponent reaches 1 in the last pair. The paper's own code does so; its formula ends at (D - 2)/D.
        10000**steps -> 1000**steps  # The base is 10000; yours gives 1000.
        10000**steps -> 1**steps
            All your columns turn at one speed. Pair i has the angle t / 10000^(2i/D).
        [:, None] / 10000 -> [:, None] * 10000
            You multiply by 10000^(2i/D): each hand runs faster than the one before. Divide, so that it runs slower.
        torch.arange(max_len)[ -> torch.arange(1, max_len + 1)[
            Your places begin at 1. The first one is 0, and its row is 0, 1, 0, 1 ...
        [sin, cos] -> [sin, sin]  # There are only sines in yours. Odd columns are cosines.
        [:, None] / 10000 -> [:, None] * 2 * torch.pi / 10000
            You have a 2π in the angle. The wavelengths are multiples of 2π because the formula has none.
    """),
)

EXERCISES = [ATTENTION, SINUSOIDS]

QUIZ = questions("""
    set_order: The tokens change places before self-attention without positions. What becomes of its output?
    - The same vectors come out in the same order as before.
        A vector stays with its token. Where the token moves, its vector moves too.
    + The same vectors come out, in the order of the tokens.
        Yes. Each token asks the same set of keys, so it gets the same answer, wherever it stands.
    - Other vectors come out: neighbours are others by now.
        It knows no neighbours. Every token is asked by every other, however far away.
    - Other vectors come out: its weights are sorted anew.
        Rows and columns of the weights change places with the tokens. The sums stay what they were.

    rotary_where: What does rotary turn by its place, and why?
    - The tokens' vectors: so all layers know their places.
        Then the values would be turned as well. That is what adding at the input does, for better or worse.
    - The queries alone: it is they that look for distance.
        A score of a turned query and a key left alone depends on where the query stands, not on how far off the key is.
    - Queries, keys and values: so all three have a place.
        The values stay as they are. What is handed on should not depend on the place where it stood.
    + Queries and keys: so a score tells the signed offset.
        Yes. Turning both by their places leaves, in the dot product, the difference of the two angles alone.

    learned_beyond: Trained on lengths 8 to 24, learned positions fail at length 48 of the distance task. Why?
    + W_q and W_k never met rows 25 to 48, so they find no pair.
        Yes: no gradient passed through them with these rows. Up to place 24 all is well in the long sentence, too.
    - Rows 25 to 48 are random numbers still, and say nothing.
        So are rows 1 to 24 if you put them back to their start, and with them the reader is as good as before.
    - Learned rows know places, and this task asks for offsets.
        Within the training length it learns the task to the last symbol: offsets can be read off two places.
    - A softmax over 48 scores is flatter than one over 24 is.
        Rotary has the same softmax over the same 48 scores, and loses little.

    shift_says: PE(p + k) = M_k PE(p). What does that say of sinusoids?
    - One matrix moves all places by all steps.
        There is a matrix for each k. Only for k = 0 does it leave everything alone.
    - Each place has a matrix for all its steps.
        The other way round: the matrix belongs to the step, and serves every place.
    + Each step has a matrix for all the places.
        Yes. Being k apart looks the same everywhere: a fixed turn of each hand, which a layer can learn.
    - A model learns step k once, for any place.
        It makes that possible, no more: past the training length the model that was measured gets much of it wrong.

    which_fifth: All are to name the symbol that stands fifth. Which scheme suits a model of one layer?
    - Rotary: from the first symbol to the fifth it is four.
        Every query stands somewhere else, so the fifth is at another offset from each of them.
    + Sinusoids: the fifth symbol's key can say where it is.
        Yes. It is the same key for all queries. Where only offsets are told, one layer does not find it.
    - T5's bias: it learns a number for each place it sees.
        It learns a number for each offset, and far ones share theirs. A place is no offset.
    - None: a layer counts, since the first one has no past.
        Even under a causal mask one layer reads only its own place: the fifth it does not find (laboratory).
""")

WHICH = Investigation(  # tests/test_exercises_positions.py trains linear bias with both slopes
    "which_scheme",
    question="Which scheme for which task? Invent an order task of your own: at every place (or some), name a symbol "
    "that can only be found by the order. Write down which schemes will learn it at lengths 8 to 24, and which will "
    "still do it at 48 and 96. Then train two of them, and see.",
    rubric=(
        "I predicted, before training, what two schemes reach at 16, 48 and 96, and gave a reason.",
        "I varied the scheme and nothing else: same task, model, steps, learning rate and lengths.",
        "I compared with a reader that has no positions, and with a twin of the task in which no order is needed.",
        "I ran at least three seeds, and where they differ I say how often, and show the range.",
        "I said what result would change my mind about the reason, and ran the control that could show it.",
        "I tested on sequences that no training drew, and chose nothing by looking at them.",
    ),
    answer="""
        **The task.** One symbol in five, drawn by chance, wears a mark. At every place without one, name the nearest
        marked symbol; where two are equally near, nothing is asked.

        **The prediction.** Linear bias, which learns neither task of the lesson, does this one, and beyond the training
        length too: every step away takes the same off a score, to both sides and at any length, so of all marked
        symbols the nearest keeps most. Sinusoids and learned positions learn it, and fail beyond length 24.

        **What came out.** One layer, 400 steps, ten seeds each: the share of right answers, mean and (range). (From one
        afternoon, not in the record.)

        | scheme | length 16 | length 48 | length 96 |
        |:--|:--|:--|:--|
        | linear bias, slope 1/2 | 1.00 (1.00 to 1.00) | 0.99 (0.99 to 0.99) | 0.99 (0.99 to 0.99) |
        | rotary | 0.99 (0.93 to 1.00) | 0.97 (0.90 to 0.99) | 0.95 (0.87 to 0.96) |
        | T5's bias | 0.97 (0.97 to 0.97) | 0.73 (0.72 to 0.74) | 0.50 (0.48 to 0.51) |
        | sinusoids | 1.00 (1.00 to 1.00) | 0.53 (0.47 to 0.55) | 0.31 (0.27 to 0.32) |
        | learned | 1.00 (1.00 to 1.00) | 0.35 (0.30 to 0.40) | 0.17 (0.14 to 0.20) |
        | no positions | 0.50 (0.49 to 0.51) | 0.24 (0.24 to 0.24) | 0.19 (0.18 to 0.19) |

        **What would have changed my mind.** Had next to no bias done as well, the reason would be wrong. The slope here
        is that of `alibi_bias(8, T)[:1]`. With 1/256, that of `alibi_bias(1, T)`, the reader gets 0.56, 0.29 and 0.22,
        hardly more than without positions. In the twin with a single mark no order is needed: there a reader without
        positions gets everything right, and linear bias 0.86 at length 96 (0.72 to 0.94; five seeds each), for it hides
        a mark that is far away.

        **What is not shown.** That rotary would not catch up with more steps, or that any of this holds with more
        layers. And I chose: of five tasks tried, this is the one that linear bias wins. To name the last symbol, the
        middle one, the mirror image's, or the marked one before, it is no use or not the best (two seeds each).
    """,
)
INVESTIGATIONS = [WHICH]
