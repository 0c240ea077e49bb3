"""Lesson 03 on words: what a state keeps of a letter, and what is missed when the right sounds are told."""

import pytest
import torch

from course_lib.data.sounds import Word
from course_lib.text.tokenizers import WordTokenizer
from course_lib.translation.seq2seq import Seq2Seq
from course_lib.translation.translator import Translator
from course_lib.weights.g2p_weights import END_SIGN, LETTERS
from course_lib.workshop.experiments.seq2seq.words import kept, missed_when_told


@pytest.fixture
def speaker():
    torch.manual_seed(0)
    reads, writes = WordTokenizer([[*LETTERS, END_SIGN]]), WordTokenizer([["N", "IH1", "T"]])
    return Translator(Seq2Seq(len(reads), len(writes), 16, 16, cell="gru"), reads, writes)


def test_before_a_letter_is_read_nothing_is_kept_of_it_and_then_something(speaker):
    found, states = kept(speaker, "knit", ["N", "IH1", "T"])
    assert found.shape == (4, 9)  # four letters and the sign of the end, a start and three sounds
    assert states.shape == (9, 16)
    for at in range(4):
        assert found[at, :at].max() <= 1e-6 if at else True
        assert found[at, at:].min() > 0


def test_kept_is_the_mean_distance_over_all_other_letters(speaker):
    found, states = kept(speaker, "a", ["T"])
    others = [speaker.model.encode(speaker.reads.encode([letter, END_SIGN])[None])[0][0, -1] for letter in LETTERS[1:]]
    mean = torch.stack(others).sub(states[1]).norm(dim=-1).mean() / states[1].norm()
    assert found[0, 1].item() == pytest.approx(mean.item(), rel=1e-5)


def test_missed_when_told_counts_sounds_and_ends_and_no_padding(speaker):
    rows = [Word("knit", ["N", "IH1", "T"]), Word("it", ["IH1", "T"])]
    with torch.no_grad():
        for p in speaker.model.decoder.readout.parameters():
            p.zero_()
        speaker.model.decoder.readout.bias[speaker.writes.encode(["T"])] = 1.0  # it says T at every place
    assert missed_when_told(speaker, rows) == pytest.approx(5 / 7)
