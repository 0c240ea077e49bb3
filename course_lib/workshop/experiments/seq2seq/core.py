"""Lesson 03: a translator of dates through one vector: what it misses, what a beam mends, what its last state holds.

Also what 100 steps teach without the shift or with padding counted, other starts, reading orders and budgets, two
harder corpora, and beams against brute force in random translators.
"""

import itertools
import math
import random
from functools import cache, partial
from types import SimpleNamespace

import numpy as np
import torch
import torch.nn.functional as F
from sacrebleu.metrics import BLEU

from course_lib.data import dates, grammar, interface
from course_lib.inputs.reach import reach
from course_lib.text.pairs import END, PADDING, START, UNKNOWN, batches, masked_loss, shift
from course_lib.text.tokenizers import WordTokenizer
from course_lib.train.loop import cosine, fit
from course_lib.translation.decode import beam_search, exact_match
from course_lib.translation.seq2seq import Seq2Seq
from course_lib.translation.translator import Translator, translation_loss
from course_lib.workshop.experiments import each, experiment

CPU = torch.device("cpu")  # models this small are no faster on a GPU
LONG, SHORT = 1700, 800  # steps of the lesson's training, and of those that are compared with each other

# --- the lesson's lists, its model and its training


@cache
def date_lists():
    """Lists of dates, English and French: what is learned from, what is held out, and the words of each language."""
    train = dates.pairs("train")
    return SimpleNamespace(
        train=train,
        english=WordTokenizer([pair.source for pair in train]),
        french=WordTokenizer([pair.target for pair in train]),
        validation=dates.pairs("validation", size=300),
        tests=[dates.pairs("test", n_dates=n, size=250) for n in range(1, 9)],  # lists of 1, 2, ... 8 dates
    )


def untrained(seed, forget_bias=3.0, reads=None, writes=None, d_hidden=128):
    """A translator as it starts: one vector between encoder and decoder, the encoder's forget gates at this bias."""
    reads, writes = reads or date_lists().english, writes or date_lists().french
    torch.manual_seed(seed)
    model = Seq2Seq(len(reads), len(writes), d_model=64, d_hidden=d_hidden)
    for bias in model.encoder.rnn.gate_biases(1):
        bias.fill_(forget_bias)
    return Translator(model, reads, writes)


def trained(translator, pairs, seed, steps, backwards=False, loss=translation_loss, **look):
    """Train it on batches of 32, at a rate that climbs for 50 steps and falls as a cosine -> its history."""
    drawn = batches(translator.ids(pairs), 32, seed, reverse_source=backwards)
    return fit(translator.model, drawn, loss, steps=steps, lr=8e-3, schedule=partial(cosine, warmup=50), device=CPU,
               progress=False, **look)  # fmt: skip


def by_fifty(losses):
    """The mean of each fifty losses: what the curves are made of."""
    return np.reshape(losses, (-1, 50)).mean(1)


def read(translator, pairs):
    """Source (B, S), its lengths, what is read and what is to be written (B, T)."""
    source, real = translator.reads.batch([pair.source for pair in pairs])
    target = translator.writes.batch([pair.target for pair in pairs], start=True, end=True)[0]
    return source, real.sum(1), *shift(target)


@torch.no_grad()
def forced(translator, pairs):
    """Told the right words: the loss in nats, what is to be written at each place (B, T), and its guess there."""
    source, lengths, target_in, target_out = read(translator, pairs)
    logits = translator.model(source, lengths, target_in)[0]
    return float(masked_loss(logits, target_out)), target_out, logits.argmax(-1)


def free(translator, pairs, **search):
    """Left alone: what it writes, in words."""
    return translator.translate([pair.source for pair in pairs], **search)


def share_right(written, pairs):
    return exact_match(written, [pair.target for pair in pairs])


# --- 100 steps: the slip of the shift, the leak of the padding


def mixed(pairs, size, generator):
    """Endless batches of lists of all lengths: source (B, S), lengths, target (B, T + 1)."""
    english, french = date_lists().english, date_lists().french
    while True:
        some = generator.sample(pairs, size)
        source, real = english.batch([pair.source for pair in some])
        yield source, real.sum(1).tolist(), french.batch([pair.target for pair in some], start=True, end=True)[0]


def right_loss(model, batch):
    """Written one word later than read, padding not counted."""
    source, lengths, target = batch
    target_in, target_out = shift(target)
    return masked_loss(model(source, lengths, target_in)[0], target_out)


def unshifted_loss(model, batch):
    """The slip: it is taught to write what it reads."""
    source, lengths, target = batch
    target_in, _ = shift(target)
    return masked_loss(model(source, lengths, target_in)[0], target_in)


