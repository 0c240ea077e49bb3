"""The unigram language model: subwords with probabilities, in which any script can be written. Lesson 14.

A word has many segmentations: hug = h·u·g, hu·g, h·ug, hug. The subwords are sampled independently, so a segmentation
has the product of its subwords' probabilities, and the word the sum over all segmentations. The sum is over the paths
of a lattice: nodes 0 to n between the characters, and an arc from `start` to `end` for each subword found there.
`logp` is a vocabulary everywhere: subword -> log p. Kudo (2018), section 3.2.
"""

from __future__ import annotations

import json
import math
import re
from collections import ChainMap, Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import combinations

import torch

from course_lib.text.tokenizers import UNKNOWN_MARK, WordCache, check_depth, check_string, check_vocab_size, indices

UNIGRAM_SPECIALS = ("<pad>", "<unk>", "<s>", "</s>", "<mask>")
SPACE_MARK = "▁"  # U+2581, what a space is written as
LogP = Mapping[str, float]


def arcs(word: str, pieces: Collection[str]) -> list[tuple[int, int]]:
    """The lattice of a word: (start, end) wherever word[start:end] is a subword, by start, then by end."""
    return [(start, end) for start, end in combinations(range(len(word) + 1), 2) if word[start:end] in pieces]


def log_add(a: float, b: float) -> float:
    """log(exp(a) + exp(b)), of numbers whose exp may be too small to be told from 0; -inf is the log of 0."""
    high, low = max(a, b), min(a, b)
    return high if low == -math.inf else high + math.log1p(math.exp(low - high))


def forward_sums(word: str, logp: LogP) -> list[float]:
    """The log of p(word[:j]), the sum over all its segmentations, for each j from 0 to n.

    p(word[:end]) = sum over arcs (start, end) of p(word[:start]) p(word[start:end]); 0 at j = 0, -inf where there is
    no segmentation. The last is log p(word).
    """
    sums = [0.0] + [-math.inf] * len(word)
    for start, end in arcs(word, logp):  # in the order of starts: sums[start] is complete by now
        sums[end] = log_add(sums[end], sums[start] + logp[word[start:end]])
    return sums


def backward_sums(word: str, logp: LogP) -> list[float]:
    """The log of p(word[j:]) for each j from 0 to n: as `forward_sums`, from the end."""
    sums = [-math.inf] * len(word) + [0.0]
    for start, end in reversed(arcs(word, logp)):
        sums[start] = log_add(sums[start], logp[word[start:end]] + sums[end])
    return sums


def viterbi(word: str, logp: LogP) -> list[str]:
    """The most probable segmentation of a word: argmax over its segmentations x of the sum of log p(x_i).

    The forward recursion with a maximum for the sum, and then back along the arcs that won. Of two that are equally
    probable, either. Raises ValueError where there is none. Viterbi (1967).
    """
    best, came_from = [0.0] + [-math.inf] * len(word), [0] * (len(word) + 1)
    for start, end in arcs(word, logp):
        score = best[start] + logp[word[start:end]]
        if score > best[end]:
            best[end], came_from[end] = score, start
    _check_written(word, best[-1])
    pieces, end = [], len(word)
    while end > 0:
        pieces, end = [word[came_from[end] : end], *pieces], came_from[end]
    return pieces


def sample(word: str, logp: LogP, alpha: float = 1.0, generator: torch.Generator | None = None) -> list[str]:
    """A segmentation of a word, sampled with probability p(x)^alpha / Z over all its segmentations x.

    Forward filtering, backward sampling: of the arcs that end at `end`, one is sampled in proportion to
    p(word[:start])^alpha p(subword)^alpha, and the same again from its start. alpha 0: all equally likely; 1: p(x |
    word); large: Viterbi's. Kudo (2018), section 3.3, samples so from all segmentations (his l is infinite). Raises
    ValueError where there is none.
    """
    lattice = arcs(word, logp)
    powers = {word[start:end]: alpha * logp[word[start:end]] for start, end in lattice}
    sums = forward_sums(word, powers)
    _check_written(word, sums[-1])
    pieces, end = [], len(word)
    while end > 0:
        starts = [start for start, stop in lattice if stop == end]
        shares = [math.exp(sums[start] + powers[word[start:end]] - sums[end]) for start in starts]
        start = starts[int(torch.multinomial(torch.tensor(shares), 1, generator=generator))]
        pieces, end = [word[start:end], *pieces], start
    return pieces


