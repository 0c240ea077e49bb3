"""Lesson 08: what the recorded runs show of small BERTs of plays, and of MiniLM."""

from course_lib.workshop.experiments import finding, recorded
from course_lib.workshop.experiments.bert.core import emoji_labels, holes, next_piece, pupil, shuffled_senses
from course_lib.workshop.experiments.bert.first_steps import LOOKS, SWEEP, first_steps, through_training
from course_lib.workshop.experiments.bert.laboratory import (
    emoji_layers,
    head_looks,
    heads_out,
    mask_rates,
    one_sided,
    ours_out,
    two_readers,
    window_networks,
)
from course_lib.workshop.experiments.bert.uses import real_tuned, rules, search_names, search_plays
from course_lib.workshop.experiments.runs import least_of, most_of

# --- both sides, and the blank


@finding(
    "At the last position, where the next piece is not in view, the model without the causal mask needs at least 0.7 "
    "bits more than its twin with the mask",
    chance=11.0,
)
def without_the_mask_the_last_position_is_worse():
    without, with_mask = (recorded(next_piece).numbers("last", triangle=triangle) for triangle in (False, True))
    return without - with_mask, ">=", 0.7


def small_bert(what, *path, step=LOOKS[-1]):
    """A number of the small BERT of rows of eight pieces, after so many steps."""
    return recorded(through_training).numbers(what, LOOKS.index(step), *path)


@finding(
    "In rows of eight pieces the small BERT owes what it saves to the two pieces beside the blank: with all others "
    "exchanged it still saves at least 2 bits against counts of single pieces, with these two exchanged it does worse "
    "than the counts",
    chance=0.0,
)
def a_blank_needs_its_neighbours():
    return small_bert("saved among others"), ">=", 2, small_bert("saved beside others"), "<", 0


@finding(
    "After 100 steps the small BERT is still at most 0.25 bits away from the frequencies of single pieces, in the end "
    "at least 2.5",
    chance=0.0,
)
def first_it_learns_the_frequencies():
    early, end = (small_bert("from single pieces", step=step) for step in (100, LOOKS[-1]))
    return early, "<=", 0.25, end, ">=", 2.5


@finding(
    "In the end the clearest head of the small BERT gives the pieces beside the blank at least 95 % of its attention",
    chance=0.25,
)
def then_a_head_finds_the_neighbours():
    return most_of(*(small_bert("heads", layer, head) for layer in (0, 1) for head in range(4))), ">=", 0.95


def hole(side):
    """Bits of a hidden piece for the stored BERT, with this in view."""
    return recorded(holes).numbers("bits", side)


@finding(
    "The stored BERT uses both sides: one side alone costs it at least 1.5 bits per hidden piece more than both, and "
    "no side at least 1.5 more than one",
    chance=11.0,
)
def both_sides_are_used():
    one_side = [hole("left side alone"), hole("right side alone")]
    return least_of(*one_side) - hole("both sides"), ">=", 1.5, hole("neither") - most_of(*one_side), ">=", 1.5


# --- uses, beside simpler methods


def tuned(task, n, start="MiniLM"):
    """The score of MiniLM, or of its untrained twin, fine-tuned on n labels."""
    return recorded(real_tuned).numbers("score", task=task, n=n, start=start)


def rule(task, n):
    """The score of a rule, or of a bag of words, with the same labels; its best draw and its worst lie at the ends."""
    return recorded(rules).numbers("score", task=task, n=n)


@finding(
    "Names, 400 labels: fine-tuned for 80 steps, MiniLM has an F1 at least 15 points above its untrained twin after as "
    "many, and at least 30 above a rule that reads the same small letters",
    chance=0.0,
)
def names_need_pretraining():
    names = tuned("names", 400)
    above_rule = names - rule("names", 400).most
    return names - tuned("names", 400, "fresh MiniLM"), ">=", 0.15, above_rule, ">=", 0.3


@finding(
    "Emoji, all 823 labels: fine-tuned for 60 steps, MiniLM is right at least 12 points more often than a bag of words",
    chance=0.125,
)
def emoji_are_ahead_of_the_bag():
    return tuned("emoji", 823) - rule("emoji", 823).mean, ">=", 0.12


