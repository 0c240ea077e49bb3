"""Lesson 03: the masked loss, greedy and beam search, an evaluation that leaks."""

import math
from collections import Counter

import torch
from torch import Tensor

from course_lib.exercises import Exercise, Quiz
from course_lib.seq2seq import masked_loss

START, END = 1, 2


# 1 · the masked loss --------------------------------------------------------------------------------------


def my_masked_loss(logits, target_out, padding):
    log_p = torch.log_softmax(logits, dim=-1).gather(-1, target_out[..., None])[..., 0]  # (B, T)
    real = target_out != padding
    return -log_p[real].mean()


def wrong_loss(scores=lambda logits: torch.log_softmax(logits, -1), real=lambda t, padding: t != padding,
               mean=lambda losses, real: losses[real].mean(), sign=-1,
               pick=lambda log_p, t: log_p.gather(-1, t[..., None])[..., 0]):
    """`my_masked_loss` with another measure of a token, other tokens that count, or another mean."""
    def answer(logits, target_out, padding):
        return mean(sign * pick(scores(logits), target_out), real(target_out, padding))
    return answer


def no_padding_class(logits, target_out, padding):
    low = logits.clone()
    low[..., padding] = -math.inf
    return my_masked_loss(low, target_out, padding)


def infinite_padding(logits, target_out, padding):
    log_p = torch.log_softmax(logits, dim=-1).gather(-1, target_out[..., None])[..., 0]
    return -log_p.masked_fill(target_out == padding, -math.inf).mean()


LOSSES = (
    (wrong_loss(real=lambda t, padding: t == t), "Padding counts in yours: average over real tokens only."),
    (wrong_loss(mean=lambda losses, real: (losses * real).mean()),
     "You set the loss of padding to 0 and divide by all B * T places: divide by the number of real tokens."),
    (wrong_loss(mean=lambda losses, real: losses[real].sum()), "This is the sum: divide by the number of real tokens."),
    (wrong_loss(mean=lambda losses, real: ((losses * real).sum(1) / real.sum(1)).mean()),
     "You average each sentence, then the sentences: a token of a short one then weighs more. Every real token "
     "counts the same."),
    (wrong_loss(mean=lambda losses, real: ((losses * real).sum(1) / real.sum(1)).sum()),
     "You add up the means of the sentences. Take one mean over all real tokens of the batch."),
    (wrong_loss(mean=lambda losses, real: (losses * real).sum() / len(losses)),
     "You divide by the number of sentences: divide by the number of real tokens."),
    (wrong_loss(sign=1), "The sign: log-probabilities are negative, a loss is minus their mean."),
    (wrong_loss(scores=lambda logits: torch.log_softmax(logits, -1) / math.log(2)),
     "Your logarithm has base 2, so your loss is in bits. Nats ask for the natural logarithm, base e."),
    (wrong_loss(scores=lambda logits: torch.log_softmax(logits, -1) / math.log(10)),
     "Your logarithm has base 10. Nats ask for the natural logarithm, base e."),
    (wrong_loss(mean=lambda losses, real: losses[real].mean().exp()),
     "This is the perplexity, exp(loss). Leave exp out."),
    (wrong_loss(pick=lambda log_p, t: log_p.mean(-1)),
     "You average over the whole vocabulary: of each V log-probabilities only that of the target counts. Pick it "
     "with gather."),
    (wrong_loss(pick=lambda log_p, t: log_p.sum(-1)),
     "You add up the whole vocabulary: of each V log-probabilities only that of the target counts. Pick it with "
     "gather."),
    (wrong_loss(pick=lambda log_p, t: log_p.max(-1).values),
     "You take the largest log-probability of each place, whatever the target is. Pick that of the target: gather."),
    (no_padding_class,
     "You take padding out of the vocabulary. It stays a class like any other; places whose target is padding do not "
     "count."),
    (wrong_loss(scores=lambda logits: logits), "You take the scores as they are: log_softmax is missing."),
    (wrong_loss(scores=lambda logits: torch.softmax(logits, -1)), "You average probabilities: take their logarithm."),
    (wrong_loss(scores=lambda logits: torch.log_softmax(logits, 1)),
     "Your softmax runs over time: the vocabulary is the last dimension."),
    (wrong_loss(real=lambda t, padding: t == padding), "You average over the padding. Turn the mask round."),
)


