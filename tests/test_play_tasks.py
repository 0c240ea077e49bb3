"""Tasks on the plays: labels that are what they say, no leak between splits, baselines as the card states them."""

import re
from collections import Counter
from functools import cache

import datasets
import pytest

from course_lib.data import SPLITS, play_tasks, plays, read_card
from course_lib.data.play_baselines import baseline, f1
from course_lib.data.play_tasks import MOST, SPEAKERS, TAGS, TASKS, load, rows


@cache
def drawn():
    """The rows of each task and split, read when the first test asks for them."""
    return {task: {split: rows(task, split) for split in SPLITS} for task in TASKS}


def texts_of(row):
    """Every text in a row that was taken from the plays."""
    return [row.text] if hasattr(row, "text") else row[:2] if hasattr(row, "second") else [" ".join(row.words)]


@pytest.mark.slow
def test_the_checksum_is_pinned():
    assert play_tasks.checksum() == "6ed483d2ecaea00c3256baf2ae11e12d43352cd9a38afc5c0cb6d6e323aaf974"


def test_sizes_and_labels():
    for task, parts in drawn().items():
        for split, part in parts.items():
            assert 0 < len(part) <= MOST[split] and len({str(row) for row in part}) == len(part), (task, split)
    assert {len(drawn()[task]["train"]) for task in ("genre", "answer", "names")} == {MOST["train"]}
    labels = {
        task: {row.label for split in SPLITS for row in drawn()[task][split]} for task in ("speaker", "genre", "answer")
    }
    assert labels == {"speaker": set(SPEAKERS.values()), "genre": set(plays.GENRES), "answer": {"yes", "no"}}
    for split in SPLITS:
        share = sum(row.label == "yes" for row in drawn()["answer"][split]) / len(drawn()["answer"][split])
        assert 0.42 < share < 0.62


@pytest.mark.parametrize("task", TASKS)
def test_no_text_of_test_stands_in_train(task):
    seen = {split: {text for row in drawn()[task][split] for text in texts_of(row)} for split in SPLITS}
    for one, other in (("test", "train"), ("test", "validation"), ("validation", "train")):
        assert not {text for text in seen[one] & seen[other] if len(text) >= 80}
        assert len(seen[one] & seen[other]) <= 0.02 * len(seen[one])  # "I thank you, sir." is said twice


def test_test_is_plays_or_scenes_that_nothing_else_was_learnt_from():
    def spoken(split):
        return {" ".join(re.sub(r"\[.*?\]", " ", row.text).split()) for row in plays.rows(split) if row.speaker}

    by_split = {split: spoken(split) for split in SPLITS}
    for task in ("genre", "answer"):
        for split in SPLITS:
            assert all(text in by_split[split] for row in drawn()[task][split] for text in texts_of(row)), (task, split)
    assert all(row.text in by_split["validation"] for row in drawn()["speaker"]["test"])
    assert all(row.text in by_split["train"] for split in ("train", "validation") for row in drawn()["speaker"][split])


def test_speakers_say_what_is_theirs():
    said = {(row.play, row.speaker): set() for row in plays.rows("train")}
    for row in plays.rows("train"):
        said[row.play, row.speaker].add(" ".join(re.sub(r"\[.*?\]", " ", row.text).split()))
    for key, name in SPEAKERS.items():
        mine = [row.text for row in drawn()["speaker"]["train"] if row.label == name]
        assert len(mine) > 40 and set(mine) <= said[key]


def test_an_answer_is_the_next_speech_and_no_first_speech_has_two_labels():
    order = [" ".join(re.sub(r"\[.*?\]", " ", row.text).split()) for row in plays.rows("test") if row.speaker]
    following = {}
    for first, second in zip(order, order[1:], strict=False):
        following.setdefault(first, set()).add(second)
    right = [row.second in following[row.first] for row in drawn()["answer"]["test"] if row.label == "yes"]
    assert sum(right) / len(right) > 0.9  # between the two a speech of three words or fewer may stand
    wrong = [row.second in following[row.first] for row in drawn()["answer"]["test"] if row.label == "no"]
    assert sum(wrong) / len(wrong) < 0.02
    labels = {}
    for row in drawn()["answer"]["train"]:
        if len(row.first) > 60:
            labels.setdefault(row.first, set()).add(row.label)
    assert max(map(len, labels.values())) == 1