def counted_loss(model, batch):
    """The leak: padding counts like a word (looked at under Padding)."""
    source, lengths, target = batch
    target_in, target_out = shift(target)
    return F.cross_entropy(model(source, lengths, target_in)[0].flatten(0, 1), target_out.flatten())


@experiment()
def hundred_steps(seed):
    """What 100 steps teach with the right loss, without the shift, and with padding counted."""
    taught, data = {}, date_lists()
    for loss in (right_loss, unshifted_loss, counted_loss):  # the same first weights, the same batches
        taught[loss] = untrained(seed, forget_bias=1.0)
        drawn = mixed(data.train, 32, random.Random(seed))
        fit(taught[loss].model, drawn, loss, steps=100, lr=8e-3, device=CPU, progress=False)
    source, lengths, target = batch = next(mixed(data.validation, 300, random.Random(seed)))
    target_in, target_out = shift(target)
    is_padding = target_out == PADDING
    with torch.no_grad():
        scores = {loss: taught[loss].model(source, lengths, target_in)[0] for loss in (right_loss, counted_loss)}
        copying = float(unshifted_loss(taught[unshifted_loss].model, batch))
    nats = {
        name: {
            "all places": F.cross_entropy(scores[loss].flatten(0, 1), target_out.flatten()),
            "real tokens": masked_loss(scores[loss], target_out),
            "padding": F.cross_entropy(scores[loss][is_padding], target_out[is_padding]),
        }
        for name, loss in (("padding counted", counted_loss), ("masked", right_loss))
    }
    single = data.tests[0][:100]
    dates_right = share_right(free(taught[unshifted_loss], single, max_len=10), single)
    return nats | {"unshifted": {"loss": copying, "dates right": dates_right}, "padding": is_padding.float().mean()}


# --- the lesson's translator, and all that is measured of it


@experiment()
def dates_translator(seed):
    """The lesson's model after 1,700 steps: forced and free, by length and by place, with beams, and its last state."""
    translator = untrained(seed)
    return measures(translator, trained(translator, date_lists().train, seed, LONG), seed)


def measures(translator, history, seed):
    """All that is measured of a translator of dates."""
    data = date_lists()
    validation = forced(translator, data.validation)[0]
    told, written = ([one(translator, pairs) for pairs in data.tests] for one in (forced, free))
    return {
        "loss": by_fifty(history.loss),
        "validation": validation,
        "gap": validation - forced(translator, data.train[:300])[0],
        **two_ways(told, written, translator.writes),
        **lost_words(told[2], written, translator.writes),
        "last year": last_years(translator, written[2], seed),
        **beams(translator),
        "dates counted": counted_right(translator),
        "dates counted, untrained": counted_right(untrained(seed)),
    }


WORD_BLEU = BLEU(tokenize="none", force=True)  # our text is cut into words already


def bleu(written, right):
    """BLEU of lists of words against the right ones."""
    return WORD_BLEU.corpus_score([" ".join(words) for words in written], [[" ".join(words) for words in right]]).score


def wrong_at(written, pairs, at):
    """The share of sentences whose word at this place, the end counted as one, is not the right one."""
    right = [[*pair.target, "<end>"] for pair in pairs]
    found = [(mine + ["<end>"])[at : at + 1] != words[at : at + 1] for mine, words in zip(written, right, strict=True)]
    return float(np.mean(found))


def words_missed(written, pairs):
    """The share of the references' words, ends counted, that do not stand at their places."""
    wrong = [(mine + ["<end>"])[at : at + 1] != [word] for mine, pair in zip(written, pairs, strict=True)
             for at, word in enumerate([*pair.target, "<end>"])]  # fmt: skip
    return float(np.mean(wrong))


def words_of(french, ids):
    """Each id's word, specials too: what stands behind an end is judged like the rest."""
    return [french.vocab[i] for i in ids.tolist()]


def two_ways(told, written, french):
    """On test lists of 1 to 8 dates, told the right words and left alone: what is missed, BLEU, exact match."""
    tests = date_lists().tests
    missed = [(guess != right) & (right != PADDING) for _, right, guess in told]
    by_word = [[words_of(french, row[: len(pair.target)]) for row, pair in zip(guess, some, strict=True)]
               for (_, _, guess), some in zip(told, tests, strict=True)]  # fmt: skip
    agree = [(mine == pair.target) != any_missed for one, some, rows in zip(written, tests, missed, strict=True)
             for mine, pair, any_missed in zip(one, some, rows.any(1).tolist(), strict=True)]  # fmt: skip
    wanted = [[pair.target for pair in some] for some in tests]
    return {
        "perplexity": [math.exp(loss) for loss, _, _ in told],
        "forced missed": [
            float(rows.sum() / (right != PADDING).sum()) for rows, (_, right, _) in zip(missed, told, strict=True)
        ],
        "free missed": list(map(words_missed, written, tests)),
        "exact": list(map(share_right, written, tests)),
        "forced BLEU": list(map(bleu, by_word, wanted)),
        "free BLEU": list(map(bleu, written, wanted)),
        "right where nothing is missed": np.mean(agree),
    }