def corpus_log_p(words: Mapping[str, float], logp: LogP) -> float:
    """The log likelihood of a corpus: the sum over words of n log p(word), n the number of times that it occurs.

    Raises ValueError for no word at all, one that cannot be written, and numbers that are no log p.
    """
    _check_corpus(words, logp)
    return sum(n * forward_sums(word, logp)[-1] for word, n in words.items())


def expected_counts(words: Mapping[str, float], logp: LogP) -> dict[str, float]:
    """The E step: how often each subword is used, on average over all segmentations of the corpus.

    An arc is used with probability p(word[:start]) p(subword) p(word[end:]) / p(word): what lies before it, itself, and
    what lies behind it. Arguments and errors as for `corpus_log_p`. Kudo (2018), section 3.2.
    """
    _check_corpus(words, logp)
    counts = dict.fromkeys(logp, 0.0)
    for word, n in words.items():
        before, after = forward_sums(word, logp), backward_sums(word, logp)
        for start, end in arcs(word, logp):
            piece = word[start:end]
            counts[piece] += n * math.exp(before[start] + logp[piece] + after[end] - before[-1])
    return counts


def em_step(words: Mapping[str, float], logp: LogP, least: float = 1e-300) -> dict[str, float]:
    """One step of expectation maximization: each subword's expected count over the sum of all, as log p.

    Maximum likelihood: `corpus_log_p` never falls. SentencePiece's program is Bayesian here: it takes exp(digamma(c))
    for a count c, which makes rare subwords rarer, and drops those with c < 0.5. least: what a count is raised to, as
    a count of 0 has no logarithm. Other arguments and errors as for `corpus_log_p`.
    """
    counts = {piece: max(n, least) for piece, n in expected_counts(words, logp).items()}
    total = math.log(sum(counts.values()))
    return {piece: math.log(n) - total for piece, n in counts.items()}


def losses(words: Mapping[str, float], logp: LogP) -> dict[str, float]:
    """By how much log p of the corpus falls, about, if a subword of two characters or more leaves the vocabulary.

    loss(x) = c (log p(x) - log p(x written with other subwords)), c its expected count: every use is replaced,
    and no other probability changes. Kudo's loss_i; SentencePiece's program takes the best segmentation, we the sum.
    inf for a subword that no others can write. Arguments and errors as for `corpus_log_p`. Kudo (2018), section 3.2.
    """
    found = {}
    for piece, count in expected_counts(words, logp).items():
        if len(piece) > 1:
            parts = {piece[start:end] for start, end in arcs(piece, logp)} - {piece}
            others = forward_sums(piece, {part: logp[part] for part in parts})[-1]
            found[piece] = math.inf if others == -math.inf else count * (logp[piece] - others)
    return found


def prune(words: Mapping[str, float], logp: LogP, size: int) -> dict[str, float]:
    """The vocabulary without the subwords whose loss is smallest: `size` are left, whose probabilities sum to 1 again.

    Single characters always stay, so that every word can still be written, and so do subwords that no others can write.
    Raises ValueError where these alone are more than `size`, and what `corpus_log_p` raises. Kudo (2018), section 3.2.
    """
    loss = losses(words, logp)
    _check_size(size, sum(loss.get(piece) in (None, math.inf) for piece in logp))
    kept = {*sorted(logp, key=lambda piece: -loss.get(piece, math.inf))[:size]}  # single characters have no loss: first
    total = math.log(sum(math.exp(logp[piece]) for piece in kept))
    return {piece: log_p - total for piece, log_p in logp.items() if piece in kept}


def seed_pieces(words: Mapping[str, float], longest: int = 8, most: int = 100_000) -> dict[str, float]:
    """The vocabulary to begin with: all characters, and the substrings that cover most of the corpus.

    p is in proportion to count times length, as in SentencePiece's program. longest: a subword's characters at most.
    most: how many subwords at most, the characters first, which all stay; others occur twice or more. Raises
    ValueError for no word at all.
    """
    _check_corpus(words)
    counts = Counter()
    for word, n in words.items():
        for start, end in combinations(range(len(word) + 1), 2):
            if end - start <= longest:
                counts[word[start:end]] += n
    weights = {piece: n * len(piece) for piece, n in counts.items() if len(piece) == 1 or n >= 2}
    best = sorted(weights, key=lambda piece: (len(piece) > 1, -weights[piece], piece))
    chosen = best[: max(most, sum(len(piece) == 1 for piece in weights))]
    total = math.log(sum(weights[piece] for piece in chosen))
    return {piece: math.log(weights[piece]) - total for piece in chosen}


