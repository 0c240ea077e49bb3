"""Lesson 08's uses: fine-tuning against fresh twins and rules on equal input, search against counting words."""

import math
import re
from collections import Counter, defaultdict
from functools import cache
from itertools import pairwise

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from course_lib.bert.bert import Bert, mean_state
from course_lib.bert.bert_heads import Head, SpanFinder, Tagger
from course_lib.bert.bert_labels import IGNORED, best_span, first_pieces, label_loss
from course_lib.bert.masked_words import texts_in_order
from course_lib.data import emoji, play_tasks, plays
from course_lib.data.baselines import bag_of_words, right
from course_lib.data.play_baselines import f1
from course_lib.train import cosine
from course_lib.workshop.experiments import each, experiment
from course_lib.workshop.experiments.bert.core import (
    ONE,
    PLAYS_BERT,
    SIZES,
    drawn_names,
    draws,
    emoji_states,
    minilm,
    name_states,
    pieces_of_plays,
    read_out,
)
from course_lib.workshop.recipes import plays as recipe
from course_lib.workshop.recipes.stored import load

DEAR = (0, 1, 2)  # the seeds of what takes half a minute or more

# --- the tasks: short texts, so that none is cut off


WORDS = {"names": 12, "says": 30, "says, test": 40}  # the longest text, in words; names of emoji are short anyway
TAUGHT = {"names": {40: 40, 400: 80}, "emoji": {100: 40, 823: 60}, "says": {378: 90}}  # labels: steps
BATCH = {"names": 16, "says": 8, "emoji": 16}


def examples(task, split):
    """The examples of a task that are short enough."""
    if task == "emoji":
        return emoji.rows(split)
    longest = WORDS["says, test"] if task == "says" and split != "train" else WORDS[task]
    return [row for row in play_tasks.rows(task, split) if len(row.words) <= longest]


def labelled(task, n, seed):
    """n of the training examples, drawn anew for each seed."""
    rows = examples(task, "train")
    return [rows[i] for i in torch.randperm(len(rows), generator=draws(1000 + seed))[:n].tolist()]


def read(task, rows, pieces):
    """The examples in pieces, as a head reads them."""
    texts = {"names": lambda row: row.words, "says": lambda row: row[:2], "emoji": lambda row: row.name}
    return pieces.batch([texts[task](row) for row in rows])


def truth(task, rows, part):
    """Their labels, as `label_loss` takes them: a class, a tag for each piece, the first and last piece of a span."""
    if task == "emoji":
        return torch.tensor([emoji.GROUPS.index(row.group) for row in rows])
    if task == "names":
        return first_pieces(part.words, [[play_tasks.TAGS.index(tag) for tag in row.tags] for row in rows])
    inside = part.words.masked_fill(part.segments == 0, -1)  # the passage, not the question
    return torch.tensor([[int((words == row.first).nonzero()[0]), int((words == row.last).nonzero()[-1])]
                         for row, words in zip(rows, inside, strict=True)])  # fmt: skip


def score(task, rows, said):
    """F1 of tags for names; else the share that is right. said: of each row its tags, its span or its group."""
    meant = {"names": lambda row: row.tags, "says": lambda row: (row.first, row.last), "emoji": lambda row: row.group}
    return (f1 if task == "names" else right)(said, [meant[task](row) for row in rows])


def answers(task, rows, part, logits):
    """What a head says, in the words of the task, for `score`."""
    if task == "emoji":
        return [emoji.GROUPS[i] for i in logits.argmax(-1).tolist()]
    if task == "says":
        spans = best_span(logits, allowed=(part.segments == 1) & (part.words >= 0), longest=64)
        return [tuple(pair) for pair in part.words.gather(1, spans).tolist()]
    asked = truth(task, rows, part) != IGNORED
    return [[play_tasks.TAGS[i] for i in row[at].tolist()] for row, at in zip(logits.argmax(-1), asked, strict=True)]


# --- fine-tuning


class MeanClassifier(Head):
    """One of K classes for a text, read from its mean state: ids (B, T) -> logits (B, K)."""

    def forward(self, ids, segments=None, mask=None):
        return self.readout(self.dropout(mean_state(self.states(ids, segments, mask), mask)))


def headed(task, bert):
    """The Bert with the head of a task on it."""
    if task == "says":
        return SpanFinder(bert)
    return Tagger(bert, len(play_tasks.TAGS)) if task == "names" else MeanClassifier(bert, len(emoji.GROUPS))


def batches(task, rows, pieces, generator):
    """Endless batches of examples with their labels."""
    for some in texts_in_order(rows, BATCH[task], generator):
        part = read(task, some, pieces)
        yield part.ids, part.segments, part.mask, truth(task, some, part)


