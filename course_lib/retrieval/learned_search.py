"""A retriever that learns from answers alone: no label says which passage is the correct one. Lesson 15.

    p(y | x) = sum over z of p(z | x) p(y | x, z),   p(z | x) = softmax of f(x, z),   f(x, z) = x W_x . z W_z / sqrt(E)
    (Guu et al., 2020, "REALM", sections 3.1 and 3.2; theirs has no sqrt(E))

Shapes: B questions x, N passages z of the memory, K of them that are read, T words, G pieces of a word, D width of a
word, E width of a sentence, V answers. Batch first, always. Word 0 and trigram 0 are padding.
"""

import math

import torch
import torch.nn as nn
from torch import Tensor

from course_lib.attention.attention import attend, masked_softmax
from course_lib.attention.block import FeedForward
from course_lib.attention.norms import LayerNorm
from course_lib.inputs.shapes import check_shapes
from course_lib.retrieval.marginal import log_passages


class SpelledWords(nn.Module):
    """A word is the mean of its pieces' vectors; a word never met has one too (Bojanowski et al., 2017, section 3.2).

    spelling int64 (words, G): the rows of the table that each word is made of, 0 where there are fewer; a word of
    nothing but zeros is padding. ids (..., T) -> (..., T, D). Raises ValueError for a spelling that does not fit.
    """

    def __init__(self, spelling: Tensor, n_rows: int, d_model: int):
        super().__init__()
        check_shapes("SpelledWords", spelling=(spelling, "int64 words G"))
        self.register_buffer("spelling", spelling)
        self.table = nn.Embedding(n_rows, d_model, padding_idx=0)

    def forward(self, ids: Tensor) -> Tensor:
        pieces = self.spelling[ids]  # (..., T, G)
        count = (pieces != 0).sum(dim=-1, keepdim=True).clamp(min=1)
        return self.table(pieces).sum(dim=-2) / count  # (..., T, D)


class Tower(nn.Module):
    """A sentence as one vector: the mean of its words, weighed by attention, and a projection: ids (N, T) -> (N, E).

    The weights are a softmax of one learned number a word, so that the tower can ignore words that all
    sentences have. `record.capture` receives `weights` (N, T).
    """

    def __init__(self, words: SpelledWords, width: int):
        super().__init__()
        D = words.table.embedding_dim
        self.words, self.score, self.project = words, nn.Linear(D, 1), nn.Linear(D, width, bias=False)
        self.weights = nn.Identity()  # a named place where a recorder can listen

    def forward(self, ids: Tensor) -> Tensor:
        x = self.words(ids)  # (N, T, D)
        weights = self.weights(masked_softmax(self.score(x)[..., 0], ids != 0))  # (N, T)
        return self.project((weights[..., None] * x).sum(dim=-2))  # (N, E)


class Retriever(nn.Module):
    """Two towers over one table of words: questions (B, T), passages (N, T) -> scores f(x, z) (B, N).

    Each has a projection of its own, W_x and W_z (Guu et al., 2020, section 3.2), so that untrained it finds nothing:
    with one for both, equal words would find each other from the beginning.
    """

    def __init__(self, spelling: Tensor, n_rows: int, d_model: int, width: int):
        super().__init__()
        words = SpelledWords(spelling, n_rows, d_model)
        self.question, self.passage = Tower(words, width), Tower(words, width)

    def forward(self, questions: Tensor, passages: Tensor) -> Tensor:
        return self.compare(self.question(questions), self.passage(passages))

    def compare(self, asked: Tensor, known: Tensor) -> Tensor:
        """f of vectors (B, E) and (N, E) -> (B, N)."""
        return asked @ known.T / math.sqrt(known.shape[1])


