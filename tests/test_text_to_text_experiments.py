"""Lesson 13's experiments: what each setting changes, what is asked, and that what is judged is what it says."""

import random

import pytest
import torch

from course_lib.data import grammar
from course_lib.text.tokenizers import WORD_SPECIALS, WordTokenizer
from course_lib.workshop.experiments.text_to_text import bytes as by_bytes
from course_lib.workshop.experiments.text_to_text import core as pairs
from course_lib.workshop.experiments.text_to_text import languages, tasks
from course_lib.workshop.recipes import text_to_text as recipe

# --- few pairs


def test_each_number_of_pairs_begins_with_the_model_that_has_read(monkeypatch):
    """few_pairs: one reading, a copy for each number; no_reading, as_many_seconds: new models, pairs and steps told."""
    read, seen = recipe.model(7), []
    monkeypatch.setattr(pairs, "pretrained", lambda seed, text, noise: read)
    monkeypatch.setattr(pairs, "judged", lambda one: {"BLEU": 1.0, "exact": 0.0})

    def spoil(one, known, seed, steps=pairs.TUNING):
        seen.append((len(known), steps, one.source.tokens.weight.equal(read.source.tokens.weight)))
        with torch.no_grad():
            one.source.tokens.weight.zero_()

    monkeypatch.setattr(pairs, "tuned", spoil)
    found = pairs.few_pairs(0, text="sentences", noise="infilling")
    assert seen == [(n, pairs.TUNING, True) for n in pairs.NUMBERS]
    assert set(found) == {"seconds", "50", "200", "1000"} and set(found["seconds"]) == {"reading", "50", "200", "1000"}
    seen.clear()
    pairs.no_reading(0)
    pairs.as_many_seconds(0, n_pairs=200)
    assert seen == [*((n, pairs.TUNING, False) for n in pairs.NUMBERS), (200, pairs.AS_LONG, False)]


@pytest.mark.slow
def test_who_copies_reads_the_same_texts_and_nothing_is_hidden():
    spoiled, words = recipe.spoiled(recipe.texts("shuffled", 3), 3), recipe.tokenizer()
    rows = pairs.copies("shuffled", 3)
    assert len(rows) == len(spoiled) and rows != pairs.copies("sentences", 3)
    assert all(source == [source[0], *target] for source, target in rows)
    assert [(source[0], target) for source, target in rows] == [(source[0], target) for source, target in spoiled]
    assert {words.decode([source[0]])[0] for source, _ in rows} == {recipe.TO_ENGLISH, recipe.TO_FRENCH}


def test_copying_is_tuned_anew_for_each_number_of_pairs(monkeypatch):
    read, seen = [], []
    monkeypatch.setattr(pairs, "taught", lambda one, rows, seed, steps: read.append((one, len(rows), steps)))
    monkeypatch.setattr(pairs, "judged", lambda one: {"BLEU": 1.0, "exact": 0.0})
    monkeypatch.setattr(pairs, "tuned", lambda one, known, seed: seen.append((one, len(known))))
    assert set(pairs.copied(0, text="sentences")) == {"50", "200", "1000"}
    [(one, rows, steps)] = read
    assert rows == len(pairs.copies("sentences", 0)) and steps == pairs.STEPS
    assert [n for _, n in seen] == list(pairs.NUMBERS) and one not in [other for other, _ in seen]


@pytest.mark.slow
def test_who_reads_for_longer_reads_each_text_spoiled_anew(monkeypatch):
    seen, every = [], recipe.texts
    for module in (pairs, recipe):  # some sentences stand for all
        monkeypatch.setattr(module, "texts", lambda *how: every(*how)[:200])
    monkeypatch.setattr(pairs, "LONG", 2)
    monkeypatch.setattr(pairs, "taught", lambda one, rows, seed, steps: seen.append((rows, steps)))
    monkeypatch.setattr(pairs, "judged", lambda one: {"BLEU": 1.0, "exact": 0.0})
    monkeypatch.setattr(pairs, "tuned", lambda one, known, seed: None)
    for reads in pairs.LONGER:
        assert set(pairs.read_for_longer(3, reads=reads)) == {"50", "200", "1000"}
    once = len(recipe.spoiled(recipe.texts(), 3))
    assert [(len(rows), steps) for rows, steps in seen] == [(2 * once, 2 * pairs.STEPS)] * 4
    filled, copied, spans, shuffled = (rows for rows, _ in seen)
    assert copied == 2 * pairs.copies("sentences", 3)
    for rows in (filled, spans, shuffled):
        assert rows[:once] != rows[once:]
    assert filled[:once] == recipe.spoiled(recipe.texts(), 3)
    assert sorted(target for _, target in filled) != sorted(target for _, target in shuffled)
    assert all(set(target) & set(recipe.tokenizer().encode(recipe.SENTINELS).tolist()) for _, target in spans)


