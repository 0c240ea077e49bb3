"""The grammar made ready for drawing: features by number instead of name, words before phrases, lengths known."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

from course_lib.data.grammar.features import KINDS
from course_lib.data.grammar.rules import Leaf, Rule, read_rules
from course_lib.data.grammar.words import Word, read_conjugations, read_words

ENDLESS = 10**9

Frame = list[int]  # the values, as bits, that each feature may still have
Args = tuple[tuple[int, int], ...]  # where features come from: a place in the rule's frame, or -1 and the bits
Reading = tuple[Word, Frame]  # a word and what it settles


class Choices(NamedTuple):
    """What can be drawn, and the weights, added up."""

    options: list
    totals: list[int]

    @classmethod
    def of(cls, weighted: list[tuple]) -> Choices:
        """From pairs of an option and its weight."""
        return cls([option for option, _ in weighted], list(accumulate(weight for _, weight in weighted)))

    def pick(self, fraction: float):
        """The option at a fraction (0 to 1) of the whole weight."""
        return self.options[bisect_right(self.totals, fraction * self.totals[-1])]


class Step(NamedTuple):
    """An item of a rule: its number and symbol, whether it is a word, its fewest tokens, its times in English."""

    number: int
    symbol: str
    is_word: bool
    least: int
    times: int
    args: Args


class Plan(NamedTuple):
    """A rule made ready. Its frame holds the features of its phrase, then `others`, all still open.

    The steps take words first, because a noun settles the gender that the phrases beside it must have.
    """

    weight: int
    length: int  # the fewest English tokens
    room: int  # drawn only where so many may come
    restrict: Args
    others: Frame
    steps: list[Step]
    sides: list[list[tuple[Leaf, Args]]]  # English, French; with the features that decide the form of a word


class Prepared:
    """The grammar in a folder: what its files hold, and a plan for every rule.

    Raises GrammarError, with line and reason, for a folder whose files cannot be, FileNotFoundError without them.
    """

    def __init__(self, folder: Path):
        self.declared, self.rules = read_rules(folder / "rules.txt")
        self.verbs = read_conjugations(folder / "conjugation.txt")
        self.words = read_words(folder / "words.txt", self.declared, self.verbs)
        self.features = self.declared.features
        self.values = {name: {bit: value for value, bit in bits.items()} for name, bits in self.features.items()}
        self.least = self._shortest()
        self.plans = {phrase: [self._plan(rule) for rule in rules] for phrase, rules in self.rules.items()}
        self.longest = {
            phrase: max(max(plan.length, plan.room) for plan in plans) for phrase, plans in self.plans.items()
        }
        self.readings = {category: self._read(category) for category in self.words}
        self.telling = {category: self._tells(category) for category in self.words}
        for rule in (rule for rules in self.rules.values() for rule in rules):
            self._check_settled(rule)

    def _shortest(self) -> dict[str, int]:
        """The fewest English tokens of each phrase and each category; GrammarError for a phrase without an end."""
        least = {category: min(len(word.english) for word in words) for category, words in self.words.items()}
        least |= dict.fromkeys(self.rules, ENDLESS)
        while True:
            shorter = {
                phrase: min(min(length(rule, least) for rule in rules), ENDLESS) for phrase, rules in self.rules.items()
            }
            if shorter.items() <= least.items():
                break
            least |= shorter
        for phrase in sorted(self.rules):
            if least[phrase] >= ENDLESS:
                self.rules[phrase][0].at.refuse(f"the phrase {phrase} never ends: give it a rule without itself")
        self._check_growth(least)
        return least

    def _check_growth(self, least: dict[str, int]) -> None:
        """Refuse a phrase that can turn into itself and nothing else: it could do so for ever."""
        alone: dict[str, dict[str, Rule]] = {phrase: {} for phrase in self.rules}  # what it can turn into, and by what
        for phrase, rules in self.rules.items():
            for rule in rules:
                for item in rule.items:
                    if item.symbol in alone and length(rule, least) == least[item.symbol]:
                        alone[phrase][item.symbol] = rule
        for phrase in sorted(alone):
            for first, rule in alone[phrase].items():
                reached, new = set(), {first}
                while new:
                    reached |= new
                    new = {other for one in new for other in alone[one]} - reached
                if phrase in reached:
                    rule.at.refuse(f"the phrase {phrase} can turn into itself without a word more, and so for ever")

    def _check_settled(self, rule: Rule) -> None:
        """Refuse a rule where a word inflects by a feature that neither it, nor the rule's phrase, nor another has."""
        own = self.declared.symbols[rule.phrase]
        for number, item in enumerate(rule.items):
            if item.symbol not in self.words:
                continue
            forms = KINDS[self.declared.kinds[item.symbol]]
            needed = {f for leaf in (*rule.english, *rule.french) if leaf.item == number for f in forms[leaf.form]}
            others = {outer for other in rule.items if other is not item for _, outer in other.shared}
            for feature, outer in item.shared:
                place = self.declared.symbols[item.symbol].index(feature)
                said = all(bits[place] in self.values[feature] for _, bits in self.readings[item.symbol])
                if feature in needed and outer not in own and outer not in others and not said:
                    rule.at.refuse(f"nothing settles the {feature} of {item.symbol}: say it in brackets")

    def _plan(self, rule: Rule) -> Plan:
        symbols = self.declared.symbols
        own = symbols[rule.phrase]
        names = [*own, *sorted({outer for item in rule.items for _, outer in item.shared} - set(own))]
        all_args: list[Args] = []
        for item in rule.items:
            shared, fixed = dict(item.shared), dict(item.fixed)
            place = {f: (names.index(shared[f]), 0) if f in shared else (-1, fixed[f]) for f in symbols[item.symbol]}
            all_args.append(tuple(place.values()))
        steps = []
        for number, item in enumerate(rule.items):
            times = [leaf.item for leaf in rule.english].count(number)
            is_word = item.symbol in self.words
            steps.append(Step(number, item.symbol, is_word, self.least[item.symbol], times, all_args[number]))
        sides = []
        for side in (rule.english, rule.french):
            sides.append([(leaf, self._deciding(rule, leaf, all_args)) for leaf in side])
        restrict = tuple((names.index(f), bits) for f, bits in rule.restrict)
        others = [self.everything(f) for f in names[len(own) :]]
        steps.sort(key=lambda step: not step.is_word)
        return Plan(rule.weight, length(rule, self.least), rule.room, restrict, others, steps, sides)

    def _deciding(self, rule: Rule, leaf: Leaf, all_args: list[Args]) -> Args:
        symbol = rule.items[leaf.item].symbol if leaf.item >= 0 else ""
        if symbol not in self.words:
            return ()
        needed = KINDS[self.declared.kinds[symbol]][leaf.form]
        return tuple(all_args[leaf.item][self.declared.symbols[symbol].index(feature)] for feature in needed)

    def _read(self, category: str) -> list[Reading]:
        """The words of a category with their features; a noun once for each number, so that its number is drawn."""
        names = self.declared.symbols[category]
        found = []
        for word in self.words[category]:
            bits = [word.features[f] for f in names]
            if word.kind == "noun":
                place = names.index("number")
                numbers = [bit for bit in self.features["number"].values() if bit & bits[place]]
                found += [(word, [*bits[:place], number, *bits[place + 1 :]]) for number in numbers]
            else:
                found.append((word, bits))
        return found

    def _tells(self, category: str) -> list[int]:
        """The places of the features that decide between the words of a category."""
        names = self.declared.symbols[category]
        return [
            n for n, f in enumerate(names) if any(own[n] != self.everything(f) for _, own in self.readings[category])
        ]

    def everything(self, feature: str) -> int:
        """All values of a feature."""
        return (1 << len(self.features[feature])) - 1


def length(rule: Rule, least: dict[str, int]) -> int:
    """The fewest English tokens of a rule, from those of its symbols."""
    return sum(1 if leaf.text else least[rule.items[leaf.item].symbol] for leaf in rule.english)
