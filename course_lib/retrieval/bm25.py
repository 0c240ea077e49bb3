"""BM25: a passage is found by the words that it shares with a question, the rare ones first. Lesson 15.

    score = sum over the question's words w of  idf(w) tf / (tf + k1 (1 - b + b length / mean length))
    idf(w) = log(1 + (N - n + 1/2) / (n + 1/2))        (Robertson and Zaragoza, 2009, section 3.4, equation 3.15)

N passages, n of them with w; tf: how often w occurs in the passage. Theirs has no 1 inside the logarithm, so that a
word of more than half of the passages counts against those that have it; with it, as in Lucene, every weight is
positive.
"""

import math
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from functools import lru_cache

import torch
from torch import Tensor

from course_lib.inputs.shapes import check_shapes
from course_lib.text.tokenizers import check_string, words

# English words that say little about what a sentence is about. Chosen by us; whoever wants none hands over none.
STOP_WORDS = frozenset(
    "a an and any are as at be been being but by can did do does for from had has have he her him his how i if in into "
    "is it its me my no not of on one or our she so some such than that the their them then there these they this "
    "those to up us was we were what when where which who whom whose why will with would you your".split()
)


def terms(text: str, stop: Collection[str] = ()) -> list[str]:
    """What of a text is counted: its words in small letters, without punctuation and without those of `stop`.

    Words are cut as `words` does it, in any script; "owl" and "owls" are two words. An accented letter is the same
    whether it is written as one character or as two, and so is whatever Unicode calls compatible (NFKC). Raises
    TypeError for no string.
    """
    check_string(text, "terms")
    # Cut before it is folded: NFKC makes of a lone accent a space and a mark that would stick to the next word.
    small = words(_folded(" ".join(words(unicodedata.normalize("NFC", text)))))
    left_out = _all_folded(frozenset(stop))
    return [word for word in small if word not in left_out and any(map(str.isalnum, word))]


def _folded(text: str) -> str:
    """The one form of all texts that differ by large letters or by how Unicode writes them."""
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())


@lru_cache(8)
def _all_folded(stop: frozenset[str]) -> frozenset[str]:
    return frozenset(map(_folded, stop))


class BM25:
    """An index of passages by their words: bm25 = BM25(passages), bm25.scores(question) -> a number for each, (N,).

    stop: words that are not counted. k1: how soon more of the same word counts no more, 0 at once.
    b: how much of a long passage's length is taken off, from 0, nothing, to 1. A word that a question says twice counts
    twice. Raises TypeError for what is no text.
    """

    def __init__(self, passages: Sequence[str], stop: Collection[str] = (), k1: float = 1.2, b: float = 0.75):
        _check_index(passages)
        self.stop, self.n_passages, self.found = frozenset(stop), len(passages), {}
        counts = [Counter(terms(passage, self.stop)) for passage in passages]
        mean = sum(count.total() for count in counts) / len(counts)  # 0 where there is no word, and then no weight
        where = defaultdict(list)
        for place, count in enumerate(counts):
            for word, tf in count.items():
                weight = tf / (tf + k1 * (1 - b + b * count.total() / mean))
                where[word].append((place, weight))
        for word, pairs in where.items():  # found: a word -> the passages that have it, what it adds to each
            idf = self.idf(len(pairs))
            self.found[word] = [place for place, _ in pairs], [idf * weight for _, weight in pairs]

    def idf(self, n: int) -> float:
        """What a word of n passages is worth: log(1 + (N - n + 1/2) / (n + 1/2)), above 0."""
        return math.log1p((self.n_passages - n + 0.5) / (n + 0.5))

    def scores(self, question: str) -> Tensor:
        """The score of each passage, (N,); 0 for those that share no word with the question."""
        scores = torch.zeros(self.n_passages)
        for word in terms(question, self.stop):
            places, weights = self.found.get(word, ([], []))
            scores[places] += torch.tensor(weights)
        return scores

    def search(self, question: str, k: int = 5) -> tuple[Tensor, Tensor]:
        """The k passages with the highest scores, the best first -> indices int64 (k,), scores (k,).

        Of equal ones the first comes first.
        """
        scores, places = self.scores(question).sort(descending=True, stable=True)
        return places[:k], scores[:k]


def summed_ranks(*scores: Tensor, constant: float = 60.0) -> Tensor:
    """Several searches as one: sum over them of 1 / (constant + rank), (N,) each -> (N,); ranks count from 1.

    (Reciprocal rank fusion: Cormack, Clarke and Büttcher, 2009, section 2, with their constant.) What a score is worth
    differs from search to search; the rank does not. Equal scores share their mean rank, so that a search
    that found nothing says nothing. Raises ValueError for scores of different lengths.
    """
    check_shapes("summed_ranks", **{f"scores_{i}": (one, "N") for i, one in enumerate(scores)})
    total = torch.zeros_like(scores[0])
    for one in scores:
        better, equal = (one[None] > one[:, None]).sum(1), (one[None] == one[:, None]).sum(1)
        total = total + 1 / (constant + better + (equal + 1) / 2)  # equal ones stand at better + 1 ... better + equal
    return total


def _check_index(passages: Sequence[str]) -> None:
    if isinstance(passages, str):
        raise TypeError("BM25 needs a list of passages; got one string: write [text].")
