"""Byte-pair encoding: tokens between characters and words, learnt by merging what stands side by side most often.

A text is cut into pieces, about a word each with the space before it. A piece is a tuple of tokens, at first one for
each symbol of an alphabet: the characters of the training text (Sennrich et al., 2016), or the 256 bytes, out of which
UTF-8 makes every character there is (Radford et al., 2019), each shown as one printable character.
"""

from __future__ import annotations

import heapq
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

import torch

from course_lib.text.token_row import Pair, TokenRow
from course_lib.text.tokenizers import UNKNOWN_MARK, WordCache, check_depth, check_string, check_vocab_size, indices

Tokens = Sequence[str]
Pieces = Mapping[Tokens, int]  # how often each piece occurs
# GPT-2 shows a byte as the character of its number where that can be seen, the others as 256, 257 and so on.
SEEN = [*range(33, 127), *range(161, 173), *range(174, 256)]
SYMBOL = {b: chr(b) for b in SEEN} | {b: chr(256 + i) for i, b in enumerate(sorted({*range(256)} - {*SEEN}))}
BYTE = {symbol: byte for byte, symbol in SYMBOL.items()}
SHORT = 30  # tokens of a piece that is merged plainly; for longer ones a row is quicker
SPACE = "\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"  # Unicode's; Python's \s has four more
ALPHABETS = {"bytes": lambda piece: "".join(map(SYMBOL.get, piece.encode())), "characters": str}
# GPT-2's pattern; `re` has no \p{L} and no \p{N}, but its \w is these two and "_", so that one of them is enough.
NUMBER = "".join(c for c in map(chr, range(0x110000)) if c.isnumeric() and not c.isalpha())
WORD = rf"'(?:[stmd]|re|ve|ll)| ?(?:[A-Za-z]|[^\W_{NUMBER}])+| ?[{NUMBER}]+| ?(?:[^\w{SPACE}]|_)+"
PIECE, DIGIT = re.compile(rf"{WORD}|[{SPACE}]+(?![^{SPACE}])|[{SPACE}]+"), re.compile(f"([{NUMBER}])")


def cut(text: str, digits: bool = False) -> list[str]:
    """The pieces of `text`; joined they are the text again, and no merge crosses from one into the next.

    GPT-2's pattern: 's 't 're 've 'm 'll 'd, or else letters, or numbers, or other marks, each with a space before them
    if there is one, or else white space. With `digits` every digit is cut out before that, as for SmolLM2. What is a
    letter, Python's table of Unicode says. Raises TypeError for no string, ValueError for half a character.
    """
    check_string(text, "cut")
    return [piece for part in (DIGIT.split(text) if digits else [text]) for piece in PIECE.findall(part)]


def pair_counts(pieces: Pieces) -> Counter[Pair]:
    """How often each pair of neighbours occurs: c(a, b) = sum over pieces p of n(p) |{i : p_i = a and p_i+1 = b}|.

    pieces: n(p), how often each piece p occurs: a tuple of tokens, or a string.
    """
    counts = Counter()
    for piece, n in pieces.items():
        for pair in pairwise(piece):
            counts[pair] += n
    return counts


def merge(piece: Tokens, pair: Tokens) -> tuple[str, ...]:
    """`piece` with every (a, b) = `pair` in it replaced by the one token ab, from left to right."""
    piece, pair, merged, i = tuple(piece), tuple(pair), [], 0
    while i < len(piece):
        found = piece[i : i + 2] == pair
        merged.append(pair[0] + pair[1] if found else piece[i])
        i += 2 if found else 1
    return tuple(merged)


