"""Networks that read one step after another: RNN, LSTM and GRU, stacked, and the character model made of them."""

from course_lib.recurrent.language_model import COLDEST, CharRNN, TruncatedBPTT, bits_per_character, streams
from course_lib.recurrent.lstm import (
    GRU,
    LSTM,
    chrono_,
    gru_cell,
    gru_gates,
    gru_gates_cho,
    gru_step,
    gru_step_cho,
    lstm_cell,
    lstm_gates,
    lstm_step,
)
from course_lib.recurrent.rnn import RNN, RNNGrads, bptt, rnn_step, unroll
from course_lib.recurrent.stacked import Stacked

__all__ = [
    "COLDEST",
    "CharRNN",
    "GRU",
    "LSTM",
    "RNN",
    "RNNGrads",
    "Stacked",
    "TruncatedBPTT",
    "bits_per_character",
    "bptt",
    "chrono_",
    "gru_cell",
    "gru_gates",
    "gru_gates_cho",
    "gru_step",
    "gru_step_cho",
    "lstm_cell",
    "lstm_gates",
    "lstm_step",
    "rnn_step",
    "streams",
    "unroll",
]
