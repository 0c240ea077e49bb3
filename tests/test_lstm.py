"""recurrent/lstm.py: the steps against torch's cells, against the papers' equations, and against cases for the eye."""

import math

import torch
from torch import nn
from torch.testing import assert_close

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


def test_lstm_step_by_eye():
    """lstm_step: one unit, every weight zero: the gates stand at sigmoid(b), the candidate at tanh(b)."""
    b = torch.tensor([0.0, 100.0, 0.0, 100.0])  # i = 1/2, f = 1, o = 1/2, g = 1
    h, c = lstm_step(torch.ones(1, 1), torch.ones(1, 1), torch.tensor([[3.0]]), torch.zeros(1, 4), torch.zeros(1, 4), b)
    assert_close(c, torch.tensor([[3.5]]))
    assert_close(h, torch.tensor([[math.tanh(3.5) / 2]]))


def test_gates_and_cells_are_their_formulas_one_by_one():
    """lstm_gates, lstm_cell, gru_cell: each formula by itself, each gate with columns of its own."""
    x, h, c = torch.randn(4, 5).double(), torch.randn(4, 3).double(), torch.randn(4, 3).double()
    w_x, w_h, b = torch.randn(5, 12).double(), torch.randn(3, 12).double(), torch.randn(12).double()
    i, f, o, g = (x @ w_x[:, k : k + 3] + h @ w_h[:, k : k + 3] + b[k : k + 3] for k in (0, 3, 6, 9))
    i, f, o, g = (1 / (1 + torch.exp(-i)), 1 / (1 + torch.exp(-f)), 1 / (1 + torch.exp(-o)), torch.tanh(g))
    assert_close(lstm_gates(x, h, w_x, w_h, b), (i, f, o, g))
    assert_close(lstm_cell(c, i, f, o, g), (o * torch.tanh(f * c + i * g), f * c + i * g))
    assert_close(gru_cell(h, torch.zeros_like(h), i, g), i * h + (1 - i) * g)


def test_lstm_step_gives_the_known_numbers_of_a_well_known_assignment():
    """Inputs and results as given out with Stanford's CS231n, assignment 3, LSTM captioning: step forward."""

    def line(start, end, *shape):
        return torch.linspace(start, end, math.prod(shape), dtype=torch.float64).reshape(shape)

    h, c = lstm_step(
        line(-0.4, 1.2, 3, 4),
        line(-0.3, 0.7, 3, 5),
        line(-0.4, 0.9, 3, 5),
        line(-2.1, 1.3, 4, 20),
        line(-0.7, 2.2, 5, 20),
        line(0.3, 0.7, 20),
    )
    assert_close(
        h,
        torch.tensor(
            [
                [0.24635157, 0.28610883, 0.32240467, 0.35525807, 0.38474904],
                [0.49223563, 0.55611431, 0.61507696, 0.66844003, 0.71591810],
                [0.56735664, 0.66310127, 0.74419266, 0.80889665, 0.85829900],
            ]
        ).double(),
        atol=1e-7,
        rtol=1e-6,
    )
    assert_close(
        c,
        torch.tensor(
            [
                [0.32986176, 0.39145139, 0.45155600, 0.51014116, 0.56717407],
                [0.66382255, 0.76674007, 0.87195994, 0.97902709, 1.08751345],
                [0.74192008, 0.90592151, 1.07717006, 1.25120233, 1.42395676],
            ]
        ).double(),
        atol=1e-7,
        rtol=1e-6,
    )


def test_lstm_step_takes_the_gates_in_the_order_i_f_o_g():
    x, h, c = torch.zeros(1, 2), torch.zeros(1, 2), torch.tensor([[5.0, -4.0]])
    for opened, expected in ((0, 0.5 * c), (1, c), (2, 0.5 * c), (3, 0.5 * c + 0.5)):
        b = torch.zeros(8)
        b[2 * opened : 2 * opened + 2] = 100
        assert_close(lstm_step(x, h, c, torch.zeros(2, 8), torch.zeros(2, 8), b)[1], expected)


