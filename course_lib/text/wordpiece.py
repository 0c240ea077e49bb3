"""WordPiece: words cut into the longest pieces that a vocabulary has; how BERT reads one sentence or two. Lesson 08.

"unaffable" -> "una", "##ffa", "##ble": a piece that goes on with a word begins with ##. BERT's table has 30,522 pieces.
Shapes: B sentences in a batch, T pieces of the longest. Batch first, always. Masks are boolean, True = a real piece.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from course_lib.text.bpe import learn_merges
from course_lib.text.tokenizers import WordCache, check_depth, check_string, check_vocab_size, indices

SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
GOES_ON = "##"  # what a piece begins with that is not the first of its word
# Blocks of Chinese characters, as Hugging Face's tokenizer has them: each is a word. (Google's has 256 more, 2B820 on.)
CHINESE = ((0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F), (0x2B740, 0x2B81F),
           (0x2B920, 0x2CEAF), (0xF900, 0xFAFF), (0x2F800, 0x2FA1F))  # fmt: skip
NOT_SEEN = {"Cc", "Cf", "Co"}  # Unicode's kinds of control characters, marks of format and private signs
Words = str | list[str]  # a text, or a text that is cut into words already


class Read(NamedTuple):
    """What a `Bert` reads: ids, segments and words, int64 (B, T), mask bool (B, T). Padding stands behind a row.

    segments: 0 in the first sentence, 1 in the second. words: the number of the word, in its own sentence, of which
    each is a piece; -1 at [CLS], [SEP] and padding.
    """

    ids: Tensor
    segments: Tensor
    mask: Tensor
    words: Tensor


def clean(text: str, uncased: bool = True) -> str:
    """`text` without control characters, with simple spaces, Chinese characters apart, and in small letters.

    uncased: "É" becomes "e", for Unicode can write it as E and a mark above, and marks are left out. Which signs are
    marks says Python's table of Unicode, newer than Hugging Face's: some 400 rare ones are left out here alone.
    Raises TypeError for no string, ValueError for half a character.
    """
    check_string(text, "WordPiece")
    spaced = text.translate(SPACED)
    if not uncased:
        return spaced
    return unicodedata.normalize("NFD", spaced).translate(PLAIN)


def cut_words(text: str) -> list[str]:
    """The words of a cleaned text: at spaces, and each punctuation mark is a word: "o'er," -> "o", "'", "er", ","."""
    return text.translate(APART).split()


def longest_match(word: str, vocab: Collection[str], longest: int = 100) -> list[str] | None:
    """The pieces of a word: the longest that it begins with, then the longest that goes on, and so to its end.

    None where at some place no piece fits, and for a word of more than `longest` characters: the word is then unknown.
    Never a second try with a shorter piece: quick, and not always the fewest pieces. Wu et al. (2016), section 4.1.
    """
    pieces, start = [], 0
    while start < len(word) <= longest:
        ends = (end for end in range(len(word), start, -1) if GOES_ON * (start > 0) + word[start:end] in vocab)
        if (end := next(ends, None)) is None:
            return None
        pieces.append(GOES_ON * (start > 0) + word[start:end])
        start = end
    return pieces if len(word) <= longest else None


class WordPiece:
    """A WordPiece tokenizer: `WordPiece(vocab)` takes a table that others learnt, `WordPiece.train` learns one.

    vocab: the pieces, each at its index, or the path of a vocab.txt, one a line. specials: padding, unknown, class,
    separator and mask, in this order. uncased: as for `clean`. The attributes padding, unknown, cls, sep and mask are
    the indices of the specials, `continues` bool (V,) says which pieces begin with ##. Raises FileNotFoundError,
    TypeError and ValueError, in words, for what is no vocabulary. Devlin et al. (2019), section 3, input.
    """

    def __init__(self, vocab: Sequence[str] | str | Path, specials: Sequence[str] = SPECIALS, uncased: bool = True):
        self.vocab = _check_vocab(vocab, specials)
        self.specials, self.uncased = {name: self.vocab.index(name) for name in specials}, uncased
        self.padding, self.unknown, self.cls, self.sep, self.mask = self.specials.values()
        self._index = {piece: i for i, piece in enumerate(self.vocab)}
        self._pieces = self._index.keys() - set(specials)  # a word that is spelt like a special is not that special
        self._known = WordCache()
        self._special = re.compile(f"({'|'.join(map(re.escape, specials))})")
        self.continues = torch.tensor([piece.startswith(GOES_ON) and piece != GOES_ON for piece in self.vocab])

    @classmethod
    def train(cls, text: str, vocab_size: int, specials: Sequence[str] = SPECIALS, uncased: bool = True) -> WordPiece:
        """The tokenizer of `text`: specials, its characters, and what merging the most frequent pair gives.

        `learn_merges` on words, as Hugging Face's trainer does it. Google's, which was never published, merges the pair
        that makes the text likelier (Schuster and Nakajima, 2012, section 3). Raises what `learn_merges` and `clean`
        raise.
        """
        counts = Counter(cut_words(clean(text, uncased)))
        spelt = {(*word[:1], *(GOES_ON + c for c in word[1:])): n for word, n in counts.items()}
        first, later = {c for word in counts for c in word}, {c for word in spelt for c in word[1:]}
        check_vocab_size(vocab_size, len(specials) + len(first) + len(later))
        vocab, _ = learn_merges(spelt, [*sorted(first), *sorted(later)], vocab_size - len(specials))
        # A merge writes "l" and "##o" as "l##o". The marks inside go; a "#" of the text is a word alone, and stays.
        pieces = (GOES_ON * piece.startswith(GOES_ON) + piece.replace(GOES_ON, "") for piece in vocab)
        return cls([*specials, *pieces], specials, uncased)

    def __len__(self) -> int:
        """The size of the vocabulary, the specials included."""
        return len(self.vocab)

    def pieces(self, text: Words, specials: bool = True) -> list[str]:
        """The pieces of a text as strings; arguments and errors as for `encode`."""
        return [self.vocab[i] for i in self.encode(text, specials)]

    def encode(self, text: Words, specials: bool = True) -> Tensor:
        """The index of every piece, int64 (T,), without [CLS] and [SEP].

        text: a string, or a list of words, each cut by itself. [MASK], or another special that the text spells out, is
        that special, as for Hugging Face's; with specials=False it is text like any other: for texts of strangers.
        Raises TypeError for anything else, ValueError for half a character.
        """
        return torch.tensor([i for word in self._words(text, specials) for i in word], dtype=torch.long)

    def batch(
        self, texts: Sequence[Words | tuple[Words, Words]], max_len: int | None = None, specials: bool = True
    ) -> Read:
        """[CLS] a [SEP], or [CLS] a [SEP] b [SEP] where a text is a pair (a, b), for each of `texts`: see `Read`.

        max_len: rows that are longer lose pieces, one by one, at the end of the longer sentence. Raises TypeError and
        ValueError for texts that are none, and a max_len that leaves no room.
        """
        rows = []
        for sentences in _check_texts(texts, max_len):
            parts = [self._words(sentence, specials) for sentence in sentences]
            parts = [[(i, n) for n, word in enumerate(words) for i in word] for words in parts]
            while max_len is not None and sum(map(len, parts)) + len(parts) + 1 > max_len:
                max(reversed(parts), key=len).pop()  # of two that are as long, the second
            row = [(self.cls, 0, -1)]
            for segment, part in enumerate(parts):
                row += [(i, segment, n) for i, n in part] + [(self.sep, segment, -1)]
            rows.append(torch.tensor(row))
        ids, segments, words = pad_sequence(rows, True, -1).unbind(dim=2)  # (B, T) each
        mask = ids >= 0
        return Read(ids.masked_fill(~mask, self.padding), segments.clamp(min=0), mask, words)

    def decode(self, ids: Tensor | Iterable[int], specials: bool = False) -> str:
        """The text that `ids` (T,) stand for, with the specials or without; a space between any two words.

        What `clean` took away does not come back: small letters, no accents, and "o'er," reads "o ' er ,".
        Raises TypeError for numbers that are not whole, ValueError for another shape or an index that is none.
        """
        hidden = () if specials else self.specials.values()
        pieces = [self.vocab[i] for i in indices(ids, len(self)) if i not in hidden]
        return " ".join(pieces).replace(f" {GOES_ON}", "")

    def to_json(self) -> str:
        """Everything as JSON, to keep beside a model; `from_json` reads it."""
        parts = {"vocab": self.vocab, "specials": list(self.specials), "uncased": self.uncased}
        return json.dumps({"type": "WordPiece", **parts})

    @classmethod
    def from_json(cls, data: str) -> WordPiece:
        """The tokenizer that `to_json` wrote; raises ValueError when `data` is anything else."""
        check_depth(data, "WordPiece")
        return _check_json(data)

    def _words(self, text: Words, specials: bool) -> list[list[int]]:
        """The indices of each word's pieces."""
        if isinstance(text, list):
            return [[i for part in self._words(_check_word(word), specials) for i in part] for word in text]
        check_string(text, "WordPiece")
        found = []
        for part in self._special.split(text) if specials else [text]:
            spelt = specials and part in self.specials
            found += [[self.specials[part]]] if spelt else map(self._word, cut_words(clean(part, self.uncased)))
        return found

    def _word(self, word: str) -> list[int]:
        if word not in self._known:
            pieces = longest_match(word, self._pieces)
            self._known.keep(word, [self.unknown] if pieces is None else [self._index[piece] for piece in pieces])
        return self._known[word]


