"""Lesson 04: translators that look, or do not; what they align, and what a look is worth; fresh networks' reach.

All four translators of dates are GRUs whose update gates start at a bias of 3, in encoder and decoder: lesson 02 has
shown what that start decides, so the one that has no attention gets it too.
"""

from functools import cache, partial
from types import SimpleNamespace

import numpy as np
import torch

from course_lib.attention.attention import Attention, padding_mask
from course_lib.data import dates, grammar
from course_lib.inputs.reach import reach
from course_lib.inputs.sequences import map_state
from course_lib.text.pairs import START, batches
from course_lib.text.tokenizers import WordTokenizer
from course_lib.train.loop import cosine, fit
from course_lib.translation.alignment_error import (
    alignment_scores,
    diagonal_guess,
    either_alignment,
    hard_alignment,
    mutual_alignment,
    where_gold,
)
from course_lib.translation.decode import exact_match
from course_lib.translation.seq2seq import AttentionDecoder, Seq2Seq
from course_lib.translation.translator import Translator, translation_loss
from course_lib.workshop.experiments import each, experiment
from course_lib.workshop.experiments.seq2seq.core import bleu

CPU = torch.device("cpu")  # models this small are no faster on a GPU

# --- four translators of dates


@cache
def date_lists():
    """Lists of dates, English and French: what is learned from, what is held out, and the words of each language."""
    train = dates.pairs("train")
    return SimpleNamespace(
        train=train,
        english=WordTokenizer([pair.source for pair in train]),
        french=WordTokenizer([pair.target for pair in train]),
        tests=[dates.pairs("test", n_dates=n, size=150) for n in range(1, 7)],  # lists of 1, 2, ... 6 dates
        mixed=dates.pairs("test", n_dates=(1, 4), size=400),  # as in training: for the alignment
    )


class EqualAttention(Attention):
    """All scores are 0: softmax then gives every real word the same weight."""

    def scores(self, query, keys):
        return query.new_zeros(*query.shape[:2], keys.shape[1])


RECIPES = {  # steps, learning rate
    "two ways, attention": (600, 4e-3),
    "one way, attention": (600, 4e-3),
    "two ways, equal weights": (1500, 8e-3),
    "two ways, no attention": (1500, 8e-3),
}
LOOKING = ("two ways, attention", "one way, attention")


def remember(model, bias):
    """Start the update gates of both GRUs of a model at a bias: above zero, old states are kept for longer."""
    for layer in (model.encoder.rnn, model.decoder.rnn):
        for gate in layer.gate_biases(1):
            gate.fill_(bias)
    return model


def network(name, reads, writes, update_bias=3.0):
    """One of the four, for so many words read and written."""
    attention = None if "no attention" in name else "additive"
    model = Seq2Seq(reads, writes, 64, 128, attention, "gru", bidirectional="two ways" in name)
    if "equal weights" in name:
        model.decoder.attention = EqualAttention(128, 128)
    return remember(model, update_bias)


def learned(name, seed):
    """Train one of the four on lists of one to four dates -> a translator."""
    data, (steps, lr) = date_lists(), RECIPES[name]
    torch.manual_seed(seed)
    translator = Translator(network(name, len(data.english), len(data.french)), data.english, data.french)
    fit(translator.model, batches(translator.ids(data.train), 32, seed), translation_loss, steps=steps, lr=lr,
        schedule=partial(cosine, warmup=50), device=CPU, progress=False)  # fmt: skip
    return translator


@experiment(each(model=RECIPES))
def date_translators(seed, model):
    """A GRU that learns lists of dates: what it gets right, by length, where it looks, and what hangs on its looks."""
    return measures(model, learned(model, seed))


def measures(name, translator):
    """All that is measured of a translator of dates; of those that look also where, and what it is worth."""
    found = {"parameters": sum(p.numel() for p in translator.model.parameters())}
    found |= translated(translator) | {"reach": trained_reach(translator)}
    if name in LOOKING:
        found |= aligned(translator)
    if name == LOOKING[0]:
        found |= explained(translator) | {"follows": contexts_followed(translator)}
        found |= compared(translator, date_lists().mixed[:80])
    return found


