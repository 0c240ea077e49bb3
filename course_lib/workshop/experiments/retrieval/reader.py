"""Lesson 15: two published models, MiniLM, which searches a memory of sentences, and SmolLM2, which reads the found.

asked = ask("What is the currency of Bulgaria?", "MiniLM")      # asked.passages, asked.weights, asked.answer

Shapes: N passages of the memory, K of them that are read, V answers whose probability is asked, T tokens, D = 384.
"""

from collections import defaultdict
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from course_lib.bert.bert import mean_state
from course_lib.data import SPLITS, territories
from course_lib.data.territories import Fact, passage
from course_lib.inputs.sequences import select_rows
from course_lib.retrieval.bm25 import BM25, STOP_WORDS, summed_ranks
from course_lib.retrieval.marginal import log_marginal, log_passages
from course_lib.workshop.experiments.bert.core import minilm
from course_lib.workshop.experiments.gpt.core import smollm2

# --- the prompt: what a question with a passage looks like, shown by five examples that are about nothing of the memory

EXAMPLES = (  # a passage, a question, its answer: no three words in a row are those of a sentence of the memory
    ("The winners at Ashby were given the Ashby cup.", "Which prize did the winners at Ashby get?", "Ashby cup"),
    (
        "In Thornwood, the silver birch grows faster than all other trees.",
        "Which tree of Thornwood gains height most quickly?",
        "silver birch",
    ),
    ("The bridge at Marlow was finished in 1931.", "When could one first cross the bridge at Marlow?", "1931"),
    (
        "Guests come to the inn of Rye by the Winchelsea coach.",
        "By what do guests get to the inn of Rye?",
        "Winchelsea coach",
    ),
    ("Round Holt, farmers plant the Dutch tulip and nothing else.", "What grows in the fields of Holt?", "Dutch tulip"),
)
LONGEST = 12  # tokens of an answer; the longest of all facts has 9
READ = 5  # passages that a search hands over


def asked_with(passages: Sequence[str], question: str) -> str:
    """A question behind its passages, one a line; behind none it is the question alone."""
    return "".join(f"Passage: {text}\n" for text in passages) + f"Question: {question}\nAnswer:"


def opening(with_passage: bool, examples=EXAMPLES) -> str:
    """What every prompt begins with: the examples, with their passages or without."""
    return "".join(f"{asked_with([text] if with_passage else [], q)} {answer}\n\n" for text, q, answer in examples)


def crowded_opening() -> str:
    """What a prompt with five passages may begin with: in each example all five, the right one at each place once."""
    passages = [text for text, _, _ in EXAMPLES]
    return "".join(f"{asked_with(passages, q)} {answer}\n\n" for _, q, answer in EXAMPLES)


def kind_opening(kind: str) -> str:
    """For a question without a passage: five facts of its own kind, of train places, asked and answered."""
    known = [one for one in territories.facts("train") if one.kind == kind][: len(EXAMPLES)]
    return opening(False, [("", territories.question(one), one.answer) for one in known])


# --- the reader


@cache
def opened(begin: str) -> list[dict]:
    """What the reader keeps of a text with which many prompts begin: keys and values of each block."""
    model, tokenizer = smollm2()
    kept = [{} for _ in model.blocks]
    with torch.no_grad():
        model.states(tokenizer.encode(begin)[None], cache=kept)
    return kept


def rows_of(kept: list[dict], n: int) -> list[dict]:
    """The same kept text n times, for a batch that goes on from it."""
    return select_rows(kept, torch.zeros(n, dtype=torch.long))


@torch.no_grad()
def written(begin: str, prompts: Sequence[str]) -> list[str]:
    """What the reader writes greedily behind `begin` and each prompt, to the line's end and without spaces around it.

    The beginning is read once for all prompts, a prompt that stands there twice once, and those of equal length
    together.
    """
    model, tokenizer = smollm2()
    alike, found = defaultdict(list), {}
    for text in dict.fromkeys(prompts):
        ids = tokenizer.encode(text)  # (T,)
        alike[len(ids)].append((text, ids))
    for some in alike.values():
        kept, new, ids = rows_of(opened(begin), len(some)), torch.stack([ids for _, ids in some]), []  # new (B, T)
        lines = [""] * len(some)
        while len(ids) < LONGEST and not all("\n" in line for line in lines):
            new = model.read_out(model.states(new, cache=kept)[:, -1:]).argmax(-1)  # (B, 1)
            ids.append(new)
            lines = [tokenizer.decode(row) for row in torch.cat(ids, dim=1).tolist()]
        found |= {text: line.split("\n")[0].strip() for (text, _), line in zip(some, lines, strict=True)}
    return [found[text] for text in prompts]


@torch.no_grad()
def log_answers(passages: Sequence[str], question: str, answers: Sequence[str]) -> Tensor:
    """log p(y | x, z) in nats, (K, V): of each answer and the line's end, for a reader with each of the passages."""
    model, tokenizer = smollm2()
    asked = [tokenizer.encode(f" {answer}\n") for answer in answers]
    ids = torch.nn.utils.rnn.pad_sequence(asked, batch_first=True)  # (V, T)
    mask = torch.arange(ids.shape[1]) < torch.tensor([[len(one)] for one in asked])  # (V, T)
    rows = []
    for text in passages:
        kept = rows_of(opened(opening(True)), 1)
        first = model.states(tokenizer.encode(asked_with([text], question))[None], cache=kept)[:, -1:]  # (1, 1, D)
        rest = model.states(ids[:, :-1], cache=rows_of(kept, len(answers)))  # (V, T - 1, D); padding stands behind
        states = torch.cat([first.expand(len(answers), -1, -1), rest], dim=1)
        log_p = model.read_out(states).log_softmax(-1).gather(-1, ids[..., None])[..., 0]  # (V, T)
        rows.append((log_p * mask).sum(-1))
    return torch.stack(rows)


