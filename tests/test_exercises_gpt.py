"""Lesson 07's exercises: they agree with the library, and the planted bug misleads."""

import math

import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F
from other_answers.gpt import a_list_for_a_cache, position_by_position

from course_lib.attention.attention import causal_mask
from course_lib.attention.multi_head import MultiHead
from course_lib.language.generate import next_probs
from course_lib.lesson.judge import judge
from course_lib.text.bpe import merge
from course_lib.workshop.exercises import all_exercises, all_investigations, all_quizzes, find
from course_lib.workshop.exercises.gpt import my_merge, my_top_p, my_window
from course_lib.workshop.exercises.gpt_cache import broken_next, mended_next, my_cached
from course_lib.workshop.exercises.gpt_fine_tuning import my_joint_loss

# Wrong ways that are not in the tables ------------------------------------------------------------------------


def in_place(tokens, pair):
    for i in range(len(tokens) - 1, 0, -1):
        if (tokens[i - 1], tokens[i]) == pair:
            tokens[i - 1 : i + 1] = [tokens[i - 1] + tokens[i]]
    return tokens


def as_text(tokens, pair):
    return " ".join(my_merge(tokens, pair))


KEPT_TOKENS, KEPT_CACHE = [], {}


def remembers(tokens, pair):
    KEPT_TOKENS.extend(my_merge(tokens, pair))
    return KEPT_TOKENS


def a_row_too_many(n_new, n_all):
    return causal_mask(n_all)[-n_new - 1 :]


def stops_at_two(probs, p):
    kept = my_top_p(probs, p)
    return kept * (kept >= kept.topk(2).values[:, -1:])


def doubled(x, cache, w_q, w_k, w_v, window):
    out = my_cached(x, cache, w_q, w_k, w_v, window)
    return out if len(x[0]) > 1 else 2 * out


def outside(x, cache, w_q, w_k, w_v, window):
    if not cache:
        KEPT_CACHE.clear()
    cache["begun"] = True
    return my_cached(x, KEPT_CACHE, w_q, w_k, w_v, window)


def place_after_looking(ids, cache, tokens, places, look, readout):
    x = tokens[ids]
    looked = look(x + places[: ids.shape[1]], cache)
    past = cache["k"].shape[1] - ids.shape[1]
    return readout(x + places[past : past + ids.shape[1]] + looked)


def last_token_only(token_logits, ids, class_logits, labels, lam):
    return my_joint_loss(token_logits[:, -2:], ids[:, -2:].clamp(min=1), class_logits, labels, lam)


@pytest.mark.parametrize(
    ("name", "answer", "said"),
    [
        ("my_merge", in_place, "Your function changes its input `tokens` in place"),
        ("my_merge", as_text, "with the pair ('t', 'h') gives ['th', 'e']; yours gives th e."),
        ("my_merge", remembers, "begin with an empty list in every call"),
        ("my_window", a_row_too_many, "Return one boolean per new token and token so far, (n_new, n_all)"),
        ("my_top_p", stops_at_two, "With p = 1 every token stays"),
        ("my_cached", doubled, "All at once is right, one token at a time is not"),
        ("my_cached", outside, "keep nothing outside `cache`"),
        ("mended_next", place_after_looking, "The call with 1 new after 3 is wrong: their positions are 3 to 3"),
        ("my_joint_loss", last_token_only, "L2 is right. Without padding the sum is wrong"),
    ],
)
def test_a_wrong_way_that_nobody_listed_is_told_where_to_look(name, answer, said):
    verdict = judge(find(name), answer)
    assert verdict.kind == "wrong" and said in verdict.message, verdict


# The solutions are the library's ------------------------------------------------------------------------------


def test_heads_with_a_cache_side_by_side_are_the_librarys():
    """What the notebook's build does: a head each, matrices (D, d), and however the text comes, the same numbers."""
    torch.manual_seed(0)
    layer, x = MultiHead(12, 3, bias=False).double(), torch.randn(2, 9, 12, dtype=torch.float64)
    matrices = [[w.weight.T[:, 4 * h : 4 * h + 4] for w in (layer.w_q, layer.w_k, layer.w_v)] for h in range(3)]
    right = layer(x, causal=True)
    for head in (my_cached, a_list_for_a_cache, position_by_position):
        for chunks in ([9], [4, 1, 3, 1], [1] * 9):
            caches = [{}, {}, {}]
            parts = [
                torch.cat([head(new, cache, *w, my_window) for cache, w in zip(caches, matrices, strict=True)], dim=-1)
                for new in x.split(chunks, dim=1)
            ]
            torch.testing.assert_close(layer.w_o(torch.cat(parts, dim=1)), right, rtol=0, atol=1e-12)


