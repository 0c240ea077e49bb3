"""What a training costs, before it is run: weights, work, memory, days.

Shapes: N weights, V vocabulary, T tokens per row, B rows, D d_model, H heads, F d_ff, L layers. Units: FLOPs, where a
multiplication and an addition are two; bytes.
"""

import re
from dataclasses import dataclass

from torch import nn

# Dense bf16 (V100: fp16) products with float32 sums, FLOPs per second, from NVIDIA's data sheets, without sparsity.
PEAKS = {
    "H200 NVL": 835e12, "H200": 989e12, "H100 NVL": 835e12, "H100 PCIe": 756e12, "H100": 989e12, "A100": 312e12,
    "A10G": 70e12, "L40S": 362e12, "L4": 121e12, "RTX 4090": 165e12, "RTX 3090": 71e12, "T4": 65e12, "V100": 125e12,
}  # fmt: skip
OTHERS = r"(?! (?:Laptop|D|Ti|SUPER)\b)(?!.* MIG\b)"  # chips of the same number that do less or more; parts of one


@dataclass(frozen=True)
class Shape:
    """What the costs of a model of blocks follow from.

    idle: weights that a token does not multiply, on average. d_model: of attention, heads times their width. length:
    positions that a token attends to, on average.
    """

    weights: int
    idle: float
    d_model: int
    n_layers: int
    length: float


def shape_of(model: nn.Module, n_layers: int, d_model: int, length: float, read_out: float = 1.0) -> Shape:
    """The `Shape` of a model that computes scores at a share `read_out` of its positions.

    Tables of embeddings are only looked up, except for one that is tied to the read-out.
    """
    tables = [part.weight.numel() for part in model.modules() if isinstance(part, nn.Embedding)]
    largest = max(tables, default=0)
    tied = not any(isinstance(part, nn.Linear) and part.out_features == largest // d_model for part in model.modules())
    idle = sum(tables) - (read_out * largest if tied else 0)
    return Shape(sum(p.numel() for p in model.parameters()), idle, d_model, n_layers, length)


def flops_per_token(shape: Shape) -> float:
    """6 (N - idle) + 12 L D T: one step, forward and backward (Chowdhery et al., 2022, appendix B).

    Each weight multiplies and adds once in the forward pass and twice in the backward pass; each of T queries meets T
    keys and T values of width D, though a causal model throws half of that away.
    """
    return 6 * (shape.weights - shape.idle) + 12 * shape.n_layers * shape.d_model * shape.length


def peak_of(name: str) -> float | None:
    """FLOPs per second that the maker of a device of this name states, or None for one that is not in `PEAKS`."""
    return next((peak for chip, peak in PEAKS.items() if re.search(rf"\b{chip}\b{OTHERS}", name)), None)


def state_bytes(weights: int, processes: int = 1) -> float:
    """Weights, gradients and AdamW's two moments in float32, on each of so many processes that share them out (FSDP).

    Muon keeps one moment: 12 bytes per weight of its matrices instead of 16.
    """
    return 16 * weights / processes


def block_bytes(rows: int, length: int, d_model: int, d_ff: int, heads: int, wide: int = 4, gated=False) -> int:
    """What one `Block` with GELU keeps of a forward pass for the backward pass, with `wide` bytes per number.

        B T (8 D + 2 F) numbers, and B T (H + 4) in float32;   gated, as in `Decoder`: B T (11 D + 4 F)

    Two norms keep their inputs and outputs: 4 D; q, k, v and the output of attention: 4 D; F before and after the
    activation. In float32, a norm keeps mean and spread, and the attention kernel a number per head. wide=2 is for
    FSDP in bf16; autocast keeps a quarter more for a `Block`, a third for a gated one (Korthikanti et al., 2022).
    """
    numbers = 11 * d_model + 4 * d_ff if gated else 8 * d_model + 2 * d_ff
    return rows * length * (wide * numbers + 4 * (heads + 4))


def read_out_bytes(rows: int, length: int, vocabulary: int) -> int:
    """What the loss keeps: B T V numbers in float32, the log-probability of each token at each position."""
    return 4 * rows * length * vocabulary


def recomputed_bytes(rows: int, length: int, d_model: int, layers: int, block: int, wide: int = 4) -> int:
    """What is kept with `--recompute`: the input of each block, and one `block` whole."""
    return layers * wide * rows * length * d_model + block


def days(flops: float, chips: int, peak: float, utilisation: float) -> float:
    """How long so many FLOPs take on so many chips at a share of their peak."""
    return flops / (chips * peak * utilisation) / 86_400