@finding(
    "In the task *says* a rule is right at least 40 points more often than MiniLM, fine-tuned for 90 steps", chance=0.0
)
def a_rule_beats_minilm_in_says():
    return rule("says", 378).least - tuned("says", 378), ">=", 0.4


def frozen(system, n=100):
    """The share of new emoji names in the right group, after n labels, in each of ten draws."""
    return recorded(emoji_labels).numbers(system, n)


BAG, VECTORS, OURS, MINILM = "bag of words", "its word vectors alone", "our BERT of the plays", "real BERT"


@finding(
    "A read-out of the frozen MiniLM is right at least 3 points more often with 100 labels than a bag of words with "
    "all 823",
    chance=0.125,
)
def a_hundred_labels_beat_all():
    return frozen(MINILM) - frozen(BAG, 823), ">=", 0.03


@finding(
    "Our own BERT, which has read plays alone, stays below the bag of words with 100 labels, in nine of ten draws",
    chance=0.125,
    at_least=9,
)
def our_bert_stays_below_the_bag():
    return frozen(BAG) - frozen(OURS), ">", 0


@finding(
    "MiniLM's word vectors alone, without its layers, are right at least 10 points more often than the bag of words; "
    "the same numbers in another order at most 2",
    chance=0.125,
)
def the_word_vectors_are_ahead_of_the_bag():
    shuffled = frozen("word vectors shuffled") - frozen(BAG)
    return frozen(VECTORS) - frozen(BAG), ">=", 0.1, shuffled, "<=", 0.02


@finding(
    "MiniLM's six layers add at least 2 points to its word vectors, and less than these are ahead of the bag of words",
    chance=0.125,
)
def the_layers_add_less_than_the_vectors():
    layers, vectors = frozen(MINILM) - frozen(VECTORS), frozen(VECTORS) - frozen(BAG)
    return layers, ">=", 0.02, vectors - layers, ">", 0


def found(system, kind):
    """The share of the questions whose passage is among the first ten of 200."""
    return recorded(search_plays).numbers(system, "all", "in ten", kind=kind)


@finding(
    "By one of its words, BM25 finds a speech among its first ten at least 15 points more often than MiniLM",
    chance=0.05,
)
def counting_finds_words():
    return found("BM25", "one of its words") - found("MiniLM", "one of its words"), ">=", 0.15


@finding(
    "MiniLM is ahead of BM25 by at least 5 points for replies to a question, and by at least 10 for other names of an "
    "emoji",
    chance=0.05,
)
def meaning_finds_replies():
    replies = found("MiniLM", "a question and its reply") - found("BM25", "a question and its reply")
    names = [recorded(search_names).numbers(system, "all", "in ten") for system in ("MiniLM", "BM25")]
    return replies, ">=", 0.05, names[0] - names[1], ">=", 0.1


# --- laboratory: masks


@finding(
    "Of the words of several pieces that are hit, at least 90 % are hidden only in part where pieces are chosen by "
    "themselves, and none where whole words are",
    chance=0.0,
)
def most_long_words_are_hidden_in_part():
    parts, whole = (
        recorded(mask_rates).numbers("hidden in part", how) for how in ("pieces by themselves", "whole words")
    )
    return parts, ">=", 0.9, whole, "==", 0


# --- laboratory: is it slower than a GPT?


def gained(how):
    """Bits per piece below counts of single pieces, after 300 steps."""
    return recorded(pupil).numbers("in the end", how=how)


@finding(
    "At this rate, after 300 steps, the GPT saves at least 0.5 bits per piece against counts of single pieces, and the "
    "BERT at most 0.15",
    chance=0.0,
)
def the_bert_starts_more_slowly():
    return gained("next"), ">=", 0.5, gained("hidden"), "<=", 0.15


@finding(
    "Few answers are a part of the reason: a GPT that is asked at 15 of 100 positions saves at least 0.2 bits less "
    "than one asked everywhere, and at least 0.12 more than the BERT",
    chance=0.0,
)
def few_answers_are_a_part_of_it():
    few = gained("next, 15 of 100")
    return gained("next") - few, ">=", 0.2, few - gained("hidden"), ">=", 0.12


@finding(
    "Finding the neighbour is another part: a BERT that is handed the piece before each position saves at least 0.25 "
    "bits more, and a GPT that can attend to one piece only at least 0.15 more than one that can attend to all",
    chance=0.0,
)
def finding_the_neighbour_is_another_part():
    handed = gained("hidden, handed") - gained("hidden")
    return handed, ">=", 0.25, gained("next, alone") - gained("next, 15 of 100"), ">=", 0.15


