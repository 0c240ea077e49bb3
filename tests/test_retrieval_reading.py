"""Lesson 15, reading, with tiny models: one pass equals many, a memory changes, ties are shared; the plays searched."""

import re
from random import Random

import pytest
import torch
import torch.nn.functional as F
from smoke import experiments_of, smoke

from course_lib.bert.bert import Bert, BertConfig, mean_state
from course_lib.data import territories
from course_lib.data.territories import passage, question, say
from course_lib.data.territory_wordings import WORDINGS
from course_lib.language.decoder import Decoder, DecoderConfig
from course_lib.text.bpe import BPE
from course_lib.text.wordpiece import WordPiece
from course_lib.workshop.experiments.retrieval import plays as retrieval_plays
from course_lib.workshop.experiments.retrieval import reader as retrieval_reader
from course_lib.workshop.experiments.retrieval import reading as retrieval_reading
from course_lib.workshop.experiments.retrieval.plays import inverse_cloze, one_taken_out, sentences, speeches
from course_lib.workshop.experiments.retrieval.reader import (
    EXAMPLES,
    SEARCHES,
    TEMPERATURE,
    Memory,
    ask,
    asked_with,
    crowded_opening,
    every_fact,
    first_of,
    kind_opening,
    log_answers,
    meanings,
    opening,
    written,
)

TEXTS = [passage(one) for one in every_fact()[:12]]
ASKED = question(every_fact()[0])


@pytest.fixture(scope="module")
def tiny():
    """A reader and a searcher that have learned nothing, each with its tokenizer: a few layers, drawn from a seed."""
    torch.manual_seed(0)
    text = " ".join(EXAMPLES[0][:2]) + "\n".join(TEXTS)
    bpe, pieces = BPE.train(text, 290), WordPiece.train(text, 100)
    reader = Decoder(DecoderConfig(len(bpe), 2048, 16, 4, 2, 32, n_kv_heads=2)).double().eval()
    with torch.no_grad():
        for part in reader.parameters():
            part.mul_(8.0)  # else it writes the same token for ever
    return reader, bpe, Bert(BertConfig(len(pieces.vocab), 128, 16, 2, 2)).eval(), pieces


@pytest.fixture(autouse=True)
def tiny_models(tiny, monkeypatch):
    """The experiments with the tiny models in the place of the published ones."""
    monkeypatch.setattr(retrieval_reader, "smollm2", lambda: tiny[:2])
    monkeypatch.setattr(retrieval_reader, "read_by_minilm", lambda: tiny[2:])
    retrieval_reader.opened.cache_clear()
    yield tiny
    retrieval_reader.opened.cache_clear()


def ids_of(bpe, *texts):
    return torch.cat([bpe.encode(text) for text in texts])


@pytest.mark.slow
def test_the_reader_writes_what_it_would_write_to_each_prompt_alone(tiny_models):
    """written: kept beginnings and equal lengths together change nothing; the line's end ends an answer."""
    reader, bpe, *_ = tiny_models
    begin, prompts = asked_with(TEXTS[:2], ASKED), [asked_with([text], "Why?") for text in (*TEXTS[:7], TEXTS[0])]
    found = written(begin, prompts)
    for prompt, line in zip(prompts, found, strict=True):
        ids = ids_of(bpe, begin, prompt)
        begun = len(ids)
        for _ in range(retrieval_reader.LONGEST):
            ids = torch.cat([ids, reader(ids[None])[0, -1:].argmax(-1)])
        assert line == bpe.decode(ids[begun:].tolist()).split("\n")[0].strip()
    assert len(set(found)) > 3 and found[0] == found[-1]


def test_log_answers_are_those_of_one_forward_pass(tiny_models):
    """log_answers: the answer's tokens and the line's end, whatever stands beside it in the batch."""
    reader, bpe, *_ = tiny_models
    answers = ["euro", "Bulgarian lev", "1999"]
    found = log_answers(TEXTS[:2], ASKED, answers)
    assert found.shape == (2, 3)
    for k, text in enumerate(TEXTS[:2]):
        for v, answer in enumerate(answers):
            begin, end = ids_of(bpe, opening(True), asked_with([text], ASKED)), bpe.encode(f" {answer}\n")
            logits = reader(torch.cat([begin, end])[None])[0, len(begin) - 1 : -1]
            wanted = logits.log_softmax(-1)[range(len(end)), end].sum()
            torch.testing.assert_close(found[k, v], wanted, rtol=0, atol=1e-10)


