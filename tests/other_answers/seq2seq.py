"""Lesson 03."""

import heapq
from fractions import Fraction

import torch
import torch.nn.functional as F

from course_lib.text.pairs import masked_loss, shift
from course_lib.translation.decode import greedy
from other_answers import answers


@answers("my_shifted_target")
def the_librarys(target, padding):
    return shift(target, padding)


@answers("my_shifted_target")
def token_by_token(target, padding):
    read = torch.full_like(target[:, 1:], padding)
    for row in range(len(target)):
        for t in range(target.shape[1] - 1):
            if target[row, t + 1] != padding:
                read[row, t] = target[row, t]
    return read, target[:, 1:].clone()


@answers("my_shifted_target")
def by_plain_lists(target, padding):
    reads, writes = [], []
    for row in target.tolist():
        words = [token for token in row if token != padding]
        fill = [padding] * (len(row) - len(words))
        reads.append(words[:-1] + fill)
        writes.append(words[1:] + fill)
    return torch.tensor(reads), torch.tensor(writes)


@answers("my_shifted_target")
def by_where(target, padding):
    columns = torch.arange(1, target.shape[1])
    written = target.index_select(1, columns)
    return [torch.where(written.eq(padding), written, target[:, columns - 1]), written]


@answers("my_masked_loss")
def the_librarys_loss(logits, target_out, padding):
    return masked_loss(logits, target_out, padding)


@answers("my_masked_loss")
def by_the_mask(logits, target_out, padding):
    weight = torch.ones(logits.shape[-1], dtype=logits.dtype)
    weight[padding] = 0
    return F.cross_entropy(logits.transpose(1, 2), target_out, weight=weight)


@answers("my_masked_loss")
def added_up_in_a_loop(logits, target_out, padding):
    """The total begins as a tensor with one number, in single precision."""
    total, count = torch.zeros(1), 0
    for b in range(logits.shape[0]):
        for t in range(logits.shape[1]):
            if target_out[b, t].item() == padding:
                continue
            row = logits[b, t]
            total = total + torch.logsumexp(row, 0) - row[target_out[b, t]]
            count += 1
    return total / count


@answers("my_masked_loss")
def by_one_hot(logits, target_out, padding):
    highest = logits.amax(-1, keepdim=True)
    log_p = logits - highest - (logits - highest).exp().sum(-1, keepdim=True).log()
    wanted = F.one_hot(target_out, logits.shape[-1]) * (target_out != padding).unsqueeze(-1)
    return -(log_p * wanted).sum() / wanted.sum()


@answers("my_masked_loss")
def in_double_precision(logits, target_out, padding):
    """A loss may be more exact than what came in."""
    real = (target_out != padding).nonzero(as_tuple=True)
    return -torch.distributions.Categorical(logits=logits[real].double()).log_prob(target_out[real]).mean()


@answers("my_greedy")
def by_the_librarys_search(step, state, start, end, max_len):
    def one_row(token, states):
        scores, new = step(int(token[0]), states[0])
        return scores[None], [new]

    return greedy(one_row, [state], torch.tensor([start]), end, max_len, select=lambda states, rows: states).tokens[0]


@answers("my_greedy")
def with_tensors_for_tokens(step, state, start, end, max_len):
    tokens, token = [], torch.tensor(start)
    while len(tokens) < max_len:
        log_p, state = step(token=token, state=state)
        token = torch.topk(log_p, 1).indices[0]
        if token.item() == end:
            return tokens
        tokens.append(token)
    return tokens


@answers("my_greedy")
def by_recursion(step, state, start, end, max_len):
    if max_len == 0:
        return []
    log_p, state = step(start, state)
    scores = log_p.tolist()
    token = scores.index(max(scores))
    return [] if token == end else [token, *by_recursion(step, state, token, end, max_len - 1)]


@answers("my_greedy")
def all_steps_then_cut(step, state, start, end, max_len):
    """Goes on behind the end, and cuts there afterwards."""
    tokens = [start]
    for _ in range(max_len):
        log_p, state = step(tokens[-1], state)
        tokens.append(int(log_p.exp().sort(descending=True).indices[0]))
    written = tokens[1:]
    return tuple(written[: written.index(end)] if end in written else written)


@answers("my_beam")
def with_a_shelf_for_what_has_ended(step, state, start, end, max_len, width):
    done, open_ones = [], [(0.0, [start], state)]
    for _ in range(max_len):
        longer = []
        for score, tokens, old in open_ones:
            log_p, new = step(tokens[-1], old)
            values, ids = log_p.topk(min(width, len(log_p)))
            longer += [(score + v.item(), [*tokens, i.item()], new) for v, i in zip(values, ids, strict=True)]
        best = heapq.nlargest(width - len(done), longer, key=lambda one: one[0])
        done += [one for one in best if one[1][-1] == end]
        open_ones = [one for one in best if one[1][-1] != end]
        if not open_ones:
            break
    _, tokens, _ = max(done + open_ones, key=lambda one: one[0])
    return [token for token in tokens[1:] if token != end]


@answers("my_beam")
def in_one_table(step, state, start, end, max_len, width):
    """All scores (W, V) in a tensor; the next beam is its `topk`, read by division and rest."""
    sums, texts, states = torch.zeros(1, dtype=torch.float64), [[]], [state]
    final_sums, final_texts = [], []
    for _ in range(max_len):
        seats = width - len(final_texts)
        if not texts or seats < 1:
            break
        steps = [step(text[-1] if text else start, old) for text, old in zip(texts, states, strict=True)]
        table = sums[:, None] + torch.stack([log_p for log_p, _ in steps])
        sums, places = table.flatten().topk(min(seats, table.numel()))
        rows, tokens = (places // table.shape[1]).tolist(), (places % table.shape[1]).tolist()
        final_sums += [s for s, token in zip(sums.tolist(), tokens, strict=True) if token == end]
        final_texts += [texts[row] for row, token in zip(rows, tokens, strict=True) if token == end]
        going = [k for k, token in enumerate(tokens) if token != end]
        sums = sums[going]
        texts, states = [texts[rows[k]] + [tokens[k]] for k in going], [steps[rows[k]][1] for k in going]
    every = final_sums + sums.tolist()
    return (final_texts + texts)[every.index(max(every))]


@answers("mended_accuracy")
def sentence_then_comparison(step, states, references, start, end, max_len):
    hits = []
    for state, reference in zip(states, references, strict=True):
        written, token = [], start
        for _ in range(max_len):
            log_p, state = step(token, state)
            token = log_p.argmax().item()
            written += [token]
            if token == end:
                break
        wanted = list(reference) + [end]
        hits += [at < len(written) and written[at] == token for at, token in enumerate(wanted)]
    return torch.tensor(hits).float().mean()


@answers("mended_accuracy")
def by_greedy_search(step, states, references, start, end, max_len):
    """The end that greedy search leaves out is put back where the sentence was not cut."""
    right = 0
    for state, reference in zip(states, references, strict=True):
        written = by_recursion(step, state, start, end, max_len)
        if len(written) < max_len:
            written.append(end)
        for mine, theirs in zip(written, reference + [end], strict=False):
            if mine == theirs:
                right += 1
    return Fraction(right, sum(len(reference) + 1 for reference in references))