def test_the_merge_and_the_mask_are_the_librarys():
    line = list("the other thing that they gather there")
    for pair in (("t", "h"), ("e", "r"), ("e", " ")):
        assert my_merge(line, pair) == list(merge(line, pair))
    assert torch.equal(my_window(7, 7), causal_mask(7))
    assert my_window(2, 4).tolist() == [[True, True, True, False], [True, True, True, True]]


@pytest.mark.parametrize("p", [0.0, 0.3, 0.9, 1.0])
def test_top_p_is_the_librarys(p):
    logits = 2 * torch.randn(5, 40, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    torch.testing.assert_close(my_top_p(logits.softmax(-1), p), next_probs(logits, top_p=p), rtol=0, atol=1e-12)


# The planted bug ----------------------------------------------------------------------------------------------

VOCAB, LENGTH = 12, 8  # 0 stands between what is read and what is written


class Writer(nn.Module):
    """Writes eight symbols backwards: embedding and places, one look back at itself, in a given step."""

    def __init__(self, step, d=48):
        super().__init__()
        self.step, self.tokens, self.readout = step, nn.Parameter(torch.randn(VOCAB, d)), nn.Linear(d, VOCAB)
        self.places = nn.Parameter(torch.randn(2 * LENGTH + 1, d))
        self.w = nn.ParameterList(torch.randn(d, d) / math.sqrt(d) for _ in range(3))

    def look(self, x, cache):
        return my_cached(x, cache, *self.w, my_window)

    def forward(self, ids, cache):
        return self.step(ids, cache, self.tokens, self.places, self.look, self.readout)

    def loss(self, ids):
        return F.cross_entropy(self(ids[:, :-1], {})[:, LENGTH:].mT, ids[:, LENGTH + 1 :])

    @torch.no_grad()
    def written(self, prompt):
        """What it writes with its cache: (B, LENGTH)."""
        cache, new, ids = {}, prompt, []
        for _ in range(LENGTH):
            new = self(new, cache)[:, -1:].argmax(-1)
            ids.append(new)
        return torch.cat(ids, dim=1)


def backwards(batch, generator):
    source = torch.randint(1, VOCAB, (batch, LENGTH), generator=generator)
    return torch.cat([source, torch.zeros(batch, 1, dtype=torch.long), source.flip(1)], dim=1)


@pytest.mark.slow
def test_the_planted_bug_trains_splendidly_and_writes_badly_behind_the_first_token():
    """Of ten seeds: the loss on new texts is 0.00, the first symbol always right, of those behind it 0.21 to 0.23 are.

    With the mended step the same weights write everything right, so nothing was wrong with what was learned.
    """
    torch.manual_seed(0)
    model, generator = Writer(broken_next), torch.Generator().manual_seed(0)
    optimiser = torch.optim.Adam(model.parameters(), 5e-3)
    for _ in range(300):
        optimiser.zero_grad()
        model.loss(backwards(32, generator)).backward()
        optimiser.step()
    ids = backwards(200, torch.Generator().manual_seed(99))
    with torch.no_grad():
        assert model.loss(ids) < 0.1
    right = {}
    for step in (broken_next, mended_next):
        model.step = step
        right[step] = (model.written(ids[:, : LENGTH + 1]) == ids[:, LENGTH + 1 :]).double().mean(0)  # (LENGTH,)
    assert right[broken_next][0] >= 0.95 and right[broken_next][1:].mean() <= 0.5
    assert right[mended_next].min() >= 0.95


# What is asked ------------------------------------------------------------------------------------------------


def test_the_lesson_asks_what_its_plan_lists():
    own = [one for one in all_exercises() if one.lesson == "gpt"]
    names = {"my_merge", "my_window", "my_top_p", "my_cached", "mended_next", "my_joint_loss"}
    assert {one.name for one in own} == names
    asked = {one.key for one in all_quizzes() if one.lesson == "gpt"}
    assert asked == {
        "bits_compare", "one_mask_away", "temperature_top_p", "what_is_cached", "examples_change", "read_before",
    }  # fmt: skip
    assert {one.name for one in all_investigations() if one.lesson == "gpt"} == {"what_in_the_prompt_helps"}
