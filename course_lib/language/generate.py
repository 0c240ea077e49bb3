"""Generation: a language model writes, token by token, and a few knobs decide how daring it is. Lesson 07.

Shapes: B batch, T tokens read, V vocab_size. Batch first, always. The model is called as model(ids (B, T), mask bool
(B, T), cache) -> logits (B, T, V), where True is a real token and padding stands on the left, has as many blocks as
the cache has dicts, and says in `max_len` how long a text it can read: `GPT` and `Decoder` are such models.
"""

import math
import warnings
from collections.abc import Iterable, Sequence
from operator import index

import torch
from torch import Tensor

from course_lib.inputs.sequences import is_whole, reading, select_rows
from course_lib.inputs.shapes import check_shapes
from course_lib.recurrent.language_model import COLDEST


def keep_top_k(logits: Tensor, k: int) -> Tensor:
    """The k best logits stay, every other token gets -infinity (Fan et al., 2018, section 5.4).

    logits (..., V) -> (..., V). Exactly k stay, also among equals; all of them where k is larger than V.
    """
    check_shapes("keep_top_k", logits=(logits, "... V+"))
    best = logits.topk(min(k, logits.shape[-1])).indices  # (..., k)
    kept = torch.zeros_like(logits, dtype=torch.bool).scatter(-1, best, True)  # (..., V)
    return logits.masked_fill(~kept, -math.inf)


def keep_top_p(logits: Tensor, p: float) -> Tensor:
    """The smallest set of tokens whose probability reaches p stays (Holtzman et al., 2020, section 3.1, equation 2).

        sum of p(token) over the set >= p,  best tokens first

    logits (..., V) -> (..., V), -infinity outside the set. p = 0 keeps the best token, p = 1 all of them.
    """
    check_shapes("keep_top_p", logits=(logits, "... V+"))
    if p == 1:
        return logits
    probs, order = _precise(logits).softmax(dim=-1).sort(descending=True, stable=True)  # (..., V)
    reached = probs.cumsum(dim=-1).roll(1, dims=-1)  # (..., V): what all better tokens have together
    kept = reached < p
    kept[..., 0] = True  # before the best token stands nothing
    return logits.masked_fill(~kept.scatter(-1, order, kept), -math.inf)


def next_probs(
    logits: Tensor, temperature: float = 1.0, top_k: int | None = None, top_p: float | None = None
) -> Tensor:
    """softmax(logits / temperature), of the tokens that top_k and then top_p keep: (..., V) -> (..., V), sums to 1.

    Temperature 0 gives all to the best token; 1 is the model's own distribution; more makes it more even. None keeps
    every token. Half precision is computed in full; NaN or infinity among the logits makes all of a row NaN. Raises
    ValueError for knobs that do not fit.
    """
    check_shapes("next_probs", logits=(logits, "... V+"))
    _check_knobs(temperature, top_k, top_p)
    logits = _precise(logits)
    logits = logits - logits.amax(dim=-1, keepdim=True)  # changes no probability; nothing is too large to divide
    if temperature < COLDEST:
        best = torch.zeros_like(logits).scatter(-1, logits.argmax(dim=-1, keepdim=True), 1.0)
        return best.masked_fill(logits.isnan().any(dim=-1, keepdim=True), math.nan)
    logits = logits / temperature
    if top_k is not None:
        logits = keep_top_k(logits, top_k)
    if top_p is not None:
        logits = keep_top_p(logits, top_p)
    return logits.softmax(dim=-1)


@torch.no_grad()
def generate(
    model,
    prompts: Tensor | Sequence[Sequence[int] | Tensor],
    n_tokens: int,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    stop: int | Iterable[int] = (),
    generator: torch.Generator | None = None,
    cache: bool = True,
) -> list[list[int]]:
    """What the model writes behind each prompt: up to n_tokens new ids a prompt, drawn from `next_probs`.

    prompts: ids (B, T), or a list of B lists or tensors of any lengths. A row ends before the first of its tokens that
    is in `stop`, and leaves the batch. generator: on the model's device, makes the draws repeatable. cache=True keeps
    keys and values, so that each step reads one token; the numbers are those of reading everything again.
    A text longer than model.max_len is read through a window of the last max_len tokens, again at every step, which a
    warning says once. The model is in eval mode meanwhile, and each part in its own mode behind it. Waits for a device
    once a token. Raises ValueError or TypeError, in words, for an empty prompt, for knobs that do not fit and for a
    broken model.
    """
    rows, stop = _check_prompts(prompts), _check_stop(stop)
    _check_knobs(temperature, top_k, top_p)
    with reading(model):
        return _write(model, rows, n_tokens, stop, (temperature, top_k, top_p), generator, cache)


def _write(
    model, prompts: list[list[int]], n_tokens: int, stop: set[int], knobs: tuple, generator, cache: bool
) -> list[list[int]]:
    texts = _Texts(model, prompts, cache)
    written = [[] for _ in prompts]
    live = list(range(len(prompts)))  # live[row]: whose text it is; who has met a stop token leaves
    slides = False
    for _ in range(n_tokens):
        slides = slides or _warn_if_it_slides(max(texts.lengths), model.max_len)
        logits = texts.read()  # (B, V)
        token = _draw(next_probs(logits, *knobs), generator)  # (B,)
        words = _look(token, logits)
        on = [row for row, word in enumerate(words) if word not in stop]
        for row in on:
            written[live[row]].append(words[row])
        live = [live[row] for row in on]
        if not live:
            break
        texts.go_on(on, token)
    return written


