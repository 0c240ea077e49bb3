"""Lesson 07's controls: what counts, lists and untrained models do at the same tasks, and what of a form helps."""

from collections import Counter, defaultdict
from functools import cache
from itertools import islice

import numpy as np
import torch

from course_lib.data import word_tasks
from course_lib.language.generate import next_probs
from course_lib.language.gpt import GPT
from course_lib.language.in_context import prompt
from course_lib.language.next_token import windows
from course_lib.text.counts import count_bits
from course_lib.workshop.experiments import each, experiment
from course_lib.workshop.experiments.gpt.core import (
    ASKED,
    BATCH,
    COOL,
    DRAWS,
    LETTERS,
    MARKED,
    OPENINGS,
    PIECES,
    QUESTIONS,
    SIZES,
    STEPS,
    TOLD,
    WORDINGS,
    answered_to,
    at_last_token,
    before_mark,
    in_template,
    instruction,
    linear_right,
    reader,
    share_known,
    tokens,
    words_in,
)
from course_lib.workshop.recipes import plays as recipe
from course_lib.workshop.recipes.stored import load

# --- what models that only count write, and how well they predict

COUNTED = ("single tokens", "pairs", "three in a row")
WEIGHT = 10.0  # the shorter context counts like so many sightings, as in count_bits


@cache
def counted_text(text, seed):
    """What is counted (N,): all the train plays, or the windows out of them that plain_loop reads under this seed."""
    ids = tokens("pieces", "train")
    if text == "all train plays":
        return ids
    return torch.cat([some.flatten() for some in islice(windows(ids, BATCH, SIZES["max_len"], seed), STEPS)])


def followers(ids):
    """For each run of 0, 1 and 2 tokens of a text (N,), how often each token stands behind it."""
    ids, found = ids.tolist(), defaultdict(Counter)
    for n in range(len(COUNTED)):
        for at in range(n, len(ids)):
            found[tuple(ids[at - n : at])][ids[at]] += 1
    return found


def counted_probs(counts, before, longest, vocab_size):
    """p(token | the tokens before it) (V,) by counts of up to `longest` in a row, smoothed as in count_bits."""
    p, weight = torch.ones(vocab_size, dtype=torch.double), vocab_size  # without context each token is seen once more
    for n in range(longest):
        seen = torch.zeros_like(p)
        for token, times in counts.get(tuple(before[len(before) - n :]), {}).items():
            seen[token] = times
        p, weight = (seen + weight * p / p.sum()) / (seen.sum() + weight), WEIGHT
    return p


def counts_wrote(counts, longest, seed):
    """What such counts write behind the eight openings, as many tokens and as cool as the GPT of plain_loop."""
    pieces, generator = reader("pieces"), torch.Generator().manual_seed(seed)
    prompts = [pieces.encode(opening).tolist() for opening in OPENINGS]
    room, written = SIZES["max_len"] - max(map(len, prompts)), []
    for ids in prompts:
        text = list(ids)
        for _ in range(room):
            p = next_probs(counted_probs(counts, text, longest, len(pieces)).log(), COOL)
            text.append(int(torch.multinomial(p, 1, generator=generator)))
        written.append(pieces.decode(text[len(ids) :]))
    return written


@experiment(each(text=["all train plays", "what the GPT read"]), cpus=["default"], files=[PIECES])
def counts_write(seed, text):
    """What counts of tokens reach where a GPT is asked: words that stand in the plays, bits of a test character."""
    known, asked = counted_text(text, seed), tokens("pieces", "test")
    bits = count_bits(known, asked, len(reader("pieces")), len(COUNTED), WEIGHT)  # a token
    counts = followers(known)
    return {name: {"words": share_known(counts_wrote(counts, n + 1, seed)),
                   "bits": bits[n] * len(asked) / LETTERS["test"]} for n, name in enumerate(COUNTED)}  # fmt: skip


# --- was it a question? Simple rules with more labels, and a model that has learned nothing

ALL = 2740  # the train plays hold no more questions than half of these


@experiment(each(n=[2 * TOLD, 960, 2000, ALL]), files=[PIECES])
def list_by_labels(seed, n):
    """The share of right marks of a linear layer on the list of tokens that occur, by the number of labels."""
    size = len(reader("pieces"))

    def which_tokens(some):
        return torch.zeros(len(some), size).scatter(1, some[:, 1:-1], 1.0)  # (N, V), 1 where it occurs

    (ids, labels), (asked, answers) = before_mark("train", n // 2, seed), before_mark("test", MARKED, 0)
    return {"right": linear_right(which_tokens(ids), labels, which_tokens(asked), answers)}


@experiment(files=[PIECES])
def untrained_twin(seed):
    """The share of right marks of a linear layer on a GPT of the stored one's sizes that has learned nothing."""
    twin = GPT(load(recipe.GPT)[0].config).eval()
    (ids, labels), (asked, answers) = before_mark("train", TOLD, seed), before_mark("test", MARKED, 0)
    features, asked_features = (at_last_token(twin, some)[0] for some in (ids, asked))
    return {"right": linear_right(features, labels, asked_features, answers)}


# --- which part of the chat template helps?

BEGINS, ENDS = "<|im_start|>", "<|im_end|>"
FORMS = {  # a question -> the text behind which the model writes; each leaves something of the template away
    "question and answer": lambda question: f"Question: {question}\nAnswer:",
    "names of the turns": lambda question: no_specials(no_system(in_template(question))),
    "without special tokens": lambda question: no_specials(in_template(question)),
    "without system turn": lambda question: no_system(in_template(question)),
}


def no_specials(text):
    """The template's words, without its special tokens."""
    return text.replace(BEGINS, "").replace(ENDS, "")


def no_system(text):
    """The template from the user's turn on."""
    return text[text.index(f"{BEGINS}user") :]


@experiment(each(task=QUESTIONS, form=FORMS), seeds=[0], cpus=["default"])
def template_parts(seed, task, form):
    """How often a published model names the right word and ends by itself, behind parts of its chat template."""
    pairs = word_tasks.pairs(task, "test")[: DRAWS * ASKED]
    said, ended = answered_to([FORMS[form](QUESTIONS[task].format(word=word)) for word, _ in pairs])
    holds = [answer.lower() in words_in(text) for text, (_, answer) in zip(said, pairs, strict=True)]
    return {"names it": np.mean(holds), "ends": np.mean(ended)}


# --- an instruction as a turn of the chat template


@experiment(each(task=QUESTIONS), seeds=range(len(WORDINGS)), cpus=["default"])
def instructed_turn(seed, task):
    """How often a published model's whole first line is the right answer, or what it says names it, in its template."""
    pairs = word_tasks.pairs(task, "test")[: DRAWS * ASKED]
    said, _ = answered_to([in_template(f"{instruction(task, seed)}\n{prompt([], word)}") for word, _ in pairs])
    exact = [text.strip().split("\n")[0].strip() == answer for text, (_, answer) in zip(said, pairs, strict=True)]
    holds = [answer.lower() in words_in(text) for text, (_, answer) in zip(said, pairs, strict=True)]
    return {"exact": np.mean(exact), "names it": np.mean(holds)}
