"""Lesson 07."""

import math

import torch
import torch.nn.functional as F

from course_lib.attention.attention import causal_mask
from course_lib.language.generate import next_probs
from course_lib.text.bpe import merge
from other_answers import answers


@answers("my_merge")
def by_the_library(tokens, pair):
    return list(merge(tokens, pair))


@answers("my_merge")
def with_a_stack(tokens, pair):
    merged, fresh = [], False  # fresh: the token on top stands as it came, so that it may still be merged
    for token in tokens:
        if fresh and (merged[-1], token) == tuple(pair):
            merged[-1], fresh = merged[-1] + token, False
        else:
            merged.append(token)
            fresh = True
    return merged


@answers("my_merge")
def from_its_end(tokens, pair):
    rest, merged = list(tokens), ()
    while rest:
        first = rest.pop(0)
        second = rest.pop(0) if rest and (first, rest[0]) == pair else ""
        merged += (first + second,)
    return merged  # a tuple will do


@answers("my_merge")
def by_recursion(tokens, pair):
    match tokens:
        case [left, right, *rest] if (left, right) == pair:
            return ["".join(pair), *by_recursion(rest, pair)]
        case [first, *rest]:
            return [first, *by_recursion(rest, pair)]
    return []


@answers("my_window")
def last_rows(n_new, n_all):
    return causal_mask(n_all)[-n_new:]


@answers("my_window")
def by_comparing_positions(n_new, n_all):
    place = torch.arange(n_all)
    return place[None] <= place[n_all - n_new :, None]


@answers("my_window")
def triu_reversed(n_new, n_all):
    return ~torch.triu(torch.ones(n_new, n_all), diagonal=n_all - n_new + 1).bool()


@answers("my_window")
def with_plain_lists(n_new, n_all):
    old = n_all - n_new
    return torch.tensor([[True] * (old + row + 1) + [False] * (n_new - row - 1) for row in range(n_new)])


@answers("my_top_p")
def row_by_row(probs, p):
    kept = torch.zeros_like(probs)
    for b, row in enumerate(probs.tolist()):
        total = 0.0
        for token in sorted(range(len(row)), key=lambda i, row=row: -row[i]):
            kept[b, token] = row[token]
            total += row[token]
            if total >= p:
                break
    return kept / kept.sum(1, keepdim=True)


@answers("my_top_p")
def as_hugging_face_does(probs, p):
    ordered, order = torch.sort(probs, descending=False)
    drop = ordered.cumsum(-1) <= 1 - p  # from the least probable on
    drop[..., -1:] = False
    kept = probs.masked_fill(drop.scatter(1, order, drop), 0)
    return kept / kept.sum(-1, keepdim=True)


@answers("my_top_p")
def of_the_library(probs, p):
    return next_probs(probs.log(), top_p=p)


@answers("my_top_p")
def undone_by_sorting(probs, p):
    ordered, order = probs.sort(-1, descending=True)
    keep = F.pad(ordered.cumsum(-1)[:, :-1] < p, (1, 0), value=True)
    kept = (ordered * keep).gather(-1, order.argsort(-1))
    return F.normalize(kept, p=1, dim=-1)


@answers("my_cached")
def a_list_for_a_cache(x, cache, w_q, w_k, w_v, window):
    cache.setdefault("parts", []).append((x @ w_k, x @ w_v))
    k, v = (torch.cat(parts, dim=1) for parts in zip(*cache["parts"], strict=True))
    seen = window(x.shape[1], k.shape[1])
    return F.scaled_dot_product_attention(x @ w_q, k, v, attn_mask=seen)


@answers("my_cached")
def position_by_position(x, cache, w_q, w_k, w_v, window):
    out = []
    for new in x.split(1, dim=1):
        for name, w in (("key", w_k), ("value", w_v)):
            cache[name] = torch.cat([cache.get(name, new[:, :0] @ w), new @ w], dim=1)
        scores = (new @ w_q) @ cache["key"].transpose(1, 2) / math.sqrt(w_k.shape[1])
        out.append(scores.softmax(-1) @ cache["value"])
    return torch.cat(out, dim=1)


@answers("my_cached")
def keys_and_values_in_one_tensor(x, cache, w_q, w_k, w_v, window):
    new = torch.einsum("btd,cdn->cbtn", x, torch.stack([w_k, w_v]))
    cache.update(both=torch.cat([cache["both"], new], dim=2) if cache else new)
    k, v = cache["both"]
    seen = window(n_new=x.shape[1], n_all=k.shape[1])
    scores = torch.einsum("bqn,bkn->bqk", x @ w_q, k) * w_q.shape[1] ** -0.5
    return scores.masked_fill(seen.logical_not(), torch.finfo(x.dtype).min).softmax(2).bmm(v)


@answers("mended_next")
def counted_in_the_cache(ids, cache, tokens, places, look, readout):
    past = cache.get("past", 0)
    cache["past"] = past + ids.shape[1]
    x = tokens[ids] + places[torch.arange(past, cache["past"])]
    return readout(x + look(x, cache))


@answers("mended_next")
def read_off_the_keys(ids, cache, tokens, places, look, readout):
    B, n = ids.size()
    first = cache["k"].size(1) if "k" in cache else 0
    where = torch.arange(first, first + n).expand(B, n)
    x = F.embedding(ids, tokens) + F.embedding(where, places)
    return readout(look(x, cache).add(x))


@answers("mended_next")
def token_by_token(ids, cache, tokens, places, look, readout):
    logits = []
    for new in ids.split(1, dim=1):
        past = 0 if not cache else cache["k"].shape[-2]
        x = tokens[new] + places[past]
        x = x + look(x, cache)
        logits.append(readout(x))
    return torch.cat(logits, dim=1)


@answers("my_joint_loss")
def one_by_one(token_logits, ids, class_logits, labels, lam):
    told = [
        -token_logits[b, t].log_softmax(-1)[ids[b, t + 1]]
        for b in range(len(ids))
        for t in range(ids.shape[1] - 1)
        if ids[b, t + 1] != 0
    ]
    task = -class_logits.log_softmax(1)[torch.arange(len(labels)), labels]
    return torch.stack(told).mean() * lam + task.mean()


@answers("my_joint_loss")
def by_gather(token_logits, ids, class_logits, labels, lam):
    def told(logits, wanted):
        return logits.logsumexp(-1) - logits.gather(-1, wanted.unsqueeze(-1)).squeeze(-1)

    wanted = ids[:, 1:]
    real = wanted.gt(0).to(token_logits.dtype)
    return told(class_logits, labels).mean() + lam * (told(token_logits[:, :-1], wanted) * real).sum() / real.sum()


@answers("my_joint_loss")
def with_ignored_targets(token_logits, ids, class_logits, labels, lam):
    """The next token of each, and -100 where there is none; the loss as a tensor with one number."""
    wanted = torch.cat([ids[:, 1:], torch.zeros_like(ids[:, :1])], dim=1)
    wanted = wanted.masked_fill(wanted == 0, -100)
    loss = F.cross_entropy(token_logits.flatten(0, 1), wanted.flatten()) * lam
    loss += F.nll_loss(F.log_softmax(class_logits, dim=-1), target=labels)
    return loss[None]
