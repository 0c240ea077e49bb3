"""Facts about territories: CLDR's numbers, two vocabularies without a common word, splits, falsified sentences."""

import re
import sys
from collections import Counter
from itertools import product

import datasets
import pytest

from course_lib.data import SPLITS, read_card, territories
from course_lib.data.territories import WORDS, facts, passage, question, say
from course_lib.data.territory_wordings import KINDS, WORDINGS
from course_lib.retrieval.bm25 import STOP_WORDS, terms

ALL = {split: facts(split) for split in SPLITS}
EVERY = [one for part in ALL.values() for one in part]


def fact(place, kind):
    return next(one for one in EVERY if (one.place, one.kind) == (place, kind))


def said(texts):
    """The words that a vocabulary's texts are made of, without what is filled in and without stop words."""
    return [set(terms(re.sub(r"\{\w+\}", "", text), STOP_WORDS)) for text in texts]


def test_counts_and_checksum_are_pinned():
    assert {split: len(part) for split, part in ALL.items()} == {"train": 426, "validation": 198, "test": 390}
    assert territories.checksum() == "f81aa23ba9dc7c9354f55933b3f7e3e331d301ebbe3368d58cb7608d6e1320fc"
    assert len({(one.place, one.kind) for one in EVERY}) == len(EVERY)


def test_the_facts_are_those_of_cldr():
    """Against what babel's own functions say of a place: what is tender now, and how many speak what."""
    from babel import Locale
    from babel.languages import get_territory_language_info
    from babel.numbers import get_currency_name, get_territory_currencies

    codes = {name: code for code, name in Locale("en").territories.items() if len(code) == 2}
    asked = Counter()
    for one in EVERY:
        if (code := codes.get(one.place)) is None:
            continue  # its name was shortened
        if one.kind in ("money", "since", "before"):
            rows = get_territory_currencies(code, include_details=True)  # tender, now
            names = {get_currency_name(row["currency"], 1, locale="en").split(" (")[0] for row in rows}
            assert one.kind != "money" or names == {one.answer}
            assert one.kind != "since" or one.answer == str(rows[0]["from"].year)
            assert one.kind != "before" or one.answer not in names
        else:
            info = get_territory_language_info(code).items()
            first, second = sorted((row["population_percent"] for _, row in info), reverse=True)[:2] + (
                [0] if len(info) < 2 else []
            )
            assert one.kind != "share" or one.answer == f"{first:.0f}"
            of = {
                Locale("en").languages.get(key.split("_")[0])
                for key, row in info
                if row["population_percent"] == second
            }
            assert one.kind != "second" or one.answer in of
        asked[one.kind] += 1
    assert min(asked[kind] for kind in KINDS) > 80
    assert fact("Croatia", "before").answer == "Croatian kuna" and fact("Croatia", "since").answer == "2023"


def test_a_false_answer_is_right_of_another_place():
    answers = {(one.kind, one.answer) for one in EVERY}
    for one in EVERY:
        assert one.false != one.answer and (one.kind, one.false) in answers
        assert not say(one.false, one.answer) or not say(one.answer, one.false)


def test_sentence_and_question_share_words_as_named():
    """WORDINGS: within a vocabulary each question has a word with each sentence in common, across none, by its stem."""
    for kind, both in WORDINGS.items():
        for here, there in product(range(2), repeat=2):
            for one, other in product(said(both[here].passages), said(both[there].questions)):
                if here == there:
                    assert one & other, (kind, one, other)
                else:
                    assert not {word[:4] for word in one} & {word[:4] for word in other}, (kind, one, other)
        assert all("{answer}" in text and "{place}" in text for part in both for text in part.passages)
        assert all("{answer}" not in text and "{language}" not in text for part in both for text in part.questions)


def test_wordings_are_drawn_apart_and_anew():
    """passage, question: every pair of wordings comes up; a draw changes them."""
    some = [one for one in EVERY if one.kind == "money"]
    forms = Counter((passage(one, d).replace(one.place, ""), question(one, draw=d).replace(one.place, ""))
                    for one in some for d in range(4) if one.answer == "euro")  # fmt: skip
    assert len({p for p, _ in forms}) >= 6 and len({q for _, q in forms}) >= 6 and len(forms) >= 30
    assert sum(passage(one, 0) != passage(one, 1) for one in some) > len(some) / 2
    shared = [
        question(one, "any words") in (question(one, "same words"), question(one, "other words")) for one in EVERY
    ]
    assert all(shared) and len({question(one, words) for one in EVERY for words in WORDS}) > 2 * len(EVERY) - 200
    with pytest.raises(ValueError, match="words must be one of 'same words', 'other words', 'any words'; got 'same'"):
        question(some[0], "same")


def test_a_falsified_sentence_differs_in_its_answer_alone():
    for one in EVERY:
        right, wrong = passage(one, 3), passage(one, 3, one.false)
        assert right.casefold().replace(one.answer.casefold(), one.false.casefold(), 1) == wrong.casefold() or (
            one.answer.casefold() in one.place.casefold() or one.answer in one.language
        ), (right, wrong)
        assert say(one.answer, right) and say(one.false, wrong)


def test_no_place_and_no_relative_is_on_two_sides():
    sides = {split: {one.place for one in part} for split, part in ALL.items()}
    assert not sides["train"] & sides["test"] and not sides["validation"] & (sides["train"] | sides["test"])
    for family in (["Niger", "Nigeria"], ["Guinea", "Guinea-Bissau", "Equatorial Guinea", "Papua New Guinea"],
                   ["Dominica", "Dominican Republic"], ["Congo - Brazzaville", "Congo - Kinshasa"]):  # fmt: skip
        assert sum(bool(places & set(family)) for places in sides.values()) == 1, family
    with pytest.raises(ValueError, match="'train', 'validation' or 'test', not 'all'"):
        facts("all")
    facts("test").clear()
    assert len(facts("test")) == 390


def test_an_answer_is_judged_by_its_words():
    assert say("Bulgarian lev", "It is the lev, the Bulgarian one.") and not say("Bulgarian lev", "the lev")
    assert say("99", "about 99%") and not say("99", "1999") and not say("euro", "") and say("euro", "The Euro.")


def test_load_gives_the_facts():
    loaded = territories.load()
    assert isinstance(loaded, datasets.DatasetDict) and list(loaded) == list(SPLITS)
    one, row = ALL["test"][0], loaded["test"][0]
    assert (row["place"], row["answer"], row["passage"], row["question"]) == (
        one.place,
        one.answer,
        passage(one),
        question(one),
    )


def test_without_babel_it_is_said_in_a_sentence(monkeypatch):
    for cached in (territories._found, territories._splits):
        cached.cache_clear()
    monkeypatch.setitem(sys.modules, "babel", None)
    with pytest.raises(ModuleNotFoundError, match="needs babel, which is missing: pip install babel==2.18.0"):
        facts("test")


def test_the_card_states_what_the_facts_are():
    text = " ".join(read_card("territories").split())
    assert f"{len(EVERY):,} facts about {len({one.place for one in EVERY})} " in text
    assert territories.checksum() in text
    euro = Counter(one.answer for one in EVERY if one.kind == "money").most_common(1)[0]
    assert euro[0] == "euro" and f"euro: {euro[1] / sum(one.kind == 'money' for one in EVERY):.0%} |" in text
    assert fact("Bulgaria", "money").answer == "Bulgarian lev"  # as the card says of it
