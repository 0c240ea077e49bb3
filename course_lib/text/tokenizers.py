"""From text to numbers and back: what stands between a corpus and a model.

B: sentences in a batch, T: length of a text, in tokens.
"""

from __future__ import annotations

import json
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence

import torch

UNKNOWN_MARK = "\ufffd"  # CharTokenizer's index 0: any character that the vocabulary does not hold
WORD_SPECIALS = ("<padding>", "<start>", "<end>", "<unknown>")  # WordTokenizer's indices 0 to 3
UNSEEN = dict.fromkeys(map(ord, "\u061c\u200b\u200e\u200f"), " ")  # marks of direction, possible line breaks


class CharTokenizer:
    """One token for each character that occurs in `text`, in order of code point; 0 is the unknown mark.

    The same set of characters gives the same vocabulary, so a trained model's numbers keep their meaning.
    Raises TypeError if `text` is not a string, ValueError if it is empty or holds half a character (a lone surrogate).
    """

    def __init__(self, text: str) -> None:
        check_string(text, "CharTokenizer")
        if not text:
            raise ValueError("CharTokenizer got an empty text: give it the characters it shall know.")
        self.vocab = [UNKNOWN_MARK, *sorted(set(text) - {UNKNOWN_MARK})]
        self._index = {character: i for i, character in enumerate(self.vocab)}

    def __len__(self) -> int:
        """The size of the vocabulary, the unknown mark included."""
        return len(self.vocab)

    def encode(self, text: str) -> torch.Tensor:
        """The index of every character of `text`, int64 (T,); raises TypeError if it is not a string."""
        check_string(text, "encode")
        return torch.tensor([self._index.get(character, 0) for character in text], dtype=torch.long)

    def decode(self, ids: torch.Tensor | Iterable[int]) -> str:
        """The text that `ids` (T,) stand for: encode's inverse, but for unknown characters.

        Raises TypeError for numbers that are not whole, ValueError for a shape other than (T,) or an index
        outside the vocabulary.
        """
        return "".join(self.vocab[i] for i in indices(ids, len(self)))

    def to_json(self) -> str:
        """The vocabulary as JSON, to keep beside a model; `from_json` reads it."""
        return json.dumps({"type": "CharTokenizer", "vocab": self.vocab})

    @classmethod
    def from_json(cls, data: str) -> CharTokenizer:
        """The tokenizer that `to_json` wrote; raises ValueError when `data` is anything else."""
        check_depth(data, "CharTokenizer")
        try:
            saved = json.loads(data)
            vocab = saved["vocab"]
            tokenizer = cls("".join(vocab))
        except (TypeError, KeyError, ValueError) as error:
            raise ValueError("This is no CharTokenizer's JSON: give what to_json() returned.") from error
        if saved.get("type") != "CharTokenizer" or tokenizer.vocab != vocab:
            raise ValueError("This JSON's vocabulary is not one that a CharTokenizer makes.")
        return tokenizer


