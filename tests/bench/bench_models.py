"""`python tests/bench/bench_models.py`: our GPT, BERT and ViT beside Hugging Face's, in training and in reading.

Equal sizes, weights, input and loss (`model_pairs.py`); theirs with sdpa, no dropout, no cache, float32. infer: the
logits without gradients. train: forward, loss, backward. step: that and AdamW(fused=True). Ratios are their time over
ours: above 1, ours is faster. BERT is there twice: "ours" reads out the masked places alone, "ours, all places" every
place, as theirs does.
"""

import torch
from model_pairs import THEIRS, Side, pairs
from side_by_side import begin, in_turns, store, table


def whole_step(side: Side):
    """A training step with its optimiser; at a rate so small that the sides stay equal."""
    optimiser = torch.optim.AdamW(side.model.parameters(), lr=1e-6, fused=True)

    def step():
        side.train()
        optimiser.step()

    return step


def compare(pair, device: torch.device) -> list[dict]:
    """A row for each side that is ours."""
    for side in pair.sides.values():
        side.model.eval()
    took = {"infer": in_turns({name: side.infer for name, side in pair.sides.items()}, device, 1.0)}
    for side in pair.sides.values():
        side.model.train()
    took["train"] = in_turns({name: side.train for name, side in pair.sides.items()}, device, 3.0)
    took["step"] = in_turns({name: whole_step(side) for name, side in pair.sides.items()}, device, 3.0)
    theirs = {job: times.pop(THEIRS) for job, times in took.items()}
    return [
        {"model": pair.name, "side": name, **pair.sizes, "their tokens/s, train": pair.tokens / theirs["train"]}
        | {job: theirs[job] / times[name] for job, times in took.items()}
        for name in took["train"]
    ]


def main() -> None:
    device = begin()
    rows = [row for pair in pairs(device) for row in compare(pair, device)]
    table(f"GPT, BERT, ViT on {device}: times as fast as Hugging Face's (sdpa)", rows)
    store("models", rows, device)


if __name__ == "__main__":
    main()