def check_masked_loss(answer) -> str | None:
    logits, target = 2 * torch.randn(3, 5, 7, dtype=torch.float64), torch.randint(1, 6, (3, 5))
    padded = target.clone()
    padded[0, 2:], padded[1, 4:] = 6, 6

    def agree(other, *batch):
        return torch.allclose(got, other(*batch), atol=1e-9)

    got = answer(logits, padded % 6, 0)
    if not isinstance(got, Tensor) or got.shape != ():
        return "Return one number, a tensor without dimensions: the mean over all real tokens of the batch."
    if not got.isfinite():
        return (f"Your loss is {got.item()}. A masked place must be left out of the mean, not made infinite: pick the "
                "real ones, log_p[real].")
    right_for_0 = agree(my_masked_loss, logits, padded % 6, 0)
    got = answer(logits, padded, 6)
    if right_for_0 and agree(wrong_loss(real=lambda t, padding: t != 0), logits, padded, 6):
        return "You take 0 for padding whatever the argument says: compare with `padding`."
    for wrong, message in LOSSES:
        if agree(wrong, logits, padded, 6):
            return message
    got = answer(logits, target, 6)
    if not agree(my_masked_loss, logits, target, 6):
        return "Without any padding it is the mean of -log softmax(logits)[target], and that is wrong already."
    got = answer(logits, padded, 6)
    if not agree(masked_loss, logits, padded, 6):
        return "Without padding you are right, with padding you are not: print which tokens you count."
    return None


# 2 and 3 · greedy and beam search --------------------------------------------------------------------------


class Toy:
    """A model that has learned a random table: log-probabilities (V,) for everything that it may have read.

    The table is too large to be filled beforehand, so each row has random numbers of its own: what the model says does
    not depend on who asked for what before. It hardly ever writes the start, as no trained model does.
    """

    def __init__(self, vocab=5, end_bonus=0.0, start_bonus=-12.0):
        self.vocab, self.end_bonus, self.start_bonus, self.table = vocab, end_bonus, start_bonus, {}
        self.seed = int(torch.randint(2 ** 31, ()))

    def step(self, token, state):
        read = (*state, int(token))
        if read not in self.table:
            own = torch.Generator().manual_seed(hash((self.seed, *read)) % 2 ** 32)
            logits = 1.5 * torch.randn(self.vocab, dtype=torch.float64, generator=own)
            logits[END] += self.end_bonus
            logits[START] += self.start_bonus
            self.table[read] = torch.log_softmax(logits, 0)
        return self.table[read].clone(), read


def toys(n=12, end_bonus=0.5, start_bonus=-12.0) -> list[Toy]:
    return [Toy(end_bonus=end_bonus, start_bonus=start_bonus) for _ in range(n)]


def my_greedy(step, state, start, end, max_len):
    tokens, token = [], start
    for _ in range(max_len):
        log_p, state = step(token, state)
        token = int(log_p.argmax())
        if token == end:
            break
        tokens.append(token)
    return tokens


def draw(log_p):
    return torch.multinomial(log_p.exp(), 1)


def wrong_greedy(carry=True, feed=True, keep_end=False, stop=END, first=False, choose=Tensor.argmax, late=0):
    """`my_greedy` with one thing another."""
    def answer(step, state, start, end, max_len):
        tokens, token = [start] * first, start
        for _ in range(max_len + late):
            log_p, new = step(token if feed else start, state)
            state, token = new if carry else state, int(choose(log_p))
            if token == stop:
                return tokens + [end] * keep_end
            tokens.append(token)
        return tokens
    return answer


GREEDY = (
    (wrong_greedy(keep_end=True), "The end stands in your sentence: stop before you append it."),
    (wrong_greedy(first=True), "The start stands in your sentence: it is read, not written."),
    (wrong_greedy(stop=None), "You never stop at the end: break when the chosen token is `end`."),
    (wrong_greedy(feed=False), "You read the start at every step: read the token that was written last."),
    (wrong_greedy(carry=False), "Your state never changes: keep the one that `step` returns for the next step."),
    (wrong_greedy(choose=Tensor.argmin), "You take the least probable token."),
    (wrong_greedy(choose=Tensor.max),
     "You take max(), the highest log-probability itself: the token is its place in the list, argmax()."),
    (wrong_greedy(late=1), "You write one token too many where no end comes: `max_len` steps, no more."),
    (wrong_greedy(late=-1), "You stop one step too early where no end comes: `max_len` steps are allowed. "
     "If your list begins with the start, that one is no step."),
)