def translated(translator):
    """Exact match and BLEU of 150 test lists of each number of dates, and what becomes of lists of five."""
    tests = date_lists().tests
    said = [translator.translate([pair.source for pair in pairs]) for pairs in tests]
    exact = [exact_match(mine, [pair.target for pair in pairs]) for mine, pairs in zip(said, tests, strict=True)]
    longest = len(tests[3][0].target)  # four dates are 19 French words
    return {
        "exact": exact,
        "BLEU": [bleu(mine, [pair.target for pair in pairs]) for mine, pairs in zip(said, tests, strict=True)],
        "stops after four": np.mean([len(words) <= longest for words in said[4]]),
    }


# --- where it looks


def links_of(pairs, weights, reading=hard_alignment):
    """The links that a reading of the weights makes for the target words that have a gold link."""
    return where_gold([reading(w) for w in weights], [pair.alignment for pair in pairs])


def scored(links, pairs):
    """Alignment error rate, precision and recall of links against gold."""
    return alignment_scores(links, [pair.alignment for pair in pairs])


def diagonal(pairs):
    """The links of a guess along the diagonal."""
    guesses = [diagonal_guess(len(pair.source), len(pair.target)) for pair in pairs]
    return where_gold(guesses, [pair.alignment for pair in pairs])


WEEKDAYS = ("lundi", "mardi", "mercredi", "jeudi", "vendredi", "samedi", "dimanche")
MONTHS = (
    *("janvier", "février", "mars", "avril", "mai", "juin"),
    *("juillet", "août", "septembre", "octobre", "novembre", "décembre"),
)
CONTENT, MARKS = ("weekday", "day", "month", "year"), (",", "et")
KINDS = (*CONTENT, *MARKS)


def kind_of(word):
    """Of a French word in a date which of the six kinds it is."""
    if word in MARKS:
        return word
    return "weekday" if word in WEEKDAYS else "month" if word in MONTHS else "year" if len(word) == 4 else "day"


def share_by_kind(pairs, wrong):
    """For each kind of French word the share of those for which wrong(k, j) is true: word j of pair k."""
    found = {kind: [] for kind in KINDS}
    for k, pair in enumerate(pairs):
        for j in sorted({j for _, j in pair.alignment}):
            found[kind_of(pair.target[j])].append(bool(wrong(k, j)))
    return {kind: float(np.mean(some)) for kind, some in found.items()}


def wrong_by_kind(links, pairs):
    """For each kind of French word the share of those that are not linked to their own English word."""
    right = [{j for i, j in some if (i, j) in set(pair.alignment)} for some, pair in zip(links, pairs, strict=True)]
    return share_by_kind(pairs, lambda k, j: j not in right[k])


def aligned(translator):
    """Error rate of 400 lists, wrong links by kind of word, and how far from *and* each *et* looks."""
    pairs = date_lists().mixed
    looks = translator.attention(pairs)
    links = links_of(pairs, looks)
    wrong = [kind_of(pair.target[j]) for pair, some in zip(pairs, links, strict=True)
             for _, j in some - set(pair.alignment)]  # fmt: skip
    ahead = np.array([int(look[j].argmax()) - i for look, pair in zip(looks, pairs, strict=True)
                      for i, j in pair.alignment if pair.target[j] == "et"])  # fmt: skip
    return {
        **scored(links, pairs),
        "wrong": wrong_by_kind(links, pairs),
        "wrong, content": max(wrong_by_kind(links, pairs)[kind] for kind in CONTENT),
        "marks among wrong": sum(kind in MARKS for kind in wrong) / max(1, len(wrong)),
        "et, ahead": {str(words): np.mean(ahead == words) for words in range(-1, 4)},
        "et, at and or up to two ahead": np.mean((ahead >= 0) & (ahead <= 2)),
    }


