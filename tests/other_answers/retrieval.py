"""Lesson 15: other correct answers."""

import math
from collections import Counter

import numpy as np
import torch
import torch.nn.functional as F

from . import answers

# BM25 ---------------------------------------------------------------------------------------------------------


@answers("my_bm25")
def by_tables_of_counts(question, passages, k1, b):
    counts, asked = [Counter(passage) for passage in passages], Counter(question)
    lengths = np.array([len(passage) for passage in passages], dtype=float)
    scores = np.zeros(len(passages))
    for word, often in asked.items():
        tf = np.array([count[word] for count in counts], dtype=float)
        n = np.count_nonzero(tf)
        idf = np.log1p((len(passages) - n + 0.5) / (n + 0.5))
        scores += often * idf * tf / (tf + k1 * (1 - b + b * lengths / lengths.mean()))
    return scores.tolist()


@answers("my_bm25")
def with_one_log_of_a_quotient(question, passages, k1, b):
    total = sum(len(passage) for passage in passages)

    def share(word, passage):
        n = len([other for other in passages if word in other])
        if word not in passage:
            return 0
        long = len(passage) * len(passages) / total
        return math.log((len(passages) + 1) / (n + 0.5)) / (1 + k1 * (1 + b * (long - 1)) / passage.count(word))

    return tuple(math.fsum(share(word, passage) for word in question) for passage in passages)


@answers("my_bm25")
def by_tensors(question, passages, k1, b):
    """Single precision, a row for each passage and a column for each word that is asked."""
    if not question:
        return [0] * len(passages)
    tf = torch.tensor([[float(passage.count(word)) for word in question] for passage in passages])
    n, lengths = (tf > 0).sum(dim=0), torch.tensor([float(len(passage)) for passage in passages])
    idf = torch.log(1 + (len(passages) - n + 0.5) / (n + 0.5))
    long = k1 * (1 - b + b * lengths / lengths.mean())
    return list((idf * tf / (tf + long[:, None])).sum(dim=1))


# Dense search -------------------------------------------------------------------------------------------------


@answers("my_dense_search")
def by_sorting(asked, known, k):
    cosines = F.cosine_similarity(asked[:, None], known[None], dim=-1)
    values, places = cosines.sort(dim=1, descending=True)
    return places[:, :k], values[:, :k]


@answers("my_dense_search")
def question_by_question(asked, known, k):
    places, found = [], []
    for one in asked:
        cosines = (known @ one) / (known.norm(dim=1) * one.norm() + 1e-6)
        best = sorted(range(len(known)), key=lambda n, cosines=cosines: -cosines[n].item())[:k]
        places.append(torch.tensor(best, dtype=torch.int32))
        found.append(cosines[best])
    return torch.stack(places), torch.stack(found)


@answers("my_dense_search")
def divided_afterwards(asked, known, k):
    products = torch.einsum("me,ne->mn", asked, known)
    cosines = products / asked.pow(2).sum(1).sqrt()[:, None] / known.pow(2).sum(1).sqrt()
    places = cosines.argsort(dim=1, descending=True)[:, :k]
    return [places, cosines.gather(1, places)]


# The sum over passages ----------------------------------------------------------------------------------------


@answers("my_marginal")
def one_sum_less_another(scores, log_y, temperature):
    warm = scores / temperature
    return (warm.unsqueeze(-1) + log_y).logsumexp(1) - warm.logsumexp(1, keepdim=True)


@answers("my_marginal")
def passage_by_passage(scores, log_y, temperature):
    log_z = F.log_softmax(scores / temperature, dim=-1)
    total = log_z[:, 0, None] + log_y[:, 0]
    for k in range(1, scores.shape[1]):
        total = torch.logaddexp(total, log_z[:, k, None] + log_y[:, k])
    return total


@answers("my_marginal")
def the_largest_taken_out(scores, log_y, temperature):
    warm = scores.mul(1 / temperature)
    warm = warm - warm.max(dim=1, keepdim=True).values
    log_z = warm - warm.exp().sum(1, keepdim=True).log()
    both = torch.einsum("bk,v->bkv", log_z, torch.ones_like(log_y[0, 0])) + log_y
    top = both.amax(dim=1, keepdim=True)
    return (both - top).exp().sum(dim=1).log() + top.squeeze(1)


# The gradient that lifts a passage ----------------------------------------------------------------------------


@answers("my_lift")
def two_softmaxes(scores, log_y):
    return torch.softmax(scores + log_y, dim=-1) - torch.softmax(scores, dim=-1)


@answers("my_lift")
def p_times_how_much_better(scores, log_y):
    """p(z | x) (p(y | x, z) / p(y | x) - 1), the quotient by logs."""
    log_z = scores - scores.logsumexp(dim=1, keepdim=True)
    log_p = (log_z + log_y).logsumexp(dim=1, keepdim=True)
    return (log_z + log_y - log_p).exp() - log_z.exp()


@answers("my_lift")
@torch.no_grad()
def row_by_row_without_a_gradient(scores, log_y):
    lifts = []
    for own, said in zip(scores, log_y, strict=True):
        before, after = own.double().softmax(0), (own.double() + said.double()).softmax(0)
        lifts.append((after - before).to(own.dtype))
    return torch.stack(lifts)


@answers("my_lift")
def through_numpy(scores, log_y):
    def softmax(x):
        powers = np.exp(x - x.max(axis=1, keepdims=True))
        return powers / powers.sum(axis=1, keepdims=True)

    scores, log_y = scores.numpy(), log_y.numpy()
    return torch.from_numpy(softmax(scores + log_y) - softmax(scores))


# Find the bug: an index that was not renewed ------------------------------------------------------------------


@answers("mended_kept_index")
def the_last_multiple(questions, passages, w_x, w_z, k, every):
    chosen, scores = [], []
    for step, (batch, x, z) in enumerate(zip(questions, w_x, w_z, strict=True)):
        old = passages @ w_z[step // every * every]
        asked = batch @ x
        places = (asked @ old.T).argsort(dim=1, descending=True)[:, :k]
        chosen.append(places)
        scores.append(torch.einsum("bke,be->bk", passages[places] @ z, asked))
    return torch.stack(chosen), torch.stack(scores)


@answers("mended_kept_index")
def counted_down(questions, passages, w_x, w_z, k, every):
    left, chosen, scores = 0, [], []
    for step in range(len(questions)):
        if left == 0:
            with torch.no_grad():
                index = passages @ w_z[step]
            left = every
        left -= 1
        asked = questions[step] @ w_x[step]
        places = torch.topk(asked.detach() @ index.mT, k).indices
        chosen.append(places)
        scores.append((asked @ (passages @ w_z[step]).T).gather(1, places))
    return torch.stack(chosen), torch.stack(scores)


@answers("mended_kept_index")
def all_steps_at_once(questions, passages, w_x, w_z, k, every):
    asked, now = questions @ w_x, passages @ w_z  # (S, B, E), (S, N, E)
    kept = now[torch.arange(len(questions)) // every * every]
    chosen = (asked @ kept.mT).topk(k, dim=-1).indices
    return chosen, (asked @ now.mT).gather(-1, chosen)
