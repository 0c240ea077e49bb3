"""Reads data/grammar/rules.txt: rules that build a phrase in two languages at once, so that every word is aligned."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from course_lib.data.grammar.features import CONTENT, KINDS, SIDES, At, Declared, GrammarError, read_lines

ITEM = re.compile(r'(?:"([^"\s]+)"|([A-Z][A-Za-z]*)(\d?)(?:\.([a-z]+))?(?:\[([^\]]*)\])?)((?:=[1-9])*)(?:\s+|$)')
LINE = re.compile(r"([A-Z][A-Za-z]*)(?:\[([^\]]*)\])?\s*(\d*)\s*(?:from (\d+))?\s*:([^|]*)\|([^|]*)$")
KEYWORDS = {"start", "feature", "group", "category", "phrase"}


class Item(NamedTuple):
    """A phrase or a word in a rule, and how its features hang together with those of the rule.

    `shared` holds (the item's feature, the rule's feature), `fixed` (the item's feature, bits of values).
    """

    symbol: str
    shared: tuple[tuple[str, str], ...]
    fixed: tuple[tuple[str, int], ...]


class Leaf(NamedTuple):
    """One place on a side of a rule: a word as it is, or an item (by number) in a form; and its alignment links."""

    text: str
    item: int
    form: str
    links: tuple[int, ...]


class Rule(NamedTuple):
    """One rule: how it restricts the features of its phrase, its weight, the room it asks for, its items and sides."""

    at: At
    phrase: str
    restrict: tuple[tuple[str, int], ...]
    weight: int
    room: int
    items: tuple[Item, ...]
    english: tuple[Leaf, ...]
    french: tuple[Leaf, ...]


def read_rules(path: Path) -> tuple[Declared, dict[str, list[Rule]]]:
    """What a file declares, and its rules by phrase.

    Raises GrammarError, with line and reason, for the first line that cannot be, FileNotFoundError without the file.
    """
    declared, pending = Declared(), []
    for at, line in read_lines(path):
        keyword, *words = line.split()
        if keyword in KEYWORDS:
            declared.declare(keyword, words, at)
        else:
            pending.append((at, line))  # a rule may use what is declared further down
    rules: dict[str, list[Rule]] = {phrase: [] for phrase in declared.phrases}
    for at, line in pending:
        rule = read_rule(declared, line, at)
        rules[rule.phrase].append(rule)
    if declared.start not in rules:
        raise GrammarError(f"{path.name}: a line `start Name` must name a phrase, not {declared.start!r}.")
    for phrase in sorted(rules):
        if not rules[phrase]:
            declared.lines[phrase].refuse(f"the phrase {phrase} has no rule")
    return declared, rules


def read_rule(declared: Declared, line: str, at: At) -> Rule:
    """One rule from its line; raises GrammarError for one that cannot be."""
    match = LINE.match(line) or at.refuse("a rule is written `Name[values] weight from room : English | French`")
    phrase, brackets, weight, room, english, french = match.groups()
    if phrase not in declared.phrases:
        at.refuse(f"undefined phrase {phrase!r}")
    own = declared.symbols[phrase]
    if weight == "0":
        at.refuse("the weight must be 1 or more")
    said = declared.each(brackets or "", own, phrase, at)
    restrict = tuple((f, bits if isinstance(bits, int) else at.refuse(f"{f} must have a value here"))
                     for f, bits in said.items())  # fmt: skip
    items: dict[str, Item] = {}
    sides = [_side(declared, text, items, forms, at) for text, forms in zip((english, french), SIDES, strict=True)]
    for number, (name, item) in enumerate(items.items()):
        times = [[leaf.item for leaf in side].count(number) for side in sides]
        if item.symbol in declared.phrases and times != [1, 1]:
            at.refuse(f"the phrase {name} must stand once on each side")
        if declared.kinds.get(item.symbol) in CONTENT | {"name"} and not all(times):
            at.refuse(f"{name} stands on one side only, but what it says must be said in both languages")
    linked = [{link for leaf in side for link in leaf.links} for side in sides]
    for link in sorted(linked[0] ^ linked[1]):
        side = "English" if link in linked[0] else "French"
        at.refuse(f"unbalanced alignment link ={link}: it stands on the {side} side only")
    return Rule(at, phrase, restrict, int(weight or 1), int(room or 0), tuple(items.values()), *sides)


def _side(declared: Declared, text: str, items: dict[str, Item], forms: set[str], at: At) -> tuple[Leaf, ...]:
    """The leaves of one side; what stands here for the first time is added to `items`."""
    leaves: list[Leaf] = []
    text = text.strip() or at.refuse("one side is empty: write / where nothing is said")
    while text and text != "/":
        match = ITEM.match(text) or at.refuse(
            f"cannot read {text!r}: it should begin with a word in quotation marks or a capitalised name, "
            "perhaps with .form, [values] and links =1 to =9"
        )
        text = text[match.end() :]
        word, symbol, digit, form, brackets, links = match.groups(default="")
        numbers = tuple(int(link) for link in links.split("=")[1:])
        if word:
            if word != word.lower():
                at.refuse(f"{word!r} must be in small letters")
            leaves.append(Leaf(word, -1, "", numbers))
            continue
        name = symbol + digit
        own = declared.symbols.get(symbol)
        if own is None:
            at.refuse(f"undefined symbol {symbol!r}")
        known = KINDS[declared.kinds[symbol]] if symbol in declared.kinds else {"": ()}
        if form not in known or form not in forms:
            fitting = [other for other in known if other in forms and other]
            at.refuse(f"{symbol} has no form {form!r} on this side" + (f", but {fitting}" if fitting else ""))
        for feature in known[form]:
            if feature not in own:
                at.refuse(f"{symbol}.{form} needs the feature {feature!r}, which {symbol} lacks")
        if name in items and brackets:
            at.refuse(f"the brackets of {name} belong where it first stands")
        if name not in items:
            said = declared.each(brackets, own, symbol, at)
            shared = tuple((f, str(said.get(f, f))) for f in own if not isinstance(said.get(f), int))
            items[name] = Item(symbol, shared, tuple((f, bits) for f, bits in said.items() if isinstance(bits, int)))
        leaves.append(Leaf("", list(items).index(name), form, numbers))
    return tuple(leaves)