def chunks(text: str) -> list[str]:
    """What is segmented by itself: "to be" -> "▁to", "▁be". A "▁" is put in front, and every space becomes one.

    No rule knows what a word is: a sentence in a script without spaces is one chunk, cut after 200 characters.
    Joined, the chunks are the text: nothing is lost but whether a "▁" was one before. Kudo and Richardson (2018),
    section 3.1; their program also makes equal what Unicode can write in two ways (NFKC), and merges spaces.
    Raises TypeError for no string, ValueError for half a character.
    """
    check_string(text, "chunks")
    # No chunk is longer than 200 characters: the work grows with the square.
    return re.findall("▁[^▁]{,199}|[^▁]{1,200}", (SPACE_MARK + text).replace(" ", SPACE_MARK)) if text else []


class Unigram:
    """A unigram tokenizer: `Unigram(vocab)` takes subwords that others learned, `Unigram.train` learns them.

    vocab: subword -> log p, each at its index in this order; the specials are among them, and their log p is not used.
    specials: padding, unknown, class (begins a sentence), separator (ends it) and mask, in this order. The attributes
    padding, unknown, cls, sep and mask are their indices; `logp` is the vocabulary without them. Raises ValueError,
    in words, for what is no vocabulary. Kudo (2018), section 3.2; Kudo and Richardson (2018).
    """

    def __init__(self, vocab: LogP, specials: Sequence[str] = UNIGRAM_SPECIALS):
        _check_vocab(vocab, specials)
        self.vocab, self.logp = list(vocab), {piece: n for piece, n in vocab.items() if piece not in specials}
        self._index, self._known = {piece: i for i, piece in enumerate(vocab)}, WordCache()
        self.specials = {name: self._index[name] for name in specials}
        self.padding, self.unknown, self.cls, self.sep, self.mask = self.specials.values()
        self._unseen = min(self.logp.values(), default=0.0) - 10.0  # as SentencePiece has it

    @classmethod
    def train(cls, texts: Collection[str], vocab_size: int, specials=UNIGRAM_SPECIALS, longest=8, keep=0.5) -> Unigram:
        """The tokenizer of `texts`: many seeds, then again and again a step of EM and a pruning to `keep` of them.

        In the last step each subword counts half a time or more: EM leaves characters that longer ones replace with
        next to nothing, and a new word needs them. texts: a list of texts, or a dict text -> how often it counts.
        Subwords are in the order of p, and fewer than vocab_size where the texts have no more. Raises TypeError for one
        string, ValueError for what cannot be learned from.
        """
        _check_texts(texts, keep)
        words = Counter()
        for text, n in Counter(texts).items():
            words.update({chunk: n * times for chunk, times in Counter(chunks(text)).items()})
        check_vocab_size(vocab_size, len(specials) + len({c for chunk in words for c in chunk}))
        size = int(vocab_size) - len(specials)
        logp = em_step(words, seed_pieces(words, longest, most=10 * size))
        while len(logp) > size:
            logp = em_step(words, prune(words, logp, max(size, int(keep * len(logp)))))
        logp = em_step(words, logp, least=0.5)
        pieces = sorted(logp.keys() - {*specials}, key=lambda piece: (-logp[piece], piece))
        return cls({**dict.fromkeys(specials, 0.0), **{piece: logp[piece] for piece in pieces}}, specials)

    def __len__(self) -> int:
        """The size of the vocabulary, the specials included."""
        return len(self.vocab)

    def pieces(self, text: str, alpha: float | None = None, generator: torch.Generator | None = None) -> list[str]:
        """The subwords of a text as strings; arguments and errors as for `encode`."""
        return [self.vocab[i] for i in self.encode(text, alpha, generator)]

    def encode(self, text: str, alpha: float | None = None, generator: torch.Generator | None = None) -> torch.Tensor:
        """The index of each subword of a text, int64 (T,), never that of a special but <unk>, whatever the text spells.

        The most probable subwords; with an alpha, `sample` draws new ones in each call (subword regularization:
        Kudo, 2018, section 3.3). An unknown character gives one <unk>. Raises what `chunks` and `sample` raise.
        """
        return torch.tensor([i for part in chunks(text) for i in self._segment(part, alpha, generator)]).long()

    def decode(self, ids: torch.Tensor | Iterable[int], specials: bool = False) -> str:
        """The text that `ids` (T,) stand for: encode's inverse. <unk> gives U+FFFD; the others their names, or nothing.

        Raises TypeError for numbers that are not whole, ValueError for another shape or an index that is none.
        """
        shown = dict.fromkeys(() if specials else self.specials.values(), "") | {self.unknown: UNKNOWN_MARK}
        text = "".join(shown.get(i, self.vocab[i]) for i in indices(ids, len(self)))
        return text.replace(SPACE_MARK, " ").removeprefix(" ")

    def to_json(self) -> str:
        """Everything as JSON, to keep beside a model; `from_json` reads it."""
        scores = {piece: self.logp.get(piece, 0.0) for piece in self.vocab}
        return json.dumps({"type": "Unigram", "vocab": scores, "specials": list(self.specials)})

    @classmethod
    def from_json(cls, data: str) -> Unigram:
        """The tokenizer that `to_json` wrote; raises ValueError when `data` is anything else."""
        return _check_json(data)

    def _segment(self, chunk: str, alpha: float | None, generator: torch.Generator | None) -> list[int]:
        """The indices of a chunk's subwords; the most probable ones are remembered."""
        if alpha is None and chunk in self._known:
            return self._known[chunk]
        unseen = {c: self._unseen for c in chunk if c not in self.logp}
        logp = ChainMap(self.logp, unseen) if unseen else self.logp
        pieces = viterbi(chunk, logp) if alpha is None else sample(chunk, logp, alpha, generator)
        ids = [self._index[piece] if piece in self.logp else self.unknown for piece in pieces]
        return ids if alpha is not None else self._known.keep(chunk, ids)


