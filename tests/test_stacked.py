"""recurrent/stacked.py, through LSTM and GRU, against torch.nn: stacks, both directions, lengths, recording."""

import math

import numpy as np
import pytest
import torch
from parity import TOLERANCE
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from torch.testing import assert_close

import course_lib.recurrent.stacked
from course_lib.recurrent.lstm import GRU, LSTM, lstm_cell
from course_lib.show.record import capture

PAIRS = [(LSTM, nn.LSTM), (GRU, nn.GRU)]
# Batch, time, d_in, d_hidden, n_layers, bidirectional: odd sizes, ones everywhere, stacks, both directions.
SHAPES = [
    (1, 1, 1, 1, 1, False),
    (3, 7, 5, 4, 1, True),
    (2, 1, 3, 6, 2, False),
    (1, 13, 2, 9, 3, True),
    (5, 4, 8, 1, 2, True),
    (4, 6, 3, 5, 2, False),
]


def pair_of(state):
    return state if isinstance(state, tuple) else (state,)


def random_state(layer, b, h, n, dtype):
    parts = tuple(torch.randn(n, b, h, dtype=dtype) for _ in range(2 if isinstance(layer, LSTM) else 1))
    return parts if len(parts) == 2 else parts[0]


def gradients(out, last, x, state, weights):
    g = torch.Generator().manual_seed(7)
    cotangent = torch.randn(out.shape, generator=g, dtype=out.dtype)
    loss = (out * cotangent).sum() + sum(part.square().sum() for part in pair_of(last))
    return torch.autograd.grad(loss, [x, *pair_of(state), *weights])


@pytest.mark.parametrize("ours_type, theirs_type", PAIRS)
@pytest.mark.parametrize("b, t, d, h, layers, both", SHAPES)
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_layers_agree_with_torch_in_values_and_gradients(ours_type, theirs_type, b, t, d, h, layers, both, dtype):
    theirs = theirs_type(d, h, layers, batch_first=True, bidirectional=both, dtype=dtype)
    ours = ours_type.from_torch(theirs)
    x, state = torch.randn(b, t, d, dtype=dtype), random_state(ours, b, h, layers * (1 + both), dtype)
    results = []
    for run, weights in ((theirs, theirs.parameters()), (ours, ours.parameters()), (ours.loop, ours.parameters())):
        x1, s1 = x.clone().requires_grad_(), tuple(part.clone().requires_grad_() for part in pair_of(state))
        out, last = run(x1, s1 if len(s1) == 2 else s1[0])
        assert out.shape == (b, t, h * (1 + both))
        assert all(part.shape == (layers * (1 + both), b, h) for part in pair_of(last))
        results.append([out, *pair_of(last), *gradients(out, last, x1, s1, list(weights))])
    for mine in results[1:]:
        for one, other in zip(mine, results[0], strict=True):
            assert_close(one, other, atol=TOLERANCE[dtype], rtol=TOLERANCE[dtype])


@pytest.mark.slow
@pytest.mark.parametrize("ours_type, theirs_type", PAIRS)
@pytest.mark.parametrize("both", [False, True])
def test_padding_changes_nothing(ours_type, theirs_type, both):
    theirs = theirs_type(3, 4, 2, batch_first=True, bidirectional=both, dtype=torch.float64)
    ours = ours_type.from_torch(theirs)
    lengths, x = torch.tensor([6, 1, 4, 6, 3]), torch.randn(5, 6, 3, dtype=torch.float64)
    state = random_state(ours, 5, 4, 2 * (1 + both), torch.float64)
    packed, expected_last = theirs(pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False), state)
    expected = pad_packed_sequence(packed, batch_first=True)[0]
    real = torch.arange(6) < lengths[:, None]
    other = torch.where(real[..., None], x, 100 * torch.randn_like(x))  # other padding, and much louder
    for run in (ours, ours.loop):
        for padded in (x, other):
            out, last = run(padded, state, lengths)
            assert_close(out, expected, atol=1e-10, rtol=0)
            for one, two in zip(pair_of(last), pair_of(expected_last), strict=True):
                assert_close(one, two, atol=1e-10, rtol=0)
            assert out[~real].abs().max() == 0
        quiet = x.clone().requires_grad_()
        run(quiet, state, lengths)[0].sum().backward()
        assert quiet.grad[~real].abs().max() == 0
        for row, length in enumerate(lengths):  # alone and unpadded, each sequence gives the same
            parts = tuple(part[:, row : row + 1] for part in pair_of(state))
            alone = run(x[row : row + 1, :length], parts if len(parts) == 2 else parts[0])[0]
            assert_close(out[row : row + 1, :length], alone, atol=1e-10, rtol=0)


