"""Draws sentences from the grammar: derive by the rules, inflect the words, join them, read off the alignment."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import NamedTuple

from course_lib.data import Pair
from course_lib.data.grammar import english as in_english
from course_lib.data.grammar import french as in_french
from course_lib.data.grammar.features import CONTENT, KINDS, GrammarError
from course_lib.data.grammar.plan import Args, Choices, Frame, Plan, Prepared, Reading
from course_lib.data.grammar.rules import Leaf
from course_lib.data.grammar.words import Word, inflected

TRIES = 4  # of a rule or a word in one place, before the place is given up
LINKS = 10  # numbers kept for the links of one rule
INSIDE = 8  # and for those inside one expression
ONCE = CONTENT | {"name"}  # no such word comes twice in a sentence

# A word where it stands: its leaf, what decides its form, itself, the rule's frame, a first number for its links.
# The frame is read at the end only, when all its features are settled.
Placed = tuple[Leaf, Args, Word | None, Frame, int]
Sides = tuple[list[Placed], list[Placed], int]  # both languages, and the number of English tokens
Token = tuple[str, tuple[int, ...]]  # tokens of the two languages are aligned where they share a link


class Stuck(Exception):
    """Nothing fits here: a choice before must be made anew."""


class Sentence(NamedTuple):
    """A drawn pair, and its content: the base forms of its English nouns, adjectives and verbs, in order."""

    pair: Pair
    content: tuple[str, ...]


class Grammar:
    """The grammar in a folder, to draw sentences from.

    Raises GrammarError, with line and reason, for a folder whose files cannot be, FileNotFoundError without them.
    """

    def __init__(self, folder: Path):
        self.prepared = Prepared(folder)
        self._rules: dict[tuple, Choices] = {}
        self._words: dict[tuple, Choices] = {}
        self._can: dict[tuple, bool] = {}

    def sentence(self, rng: random.Random, max_words: int) -> Sentence:
        """Draw one sentence of at most `max_words` English tokens: first about how many, then the sentence.

        Raises ValueError where none is so short.
        """
        start = self.prepared.declared.start
        least = self.prepared.least[start]
        if max_words < least:
            raise ValueError(f"max_words is {max_words}, but no sentence has fewer than {least} tokens: ask for more.")
        while True:
            self._used: list[Word] = []
            self._nodes = 0
            try:
                english, french, size = self._expand(
                    start, [], least + int(rng.random() * (max_words - least + 1)), rng
                )
            except Stuck:
                continue
            if size <= max_words:
                return self._finish(english, french)

    def _expand(self, phrase: str, frame: Frame, budget: int, rng: random.Random) -> Sides:
        """Both sides of a phrase, of about `budget` English tokens at most; settles `frame`, or raises Stuck."""
        key = (phrase, min(max(budget, 0), self.prepared.longest[phrase]), *frame)
        choices = self._rules.get(key)
        if choices is None:
            fitting = [plan for plan in self.prepared.plans[phrase] if self._fits(plan, frame)]
            enough = max(budget, min((max(plan.length, plan.room) for plan in fitting), default=0))
            choices = Choices.of([(plan, plan.weight) for plan in fitting if max(plan.length, plan.room) <= enough])
            self._rules[key] = choices
        if choices.options:
            mark = len(self._used)
            for _ in range(TRIES):
                try:
                    return self._apply(choices.pick(rng.random()), frame, budget, rng)
                except Stuck:
                    del self._used[mark:]
        raise Stuck

    def _fits(self, plan: Plan, frame: Sequence[int]) -> bool:
        """Whether a rule, and each of its items looked at alone, can agree with a frame."""
        own = [*frame, *plan.others]
        for place, bits in plan.restrict:
            own[place] &= bits
        return all(own) and all(
            self._possible(step.symbol, [own[place] if place >= 0 else bits for place, bits in step.args])
            for step in plan.steps
        )

    def _possible(self, symbol: str, frame: Frame) -> bool:
        if symbol in self.prepared.words:
            return bool(self._fitting(symbol, frame).options)
        key = (symbol, *frame)
        if key not in self._can:
            self._can[key] = True  # while it is asked: a phrase inside itself asks for nothing new
            self._can[key] = any(self._fits(plan, frame) for plan in self.prepared.plans[symbol])
        return self._can[key]

    def _fitting(self, category: str, frame: Frame) -> Choices:
        """The words of a category that agree with a frame."""
        telling = self.prepared.telling[category]
        key = (category, *[frame[place] for place in telling])
        choices = self._words.get(key)
        if choices is None:
            readings = self.prepared.readings[category]
            fitting = [r for r in readings if all([r[1][place] & frame[place] for place in telling])]
            choices = self._words[key] = Choices.of([(reading, reading[0].weight) for reading in fitting])
        return choices

    def _word(self, category: str, frame: Frame, rng: random.Random) -> Reading:
        """A word that agrees with a frame, and what it settles; raises Stuck without a new one."""
        choices = self._fitting(category, frame)
        for _ in range(TRIES if choices.options else 0):
            word, settled = choices.pick(rng.random())
            if word.kind not in ONCE:
                return word, settled
            if word not in self._used:
                self._used.append(word)
                return word, settled
        raise Stuck

    def _apply(self, plan: Plan, frame: Frame, budget: int, rng: random.Random) -> Sides:
        """Both sides of a rule; settles `frame`, or raises Stuck."""
        own = [*frame, *plan.others]
        for place, bits in plan.restrict:
            own[place] &= bits
        spare = budget - plan.length
        node = self._nodes
        self._nodes += LINKS + len(plan.steps)
        made: list = [None] * len(plan.steps)
        for number, symbol, is_word, least, times, args in plan.steps:
            inner = [own[place] if place >= 0 else bits for place, bits in args]
            if is_word:
                made[number], inner = self._word(symbol, inner, rng)
                spare -= (len(made[number].english) - least) * times
            else:
                made[number] = self._expand(symbol, inner, spare + least, rng)
                spare -= made[number][2] - least
            for (place, _), bits in zip(args, inner, strict=True):
                if place >= 0:
                    own[place] &= bits
        frame[:] = own[: len(frame)]
        sides: Sides = ([], [], budget - spare)
        for number, leaves in enumerate(plan.sides):
            for leaf, args in leaves:
                part = made[leaf.item] if leaf.item >= 0 else None
                if type(part) is tuple:
                    sides[number].extend(part[number])
                else:
                    sides[number].append((leaf, args, part, own, node))
        return sides

    def _finish(self, english: list[Placed], french: list[Placed]) -> Sentence:
        """The words inflected, joined and aligned."""
        left = in_english.join([token for placed in english for token in self._tokens(placed, 0)])
        right = in_french.join([token for placed in french for token in self._tokens(placed, 1)])
        places: dict[int, list[int]] = {}
        for i, (_, links) in enumerate(left):
            for link in links:
                places.setdefault(link, []).append(i)
        aligned = {(i, j) for j, (_, links) in enumerate(right) for link in links for i in places.get(link, ())}
        content = tuple([word.lemma for _, _, word, _, _ in english if word and word.kind in CONTENT])
        return Sentence(Pair([text for text, _ in left], [text for text, _ in right], sorted(aligned)), content)

    def _tokens(self, placed: Placed, side: int) -> list[Token]:
        """The tokens of one placed word on a side (0 English, 1 French), each with its links."""
        leaf, args, word, frame, node = placed
        links = tuple([(node + link) * INSIDE for link in leaf.links])
        if word is None:
            return [(leaf.text, links)]
        bits = [frame[place] if place >= 0 else fixed for place, fixed in args]
        key = (side, leaf.form, *bits)
        texts = word.known.get(key)
        if texts is None:
            texts = word.known[key] = self._inflected(word, side, leaf.form, bits)
        own = (node + LINKS + leaf.item) * INSIDE
        inside = word.links[side]
        if not any(inside):
            return [(text, (own, *links)) for text in texts]
        return [(text, (*links, *(own + n for n in numbers))) for text, numbers in zip(texts, inside, strict=True)]

    def _inflected(self, word: Word, side: int, form: str, bits: Frame) -> list[str]:
        values = {}
        for feature, bit in zip(KINDS[word.kind][form], bits, strict=True):
            names = self.prepared.values[feature]
            if bit not in names:
                reason = f"nothing settles the {feature} of {word.lemma or word.french[0]!r} ({word.category})"
                raise GrammarError(f"rules.txt: {reason}: let it agree with something, or say it in brackets.")
            values[feature] = names[bit]
        return inflected(word, side, form, values, self.prepared.verbs)

    def vocabulary(self) -> tuple[set[str], set[str]]:
        """Every token that the rules can write in English and in French, whether or not a sentence brings it."""
        found: tuple[set[str], set[str]] = (set(), set())
        for phrase, plans in self.prepared.plans.items():
            for plan in plans:
                own = [self.prepared.everything(f) for f in self.prepared.declared.symbols[phrase]] + plan.others
                for place, bits in plan.restrict:
                    own[place] &= bits
                for side, leaves in enumerate(plan.sides):
                    for leaf, _ in leaves:
                        found[side].update(self._written(plan, leaf, own, side))
        return in_english.written(found[0]), in_french.written(found[1])

    def _written(self, plan: Plan, leaf: Leaf, own: Frame, side: int) -> Iterator[str]:
        """What a leaf can write where its rule's frame is `own`."""
        if leaf.item < 0:
            yield leaf.text
            return
        step = next(step for step in plan.steps if step.number == leaf.item)
        for word, settled in self.prepared.readings.get(step.symbol, ()):
            met = [s & (own[p] if p >= 0 else fixed) for s, (p, fixed) in zip(settled, step.args, strict=True)]
            if all(met):
                needed = KINDS[word.kind][leaf.form]
                names = self.prepared.declared.symbols[step.symbol]
                bits = [(self.prepared.features[f].values(), met[names.index(f)]) for f in needed]
                for values in product(*([v for v in every if v & left] for every, left in bits)):
                    yield from self._inflected(word, side, leaf.form, list(values))
