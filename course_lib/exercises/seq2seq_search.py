"""Lesson 03, how it writes and how it is judged: greedy and beam search, an evaluation that leaks."""

import torch

from course_lib.exercises import Exercise
from course_lib.exercises.probes import Case
from course_lib.exercises.slips import slips
from course_lib.exercises.toys import END, START, Toy, all_written, toys, tree

LESSON = "seq2seq"


def my_greedy(step, state, start, end, max_len):
    tokens, token = [], start
    for _ in range(max_len):
        log_p, state = step(token, state)
        token = int(log_p.argmax())
        if token == end:
            break
        tokens.append(token)
    return tokens


GREEDY = Exercise(
    lesson=LESSON,
    title="Greedy search",
    solution=my_greedy,
    returns="a list of token ids",
    cases=(
        Case(  # some end early, some never, and some do write the start: who breaks on it stops at once
            lambda: (toys(12) + toys(4, end=-9.0) + toys(8, end=-9.0, start=3.0), 6),
            "Not the sentences that greedy search writes: at each step the likeliest token (no drawn one), read next.",
            all_written,
        ),
        Case(
            lambda: (toys(6, ids=(3, 0), state=(7,)) + toys(6, ids=(0, 4)) + toys(4, end=-9.0, ids=(4, 1)), 4),
            "With another state, other ids for start and end or another max_len it is wrong: use the arguments.",
            all_written,
        ),
    ),
    hints=(
        "Two things travel from step to step: the token that was written last, and the state.",
        "log_p, state = step(token, state), then token = int(log_p.argmax()).",
        "Stop when the token is the end, before it is appended; or after max_len steps.",
    ),
    mistakes=slips("""
        return tokens -> return tokens + [end] * (token == end)
            The end stands in your sentence: stop before you append it.
        tokens, token = [] -> tokens, token = [start]
            The start stands in your sentence: it is read, not written.
        token == end -> token is None  # You never stop at the end: break when the chosen token is `end`.
        token == end -> token == start  # You break on the start, and so never stop at the end: compare with `end`.
        step(token, state) -> step(start, state)  # You read the start at every step: read what was written last.
        log_p, state = -> log_p, _ =  # Your state never changes: keep the one that `step` returns for the next step.
        log_p.argmax() -> log_p.max()
            You take max(), the highest log-probability itself: the token is its place in the list, argmax().
        range(max_len) -> range(max_len + 1)
            You write one token too many where no end comes: `max_len` steps, no more.
        range(max_len) -> range(max_len - 1)
            You stop one step too early where no end comes: `max_len` steps, and the start is no step.
    """),
)


def my_beam(step, state, start, end, max_len, width):
    beam = [(0.0, [], start, state)]  # log-probability, tokens written, the last token, the state before it is read
    for _ in range(max_len):
        ended = [hypothesis for hypothesis in beam if hypothesis[2] == end]
        longer = []
        for score, tokens, token, old in beam:
            if token == end:
                continue
            log_p, new = step(token, old)
            longer += [(score + p, tokens + [i] * (i != end), i, new) for i, p in enumerate(log_p.tolist())]
        longer.sort(key=lambda hypothesis: -hypothesis[0])
        beam = ended + longer[: width - len(ended)]
    return max(beam, key=lambda hypothesis: hypothesis[0])[1]


BEAM = Exercise(
    lesson=LESSON,
    title="Beam search",
    solution=my_beam,
    returns="a list of token ids: the best hypothesis, without start and end",
    seconds=20.0,
    cases=(
        Case(
            lambda: ([tree(late_end=True), tree(late_end=False), *toys(80, end=-1.0)], 4, 2),
            "With width 2 you are wrong. What is kept after each step, and what is chosen at the end?",
            all_written,
        ),
        Case(lambda: (toys(20), 4, 1), "With width 1 a beam is greedy search, and yours is not.", all_written),
        Case(lambda: (toys(9), 3, 999), "A beam of 999 holds all sentences of three steps, the best too.", all_written),
        Case(
            lambda: (toys(6, ids=(3, 0), state=(7,)) + toys(6, ids=(0, 4)), 3, 3),
            "With another state, or other ids for start and end, it is wrong: use the arguments.",
            all_written,
        ),
    ),
    hints=(
        "Keep a list of hypotheses: (sum of log-probabilities, tokens, last token, state).",
        "Each step: every unfinished hypothesis makes V longer ones; sort them by their sums.",
        "What has ended stays as it is and keeps its seat: the others share the width - len(ended) seats left.",
        "At the end return the tokens of the hypothesis with the largest sum, finished or cut at max_len.",
    ),
    mistakes=slips("""
        width - len(ended) -> 1 - len(ended)  # The width changes nothing in yours: this is greedy search.
        [i] * (i != end) -> [i]  # The end stands in your sentence: leave it out of what you return.
        score + p -> p  # You compare the last token's log-probability only: add up those of all tokens so far.
        beam = ended + longer[: width - len(ended)] -> beam = longer[:width] or beam
            What has ended is lost in yours: it keeps its seat in the beam.
        ended + longer[: width - len(ended)] -> sorted(ended + longer, key=lambda h: -h[0])[:width]
            What has ended lost its seat to unfinished ones that only look better so far: they share the other seats.
        longer[: width - len(ended)] -> longer[:width]
            What has ended must go on occupying a seat: width - len(ended) seats are left to the others.
        step(token, old) -> step(token, beam[0][3])  # All step from one state: each needs that of the one it continues.
        hypothesis[0])[1] -> hypothesis[0] / max(1, len(hypothesis[1])))[1]
            You choose by the mean log-probability of a token: choose by the sum.
        hypothesis[0])[1] -> hypothesis[0] / ((5 + len(hypothesis[1])) / 6) ** 0.6)[1]
            You choose by log p / lp with alpha = 0.6. Here is no length normalisation: choose by the sum.
        range(max_len) -> range(max_len - 1)
            You stop one step too early: `max_len` steps are allowed, and the last may write the end.
        range(max_len) -> range(max_len + 1)  # You take one step too many: `max_len` steps, no more.
        return max(beam -> return max([h for h in beam if h[2] == end] or beam
            You return a cut hypothesis only where none has ended. It competes too: the largest sum wins.
    """),
)