KINDS = ("weekday", "day", "month", "year")  # the words of a date; a fifth place joins it to the next


def years_among(french):
    """The ids of the years in the vocabulary."""
    return torch.tensor([i for i, word in enumerate(french.vocab) if word.isdigit() and len(word) == 4])


def lost_words(told, written, french):
    """Which words come out wrong: years or others when told, each kind by length and each place of three left alone."""
    _, right, guess = told  # of lists of three
    missed, is_year = guess != right, torch.isin(right, years_among(french))
    places, tests = range(14), date_lists().tests
    by_place = [[wrong_at(one, some, at) for at in range(5 * n - 1)]
                for n, one, some in zip(range(1, 5), written, tests, strict=False)]  # fmt: skip
    return {
        "years missed": missed[is_year].float().mean(),
        "others missed": missed[(right > UNKNOWN) & ~is_year].float().mean(),
        "wrong": {name: [np.mean(wrong[kind::5]) for wrong in by_place] for kind, name in enumerate(KINDS)},
        "told at place": [missed[:, at].float().mean() for at in places],  # all lists of three are equally long
        "free at place": by_place[2],
    }


FIRST, SECOND, LAST = 4, 9, 13  # where two years of three are read, and where the last is written


@torch.no_grad()
def last_year_wrong(translator, years):
    """Share of wrong last years in lists of three when these (B, 2) are read as the first two."""
    source, lengths, target_in, target_out = read(translator, date_lists().tests[2])
    reads = target_in.clone()
    reads[:, [FIRST, SECOND]] = years
    guess = translator.model(source, lengths, reads)[0].argmax(-1)
    return (guess != target_out)[:, LAST].float().mean()


def last_years(translator, written, seed):
    """The last of three years: how often it is wrong, by what is read as the two before."""
    right = read(translator, date_lists().tests[2])[2][:, [FIRST, SECOND]]
    drawn = some_years(translator.writes, right.shape, seed)
    told = {
        "told both years right": right,
        "told both, in the wrong order": right.flip(1),
        "the first drawn at random": torch.stack([drawn[:, 0], right[:, 1]], dim=1),
        "both drawn at random": drawn,
    }
    found = {name: last_year_wrong(translator, years) for name, years in told.items()}
    return found | {"left alone": wrong_at(written, date_lists().tests[2], LAST)}


def some_years(french, shape, seed):
    years = years_among(french)
    return years[torch.randint(len(years), shape, generator=torch.Generator().manual_seed(seed))]


WIDTHS = (1, 2, 5, 10)


def beams(translator):
    """Lists of 2, 3 and 4 dates: exact match by beam width, and where a wrong list is the search's fault."""
    tests = date_lists().tests[1:4]
    written = {width: [free(translator, some, width=width) for some in tests] for width in WIDTHS}
    return {
        "beam": {width: list(map(share_right, found, tests)) for width, found in written.items()},
        "blamed": {width: list(map(partial(search_errors, translator), written[width], tests)) for width in (1, 10)},
    }


def search_errors(translator, written, pairs):
    """Of the wrong translations the share whose reference the model finds more probable: the search missed it."""
    off = [(pair, mine) for pair, mine in zip(pairs, written, strict=True) if mine != pair.target]
    if not off:
        return 0.0
    right = log_p(translator, [pair for pair, _ in off])
    return float((right > log_p(translator, [pair._replace(target=mine) for pair, mine in off])).float().mean())


@torch.no_grad()
def log_p(translator, pairs):
    """ln p of each target, its end included, under the model: (B,)."""
    source, lengths, target_in, target_out = read(translator, pairs)
    scores = translator.model(source, lengths, target_in)[0].log_softmax(-1)
    return (scores.gather(-1, target_out[..., None])[..., 0] * (target_out != PADDING)).sum(1)


@torch.no_grad()
def last_states(translator, sentences):
    """What the decoder is given for each sentence: h and c, (B, 256)."""
    source, real = translator.reads.batch(sentences)
    return torch.cat(translator.model.encode(source, real.sum(1))[1], dim=-1)[0]