# --- what hangs on a look


def shared(weights):
    """The weights that are left, scaled to sum to one; where nothing is left, a context of zero."""
    return weights / weights.sum(-1, keepdim=True).clamp(min=1e-30)


def without_largest(weights):
    return shared(weights.masked_fill(weights == weights.amax(-1, keepdim=True), 0))


@torch.no_grad()
def next_words(translator, pairs, steer=None):
    """The word that the model would write at each place, (B, T), the right words before it given.

    steer: a function that changes the weights (B, T, S) before the mean is taken.
    """
    read, real = translator.reads.batch([pair.source for pair in pairs])
    write, _ = translator.writes.batch([pair.target for pair in pairs], start=True)
    place = translator.model.decoder.attention.weights  # the weights pass through here
    handle = place.register_forward_hook(lambda layer, given, weights: steer(weights) if steer else None)
    try:
        return translator.model(read, real.sum(1), write)[0].argmax(-1)
    finally:
        handle.remove()


def places_behind(pairs):
    """(B, T, S): for each target word where its own source word stands, and all behind it."""
    longest = max(len(pair.source) for pair in pairs)
    own = torch.zeros(len(pairs), 1 + max(len(pair.target) for pair in pairs), dtype=torch.long)
    for k, pair in enumerate(pairs):
        for i, j in pair.alignment:
            own[k, j] = i
    return torch.arange(longest) >= own[..., None]


def explained(translator):
    """For each kind of word the share that comes out differently when weights are taken away, in three ways."""
    pairs = date_lists().mixed
    behind, as_it_is = places_behind(pairs), next_words(translator, pairs)
    ways = {
        "without the largest": without_largest,
        "only before": lambda weights: shared(weights * ~behind),
        "only from its word on": lambda weights: shared(weights * behind),
    }
    changes = {}
    for name, steer in ways.items():
        moved = next_words(translator, pairs, steer) != as_it_is
        changes[name] = share_by_kind(pairs, lambda k, j, moved=moved: moved[k, j])
    least = min(changes["without the largest"][kind] for kind in ("day", "month", "year"))
    return changes | {"least changed": least, "most changed from its word on": max(changes[name].values())}


@torch.no_grad()
def states_and_contexts(translator, pairs):
    """The decoder's states and the contexts that they fetch, (B, T, H) twice."""
    read, real = translator.reads.batch([pair.source for pair in pairs])
    write, _ = translator.writes.batch([pair.target for pair in pairs], start=True)
    memory, start = translator.model.encode(read, real.sum(1))
    states, _ = translator.model.decoder.rnn(translator.model.decoder.embed(write), start)
    return states, translator.model.decoder.attention(states, memory, memory, real)[0]


@torch.no_grad()
def marks_written(translator, number, other, row):
    """The words that lists of `number` dates write in this row with the contexts of lists of `other` dates."""
    tests, decoder = date_lists().tests, translator.model.decoder
    states, _ = states_and_contexts(translator, tests[number - 1])
    _, contexts = states_and_contexts(translator, tests[other - 1])
    joined = torch.cat([contexts[:, row], states[:, row]], dim=-1)
    return decoder.readout(torch.tanh(decoder.combine(joined))).argmax(-1)


def contexts_followed(translator):
    """How often *et* or comma follows the context of a list with one date more or fewer, at worst of four pairs."""
    et, comma = translator.writes.encode(["et", ","]).tolist()
    follows = [
        marks_written(translator, 2, 3, 4) == comma,  # row 4: behind the first date
        marks_written(translator, 3, 2, 4) == et,
        marks_written(translator, 3, 4, 9) == comma,  # row 9: behind the second
        marks_written(translator, 4, 3, 9) == et,
    ]
    return min(same.float().mean().item() for same in follows)