def _check_written(word: str, log_p: float) -> None:
    if not log_p > -math.inf:
        raise ValueError(
            f"The vocabulary cannot write {word[:40]!r}: give it all single characters, each with a log p."
        )


def _check_logp(logp: LogP) -> None:
    for piece, n in logp.items():
        if not -math.inf < n <= 1e-9:
            raise ValueError(f"A log p is a finite number, 0 or less; {piece[:40]!r} has {n}. Is it p, and not log p?")


def _check_corpus(words: Mapping[str, float], logp: LogP | None = None) -> None:
    if not any(words):
        raise ValueError("The corpus is empty: give it a word or more.")
    if logp is None:
        return
    _check_logp(logp)
    alone = {piece for piece in logp if len(piece) == 1}
    for word in words:
        if not alone.issuperset(word):  # else it can be written, and the sum need not be asked
            _check_written(word, forward_sums(word, logp)[-1])


def _check_size(size: int, least: int) -> None:
    if size < least:
        raise ValueError(f"size must be {least} or more, for nothing else writes these pieces; got {size}.")


def _check_texts(texts: Collection[str], keep: float) -> None:
    if isinstance(texts, str):
        raise TypeError("Unigram.train needs a list of texts, not one string.")
    if not 0 < keep < 1:
        raise ValueError(f"keep is the part of the pieces that a pruning leaves, between 0 and 1; got {keep}.")


def _check_vocab(vocab: LogP, specials: Sequence[str]) -> None:
    _check_logp(vocab)
    check_string("".join((*vocab, *specials)), "Unigram")
    if len({*specials}) != len(UNIGRAM_SPECIALS) or len(specials) != len(UNIGRAM_SPECIALS):
        raise ValueError("The specials are five: padding, unknown, class, separator and mask, in this order.")
    if missing := [name for name in specials if name not in vocab]:
        raise ValueError(f"The vocabulary lacks the specials {', '.join(missing)}: put them in, with a log p of 0.")


def _check_json(data: str) -> Unigram:
    check_depth(data, "Unigram")
    try:
        saved = json.loads(data)
        return {"Unigram": Unigram}[saved.pop("type")](**saved)
    except (TypeError, KeyError, ValueError, AttributeError) as error:
        raise ValueError("This is no Unigram's JSON: give what to_json() returned.") from error