def counted_right(translator):
    """Share of unseen lists of 1 to 8 dates whose last state lies nearest to the centre of their own length."""
    by_count = [last_states(translator, [pair.source for pair in some[:100]]) for some in date_lists().tests]
    centres = torch.stack([states[:50].mean(0) for states in by_count])
    nearest = [torch.cdist(states[50:], centres).argmin(1) == n for n, states in enumerate(by_count)]
    return torch.cat(nearest).float().mean()


# --- other starts, reading orders, budgets, and another way to be told


def turned(pairs, backwards):
    """The pairs as a model reads them: with the source from its end, or as they are."""
    return [pair._replace(source=pair.source[::-1]) for pair in pairs] if backwards else pairs


@experiment(each(forget_bias=[1.0, 3.0], backwards=[False, True]))
def starts(seed, forget_bias, backwards):
    """After 800 steps from a forget bias, source read forwards or backwards: loss, single dates right, and reach."""
    translator = untrained(seed, forget_bias)
    before = reach_of(translator)
    history = trained(translator, date_lists().train, seed, SHORT, backwards)
    validation, *tests = (turned(some, backwards) for some in (date_lists().validation, *date_lists().tests[:2]))
    exact = [share_right(free(translator, some), some) for some in tests]
    return {
        "loss": by_fifty(history.loss),
        "validation": forced(translator, validation)[0],
        "1 date": exact[0],
        "2 dates": exact[1],
        "reach": {"untrained": before, "trained": reach_of(translator)},
    }


def reach_of(translator):
    """Reach of the last h from each of the words of lists of four dates, the median over twenty lists: (28,)."""
    some = [pair.source for pair in date_lists().tests[3] if len(pair.source) == 28][:20]
    with torch.no_grad():
        embedded = translator.model.encoder.embed(translator.reads.batch(some)[0])
    return reach(translator.model.encoder.rnn, embedded, each=True).median(0).values


def with_gaps(french, seed):
    """The loss of a model that reads *unknown* in place of every second year."""
    years, generator = years_among(french), torch.Generator().manual_seed(seed)

    def loss(model, batch):
        source, lengths, target_in, target_out = batch
        gaps = torch.isin(target_in, years) & (torch.rand(target_in.shape, generator=generator) < 0.5)
        return translation_loss(model, (source, lengths, target_in.masked_fill(gaps, UNKNOWN), target_out))

    return loss


@experiment(cpus=["default"])
def used_to_gaps(seed):
    """The last of three years, wrong by what is read as the two before, in a model used to being told nothing there."""
    translator = untrained(seed)
    trained(translator, date_lists().train, seed, LONG, loss=with_gaps(translator.writes, seed))
    source, lengths, target_in, _ = read(translator, date_lists().tests[2])
    right = target_in[:, [FIRST, SECOND]]
    own, reads = right.clone(), target_in.clone()
    for k, place in enumerate((FIRST, SECOND)):  # its own second year after it has read its own first
        with torch.no_grad():
            own[:, k] = reads[:, place] = translator.model(source, lengths, reads)[0][:, place - 1].argmax(-1)
    told = {
        "right": right,
        "nothing": torch.full_like(right, UNKNOWN),
        "its own": own,
        "random": some_years(translator.writes, right.shape, seed),
    }
    return {name: last_year_wrong(translator, years) for name, years in told.items()}


@experiment(seeds=[0], cpus=["default"])
def three_times_as_long(seed):
    """The lesson's model after 5,100 steps instead of 1,700: exact match on test lists of 1 to 8 dates."""
    translator = untrained(seed)
    trained(translator, date_lists().train, seed, 3 * LONG)
    exact = {f"{n}": share_right(free(translator, some), some) for n, some in enumerate(date_lists().tests, 1)}
    return {"validation": forced(translator, date_lists().validation)[0], "exact": exact}


# --- two harder corpora


@cache
def corpora(name):
    """Training, validation and test pairs of a corpus: our grammar's sentences, or a real program's messages."""
    if name == "grammar":
        sizes = {"train": 6000, "validation": 300, "test": 300}
        return tuple(grammar.pairs(split, size, 8) for split, size in sizes.items())
    return tuple([pair for pair in interface.pairs(split) if len(pair.source) <= 25]
                 for split in ("train", "validation", "test"))  # fmt: skip


