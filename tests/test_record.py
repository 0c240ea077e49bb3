"""capture(): what it records, what it leaves alone."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from course_lib.recurrent.rnn import RNN, unroll
from course_lib.show.record import capture


def test_hidden_states_and_their_whole_gradient():
    """dL/dh_t of a loss on the last state only is the product of Jacobians that autograd also finds one by one."""
    rnn, x = RNN(3, 4).double(), torch.randn(2, 5, 3, dtype=torch.float64)
    with capture(rnn, "hidden.0") as maps:
        rnn(x)[0][:, -1].sum().backward()
    states, grads = maps.over_time("hidden.0"), maps.grad("hidden.0")
    assert states.shape == grads.shape == (2, 5, 4)
    assert_close(states, unroll(x, torch.zeros(2, 4).double(), rnn.w_x[0], rnn.w_h[0], rnn.b[0]).detach())
    expected = torch.ones(2, 4, dtype=torch.float64)
    for t in reversed(range(5)):
        assert_close(grads[:, t], expected)
        expected = (expected * (1 - states[:, t] ** 2)) @ rnn.w_h[0].T.detach()


def test_leaves_no_trace_even_after_an_error():
    rnn = RNN(3, 4, 2)
    with pytest.raises(RuntimeError, match="mine"), capture(rnn):
        raise RuntimeError("mine")
    assert all(not module._forward_hooks for module in rnn.modules())


def test_patterns_choose_and_a_wrong_name_is_told():
    model = nn.Sequential(nn.Linear(2, 3), nn.Tanh())
    with capture(model, "0") as maps:
        model(torch.zeros(1, 2))
    assert list(maps) == ["0"]
    with pytest.raises(ValueError, match="No module is named like nothing.*: 0, 1"), capture(model, "nothing"):
        pass
    with pytest.raises(KeyError, match="Recorded: 0"):
        maps.over_time("7")


def test_of_many_modules_those_are_told_that_are_like_the_one_that_was_asked_for():
    model = nn.Sequential(*(nn.Sequential(nn.Linear(2, 2), nn.Tanh()) for _ in range(30)))
    with pytest.raises(ValueError, match=r"named like 17\.x\. .* has: .*\b17\.[01], .* and 82 more\.$") as told:
        with capture(model, "17.x"):
            pass
    with capture(model) as maps:
        model(torch.zeros(1, 2))
    with pytest.raises(KeyError, match=r"under '17\.x'\. Recorded: .*\b17\.[01], .* and 83 more\.") as other:
        maps.over_time("17.x")
    assert max(len(str(told.value)), len(str(other.value))) < 150


def test_gradient_before_backward_is_told_and_unused_calls_count_zero():
    rnn, x = RNN(3, 4), torch.randn(2, 5, 3)
    with capture(rnn, "hidden.0") as maps:
        out = rnn(x)[0]
        with pytest.raises(ValueError, match="backward"):
            maps.grad("hidden.0")
        out[:, 1].sum().backward()
    assert maps.grad("hidden.0")[:, 2:].abs().max() == 0 < maps.grad("hidden.0")[:, 1].abs().min()


def test_works_without_gradients_and_keeps_calls_apart():
    rnn = RNN(3, 4)
    with torch.no_grad(), capture(rnn) as maps:
        rnn(torch.zeros(1, 2, 3))
        rnn(torch.zeros(1, 3, 3))
    assert len(maps["hidden.0"]) == 5 and len(maps[""]) == 2
