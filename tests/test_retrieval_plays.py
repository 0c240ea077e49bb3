"""Searching the plays: a speech without one of its sentences, and who finds it by that sentence."""

from random import Random

import torch

from course_lib.workshop.experiments.retrieval import plays as retrieval_plays
from course_lib.workshop.experiments.retrieval import reader as retrieval_reader
from course_lib.workshop.experiments.retrieval.plays import inverse_cloze, one_taken_out, sentences, speeches


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
