"""Lesson 03: the masked loss, greedy and beam search, an evaluation that leaks."""

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
               mean=lambda losses, real: losses[real].mean(), sign=-1):
    """`my_masked_loss` with another measure of a token, other tokens that count, or another mean."""
    def answer(logits, target_out, padding):
        losses = sign * scores(logits).gather(-1, target_out[..., None])[..., 0]
        return mean(losses, real(target_out, padding))
    return answer


LOSSES = (
    (wrong_loss(real=lambda t, padding: t == t), "Padding counts in yours: average over real tokens only."),
    (wrong_loss(mean=lambda losses, real: (losses * real).mean()),
     "You set the loss of padding to 0 and divide by all B * T places: divide by the number of real tokens."),
    (wrong_loss(mean=lambda losses, real: losses[real].sum()), "This is the sum: divide by the number of real tokens."),
    (wrong_loss(mean=lambda losses, real: ((losses * real).sum(1) / real.sum(1)).mean()),
     "You average each sentence, then the sentences: a token of a short one then weighs more. Every real token "
     "counts the same."),
    (wrong_loss(mean=lambda losses, real: (losses * real).sum() / len(losses)),
     "You divide by the number of sentences: divide by the number of real tokens."),
    (wrong_loss(sign=1), "The sign: log-probabilities are negative, a loss is minus their mean."),
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
    """A model that has learned a random table: log-probabilities (V,) for everything that it may have read."""

    def __init__(self, vocab=5, end_bonus=0.0):
        self.vocab, self.end_bonus, self.table = vocab, end_bonus, {}

    def step(self, token, state):
        read = (*state, int(token))
        if read not in self.table:
            logits = 1.5 * torch.randn(self.vocab, dtype=torch.float64)
            logits[END] += self.end_bonus
            self.table[read] = torch.log_softmax(logits, 0)
        return self.table[read], read


def toys(n=12, end_bonus=0.5) -> list[Toy]:
    return [Toy(end_bonus=end_bonus) for _ in range(n)]


def my_greedy(step, state, start, end, max_len):
    tokens, token = [], start
    for _ in range(max_len):
        log_p, state = step(token, state)
        token = int(log_p.argmax())
        if token == end:
            break
        tokens.append(token)
    return tokens


def wrong_greedy(carry=True, feed=True, keep_end=False, stop=True, first=False, choose=Tensor.argmax, late=0):
    """`my_greedy` with one thing another."""
    def answer(step, state, start, end, max_len):
        tokens, token = [start] * first, start
        for _ in range(max_len + late):
            log_p, new = step(token if feed else start, state)
            state, token = new if carry else state, int(choose(log_p))
            if token == end and stop:
                return tokens + [end] * keep_end
            tokens.append(token)
        return tokens
    return answer


GREEDY = (
    (wrong_greedy(keep_end=True), "The end stands in your sentence: stop before you append it."),
    (wrong_greedy(first=True), "The start stands in your sentence: it is read, not written."),
    (wrong_greedy(stop=False), "You never stop at the end: break when the chosen token is `end`."),
    (wrong_greedy(feed=False), "You read the start at every step: read the token that was written last."),
    (wrong_greedy(carry=False), "Your state never changes: keep the one that `step` returns for the next step."),
    (wrong_greedy(choose=Tensor.argmin), "You take the least probable token."),
    (wrong_greedy(late=1), "You write one token too many where no end comes: `max_len` steps, no more."),
    (wrong_greedy(late=-1), "You stop one step too early where no end comes: `max_len` steps are allowed."),
)


def searched(answer, models, max_len, *more):
    """What a search writes with each model, as lists of numbers."""
    return [[int(token) for token in answer(model.step, (), START, END, max_len, *more)] for model in models]


def check_greedy(answer) -> str | None:
    models = [*toys(), *toys(4, end_bonus=-9.0)]
    if not isinstance(answer(models[0].step, (), START, END, 6), list | tuple):
        return "Return a list of token ids."
    got = searched(answer, models, 6)
    for wrong, message in GREEDY:
        if got == searched(wrong, models, 6):
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


def wrong_beam(width_used=True, add=True, seats=True, keep=True, go_on=False, own_state=True, average=False,
               prune=True, show_end=False):
    """`my_beam` with one thing another."""
    def answer(step, state, start, end, max_len, width):
        width = width if width_used else 1
        beam = [(0.0, [], start, state)]
        for _ in range(max_len):
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
            if not prune:
                beam = ended + longer[:3 * width]
            else:
                beam = ended + longer[:width - len(ended)] if seats else sorted(
                    ended + longer, key=lambda h: -h[0])[:width]
        best = max(beam, key=lambda h: h[0] / max(1, len(h[1])) if average else h[0])[1] if beam else []
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
    (wrong_beam(average=True), "You choose by the mean log-probability of a token: choose by the sum."),
    (wrong_beam(prune=False), "Your beam grows too wide: after each step keep `width` hypotheses, no more."),
)


def check_beam(answer) -> str | None:
    models = toys(60)
    if not isinstance(answer(models[0].step, (), START, END, 4, 2), list | tuple):
        return "Return a list of token ids: the best hypothesis, without start and end."
    if searched(answer, models[:20], 4, 1) != searched(my_greedy, models[:20], 4):
        got = searched(answer, models, 4, 2)
        for wrong, message in BEAMS:
            if got == searched(wrong, models, 4, 2):
                return message
        return "With width 1 a beam is greedy search, and yours is not."
    got = searched(answer, models, 4, 2)
    for wrong, message in BEAMS:
        if got == searched(wrong, models, 4, 2):
            return message
    if searched(answer, models[:10], 3, 99) != searched(my_beam, models[:10], 3, 99):
        return "A beam of 99 holds every sentence of three steps: it must find the most probable one. Yours does not."
    if got != searched(my_beam, models, 4, 2):
        return "With width 1 and with width 99 you are right, with width 2 you are not. What is kept after each step?"
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


