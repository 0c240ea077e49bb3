"""What stands on a BERT: heads for masked words, next sentence, classes, tags, a span, a choice. Lesson 08.

Each is a small layer on the same encoder, and both are trained together: "fine-tuning" (Devlin et al., 2019, section 3
and figure 4). Every head holds its `bert` and reads ids, segments and mask, as that does.
Shapes: B batch, T pieces of a text, C choices, D d_model, V vocab_size, K classes. Batch first, always. Masks are
boolean, True = a real piece.
"""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor

from course_lib.attention.block import ACTIVATIONS
from course_lib.attention.norms import LayerNorm
from course_lib.bert.bert import Bert, BertConfig, begin, filled
from course_lib.inputs.sequences import visible
from course_lib.weights.bert_weights import check_class, from_bert


class Head(nn.Module):
    """A layer on a Bert: `readout`, D -> n_out, behind dropout. Each head below says what it reads.

    dropout: the Bert's own where None. sentences: how many it takes, 1 or 2; as they come where None. `from_hf` copies
    the model of Hugging Face's that `theirs` names. Raises ValueError, in words, for a number of sentences that was not
    asked for, and what `Bert` raises.
    """

    theirs = ""

    def __init__(self, bert: Bert, n_out: int, dropout: float | None = None, sentences: int | None = None):
        super().__init__()
        self.bert, self.sentences = bert, sentences
        self.dropout = nn.Dropout(bert.config.dropout if dropout is None else dropout)
        self.readout = nn.Linear(bert.config.d_model, n_out)
        begin(self.readout, bert.config.eps)

    def states(self, ids: Tensor, segments: Tensor | None, mask: Tensor | None) -> Tensor:
        """What the Bert makes of the texts, (B, T, D)."""
        _check_sentences(self, segments)
        return self.bert(ids, segments, mask)

    @classmethod
    def from_hf(cls, model: nn.Module) -> "Head":
        """Our head, with its Bert, with the weights of Hugging Face's: the same logits.

        Raises TypeError for another model, ValueError for one that computes what ours does not.
        """
        check_class(cls.theirs, model)
        c = model.config.to_dict()
        sizes, weights = from_bert(c, model.state_dict())
        sizes["pooler"] = "bert.pooler.weight" in weights
        dropout = c.get("classifier_dropout")
        return filled(
            lambda sizes, weights: cls._like(Bert(BertConfig(**sizes)), weights, dropout), sizes, weights
        ).train(model.training)

    @classmethod
    def _like(cls, bert: Bert, weights: dict[str, Tensor], dropout: float | None) -> "Head":
        """A head on `bert` that these weights fit."""
        return cls(bert, len(weights["readout.weight"]), dropout)