class _Texts:
    """The texts that are being written, (B, T), each behind its padding, and what the model keeps of them.

    lengths counts all tokens of each text; the columns are those that the model still reads. kept is None, or a dict a
    block, with the keys and values of all columns but the last; each is empty before it was read.
    """

    def __init__(self, model, prompts: list[list[int]], cache: bool):
        device = next(model.parameters()).device
        self.model, self.cache, self.kept = model, cache, None
        self.lengths = [len(prompt) for prompt in prompts]
        self.ids, self.real = (part.to(device) for part in _left_padded(prompts))  # (B, T) each

    def read(self) -> Tensor:
        """The logits of what comes next, (B, V)."""
        if self.kept is None or self.ids.shape[1] > self.model.max_len:
            self._open()
        new = self.ids[:, -1:] if self.kept and self.kept[0] else self.ids
        padded = min(self.lengths) < self.ids.shape[1]  # a batch without padding is read faster
        return self.model(new, self.real if padded else None, self.kept)[:, -1]

    def go_on(self, rows: list[int], token: Tensor) -> None:
        """These texts go on, each by its token, (B,); the others leave."""
        if len(rows) < len(self.lengths):
            on = torch.tensor(rows).to(token.device)
            self.ids, self.real, self.kept, token = select_rows((self.ids, self.real, self.kept, token), on)
        self.lengths = [self.lengths[row] + 1 for row in rows]
        self.ids = torch.cat([self.ids, token[:, None]], dim=1)
        self.real = torch.cat([self.real, torch.ones_like(self.real[:, :1])], dim=1)

    def _open(self) -> None:
        """Cut off the columns that no text needs or that the model cannot read, and begin to keep anew.

        Keys and values know their places: where the longest text is cut, all places move, and nothing can be kept.
        """
        longest, room = max(self.lengths), self.model.max_len
        width = min(longest, room)
        self.ids, self.real = self.ids[:, -width:], self.real[:, -width:]
        self.kept = [{} for _ in self.model.blocks] if self.cache and longest <= room else None


def _left_padded(rows: list[list[int]]) -> tuple[Tensor, Tensor]:
    """Ids (B, T), 0 where there is none, and where there is one, bool (B, T): all rows end in the last column."""
    T = max(map(len, rows))
    ids = torch.tensor([[0] * (T - len(row)) + row for row in rows])
    return ids, torch.tensor([[False] * (T - len(row)) + [True] * len(row) for row in rows])


def _draw(probs: Tensor, generator: torch.Generator | None) -> Tensor:
    """One token a row by its probability, (B, V) -> (B,): the first whose clock rings, each ringing at the rate p.

    So does torch.multinomial, which has the device itself stop the program where these are no probabilities.
    """
    waits = torch.empty_like(probs).exponential_(generator=generator)
    return (probs / waits.clamp(min=torch.finfo(probs.dtype).tiny)).argmax(dim=-1)  # a wait of 0 draws no p of 0


def _look(token: Tensor, logits: Tensor) -> list[int]:
    """The tokens (B,) as whole numbers: the one look in a step, which waits for a device."""
    words = torch.where(logits.amax(dim=-1).isfinite(), token, -1).tolist()
    _check_drawn(words)
    return words


def _precise(logits: Tensor) -> Tensor:
    return logits.to(torch.promote_types(logits.dtype, torch.get_default_dtype()))


def _warn_if_it_slides(length: int, max_len: int) -> bool:
    if length > max_len:
        warnings.warn(
            f"The text is {length} tokens long by now, and this model reads {max_len}: from here on it sees the last "
            f"{max_len} tokens only, and each step reads all of them again.",
            stacklevel=5,  # whoever called `generate`
        )
    return length > max_len


def _check_knobs(temperature: float, top_k: int | None, top_p: float | None) -> None:
    if not 0 <= temperature < math.inf or top_k is not None and top_k < 1 or top_p is not None and not 0 <= top_p <= 1:
        raise ValueError(
            "The temperature must be a number from 0 (always the best token) upwards, top_k 1 or more, top_p from 0 to "
            f"1; got {temperature}, {top_k} and {top_p}."
        )


def _check_prompts(prompts) -> list[list[int]]:
    """The prompts as lists of whole numbers; no tensor is made, and one on a device is looked at once."""
    wanted = "The prompts must be token ids, a list of whole numbers from 0 for each prompt"
    try:
        prompts = prompts.tolist() if hasattr(prompts, "tolist") else prompts
        rows = [row.tolist() if hasattr(row, "tolist") else list(row) for row in prompts]
        rows = [[index(token) for token in row] for row in rows]
    except TypeError as error:
        raise TypeError(f"{wanted}; got {prompts!r:.80}. Encode a text first.") from error
    if not rows or any(token < 0 for row in rows for token in row):
        raise ValueError(f"{wanted}; got {prompts!r:.80}.")
    if [] in rows:
        raise ValueError(
            f"Prompt {rows.index([])} is empty: a model needs a token to begin with, such as a space or a line's end."
        )
    return rows


def _check_stop(stop) -> set[int]:
    try:
        return {index(token) for token in ([stop] if is_whole(stop) else stop)}
    except TypeError:
        wanted = "stop must be token ids, whole numbers"
        raise TypeError(f"{wanted}; got {stop!r:.80}: encode the text at which to stop.") from None


def _check_drawn(words: list[int]) -> None:
    if -1 in words:
        raise ValueError("The model gave NaN or infinity for a next token: it may have diverged in training.")