def wrong_accuracy(forced=False, goes_on=False, ends=True, over_written=False, each=False, factor=1):
    """`mended_accuracy` that is still told something, or counts otherwise."""
    def answer(step, states, references, start, end, max_len):
        rights, totals = [], []
        for state, reference in zip(states, references, strict=True):
            token, written, wanted = start, [], [*reference, end]
            for j in range(max_len):
                log_p, state = step(token, state)
                token = int(log_p.argmax())
                written.append(token)
                if token == end and not goes_on:
                    break
                token = wanted[j] if forced and j < len(wanted) else token
            wanted = wanted if ends else reference
            rights.append(sum(mine == theirs for mine, theirs in zip(written, wanted, strict=False)))
            totals.append(len(written if over_written else wanted))
        shares = [right / total for right, total in zip(rights, totals, strict=True)]
        return factor * (sum(shares) / len(shares) if each else sum(rights) / sum(totals))
    return answer


LEAKS = (
    (leaking_accuracy, "The bug is still there: the model is told two things that only the reference knows."),
    (wrong_accuracy(goes_on=True),
     "One leak is left: you go on behind the end that the model wrote, because the reference goes on. Where it ends, "
     "its sentence is over, and what is missing is wrong."),
    (wrong_accuracy(forced=True), "One leak is left: the model reads the reference's tokens instead of its own."),
    (wrong_accuracy(ends=False), "The end counts as a token: compare with [*reference, end]."),
    (wrong_accuracy(over_written=True), "Divide by the number of the references' tokens, not of those written."),
    (wrong_accuracy(each=True), "You average over sentences: count right tokens over all of them, then divide once."),
    (wrong_accuracy(factor=100), "Return a share from 0 to 1, no per cent."),
)


def check_accuracy(answer) -> str | None:
    model = Toy(end_bonus=1.0)
    states = [(-1 - i,) for i in range(60)]  # the table is another one behind every sentence
    references = [[3 + int(token) for token in torch.randint(0, 2, (2 + i % 4,))] for i in range(60)]

    def ask(evaluate):
        return float(evaluate(model.step, list(states), [list(r) for r in references], START, END, 8))

    got = ask(answer)
    for wrong, message in LEAKS:
        if abs(got - ask(wrong)) < 1e-9:
            return message
    if abs(got - ask(mended_accuracy)) > 1e-9:
        return (f"Your share is {got:.3f}; right is {ask(mended_accuracy):.3f}. Let the model write until its own end, "
                "then compare place by place.")
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
               (lambda logits, target_out, padding: 2 * my_masked_loss(logits, target_out, padding), "wrong already"),
               (lambda logits, target_out, padding: my_masked_loss(logits, target_out, padding)
                + (target_out == padding).sum(), "print which tokens you count"))),
    Exercise(
        name="my_greedy", lesson="seq2seq", title="Greedy search", check=check_greedy, solution=my_greedy,
        hints=("Two things travel from step to step: the token that was written last, and the state.",
               "log_p, state = step(token, state), then token = int(log_p.argmax()).",
               "Stop when the token is the end, before it is appended; or after max_len steps."),
        wrong=(*of(GREEDY), (lambda step, state, start, end, max_len: {}, "Return a list"),
               (lambda step, state, start, end, max_len: [3], "Not the sentences that greedy search writes"))),
    Exercise(
        name="my_beam", lesson="seq2seq", title="Beam search", check=check_beam, solution=my_beam, seconds=20.0,
        hints=("Keep a list of hypotheses: (sum of log-probabilities, tokens, last token, state).",
               "Each step: every unfinished hypothesis makes V longer ones; sort them by their sums.",
               "What has ended stays as it is and keeps its seat: the others share the width - len(ended) seats left.",
               "At the end return the tokens of the hypothesis with the largest sum, finished or cut at max_len."),
        wrong=(*of(BEAMS), (lambda step, state, start, end, max_len, width: {}, "Return a list"),
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
         "Nearly every word, given all right words before it. A sentence needs all of them, read from itself."),
        ("Only if the code is wrong.", "It needs no bug: the two numbers measure different things."),
        ("Yes: perplexity reads the right words before each word; free running has only its own.",
         "Yes. And with one word in ten wrong, hardly a sentence of twenty words stays whole."),
        ("Only if the test set was also trained on.", "Then the sentences would come out right all the more."),
    ), correct=2),
    Quiz("wider_beam", "A beam of 50 finds a sentence of higher probability than a beam of 5. Is it a better one?", (
        ("Always: it is nearer to what the model thinks.", "The model may think wrong: it is not the reference."),
        ("Not always: the model's favourite may be a short or an empty sentence.",
         "Yes. Every token costs probability, so short ones win; hence length normalisation."),
        ("Never: beams should be narrow.", "A wider beam often helps at first. It is the limit that disappoints."),
        ("It cannot be found: a wider beam finds the same sentence.", "It keeps more hypotheses and may find others."),
    ), correct=1),
    Quiz("one_vector", "Why does this lesson's translator fail on lists of four dates, though it trained on them?", (
        ("It has not seen enough lists of four.", "A quarter of its training was such lists."),
        ("The decoder cannot write so many words.", "Told the right words so far, it writes the last ones quite well."),
        ("All that it read has to pass through one vector of fixed size.",
         "Yes. Years go first: 200 of them, four times, in the same 256 numbers as everything else."),
        ("Greedy search loses the way.", "A beam of ten wins a few sentences, no more: the search is not to blame."),
    ), correct=2),
]