def searched(answer, models, max_len, *more):
    """What a search writes with each model, as lists of numbers."""
    return [[int(token) for token in answer(model.step, (), START, END, max_len, *more)] for model in models]


def writes(wrong, got, models, *more) -> bool:
    """Whether a search writes these sentences; the first that is another settles it."""
    return all(searched(wrong, [model], *more) == [tokens] for model, tokens in zip(models, got, strict=True))


def check_greedy(answer) -> str | None:
    models = [*toys(), *toys(4, end_bonus=-9.0)]
    if not isinstance(answer(models[0].step, (), START, END, 6), list | tuple):
        return "Return a list of token ids."
    got = searched(answer, models, 6)
    if got != searched(answer, models, 6):
        return "Asked twice the same, yours writes two sentences: you draw the token. Greedy takes the most probable."
    chatty = toys(8, end_bonus=-9.0, start_bonus=3.0)  # these do write the start: who breaks on it stops at once
    if writes(wrong_greedy(stop=None), got, models, 6) and (
            writes(wrong_greedy(stop=START), searched(answer, chatty, 6), chatty, 6)):
        return "You break on the start, and so never stop at the end: compare the chosen token with `end`."
    for wrong, message in GREEDY:
        if writes(wrong, got, models, 6):
            return message
    if got != searched(my_greedy, models, 6):
        return "Not the sentences that greedy search writes: at each step the token with the highest log_p, read next."
    return None


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
        beam = ended + longer[:width - len(ended)]
    return max(beam, key=lambda hypothesis: hypothesis[0])[1]


def wrong_beam(width_used=True, add=True, seats=True, keep=True, go_on=False, own_state=True, value=lambda h: h[0],
               prune=True, show_end=False, late=0, beside="", finished=""):
    """`my_beam` with one thing another."""
    def answer(step, state, start, end, max_len, width):
        width = width if width_used else 1
        beam, done = [(0.0, [], start, state)], []
        for _ in range(max_len + late):
            ended = [h for h in beam if h[2] == end and not go_on] if keep else []
            longer, shared = [], None
            for score, tokens, token, old in beam:
                if token == end and not go_on:
                    continue
                log_p, new = step(token, old if own_state or shared is None else shared)
                shared = old if shared is None else shared
                longer += [(score * add + p, [*tokens, i], i, new) for i, p in enumerate(log_p.tolist())]
            longer.sort(key=lambda h: -h[0])
            if not longer:
                break
            if beside:  # what has ended moves to a list of its own
                reached = longer[:width] if beside == "reached" else longer
                done += [h for h in reached if h[2] == end]
                beam = [h for h in reached if h[2] != end][:width]
            elif not prune:
                beam = ended + longer[:3 * width]
            else:
                beam = ended + longer[:width - len(ended)] if seats else sorted(
                    ended + longer, key=lambda h: -h[0])[:width]
        beam = done + beam
        if finished:
            beam = [h for h in beam if h[2] == end] or (beam if finished == "first" else [])
        best = max(beam, key=value)[1] if beam else []
        return (best[:best.index(end) + show_end] if end in best else best)
    return answer


BEAMS = (
    (wrong_beam(width_used=False), "The width changes nothing in yours: this is greedy search."),
    (wrong_beam(show_end=True), "The end stands in your sentence: leave it out of what you return."),
    (wrong_beam(add=False), "You compare the last token's log-probability only: add up those of all tokens so far."),
    (wrong_beam(go_on=True), "What has ended goes on writing in yours: leave an ended hypothesis as it is."),
    (wrong_beam(keep=False), "What has ended is lost in yours: it keeps its seat in the beam."),
    (wrong_beam(seats=False),
     "A hypothesis that has ended lost its seat to unfinished ones that only look better so far: it keeps its seat, "
     "and the unfinished ones share the others."),
    (wrong_beam(own_state=False), "All hypotheses step from one state: each needs the state of the one it continues."),
    (wrong_beam(value=lambda h: h[0] / max(1, len(h[1]))),
     "You choose by the mean log-probability of a token: choose by the sum."),
    (wrong_beam(value=lambda h: h[0] / ((5 + len(h[1])) / 6) ** 0.6),
     "You choose by log p / lp with alpha = 0.6: here there is no length normalisation, choose by the sum."),
    (wrong_beam(late=-1), "You stop one step too early: `max_len` steps are allowed, and the last may write the end."),
    (wrong_beam(late=1), "You take one step too many: `max_len` steps, no more."),
    (wrong_beam(finished="only"),
     "You return an ended hypothesis or nothing: one that was cut at `max_len` competes like the ended ones."),
    (wrong_beam(finished="first"),
     "You return a cut hypothesis only where none has ended. It competes like the ended ones: the largest sum wins."),
    (wrong_beam(beside="reached", finished="only"),
     "Two things: you return only from the list of those that have ended, though one that was cut at `max_len` "
     "competes too; and what has ended leaves its seat to others, where it must go on occupying it."),
    (wrong_beam(beside="all"),
     "What has ended stands in a list of its own in yours, beside `width` hypotheses that go on. An ended hypothesis "
     "must go on occupying a seat: width - len(ended) seats are left."),
    (wrong_beam(beside="reached"),
     "When a hypothesis has ended, yours gives its seat away at the next step. An ended hypothesis must go on "
     "occupying a seat: width - len(ended) seats are left."),
    (wrong_beam(prune=False), "Your beam grows too wide: after each step keep `width` hypotheses, no more."),
)


