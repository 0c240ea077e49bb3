"""Lesson 10, what the records show: matching against fixed orders, DETR and a heat map, what NMS adds."""

from course_lib.workshop.experiments import finding, recorded
from course_lib.workshop.experiments.detr import core as detr
from course_lib.workshop.experiments.detr import laboratory as detr_laboratory
from course_lib.workshop.experiments.runs import Runs

NOTHING = 0.0  # the average precision of an untrained detector


def _ap(key="AP50", detector="DETR", crowded=False):
    return recorded(detr.rivals).numbers(key, detector=detector, crowded=crowded)


def _added(detector="DETR", crowded=False, which=""):
    return _ap(f"{which}AP50 suppressed", detector, crowded) - _ap(f"{which}AP50", detector, crowded)


def _order(order):
    return recorded(detr.orders).numbers("boxes AP50", order=order)


@finding(
    "After 400 steps with matching, AP50 of the boxes is at least 0.3 higher than with the objects sorted from left "
    "to right",
    chance=NOTHING,
)
def matching_beats_left_to_right():
    return _order("matched") - _order("left to right"), ">=", 0.3


@finding(
    "After 400 steps with the objects sorted from left to right, AP50 of the boxes is at least 0.2 higher than in "
    "list order",
    chance=NOTHING,
)
def an_order_beats_none():
    return _order("left to right") - _order("as listed"), ">=", 0.2


@finding(
    "After 300 steps at least 0.08 more of a query's attention lies in the box of its object than in the same box "
    "of another scene, where still at least 0.75 times as much lies in it",
    chance=0.09,
)
def queries_attend_to_regions():
    sight = recorded(detr.sight)
    here, elsewhere = sight.numbers("inside"), sight.numbers("inside, another scene")
    return here - elsewhere, ">=", 0.08, elsewhere / here, ">=", 0.75


@finding(
    "With as many parameters and 300 steps, the heat map is at least 0.01 AP50 ahead, with NMS and without",
    chance=NOTHING,
)
def heat_map_is_ahead():
    ahead = [_ap(key, "HeatMap") - _ap(key) for key in ("AP50", "AP50 suppressed")]
    return ahead[0], ">=", 0.01, ahead[1], ">=", 0.01


@finding(
    "After 300 steps NMS adds at least 0.03 to DETR's AP50, no less than to the heat map's",
    chance=NOTHING,
    at_least=4,
)
def suppression_helps_early():
    return _added(), ">=", 0.03, _added() - _added("HeatMap"), ">=", 0


@finding("After 300 steps NMS adds at most 0.015 to DETR at AP75, at least 0.02 less than at AP50", chance=NOTHING)
def suppression_adds_nothing_at_75():
    at_75 = _ap("AP75 suppressed") - _ap("AP75")
    return at_75, "<=", 0.015, _added() - at_75, ">=", 0.02


@finding("After 900 steps NMS adds at least 0.02 less to DETR's AP50 than after 300", chance=NOTHING)
def suppression_helps_less_later():
    longer = recorded(detr.longer)
    later = longer.numbers("AP50 suppressed") - longer.numbers("AP50")
    return Runs(_added().recorded[: len(later.recorded)]) - later, ">=", 0.02


@finding(
    "After 300 steps on plain scenes, DETR without self-attention is within 0.05 AP50 of DETR, and reaches at least "
    "0.75",
    chance=NOTHING,
)
def self_attention_is_not_needed_on_plain_scenes():
    without = recorded(detr.looks).numbers("AP50", look=False, crowded=False)
    return abs(_ap() - without), "<=", 0.05, without, ">=", 0.75


@finding(
    'After 300 steps NMS adds at least 0.03 more AP50 if "no object" has weight 0.03 than if it has weight 0.3',
    chance=NOTHING,
)
def a_light_nothing_needs_suppression():
    weighed = recorded(detr.nothings)
    light, heavy = (
        weighed.numbers("AP50 suppressed", nothing=w) - weighed.numbers("AP50", nothing=w) for w in (0.03, 0.3)
    )
    return light - heavy, ">=", 0.03


@finding('After 300 steps AP50 is at least 0.4 lower if "no object" has weight 1 than with weight 0.1', chance=NOTHING)
def a_heavy_nothing_finds_little():
    return _ap() - recorded(detr.nothings).numbers("AP50", nothing=1.0), ">=", 0.4


@finding(
    "After 300 steps DETR has at least 0.3 less AP50 without the distance weight, and 0.7 less without anchors",
    chance=NOTHING,
)
def distance_and_anchors_speed_it_up():
    changed = recorded(detr.parts)
    without = [_ap() - changed.numbers("AP50", change=one) for one in ("no distance weight", "no anchors")]
    return without[0], ">=", 0.3, without[1], ">=", 0.7


@finding("After 300 steps AP50 is at least 0.01 higher with denoising queries", chance=NOTHING)
def denoising_speeds_it_up():
    return recorded(detr_laboratory.denoised).numbers("AP50") - _ap(), ">=", 0.01


@finding(
    "After 300 steps nine queries reach at least 0.08 AP50 more than five, and five reach 0.08 more than three",
    chance=NOTHING,
)
def few_queries_find_less():
    three, five, nine = (recorded(detr.counts).numbers("AP50", queries=n) for n in (3, 5, 9))
    return nine - five, ">=", 0.08, five - three, ">=", 0.08


@finding(
    "After 300 steps, in training and test on crowded scenes, self-attention adds at least 0.02 AP50", chance=NOTHING
)
def self_attention_helps_in_crowds():
    without = recorded(detr.looks).numbers("crowded AP50", look=False, crowded=True)
    return _ap("crowded AP50", crowded=True) - without, ">=", 0.02


@finding(
    "After 300 steps, in training and test on crowded scenes, NMS adds at least 0.04 more AP50 to DETR than to the "
    "heat map",
    chance=NOTHING,
)
def crowds_need_suppression():
    return _added(crowded=True, which="crowded ") - _added("HeatMap", crowded=True, which="crowded "), ">=", 0.04
