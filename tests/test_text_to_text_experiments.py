"""Lesson 13's experiments: what each setting changes, what is asked, and that what is judged is what it says."""

import random
from collections import Counter

import pytest
import torch
from smoke import experiments_of, smoke

from course_lib.data import Pair
from course_lib.data.plays import Row
from course_lib.text.tokenizers import WordTokenizer
from course_lib.workshop.experiments.text_to_text import bytes as by_bytes
from course_lib.workshop.experiments.text_to_text import core as pairs
from course_lib.workshop.experiments.text_to_text import laboratory, languages, tasks
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


# --- languages


def test_no_held_out_direction_is_taught():
    """HELD_OUT: each language but English is left out once as what is read, once as what is written."""
    for side in (0, 1):
        assert sorted(pair[side] for pair in languages.HELD_OUT) == sorted(languages.LANGUAGES[1:])
    assert {*languages.SETTINGS["all but nine"]} == {*languages.ALL} - {*languages.HELD_OUT}


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


# --- bytes


@pytest.mark.parametrize("n", [0, 3])
def test_a_mistake_is_one_change_of_a_letter(n):
    """misspelt: n edits at most, no digit touched; a mistake may put right the one before it."""
    draw, (texts, _) = random.Random(0), by_bytes.told("test")
    for text in texts[:100]:
        wrong = by_bytes.misspelt(text, n, draw)
        assert [c for c in wrong if not c.isalpha()] == [c for c in text if not c.isalpha()]
        assert abs(len(wrong) - len(text)) <= n
    changed = sum(by_bytes.misspelt(text, n, draw) != text for text in texts) / len(texts)
    assert changed == 0 if n == 0 else changed > 0.9


@pytest.mark.slow
@experiments_of("text_to_text_bytes")
def test_an_experiment_gives_its_numbers(monkeypatch, one):
    monkeypatch.setattr(by_bytes, "STEPS", 2)
    monkeypatch.setattr(by_bytes, "told", lambda split, told=by_bytes.told: tuple(side[:20] for side in told(split)))
    smoke(one)


# --- noises

ENGLISH = [f"the {animal} sleeps .".split() for animal in "dog cat fox hen cow ant owl".split()]
FRENCH = [f"le {animal} dort .".split() for animal in "chien chat renard".split()]


@pytest.fixture
def few_texts(monkeypatch):
    """Ten sentences in the place of those of the grammar, which take seconds to draw; and their words."""
    texts = [(recipe.TO_ENGLISH, text) for text in ENGLISH] + [(recipe.TO_FRENCH, text) for text in FRENCH]
    marks = [recipe.TO_ENGLISH, recipe.TO_FRENCH, *recipe.SENTINELS]
    words = WordTokenizer([marks, *ENGLISH, *FRENCH])
    monkeypatch.setattr(laboratory, "texts", lambda: texts)
    monkeypatch.setattr(laboratory, "tokenizer", lambda: words)
    return texts, words


def test_a_document_is_of_one_language(few_texts):
    """documents: a sentence each, or three in a row, without those that are left over."""
    texts, _ = few_texts
    assert laboratory.documents("a sentence") == texts
    assert laboratory.documents("three sentences") == [
        (recipe.TO_ENGLISH, sum(ENGLISH[:3], [])),
        (recipe.TO_ENGLISH, sum(ENGLISH[3:6], [])),
        (recipe.TO_FRENCH, sum(FRENCH, [])),
    ]


