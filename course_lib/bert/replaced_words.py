"""Replaced words: a generator puts other words into a text, and a discriminator says where it did. Lesson 16.

A model that fills in masked words is asked at 15 % of the positions. One that reads a whole text with some words
replaced can be asked at every position: "is this the word that stood here?" (ELECTRA; Clark et al., 2020, section 2).
Shapes: B batch, T tokens of a text, N positions that were chosen, V vocab_size, D d_model. Batch first, always. Masks
are boolean, True = a real token.
"""

from typing import NamedTuple

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor

from course_lib.attention.block import ACTIVATIONS
from course_lib.bert.bert import filled
from course_lib.bert.lean_bert import LeanBert, LeanBertConfig
from course_lib.inputs.sequences import visible
from course_lib.inputs.shapes import check_shapes
from course_lib.weights.lean_bert_weights import from_lean_bert


class Replaced(NamedTuple):
    """A batch for `replaced_loss`: ids (B, T), what is read; replaced bool (B, T), the answer; mask bool (B, T)."""

    ids: Tensor
    replaced: Tensor
    mask: Tensor | None = None


def draw_pieces(logits: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """One token for each position, sampled with its probability: logits (N, V) -> int64 (N,).

    argmax(logits + g), g = -log(-log u), u even between 0 and 1 (Gumbel, 1954): a sample from the softmax without
    computing it. The generator is on the logits' device.
    """
    check_shapes("draw_pieces", logits=(logits, "N V"))
    u = torch.rand(logits.shape, generator=generator, device=logits.device)
    return (logits.detach() - (-u.clamp(min=1e-9).log()).log()).argmax(dim=-1)


def replace(ids: Tensor, chosen: Tensor, drawn: Tensor, mask: Tensor | None = None) -> Replaced:
    """The text with the sampled tokens at the chosen positions: ids (B, T), chosen bool (B, T) with N True, drawn (N,).

    Where the sample is the original token, the text is as it was, and the answer is "not replaced" (Clark et al.,
    2020, section 2). Raises ValueError for another number of tokens than positions.
    """
    check_shapes("replace", ids=(ids, "int64 B T"), chosen=(chosen, "bool B T"), mask=(mask, "bool B T"))
    _check_drawn(chosen, drawn)
    read = ids.masked_scatter(chosen, drawn)
    return Replaced(read, read != ids, mask)


def replaced_loss(model: nn.Module, batch: Replaced) -> Tensor:
    """Nats per position: mean of -log p(replaced) where it was, -log(1 - p) where it was not, over all real positions.

    model: a `Discriminator`. Clark et al. (2020), section 2. 0 for no real position at all. For `fit`.
    """
    scores = model(batch.ids, None, batch.mask)  # (B, T)
    loss = F.binary_cross_entropy_with_logits(scores, batch.replaced.to(scores.dtype), reduction="none")
    if batch.mask is None:
        return loss.mean()
    return (loss * batch.mask).sum() / batch.mask.sum().clamp(min=1)


class Discriminator(nn.Module):
    """Was this token put here by the generator? w f(h W + b) + c at each position (Clark et al., 2020, section 2).

    ids (B, T), segments and mask as for its `bert` -> logits (B, T): above 0 "replaced". Nothing of the size of the
    vocabulary is computed.
    """

    def __init__(self, bert: LeanBert):
        super().__init__()
        D = bert.config.d_model
        self.bert, self.activation = bert, ACTIVATIONS["gelu"]
        self.transform, self.readout = nn.Linear(D, D), nn.Linear(D, 1)

    def forward(self, ids: Tensor, segments: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
        return self.readout(self.activation(self.transform(self.bert(ids, segments, mask)))).squeeze(-1)

    @classmethod
    def from_hf(cls, model: nn.Module) -> "Discriminator":
        """Ours with the weights of Hugging Face's ElectraForPreTraining: the same logits.

        Raises TypeError for another model, ValueError for one that computes what ours does not.
        """
        sizes, weights = from_lean_bert(model, ("ElectraForPreTraining",))
        return filled(lambda sizes, _: cls(LeanBert(LeanBertConfig(**sizes))), sizes, weights).train(model.training)


def _check_drawn(chosen: Tensor, drawn: Tensor) -> None:
    if visible(chosen) and int(chosen.sum()) != len(drawn):
        raise ValueError(f"There are {int(chosen.sum())} chosen places and {len(drawn)} pieces for them: one each.")