def last_beam(model, max_len, width):
    """The tokens of every hypothesis that the right search holds when it comes to choose."""
    held = []
    wrong_beam(value=lambda h: held.append(h[1]) or h[0])(model.step, (), START, END, max_len, width)
    return [[token for token in tokens if token != END] for tokens in held]


def check_beam(answer) -> str | None:
    models = toys(500, end_bonus=0.0)  # a seat given away changes hardly one sentence in fifty
    if not isinstance(answer(models[0].step, (), START, END, 4, 2), list | tuple):
        return "Return a list of token ids: the best hypothesis, without start and end."
    got, right = searched(answer, models, 4, 2), searched(my_beam, models, 4, 2)
    for wrong, message in BEAMS if got != right else ():
        if writes(wrong, got, models, 4, 2):
            return message
    if searched(answer, models[:20], 4, 1) != searched(my_greedy, models[:20], 4):
        return "With width 1 a beam is greedy search, and yours is not."
    if got != right and all(tokens in last_beam(model, 4, 2) for tokens, model in zip(got, models, strict=True)):
        return ("What you return is in the last beam each time, but is not the hypothesis with the largest sum of "
                "log-probabilities: look at how you choose, and at nothing before.")
    if searched(answer, models[:10], 3, 999) != searched(my_beam, models[:10], 3, 999):
        return "A beam of 999 holds every sentence of three steps: it must find the most probable one. Yours does not."
    if got != right:
        return "With width 1 and with width 999 you are right, with width 2 you are not. What is kept after each step?"
    return None


# 4 · an evaluation that leaks -------------------------------------------------------------------------------


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


def in_place(written, wanted):
    return sum(mine == theirs for mine, theirs in zip(written, wanted, strict=False))


def wrong_accuracy(forced=False, goes_on=False, ends=True, keep_end=True, each=False, factor=1, right=in_place,
                   total=lambda written, wanted: len(wanted)):
    """`mended_accuracy` that is still told something, or counts otherwise."""
    def answer(step, states, references, start, end, max_len):
        rights, totals = [], []
        for state, reference in zip(states, references, strict=True):
            token, written, wanted = start, [], [*reference, end]
            for j in range(max_len):
                log_p, state = step(token, state)
                token = int(log_p.argmax())
                if token == end and not keep_end:
                    break
                written.append(token)
                if token == end and not goes_on:
                    break
                token = wanted[j] if forced and j < len(wanted) else token
            wanted = wanted if ends else reference
            rights.append(right(written, wanted))
            totals.append(total(written, wanted))
        shares = [n / of_all for n, of_all in zip(rights, totals, strict=True)]
        return factor * (sum(shares) / len(shares) if each else sum(rights) / sum(totals))
    return answer