@experiment(each(corpus=["grammar", "interface"]))
def harder_corpus(seed, corpus):
    """700 steps on a harder corpus: loss on training and validation pairs, BLEU, and whose words it writes."""
    train, validation, test = corpora(corpus)
    least = 1 + (corpus == "interface")  # its rare words are many
    reads = WordTokenizer([pair.source for pair in train], min_count=least)
    writes = WordTokenizer([pair.target for pair in train], min_count=least)
    translator = untrained(seed, reads=reads, writes=writes)

    def look(step):
        return [forced(translator, pairs[:250])[0] for pairs in (train, validation)]

    watched = trained(translator, train, seed, 700, watch=look, watch_every=100).watched
    written = free(translator, test, max_len=40)
    shown = [k for k, pair in enumerate(test) if 4 <= len(pair.source) <= 9][:5]
    last = watched[-1][1]
    found = {
        "steps": [step for step, _ in watched],
        "training": [pair[0] for _, pair in watched],
        "validation": [pair[1] for _, pair in watched],
        "gap": last[1] - last[0],
        "BLEU": bleu(written, [pair.target for pair in test]),
        "shown": shown,
        "written": [written[k] for k in shown],
    }
    return found if corpus == "grammar" else found | neighbours(written, train, test, shown)


def overlap(one, other):
    """The share of words in common."""
    one, other = set(one), set(other)
    return len(one & other) / len(one | other) if one | other else 1.0


def neighbours(written, train, test, shown):
    """Overlap of each translation with its nearest training string, with what a person wrote, and of the latter."""
    known, people = [pair.target for pair in train], [pair.target for pair in test]
    nearest = [max(known, key=lambda text: overlap(words, text)) for words in written]
    return {
        "overlap with neighbour": np.mean(list(map(overlap, written, nearest))),
        "overlap with person": np.mean(list(map(overlap, written, people))),
        "person's with neighbour": np.mean([max(overlap(words, text) for text in known) for words in people]),
        "nearest": [nearest[k] if overlap(written[k], nearest[k]) else [] for k in shown],
    }


# --- beams against brute force

N_TINY, MOST = 60, 4  # translators, and steps
TINY_WIDTHS = (1, 2, 3, 5, 10, 400)
EVERY = [list(words) for n in range(MOST + 1) for words in itertools.product([PADDING, START, UNKNOWN, 4], repeat=n)]
SIZES = np.array([min(len(words) + 1, MOST) for words in EVERY])  # in tokens: the end counts


def tiny_model(seed, which):
    """A random translator of five words: every sentence that it can write in 4 steps can be looked at."""
    torch.manual_seed(1000 * seed + which)
    tiny = Seq2Seq(5, 5, 4, 8).double()
    with torch.no_grad():
        for p in tiny.parameters():
            p.mul_(4)
    return tiny, torch.tensor([[4, 3, 4]])


@torch.no_grad()
def log_probs_of_all(tiny, source):
    """ln p of every sentence: those that end within four steps, and those of four words that are cut."""
    rows = [[START, *words, END] if len(words) < MOST else [START, *words] for words in EVERY]
    scored = []
    for n in range(MOST + 1):
        block = torch.tensor([row for row, words in zip(rows, EVERY, strict=True) if len(words) == n])
        log_p = tiny(source.expand(len(block), -1), None, block[:, :-1])[0].log_softmax(-1)
        scored += log_p.gather(-1, block[:, 1:, None]).sum((1, 2)).tolist()
    return np.array(scored)


def normalised(log_probs, alpha):
    """ln p over lp(Y), which favours short sentences less: Wu et al. (2016), equation 14."""
    return log_probs / ((5 + SIZES) / 6) ** alpha


@experiment()
def brute_force(seed):
    """In 60 random translators: how often a beam finds the best of all 341 sentences, and its length by alpha."""
    tiny = [tiny_model(seed, which) for which in range(N_TINY)]
    scored = [log_probs_of_all(*one) for one in tiny]

    def best(which, alpha):
        return EVERY[int(normalised(scored[which], alpha).argmax())]

    def finds(which, width, alpha=0.0):
        model, source = tiny[which]
        found = beam_search(**model.decoding(source), max_len=MOST, width=width, length_penalty=alpha)
        return found.tokens[0] == best(which, alpha)

    lengths = np.array([[len(best(which, alpha)) for alpha in np.linspace(0, 2, 11)] for which in range(N_TINY)])
    return {
        "finds": {width: np.mean([finds(which, width) for which in range(N_TINY)]) for width in TINY_WIDTHS},
        "widest finds, by alpha": np.mean([finds(which, 400, alpha) for which in range(20) for alpha in (0, 0.6, 2)]),
        "smallest step in length": np.diff(lengths).min(),
        "got longer": np.mean(lengths[:, -1] > lengths[:, 0]),
    }