def learn_merges(pieces: Pieces, alphabet: Tokens, vocab_size: int, min_count: int = 2) -> tuple[list[str], list[Pair]]:
    """The vocabulary and the merges, in order: the most frequent pair is merged until there are `vocab_size` tokens.

    Of equally frequent pairs the one with the older left token goes first, then the one with the older right token.
    Stops early when no pair occurs `min_count` times. Sennrich et al. (2016), Algorithm 1. Raises ValueError
    for no piece at all and a vocabulary smaller than the alphabet.
    """
    index = {token: i for i, token in enumerate(alphabet)}  # the older a token, the lower its index
    _check_symbols(pieces)
    check_vocab_size(vocab_size, len(index))
    row, merges, heap = TokenRow(pieces), [], []
    changed = set(row.counts)
    while len(index) < vocab_size:
        for a, b in changed:
            if row.counts[a, b] >= min_count:
                heapq.heappush(heap, (-row.counts[a, b], index[a], index[b], (a, b)))
        while heap and -heap[0][0] != row.counts[heap[0][-1]]:
            heapq.heappop(heap)  # it has changed since, and has a newer entry
        if not heap:
            break
        a, b = heap[0][-1]
        merges.append((a, b))
        index.setdefault(a + b, len(index))  # a + bc and ab + c are one token
        changed = row.merge((a, b))
    return list(index), merges


def apply_merges(piece: Tokens, ranks: Mapping[Pair, int]) -> tuple[str, ...]:
    """The tokens of a piece: as long as there is one to merge, the pair that was learnt first is merged.

    ranks: the place of each pair in the order of learning. Radford et al. (2019), their encoder.
    """
    piece = tuple(piece)
    if len(piece) > SHORT:
        return _applied_in_a_row(piece, ranks)
    while len(piece) > 1:
        pair = min(pairwise(piece), key=lambda pair: ranks.get(pair, len(ranks)))
        if pair not in ranks:
            break
        piece = merge(piece, pair)
    return piece


def _applied_in_a_row(piece: Tokens, ranks: Mapping[Pair, int]) -> tuple[str, ...]:
    """The same for a piece of any length: no merge reads it from its beginning."""
    row = TokenRow({piece: 1})
    heap = [(ranks[pair], pair) for pair in row.where if pair in ranks]
    heapq.heapify(heap)
    while heap:
        for pair in row.merge(heapq.heappop(heap)[1]):
            if pair in ranks:
                heapq.heappush(heap, (ranks[pair], pair))
    return tuple(row)


