"""Lesson 14: other correct answers."""

import functools
import itertools
import math
from collections import Counter, defaultdict

import numpy as np
import torch

from course_lib.text.unigram import em_step, forward_sums, viterbi

from . import answers


def cuts(word, logp):
    """Every way to write the word, as a list of pieces."""
    if not word:
        return [[]]
    return [[word[:n], *rest] for n in range(1, len(word) + 1) if word[:n] in logp for rest in cuts(word[n:], logp)]


def added(ways):
    """log(exp(a) + exp(b) + ...), minus infinity of nothing."""
    return float(np.logaddexp.reduce(list(ways), initial=-np.inf))


# Forward sums -------------------------------------------------------------------------------------------------


@answers("my_forward")
def with_logaddexp(word, logp):
    sums = [0.0] + [-math.inf] * len(word)
    for start in range(len(word)):
        for piece, value in logp.items():
            if word.startswith(piece, start):
                end = start + len(piece)
                sums[end] = float(np.logaddexp(sums[end], sums[start] + value))
    return sums


@answers("my_forward")
def by_recursion(word, logp):
    @functools.cache
    def total(end):
        if end == 0:
            return 0.0
        return added(total(i) + logp[word[i:end]] for i in range(end) if word[i:end] in logp)

    return tuple(total(end) for end in range(len(word) + 1))


@answers("my_forward")
def by_logsumexp_of_tensors(word, logp):
    sums = torch.full((len(word) + 1,), -torch.inf)
    sums[0] = 0
    for end in range(1, len(word) + 1):
        steps = [logp.get(word[start:end], -torch.inf) for start in range(end)]
        sums[end] = torch.logsumexp(sums[:end] + torch.tensor(steps), dim=0)
    return sums.tolist()


@answers("my_forward")
def with_a_scale_of_its_own(word, logp):
    """Probabilities as whole numbers times a power of 2, which do not underflow."""
    sums = [(1.0, 0)]  # mantissa, exponent
    for end in range(1, len(word) + 1):
        ways = []
        for start in range(end):
            if word[start:end] in logp and sums[start][0]:
                mantissa, more = math.frexp(sums[start][0] * math.exp(logp[word[start:end]]))
                ways.append((mantissa, sums[start][1] + more))
        top = max((exponent for _, exponent in ways), default=0)
        sums.append((sum(math.ldexp(mantissa, exponent - top) for mantissa, exponent in ways), top))
    return [math.log(m) + e * math.log(2) if m else -math.inf for m, e in sums]


@answers("my_forward")
def of_the_library(word, logp):
    return forward_sums(word, logp)


# The most probable segmentation -------------------------------------------------------------------------------


@answers("my_viterbi")
def ways_kept_whole(word, logp):
    best = {0: (0.0, [])}
    for end in range(1, len(word) + 1):
        for start in range(end):
            piece = word[start:end]
            if start in best and piece in logp:
                score = best[start][0] + logp[piece]
                if end not in best or score > best[end][0]:
                    best[end] = (score, [*best[start][1], piece])
    return best[len(word)][1]


@answers("my_viterbi")
def from_the_end(word, logp):
    best = [(-math.inf, len(word))] * len(word) + [(0.0, len(word))]
    for start in reversed(range(len(word))):
        ends = range(start + 1, len(word) + 1)
        best[start] = max(
            ((logp[word[start:end]] + best[end][0], end) for end in ends if word[start:end] in logp),
            default=(-math.inf, len(word)),
        )
    pieces, at = [], 0
    while at < len(word):
        pieces.append(word[at : best[at][1]])
        at = best[at][1]
    return tuple(pieces)


@answers("my_viterbi")
def shortest_path(word, logp):
    """Bellman and Ford: all pieces are tried until no place becomes better."""
    arcs = [(i, j) for i, j in itertools.combinations(range(len(word) + 1), 2) if word[i:j] in logp]
    cost, came_from = {0: 0.0}, {}
    changed = True
    while changed:
        changed = False
        for i, j in arcs:
            if i in cost and cost[i] - logp[word[i:j]] < cost.get(j, math.inf) - 1e-12:
                cost[j], came_from[j], changed = cost[i] - logp[word[i:j]], i, True
    places = [len(word)]
    while places[-1]:
        places.append(came_from[places[-1]])
    return [word[i:j] for j, i in itertools.pairwise(places)][::-1]


