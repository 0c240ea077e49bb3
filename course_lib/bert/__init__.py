"""The encoder that looks both ways: BERT, its heads and labels, masked words, and how it is pre-trained."""

from course_lib.bert.bert import PUBLISHED, SMALL, Bert, BertConfig, begin, filled, mean_state, parameter_count
from course_lib.bert.bert_heads import Classifier, Head, LayerMix, MaskedWords, SpanFinder, Tagger
from course_lib.bert.bert_labels import IGNORED, best_span, first_pieces, label_loss
from course_lib.bert.masked_words import (
    KINDS,
    SHARE,
    Filled,
    Masked,
    fill,
    mask_tokens,
    masked,
    masked_loss,
    texts_in_order,
)
from course_lib.bert.pretraining import (
    masked_bits,
    muon_on_blocks,
    play_pieces,
    short_rows_first,
    small_bert,
    span_pairs,
    spans,
)
from course_lib.bert.xlm import XLM, Row, places_of, sentence_vectors, translation_row, twins_found

__all__ = [
    "Bert",
    "BertConfig",
    "Classifier",
    "Filled",
    "Head",
    "IGNORED",
    "KINDS",
    "LayerMix",
    "Masked",
    "MaskedWords",
    "PUBLISHED",
    "Row",
    "SHARE",
    "SMALL",
    "SpanFinder",
    "Tagger",
    "XLM",
    "begin",
    "best_span",
    "fill",
    "filled",
    "first_pieces",
    "label_loss",
    "mask_tokens",
    "masked",
    "masked_bits",
    "masked_loss",
    "mean_state",
    "muon_on_blocks",
    "parameter_count",
    "places_of",
    "play_pieces",
    "sentence_vectors",
    "short_rows_first",
    "small_bert",
    "span_pairs",
    "spans",
    "texts_in_order",
    "translation_row",
    "twins_found",
]
