"""One sequence written from another: encoder and decoder, greedy and beam search, and how alignments are judged."""

from course_lib.translation.alignment_error import (
    Link,
    Links,
    alignment_scores,
    corpus_alignment_error_rate,
    corpus_precision,
    corpus_recall,
    diagonal_guess,
    either_alignment,
    hard_alignment,
    mutual_alignment,
    where_gold,
)
from course_lib.translation.decode import Decoded, beam_search, exact_match, greedy, translate
from course_lib.translation.error_rate import edit_distance, error_rate
from course_lib.translation.seq2seq import CELLS, SCORES, AttentionDecoder, Decoder, Encoder, Seq2Seq
from course_lib.translation.translator import Translator, translation_loss

__all__ = [
    "AttentionDecoder",
    "CELLS",
    "Decoded",
    "Decoder",
    "Encoder",
    "Link",
    "Links",
    "SCORES",
    "Seq2Seq",
    "Translator",
    "alignment_scores",
    "beam_search",
    "corpus_alignment_error_rate",
    "corpus_precision",
    "corpus_recall",
    "diagonal_guess",
    "edit_distance",
    "either_alignment",
    "error_rate",
    "exact_match",
    "greedy",
    "hard_alignment",
    "mutual_alignment",
    "translate",
    "translation_loss",
    "where_gold",
]