@pytest.mark.slow
def test_worth_is_that_of_what_was_said():
    wanted = recipe.tests()[:20]
    said = [pair.target for pair in wanted]
    assert pairs.worth(said, wanted)["BLEU"] == pytest.approx(100)
    wrong = [[*text[:-1], "!"] for text in said[:10]] + said[10:]
    found = pairs.worth(wrong, wanted)
    assert found["exact"] == 0.5 and found["BLEU"] < 100


@pytest.mark.slow
def test_the_nearest_of_more_pairs_is_worth_more():
    found = pairs.nearest_pair(0)
    assert 5 < found["50"]["BLEU"] < found["200"]["BLEU"] < found["1000"]["BLEU"] < 30


# --- languages


def test_directions_are_what_their_names_say():
    assert len(languages.ALL) == 90 and len(languages.ENGLISH) == 18 and len(languages.FAR) == 72
    assert set(languages.ENGLISH) | set(languages.FAR) == set(languages.ALL)
    assert len(set(languages.HELD_OUT)) == 9 and set(languages.HELD_OUT) < set(languages.FAR)
    for side in (0, 1):  # each language but English is left out once as what is read, once as what is written
        assert sorted(pair[side] for pair in languages.HELD_OUT) == sorted(languages.LANGUAGES[1:])
    assert set(languages.SETTINGS["all but nine"]).isdisjoint(languages.HELD_OUT)


def test_all_languages_say_the_same_dates():
    """written, rows: the year is the same in every language; the token names what is written, and can be left out."""
    texts = languages.written("test")
    years = [{word for word in text if len(word) == 4 and word.isdigit()} for text in texts["en"]]
    for one in languages.LANGUAGES:
        assert all(year <= set(text) for year, text in zip(years, texts[one], strict=True))
        assert max(map(len, texts[one])) < languages.LONGEST
    told, bare = (languages.rows([("de", "fr")], "test", told, 3) for told in (True, False))
    assert told == [(["<2fr>", *source], target) for source, target in bare]
    assert bare == list(zip(texts["de"][:3], texts["fr"][:3], strict=True))
    apart = languages.rows([("de", "fr"), ("fr", "de")], "test", False, 150, apart=True)
    assert apart[150:200] == [(texts["fr"][k], texts["de"][k]) for k in range(150, 200)]
    assert apart[200] == (texts["fr"][0], texts["de"][0])  # round again behind the last


@pytest.mark.slow
def test_shares_tell_right_from_the_wrong_language():
    said = [["jeudi", "5", "avril", "1951"], ["Thursday", ",", "April", "5", ",", "1951"], ["5", "Nisan"], []]
    right = [("fr", said[0]), ("fr", said[0]), ("fr", said[0]), ("fr", said[0])]
    assert languages.shares(said, right) == (0.25, 0.25, 0.25)
    assert languages.shares([said[1]], [("en", said[1])]) == (1.0, 1.0, 0.0)


def test_a_date_goes_by_english_in_two_steps(monkeypatch):
    """by_english: the first step asks for English, the second reads what the first wrote."""

    class Echo:
        asked = []

        def translate(self, sentences, max_len):
            self.asked.append(sentences)
            return [["heard", sentence[0]] for sentence in sentences]

    languages.by_english(Echo(), [("de", "fr")], 2)
    first, second = Echo.asked
    assert [sentence[0] for sentence in first] == ["<2en>"] * 2
    assert second == [["<2fr>", "heard", "<2en>"]] * 2


# --- tasks


@pytest.mark.slow
def test_a_task_is_told_by_its_prefix():
    """asked: one sentence as four tasks; the base forms are its content; the answers of `in order` are two."""
    for split in tasks.SIZES:
        for task in tasks.TASKS:
            rows = tasks.asked(task, split)
            assert len(rows) == tasks.SIZES[split]
            assert all(row.source[: len(tasks.PREFIXES[task])] == tasks.PREFIXES[task] for row in rows)
    here, there = (tasks.asked(task, "test")[0] for task in ("to French", "to English"))
    assert here.source[4:] == there.target and there.source[4:] == here.target
    assert {tuple(row.target) for row in tasks.asked("in order", "test")} == set(map(tuple, tasks.ANSWERS))
    train = {" ".join(row.source) for row in tasks.asked("to French", "train")}
    assert train.isdisjoint(" ".join(row.source) for row in tasks.asked("to French", "test"))


