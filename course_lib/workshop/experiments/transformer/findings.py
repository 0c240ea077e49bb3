"""Lesson 06, what the records show: the root of d_k, and what each part of a block adds (after 300 steps)."""

from course_lib.workshop.experiments import finding, recorded
from course_lib.workshop.experiments.transformer import ladder as transformer_ladder

GUESS = 0.1  # of 10 symbols
DIVIDED, PLAIN, SMALLER = "divided by √d_k", "not divided", "not divided, W_q begins smaller"


def _head(width, way):
    return recorded(transformer_ladder.root).numbers("right", d_k=width, way=way)


def _end(build):
    return recorded(transformer_ladder.ladder).numbers("end", build=build)


def _kind(build, kind):
    return recorded(transformer_ladder.ladder).numbers("of kind", kind, build=build)


@finding(
    "Without the division a head of width 64 is at least 20 points behind one with it, a head of width 512 at least 70",
    chance=GUESS,
)
def the_root_is_needed():
    return _head(64, DIVIDED) - _head(64, PLAIN), ">=", 0.2, _head(512, DIVIDED) - _head(512, PLAIN), ">=", 0.7


@finding(
    "Smaller initial weights replace the root at width 64 (at least 95 % correct) and not at 512 (at most 90 %)",
    chance=GUESS,
    at_least=9,
)
def a_small_start_replaces_it_at_64():
    return _head(64, SMALLER), ">=", 0.95, _head(512, SMALLER), "<=", 0.9


@finding("After 300 steps heads add at least 5 points to attention alone", chance=GUESS)
def heads_add():
    return _end("+ heads") - _end("lesson 05's layer"), ">=", 0.05


@finding("After 300 steps a second layer adds more than heads, feed-forward, residual and norm together", chance=GUESS)
def a_second_layer_adds_more():
    one = _end("+ norm")
    return _end("+ depth") - one - (one - _end("lesson 05's layer")), ">", 0


@finding(
    'After 300 steps two layers answer "what came after me last time" at least 85 % correctly, one layer at most 45 %',
    chance=GUESS,
)
def two_layers_find_what_came_after():
    return _kind("+ depth", 2), ">=", 0.85, _kind("+ norm", 2), "<=", 0.45


@finding(
    "After 300 steps two layers without the residual are at most 10 points ahead of one, and at least at 50 %",
    chance=GUESS,
)
def the_residual_is_needed_early():
    bare = _end("no residual")
    return bare - _end("+ norm"), "<=", 0.1, bare, ">=", 0.5


@finding(
    "After 300 steps two layers with one head, or without norms, are at most 5 points behind, and above 80 %",
    chance=GUESS,
)
def heads_and_norms_are_not_missed():
    one, bare = _end("one head"), _end("no norm")
    return _end("+ depth") - one, "<=", 0.05, _end("+ depth") - bare, "<=", 0.05, one, ">=", 0.8, bare, ">=", 0.8