@pytest.mark.parametrize("noise", laboratory.OF_A_DOCUMENT + laboratory.OF_A_SENTENCE[:2])
def test_each_noise_does_what_it_is_called(few_texts, noise):
    """spoiled_by: the language stays in front and the target is the text; what is lost, moved or marked differs."""
    _, words = few_texts
    rows = laboratory.spoiled_by(noise, "three sentences", 0)
    texts = laboratory.documents("three sentences") * recipe.COPIES
    mask = words.encode(recipe.SENTINELS[:1]).item()
    assert len(rows) == len(texts)
    for (source, target), (to, text) in zip(rows, texts, strict=True):
        assert words.vocab[source[0]] == to and target == words.encode(text).tolist()
        lost = noise in ("token masking", "token deletion", "text infilling")
        assert (Counter(source[1:]) != Counter(target)) == lost
        assert (mask in source) == (noise in ("token masking", "text infilling"))
        if noise == "rotation":
            assert any(source[1:] == target[i:] + target[:i] for i in range(len(target)))
        if noise == "sentence permutation":
            pieces = [[tuple(row[i : i + 4]) for i in range(0, 12, 4)] for row in (source[1:], target)]
            assert sorted(pieces[0]) == sorted(pieces[1])
    same = sum(source[1:] == target for source, target in rows)
    assert same == len(rows) if noise == "none" else same < len(rows)


@pytest.mark.slow
def test_every_noise_is_read_in_as_many_words_a_step(monkeypatch, few_texts):
    """one_noise: the batch is as much smaller as its texts are longer; the same tuning follows."""
    seen = []
    monkeypatch.setattr(laboratory, "STEPS", 60)
    monkeypatch.setattr(laboratory, "pairs", lambda: list(range(300)))
    monkeypatch.setattr(laboratory, "judged", lambda one: {"BLEU": 1.0, "exact": 0.0})
    monkeypatch.setattr(laboratory, "model", lambda seed: tiny(seed, len(few_texts[1])))
    monkeypatch.setattr(laboratory, "tuned", lambda one, known, seed: seen.append((len(known), seed)))
    monkeypatch.setattr(laboratory, "batches", lambda rows, size, seed, batches=laboratory.batches: (
        seen.append(size), batches(rows, size, seed))[1])  # fmt: skip
    found = laboratory.one_noise(3, of="a sentence", noise="none")
    assert seen == [32, (200, 3)] and 0 < found["nats a word read"] < 3 and found["BLEU"] == 1
    laboratory.one_noise(4, of="three sentences", noise="rotation")
    assert seen[2:] == [10, (200, 4)]


def tiny(seed, n_words):
    """The recipe's kind of model, small, for so many words."""
    torch.manual_seed(seed)
    return recipe.Transformer(n_words, n_words, 16, 2, 1, pre_norm=True, shared=True)


# --- beams


@pytest.mark.slow
def test_a_beam_is_judged_at_each_width_and_penalty(monkeypatch, few_texts):
    """by_width: greedy once, each wider beam with each penalty; the wider finds what is at least as probable."""
    _, words = few_texts
    wanted = [Pair(source, target, []) for source, target in zip(ENGLISH[:3], FRENCH, strict=True)]
    monkeypatch.setattr(laboratory, "tests", lambda: wanted)
    one = tiny(0, len(words))
    rows = [
        (words.encode(source).tolist(), words.encode(target).tolist()) for source, target in map(recipe.asked, wanted)
    ]
    drawn = laboratory.batches(rows, 3, 0)
    laboratory.fit(one, drawn, laboratory.translation_loss, steps=80, lr=1e-2, device=recipe.CPU, progress=False)
    found = laboratory.by_width(one)
    assert found["right words"] == 4
    for by_penalty in (found[width] for width in laboratory.WIDTHS):
        for judged in by_penalty.values():
            assert judged["exact"] == 1 and judged["words"] == 4 and judged["search errors"] == 0
            assert judged["BLEU"] == pytest.approx(100)


# --- a scene's first lines


def row(text, speaker=""):
    return Row("A Play", "comedies", "I", "I", speaker, "speech" if speaker else "direction", text)


