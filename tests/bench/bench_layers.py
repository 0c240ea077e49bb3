"""`make bench`: one training step of each of the course's layers beside PyTorch's own of equal size, and of its GPT
beside Hugging Face's; and how much a cache saves in writing.

Both run in turn in one process, on one thread and on the same input; what counts is the ratio of the medians.
The table goes to the screen, the numbers to build/bench.json.
"""

import json
import statistics
import time
from functools import partial
from pathlib import Path

import torch
from torch import nn

from course_lib.block import Block, Encoder
from course_lib.gpt import GPT
from course_lib.lstm import GRU, LSTM
from course_lib.rnn import RNN
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
# Batch, time, d_model, heads, layers, vocabulary: the plain recipe on the plays, a wider one, one with subwords.
GPTS = [(12, 64, 128, 4, 4, 65), (16, 128, 192, 6, 6, 65), (4, 256, 384, 6, 4, 1024)]
ROUNDS = 15
WRITTEN = 256  # tokens, with a cache and without


def seconds(step) -> float:
    began = time.perf_counter()
    step()
    return time.perf_counter() - began


def training_step(layer: nn.Module, x: torch.Tensor):
    def step():
        layer.zero_grad(set_to_none=True)
        out = layer(x)
        (out[0] if isinstance(out, tuple) else out).square().mean().backward()

    return step


def recorded_step(layer: nn.Module, x: torch.Tensor):
    def step():
        with capture(layer, "hidden.*", "*.weights"):
            training_step(layer, x)()

    return step


def compare(name: str, batch: int, length: int, d_in: int, d_hidden: int) -> dict:
    """A row of the table: milliseconds of PyTorch's layer, and how many times as fast ours is."""
    x = torch.randn(batch, length, d_in, requires_grad=True)  # as behind an embedding
    theirs, ours = LAYERS[name][0](d_in, d_hidden)
    steps = {"torch": training_step(theirs, x), "ours": training_step(ours, x), "recorded": recorded_step(ours, x)}
    taken = {kind: [] for kind in steps}
    for _ in range(ROUNDS):
        for kind, step in steps.items():
            taken[kind].append(seconds(step))
    median = {kind: statistics.median(times[2:]) for kind, times in taken.items()}
    return {
        "layer": name,
        "batch": batch,
        "time": length,
        "d_in": d_in,
        "d_hidden": d_hidden,
        "torch_ms": 1e3 * median["torch"],
        "speed": median["torch"] / median["ours"],
        "speed_recorded": median["torch"] / median["recorded"],
    }


def hugging_faces(length: int, d_model: int, n_heads: int, n_layers: int, vocab_size: int) -> nn.Module:
    """Their GPT-2, without dropout and without the cache that no training reads."""
    from transformers import GPT2Config, GPT2LMHeadModel

    sizes = {"vocab_size": vocab_size, "n_positions": length, "n_embd": d_model, "n_head": n_heads, "n_layer": n_layers}
    off = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0, "bos_token_id": None, "eos_token_id": None}
    return GPT2LMHeadModel(GPT2Config(**sizes, **off, use_cache=False)).train()


def next_token_step(model: nn.Module, ids: torch.Tensor):
    def step():
        model.zero_grad(set_to_none=True)
        out = model(ids)
        logits = out if isinstance(out, torch.Tensor) else out.logits
        nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten()).backward()

    return step


def compare_gpts(batch: int, length: int, d_model: int, n_heads: int, n_layers: int, vocab_size: int) -> dict:
    """Tokens a second in training of Hugging Face's GPT-2, how many times as fast ours is, and what a cache saves."""
    theirs = hugging_faces(max(length, WRITTEN + 1), d_model, n_heads, n_layers, vocab_size)
    ours, ids = GPT.from_hf(theirs), torch.randint(vocab_size, (batch, length))
    steps = {"theirs": next_token_step(theirs, ids), "ours": next_token_step(ours, ids)}
    taken = {kind: [] for kind in steps}
    for _ in range(ROUNDS):
        for kind, step in steps.items():
            taken[kind].append(seconds(step))
    median = {kind: statistics.median(times[2:]) for kind, times in taken.items()}
    write = partial(ours.generate, [[0]], WRITTEN, temperature=0)
    again, cached = (min(seconds(partial(write, cache=cache)) for _ in range(3)) for cache in (False, True))
    return {
        "model": "GPT",
        "batch": batch,
        "time": length,
        "d_model": d_model,
        "n_layers": n_layers,
        "vocab_size": vocab_size,
        "hf_tokens_per_second": ids.numel() / median["theirs"],
        "speed": median["theirs"] / median["ours"],
        "speed_cached": again / cached,
    }


def main() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    rows = [compare(name, *size) for name, (_, sizes) in LAYERS.items() for size in sizes]
    print("Speed relative to torch: above 1 is faster. `recorded`: step by step, while capture() listens.")
    print("d_in, d_hidden of an encoder: its d_model and d_ff; it has two layers.")
    print("layer    batch  time  d_in  d_hidden   torch, ms    ours   recorded")
    for r in rows:
        sizes = f"{r['batch']:5}  {r['time']:4}  {r['d_in']:4}  {r['d_hidden']:8}"
        print(f"{r['layer']:7}  {sizes}   {r['torch_ms']:9.1f}   {r['speed']:5.2f}      {r['speed_recorded']:5.2f}")
    gpts = [compare_gpts(*size) for size in GPTS]
    print(f"\nIn training relative to Hugging Face's GPT-2; the cache relative to none, one text of {WRITTEN} tokens.")
    print("model    batch  time  d_model  layers  vocabulary   theirs, tokens/s    ours   cache")
    for r in gpts:
        sizes = f"{r['batch']:5}  {r['time']:4}  {r['d_model']:7}  {r['n_layers']:6}  {r['vocab_size']:10}"
        print(f"GPT      {sizes}   {r['hf_tokens_per_second']:16.0f}   {r['speed']:5.2f}   {r['speed_cached']:5.1f}")
    rows += gpts
    out = Path(__file__).resolve().parents[2] / "build" / "bench.json"
    out.parent.mkdir(exist_ok=True)
    out.write_text(json.dumps({"torch": torch.__version__, "rows": rows}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
