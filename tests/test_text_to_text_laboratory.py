"""Lesson 13's laboratory: what each noise is drawn on, what a beam is asked, what stands in for a summary, sizes."""

import random
from collections import Counter

import pytest
import torch

from course_lib.data import Pair
from course_lib.data.plays import Row
from course_lib.text.tokenizers import WordTokenizer
from course_lib.workshop.experiments.text_to_text import laboratory
from course_lib.workshop.recipes import text_to_text as recipe

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


# --- noises


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
    assert len(rows) == len(texts) and rows == laboratory.spoiled_by(noise, "three sentences", 0)
    mask, stop = words.encode([recipe.SENTINELS[0], "."]).tolist()
    same = 0
    for (source, target), (to, text) in zip(rows, texts, strict=True):
        assert words.vocab[source[0]] == to and target == words.encode(text).tolist()
        source, same = source[1:], same + (source[1:] == target)
        assert (Counter(source) == Counter(target)) == (
            noise not in ("token masking", "token deletion", "text infilling")
        )
        assert (mask in source) == (noise in ("token masking", "text infilling"))
        assert (len(source) == len(target)) or noise in ("token deletion", "text infilling")
        if noise == "rotation":
            assert any(source == target[i:] + target[:i] for i in range(len(target)))
        if noise == "sentence permutation":
            assert source[3::4] == target[3::4] == [stop] * 3
            pieces = [[tuple(row[i : i + 4]) for i in range(0, 12, 4)] for row in (source, target)]
            assert sorted(pieces[0]) == sorted(pieces[1])
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


def test_the_noises_of_the_paper_are_those_that_are_asked():
    ours = {*laboratory.OF_A_SENTENCE, *laboratory.OF_A_DOCUMENT} - {"none"}
    assert {variant["noise"] for variant in laboratory.one_noise.variants} == ours | {"none"}


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
    assert set(found) == {"right words", *laboratory.WIDTHS} and found["right words"] == 4
    assert list(found[1]) == [0.0] and all(list(found[width]) == [*laboratory.PENALTIES] for width in (2, 4, 8))
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
    assert told.keys() == ends.keys() and all(set(one) == {*told["first lines"]} for one in told.values())
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