LEAKS = (
    (leaking_accuracy, "The bug is still there: the model is told two things that only the reference knows."),
    (wrong_accuracy(goes_on=True),
     "One leak is left: you go on behind the end that the model wrote, because the reference goes on. Where it ends, "
     "its sentence is over, and what is missing is wrong."),
    (wrong_accuracy(forced=True), "One leak is left: the model reads the reference's tokens instead of its own."),
    (wrong_accuracy(ends=False), "The end counts as a token: compare with [*reference, end]."),
    (wrong_accuracy(keep_end=False),
     "You break before the end is appended, so no end is ever right: append it, then stop. [*reference, end] has one "
     "too."),
    (wrong_accuracy(total=lambda written, wanted: len(written)),
     "Divide by the number of the references' tokens, not of those written."),
    (wrong_accuracy(total=lambda written, wanted: max(len(written), len(wanted))),
     "You divide by the longer of the two: divide by the number of the references' tokens, len([*reference, end])."),
    (wrong_accuracy(right=lambda written, wanted: written == wanted, total=lambda written, wanted: 1),
     "This is exact match, the share of sentences without a miss: count the right tokens instead."),
    (wrong_accuracy(right=lambda written, wanted: (Counter(written) & Counter(wanted)).total()),
     "You count words that both have, wherever they stand: a token is right where it stands at its own place."),
    (wrong_accuracy(right=lambda written, wanted: len(set(written) & set(wanted))),
     "You compare two sets, without places: a token is right where it stands at its own place."),
    (wrong_accuracy(right=lambda written, wanted: sum(token in wanted for token in written)),
     "You ask whether a written token is anywhere in the reference: compare it with the one at its own place."),
    (wrong_accuracy(right=lambda written, wanted: sum(token in written for token in wanted)),
     "You ask whether a reference's token was written anywhere: compare it with the one at its own place."),
    (wrong_accuracy(each=True), "You average over sentences: count right tokens over all of them, then divide once."),
    (wrong_accuracy(factor=100), "Return a share from 0 to 1, no per cent."),
)


def check_accuracy(answer) -> str | None:
    model = Toy(end_bonus=1.0)
    states = [(-1 - i,) for i in range(60)]  # the table is another one behind every sentence
    references = [[3 + int(token) for token in torch.randint(0, 2, (2 + i % 4,))] for i in range(60)]
    for i in range(0, 60, 3):  # some sentences without a miss
        references[i] = my_greedy(model.step, states[i], START, END, 8) or references[i]

    def ask(evaluate):
        """All sentences at once, then ten at a time: two mistakes may share one number, hardly all of them."""
        parts = [slice(None), *(slice(i, i + 10) for i in range(0, 60, 10))]
        return Tensor([float(evaluate(model.step, states[part], [list(r) for r in references[part]], START, END, 8))
                       for part in parts])

    got, right = ask(answer), ask(mended_accuracy)
    for wrong, message in LEAKS:
        if torch.allclose(got, ask(wrong), atol=1e-6):
            return message
    if not torch.allclose(got, right, atol=1e-6):
        return (f"Your share is {got[0]:.3f}; right is {right[0]:.3f}. Let the model write until its own end, then "
                "compare place by place.")
    return None


def of(pairs):
    return tuple((wrong, message) for wrong, message in pairs)


EXERCISES = [
    Exercise(
        name="my_masked_loss", lesson="seq2seq", title="The masked loss", check=check_masked_loss,
        solution=my_masked_loss,
        hints=("Where is the probability of the right token? log_softmax over the vocabulary, then pick one of each V.",
               "log_p.gather(-1, target_out[..., None])[..., 0] picks it: shape (B, T).",
               "real = target_out != padding; log_p[real] is a flat list of what counts. Its mean, with a minus."),
        wrong=(*of(LOSSES), (wrong_loss(real=lambda t, padding: t != 0), "0 for padding whatever the argument says"),
               (lambda logits, target_out, padding: logits.sum(-1), "Return one number"),
               (infinite_padding, "not made infinite"),
               (lambda logits, target_out, padding: 2 * my_masked_loss(logits, target_out, padding), "wrong already"),
               (lambda logits, target_out, padding: my_masked_loss(logits, target_out, padding)
                + (target_out == padding).sum(), "print which tokens you count"))),
    Exercise(
        name="my_greedy", lesson="seq2seq", title="Greedy search", check=check_greedy, solution=my_greedy,
        hints=("Two things travel from step to step: the token that was written last, and the state.",
               "log_p, state = step(token, state), then token = int(log_p.argmax()).",
               "Stop when the token is the end, before it is appended; or after max_len steps."),
        wrong=(*of(GREEDY), (lambda step, state, start, end, max_len: {}, "Return a list"),
               (wrong_greedy(choose=draw), "you draw the token"),
               (wrong_greedy(stop=START), "You break on the start"),
               (lambda step, state, start, end, max_len: [3], "Not the sentences that greedy search writes"))),
    Exercise(
        name="my_beam", lesson="seq2seq", title="Beam search", check=check_beam, solution=my_beam, seconds=20.0,
        hints=("Keep a list of hypotheses: (sum of log-probabilities, tokens, last token, state).",
               "Each step: every unfinished hypothesis makes V longer ones; sort them by their sums.",
               "What has ended stays as it is and keeps its seat: the others share the width - len(ended) seats left.",
               "At the end return the tokens of the hypothesis with the largest sum, finished or cut at max_len."),
        wrong=(*of(BEAMS), (lambda step, state, start, end, max_len, width: {}, "Return a list"),
               (wrong_beam(value=lambda h: h[0] / max(1, len(h[1])) ** 2), "look at how you choose"),
               (lambda step, state, start, end, max_len, width: [3], "With width 1 a beam is greedy"))),
    Exercise(
        name="mended_accuracy", lesson="seq2seq", title="Spot the leak: an evaluation", check=check_accuracy,
        solution=mended_accuracy, stub=leaking_accuracy,
        hints=("Where does the reference enter the loop? Each place is something that the model is told.",
               "`token = wanted` feeds the right token, also after a wrong one. What will it read in real use?",
               "`for wanted in ...` also tells it how long to write. Let it run to its own `end`, or max_len steps.",
               "First write the whole sentence, then compare it with [*reference, end], place by place."),
        wrong=(*of(LEAKS[1:]), (lambda step, states, references, start, end, max_len: 0.0, "Your share is 0.000"))),
]