class _Table(dict):
    """For `str.translate`: what a rule puts in the place of each character, asked once a character."""

    def __init__(self, rule):
        super().__init__()
        self.rule = rule

    def __missing__(self, code: int) -> str:
        self[code] = self.rule(chr(code))
        return self[code]


def _spaced(c: str) -> str:
    if c not in "\t\n\r" and (c in "\0\ufffd" or unicodedata.category(c) in NOT_SEEN):
        return ""
    return " " if c.isspace() else f" {c} " if any(first <= ord(c) <= last for first, last in CHINESE) else c


def _apart(c: str) -> str:
    """With spaces around it if it is a punctuation mark: one of Unicode's, or an ASCII sign, such as $, + and ^."""
    sign = c.isascii() and not c.isalnum() and not c.isspace()
    return f" {c} " if sign or unicodedata.category(c)[0] == "P" else c


SPACED, APART = _Table(_spaced), _Table(_apart)
PLAIN = _Table(lambda c: "" if unicodedata.category(c) == "Mn" else c.lower())


def _check_vocab(vocab: Sequence[str] | str | Path, specials: Sequence[str]) -> list[str]:
    if isinstance(vocab, str | Path):
        path = Path(vocab)
        if not path.is_file():
            raise FileNotFoundError(f"There is no file {path.name}: a vocab.txt has one piece a line.")
        try:
            vocab = path.read_text(encoding="utf-8-sig").removesuffix("\n").split("\n")
        except UnicodeDecodeError:
            raise ValueError(f"{path.name} is no vocab.txt: it holds no text in UTF-8, one piece a line.") from None
    if not isinstance(vocab, list | tuple) or not all(isinstance(piece, str) for piece in vocab):
        raise TypeError("A vocabulary is a list of pieces, each a string, or the path of a vocab.txt.")
    check_string("".join((*vocab, *specials)), "WordPiece")
    if len(specials) != len(SPECIALS):
        raise ValueError("The specials are five: padding, unknown, class, separator and mask, in this order.")
    if missing := [name for name in specials if name not in vocab]:
        raise ValueError(f"The vocabulary lacks the specials {', '.join(missing)}: is it that of a BERT?")
    if twice := [piece for piece, n in Counter(vocab).items() if n > 1]:
        raise ValueError(f"The vocabulary holds {twice[:3]} twice.")
    return list(vocab)