@pytest.mark.parametrize("ours_type, _", PAIRS)
@pytest.mark.parametrize("lengths", [[0, 3, 2], [0, 0, 0]])
def test_an_empty_sequence_keeps_its_state_and_puts_out_zeros(ours_type, _, lengths):
    layer = ours_type(3, 4, bidirectional=True).double()
    x, state = torch.randn(3, 3, 3).double(), random_state(layer, 3, 4, 2, torch.float64)
    for run in (layer, layer.loop):
        out, last = run(x, state, torch.tensor(lengths))
        assert out[0].abs().max() == 0
        for one, start in zip(pair_of(last), pair_of(state), strict=True):
            assert_close(one[:, 0], start[:, 0])
    assert_close(layer(x, state, torch.tensor(lengths))[0], layer.loop(x, state, torch.tensor(lengths))[0])


@pytest.mark.parametrize("ours_type, theirs_type", PAIRS)
def test_pytorchs_weights_are_copied(ours_type, theirs_type):
    theirs = theirs_type(3, 4, 2, bidirectional=True, batch_first=True, dtype=torch.float64)
    ours = ours_type.from_torch(theirs)
    x = torch.randn(2, 5, 3, dtype=torch.float64)
    assert torch.equal(ours(x)[0], theirs(x)[0])
    assert ours.fused.weight_hh_l0.data_ptr() != theirs.weight_hh_l0.data_ptr()
    bare = theirs_type(3, 4, bias=False)  # time first and without biases
    x = torch.randn(6, 2, 3)
    assert_close(ours_type.from_torch(bare)(x.transpose(0, 1))[0].transpose(0, 1), bare(x)[0])


@pytest.mark.parametrize("ours_type, _", PAIRS)
def test_recording_runs_the_loop_and_hears_every_part(ours_type, _):
    layer, x = ours_type(3, 4, 2, bidirectional=True).double(), torch.randn(2, 6, 3).double()
    silent = layer(x)[0]
    with capture(layer, *(f"{name}.*" for name in layer.traced)) as maps:
        out, last = layer(x)
        out.sum().backward()
    assert_close(out, silent, atol=1e-12, rtol=0)
    assert set(maps) == {f"{name}.{place}" for name in layer.traced for place in ("0", "0_reverse", "1", "1_reverse")}
    top = torch.cat([maps.over_time("hidden.1"), maps.over_time("hidden.1_reverse").flip(1)], dim=-1)
    assert_close(top, out.detach(), atol=0, rtol=0)
    for name in layer.traced:
        assert maps.over_time(f"{name}.0").shape == (2, 6, 4)
        assert maps.grad(f"{name}.0").abs().max() > 0
    if ours_type is LSTM:
        i, f, o, g, c = (maps.over_time(f"{name}.0") for name in layer.traced[:5])
        before = torch.cat([torch.zeros(2, 1, 4).double(), c[:, :-1]], dim=1)
        assert_close(lstm_cell(before, i, f, o, g)[1], c)


@pytest.mark.parametrize("ours_type, _", PAIRS)
def test_no_gradient_from_the_future_but_backwards_there_is(ours_type, _):
    for both in (False, True):
        x = torch.randn(2, 9, 3).requires_grad_()
        ours_type(3, 4, bidirectional=both)(x)[0][:, 4].sum().backward()
        assert (x.grad[:, 5:].abs().max() > 0) == both
        assert x.grad[:, :5].abs().amin((0, 2)).min() > 0


