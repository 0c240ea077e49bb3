"""Lesson 15, two published models: what the reader says with which passage, which search finds it, one or five."""

import math
from collections import Counter
from random import Random

import torch

from course_lib.data import territories
from course_lib.data.territories import Fact, passage, question, say
from course_lib.retrieval.bm25 import BM25
from course_lib.retrieval.marginal import log_marginal, log_passages
from course_lib.workshop.experiments import each, experiment
from course_lib.workshop.experiments.retrieval.reader import (
    READ,
    SEARCHES,
    TEMPERATURE,
    Memory,
    asked_with,
    crowded_opening,
    every_fact,
    first_of,
    kind_opening,
    log_answers,
    memory,
    opening,
    written,
)

DRAWS = range(3)  # of the questions and of all wordings
ASKED = {"one passage": 70, "sum": 25, "five passages": 25}  # test questions of a draw
ONE = ["default"]  # instruction set: nothing is trained


def drawn(split: str, n: int, seed: int) -> list[Fact]:
    """n facts of a split, drawn anew by each seed."""
    return Random(seed).sample(territories.facts(split), n)


def place_of(fact: Fact) -> int:
    """Where in the memory its sentence stands."""
    return every_fact().index(fact)


def other_place(fact: Fact) -> Fact:
    """The same kind of fact about another place, of which the false answer is right."""
    fits = [one for one in every_fact() if one.kind == fact.kind and one.answer == fact.false]
    return Random(f"{fact.place} {fact.kind}").choice(fits)


def judged(facts: list[Fact], answers: list[str]) -> dict:
    """The shares of answers that say the right one and the false one."""
    told = list(zip(facts, answers, strict=True))
    return {name: sum(say(getattr(one, part), text) for one, text in told) / len(told)
            for name, part in (("right", "answer"), ("false", "false"))}  # fmt: skip


# --- one passage


def given(facts: list[Fact], questions: list[str], known: Memory, seed: int) -> dict[str, list[str]]:
    """The passage that each question is asked with, by the way in which it was come by."""
    found = {
        "the right one": [passage(one, seed) for one in facts],
        "a falsified one": [passage(one, seed, one.false) for one in facts],
        "another place's": [passage(other_place(one), seed) for one in facts],
    }
    for name, search in SEARCHES.items():
        found[f"{name}'s first"] = [known.texts[first_of(search(known, one))[0]] for one in questions]
    return found


@experiment(each(words=territories.WORDS), seeds=DRAWS, cpus=ONE)
def one_passage(seed, words):
    """How often the reader gives the right answer, and the false one, with each kind of passage and with none."""
    facts = drawn("test", ASKED["one passage"], seed)
    questions = [question(one, words, seed) for one in facts]
    ways = given(facts, questions, memory(seed), seed)
    if words != "any words":  # what no search has found is read once
        ways = {way: texts for way, texts in ways.items() if way in ("the right one", "MiniLM's first", "BM25's first")}
    prompts = [asked_with([text], one) for texts in ways.values() for text, one in zip(texts, questions, strict=True)]
    said = written(opening(True), prompts)
    answers = {way: said[n * len(facts) : (n + 1) * len(facts)] for n, way in enumerate(ways)}
    found = {way: judged(facts, some) for way, some in answers.items()}
    kinds = {kind: [n for n, one in enumerate(facts) if one.kind == kind] for kind in territories.KINDS}
    found["by kind"] = {kind: {way: judged([facts[n] for n in at], [some[n] for n in at])["right"]
                               for way, some in answers.items()} for kind, at in kinds.items() if at}  # fmt: skip
    found["questions"] = Counter(one.kind for one in facts)
    return found


@experiment(seeds=DRAWS, cpus=ONE)
def no_passage(seed):
    """How often the reader knows the answer by heart: behind the same examples, or five questions of the same kind."""
    facts = drawn("test", ASKED["one passage"], seed)
    prompts = [asked_with([], question(one, draw=seed)) for one in facts]
    same = [written(kind_opening(one.kind), [text])[0] for one, text in zip(facts, prompts, strict=True)]
    return {"the same examples": judged(facts, written(opening(False), prompts)), "of its kind": judged(facts, same)}


# --- which search finds the passage


def recall(scores, right: int) -> list[float]:
    """Whether a passage is the first, and whether it is among the first five; where scores tie, the expected share."""
    above, tied = int((scores > scores[right]).sum()), int((scores == scores[right]).sum())
    return [min(1.0, max(0.0, (k - above) / tied)) for k in (1, READ)]


COMMON = ("right", "place", "kind", "neither")


def common(first: Fact, asked: Fact) -> str:
    """What the fact of a passage that was found has in common with the one asked for."""
    if first == asked:
        return "right"
    return "place" if first.place == asked.place else "kind" if first.kind == asked.kind else "neither"


@experiment(each(words=territories.WORDS), seeds=DRAWS, cpus=ONE)
def found_by(seed, words):
    """Recall at 1 and at 5 among all sentences, for every test question, by search; BM25 with its stop words, too.

    "first": the shares of questions whose first passage is the right one, another one about the place, one of the kind
    about another place, or neither.
    """
    facts, known = territories.facts("test"), memory(seed)
    with_stops = BM25(known.texts)
    searches = SEARCHES | {"BM25, stop words kept": lambda _, one: with_stops.scores(one)}
    found = {"passages": len(known.texts), "questions": len(facts)}
    for name, search in searches.items():
        scores = [search(known, question(one, words, seed)) for one in facts]
        places = torch.tensor([recall(found_now, place_of(one)) for found_now, one in zip(scores, facts, strict=True)])
        kinds = {kind: places[[one.kind == kind for one in facts]].mean(0)[0] for kind in territories.KINDS}
        firsts = Counter(
            common(every_fact()[first_of(one, 1)[0]], asked) for one, asked in zip(scores, facts, strict=True)
        )
        found[name] = {
            "at 1": places[:, 0].mean(), "at 5": places[:, 1].mean(), "at 1, by kind": kinds,
            "first": {what: firsts[what] / len(facts) for what in COMMON},
        }  # fmt: skip
    return found


