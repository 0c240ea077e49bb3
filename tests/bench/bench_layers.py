"""`python tests/bench/bench_layers.py`: a training step of each of the course's layers beside PyTorch's fused one.

Equal size, equal weights, equal input. The ratio is PyTorch's time over ours: above 1, ours is faster. `recorded`: ours
step by step, while capture() listens. d_in, d_hidden of an encoder: its d_model and d_ff; it has two layers.
"""

from functools import partial

import torch
from side_by_side import begin, in_turns, store, table
from torch import Tensor, nn

from course_lib.attention.block import Block, Encoder
from course_lib.recurrent.lstm import GRU, LSTM
from course_lib.recurrent.rnn import RNN
from course_lib.show.record import capture


def recurrent(torchs: type[nn.RNNBase], course: type, d_in: int, d_hidden: int) -> tuple[nn.Module, nn.Module]:
    """PyTorch's layer and ours, of equal weights."""
    theirs = torchs(d_in, d_hidden, batch_first=True)
    return theirs, course.from_torch(theirs)


def encoders(d_model: int, d_ff: int) -> tuple[nn.Module, nn.Module]:
    """PyTorch's encoder of two layers with heads 16 to 64 wide, and ours, of equal weights."""
    n_heads = max(4, d_model // 64)
    layer = nn.TransformerEncoderLayer(d_model, n_heads, d_ff, dropout=0.0, batch_first=True)
    theirs = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    ours = Encoder(d_model, n_heads, 2, d_ff=d_ff)
    ours.blocks = nn.ModuleList(map(Block.from_torch, theirs.layers))
    return theirs, ours


# Batch, time, d_in, d_hidden: the lesson's character model, a small and a large one.
SIZES = [(128, 32, 64, 256), (32, 64, 32, 64), (32, 128, 256, 512)]
# Batch, time, d_model, d_ff: a translator of dates, a longer text, the width of the paper's base model.
ENCODERS = [(64, 20, 64, 256), (16, 128, 256, 1024), (4, 256, 512, 2048)]
LAYERS = {
    "RNN": (partial(recurrent, nn.RNN, RNN), SIZES),
    "LSTM": (partial(recurrent, nn.LSTM, LSTM), SIZES),
    "GRU": (partial(recurrent, nn.GRU, GRU), SIZES),
    "Encoder": (encoders, ENCODERS),
}


def output(layer: nn.Module, x: Tensor) -> Tensor:
    out = layer(x)
    return out[0] if isinstance(out, tuple) else out


def training_step(layer: nn.Module, x: Tensor) -> None:
    layer.zero_grad(set_to_none=True)
    output(layer, x).square().mean().backward()


def recorded_step(layer: nn.Module, x: Tensor) -> None:
    with capture(layer, "hidden.*", "*.weights"):
        training_step(layer, x)


def compare(name: str, size: tuple[int, int, int, int], device: torch.device) -> dict:
    """A row of the table: milliseconds of PyTorch's layer, and how many times as fast ours is."""
    batch, length, d_in, d_hidden = size
    x = torch.randn(batch, length, d_in, device=device, requires_grad=True)  # as behind an embedding
    theirs, ours = (layer.to(device) for layer in LAYERS[name][0](d_in, d_hidden))
    torch.testing.assert_close(output(ours, x), output(theirs, x), rtol=1e-3, atol=1e-4)
    steps = {"torch": (training_step, theirs), "ours": (training_step, ours), "recorded": (recorded_step, ours)}
    took = in_turns({kind: partial(step, layer, x) for kind, (step, layer) in steps.items()}, device)
    return {
        "layer": name,
        "batch": batch,
        "time": length,
        "d_in": d_in,
        "d_hidden": d_hidden,
        "torch, ms": 1e3 * took["torch"],
        "ours": took["torch"] / took["ours"],
        "recorded": took["torch"] / took["recorded"],
    }


def main() -> None:
    device = begin()
    rows = [compare(name, size, device) for name, (_, sizes) in LAYERS.items() for size in sizes]
    table(f"A training step beside PyTorch's fused layers, on {device}: times as fast as theirs", rows)
    store("layers", rows, device)


if __name__ == "__main__":
    main()