class Reader(nn.Module):
    """Reads one passage and answers: questions (B, T), passages (N, T) -> log p(y | x, z) of each pair (B, N, V).

    The question, one vector, attends to the words of the passage (lesson 04); what it receives is added to it, and the
    answer is the word whose vector fits the sum best. So it can copy a word from the passage, and its feed-forward
    network can also memorise which answer belongs to which question. answers int64 (V,): the
    words that may be answers; max_len: the most words of a passage. It has a table of words of its own.
    chosen int64 (B, K): the passages that are read for each question -> (B, K, V) only.
    `record.capture` receives `weights` (N, B, T), for each passage and question.
    """

    def __init__(self, spelling: Tensor, n_rows: int, d_model: int, answers: Tensor, max_len: int):
        super().__init__()
        self.words = SpelledWords(spelling, n_rows, d_model)
        self.register_buffer("answers", answers)
        self.places = nn.Parameter(torch.zeros(max_len, d_model))
        self.w_q, self.w_k, self.w_x = (nn.Linear(d_model, d_model) for _ in range(3))
        self.norm_1, self.norm_2 = LayerNorm(d_model), LayerNorm(d_model)
        self.feed_forward, self.bias = FeedForward(d_model, 4 * d_model), nn.Parameter(torch.zeros(len(answers)))
        self.weights = nn.Identity()  # a named place where a recorder can listen

    def forward(self, questions: Tensor, passages: Tensor, chosen: Tensor | None = None) -> Tensor:
        check_shapes("Reader", questions=(questions, "int64 B T_q+"), chosen=(chosen, "int64 B K+"))
        check_shapes("Reader", passages=(passages, "int64 N+ T+"))
        _check_length(self, passages)
        real = (questions != 0)[..., None]  # (B, T, 1)
        x = (self.words(questions) * real).sum(dim=1) / real.sum(dim=1).clamp(min=1)  # (B, D)
        z = self.words(passages)  # (N, T, D)
        keys = self.w_k(z + self.places[: passages.shape[1]])
        _, weights = attend(self.w_q(x)[None], keys, z, (passages != 0)[:, None])  # (N, B, T)
        fetched = (self.weights(weights) @ z).transpose(0, 1)  # (B, N, D)
        if chosen is not None:
            fetched = fetched.gather(1, chosen[..., None].expand(-1, -1, x.shape[-1]))  # (B, K, D)
        h = self.norm_1(self.w_x(x)[:, None] + fetched)
        h = self.norm_2(h + self.feed_forward(h))
        logits = h @ self.words(self.answers).T / math.sqrt(h.shape[-1]) + self.bias  # (B, N, V)
        return logits.log_softmax(dim=-1)


class LearnedSearch(nn.Module):
    """A retriever and a reader: questions (B, T), passages (N, T) -> log p(z | x) (B, K), log p(y | x, z) (B, K, V),
    which passages these are int64 (B, K), the likeliest first.

    k: how many passages are read, all where None; p(z | x) is then a softmax over these alone (section 3.3).
    index (N, E): stored vectors of the passages, by which the k are chosen; their scores are computed
    anew, as in section 3.3. Where None, current vectors choose them. temperature: of `log_passages`.
    Raises what its parts raise, and ValueError for an index that does not fit.
    """

    def __init__(self, retriever: Retriever, reader: Reader):
        super().__init__()
        self.retriever, self.reader = retriever, reader

    def forward(
        self,
        questions: Tensor,
        passages: Tensor,
        k: int | None = None,
        index: Tensor | None = None,
        temperature: float = 1.0,
    ) -> tuple[Tensor, Tensor, Tensor]:
        k = len(passages) if k is None else k
        _check_index(passages, index)
        asked = self.retriever.question(questions)  # (B, E)
        scores = self.retriever.compare(asked, self.retriever.passage(passages))  # (B, N)
        by = scores if index is None else self.retriever.compare(asked, index)
        chosen = by.detach().topk(k, dim=1).indices  # (B, K)
        log_z = log_passages(scores.gather(1, chosen), temperature)  # (B, K)
        return log_z, self.reader(questions, passages, chosen), chosen


class KeptIndex:
    """The vectors of a memory, embedded anew every so many steps: kept(model, passages) -> (N, E), without a gradient.

    Between two renewals the retriever learns on, and the stored vectors grow stale (Guu et al., 2020, section 3.3).
    """

    def __init__(self, every: int):
        self.every, self.step, self.vectors = every, 0, None

    @torch.no_grad()
    def __call__(self, model: LearnedSearch, passages: Tensor) -> Tensor:
        if self.step % self.every == 0:
            self.vectors = model.retriever.passage(passages)
        self.step += 1
        return self.vectors


def _check_index(passages: Tensor, index: Tensor | None) -> None:
    if index is not None and len(index) != len(passages):
        raise ValueError(f"An index has a vector for each of the {len(passages)} passages; got {len(index)}.")


def _check_length(reader: Reader, passages: Tensor) -> None:
    if passages.shape[1] > len(reader.places):
        raise ValueError(f"This reader reads passages of up to {len(reader.places)} words; got {passages.shape[1]}.")
