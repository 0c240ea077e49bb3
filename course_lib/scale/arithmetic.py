"""What a training costs, before it is run: weights, work, memory, days.

Shapes: N weights, V vocabulary, T tokens of a row, B rows, D d_model, H heads, F d_ff, L layers. Units: FLOPs, a
multiplication and an addition are two; bytes.
"""

import re
from dataclasses import dataclass

from torch import nn

# Dense bf16 (V100: fp16) products with float32 sums, FLOPs a second, as NVIDIA's data sheets say, without sparsity.
PEAKS = {
    "H200 NVL": 835e12, "H200": 989e12, "H100 NVL": 835e12, "H100 PCIe": 756e12, "H100": 989e12, "A100": 312e12,
    "A10G": 70e12, "L40S": 362e12, "L4": 121e12, "RTX 4090": 165e12, "RTX 3090": 71e12, "T4": 65e12, "V100": 125e12,
}  # fmt: skip
LESS = r"(?! (?:Laptop|D|Ti|SUPER)\b)(?!.* MIG\b)"  # chips of the same number that can do less, or more; parts of one


@dataclass(frozen=True)
class Shape:
    """What the costs of a model of blocks follow from.

    idle: weights that a token does not multiply, on average. d_model: of attention, heads times their width. length:
    places that attention looks at, on average.
    """

    weights: int
    idle: float
    d_model: int
    n_layers: int
    length: float


def shape_of(model: nn.Module, n_layers: int, d_model: int, length: float, read_out: float = 1.0) -> Shape:
    """The `Shape` of a model that computes scores at a share `read_out` of its places.

    Tables of embeddings are only looked up, but for one that is the read-out once more. A head that reads one place is
    counted as if it read all, which is one or two parts in a hundred too many.
    """
    tables = [part.weight.numel() for part in model.modules() if isinstance(part, nn.Embedding)]
    read_out_is_a_table = not any(
        isinstance(part, nn.Linear) and part.out_features == max((t // d_model for t in tables), default=0)
        for part in model.modules()
    )
    idle = sum(tables) - (read_out * max(tables, default=0) if read_out_is_a_table else 0)
    return Shape(sum(p.numel() for p in model.parameters()), idle, d_model, n_layers, length)


def flops_per_token(shape: Shape) -> float:
    """6 (N - idle) + 12 L D T: one step, there and back (Chowdhery et al., 2022, appendix B).

    Each weight multiplies and adds once on the way there and twice on the way back; each of T queries meets T keys and
    T values of width D, though a causal model throws half of it away.
    """
    return 6 * (shape.weights - shape.idle) + 12 * shape.n_layers * shape.d_model * shape.length


def peak_of(name: str) -> float | None:
    """FLOPs a second that the maker of the device of this name says, or None where this list does not know it."""
    return next((peak for chip, peak in PEAKS.items() if re.search(rf"\b{chip}\b{LESS}", name)), None)


def state_bytes(weights: int, processes: int = 1) -> float:
    """Weights, gradients and moments in float32, on each of so many processes that share them out (FSDP).

    AdamW keeps two moments a weight, 16 bytes a weight in all (Rajbhandari et al., 2020, section 3.1, count as much for
    half precision); Muon keeps one, so 12 for a weight of its matrices.
    """
    return 16 * weights / processes


def block_bytes(rows: int, length: int, d_model: int, d_ff: int, heads: int, wide: int = 4, gated=False) -> int:
    """What one `Block` with GELU keeps of a forward pass for the way back, `wide` bytes a number.

        B T (8 D + 2 F) numbers, and B T (H + 4) in float32;   gated, as in `Decoder`: B T (11 D + 4 F)

    Each of two norms keeps what it reads and what it writes: 4 D; q, k, v and what attention gives: 4 D; F before and
    behind the activation. In float32 a norm keeps mean and spread, the kernel of attention a number for each head. A
    model that writes the weights of attention out keeps B H T^2 besides (Korthikanti et al., 2022, section 4.1).
    wide=2 is for what FSDP computes in bf16; under autocast sums stay in float32 and products keep copies, a quarter
    more for a `Block`, a third for a gated one.
    """
    numbers = 11 * d_model + 4 * d_ff if gated else 8 * d_model + 2 * d_ff
    return rows * length * (wide * numbers + 4 * (heads + 4))


def read_out_bytes(rows: int, length: int, vocabulary: int) -> int:
    """What the loss keeps: B T V numbers in float32, the logarithm of each token's probability at each place."""
    return 4 * rows * length * vocabulary


def recomputed_bytes(rows: int, length: int, d_model: int, layers: int, block: int, wide: int = 4) -> int:
    """What is kept where blocks are computed again: what stands before each, and one `block` whole, on its way back."""
    return layers * wide * rows * length * d_model + block


def days(flops: float, chips: int, peak: float, utilisation: float) -> float:
    """How long so many FLOPs take on so many chips, of whose peak a share is used."""
    return flops / (chips * peak * utilisation) / 86_400