QUIZ = [
    Quiz("shifted_target", "In training the decoder reads *start the cat sat*. What is it taught to write?", (
        ("*start the cat sat*", "Then it would only have to copy what it reads. The target is one token later."),
        ("*the cat sat end*", "Yes: at every place the next token, and behind the last word the end."),
        ("*sat cat the start*", "Reversing was tried for the source, never for what is to be written."),
        ("Only *end*: the rest is given.", "Every place has a target of its own: one sentence teaches four times."),
    ), correct=1),
    Quiz("padding_counts", "A loss that counts padding falls fast and looks good. Why?", (
        ("Padding makes the batch larger, so the gradient is less noisy.",
         "The extra places carry no information about translation."),
        ("\"After padding comes padding\" is learned in a moment, and it is a large share of the places.",
         "Yes. The mean sinks while the words are no better; and it depends on who shares a batch."),
        ("The model learns where sentences end.", "That is what the end token teaches; it is a real token."),
        ("It does not: the loss of padding is infinite.", "It is a class like any other, and an easy one."),
    ), correct=1),
    Quiz("forced_perplexity", "A model has a perplexity of 1.3 on the test set, and no sentence comes out right. "
         "Is that possible?", (
        ("No: a perplexity near 1 means that nearly every word is right.",
         "1.3 gives the right word a probability of 0.77 on average. A sentence needs every one of its words."),
        ("Only if the code is wrong.", "It needs no bug: the two numbers measure different things."),
        ("Yes: one number counts words, the other whole sentences.",
         "Yes: perplexity is per token, a sentence needs all of them right: at 1.3 per token, twenty tokens are right "
         "together with 1.3 ** -20, 0.5 %."),
        ("Only if the test set was also trained on.", "Then the sentences would come out right all the more."),
    ), correct=2),
    Quiz("wider_beam", "A beam of 50 finds a sentence of higher probability than a beam of 5. Is it a better one?", (
        ("Always: it is nearer to what the model thinks.", "The model may think wrong: it is not the reference."),
        ("Not always: the model's favourite may be a short or an empty sentence.",
         "Yes. Every token costs probability, so short ones win; hence length normalisation."),
        ("Never: beams should be narrow.", "A wider beam often helps at first. It is the limit that disappoints."),
        ("It cannot be found: a wider beam finds the same sentence.", "It keeps more hypotheses and may find others."),
    ), correct=1),
    Quiz("one_vector", "Why does this lesson's translator fail on lists of four after 1,700 steps?", (
        ("It has not seen enough lists of four.",
         "A quarter of its training was such lists. More steps help; more lists of four alone were not tried."),
        ("The decoder cannot write so many words.", "Told the right words so far, it writes the last ones quite well."),
        ("All that it read has to pass through one vector of fixed size.",
         "Yes: the code has to be learned, and through one vector that takes long: three times the steps bring 0 to "
         "about a half. Lesson 04 removes the vector at the same budget."),
        ("Greedy search loses the way.", "A beam of ten wins a few sentences, no more: the search is not to blame."),
    ), correct=2),
]