class BPE:
    """A byte-pair tokenizer: `BPE.train` learns one from a text, `BPE(vocab, merges)` takes one that others learnt.

    vocab: the tokens, each at its index; merges: pairs of tokens, the first learnt first; specials: tokens of `vocab`
    that no text can spell (of two equal ones the first); alphabet: "bytes" or "characters"; digits: as for `cut`.
    The attribute `specials` gives each one's index by its name. Raises ValueError for parts that do not fit together.
    """

    def __init__(self, vocab: Tokens, merges: Sequence[Pair], specials: Tokens = (), alphabet="bytes", digits=False):
        _check_parts(vocab, merges, specials, alphabet)
        self.vocab, self.merges, self.alphabet, self.digits = list(vocab), list(map(tuple, merges)), alphabet, digits
        self.specials = {name: self.vocab.index(name) for name in specials}
        self._index = {token: i for i, token in enumerate(self.vocab) if i != self.specials.get(token)}
        self._ranks = {pair: rank for rank, pair in enumerate(self.merges)}
        self._known = WordCache()

    @classmethod
    def train(cls, text: str, vocab_size: int, specials: Tokens = (), alphabet="bytes", digits=False, min_count=2):
        """The tokenizer of `text`: specials, alphabet, what `learn_merges` made. Raises what that and `cut` raise."""
        _check_parts(specials, (), specials, alphabet)
        pieces = {ALPHABETS[alphabet](piece): n for piece, n in Counter(cut(text, digits)).items()}
        symbols = sorted(BYTE) if alphabet == "bytes" else [UNKNOWN_MARK, *sorted(set(text) - {UNKNOWN_MARK})]
        check_vocab_size(vocab_size, len(symbols) + len(specials))
        vocab, merges = learn_merges(pieces, symbols, vocab_size - len(specials), min_count)
        return cls([*specials, *vocab], merges, specials, alphabet, digits)

    def __len__(self) -> int:
        """The size of the vocabulary, the specials included."""
        return len(self.vocab)

    def encode(self, text: str) -> torch.Tensor:
        """The index of every token of `text`, int64 (T,), never that of a special, whatever the text spells.

        A character that the vocabulary lacks becomes the unknown mark. A byte that it lacks is left out: `train` has
        them all, SmolLM2's vocabulary lacks 21 rare ones. Raises TypeError and ValueError as `cut` does.
        """
        ids = []
        for piece in cut(text, self.digits):
            if piece not in self._known:
                symbols = (s if s in self._index else UNKNOWN_MARK for s in ALPHABETS[self.alphabet](piece))
                tokens = apply_merges([s for s in symbols if s in self._index], self._ranks)
                self._known.keep(piece, [self._index[token] for token in tokens])
            ids += self._known[piece]
        return torch.tensor(ids, dtype=torch.long)

    def decode(self, ids: torch.Tensor | Iterable[int]) -> str:
        """The text that `ids` (T,) stand for: encode's inverse. A special gives its name.

        Bytes that are no UTF-8, as a model may write them, give U+FFFD. Raises TypeError for anything but whole
        numbers, ValueError for a shape other than (T,) or an index outside the vocabulary.
        """
        return b"".join(map(self.token_bytes, indices(ids, len(self)))).decode(errors="replace")

    def token_bytes(self, index: int) -> bytes:
        """The bytes that one token stands for, which may be half a character; for a special, those of its name."""
        token = self.vocab[index]
        whole = self.alphabet == "characters" or index == self.specials.get(token)
        return token.encode() if whole else bytes(BYTE[symbol] for symbol in token)

    def to_json(self) -> str:
        """Everything as JSON, to keep beside a model; `from_json` reads it."""
        parts = {"vocab": self.vocab, "merges": self.merges, "specials": list(self.specials)}
        return json.dumps({"type": "BPE", **parts, "alphabet": self.alphabet, "digits": self.digits})

    @classmethod
    def from_json(cls, data: str) -> BPE:
        """The tokenizer that `to_json` wrote; raises ValueError when `data` is anything else."""
        check_depth(data, "BPE")
        return _check_json(data)


def _check_symbols(pieces: Pieces) -> None:
    if not pieces:
        raise ValueError("There is nothing to learn merges from: give it a text.")


def _check_parts(vocab: Tokens, merges: Sequence[Pair], specials: Tokens, alphabet: str) -> None:
    """What is named must be there, once; a special may be spelt like a token that merges make."""
    if alphabet not in ALPHABETS:
        raise ValueError(f"alphabet must be one of {[*ALPHABETS]}, not {alphabet!r}.")
    check_string("".join((*vocab, *specials)), "BPE")
    ordinary = Counter(vocab) - Counter(specials)
    needed = {token for a, b in merges for token in (a, b, a + b)}
    if lost := sorted(Counter(specials) - Counter({*vocab})):
        raise ValueError(f"The specials {lost[:3]} are named twice, or are no tokens of the vocabulary.")
    if twice := [token for token, n in ordinary.items() if n > 1]:
        raise ValueError(f"The vocabulary holds {twice[:3]} twice.")
    if missing := sorted(needed - ordinary.keys()):
        raise ValueError(f"The merges need {missing[:3]}, which the vocabulary lacks.")
    if odd := [token for token in ordinary if alphabet == "bytes" and not BYTE.keys() >= set(token)]:
        raise ValueError(f"{odd[:3]} are not made of byte symbols: specials, or the alphabet of characters?")


def _check_json(data: str) -> BPE:
    try:
        saved = json.loads(data)
        return {"BPE": BPE}[saved.pop("type")](**saved)
    except (TypeError, KeyError, ValueError, AttributeError) as error:
        raise ValueError("This is no BPE's JSON: give what to_json() returned.") from error