def fine_tune(model, some, steps, rate):
    """Train a head and all of its BERT: the rate rises for a tenth of the steps, then falls along a cosine."""
    optimiser = torch.optim.AdamW(model.parameters(), lr=rate, fused=True)
    model.train()
    for step, batch in zip(range(steps), some, strict=False):
        optimiser.param_groups[0]["lr"] = rate * cosine(step, steps, warmup=steps // 10)
        loss = label_loss(model, batch)
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
    return model.eval()


@torch.no_grad()
def judged(task, model, pieces, split="test"):
    """The head's score on all short examples of a split."""
    rows, said = sorted(examples(task, split), key=lambda row: len(str(row))), []  # little padding
    for at in range(0, len(rows), 32):
        some = rows[at : at + 32]
        part = read(task, some, pieces)
        said += answers(task, some, part, model(part.ids, part.segments, part.mask))
    return score(task, rows, said)


# --- four beginnings


def fresh(bert, seed):
    """A newly initialised twin of a Bert: its sizes, and every matrix drawn from N(0, 0.02)."""
    torch.manual_seed(seed)
    return Bert(bert.config)


@cache
def real():
    """MiniLM and its tokenizer; nobody changes it."""
    return minilm()


def begun(start, seed):
    """A Bert to be tuned, and its tokenizer."""
    if start == "MiniLM":
        return minilm()
    if start == "fresh MiniLM":
        return fresh(real()[0], seed), real()[1]
    torch.manual_seed(seed)
    model = load(recipe.BERT)[0] if start == "our BERT" else recipe.BERT.build(2_000)
    return model.bert, pieces_of_plays()


# Of these three the best on validation examples, one seed, names with 400 labels and emoji with 100 (`rates_tried`).
# Not tried: says, and our fresh twin, which takes our BERT's. Names of ours: 0.003 gave 0.72, and 0.001, kept, 0.71.
TRIED = {"MiniLM": (1e-4, 3e-4, 1e-3), "our BERT": (3e-4, 1e-3, 3e-3)}
RATE = {
    "MiniLM": {"names": 3e-4, "says": 3e-4, "emoji": 1e-4},
    "fresh MiniLM": {"names": 1e-3, "says": 3e-4, "emoji": 1e-3},
    "our BERT": {"names": 1e-3, "says": 1e-3, "emoji": 1e-3},
    "our BERT, fresh": {"names": 1e-3, "says": 1e-3, "emoji": 1e-3},
}


def tuned(seed, task, start, n, rate, split="test"):
    """The score of a Bert that was tuned on n labelled examples."""
    bert, pieces = begun(start, seed)
    torch.manual_seed(seed)  # the same head
    model = headed(task, bert)
    fine_tune(model, batches(task, labelled(task, n, seed), pieces, draws(seed)), TAUGHT[task][n], rate)
    return judged(task, model, pieces, split)


def rates_tried(task, start, n, seed=100):
    """The score on validation examples after each of the three rates: {rate: score}. What `RATE` was chosen by."""
    family = "our BERT" if start.startswith("our") else "MiniLM"
    return {rate: tuned(seed, task, start, n, rate, "validation") for rate in TRIED[family]}


def amounts(**tasks):
    """A variant for each task and number of labels."""
    return [{"task": task, "n": n} for task, some in TAUGHT.items() for n in some]


def beginnings(*starts):
    """A variant for each task, number of labels and beginning."""
    return [{"task": task, "n": n, "start": start} for task, some in TAUGHT.items() for n in some for start in starts]


@experiment(beginnings("MiniLM", "fresh MiniLM"), seeds=DEAR, cpus=ONE)
def real_tuned(seed, task, n, start):
    """Score on test examples of MiniLM, fine-tuned with all its weights on n labels, and of its fresh twin."""
    return {"score": tuned(seed, task, start, n, RATE[start][task])}


@experiment(beginnings("our BERT", "our BERT, fresh"), cpus=ONE, files=PLAYS_BERT)
def ours_tuned(seed, task, n, start):
    """Score on test examples of the stored BERT of the plays, fine-tuned on n labels, and of its fresh twin."""
    return {"score": tuned(seed, task, start, n, RATE[start][task])}


# --- rules that read what the models read: small letters


def by_dictionary(known, asked):
    """Each word has the tag that it had most often among the labels; a word that was not seen has none."""
    seen = defaultdict(Counter)
    for row in known:
        for word, tag in zip(row.words, row.tags, strict=True):
            seen[word.lower()][tag] += 1
    tags = {word: counts.most_common(1)[0][0] for word, counts in seen.items()}
    return [[tags.get(word.lower(), "other") for word in row.words] for row in asked]


def sentences(words):
    """The first and the last place of each sentence: it ends with a full stop, an exclamation or a question mark."""
    ends = [i for i, word in enumerate(words) if word in ".!?"]
    return [(before + 1, end) for before, end in zip([-1, *ends], ends, strict=False)]


def after_the_name(known, asked):
    """From the asked name to the next sentence that looks like a name: three words or fewer, a full stop, no comma.

    It needs no labels. One, two and three words were tried on validation passages, and a rule that takes the names from
    the labels: 0.81, 0.94, 0.94 and 0.64 right.
    """
    said = []
    for row in asked:
        words = [word.lower() for word in row.words]
        name = [*row.question.lower().split()[2:-1], "."]  # what does ... say ?
        first = next((end + 1 for at, end in sentences(words) if words[at : end + 1] == name), 0)
        short = [(at, end) for at, end in sentences(words) if at > first and end - at <= 3 and words[end] == "."]
        names = [at for at, end in short if not {",", ";", ":"} & set(words[at:end])]
        said.append((first, min(names, default=len(words)) - 1))
    return said


def words_counted(known, asked):
    """The group that a bag of words says."""
    return bag_of_words([row.name for row in known], [row.group for row in known], [row.name for row in asked])


RULES = {"names": by_dictionary, "says": after_the_name, "emoji": words_counted}


@experiment(amounts(), cpus=ONE)
def rules(seed, task, n):
    """Score on test examples of a rule or a bag of words that learns from the same n labels, in small letters."""
    asked = examples(task, "test")
    return {"score": score(task, asked, RULES[task](labelled(task, n, seed), asked))}


# --- frozen: what fresh weights are worth


@experiment(seeds=range(10), cpus=ONE)
def emoji_fresh(seed):
    """Share of emoji names put into their group from frozen states of fresh weights, with `emoji_labels`' ten draws."""
    ours = recipe.BERT.build(2_000).bert  # its sizes, newly drawn: as the stored one began
    readers = {
        "MiniLM, fresh": (fresh(real()[0], seed).eval(), real()[1]),
        "our BERT, fresh": (ours.eval(), pieces_of_plays()),
    }
    known, asked, states = emoji_states(*readers.values())
    groups, meant = (np.array([row.group for row in rows]) for rows in (known, asked))
    return {
        name: {n: (read_out(told[at, -1], groups[at]).predict(new[:, -1]) == meant).mean()
               for n in SIZES for at in [drawn_names(known, n, seed)]}
        for name, (told, new) in zip(readers, states, strict=True)
    }  # fmt: skip


# --- search


def content_words(text):
    """The words of a text in small letters, without scikit-learn's list of stop words."""
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

    return [word for word in re.findall(r"[a-z]+", text.lower()) if word not in ENGLISH_STOP_WORDS]


class Bm25:
    """Counting words: the sum over a question's words of idf * f / (f + k (1 - b + b length / mean length)).

    f: how often the passage has the word; idf = log(1 + (N - n + 1/2) / (n + 1/2)), n of N passages have it.
    Okapi BM25, Robertson and Zaragoza (2009), section 3.4, with the usual k and b; the 1 in the logarithm is Lucene's.
    """

    def __init__(self, passages, k=1.2, b=0.75):
        counts = [Counter(content_words(text)) for text in passages]
        N, mean = len(counts), sum(one.total() for one in counts) / len(counts)
        n = Counter(word for one in counts for word in one)
        self.N, self.index = N, defaultdict(list)
        for i, one in enumerate(counts):
            for word, f in one.items():
                idf = math.log(1 + (N - n[word] + 0.5) / (n[word] + 0.5))
                self.index[word].append((i, idf * f / (f + k * (1 - b + b * one.total() / mean))))

    def __call__(self, question):
        """The score of every passage: (N,)."""
        scores = torch.zeros(self.N)
        for word in content_words(question):
            for i, weight in self.index[word]:
                scores[i] += weight
        return scores


def meanings(texts, layer=-1, model=None):
    """A vector of length 1 for each text, the mean state of MiniLM's last layer, or of another: (texts, 384)."""
    return F.normalize(torch.tensor(name_states(model or real()[0], real()[1], texts)[:, layer]), dim=1)


@cache
def passages():
    """1,000 speeches of the six test plays, of 6 to 24 words, in reading order; drawn once."""
    rows = [row for row in plays.rows("test") if row.speaker and 6 <= len(row.text.split()) <= 24]
    return [rows[i] for i in sorted(torch.randperm(len(rows), generator=draws(0))[:1000].tolist())]


@cache
def searched():
    """The passages as MiniLM sees them, (1000, 384), and as words are counted."""
    texts = [row.text for row in passages()]
    return meanings(texts), Bm25(texts)


# --- search, scored


@cache
def known_pairs(kind):
    """(question, passage) pairs out of the test plays: all that there are of a kind, nothing of them written for it."""
    spoken = [
        (row[:5], " ".join(re.sub(r"\[.*?\]", " ", row.text).split())) for row in plays.rows("test") if row.speaker
    ]
    if kind == "a question and its reply":  # by another speaker of the same scene
        return [(one, other) for (here, one), (there, other) in pairwise(spoken)
                if one.endswith("?") and here[:4] == there[:4] and here != there
                and all(4 <= len(text.split()) <= 40 for text in (one, other))]  # fmt: skip
    if kind == "the first half of a speech":  # the passage is the second half alone
        words = [text.split() for _, text in spoken if 20 <= len(text.split()) <= 50]
        return [(" ".join(some[: len(some) // 2]), " ".join(some[len(some) // 2 :])) for some in words]
    return [(None, text) for _, text in spoken if 10 <= len(text.split()) <= 30 and len(set(content_words(text))) >= 3]


def pairs(kind, seed, n=200):
    """n of them, drawn anew by each seed; "one of its words": the question is one content word of its passage."""
    found, generator = known_pairs(kind), np.random.default_rng(seed)
    drawn = [found[i] for i in generator.permutation(len(found))[:n]]
    if kind != "one of its words":
        return drawn
    return [(" ".join(generator.choice(sorted(set(content_words(text))), 1)), text) for _, text in drawn]


MEASURES = ("reciprocal rank", "first", "in ten")


def placed(scores, right):
    """1 / the place of the right passage, (Q,), in scores (Q, N); whether it is the first, whether among ten: (Q, 3).

    Where passages tie, the mean over all orders of them.
    """
    own = scores.gather(1, right[:, None])
    above, tied = (scores > own).sum(1), (scores == own).sum(1)
    found = []
    for a, t in zip(above.tolist(), tied.tolist(), strict=True):
        place = torch.arange(a + 1, a + t + 1).double()
        found.append([(1 / place).mean(), (place <= 1).double().mean(), (place <= 10).double().mean()])
    return torch.tensor(found)


def shares_a_word(question, passage):
    """Whether a content word of the question begins with the same four letters as one of the passage."""
    one, other = ({word[:4] for word in content_words(text)} for text in (question, passage))
    return bool(one & other)


def compared(questions, texts, right, seed):
    """Mean reciprocal rank, the share found first, and among ten; of all questions, and by whether a word is shared."""
    twin = fresh(real()[0], seed).eval()
    scores = {
        "BM25": torch.stack(list(map(Bm25(texts), questions))),
        "MiniLM": meanings(questions) @ meanings(texts).T,
        "its word vectors alone": meanings(questions, 0) @ meanings(texts, 0).T,
        "fresh weights": meanings(questions, model=twin) @ meanings(texts, model=twin).T,
    }
    scores["BM25 and MiniLM"] = sum(scores[name] / scores[name].std() for name in ("BM25", "MiniLM"))
    shared = torch.tensor([shares_a_word(question, texts[i]) for question, i in zip(questions, right, strict=True)])
    groups = {"all": torch.ones_like(shared), "a shared word": shared, "no shared word": ~shared}
    found = {"share with a shared word": shared.double().mean(), "questions": len(questions), "passages": len(texts)}
    for name, some in scores.items():
        places = placed(some, right)
        found[name] = {group: dict(zip(MEASURES, places[at].mean(0).tolist(), strict=True))
                       for group, at in groups.items() if at.any()}  # fmt: skip
    return found


KINDS = ("one of its words", "the first half of a speech", "a question and its reply")


@experiment(each(kind=KINDS), cpus=ONE)
def search_plays(seed, kind):
    """How well MiniLM and counting words find the right one of 200 passages of test plays, by kind of question."""
    questions, texts = zip(*pairs(kind, seed), strict=True)
    return compared(list(questions), list(texts), torch.arange(len(texts)), seed)


@experiment(seeds=DEAR, cpus=ONE)
def search_names(seed):
    """How well MiniLM and counting words find an emoji's official name by what people call it, among all names."""
    rows = [row for split in ("train", "validation", "test") for row in emoji.rows(split)]
    asked = emoji.other_names()
    drawn = [asked[i] for i in np.random.default_rng(seed).permutation(len(asked))[:200]]
    right = torch.tensor([rows.index(row) for _, row in drawn])
    return compared([name for name, _ in drawn], [row.name for row in rows], right, seed)


# --- the words around a word


def content_places(read_them, word):
    """Where in MiniLM's pieces (`Read`) a content word stands, without that at `word`, bool (B, T): bool (B, T)."""
    vocab = real()[1].vocab
    kept = torch.tensor([[bool(content_words(vocab[i])) or vocab[i].startswith("##") for i in row]
                         for row in read_them.ids.tolist()])  # fmt: skip
    return kept & (read_them.words >= 0) & ~word