def test_tags_mark_names_and_places():
    tagged = [(word, tag) for row in drawn()["names"]["test"] for word, tag in zip(row.words, row.tags, strict=True)]
    assert {tag for _, tag in tagged} == set(TAGS)
    people = Counter(word for word, tag in tagged if tag == "person")
    places = Counter(word for word, tag in tagged if tag == "place")
    assert {"Macbeth", "Banquo", "Shylock", "Antonio"} <= set(people) and {"Rome", "Venice", "France"} <= set(places)
    assert all(word[0].isupper() for word in [*people, *places])
    assert not {"The", "King", "Lord", "Who", "Grace"} & (set(people) | set(places))
    assert 0.02 < sum(tag != "other" for _, tag in tagged) / len(tagged) < 0.2


def test_the_answer_is_what_the_speaker_says():
    rank = Counter()
    for split in SPLITS:
        for row in drawn()["says"][split]:
            name = row.question.removeprefix("What does ").removesuffix(" say?").split()
            before = row.words[row.first - len(name) - 1 : row.first]
            assert before == [*name, "."] and 0 < row.first <= row.last < len(row.words) <= 140
            assert not any(len(word) > 1 and word.isupper() for word in row.words[row.first : row.last + 1])
            rank[row.first == len(name) + 1, row.last == len(row.words) - 1] += 1
            after = row.words[row.last + 1 : row.last + 2]
            assert not after or after[0].isupper()
    assert len(rank) == 3 and min(rank.values()) > 0.3 * rank.total()  # the first, the last, the one between


def test_the_first_of_train_are_a_fair_draw():
    for task in ("speaker", "genre"):
        counts = Counter(row.label for row in drawn()[task]["train"][:200])
        assert len(counts) == len({row.label for row in drawn()[task]["train"]})


def test_f1_counts_what_is_no_other():
    """f1: by hand."""
    assert f1([["other", "person"]], [["other", "person"]]) == 1
    assert f1([["person", "person", "other"]], [["person", "place", "place"]]) == pytest.approx(2 / 5)
    assert f1([["other"]], [["other"]]) == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "task", [task if n == 0 else pytest.param(task, marks=pytest.mark.full) for n, task in enumerate(TASKS)]
)
def test_the_baselines_are_those_of_the_card(task):
    """baseline: measured again; the card states each to two places."""
    (row,) = re.findall(rf"^\| `{task}` \|.*\| (.*) \|$", read_card("play_tasks"), re.MULTILINE)
    said = {name: float(number) for name, number in re.findall(r"([a-z ]+) (0\.\d\d)", row)}
    found = baseline(task)
    assert {name.strip() for name in said} == set(found)
    assert all(abs(found[name.strip()] - number) < 0.015 for name, number in said.items())


def test_few_labels_and_all_of_them():
    assert set(baseline("speaker", 20)) == {"most frequent", "bag of words"}
    assert baseline("names", 50)["dictionary"] < baseline("names", 2_000)["dictionary"]
    assert 0.3 < baseline("says")["first speech"] < 0.37


def test_a_baseline_may_be_asked_of_the_first_test_examples_alone():
    labels = [row.label for row in rows("genre", "test")[:7]]
    most = baseline("genre", 40, 7)["most frequent"]
    assert most in {labels.count(label) / 7 for label in set(labels)} | {0.0}


def test_load_gives_the_rows():
    loaded = load("says")
    assert isinstance(loaded, datasets.DatasetDict) and list(loaded) == list(SPLITS)
    assert loaded["test"].column_names == ["question", "words", "first", "last"]
    assert [tuple(row.values()) for row in loaded["test"]] == [tuple(row) for row in drawn()["says"]["test"]]


def test_an_unknown_task_is_refused():
    with pytest.raises(ValueError, match="task must be one of 'speaker', .*; got 'mood'"):
        rows("mood", "test")


def test_the_card_states_every_task():
    text = read_card("play_tasks")
    for task, parts in drawn().items():
        sizes = " · ".join(f"{len(part):,}" for part in parts.values())
        assert re.search(rf"^\| `{task}` \| .* \| {sizes} \|", text, re.MULTILINE)
    assert "five" not in text.lower().split("tasks")[0]
