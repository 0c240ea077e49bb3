"""From text to numbers and back: what stands between a corpus and a model.

T: length of a text, in tokens.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

import torch

UNKNOWN = "\ufffd"  # index 0: any character that the vocabulary does not hold


class CharTokenizer:
    """One token for each character that occurs in `text`, in order of code point; 0 is the unknown mark.

    The same set of characters gives the same vocabulary, so a trained model's numbers keep their meaning.
    Raises TypeError if `text` is not a string, ValueError if it is empty.
    """

    def __init__(self, text: str) -> None:
        _must_be_text(text, "CharTokenizer")
        if not text:
            raise ValueError("CharTokenizer got an empty text: give it the characters it shall know.")
        self.vocab = [UNKNOWN, *sorted(set(text) - {UNKNOWN})]
        self._index = {character: i for i, character in enumerate(self.vocab)}

    def __len__(self) -> int:
        """The size of the vocabulary, the unknown mark included."""
        return len(self.vocab)

    def encode(self, text: str) -> torch.Tensor:
        """The index of every character of `text`, int64 (T,); raises TypeError if it is not a string."""
        _must_be_text(text, "encode")
        return torch.tensor([self._index.get(character, 0) for character in text], dtype=torch.long)

    def decode(self, ids: torch.Tensor | Iterable[int]) -> str:
        """The text that `ids` (T,) stand for: encode's inverse, but for unknown characters.

        Raises TypeError for numbers that are not whole, ValueError for a shape other than (T,) or an index
        outside the vocabulary.
        """
        try:
            ids = torch.as_tensor(ids if isinstance(ids, torch.Tensor) else list(ids))
        except (TypeError, ValueError, RuntimeError) as error:
            raise TypeError("decode needs one row of whole numbers, shape (T,), as encode gives.") from error
        if ids.dim() != 1:
            raise ValueError(f"decode needs one row of indices, shape (T,), but got {tuple(ids.shape)}.")
        if not ids.numel():
            return ""
        if ids.is_floating_point() or ids.is_complex() or ids.dtype == torch.bool:
            raise TypeError(f"decode needs whole numbers, not {ids.dtype}: choose from scores first.")
        low, high = ids.min().item(), ids.max().item()
        if low < 0 or high >= len(self):
            last = len(self) - 1
            raise ValueError(f"decode got indices from {low} to {high}, but the vocabulary is 0 to {last}.")
        return "".join(self.vocab[i] for i in ids.tolist())

    def to_json(self) -> str:
        """The vocabulary as JSON, to keep beside a model; `from_json` reads it."""
        return json.dumps({"type": "CharTokenizer", "vocab": self.vocab})

    @classmethod
    def from_json(cls, data: str) -> CharTokenizer:
        """The tokenizer that `to_json` wrote; raises ValueError when `data` is anything else."""
        try:
            saved = json.loads(data)
            vocab = saved["vocab"]
            tokenizer = cls("".join(vocab))
        except (TypeError, KeyError, ValueError) as error:
            raise ValueError("This is no CharTokenizer's JSON: give what to_json() returned.") from error
        if saved.get("type") != "CharTokenizer" or tokenizer.vocab != vocab:
            raise ValueError("This JSON's vocabulary is not one that a CharTokenizer makes.")
        return tokenizer


def _must_be_text(text: object, where: str) -> None:
    if not isinstance(text, str):
        raise TypeError(f"{where} needs a string, not {type(text).__name__}.")