# --- the memory, and three ways to search it


class Memory:
    """Sentences, their vectors (N, D) by MiniLM, and their words counted. A changed sentence is embedded anew alone."""

    def __init__(self, texts: Sequence[str]):
        self.texts, self.vectors = list(texts), meanings(texts)
        self.words = BM25(self.texts, STOP_WORDS)

    def changed(self, news: dict[int, str]) -> "Memory":
        """Another memory, in which these places hold other sentences: {place: sentence}. Nothing is trained."""
        other = object.__new__(Memory)
        other.texts = [news.get(place, text) for place, text in enumerate(self.texts)]
        other.vectors = self.vectors.clone()
        other.vectors[list(news)] = meanings(list(news.values()))
        other.words = BM25(other.texts, STOP_WORDS)
        return other


@torch.no_grad()
def meanings(texts: Sequence[str]) -> Tensor:
    """MiniLM's vector of each text, its mean state, of length 1: (texts, D). Short texts are read with short ones."""
    model, pieces = read_by_minilm()
    order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
    found = torch.empty(len(texts), model.config.d_model)
    for at in range(0, len(order), 64):
        some = order[at : at + 64]
        part = pieces.batch([texts[i] for i in some])
        found[some] = mean_state(model(part.ids, part.segments, part.mask), part.mask)
    return F.normalize(found, dim=1)


@cache
def read_by_minilm():
    """The published model that searches, and its tokenizer; nobody changes it."""
    return minilm()


@cache
def every_fact() -> list[Fact]:
    """The facts of all splits: what the memory holds, in this order."""
    return [one for split in SPLITS for one in territories.facts(split)]


@cache
def memory(draw: int) -> Memory:
    """A sentence for each of all facts, in the wordings of this draw."""
    return Memory([passage(one, draw) for one in every_fact()])


def by_meaning(known: Memory, question: str) -> Tensor:
    """The cosine of the question's vector and each passage's: (N,)."""
    return known.vectors @ meanings([question])[0]


def by_words(known: Memory, question: str) -> Tensor:
    """BM25's score of each passage, stop words left out: (N,)."""
    return known.words.scores(question)


def by_both(known: Memory, question: str) -> Tensor:
    """What each passage's ranks in the two searches give together: (N,)."""
    return summed_ranks(by_meaning(known, question), by_words(known, question))


SEARCHES = {"MiniLM": by_meaning, "BM25": by_words, "both": by_both}


def first_of(scores: Tensor, k: int = READ) -> list[int]:
    """The places of the k highest scores, the best first; of equal ones the first comes first."""
    return scores.sort(descending=True, stable=True).indices[:k].tolist()


# --- a question of one's own


TEMPERATURE = 0.05  # of the sum over passages: see `sums` in retrieval_reading.py
WAYS = ("no passage", *SEARCHES, "sum of five")


class Asked(NamedTuple):
    """The passages found, the best first, how much each weighed, and what the reader said."""

    passages: list[str]
    weights: list[float]
    answer: str


def ask(question: str, how: str = "MiniLM", known: Memory | None = None) -> Asked:
    """Ask the two models a question of one's own; known: the memory, that of all facts where None.

    how: "no passage", the reader alone; "MiniLM", "BM25" or "both", the search whose first passage it reads; or
    "sum of five", p(y|x) = sum p(z|x) p(y|x,z) over MiniLM's first five, of the answers that it writes with each of
    them. Raises ValueError for another way and for a question without words.
    """
    _check_asked(question, how)
    if how == "no passage":
        return Asked([], [], written(opening(False), [asked_with([], question)])[0])
    known = memory(0) if known is None else known
    scores = SEARCHES.get(how, by_meaning)(known, question)
    places = first_of(scores)
    texts = [known.texts[place] for place in places]
    if how != "sum of five":
        return Asked(texts, [1.0, *[0.0] * (len(texts) - 1)], read_with(texts[:1], question)[0])
    log_z = log_passages(scores[places], TEMPERATURE)  # (K,)
    answers = list(dict.fromkeys(read_with(texts, question)))
    log_y = log_marginal(log_z, log_answers(texts, question, answers))  # (V,)
    return Asked(texts, log_z.exp().tolist(), answers[int(log_y.argmax())])


def read_with(texts: Sequence[str], question: str) -> list[str]:
    """What the reader writes with each of these passages alone."""
    return written(opening(True), [asked_with([text], question) for text in texts])


def _check_asked(question: str, how: str) -> None:
    if how not in WAYS:
        raise ValueError(f"how must be one of {', '.join(map(repr, WAYS))}; got {how!r}.")
    if not question.strip():
        raise ValueError("The question is empty: write one, such as 'What is the currency of Bulgaria?'.")
