"""Lesson 13: what pre-training buys where there are few pairs, and whether as many seconds of tuning buy as much.

English into French, sentences of the grammar (`recipes/text_to_text.py`). "BLEU" and "exact", the share of sentences
right in every word, are those of 200 test sentences; "seconds" are those of a core, of pre-training and of tuning.
"""

import copy
import time
from collections.abc import Sequence

from sacrebleu.metrics import BLEU

from course_lib.data import Pair
from course_lib.text_to_text.tasks import prefixed
from course_lib.translation.decode import exact_match
from course_lib.workshop.experiments import each, experiment
from course_lib.workshop.recipes.text_to_text import (
    COPIES,
    NOISES,
    STEPS,
    TEXTS,
    TUNING,
    model,
    nearest,
    pairs,
    pretrained,
    spoiled,
    taught,
    tests,
    texts,
    tokenizer,
    translated,
    tuned,
)

HERE = ["default"]  # the instruction set of what is dear
NUMBERS = (50, 200, 1000)  # of pairs
DROPOUT = 0.1  # of who sees few pairs for long
# Steps of tuning that take longer than pre-training and TUNING steps together: a pair is shorter than a spoiled text
# with its target. The seconds of both are recorded.
AS_LONG = int(1.25 * STEPS) + TUNING
READ = each(text=TEXTS[:2], noise=NOISES[:1])
LONG = 10  # times STEPS, of who reads for longer
LONGER = {
    "gaps filled": ("sentences", "infilling"),
    "copied": ("sentences", None),
    "T5's spans": ("sentences", "spans"),
    "words shuffled": ("shuffled", "infilling"),
}
ALSO_READ = [{"text": TEXTS[2], "noise": NOISES[0]}, {"text": TEXTS[0], "noise": NOISES[1]}]


def worth(said: Sequence[list[str]], wanted: Sequence[Pair]) -> dict[str, float]:
    """BLEU, and the share of sentences that are right in every word."""
    right = [pair.target for pair in wanted]
    found = BLEU(tokenize="none", force=True).corpus_score(list(map(" ".join, said)), [list(map(" ".join, right))])
    return {"BLEU": found.score, "exact": exact_match(said, right)}


def judged(one) -> dict:
    """`worth` of the test sentences."""
    return worth(translated(one, tests()), tests())


@experiment(READ, cpus=HERE)
def few_pairs(seed, text, noise):
    """A model that has read sentences, or their words in no order, tuned on few pairs: BLEU, exact match, seconds."""
    return read_and_tuned(seed, text, noise)


@experiment(ALSO_READ, cpus=HERE)
def read_otherwise(seed, text, noise):
    """The same for a model that has read no English, and for one that has read with T5's spans for BART's gaps."""
    return read_and_tuned(seed, text, noise)


def read_and_tuned(seed, text, noise):
    """What is worth a model that has read, tuned on each of NUMBERS of pairs, and the seconds that it took."""
    tokenizer()  # the sentences are drawn before the clock starts
    began = time.thread_time()
    read = pretrained(seed, text, noise)
    found = {"seconds": {"reading": time.thread_time() - began}}
    for n in NUMBERS:
        one, began = copy.deepcopy(read), time.thread_time()
        tuned(one, pairs()[:n], seed)
        found["seconds"][n] = time.thread_time() - began
        found[n] = judged(one)
    return found


@experiment(each(text=TEXTS[:2]), cpus=HERE)
def copied(seed, text):
    """The same for a model that has copied what it read, no word of it hidden: BLEU and exact match."""
    read = model(seed)
    taught(read, copies(text, seed), seed, STEPS)
    found = {}
    for n in NUMBERS:
        one = copy.deepcopy(read)
        tuned(one, pairs()[:n], seed)
        found[n] = judged(one)
    return found


def copies(text: str, seed: int) -> list[tuple]:
    """Each text as often as where it is spoiled, to be written as it stands, the language's token before the source."""
    words = tokenizer()
    rows = [(words.encode([to]).tolist(), words.encode(one).tolist()) for to, one in texts(text, seed)]
    return [(prefixed(token, ids), ids) for token, ids in rows] * COPIES


@experiment(each(reads=LONGER), cpus=HERE)
def read_for_longer(seed, reads):
    """The same for a model that has read LONG times as long, spoiled anew each time or copied: BLEU, exact match."""
    rows = []
    for n in range(LONG):
        again = seed + 1000 * n
        if reads == "copied":
            rows += copies("sentences", again)
        else:
            text, noise = LONGER[reads]
            rows += spoiled(texts(text, again), again, noise)
    read = model(seed)
    taught(read, rows, seed, LONG * STEPS)
    found = {}
    for n in NUMBERS:
        one = copy.deepcopy(read)
        tuned(one, pairs()[:n], seed)
        found[n] = judged(one)
    return found


@experiment(cpus=HERE)
def no_reading(seed):
    """A model that has read nothing, tuned on as many pairs in as many steps."""
    found = {}
    for n in NUMBERS:
        one = model(seed)
        tuned(one, pairs()[:n], seed)
        found[n] = judged(one)
    return found


@experiment(each(n_pairs=NUMBERS), cpus=HERE)
def as_many_seconds(seed, n_pairs):
    """A model that has read nothing and is tuned for as many seconds as reading and tuning take together."""
    one = model(seed, dropout=DROPOUT)
    began = time.thread_time()
    tuned(one, pairs()[:n_pairs], seed, AS_LONG)
    seconds = time.thread_time() - began
    return judged(one) | {"seconds": seconds}


@experiment(seeds=[0], cpus=HERE)
def nearest_pair(seed):
    """The translation of the known pair whose English shares most words with the sentence: nothing is learned."""
    return {n: worth(nearest(pairs()[:n], tests()), tests()) for n in NUMBERS}
