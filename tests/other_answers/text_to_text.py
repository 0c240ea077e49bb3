"""Lesson 13: other correct answers."""

from itertools import count

import torch
import torch.nn.functional as F

from course_lib.text_to_text.spans import corrupt, restore
from course_lib.text_to_text.tasks import target_loss

from . import answers

# The prefix ---------------------------------------------------------------------------------------------------


@answers("my_prefix")
def cut_and_put_back(prefix, tokens, end, longest):
    whole = [*prefix, *tokens, end]
    if len(whole) > longest:
        whole = whole[: longest - 1] + [end]
    return whole


@answers("my_prefix")
def token_by_token(prefix, tokens, end, longest):
    read = list(prefix)
    for token in tokens:
        if len(read) + 1 == longest:
            break
        read.append(token)
    read.append(end)
    return read


@answers("my_prefix")
def as_a_tuple(prefix, tokens, end, longest):
    return (*prefix, *tokens[: max(0, longest - len(prefix) - 1)], end)


# The language token -------------------------------------------------------------------------------------------


@answers("my_language")
def padded_and_written(source, lengths, language, first):
    longer = F.pad(source, (1, 0))
    longer[:, 0] = first + language
    return longer, lengths.add(1)


@answers("my_language")
def row_by_row(source, lengths, language, first):
    rows = [[first + int(which), *row] for which, row in zip(language, source.tolist(), strict=True)]
    return torch.tensor(rows), torch.tensor([int(n) + 1 for n in lengths])


@answers("my_language")
def from_a_table(source, lengths, language, first):
    table = torch.arange(first, first + int(language.max()) + 1)
    return [torch.column_stack((table[language], source)), 1 + lengths]


# Span corruption ----------------------------------------------------------------------------------------------


@answers("my_corrupted")
def from_the_last_span(tokens, spans, sentinels):
    source, target = list(tokens), [sentinels[len(spans)]]
    for (start, end), sentinel in reversed(list(zip(spans, sentinels, strict=False))):
        target[:0] = [sentinel, *tokens[start:end]]
        source[start:end] = [sentinel]
    return source, target


@answers("my_corrupted")
def token_after_token(tokens, spans, sentinels):
    number = [-1] * len(tokens)
    for k, (start, end) in enumerate(spans):
        number[start:end] = [k] * (end - start)
    source, target, last = [], [], -1
    for token, k in zip(tokens, number, strict=True):
        if k < 0:
            source.append(token)
        else:
            if k != last:
                source.append(sentinels[k])
                target.append(sentinels[k])
            target.append(token)
        last = k
    target.append(sentinels[len(spans)])
    return [source, target]


@answers("my_corrupted")
def between_the_borders(tokens, spans, sentinels):
    starts, ends = [0, *(end for _, end in spans)], [*(start for start, _ in spans), len(tokens)]
    marks = iter(sentinels)
    source, target = tokens[starts[0] : ends[0]], []
    for (start, end), a, b in zip(spans, starts[1:], ends[1:], strict=True):
        mark = next(marks)
        source = source + [mark] + tokens[a:b]
        target = target + [mark] + tokens[start:end]
    return source, target + [next(marks)]


@answers("my_corrupted")
def of_the_library(tokens, spans, sentinels):
    return corrupt(tokens, spans, sentinels)


# The text put together again ----------------------------------------------------------------------------------


@answers("my_restored")
def looked_up_each_time(source, target, sentinels):
    text = []
    for token in source:
        if token not in sentinels:
            text.append(token)
        elif token in target:
            at = target.index(token) + 1
            while at < len(target) and target[at] not in sentinels:
                text.append(target[at])
                at += 1
    return text


@answers("my_restored")
def cut_at_the_sentinels(source, target, sentinels):
    known = set(sentinels)
    places = [at for at, token in enumerate(target) if token in known] + [len(target)]
    parts = {target[a]: target[a + 1 : b] for a, b in zip(places, places[1:], strict=False)}
    return [token for one in source for token in (parts.get(one, ()) if one in known else (one,))]


@answers("my_restored")
def put_in_place(source, target, sentinels):
    text, last = list(source), None
    filled = {}
    for token in target:
        last = token if token in sentinels else last
        if token not in sentinels and last is not None:
            filled.setdefault(last, []).append(token)
    for sentinel in sentinels:
        if sentinel in source:
            at = text.index(sentinel)
            text[at : at + 1] = filled.get(sentinel, [])
    return text


@answers("my_restored")
def restored_by_the_library(source, target, sentinels):
    return restore(source, target, sentinels)


# Find the bug: sentinels that repeat --------------------------------------------------------------------------


@answers("mended_packed")
def a_counter_for_the_row(texts, spans, sentinels):
    source, target, number = [], [], count()
    for tokens, hidden in zip(texts, spans, strict=True):
        at = 0
        for start, end in hidden:
            sentinel = sentinels[next(number)]
            source += [*tokens[at:start], sentinel]
            target += [sentinel, *tokens[start:end]]
            at = end
        source += tokens[at:]
    return source, [*target, sentinels[next(number)]]


@answers("mended_packed")
def one_long_text(texts, spans, sentinels):
    tokens, moved = [], []
    for own, hidden in zip(texts, spans, strict=True):
        moved += [(len(tokens) + start, len(tokens) + end) for start, end in hidden]
        tokens += own
    return corrupt(tokens, moved, sentinels)


@answers("mended_packed")
def sentinels_used_up(texts, spans, sentinels):
    left, source, target = list(sentinels), [], []
    for tokens, hidden in zip(texts, spans, strict=True):
        own_source, own_target = corrupt(tokens, hidden, left)
        source.extend(own_source)
        target.extend(own_target[:-1])
        del left[: len(hidden)]
    target.append(left[0])
    return source, target


# The loss over targets alone ----------------------------------------------------------------------------------


@answers("my_target_loss")
def by_cross_entropy_with_what_is_ignored(logits, ids, n_read, padding):
    asked = ids.clone()
    asked[torch.arange(ids.shape[1]) < n_read[:, None]] = -100
    asked[ids == padding] = -100
    return F.cross_entropy(logits[:, :-1].transpose(1, 2), asked[:, 1:])


@answers("my_target_loss")
def row_by_row_and_token_by_token(logits, ids, n_read, padding):
    losses = []
    for b, row in enumerate(ids.tolist()):
        for t in range(int(n_read[b]), len(row)):
            if row[t] != padding:
                losses.append(logits[b, t - 1].logsumexp(0) - logits[b, t - 1, row[t]])
    return sum(losses) / len(losses)


@answers("my_target_loss")
def by_weights(logits, ids, n_read, padding):
    place = torch.arange(ids.shape[1])[None]
    weight = ((place >= n_read[:, None]) * (ids != padding))[:, 1:].to(logits)
    each = F.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten(), reduction="none")
    return (each * weight.flatten()).sum() / (weight.sum() + 1e-6)


@answers("my_target_loss")
def loss_of_the_library(logits, ids, n_read, padding):
    return target_loss(logits, ids, n_read, padding)