def test_a_scene_is_cut_into_what_is_spoken_and_what_is_told_of_the_stage():
    rows = [row("A wood. Enter PUCK"), row("How now!\nSpirit [Aside]\n[Thunder,\nand rain]", "PUCK"), row("Exeunt"),
            row("O'er-run!", "FAIRY")]  # fmt: skip
    scene = laboratory._scene(rows)
    assert scene.lines == [["how", "now"], ["spirit"], ["o'er-run"]]
    assert scene.directions == "a wood enter puck aside thunder and rain exeunt".split()
    assert scene.speakers == ["PUCK", "FAIRY"] and scene.spoken == ["how", "now", "spirit", "o'er-run"]


@pytest.mark.slow
def test_no_summary_holds_a_word_of_the_last_lines():
    """Scene.before, random_lines: whole lines, all of them before the reference."""
    draw = random.Random(0)
    for scene in draw.sample(laboratory.scenes(), 20):
        before = sum(scene.before, [])
        assert scene.before == scene.lines[: len(scene.before)]
        assert len(scene.spoken) - laboratory.MOST - len(before) in range(len(scene.lines[len(scene.before)]))
        drawn = laboratory.random_lines(scene.before, 30, draw)
        assert len(drawn) == 30 and not Counter(drawn) - Counter(before)
    assert laboratory.random_lines([["a"], ["b", "c"]], 9, draw) == ["a", "b", "c"]


@pytest.mark.slow
def test_summaries_are_as_long_as_what_they_are_compared_with():
    """references, summaries: the other scenes are others, and the shuffled words are those of the first lines."""
    draw = random.Random(1)
    for scene in draw.sample(laboratory.scenes(), 20):
        right = laboratory.references(scene)
        assert right["last lines"] == scene.spoken[-60:] and right["directions"] == scene.directions[:60]
        found = laboratory.summaries(scene, len(right["directions"]), draw)
        assert {len(text) for name, text in found.items() if name.startswith(("first", "random"))} == {
            len(right["directions"])
        }
        assert (
            sorted(found["first lines"]) == sorted(found["first lines, shuffled"]) and found["who speaks"][0] == "enter"
        )
        assert found["first lines"] not in (found["another scene of the play"], found["another play"])
        score = laboratory.scored(right["directions"], right["directions"])
        assert set(score.values()) == {1.0}


def test_common_words_are_left_out_of_the_last_score():
    assert {"the", "and", "i"} < laboratory.common_words() and "enter" not in laboratory.common_words()
    score = laboratory.scored(["the", "queen", "and", "i"], ["the", "king", "and", "i"])
    assert score["ROUGE-1"] == 3 / 4 and score["ROUGE-2"] == 1 / 3 and score["rare words"] == 0


def test_first_lines_are_compared_with_each_other_kind(monkeypatch):
    monkeypatch.setattr(laboratory, "SCENES", 15)
    told = laboratory.first_lines(0, reference="directions")
    ends = laboratory.first_lines(0, reference="last lines")
    for found in (told, ends):
        assert found["first lines"]["ROUGE-1"] == found["first lines, shuffled"]["ROUGE-1"] > 0
        assert found["first lines"]["ROUGE-2"] > found["first lines, shuffled"]["ROUGE-2"]
    assert told["who speaks"]["ROUGE-1"] > told["first lines"]["ROUGE-1"]


# --- sizes


def test_sizes_are_counted_beside_what_is_said():
    """sizes: all published ones; how many weights are the vocabulary's. tests/test_t5.py counts built models."""
    found = {(one.family, one.size): one for one in laboratory.sizes()}
    assert len(found) == 15
    large = found["T5", "large"]
    assert large.said == 770 and round(large.counted) == 738
    others = [one for one in found.values() if one is not large]
    assert all(abs(one.counted / one.said - 1) < 0.03 for one in others)
    assert found["mT5", "small"].vocabulary == pytest.approx(2 * 250_112 * 512 / 300e6, rel=0.01)
    assert found["T5", "small"].vocabulary == pytest.approx(32_128 * 512 / 60.5e6, rel=0.01)
    assert found["ByT5", "small"].vocabulary < 0.01 < 0.8 < found["mT5", "small"].vocabulary