class Classifier(Head):
    """One of K classes for a text, or for a pair (Devlin et al., 2019, figure 4a and b): ids (B, T) -> logits (B, K).

    It reads the pooled state of [CLS].
    """

    theirs = "BertForSequenceClassification"

    def forward(self, ids: Tensor, segments: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
        return self.readout(self.dropout(self.bert.pool(self.states(ids, segments, mask))))


class Tagger(Head):
    """One of K tags for each piece (Devlin et al., 2019, figure 4d): ids (B, T) -> logits (B, T, K).

    A word's tag is read at its first piece (section 5.3): `bert_labels.first_pieces` gives labels that ask there alone.
    """

    theirs = "BertForTokenClassification"

    def forward(self, ids: Tensor, segments: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
        return self.readout(self.dropout(self.states(ids, segments, mask)))


class SpanFinder(Head):
    """Where an answer begins and where it ends (Devlin et al., 2019, figure 4c): ids (B, T) -> logits (B, 2, T).

    Row 0 scores each place as the first of the answer, row 1 as the last; padding is given -inf. No dropout.
    """

    theirs = "BertForQuestionAnswering"

    def __init__(self, bert: Bert, sentences: int | None = None):
        super().__init__(bert, 2, 0.0, sentences)

    def forward(self, ids: Tensor, segments: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
        logits = self.readout(self.states(ids, segments, mask)).transpose(1, 2)  # (B, 2, T)
        return logits if mask is None else logits.masked_fill(~mask[:, None], -torch.inf)

    @classmethod
    def _like(cls, bert: Bert, weights: dict[str, Tensor], dropout: float | None) -> "SpanFinder":
        return cls(bert)


class MaskedWords(nn.Module):
    """Which piece stood here? norm(gelu(h W + b)) E^T + c (Devlin et al., 2019, section 3.1, task 1).

    ids (B, T) -> logits (B, T, V), by the table of tokens E once more. places: whole numbers (N,), which of the B * T
    places are asked, counted row by row -> (N, V): the others, 85 of 100, need no read-out. pairs=True, for
    pre-training on both tasks: logits, and does the second sentence follow, (B, 2): 0 it does.
    """

    def __init__(self, bert: Bert, pairs: bool = False):
        super().__init__()
        c = bert.config
        self.bert, self.activation = bert, ACTIVATIONS[c.activation]
        self.transform, self.norm = nn.Linear(c.d_model, c.d_model), LayerNorm(c.d_model)
        self.bias = nn.Parameter(torch.zeros(c.vocab_size))
        self.readout = nn.Linear(c.d_model, 2) if pairs else None
        for part in (self.transform, self.norm, *filter(None, [self.readout])):
            begin(part, c.eps)

    def forward(
        self, ids: Tensor, segments: Tensor | None = None, mask: Tensor | None = None, places: Tensor | None = None
    ) -> Tensor | tuple[Tensor, Tensor]:
        states = self.bert(ids, segments, mask)
        asked = states if places is None else states.flatten(0, 1)[places]  # (B, T, D) or (N, D)
        words = F.linear(self.norm(self.activation(self.transform(asked))), self.bert.tokens.weight, self.bias)
        return words if self.readout is None else (words, self.readout(self.bert.pool(states)))

    @classmethod
    def from_hf(cls, model: nn.Module) -> "MaskedWords":
        """Ours with the weights of Hugging Face's BertForMaskedLM, or BertForPreTraining, which has pairs too.

        Raises TypeError for another model, ValueError for one that computes what ours does not.
        """
        pairs = hasattr(getattr(model, "cls", None), "seq_relationship")
        check_class("BertForPreTraining" if pairs else "BertForMaskedLM", model)
        sizes, weights = from_bert(model.config.to_dict(), model.state_dict())
        return filled(lambda sizes, _: cls(Bert(BertConfig(**sizes)), pairs), sizes, weights).train(model.training)


class LayerMix(nn.Module):
    """gamma * sum over layers of softmax(s)_l h_l, s and gamma learned (Peters et al., 2018, equation 1, ELMo).

    layers: as `Bert.layers` gives them, n_layers tensors (B, T, D) -> (B, T, D). At first their mean.
    """

    def __init__(self, n_layers: int):
        super().__init__()
        self.scores, self.gamma = nn.Parameter(torch.zeros(n_layers)), nn.Parameter(torch.ones(()))

    def forward(self, layers: list[Tensor]) -> Tensor:
        return self.gamma * torch.tensordot(self.scores.softmax(dim=0), torch.stack(layers), dims=1)  # (B, T, D)


def _check_sentences(head: Head, segments: Tensor | None) -> None:
    if head.sentences is None or segments is not None and not visible(segments):
        return
    second = segments is not None and bool((segments > 0).any())
    every = second and bool((segments > 0).any(dim=-1).all())
    if head.sentences == 1 and second:
        raise ValueError(f"{type(head).__name__} was built for one sentence, and a text here has two (segment 1).")
    if head.sentences == 2 and not every:
        raise ValueError(f"{type(head).__name__} was built for pairs: hand over (first, second), and the segments.")