# --- five passages: their sum, or all in one prompt

TEMPERATURES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)  # TEMPERATURE is that of the fewest bits on validation questions


@experiment(each(split=["validation", "test"]), seeds=DRAWS, cpus=ONE)
def sums(seed, split):
    """Bits of the right answer with MiniLM's first passage and summed over five, by temperature; and what is said."""
    facts, known = drawn(split, ASKED["sum"], seed), memory(seed)
    questions = [question(one, draw=seed) for one in facts]
    scores = torch.stack([SEARCHES["MiniLM"](known, text) for text in questions]).sort(dim=1, descending=True)
    passages = [[known.texts[place] for place in places] for places in scores.indices[:, :READ].tolist()]
    prompts = [asked_with([each], text) for text, some in zip(questions, passages, strict=True) for each in some]
    written_with = iter(written(opening(True), prompts))
    bits, right = {"the first": 0.0} | dict.fromkeys(TEMPERATURES, 0.0), Counter()
    for one, text, some, found in zip(facts, questions, passages, scores.values[:, :READ], strict=True):
        said = [next(written_with) for _ in some]
        answers = list(dict.fromkeys([one.answer, *said]))
        log_y = log_answers(some, text, answers)  # (K, V)
        bits["the first"] -= float(log_y[0, 0]) / math.log(2) / len(facts)
        right["the first"] += say(one.answer, said[0]) / len(facts)
        for t in TEMPERATURES:
            summed = log_marginal(log_passages(found, t), log_y)  # (V,)
            bits[t] -= float(summed[0]) / math.log(2) / len(facts)
            if t == TEMPERATURE:  # chosen among what the reader wrote: the right answer need not be there
                best = max(said, key=lambda answer: summed[answers.index(answer)])
                right["sum"] += say(one.answer, best) / len(facts)
    return {"bits": bits, "right": right}


@experiment(seeds=DRAWS, cpus=ONE)
def strangers(seed):
    """Bits of the right answer summed over MiniLM's first passage and four drawn at random, which weigh what its do."""
    facts, known, draw = drawn("test", ASKED["sum"], seed), memory(seed), Random(seed)
    bits = 0.0
    for one in facts:
        text = question(one, draw=seed)
        scores = SEARCHES["MiniLM"](known, text)
        places = first_of(scores)
        others = draw.sample([place for place in range(len(known.texts)) if place not in places], READ - 1)
        passages = [known.texts[place] for place in (places[0], *others)]
        log_y = log_answers(passages, text, [one.answer])  # (K, 1)
        bits -= float(log_marginal(log_passages(scores[places], TEMPERATURE), log_y)[0]) / math.log(2) / len(facts)
    return {"bits": bits}


PLACES = (0, 2, 4)  # where among five passages the right one stands


@experiment(each(examples=["one passage", "five passages"]), seeds=DRAWS, cpus=ONE)
def five_in_one_prompt(seed, examples):
    """Right answers where five passages stand in one prompt: as MiniLM found them, or with the right one at a place.

    examples: what each of the five that the prompt begins with shows.
    """
    begin = crowded_opening() if examples == "five passages" else opening(True)
    facts, known = drawn("test", ASKED["five passages"], seed), memory(seed)
    questions = [question(one, draw=seed) for one in facts]
    lists = {"as found": [], "the best last": [], **{f"the right one at {at + 1}": [] for at in PLACES}}
    for one, text in zip(facts, questions, strict=True):
        places = first_of(SEARCHES["MiniLM"](known, text), READ + 1)
        lists["as found"].append(places[:READ])
        lists["the best last"].append(places[:READ][::-1])
        others = [place for place in places if place != place_of(one)][: READ - 1]
        for at in PLACES:
            lists[f"the right one at {at + 1}"].append([*others[:at], place_of(one), *others[at:]])
    found = {"the right one among five": sum(place_of(one) in some for one, some in
                                             zip(facts, lists["as found"], strict=True)) / len(facts)}  # fmt: skip
    for name, some in lists.items():
        prompts = [asked_with([known.texts[place] for place in places], text)
                   for places, text in zip(some, questions, strict=True)]  # fmt: skip
        found[name] = judged(facts, written(begin, prompts))
    alone = [asked_with([passage(one, seed)], text) for one, text in zip(facts, questions, strict=True)]
    found["the right one alone"] = judged(facts, written(begin, alone))
    return found


# --- the world changes: a sentence of the memory is exchanged, and nothing is trained


@experiment(seeds=DRAWS, cpus=ONE)
def edited(seed):
    """What the reader says with MiniLM's first passage before and after the facts asked about were exchanged."""
    facts, known = drawn("test", ASKED["five passages"], seed), memory(seed)
    after = known.changed({place_of(one): passage(one, seed, one.false) for one in facts})
    found = {}
    for name, some in (("before", known), ("after", after)):
        questions = [question(one, draw=seed) for one in facts]
        firsts = [some.texts[first_of(SEARCHES["MiniLM"](some, one))[0]] for one in questions]
        prompts = [asked_with([text], one) for text, one in zip(firsts, questions, strict=True)]
        found[name] = judged(facts, written(opening(True), prompts))
    return found
