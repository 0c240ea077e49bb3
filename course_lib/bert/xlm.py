"""XLM: one encoder for many languages, and a sentence with its translation in one row. Lesson 14.

    h_0 = norm(E[token] + P[position] + L[language]),   p(token) = softmax(h E^T + c)
    (Conneau and Lample, 2019, section 3 and figure 1)

Every language has the same weights: one table of tokens, the same positions and blocks. Positions start again where the
language of a row changes. Shapes: B batch, T tokens of a row, S sentences, D d_model, V vocab_size. Batch first,
always. Masks are boolean, True = a real token.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor

from course_lib.bert.bert import Bert, BertConfig, filled, mean_state
from course_lib.inputs.sequences import token_ids
from course_lib.inputs.shapes import check_shapes
from course_lib.weights.bert_weights import check_class
from course_lib.weights.xlm_weights import from_xlm


class Row(NamedTuple):
    """What an `XLM` reads, lists of whole numbers of one length: tokens, the language of each, the position of each."""

    ids: list[int]
    languages: list[int]
    places: list[int]


def translation_row(source: Sequence[int], target: Sequence[int], start: int, sep: int) -> Row:
    """A sentence and its translation as one row, for translation language modelling (TLM).

    start x sep start y sep, languages 0 and 1; positions start again at the second `start`. Masked words of either
    sentence may be found in the other (Conneau and Lample, 2019).
    """
    first, second = [start, *source, sep], [start, *target, sep]
    languages = [0] * len(first) + [1] * len(second)
    return Row(first + second, languages, [*range(len(first)), *range(len(second))])


def places_of(languages: Tensor) -> Tensor:
    """The position of each token in its own sentence: (B, T) -> (B, T), 0 1 2 ..., from 0 again in each language."""
    at = torch.arange(languages.shape[1], device=languages.device).expand_as(languages)  # (B, T)
    changes = F.pad(languages[:, 1:] != languages[:, :-1], (1, 0))  # (B, T)
    return at - torch.where(changes, at, 0).cummax(dim=1).values


class XLM(Bert):
    """A `Bert` whose positions start again with each language, with the output layer of masked words.

    ids, languages (B, T), all 0 where None; mask bool (B, T) -> the states of the last layer (B, T, D). tell: whether a
    language embedding is added to each token (XLM); XLM-R leaves it out (Conneau et al., 2020, section 3).
    padding: the id of the padding token, in a copy of Hugging Face's model, which keeps their rules: without a mask a
    row is as long as it has other tokens, states at padding are zeros, and without languages no vector is added.
    config: its n_segments is the number of languages. `read_out` gives logits over all tokens of all languages.
    """

    def __init__(self, config: BertConfig, tell: bool = True, padding: int | None = None):
        super().__init__(config)
        self.tell, self.padding, self.bias = tell, padding, nn.Parameter(torch.zeros(config.vocab_size))
        if not tell:
            self.segments = None

    def places_of(self, languages: Tensor) -> Tensor:
        """Which row of the position table each token gets: (B, T) -> (B, T)."""
        return places_of(languages)

    def layers(self, ids: Tensor, languages: Tensor | None = None, mask: Tensor | None = None) -> list[Tensor]:
        """What every layer makes of the rows: h_0 ... h_L, each (B, T, D); arguments as for the model itself."""
        ids = token_ids("ids", ids, self.tokens, shortest=1)
        told = self.tell and (languages is not None or self.padding is None)
        languages = torch.zeros_like(ids) if languages is None else languages
        check_shapes("XLM", ids=(ids, "int B T"), languages=(languages, "int B T"), mask=(mask, "bool B T"))
        _check_length(self, ids)
        if mask is None and self.padding is not None:
            mask = torch.arange(ids.shape[1], device=ids.device) < (ids != self.padding).sum(dim=1, keepdim=True)
        x = self.tokens(ids) + self.places(self.places_of(languages))  # (B, T, D)
        if told:
            x = x + self.segments(token_ids("languages", languages, self.segments))
        found = [self.dropout(self.norm(x))]
        for block in self.blocks:
            found.append(block(found[-1], mask))
        return found if self.padding is None else [states * mask[..., None] for states in found]

    def read_out(self, states: Tensor) -> Tensor:
        """Logits by the table of tokens once more: (..., D) -> (..., V)."""
        return F.linear(states, self.tokens.weight, self.bias)

    @classmethod
    def from_hf(cls, model: nn.Module) -> "XLM":
        """Our XLM with the weights of Hugging Face's XLMWithLMHeadModel: the same logits.

        Theirs restarts its positions only if it is handed position_ids=places_of(languages). In training it may drop
        attention weights too, ours never does. Raises TypeError for another model, ValueError for one that computes
        what ours does not.
        """
        check_class("XLMWithLMHeadModel", model)
        sizes, tell, weights = from_xlm(model.config.to_dict(), model.state_dict())
        padding = model.transformer.pad_index
        return filled(lambda sizes, _: cls(BertConfig(**sizes), tell, padding), sizes, weights).train(model.training)


def sentence_vectors(model: XLM, ids: Tensor, languages: Tensor, mask: Tensor, layer: int = -1) -> Tensor:
    """The mean of the states of a layer at the real tokens of each row: (B, T) -> (B, D)."""
    return mean_state(model.layers(ids, languages, mask)[layer], mask)


def twins_found(here: Tensor, there: Tensor) -> Tensor:
    """Whether the nearest vector of the other language is the translation: here, there (S, D) -> bool (S,).

    Row i of both is the same sentence. Each language's mean is taken off first, for what all sentences of a language
    have in common says only which language it is (Libovický et al., 2020); nearest by cosine.
    """
    check_shapes("twins_found", here=(here, "S D"), there=(there, "S D"))
    here, there = (F.normalize(one - one.mean(dim=0), dim=1) for one in (here, there))  # (S, D)
    return (here @ there.mT).argmax(dim=1) == torch.arange(len(here), device=here.device)  # (S,)


def _check_length(model: XLM, ids: Tensor) -> None:
    if ids.shape[1] > model.max_len:
        raise ValueError(f"The row is {ids.shape[1]} tokens long, and this model was taught {model.max_len}: cut it.")
