"""`python tests/bench/bench_memory.py`: the memory of one training step, ours and Hugging Face's, in megabytes.

The pairs are those of bench_models.py. On CUDA: the peak above what is there before the step (weights, inputs). On the
CPU: what autograd keeps from the forward pass for the backward pass, each storage counted once, weights left out. The
ratio is theirs over ours: above 1, ours needs less.
"""

import torch
from model_pairs import THEIRS, Side, pairs
from side_by_side import begin, store, table
from torch.autograd.graph import saved_tensors_hooks


def kept(side: Side) -> int:
    """Bytes of all storages that autograd keeps, but those of the weights."""
    weights, storages = {p.untyped_storage().data_ptr() for p in side.model.parameters()}, {}

    def note(saved: torch.Tensor) -> torch.Tensor:
        storage = saved.untyped_storage()
        if storage.data_ptr() not in weights:
            storages[storage.data_ptr()] = storage.nbytes()
        return saved

    with saved_tensors_hooks(note, lambda saved: saved):
        loss = side.loss()  # held until the count is done: what is kept cannot be given to others meanwhile
    bytes_kept = sum(storages.values())
    del loss
    return bytes_kept


def peak(side: Side) -> int:
    """Bytes at the highest point of a step on CUDA, above those before it; the second step, for the first sets up."""
    for _ in range(2):
        side.model.zero_grad(set_to_none=True)
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        side.train()
        torch.cuda.synchronize()
    found = torch.cuda.max_memory_allocated() - before
    side.model.zero_grad(set_to_none=True)
    return found


def main() -> None:
    device, rows = begin(), []
    measure, what = (peak, "at the peak of a step") if device.type == "cuda" else (kept, "kept for the backward pass")
    for pair in pairs(device):
        found = {name: measure(side) for name, side in pair.sides.items()}
        theirs = found.pop(THEIRS)
        for name, ours in found.items():
            sizes = {"model": pair.name, "side": name, **pair.sizes}
            rows.append(sizes | {"theirs, MB": theirs / 1e6, "ours, MB": ours / 1e6, "theirs / ours": theirs / ours})
    table(f"Memory on {device}, {what}", rows)
    store("memory", rows, device)


if __name__ == "__main__":
    main()