def in_rows(length):
    """Bits saved after 500 steps in rows of this length, for both norms and both rates."""
    return [recorded(first_steps).numbers("in the end", **one) for one in SWEEP if one["length"] == length]


@finding(
    "With both norms and both rates a BERT saves at least 0.4 bits after 500 steps in rows of 8 pieces, and at most "
    "0.15 in rows of 24",
    chance=0.0,
)
def short_rows_leave_the_frequencies():
    return least_of(*in_rows(8)), ">=", 0.4, most_of(*in_rows(24)), "<=", 0.15


@finding(
    "In rows of 8 a head gives the two pieces beside the blank at least 60 % of its attention; in rows of 24 none "
    "gives them twice an even share",
    chance={"looks in the end": 0.25, "even": 0.25},
)
def in_short_rows_a_head_finds_the_neighbours():
    short, long = (
        {
            what: recorded(first_steps).numbers(what, length=n, pre_norm=False, rate=4e-3, steps=500)
            for what in ("looks in the end", "even")
        }
        for n in (8, 24)
    )
    return short["looks in the end"], ">=", 0.6, long["looks in the end"], "<", long["even"] * 2


# --- laboratory: senses, and how far the stored BERT sees


def senses_without(which):
    """How often MiniLM finds the sense of a word without some of its heads."""
    return recorded(heads_out).numbers("left", which)


@finding(
    "With its weights in another order MiniLM finds the sense of at most 60 % of the words in any layer, and as it is "
    "of at least 75 % in the last",
    chance=3 / 7,
)
def shuffled_weights_find_no_senses():
    return recorded(shuffled_senses).numbers("best"), "<=", 0.6, senses_without("none"), ">=", 0.75


@finding(
    "The two pieces beside a blank save the stored BERT at least 2 bits, and all others together at most 1.5 more",
    chance=11.0,
)
def the_pieces_beside_a_blank_save_most():
    beside = hole("one piece on each side")
    return hole("neither") - beside, ">=", 2, beside - hole("both sides"), "<=", 1.5


@finding(
    "One exchanged piece beside the blank costs at least 2 bits more than one that stands nine or more away", chance=0.0
)
def an_exchanged_piece_costs_most_beside_the_blank():
    lost = {d: recorded(holes).numbers("lost", d) for d in (-14, -9, -1, 1, 9, 14)}
    return lost[-1] - most_of(lost[-9], lost[-14]), ">=", 2, lost[1] - most_of(lost[9], lost[14]), ">=", 2


# --- laboratory: which layer to read


def read_from(way):
    """The share of emoji names in the right group with 100 labels, read from a layer or from several."""
    return recorded(emoji_layers).numbers("right", way)


@finding(
    "The last layer is right at least 2 points more often than the word vectors alone, and the last four together, "
    "summed or side by side, more often than the last one",
    chance=0.125,
)
def four_layers_beat_the_last():
    last = read_from("layer 6, last")
    four = least_of(read_from("sum of the last four"), read_from("last four side by side"))
    return last - read_from("word vectors (layer 0)"), ">=", 0.02, four - last, ">", 0


@finding(
    "ELMo's mixture gives at least half of its weight to the last three layers, and is right in at least 55 % of the "
    "names, within 3 points of a plain mean trained in the same way",
    chance={"share of each layer": 1 / 7, "right": 0.125},
)
def a_learned_mixture_is_no_better():
    late = [recorded(emoji_layers).numbers("share of each layer", layer) for layer in (4, 5, 6)]
    apart = abs(read_from("ELMo's mixture") - read_from("plain mean, same training"))
    return late[0] + late[1] + late[2], ">=", 0.5, read_from("ELMo's mixture"), ">=", 0.55, apart, "<=", 0.03


# --- laboratory: what the heads attend to, and what is missed without them


@finding(
    "One head of MiniLM gives the piece before at least 95 % of its attention, one the next at least 60 %; with the "
    "weights in another order none gives a neighbour twice an even share",
    chance={"most": 0.1, "shuffled, neighbour over even": 1.0},
)
def heads_attend_to_neighbours():
    before, after = (recorded(head_looks).numbers("most", look) for look in ("piece before", "piece after"))
    shuffled = recorded(head_looks).numbers("shuffled, neighbour over even")
    return before, ">=", 0.95, after, ">=", 0.6, shuffled, "<", 2


