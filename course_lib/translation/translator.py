"""A model that translates, together with the words that it reads and writes. Lessons 03, 04 and 06.

Shapes: B batch, S source time, T target time. Token ids as in `seq2seq`; a pair has a source, a target, both in tokens.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from course_lib.text.pairs import masked_loss
from course_lib.text.tokenizers import WordTokenizer
from course_lib.translation.decode import translate


@dataclass
class Translator:
    """A model such as Seq2Seq or Transformer, the tokenizer of what it reads and the tokenizer of what it writes."""

    model: nn.Module
    reads: WordTokenizer
    writes: WordTokenizer

    def ids(self, pairs: Sequence) -> list[tuple[list[int], list[int]]]:
        """Source and target of each pair as ids, without start and end: what `batches` draws from."""
        return [(self.reads.encode(pair[0]).tolist(), self.writes.encode(pair[1]).tolist()) for pair in pairs]

    def translate(self, sentences: Sequence, **search) -> list[list[str]]:
        """Translations in tokens; `search` as in `decode.translate`: max_len, width, length_penalty."""
        return translate(self.model, self.reads, self.writes, sentences, **search)

    @torch.no_grad()
    def attention(self, pairs: Sequence) -> list[Tensor]:
        """The weights (T, S) with which each target of `pairs` attends to its source, in one teacher-forced pass.

        Raises ValueError for a model without attention.
        """
        source, real = self.reads.batch([pair[0] for pair in pairs])  # (B, S)
        target, _ = self.writes.batch([pair[1] for pair in pairs], start=True)  # (B, 1 + T)
        device = next(self.model.parameters()).device
        weights = self.model(source.to(device), real.sum(1), target.to(device))[1]  # (B, 1 + T, S)
        _check_looked(weights)
        return [w[: len(pair[1]), : len(pair[0])].cpu() for w, pair in zip(weights, pairs, strict=True)]  # not the end

    def typed(self, text: str, knows: str, longest: int = 60) -> tuple[list[str], str]:
        """What somebody typed, as tokens, and a sentence where it cannot be read well; no tokens where not at all.

        knows: what the model has learned, for that sentence. A word is looked up as typed, then with a capital.
        """
        tokens = [
            next((form for form in (token, token.capitalize()) if form in self.reads.vocab), token)
            for token in self.reads.split(text)
        ]
        strange = [token for token in tokens if token not in self.reads.vocab]
        if not tokens:
            return [], f"There is nothing to translate yet. I know {knows}."
        if len(tokens) > longest:
            return [], f"That is {len(tokens)} words and marks; at most {longest}, please."
        if not any(token in self.reads.vocab and token.isalnum() for token in tokens):
            return [], f"I know none of these words: {' '.join(strange) or text}. I know {knows}."
        if strange:
            return tokens, f"I do not know {', '.join(strange)}: I read each as 'unknown', and may invent something."
        return tokens, ""


def translation_loss(model: nn.Module, batch: tuple[Tensor, Tensor, Tensor, Tensor], smoothing: float = 0.0) -> Tensor:
    """`masked_loss` of one of the `batches` (source, lengths, target_in, target_out): nats per real token, scalar.

    smoothing of the labels as there.
    """
    source, lengths, target_in, target_out = batch
    return masked_loss(model(source, lengths, target_in)[0], target_out, smoothing=smoothing)


def _check_looked(weights: Tensor | None) -> None:
    if weights is None:
        raise ValueError(
            "This model gives no attention: build it with one, as Seq2Seq(..., attention='additive'), or say which of "
            "its many it shall give, as Transformer(..., align=(layer, head))."
        )