def test_a_text_has_the_vector_that_it_has_alone(tiny_models):
    *_, searcher, pieces = tiny_models
    found = meanings(TEXTS)
    for text, vector in zip(TEXTS, found, strict=True):
        part = pieces.batch([text])
        with torch.no_grad():
            alone = F.normalize(mean_state(searcher(part.ids))[0], dim=0)
        torch.testing.assert_close(vector, alone, rtol=0, atol=1e-5)


def test_a_changed_memory_is_the_memory_of_the_changed_sentences():
    """Memory.changed: as built anew; what was there before stays as it was."""
    known = Memory(TEXTS)
    before = known.vectors.clone()
    new = passage(every_fact()[3], answer="sea shell")
    after, anew = known.changed({3: new}), Memory([*TEXTS[:3], new, *TEXTS[4:]])
    assert after.texts == anew.texts and known.texts == TEXTS and torch.equal(known.vectors, before)
    torch.testing.assert_close(after.vectors, anew.vectors, rtol=0, atol=1e-6)
    for search in SEARCHES.values():
        torch.testing.assert_close(search(after, ASKED), search(anew, ASKED), rtol=0, atol=1e-6)
    assert "shell" in after.words.found and "shell" not in known.words.found


def test_the_searches_find_a_sentence_by_itself():
    known = Memory(TEXTS)
    for name, search in SEARCHES.items():
        assert [first_of(search(known, text))[0] for text in TEXTS] == list(range(len(TEXTS))), name
    assert first_of(torch.tensor([1.0, 3.0, 3.0, 0.0]), 3) == [1, 2, 0]


def test_the_examples_share_no_wording_with_the_memory():
    """EXAMPLES: no three words in a row are those of a sentence or a question about a territory."""

    def runs(text):
        words = re.findall(r"\w+", re.sub(r"\{\w+\}", "#", text.lower()).replace("#", "_"))
        return {run for run in zip(words, words[1:], words[2:], strict=False) if "_" not in run}

    shown = set().union(*(runs(text) for example in EXAMPLES for text in example[:2]))
    ours = set().union(*(runs(text) for both in WORDINGS.values() for part in both for text in sum(part, ())))
    assert len(shown) > 30 and len(ours) > 100 and not shown & ours
    assert all(say(answer, text) and not say(answer, asked) for text, asked, answer in EXAMPLES)
    for kind in WORDINGS:  # without a passage: what is asked is not told
        told = kind_opening(kind)
        assert told.count("Question:") == 5 and "Passage:" not in told
        assert not any(one.place in told for one in territories.facts("test") if one.kind == kind)


@pytest.mark.slow
def test_the_sum_says_what_is_most_probable_over_the_passages():
    """ask: p(y|x) = sum over z of p(z|x) p(y|x,z), by hand."""
    known = Memory(TEXTS)
    asked = ask(ASKED, "sum of five", known)
    scores = known.vectors @ meanings([ASKED])[0]
    p_z = (scores.sort(descending=True).values[:5] / TEMPERATURE).softmax(0)
    torch.testing.assert_close(torch.tensor(asked.weights), p_z)
    said = list(dict.fromkeys(written(opening(True), [asked_with([text], ASKED) for text in asked.passages])))
    p_y = (p_z[:, None] * log_answers(asked.passages, ASKED, said).exp()).sum(0)
    assert asked.answer == said[int(p_y.argmax())]


def test_recall_shares_ties():
    """recall: whether the right passage is the first, and among five; of tied ones the expected share."""
    scores = torch.tensor([3.0, 1, 1, 1, 1, 1, 1, 0])
    assert retrieval_reading.recall(scores, 0) == [1, 1]
    assert retrieval_reading.recall(scores, 2) == [0, pytest.approx(4 / 6)]
    assert retrieval_reading.recall(scores, 7) == [0, 0] and retrieval_reading.recall(torch.ones(4), 1) == [0.25, 1]