def test_starts_orthogonal_gate_by_gate():
    for part in LSTM(3, 8).double().weights()[1].T.split(8):
        assert_close(torch.linalg.svdvals(part), torch.ones(8).double(), atol=1e-6, rtol=0)


@pytest.mark.slow
@pytest.mark.parametrize("ours_type, _", PAIRS)
def test_learns_one_batch_by_heart(ours_type, _):
    torch.manual_seed(0)
    layer, readout = ours_type(4, 16), nn.Linear(16, 4)
    tokens = torch.randint(4, (8, 12))
    x, y = nn.functional.one_hot(tokens[:, :-1], 4).float(), tokens[:, 1:]
    optimiser = torch.optim.AdamW([*layer.parameters(), *readout.parameters()], lr=3e-2)
    for _ in range(300):
        loss = nn.functional.cross_entropy(readout(layer(x)[0]).flatten(0, 1), y.flatten())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    assert loss < 0.4, f"chance is {math.log(4):.2f} nats; the first step, which sees one symbol, cannot reach 0"


@pytest.mark.parametrize("ours_type, _", PAIRS)
def test_bad_input_is_refused_in_words(ours_type, _):
    for run in (ours_type(3, 4), ours_type(3, 4).loop):
        with pytest.raises(ValueError, match=r"x \(batch, time, 3\), not empty; got \(2, 5, 4\)"):
            run(torch.zeros(2, 5, 4))
        with pytest.raises(TypeError, match="embed token ids first"):
            run(torch.zeros(2, 5, 3, dtype=torch.int64))


def test_bad_states_lengths_and_layers_are_refused_in_words():
    x = torch.zeros(5, 6, 3)
    with pytest.raises(TypeError, match=r"2 states \(h, c\); got 1"):
        LSTM(3, 4)(x, torch.zeros(1, 5, 4))
    with pytest.raises(ValueError, match=r"state_0 \(4, batch, 4\), not empty; got"):
        GRU(3, 4, 2, bidirectional=True)(x, torch.zeros(2, 5, 4))
    for lengths in (torch.tensor([1, 2, 3, 4, 7]), torch.tensor([1, 2, 3])):
        with pytest.raises(ValueError, match="from 0 to 6 for each of 5"):
            LSTM(3, 4)(x, None, lengths)
    with pytest.raises(ValueError, match="proj_size=2"):
        LSTM.from_torch(nn.LSTM(3, 4, proj_size=2))
    with pytest.raises(TypeError, match=r"torch.nn.GRU; got LSTM"):
        GRU.from_torch(nn.LSTM(3, 4))


@pytest.mark.parametrize("ours_type, _", PAIRS)
def test_lengths_may_be_a_list_and_may_lie_where_they_are_not_looked_at(ours_type, _, monkeypatch):
    """On a device the layer goes step by step; here it is told that it must not look."""
    layer, x = ours_type(3, 4, 2, bidirectional=True).double(), torch.randn(4, 6, 3).double().requires_grad_()
    results = []
    for lengths, seen in (([6, 0, 3, 5], True), (np.array([6, 0, 3, 5]), True), (torch.tensor([6, 0, 3, 5]), False)):
        monkeypatch.setattr(course_lib.recurrent.stacked, "visible", lambda _, seen=seen: seen)
        monkeypatch.setattr(layer.fused, "forward", layer.fused.forward if seen else None)  # None: not to be called
        out, last = layer(x, None, lengths)
        grads = torch.autograd.grad(out.square().sum() + sum(p.sum() for p in pair_of(last)), [x, *layer.parameters()])
        results.append([out, *pair_of(last), *grads])
    for one, two, three in zip(*results, strict=True):
        assert torch.equal(one, two)
        assert_close(one, three, atol=1e-12, rtol=1e-10)