def _check_texts(texts: Sequence, max_len: int | None) -> list[tuple]:
    """The sentences of each text, one or two."""
    if not isinstance(texts, list | tuple):
        raise TypeError(f"batch needs a list of texts, or of pairs of texts, not {type(texts).__name__}.")
    if not texts:
        raise ValueError("batch got no text: give it one or more.")
    rows = [text if isinstance(text, tuple) else (text,) for text in texts]
    if odd := [len(row) for row in rows if len(row) not in (1, 2)]:
        raise ValueError(f"BERT reads one sentence, or two as a pair (a, b); got {odd[0]}.")
    if max_len is not None and max_len < (least := 1 + max(map(len, rows))):
        raise ValueError(f"[CLS] and [SEP] alone are {least} pieces: max_len must be {least} or more; got {max_len}.")
    return rows


def _check_word(word: object) -> str:
    if not isinstance(word, str):
        raise TypeError(f"A text is a string or a list of words, each a string; got {type(word).__name__} in a list.")
    return word


def _check_json(data: str) -> WordPiece:
    try:
        saved = json.loads(data)
        if not isinstance(saved["vocab"], list):  # a string would be read as the path of a file
            raise TypeError
        return {"WordPiece": WordPiece}[saved.pop("type")](**saved)
    except (TypeError, KeyError, ValueError, AttributeError) as error:
        raise ValueError("This is no WordPiece's JSON: give what to_json() returned.") from error