@torch.no_grad()
def effects(translator, pair):
    """(T, S): by how many nats the log-probability of each target word falls when a source word is removed."""
    whole = translator.reads.encode(pair.source)
    target, _ = translator.writes.batch([pair.target], start=True)
    right = translator.writes.encode(pair.target)

    def log_p(sources):
        lengths = torch.full((len(sources),), sources.shape[1])
        logits = translator.model(sources, lengths, target.expand(len(sources), -1))[0]
        return logits[:, :-1].log_softmax(-1).gather(2, right.expand(len(sources), -1)[..., None])[..., 0]  # (B, T)

    shorter = torch.stack([torch.cat([whole[:i], whole[i + 1 :]]) for i in range(len(whole))])
    return (log_p(whole[None]) - log_p(shorter)).T  # (T, S)


def compared(translator, pairs):
    """Over all target words with a gold link: how often two of attention, effect and gold name the same word."""
    counts = {"attention and effect": [], "attention and gold": [], "effect and gold": [], "by chance": []}
    for pair, weights in zip(pairs, translator.attention(pairs), strict=True):
        fall = effects(translator, pair)
        for j in sorted({j for _, j in pair.alignment}):
            gold = {i for i, b in pair.alignment if b == j}
            looked, hurt = int(weights[j].argmax()), int(fall[j].argmax())
            counts["attention and effect"].append(looked == hurt)
            counts["attention and gold"].append(looked in gold)
            counts["effect and gold"].append(hurt in gold)
            counts["by chance"].append(1 / len(pair.source))
    return {name: np.mean(same) for name, same in counts.items()}


# --- reach: fresh, and learned


def at_the_first_word(model, last=None):
    """From source vectors (B, S, D) to what the decoder reads its first word off, (B, 1, H); last: how many it sees."""

    def read(x):
        memory, state = model.encoder.rnn(x)
        if model.encoder.rnn.bidirectional:  # both directions side by side
            state = map_state(state, lambda part: torch.cat([part[0::2], part[1::2]], dim=-1))
        out, _ = model.decoder.rnn(model.decoder.embed(torch.full((len(x), 1), START)), state)
        if isinstance(model.decoder, AttentionDecoder):
            near = None if last is None else padding_mask([last] * len(x), x.shape[1]).flip(1)
            out, _ = model.decoder.look(out, memory, near)
        return out

    return read


FRESH = {  # network, bias of its update gates, how many of the last words it may look at
    "one way, no attention, b = 0": ("one way, no attention", 0.0, None),
    "two ways, no attention, b = 0": ("two ways, no attention", 0.0, None),
    "one way, no attention, b = 3": ("one way, no attention", 3.0, None),
    "one way, attention, b = 0": ("one way, attention", 0.0, None),
    "the same, to the last 8 words": ("one way, attention", 0.0, 8),
}


@experiment(each(model=FRESH))
def fresh_reach(seed, model):
    """How far a change of one of 41 source vectors moves what a fresh decoder reads its first word off."""
    name, bias, last = FRESH[model]
    data = date_lists()
    torch.manual_seed(seed)
    fresh = network(name, len(data.english), len(data.french), bias)
    vectors = torch.randn(16, 41, 64, generator=torch.Generator().manual_seed(seed))
    return {"reach": reach(at_the_first_word(fresh, last), vectors)}  # (41,), the last word at distance 0


def trained_reach(translator):
    """The same of a trained translator, over the words of 16 lists of four dates, which are equally long: (S,)."""
    four_dates, _ = translator.reads.batch([pair.source for pair in date_lists().tests[3][:16]])
    with torch.no_grad():
        vectors = translator.model.encoder.embed(four_dates)
    return reach(at_the_first_word(translator.model), vectors)


# --- other orders: the year first, and a script that runs from right to left

ORDERS = {"Hungarian": "hu", "Persian": "fa"}


@cache
def single_dates(language):
    """Single dates, English and another language, what is learned from and 150 that are held out."""
    return (dates.pairs("train", target=language, n_dates=1, size=6000),
            dates.pairs("test", target=language, n_dates=1, size=150))  # fmt: skip