def test_another_places_sentence_holds_the_false_answer():
    for one in territories.facts("test"):
        other = retrieval_reading.other_place(one)
        assert (other.kind, other.answer) == (one.kind, one.false) and other.place != one.place
        assert every_fact()[retrieval_reading.place_of(one)] == one


@pytest.mark.slow
@experiments_of("retrieval_reading")
def test_an_experiment_gives_its_numbers(monkeypatch, one):
    """On a small memory, with models that know nothing."""
    some = territories.facts("test")[:40]
    small = Memory([passage(one) for one in some])
    for module in (retrieval_reader, retrieval_reading):
        monkeypatch.setattr(module, "every_fact", lambda: some)
    monkeypatch.setattr(retrieval_reading, "memory", lambda seed: small)
    monkeypatch.setattr(retrieval_reading, "other_place", lambda one: one._replace(answer=one.false))
    monkeypatch.setattr(retrieval_reading, "drawn", lambda split, n, seed: some[seed : seed + 4])
    monkeypatch.setattr(territories, "facts", lambda split: some)
    found = smoke(one)
    if one.name == "sums":  # the cooler, the nearer to the first alone
        bits = found["bits"]
        assert abs(bits["0.01"] - bits["the first"]) < abs(bits["0.5"] - bits["the first"]) + 1e-6


def test_what_is_found_first_has_the_place_or_the_kind_in_common_or_nothing():
    asked = every_fact()[0]
    place = next(one for one in every_fact() if one.place == asked.place and one.kind != asked.kind)
    kind = next(one for one in every_fact() if one.place != asked.place and one.kind == asked.kind)
    other = next(one for one in every_fact() if one.place != asked.place and one.kind != asked.kind)
    found = [retrieval_reading.common(one, asked) for one in (asked, place, kind, other)]
    assert found == ["right", "place", "kind", "neither"]


def test_in_the_crowded_examples_the_right_passage_stands_at_each_place_once():
    shown = [part.split("\n") for part in crowded_opening().strip().split("\n\n")]
    passages = [f"Passage: {text}" for text, _, _ in EXAMPLES]
    assert [lines[:5] for lines in shown] == [passages] * 5
    assert [lines[5:] for lines in shown] == [[f"Question: {q}", f"Answer: {answer}"] for _, q, answer in EXAMPLES]


def test_the_questions_are_drawn_anew_by_each_seed():
    first, second = (retrieval_reading.drawn("test", 70, seed) for seed in (0, 1))
    assert len(set(first)) == 70 and len(set(first) & set(second)) < 35
    assert retrieval_reading.judged(first, [one.answer for one in first])["right"] == 1
    assert retrieval_reading.judged(first, ["" for _ in first]) == {"right": 0, "false": 0}


# --- the plays


def test_a_speech_is_cut_into_its_sentences_without_what_is_said_of_the_stage():
    assert sentences("Is't so? [Aside] Then go;\nI stay [sits] here. 'Twas late!") == [
        "Is't so?",
        "Then go;",
        "I stay here.",
        "'Twas late!",
    ]
    assert sentences("[Exit]") == sentences("") == sentences("... !") == []


def test_a_sentence_of_five_words_is_taken_out_where_there_is_one():
    said = ["No.", "I will not go with you.", "Never!"]
    assert one_taken_out(said, Random(0).choice) == (said[1], "No. Never!")
    assert one_taken_out(["No.", "Yes."], lambda some: some[1]) == ("Yes.", "No.")
    for some in speeches()[:50]:
        asked, rest = one_taken_out(some, Random(1).choice)
        assert asked in some and len(rest.split()) + len(asked.split()) == len(" ".join(some).split())


def test_a_sentence_that_stays_finds_its_speech_by_words(monkeypatch):
    """With vectors that tell nothing apart, which MiniLM's place takes here."""
    monkeypatch.setattr(retrieval_plays, "SPEECHES", 40)
    monkeypatch.setattr(retrieval_reader, "meanings", lambda texts: torch.ones(len(texts), 2) / 2**0.5)
    stays, out = (inverse_cloze(0, sentence=sentence) for sentence in ("stays", "taken out"))
    assert stays["BM25"]["at 1"] > 0.9 > out["BM25"]["at 1"] > 0
    assert stays["MiniLM"]["at 1"] == 1 / 40, "of equal ones the first comes first"
