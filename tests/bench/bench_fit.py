"""`python tests/bench/bench_fit.py`: what `fit` adds to a bare loop that takes the same steps.

Same first weights, batches, AdamW, clipping, cosine and precision; both must end at the same loss. fit also keeps
losses, gradient norms and rates, looks for what is not finite, and can be interrupted. adds: fit's time over the bare
loop's, less 1. "fused": the bare loop once more with AdamW(fused=True), its time over the bare loop's.
"""

import math
from contextlib import nullcontext
from functools import partial
from itertools import islice

import torch
from side_by_side import begin, in_turns, store, table
from torch import nn

from course_lib.language.gpt import GPT, GPTConfig
from course_lib.language.next_token import next_token_loss, windows
from course_lib.train import cosine, fit

STEPS, LR, VOCAB = 10, 1e-3, 65
# Batch, time, d_model, heads, layers: a toy, where each call is felt, and the plain recipe on the plays.
SIZES = [(8, 32, 64, 4, 2), (12, 64, 128, 4, 4)]


def bare(model: nn.Module, batches: list, device: torch.device, fused: bool | None = None) -> float:
    """The loop as one writes it; returns the last loss."""
    optimiser = torch.optim.AdamW(model.parameters(), lr=LR, weight_decay=0.0, fused=fused)
    bf16 = device.type == "cuda" and torch.cuda.is_bf16_supported()
    model.train()
    for step, batch in enumerate(batches):
        for group in optimiser.param_groups:
            group["lr"] = LR * cosine(step, STEPS)
        with torch.autocast(device.type, torch.bfloat16) if bf16 else nullcontext():
            loss = next_token_loss(model, batch.to(device))
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
    return loss.item()


def fitted(model: nn.Module, batches: list, device: torch.device) -> float:
    return fit(model, batches, next_token_loss, steps=STEPS, lr=LR, device=device, progress=False).loss[-1]


def compare(batch: int, T: int, d_model: int, n_heads: int, n_layers: int, device: torch.device) -> dict:
    """A row of the table."""
    batches = list(islice(windows(torch.randint(VOCAB, (10_000,)), batch, T), STEPS))
    model = GPT(GPTConfig(VOCAB, T, d_model, n_heads, n_layers)).to(device)
    first = {name: value.clone() for name, value in model.state_dict().items()}

    def run(loop) -> float:
        model.load_state_dict(first)  # so that every run is the same run; takes next to no time
        return loop(model, batches, device)

    loops = {"bare": bare, "fit": fitted, "fused": partial(bare, fused=True)}
    losses = {name: run(loop) for name, loop in loops.items()}
    assert all(math.isclose(loss, losses["bare"], rel_tol=1e-2) for loss in losses.values()), losses
    took = in_turns({name: partial(run, loop) for name, loop in loops.items()}, device, budget=15.0)
    return {
        "batch": batch,
        "time": T,
        "d_model": d_model,
        "layers": n_layers,
        "bare, ms a step": 1e3 * took["bare"] / STEPS,
        "fit adds": f"{took['fit'] / took['bare'] - 1:.1%}",
        "fused": took["fused"] / took["bare"],
    }


def main() -> None:
    device = begin()
    rows = [compare(*size, device) for size in SIZES]
    table(f"`fit` beside a bare loop of {STEPS} steps on {device}", rows)
    store("fit", rows, device)


if __name__ == "__main__":
    main()