@experiment(each(language=ORDERS))
def other_orders(seed, language):
    """A small translator of single dates into another order: right dates, links, and its look at the first date."""
    train, test = single_dates(ORDERS[language])
    reads, writes = (WordTokenizer([pair[side] for pair in train]) for side in (0, 1))
    torch.manual_seed(seed)
    model = Seq2Seq(len(reads), len(writes), 64, 64, "additive", "gru", bidirectional=True)
    translator = Translator(remember(model, 3.0), reads, writes)
    pairs = translator.ids([(pair.source, pair.target) for pair in train])
    fit(model, batches(pairs, 32, seed), translation_loss, steps=600, lr=6e-3, schedule=partial(cosine, warmup=50),
        device=CPU, progress=False)  # fmt: skip
    looks = translator.attention(test)
    wrong = [look[j].argmax() != i for look, pair in zip(looks, test, strict=True)
             for i, j in pair.alignment if pair.target[j].isalnum()]  # fmt: skip
    said = translator.translate([pair.source for pair in test])
    return {
        "exact": exact_match(said, [pair.target for pair in test]),
        "AER": scored(links_of(test, looks), test)["AER"],
        "wrong, content": float(np.mean(wrong)),
        "look": looks[0].flatten(),  # the weights of the first test date, row after row
    }


# --- sentences of a grammar

READINGS = {"best word": hard_alignment, "mutual": mutual_alignment, "either way": either_alignment}


@cache
def sentences():
    """Sentences of our own grammar, English and French, up to eight words."""
    train = [(pair.source, pair.target) for pair in grammar.pairs("train", 16_000, max_words=8)]
    return SimpleNamespace(
        train=train,
        english=WordTokenizer([source for source, _ in train]),
        french=WordTokenizer([target for _, target in train]),
        test=grammar.pairs("test", 400, max_words=8),
    )


def grammar_learned(seed):
    """Train the lesson's translator, with wider embeddings, on sentences for 800 steps."""
    data = sentences()
    torch.manual_seed(seed)
    model = Seq2Seq(len(data.english), len(data.french), 128, 128, "additive", "gru", bidirectional=True)
    translator = Translator(remember(model, 3.0), data.english, data.french)
    fit(translator.model, batches(translator.ids(data.train), 32, seed), translation_loss, steps=800, lr=6e-3,
        schedule=partial(cosine, warmup=50), device=CPU, progress=False)  # fmt: skip
    return translator


@experiment()
def grammar_translator(seed):
    """A translator with attention learns a grammar: BLEU, alignment error by three readings, and its compounds."""
    return grammar_measures(grammar_learned(seed))


def grammar_measures(translator):
    """All that is measured of a translator of sentences."""
    pairs = sentences().test
    looks = translator.attention(pairs)
    rates = {name: scored(links_of(pairs, looks, reading), pairs) for name, reading in READINGS.items()}
    crossings = compounds(pairs, looks)
    return {
        "BLEU": bleu(translator.translate([pair.source for pair in pairs]), [pair.target for pair in pairs]),
        **rates,
        "compounds": len(crossings),
        "both nouns linked right": sum(both for both, _ in crossings),
        "dark cells cross": sum(cross for _, cross in crossings),
    }


def turns(pair):
    """Places (i, j, j - 2) where two words in a row become noun, preposition, noun: soup of vegetables."""
    one = {i: j for i, j in pair.alignment if [a for a, _ in pair.alignment].count(i) == 1}
    return [(i, one[i], one[i + 1]) for i in one if i + 1 in one and one[i] == one[i + 1] + 2
            and pair.target[one[i] - 1] in ("de", "d'", "à", "en") and "'s" not in pair.source]  # fmt: skip


def compounds(pairs, looks):
    """Of each compound whether both nouns look at their own words, and whether their looks cross."""
    found = []
    for pair, look in zip(pairs, looks, strict=True):
        for i, j, head in turns(pair):
            first, second = int(look[head].argmax()), int(look[j].argmax())  # where soupe looks, where légumes looks
            found.append(((first, second) == (i + 1, i), second < first))
    return found
