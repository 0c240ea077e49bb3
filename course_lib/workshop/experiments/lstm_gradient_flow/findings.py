"""Lesson 02, what the records show: which cells learn to recall, and whether it is the gradient or the memory."""

from course_lib.workshop.experiments import finding, recorded
from course_lib.workshop.experiments.lstm_gradient_flow import core as lstm_gradient_flow
from course_lib.workshop.experiments.runs import least_of, most_of

GUESS = 0.125  # of 8 symbols
BOTH, MEMORY, GRADIENT = ({"gates": gates, "back": back} for gates, back in ((4.0, 0.98), (4.0, 0.5), (0.0, 0.98)))


def _recall(cell, lag):
    start = lstm_gradient_flow.other_starts if cell in ("RNN, quiet", "GRU, b = 0") else lstm_gradient_flow.recalled
    return recorded(start).numbers("accuracy", cell=cell, lag=lag)


def _halves(corner, steps):
    return recorded(lstm_gradient_flow.halves).numbers("accuracy", steps=steps, **corner)


@finding(
    "Lag 24, 300 steps: an LSTM and a GRU with gate bias 4, and a plain network with orthogonal W_h and a tenth of the "
    "input, answer at least 98 % correctly; from bias 0, and with all of the input, at most 15 %",
    chance=GUESS,
)
def open_gates_recall():
    solve = least_of(*(_recall(cell, 24) for cell in ("LSTM, b = 4", "GRU, b = 4", "RNN, quiet")))
    guess = most_of(*(_recall(cell, 24) for cell in ("LSTM, b = 0", "GRU, b = 0", "RNN")))
    return solve, ">=", 0.98, guess, "<=", 0.15


@finding(
    "Lag 12, 300 steps: from bias 0 at most 45 % of the answers are correct, from bias 2 at least 98 %", chance=GUESS
)
def lag_12_needs_a_bias():
    return _recall("LSTM, b = 0", 12), "<=", 0.45, _recall("LSTM, b = 2", 12), ">=", 0.98


@finding(
    "In 300 steps, gates that start open, with the gradient they let through, solve lag 24 in every run", chance=GUESS
)
def both_solve_it_quickly():
    return _halves(BOTH, 300), ">=", 0.98


@finding(
    "In 900 steps an LSTM from bias 0 solves lag 24 in every run if its gradient along the cell is held at 0.98 per "
    "step; from bias 4, with a gradient held at 0.5, at most 85 % of the answers are correct",
    chance=GUESS,
)
def the_gradient_solves_it_later():
    return _halves(GRADIENT, 900), ">=", 0.98, _halves(MEMORY, 900), "<=", 0.85


@finding(
    "With only 9 to 16 true characters the plain network loses at most 0.005 bits, the LSTM and the GRU at least 0.05",
    chance=1.0,
)
def gated_cells_use_more_characters():
    read = recorded(lstm_gradient_flow.on_plays)
    plain, lstm, gru = (read.numbers("more", "9–16", cell=cell) for cell in ("RNN", "LSTM", "GRU"))
    return plain, "<=", 0.005, least_of(lstm, gru), ">=", 0.05