@finding("[CLS] and [SEP] get at least 3.5 times the attention that even weights would give them", chance=1.0)
def special_tokens_get_much_attention():
    return recorded(head_looks).numbers("specials over even"), ">=", 3.5


@finding(
    "Without the heads that attend to the neighbours MiniLM finds at least 5 points fewer senses than without as many "
    "others of the same layers; without those that attend to [CLS] and [SEP] it finds as many or more",
    chance=3 / 7,
)
def heads_on_neighbours_are_missed():
    others = recorded(heads_out).numbers("mean of others")
    neighbours, specials = (senses_without(which) for which in ("at the neighbours", "at [CLS], [SEP]"))
    return others - neighbours, ">=", 0.05, specials - others, ">=", 0


@finding(
    "The head that nearly always attends to the piece before is hardly missed: without it alone MiniLM still finds at "
    "least 70 % of the senses, at most 6 points fewer",
    chance=3 / 7,
)
def the_clearest_head_is_hardly_missed():
    without = recorded(heads_out).numbers("the clearest")
    return without, ">=", 0.7, senses_without("none") - without, "<=", 0.06


@finding(
    "Without the two heads that attend to a neighbour our BERT needs at least 1.8 bits per hidden piece more, without "
    "the two others of that layer at most 0.6",
    chance=11.0,
)
def our_bert_needs_its_two_heads():
    whole, beside, others = (
        recorded(ours_out).numbers(which)
        for which in ("none", "both that look at a neighbour", "the two others of that layer")
    )
    return beside - whole, ">=", 1.8, others - whole, "<=", 0.6


# --- laboratory: two readers who meet only at the end


def blank(how):
    """Bits of a hidden character for two stored readers of characters, joined in this way."""
    return recorded(two_readers).numbers("bits", how)


@finding(
    "Mixed at the end, two readers need at most 0.6 times the bits of the better one, which itself saves at least 2 "
    "bits against letter frequencies; with the right side of another blank the mix saves at most 0.05",
    chance=6.3,
)
def two_readers_need_half_the_bits():
    one = least_of(blank("forwards alone"), blank("backwards alone"))
    strange = blank("forwards alone") - blank("forwards, and a wrong right side")
    saved = blank("no reader, letter frequencies") - one
    return blank("mixed with three tuned weights"), "<=", one * 0.6, saved, ">=", 2, strange, "<=", 0.05


@finding(
    "One small network that sees both sides needs at least 0.015 bits fewer than two one-sided ones, mixed, and has "
    "fewer weights",
    chance={"bits": 6.3, "numbers": 1.0},
)
def seeing_both_sides_at_once_is_better():
    networks = recorded(window_networks)
    mixed, both = (
        networks.numbers("bits", how) for how in ("left and right, mixed at the end", "one network sees both")
    )
    weights = {side: networks.numbers("numbers", side) for side in ("left", "right", "both")}
    return mixed - both, ">=", 0.015, weights["both"], "<", weights["left"] + weights["right"]


# --- laboratory: a task answered from one side


def from_one(side, made):
    """The share of the pairs answered correctly from one of the two speeches."""
    return recorded(one_sided).numbers(side, made=made)


@finding(
    "From one speech alone a bag of words stays within 6 points of half on our task, and from the second speech it "
    "answers at least 58 % of the careless one correctly",
    chance=0.5,
)
def the_careless_task_gives_itself_away():
    ours = most_of(*(abs(from_one(f"{side} speech alone", "as made") - 0.5) for side in ("second", "first")))
    return ours, "<=", 0.06, from_one("second speech alone", "careless"), ">=", 0.58


@finding(
    "On the careless task a rule that knows only the length of the second speech is right at least 5 points more often "
    "than the bag of words; on ours it stays within 7 points of half",
    chance=0.5,
)
def its_fault_is_the_length():
    length, bag = (from_one(side, "careless") for side in ("length of the second alone", "second speech alone"))
    ours = abs(from_one("length of the second alone", "as made") - 0.5)
    return length - bag, ">=", 0.05, ours, "<=", 0.07
