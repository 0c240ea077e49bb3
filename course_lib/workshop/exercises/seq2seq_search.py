"""Lesson 03, writing and evaluation: greedy search, beam search, an evaluation that leaks."""

import torch

from course_lib.workshop.exercises import Exercise
from course_lib.workshop.exercises.probes import Case
from course_lib.workshop.exercises.toys import END, START, Toy, all_written, toys, tree


def my_greedy(step, state, start, end, max_len):
    tokens, token = [], start
    for _ in range(max_len):
        log_p, state = step(token, state)
        token = int(log_p.argmax())
        if token == end:
            break
        tokens.append(token)
    return tokens


def end_written(step, state, start, end, n):
    tokens = my_greedy(step, state, start, end, n)
    return tokens + [end] * (len(tokens) < n)


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
    mistakes={
        "end_written": end_written,
        "start_written": lambda step, state, start, end, n: [start, *my_greedy(step, state, start, end, n)],
        "never_stops": lambda step, state, start, end, n: my_greedy(step, state, start, None, n),
        "stops_at_start": lambda step, state, start, end, n: my_greedy(step, state, start, start, n),
        "reads_start": lambda step, state, start, end, n: my_greedy(lambda _, s: step(start, s), state, start, end, n),
        "state_stays": lambda step, state, start, end, n: my_greedy(lambda t, _: step(t, state), state, start, end, n),
        "one_too_many": lambda step, state, start, end, n: my_greedy(step, state, start, end, n + 1),
        "one_too_few": lambda step, state, start, end, n: my_greedy(step, state, start, end, n - 1),
    },
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


def beam_by(
    score=lambda before, p: before + p,
    kept=lambda ended, longer, width: ended + longer[: width - len(ended)],
    choice=lambda hypothesis: hypothesis[0],
):
    """A wrong answer to `my_beam`: another score, other hypotheses kept, or another one chosen in the end."""

    def search(step, state, start, end, max_len, width):
        beam = [(0.0, [], start, state)]
        for _ in range(max_len):
            ended, longer = [one for one in beam if one[2] == end], []
            for before, tokens, token, old in (one for one in beam if one[2] != end):
                log_p, new = step(token, old)
                longer += [(score(before, p), tokens + [i] * (i != end), i, new) for i, p in enumerate(log_p.tolist())]
            beam = kept(ended, sorted(longer, key=lambda one: -one[0]), width)
        return max(beam, key=choice)[1]

    return search


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
    mistakes={
        "greedy": lambda *given: my_beam(*given[:-1], 1),
        "last_token_only": beam_by(score=lambda before, p: p),
        "ended_lost": beam_by(kept=lambda ended, longer, width: longer[:width] or ended),
        "ended_compete": beam_by(kept=lambda ended, longer, width: sorted(ended + longer, key=lambda h: -h[0])[:width]),
        "ended_hold_no_slot": beam_by(kept=lambda ended, longer, width: ended + longer[:width]),
        "mean_per_token": beam_by(choice=lambda hypothesis: hypothesis[0] / max(1, len(hypothesis[1]))),
        "one_step_too_few": lambda *given: my_beam(*given[:4], given[4] - 1, given[5]),
    },
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


def hits(written, wanted):
    return sum(mine == theirs for mine, theirs in zip(written, wanted, strict=False))


def scored(share):
    """A wrong answer to `mended_accuracy`: share(pairs) of what the model itself writes and what is wanted."""

    def accuracy(step, states, references, start, end, max_len):
        written = [my_greedy(step, state, start, end, max_len) for state in states]
        ended = [tokens + [end] * (len(tokens) < max_len) for tokens in written]
        return share(list(zip(ended, ([*reference, end] for reference in references), strict=True)))

    return accuracy


LEAK = Exercise(
    solution=mended_accuracy,
    cases=(
        Case(a_test_set, "Let the model write until its own end, then compare position by position.", by_tens),
        Case(lambda: (*a_test_set(), 2), "With max_len = 2 it is wrong: stop writing after so many tokens.", by_tens),
        Case(lambda: a_test_set(3, 0), "With other ids for start and end it is wrong: use the arguments.", by_tens),
        Case(lambda: a_test_set(0, 4), "Where start is 0 and end is 4, it is wrong: use the arguments.", by_tens),
    ),
    stub=leaking_accuracy,
    mistakes={
        "leak_still_there": leaking_accuracy,
        "end_not_counted": scored(
            lambda pairs: sum(hits(mine, ref[:-1]) for mine, ref in pairs) / sum(len(ref) - 1 for _, ref in pairs)
        ),
        "mean_of_sentences": scored(lambda pairs: sum(hits(mine, ref) / len(ref) for mine, ref in pairs) / len(pairs)),
        "divided_by_written": scored(
            lambda pairs: sum(hits(mine, ref) for mine, ref in pairs) / sum(len(mine) for mine, _ in pairs)
        ),
        "exact_match": scored(lambda pairs: sum(mine == ref for mine, ref in pairs) / len(pairs)),
        "percentage": lambda *given: 100 * mended_accuracy(*given),
    },
)

EXERCISES = [GREEDY, LEAK, BEAM]