def test_a_sentence_out_of_order_has_its_words_and_is_another():
    draw, french = random.Random(0), [one.pair.target for one in tasks.sentences("test")]
    told = [tasks.in_order(text, draw) for text in french]
    for text, one in zip(french, told, strict=True):
        assert sorted(text) == sorted(one.source) and one.source[-1] == text[-1]
        assert (text == one.source) == (one.target == ["acceptable"])
    assert 0.35 < sum(one.target == ["acceptable"] for one in told) / len(told) < 0.65


def test_few_pairs_come_as_often_as_many(monkeypatch):
    """learned: each task has as many rows, and of the task of few pairs only so many are different."""
    seen = {}
    words = WordTokenizer([text for task in tasks.TASKS for row in tasks.asked(task, "test") for text in row])
    monkeypatch.setattr(tasks, "tokenizer", lambda: words)
    monkeypatch.setattr(tasks, "asked", lambda task, split, asked=tasks.asked: asked(task, "test") * 2)
    monkeypatch.setattr(tasks, "batches", lambda rows, *_: seen.setdefault("rows", rows))
    monkeypatch.setattr(tasks, "fit", lambda *_, **__: None)
    one = tasks.learned(0, ["to French", "base forms"], 8, pairs=400, few=40)
    french = one.reads.encode(tasks.PREFIXES["to French"]).tolist()
    few = [(tuple(source), tuple(target)) for source, target in seen["rows"] if source[:4] == french]
    assert len(seen["rows"]) == 800 and len(few) == 400 and len(set(few)) == 40


def test_a_prefix_decides_what_is_answered():
    """asked_otherwise: by somebody who reads the prefix, and translates where there is none."""

    class Reader:
        def translate(self, sources, max_len):
            return [tasks.ANSWERS[0] if source[0] == "in" else ["the"] for source in sources]

    found = tasks.asked_otherwise(Reader())
    assert found["to English"] == found["no prefix"] == {"to English": 1.0, "in order": 0.0}
    assert found["in order"] == {"to English": 0.0, "in order": 1.0}


def test_a_prefix_ends_with_a_mark_that_no_sentence_has():
    english, french = grammar.vocabulary()
    assert {prefix[-1] for prefix in tasks.PREFIXES.values()} == {":"} and ":" not in english | french
    assert len(set(map(tuple, tasks.PREFIXES.values()))) == 4
    assert not {word for answer in tasks.ANSWERS for word in answer} & (english | french)


# --- bytes


@pytest.mark.parametrize("n", [0, 1, 3])
def test_a_mistake_is_one_change_of_a_letter(n):
    """misspelt: n edits at most, no digit touched; a mistake may put right the one before it."""
    draw, (texts, _) = random.Random(0), by_bytes.told("test")
    for text in texts[:100]:
        wrong = by_bytes.misspelt(text, n, draw)
        assert [c for c in wrong if not c.isalpha()] == [c for c in text if not c.isalpha()]
        assert abs(len(wrong) - len(text)) <= n
    changed = sum(by_bytes.misspelt(text, n, draw) != text for text in texts) / len(texts)
    assert changed == 0 if n == 0 else changed > 0.9


@pytest.mark.parametrize("name", by_bytes.READERS)
def test_readers_share_the_first_four_tokens(name):
    texts, _ = by_bytes.told("train")
    reads = by_bytes.reader(name)
    assert reads.vocab[:4] == list(WORD_SPECIALS)
    ids = reads.encode(texts[0]).tolist()
    if name == "bytes":
        assert ids == [reads.encode(c).item() for c in texts[0]] and len(reads) == 260
    elif name == "pieces":
        assert reads.decode(ids) == texts[0] and len(ids) < len(texts[0]) and len(reads) == by_bytes.PIECES
        assert sum(len(reads.encode(text)) for text in texts) < 0.6 * sum(map(len, texts))
    else:
        assert isinstance(reads, WordTokenizer) and reads.unknown not in ids
    strange = reads.encode("Thxrsday").tolist()
    assert (WordTokenizer.unknown in strange) == (name == "words")


@pytest.mark.slow
@pytest.mark.parametrize("name", by_bytes.READERS)
def test_a_few_steps_of_each_reader(monkeypatch, name):
    monkeypatch.setattr(by_bytes, "STEPS", 2)
    monkeypatch.setattr(by_bytes, "told", lambda split, told=by_bytes.told: tuple(side[:20] for side in told(split)))
    model = by_bytes.learned(0, name, noisy=True)
    assert 0 <= by_bytes.right(model, name, 2, 0) <= 1
    assert torch.isfinite(model(torch.tensor([[5, 6]]), None, torch.tensor([[1]]))[0]).all()