def test_lstm_step_is_torch_lstm_cell_with_its_gates_reordered():
    cell = nn.LSTMCell(5, 3, dtype=torch.float64)
    x, h, c = torch.randn(4, 5).double(), torch.randn(4, 3).double(), torch.randn(4, 3).double()
    order = torch.cat([torch.arange(6), torch.arange(9, 12), torch.arange(6, 9)])  # i f g o -> i f o g
    ours = lstm_step(x, h, c, cell.weight_ih[order].T, cell.weight_hh[order].T, (cell.bias_ih + cell.bias_hh)[order])
    for mine, theirs in zip(ours, cell(x, (h, c)), strict=True):
        assert_close(mine, theirs, atol=1e-12, rtol=0)


def test_gru_step_is_torch_gru_cell():
    cell = nn.GRUCell(5, 3, dtype=torch.float64)
    x, h = torch.randn(4, 5).double(), torch.randn(4, 3).double()
    assert_close(
        gru_step(x, h, cell.weight_ih.T, cell.weight_hh.T, cell.bias_ih, cell.bias_hh), cell(x, h), atol=1e-12, rtol=0
    )


def test_the_two_grus_differ_only_where_the_reset_gate_stands():
    """gru_gates, gru_gates_cho: both candidates written out; r inside or outside the product, all else alike."""
    x, h, w_x, w_h = (torch.randn(*s).double() for s in ((4, 5), (4, 3), (5, 9), (3, 9)))
    b_x, b_h = torch.randn(9).double(), torch.zeros(9).double()
    r, z, n = gru_gates(x, h, w_x, w_h, b_x, b_h)
    r_cho, z_cho, n_cho = gru_gates_cho(x, h, w_x, w_h, b_x, b_h)
    assert_close((r, z), (r_cho, z_cho))
    assert (n - n_cho).abs().max() > 1e-3
    assert_close(n, torch.tanh(x @ w_x[:, 6:] + b_x[6:] + r * (h @ w_h[:, 6:])))
    assert_close(n_cho, torch.tanh(x @ w_x[:, 6:] + b_x[6:] + (r * h) @ w_h[:, 6:]))
    assert_close(gru_step_cho(x, h, w_x, w_h, b_x, b_h), z * h + (1 - z) * n_cho)
    wide_open = b_x.clone()
    wide_open[:3] = 100  # r = 1: then it does not matter where it stands
    assert_close(gru_step(x, h, w_x, w_h, wide_open, b_h), gru_step_cho(x, h, w_x, w_h, wide_open, b_h))


def test_an_update_gate_of_one_keeps_and_of_zero_replaces():
    h, r, n = torch.randn(2, 3), torch.rand(2, 3), torch.randn(2, 3)
    assert_close(gru_cell(h, r, torch.ones(2, 3), n), h)
    assert_close(gru_cell(h, r, torch.zeros(2, 3), n), n)


def test_along_the_cell_the_gradient_is_the_product_of_forget_gates():
    """dc_T/dc_t with the gates held fixed is diag(f_{t+1} * ... * f_T), exactly."""
    w_x, w_h, b = (torch.randn(*s).double() for s in ((3, 16), (4, 16), (16,)))
    h, c = torch.zeros(2, 4).double(), torch.randn(2, 4).double().requires_grad_()
    start, product = c, torch.ones(2, 4).double()
    for x in torch.randn(9, 2, 3).double():
        gates = lstm_gates(x, h.detach(), w_x, w_h, b)
        h, c = lstm_cell(c, *gates)
        product = product * gates[1]
    assert_close(torch.autograd.grad(c.sum(), start)[0], product, atol=1e-15, rtol=1e-12)


def test_where_biases_start():
    assert_close(
        LSTM(3, 4, 2, True, forget_bias=2.0).weights("1_reverse")[2], torch.tensor([0.0] * 4 + [2.0] * 4 + [0.0] * 8)
    )
    assert_close(GRU(3, 4, update_bias=-1.0).weights()[2], torch.tensor([0.0] * 4 + [-1.0] * 4 + [0.0] * 4))
    torch.manual_seed(0)
    b = chrono_(LSTM(3, 500), 100).weights()[2]
    memory = b[500:1000].exp()  # 1 / (1 - f) - 1, the mean number of steps that c is kept, less one
    assert 1 <= memory.min() < 5 and 90 < memory.max() <= 99
    assert_close(b[:500], -b[500:1000])
    assert chrono_(GRU(3, 4), 2).weights()[2].abs().max() == 0
