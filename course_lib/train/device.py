"""Where a run computes and what it draws: device, seed, batches moved there."""

import os
import random

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence


def pick_device() -> torch.device:
    """The device to compute on: CUDA, else MPS, else CPU; the environment variable COURSE_DEVICE overrides.

    Raises ValueError when COURSE_DEVICE names no device of this machine.
    """
    wanted = os.environ.get("COURSE_DEVICE", "").strip().lower()
    counts = {"cpu": 1, "cuda": torch.cuda.device_count(), "mps": int(torch.backends.mps.is_available())}
    if not wanted:
        return torch.device(next(name for name in ("cuda", "mps", "cpu") if counts[name]))
    name, _, index = wanted.partition(":")
    if name not in counts or (index and not index.isdecimal()) or wanted.endswith(":"):
        raise ValueError(
            f"COURSE_DEVICE={wanted!r} is no device: set it to cpu, cuda, cuda:0 (or another number) "
            "or mps, or unset it."
        )
    if int(index or 0) >= counts[name]:
        raise ValueError(
            f"COURSE_DEVICE={wanted!r} asks for a device that PyTorch does not find here: it sees "
            f"{counts['cuda']} CUDA and {counts['mps']} MPS devices. Set it to cpu, or unset it."
        )
    return torch.device(wanted)


def course_seed() -> int:
    """The seed of this run of a lesson: the environment variable COURSE_SEED, else 0; ValueError for no number."""
    text = os.environ.get("COURSE_SEED", "0").strip() or "0"
    if not text.isdecimal() or int(text) >= 2**32:
        raise ValueError(f"COURSE_SEED={text!r} is no seed: set it to a whole number from 0 to {2**32 - 1}.")
    return int(text)


def seed_everything(seed: int | None = None) -> int:
    """Seed Python, NumPy and PyTorch; without an argument with the course's own seed.

    Returns the seed, so that a lesson can derive others from it. Raises ValueError for a seed that is no number.
    """
    seed = course_seed() if seed is None else seed
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    return seed


def to_device(batch, device: torch.device):
    """The same batch on `device`: a tensor, a packed sequence, or a tuple, named tuple, list or dict of such.

    Anything else comes back unchanged.
    """
    if isinstance(batch, Tensor | PackedSequence):
        return batch.to(device, non_blocking=device.type == "cuda")  # out of pinned memory it needs no waiting for
    if isinstance(batch, dict):
        return {key: to_device(value, device) for key, value in batch.items()}
    if isinstance(batch, tuple | list):
        moved = [to_device(value, device) for value in batch]
        return type(batch)(*moved) if hasattr(batch, "_fields") else type(batch)(moved)
    return batch