@pytest.mark.parametrize("ours_type, _", PAIRS)
def test_packing_fetches_nothing(ours_type, _, monkeypatch):
    """On a device `.cpu()`, `.item()` and `.tolist()` of what lies there are waits; PyTorch's own unpacking has one."""

    def fetched(tensor, *_):
        raise AssertionError("a tensor was fetched")

    layer, x, lengths = ours_type(3, 4, 2, bidirectional=True), torch.randn(4, 6, 3), torch.tensor([3, 6, 0, 5])
    expected = layer.loop(x, None, lengths)[0]
    for name in ("cpu", "item", "tolist"):
        monkeypatch.setattr(torch.Tensor, name, fetched)
    found = layer(x, None, lengths)[0]
    found.sum().backward()
    monkeypatch.undo()
    assert_close(found, expected)


@pytest.mark.parametrize("ours_type, _", PAIRS)
def test_transforms_of_torch_func(ours_type, _):
    layer, x = ours_type(3, 4).double(), torch.randn(5, 6, 3).double()
    out = layer(x)[0]
    assert_close(torch.func.vmap(lambda one: layer(one[None])[0][0])(x), out)
    lengths = torch.tensor([6, 0, 3, 5, 1])
    assert_close(
        torch.func.vmap(lambda one, n: layer(one[None], None, n[None])[0][0])(x, lengths), layer(x, None, lengths)[0]
    )
    weights = dict(layer.named_parameters())
    double = {name: 2 * weight.detach() for name, weight in weights.items()}
    many = {name: torch.stack([weight.detach(), double[name]]) for name, weight in weights.items()}
    found = torch.func.vmap(lambda some: torch.func.functional_call(layer, some, (x,))[0])(many)
    assert_close(found[0], out)
    assert_close(found[1], torch.func.functional_call(layer, double, (x,))[0])
    slopes = torch.func.grad(lambda some: torch.func.functional_call(layer, some, (x,))[0].square().sum())(weights)
    out.square().sum().backward()
    for name, weight in weights.items():
        assert_close(slopes[name], weight.grad)
    assert_close(
        torch.func.jacrev(lambda x: layer(x)[0])(x), torch.autograd.functional.jacobian(lambda x: layer(x)[0], x)
    )


@pytest.mark.parametrize("ours_type, _", PAIRS)
@pytest.mark.parametrize("lengths", [None, [6, 0, 3]])
def test_under_autocast_on_the_cpu(ours_type, _, lengths):
    layer, x = ours_type(5, 7, 2, bidirectional=True), torch.randn(3, 6, 5)
    here = layer(x, None, lengths)[0]
    for run in (layer, layer.loop):
        for given in (x, x.bfloat16()):
            layer.zero_grad()
            with torch.autocast("cpu", torch.bfloat16):
                out = run(given, None, lengths)[0]
            out.float().sum().backward()
            assert_close(out.float(), here, atol=5e-2, rtol=5e-2)
            assert all(p.grad.isfinite().all() and p.grad.dtype == torch.float32 for p in layer.parameters())


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("ours_type, _", PAIRS)
def test_same_numbers_on_cuda_and_under_autocast(ours_type, _, monkeypatch):
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)  # its recurrent layers would keep 10 bits
    layer, x, lengths = ours_type(5, 7, 2, bidirectional=True), torch.randn(3, 6, 5), torch.tensor([6, 0, 3])
    here = layer(x, None, lengths)[0]
    layer = layer.cuda()
    for run in (layer, layer.loop):
        assert_close(run(x.cuda(), None, lengths)[0].cpu(), here, atol=1e-5, rtol=1e-5)
    with torch.autocast("cuda", torch.bfloat16):
        out = layer(x.cuda())[0]
    out.sum().backward()
    assert_close(out.float().cpu(), layer.cpu()(x)[0], atol=3e-2, rtol=3e-2)


@pytest.mark.parametrize("ours_type, _", PAIRS)
def test_what_padding_holds_does_not_come_through_on_a_device(ours_type, _, monkeypatch):
    layer, x = ours_type(3, 4), torch.randn(2, 4, 3)
    expected = layer(x, None, torch.tensor([4, 2]))[0]
    x[1, 2:] = torch.nan
    for module in (course_lib.recurrent.stacked, course_lib.inputs.sequences):
        monkeypatch.setattr(module, "visible", lambda _: False)
    assert_close(layer(x, None, torch.tensor([4, 2]))[0], expected)
