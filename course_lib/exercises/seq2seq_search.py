"""Lesson 03, writing and evaluation: greedy search, beam search, an evaluation that leaks."""

import torch

from course_lib.exercises import Exercise
from course_lib.exercises.probes import Case
from course_lib.exercises.slips import slips
from course_lib.exercises.toys import END, START, Toy, all_written, toys, tree


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
    solution=my_greedy,
    cases=(
        Case(  # some end early, some never, and some do write the start: breaking on it stops at once
            lambda: (toys(12) + toys(4, end=-9.0) + toys(8, end=-9.0, start=3.0), 6),
            "This is not greedy search: at each step take the most probable token, and read it next.",
            all_written,
        ),
        Case(
            lambda: (toys(6, ids=(3, 0), state=(7,)) + toys(6, ids=(0, 4)) + toys(4, end=-9.0, ids=(4, 1)), 4),
            "With another state, other ids for start and end or another max_len it is wrong: use the arguments.",
            all_written,
        ),
    ),
    mistakes=slips("""
        return tokens -> return tokens + [end] * (token == end)
            Your sentence contains the end: stop before you append it.
        tokens, token = [] -> tokens, token = [start]
            Your sentence contains the start: it is read, not written.
        token == end -> token is None  # You never stop at the end: break when the chosen token is `end`.
        token == end -> token == start  # You break on the start, so you never stop at the end: compare with `end`.
        step(token, state) -> step(start, state)  # You read the start at every step: read the last token instead.
        log_p, state = -> log_p, _ =  # Your state never changes: pass on the one that `step` returns.
        log_p.argmax() -> log_p.max()
            You take max(), the highest log-probability itself. The token is its index, argmax().
        range(max_len) -> range(max_len + 1)
            You write one token too many if no end comes: take `max_len` steps, no more.
        range(max_len) -> range(max_len - 1)
            You stop one step too early if no end comes: take `max_len` steps; the start is not a step.
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
    solution=my_beam,
    seconds=20.0,
    cases=(
        Case(
            lambda: ([tree(late_end=True), tree(late_end=False), *toys(80, end=-1.0)], 4, 2),
            "With width 2 it is wrong. Which hypotheses do you keep after each step, and which do you return?",
            all_written,
        ),
        Case(lambda: (toys(20), 4, 1), "With width 1 beam search is greedy search, and yours is not.", all_written),
        Case(lambda: (toys(9), 3, 999), "A beam of 999 holds every sentence of three steps.", all_written),
        Case(
            lambda: (toys(6, ids=(3, 0), state=(7,)) + toys(6, ids=(0, 4)), 3, 3),
            "With another state, or other ids for start and end, your answer is wrong: use the arguments.",
            all_written,
        ),
    ),
    mistakes=slips("""
        width - len(ended) -> 1 - len(ended)  # `width` changes nothing in your answer: this is greedy search.
        [i] * (i != end) -> [i]  # Your sentence contains the end: leave it out of what you return.
        score + p -> p  # You compare only the last token's log-probability: add up those of all tokens.
        beam = ended + longer[: width - len(ended)] -> beam = longer[:width] or beam
            You lose the hypotheses that have ended: they keep their slots in the beam.
        ended + longer[: width - len(ended)] -> sorted(ended + longer, key=lambda h: -h[0])[:width]
            Hypotheses that ended lose their slots to unfinished ones that only look better so far: they must keep them.
        longer[: width - len(ended)] -> longer[:width]
            A hypothesis that has ended still occupies a slot: the others share width - len(ended) slots.
        step(token, old) -> step(token, beam[0][3])  # All use one state: each needs that of its own hypothesis.
        hypothesis[0])[1] -> hypothesis[0] / max(1, len(hypothesis[1])))[1]
            You choose by the mean log-probability per token: choose by the sum.
        hypothesis[0])[1] -> hypothesis[0] / ((5 + len(hypothesis[1])) / 6) ** 0.6)[1]
            You choose by log p / lp with alpha = 0.6. Use no length normalisation here: choose by the sum.
        range(max_len) -> range(max_len - 1)
            You stop one step too early: take `max_len` steps, and the last one may write the end.
        range(max_len) -> range(max_len + 1)  # You take one step too many: take `max_len` steps.
        return max(beam -> return max([h for h in beam if h[2] == end] or beam
            You return a cut hypothesis only if none has ended. It competes, too: the largest sum wins.
    """),
)


def leaking_accuracy(step, states, references, start, end, max_len):
    """The share of the references' tokens, ends counted, that a translator writes at their positions."""
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
    solution=mended_accuracy,
    cases=(
        Case(a_test_set, "Let the model write until its own end, then compare position by position.", by_tens),
        Case(lambda: (*a_test_set(), 2), "With max_len = 2 it is wrong: stop writing after so many tokens.", by_tens),
        Case(lambda: a_test_set(3, 0), "With other ids for start and end it is wrong: use the arguments.", by_tens),
        Case(lambda: a_test_set(0, 4), "Where start is 0 and end is 4, it is wrong: use the arguments.", by_tens),
    ),
    stub=leaking_accuracy,
    mistakes=slips("""
        while token != end and len(written) < max_len -> while len(written) < len(wanted)
        written.append(token) -> written.append(token); token = wanted[len(written) - 1]
            The leak is still there: the model is told two things that only the reference knows.
        token != end and len(written) < max_len -> len(written) < max_len
            One leak is left: you continue after the model has written the end, although its sentence is over.
        step(token, state) -> step(([start] + wanted + [token] * max_len)[len(written)], state)
            One leak is left: the model reads the reference's tokens instead of its own.
        [*reference, end] -> reference  # The end counts as a token: compare with [*reference, end].
        written.append(token) -> written += [token] * (token != end)  # Append the end too, then stop: it may be right.
        right += sum( -> right += 1 / len(wanted) * sum(
        total += len(wanted) -> total += 1  # You average over sentences: count all correct tokens, divide once.
        len(wanted) -> len(written)  # Divide by the number of the references' tokens, not of those written.
        sum(mine == theirs for mine, theirs in zip(written, wanted, strict=False)) -> written == wanted
        len(wanted) -> 1
            This is exact match, the share of sentences without an error: count the correct tokens.
        mine == theirs for mine, theirs in zip(written, wanted, strict=False) -> token in wanted for token in written
            You ask whether a token is anywhere in the reference: compare it with the one at its own position.
        right / total -> 100 * right / total  # Return a share from 0 to 1, not a percentage.
    """),
)

EXERCISES = [GREEDY, LEAK, BEAM]