@answers("my_viterbi")
def best_cut_of_the_library(word, logp):
    return viterbi(word, logp)


# A step of expectation maximization ---------------------------------------------------------------------------


def both_ways(word, logp):
    """Forward sums and backward sums of a word."""
    n = len(word)
    before, after = [0.0] * (n + 1), [0.0] * (n + 1)
    for j in range(1, n + 1):
        before[j] = added(before[i] + logp[word[i:j]] for i in range(j) if word[i:j] in logp)
    for i in reversed(range(n)):
        after[i] = added(logp[word[i:j]] + after[j] for j in range(i + 1, n + 1) if word[i:j] in logp)
    return before, after


@answers("my_em_step")
def counted_in_logs(words, logp):
    uses = defaultdict(list)
    for word, often in words.items():
        before, after = both_ways(word, logp)
        for i, j in itertools.combinations(range(len(word) + 1), 2):
            if word[i:j] in logp:
                uses[word[i:j]].append(math.log(often) + before[i] + logp[word[i:j]] + after[j] - after[0])
    counts = {piece: added(uses[piece]) for piece in logp}
    total = added(counts.values())
    return {piece: count - total for piece, count in counts.items()}


@answers("my_em_step")
def as_a_gradient(words, logp):
    """A piece's expected count is the derivative of the text's log p by the piece's log p."""
    pieces = list(logp)
    values = torch.tensor([logp[piece] for piece in pieces], requires_grad=True)
    number = {piece: k for k, piece in enumerate(pieces)}
    text = 0.0
    for word, often in words.items():
        sums = [torch.zeros(())]
        for end in range(1, len(word) + 1):
            ways = [
                sums[start] + values[number[word[start:end]]]
                for start in range(end)
                if word[start:end] in number and sums[start] is not None
            ]
            sums.append(torch.stack(ways).logsumexp(0) if ways else None)
        text = text + often * sums[-1]
    (counts,) = torch.autograd.grad(text, values)
    found = (counts / counts.sum()).log().tolist()
    return dict(zip(pieces, found, strict=True))


@answers("my_em_step")
def step_of_the_library(words, logp):
    return em_step(words, logp)


# Find the bug: more letters than the word has -----------------------------------------------------------------


@answers("mended_counts")
def arc_by_arc(words, logp):
    counts = Counter()
    for word, n in words.items():
        before, after = both_ways(word, logp)
        for i, j in itertools.combinations(range(len(word) + 1), 2):
            if word[i:j] in logp:
                counts[word[i:j]] += n * math.exp(before[i] + logp[word[i:j]] + after[j] - before[-1])
    return counts


@answers("mended_counts")
def by_all_cuts(words, logp):
    counts = dict.fromkeys(logp, 0)
    for word, n in words.items():
        ways = [(cut, math.exp(sum(logp[piece] for piece in cut))) for cut in cuts(word, logp)]
        total = sum(p for _, p in ways)
        for cut, p in ways:
            for piece in cut:
                counts[piece] += n * p / total
    return counts


# A row of two languages ---------------------------------------------------------------------------------------


@answers("my_translation_row")
def token_by_token(source, target, start, sep):
    ids, languages, places = [], [], []
    for language, sentence in enumerate((source, target)):
        for place, token in enumerate([start] + sentence + [sep]):
            ids.append(token)
            languages.append(language)
            places.append(place)
    return ids, languages, places


@answers("my_translation_row")
def by_zip(source, target, start, sep):
    halves = [start, *source, sep], [start, *target, sep]
    rows = [(token, n, place) for n, half in enumerate(halves) for place, token in enumerate(half)]
    return [list(column) for column in zip(*rows, strict=True)]


@answers("my_translation_row")
def as_tensors_turned_into_lists(source, target, start, sep):
    n, m = len(source) + 2, len(target) + 2
    ids = torch.tensor([start, *source, sep, start, *target, sep])
    languages = (torch.arange(n + m) >= n).long()
    return ids.tolist(), languages.tolist(), torch.cat([torch.arange(n), torch.arange(m)]).tolist()