def leaking_accuracy(step, states, references, start, end, max_len):
    """The share of the references' tokens, ends counted, that a translator writes at their places."""
    right = total = 0
    for state, reference in zip(states, references, strict=True):
        token = start
        for wanted in [*reference, end]:
            log_p, state = step(token, state)
            right += int(log_p.argmax()) == wanted
            token = wanted
            total += 1
    return right / total


def mended_accuracy(step, states, references, start, end, max_len):
    right = total = 0
    for state, reference in zip(states, references, strict=True):
        token, written, wanted = start, [], [*reference, end]
        while token != end and len(written) < max_len:
            log_p, state = step(token, state)
            token = int(log_p.argmax())
            written.append(token)
        right += sum(mine == theirs for mine, theirs in zip(written, wanted, strict=False))
        total += len(wanted)
    return right / total


def a_test_set(start=START, end=END):
    model = Toy(end=1.0, ids=(start, end))
    words = [token for token in range(1, 5) if token not in (start, end)][-2:]
    states = [(-1 - i,) for i in range(60)]  # the table is another one behind every sentence
    references = [[words[int(token)] for token in torch.randint(0, 2, (2 + i % 4,))] for i in range(60)]
    for i in range(0, 60, 3):  # some sentences without a miss
        references[i] = my_greedy(model.step, states[i], start, end, 8) or references[i]
    return model, states, references


def by_tens(evaluate, model, states, references, max_len=8):
    """The share of six tests: two mistakes may share one number, hardly all of them."""
    parts = [slice(i, i + 10) for i in range(0, 60, 10)]
    return (evaluate(model.step, states[part], references[part], model.start, model.end, max_len) for part in parts)


LEAK = Exercise(
    lesson=LESSON,
    title="Spot the leak: an evaluation",
    solution=mended_accuracy,
    returns="the share of right tokens, a number from 0 to 1",
    cases=(
        Case(a_test_set, "Let the model write until its own end, then compare place by place.", by_tens),
        Case(lambda: (*a_test_set(), 2), "With max_len = 2 it is wrong: after so many tokens writing stops.", by_tens),
        Case(lambda: a_test_set(3, 0), "With other ids for start and end it is wrong: use the arguments.", by_tens),
        Case(lambda: a_test_set(0, 4), "Where start is 0 and end is 4, it is wrong: use the arguments.", by_tens),
    ),
    stub=leaking_accuracy,
    hints=(
        "Where does the reference enter the loop? Each place is something that the model is told.",
        "`token = wanted` feeds the right token, also after a wrong one. What will it read in real use?",
        "`for wanted in ...` also tells it how long to write. Let it run to its own `end`, or max_len steps.",
        "First write the whole sentence, then compare it with [*reference, end], place by place.",
    ),
    mistakes=slips("""
        while token != end and len(written) < max_len -> while len(written) < len(wanted)
        written.append(token) -> written.append(token); token = wanted[len(written) - 1]
            The bug is still there: the model is told two things that only the reference knows.
        token != end and len(written) < max_len -> len(written) < max_len
            One leak is left: you go on behind the end that the model wrote, where its sentence is over.
        step(token, state) -> step(([start] + wanted + [token] * max_len)[len(written)], state)
            One leak is left: the model reads the reference's tokens instead of its own.
        [*reference, end] -> reference  # The end counts as a token: compare with [*reference, end].
        written.append(token) -> written += [token] * (token != end)  # Append the end too, then stop: it may be right.
        right += sum( -> right += 1 / len(wanted) * sum(
        total += len(wanted) -> total += 1  # You average over sentences: count the right tokens of all, divide once.
        len(wanted) -> len(written)  # Divide by the number of the references' tokens, not of those written.
        sum(mine == theirs for mine, theirs in zip(written, wanted, strict=False)) -> written == wanted
        len(wanted) -> 1
            This is exact match, the share of sentences without a miss: count the right tokens.
        mine == theirs for mine, theirs in zip(written, wanted, strict=False) -> token in wanted for token in written
            You ask whether a written token is anywhere in the reference: compare it with the one at its own place.
        right / total -> 100 * right / total  # Return a share from 0 to 1, no per cent.
    """),
)

EXERCISES = [GREEDY, LEAK, BEAM]