class WordTokenizer:
    """One token for each word or mark that occurs in `sentences`, after padding 0, start 1, end 2 and unknown 3.

    A sentence is a list of tokens, or a text, which `words` cuts into words and marks; with `characters=True` a text is
    cut into its characters, for a language without spaces. A token that occurs fewer than `min_count` times stays
    unknown. The same set of tokens gives the same vocabulary. Raises TypeError for anything that is no sentence,
    ValueError where no token is left or one holds half a character (a lone surrogate).
    """

    padding, start, end, unknown = range(4)

    def __init__(self, sentences: Iterable[str | Sequence[str]], characters: bool = False, min_count: int = 1) -> None:
        self.characters = characters
        if isinstance(sentences, str):
            raise TypeError("WordTokenizer needs a list of sentences, not one string.")
        counts = Counter(token for sentence in sentences for token in self.split(sentence))
        known = {token for token, count in counts.items() if count >= min_count} - set(WORD_SPECIALS)
        if not known:
            raise ValueError(
                f"WordTokenizer found no token that occurs {min_count} times: give it the sentences it shall know."
            )
        self.vocab = [*WORD_SPECIALS, *sorted(known)]
        # The specials are no words: a text that spells one out does not get its index.
        self._index = {token: i for i, token in enumerate(self.vocab) if token in known}

    def __len__(self) -> int:
        """The size of the vocabulary, the four specials included."""
        return len(self.vocab)

    def split(self, sentence: str | Sequence[str]) -> list[str]:
        """The tokens of a sentence; a list of tokens stays as it is. Raises TypeError for anything else."""
        if isinstance(sentence, str):
            check_string(sentence, "WordTokenizer")
            return list(sentence) if self.characters else words(sentence)
        if isinstance(sentence, list | tuple) and all(isinstance(token, str) for token in sentence):
            check_string(" ".join(sentence), "WordTokenizer")
            return list(sentence)
        raise TypeError(f"A sentence is a string or a list of tokens, not {type(sentence).__name__}.")

    def encode(self, sentence: str | Sequence[str], start: bool = False, end: bool = False) -> torch.Tensor:
        """The index of every token, int64 (T,), with the start before and the end after where they are asked for."""
        ids = [self._index.get(token, self.unknown) for token in self.split(sentence)]
        return torch.tensor([self.start] * start + ids + [self.end] * end, dtype=torch.long)

    def batch(
        self, sentences: Iterable[str | Sequence[str]], start: bool = False, end: bool = False
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Indices int64 (B, T), padded at the end, and mask bool (B, T), True = a real token.

        T is the longest sentence's length. Raises TypeError as `encode` does, ValueError for no sentence at all.
        """
        if isinstance(sentences, str):
            raise TypeError("batch needs a list of sentences, not one string.")
        rows = [self.encode(sentence, start, end) for sentence in sentences]
        if not rows:
            raise ValueError("batch got no sentence: give it one or more.")
        ids = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=self.padding)  # (B, T)
        lengths = torch.tensor([len(row) for row in rows])
        return ids, torch.arange(ids.shape[1]) < lengths[:, None]

    def decode(self, ids: torch.Tensor | Iterable[int]) -> list[str]:
        """The tokens that `ids` (T,) stand for, up to the first end, without start and padding.

        Raises TypeError for numbers that are not whole, ValueError for a shape other than (T,) or an index
        outside the vocabulary.
        """
        found = indices(ids, len(self))
        found = found[: found.index(self.end)] if self.end in found else found
        return [self.vocab[i] for i in found if i not in (self.start, self.padding)]

    def to_json(self) -> str:
        """The vocabulary as JSON, to keep beside a model; `from_json` reads it."""
        return json.dumps({"type": "WordTokenizer", "characters": self.characters, "vocab": self.vocab})

    @classmethod
    def from_json(cls, data: str) -> WordTokenizer:
        """The tokenizer that `to_json` wrote; raises ValueError when `data` is anything else."""
        check_depth(data, "WordTokenizer")
        try:
            saved = json.loads(data)
            kind, characters, vocab = saved["type"], saved["characters"], saved["vocab"]
            tokenizer = cls([vocab], characters)
        except (TypeError, KeyError, ValueError) as error:
            raise ValueError("This is no WordTokenizer's JSON: give what to_json() returned.") from error
        if kind != "WordTokenizer" or not isinstance(characters, bool) or tokenizer.vocab != vocab:
            raise ValueError("This JSON's vocabulary is not one that a WordTokenizer makes.")
        return tokenizer


class WordCache(dict):
    """The ids of words that were cut before. Full at a million characters, ten added for each word, it begins anew."""

    most, characters = 1_000_000, 0

    def keep(self, word: str, ids: list[int]) -> list[int]:
        """Keep the ids of a word, and give them back."""
        if self.characters > self.most:
            self.clear()
            self.characters = 0
        self.characters += len(word) + 10
        self[word] = ids
        return ids


def words(text: str) -> list[str]:
    """The words and the punctuation marks of a text, in any script; a hyphen or an apostrophe stays with its word."""
    check_string(text, "words")
    spaced = (f" {c} " if unicodedata.category(c)[0] in "PS" and c not in "-'\u2019" else c for c in text)
    return "".join(spaced).translate(UNSEEN).split()


def indices(ids: torch.Tensor | Iterable[int], size: int) -> list[int]:
    """`ids` (T,) as a list of whole numbers from 0 to size - 1, for a `decode`.

    Raises TypeError for numbers that are not whole, ValueError for a shape other than (T,) or an index outside.
    """
    try:
        ids = torch.as_tensor(ids if isinstance(ids, torch.Tensor) else list(ids))
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError("decode needs one row of whole numbers, shape (T,), as encode gives.") from error
    if ids.dim() != 1:
        raise ValueError(f"decode needs one row of indices, shape (T,), but got {tuple(ids.shape)}.")
    if not ids.numel():
        return []
    if ids.is_floating_point() or ids.is_complex() or ids.dtype == torch.bool:
        raise TypeError(f"decode needs whole numbers, not {ids.dtype}: choose from scores first.")
    ids = ids.long()
    low, high = ids.min().item(), ids.max().item()
    if low < 0 or high >= size:
        raise ValueError(f"decode got indices from {low} to {high}, but the vocabulary is 0 to {size - 1}.")
    return ids.tolist()


def check_string(text: object, where: str) -> None:
    """Raise TypeError, in words, for what is no string, ValueError for half a character (a lone surrogate).

    where: who asks, the first words of the sentence.
    """
    if not isinstance(text, str):
        raise TypeError(f"{where} needs a string, not {type(text).__name__}.")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(
            f"{where} got half a character, U+{ord(text[error.start]):04X}, which no file can hold: "
            "read the text as UTF-8, or with errors='replace'."
        ) from None


def check_vocab_size(vocab_size: int, smallest: int) -> None:
    """Raise ValueError where no vocabulary of `vocab_size` can be learnt: `smallest` is all symbols."""
    if vocab_size < smallest:
        raise ValueError(f"vocab_size must be {smallest} or more, not {vocab_size}.")


def check_depth(data: str, who: str) -> None:
    """Raise ValueError for a text of JSON whose lists lie too deep inside each other for Python to read it."""
    try:
        json.loads(data)
    except RecursionError:
        raise ValueError(f"This is no {who}'s JSON: give what to_json() returned.") from None
    except (TypeError, ValueError):
        pass  # whoever reads it says so
