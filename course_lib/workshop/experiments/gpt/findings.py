"""Lesson 07: what the recorded runs show of a small GPT, and of SmolLM2 with and without examples in its prompt."""

from course_lib.data import word_tasks
from course_lib.workshop.experiments import finding, recorded
from course_lib.workshop.experiments.gpt.controls import ALL, counts_write, instructed_turn, list_by_labels
from course_lib.workshop.experiments.gpt.core import (
    ASKED_ABOUT,
    QUESTIONS,
    asked_plainly,
    fine_tuned,
    instructed,
    not_tuned,
    plain_loop,
    with_examples,
    without_examples,
)
from course_lib.workshop.experiments.gpt.laboratory import (
    STORED,
    by_memory,
    characters_counted,
    copiers_out,
    copying,
    sixth_model,
    stored_on_plays,
)
from course_lib.workshop.experiments.runs import least_of, most_of

BITS = {"bits": 15.6}  # of a guess among the 49,152 tokens of SmolLM2

# --- a small GPT, and what it knows of punctuation


@finding(
    "Counts of three tokens in a row over all train plays, four times as much text, need at least 0.05 bits per "
    "character fewer than the GPT",
    chance=4.2,
)
def more_text_helps_counts():
    counts = recorded(counts_write).numbers("three in a row", "bits", text="all train plays")
    return recorded(plain_loop).numbers("test"), ">=", counts.mean + 0.05


def mark(system):
    """The accuracy of a system that is not tuned: is the speech a question?"""
    return recorded(not_tuned).numbers(system)


FREE, READ, SHUFFLED, BAG = (
    "no label: p(?) against p(.)",
    "frozen, linear layer only",
    "frozen, weights shuffled",
    "bag of tokens, linear",
)


@finding(
    "With all 2,740 labels, the bag of words comes within 10 points of the GPT, and still stays behind it",
    chance=0.5,
)
def all_labels_come_near():
    behind = mark(FREE) - recorded(list_by_labels).numbers("right", n=ALL)
    return behind, "<=", 0.1, behind, ">", 0


@finding(
    "With the parameters of the GPT shuffled, a linear layer on its last vector is right in at most 55 % of the "
    "speeches; without shuffling in at least 75 %",
    chance=0.5,
)
def shuffled_parameters_know_nothing():
    return mark(SHUFFLED), "<=", 0.55, mark(READ), ">=", 0.75


@finding(
    "Fine-tuned on 240 labels, with the second loss or without it, the GPT is right more often than a bag of words "
    "with the same labels, by 10 points or more",
    chance=0.5,
)
def fine_tuning_beats_the_bag():
    right = least_of(*(recorded(fine_tuned).numbers("right", lam=lam) for lam in (0.0, 0.5)))
    return right - mark(BAG), ">=", 0.1


@finding(
    "With the second loss, λ = 0.5, the fine-tuned GPT predicts the texts better, by 0.1 nats per token or more, and "
    "loses at most 3 points of accuracy",
    chance={"language": 7.1, "right": 0.5},
)
def the_second_loss_keeps_the_language():
    language, right = (
        [recorded(fine_tuned).numbers(what, lam=lam) for lam in (0.0, 0.5)] for what in ("language", "right")
    )
    return language[0] - language[1], ">=", 0.1, right[0] - right[1], "<=", 0.03


# --- examples and instructions in the prompt of SmolLM2


def behind_eight(what, task, shown="right answers"):
    """A number of SmolLM2's answers behind eight examples."""
    return recorded(with_examples).numbers(what, task=task, n=8, show=shown)


@finding(
    "Behind eight examples SmolLM2 answers more than half of the questions of five tasks correctly: plurals, past "
    "tense, kinds, antonyms and the made-up suffix",
    chance=0.0,
)
def eight_examples_answer_five_tasks():
    tasks = ("plurals", "past tense", "kinds", "antonyms", "made-up suffix")
    return least_of(*(behind_eight("exact", task) for task in tasks)), ">", 0.5


@finding(
    "Behind an instruction alone SmolLM2 answers at least 40 % of the antonyms correctly, and at most 10 % of every "
    "other task",
    chance=0.0,
)
def an_instruction_alone_answers_antonyms_only():
    answers = {task: recorded(instructed).numbers("exact", task=task) for task in word_tasks.TASKS}
    antonyms = answers.pop("antonyms")
    return antonyms, ">=", 0.4, most_of(*answers.values()), "<=", 0.1


def nothing(task):
    """Bits of the right answer without an example, the same in every run."""
    return recorded(without_examples).numbers("bits", task=task).mean


def instruction(task):
    """Bits of the right answer behind an instruction, one number for each of three wordings."""
    return recorded(instructed).numbers("bits", task=task)


@finding(
    "An instruction saves at least 6 bits of the right answer in each of three tasks, whatever its wording, and eight "
    "right examples save at least 1.5 more",
    chance=BITS,
)
def examples_save_more_than_an_instruction():
    said = least_of(*(nothing(task) - instruction(task) for task in ASKED_ABOUT))
    shown = least_of(*(instruction(task).least - behind_eight("bits", task) for task in ASKED_ABOUT))
    return said, ">=", 6, shown, ">=", 1.5


@finding("Even examples of another task save at least 4 bits of the right answer in each of three tasks", chance=BITS)
def another_tasks_examples_help():
    return least_of(*(nothing(task) - behind_eight("bits", task, "another task's") for task in ASKED_ABOUT)), ">=", 4


@finding(
    "Right answers in place of wrong ones save at least 1 bit more for antonyms and for the made-up suffix than for "
    "capitals",
    chance=BITS,
)
def pairing_matters_least_for_capitals():
    saved = {task: behind_eight("bits", task, "wrong answers") - behind_eight("bits", task) for task in ASKED_ABOUT}
    capitals = saved.pop("capitals")
    return least_of(*saved.values()) - capitals, ">=", 1


def names_it(task, template):
    """The share of the questions to which SmolLM2 names the right word."""
    return recorded(asked_plainly).numbers("names it", task=task, template=template)


@finding(
    "In the chat template SmolLM2 names the right word more often than behind the same question as plain text, by 20 "
    "points or more in each of four tasks",
    chance=0.0,
)
def the_template_helps():
    return least_of(*(names_it(task, True) - names_it(task, False) for task in QUESTIONS)), ">=", 0.2


@finding(
    "An instruction with an arrow, as a turn of the chat template, makes SmolLM2 name at most a quarter of the right "
    "words in each of four tasks; a question makes it name a third or more",
    chance=0.0,
)
def an_instruction_as_a_turn_helps_little():
    turns = most_of(*(recorded(instructed_turn).numbers("names it", task=task) for task in QUESTIONS))
    return turns, "<=", 0.25, least_of(*(names_it(task, True) for task in QUESTIONS)), ">=", 0.33


# --- laboratory: beside counts and recurrent networks


@finding(
    "The small GPT predicts the validation plays in at least 0.6 bits per character fewer than counts of three "
    "characters in a row, and in at most 0.05 more than counts of six",
    chance=6.0,
)
def it_predicts_like_counts_of_six_characters():
    gpt, counts = recorded(plain_loop).numbers("validation", -1), recorded(characters_counted)
    three, six = (counts.numbers("bits", n - 1).mean for n in (3, 6))
    return gpt, "<=", three - 0.6, gpt, "<=", six + 0.05


@finding(
    "The larger GPT predicts the test plays in at least 0.15 bits per character fewer than the stored recurrent "
    "networks of lessons 01 and 02",
    chance=6.0,
)
def the_larger_gpt_is_ahead_of_recurrent_networks():
    *recurrent, gpt = (recorded(stored_on_plays).numbers("bits", name=name) for name in STORED)
    return least_of(*recurrent) - gpt, ">=", 0.15


# --- laboratory: heads that copy


@finding(
    "One layer of attention does not learn to copy in the same steps: a copied token costs it at least 3 bits, and "
    "with two layers at most 0.6; no head of one layer gives more than a quarter of its weight to what followed before",
    chance={"bits": 5.0, "best head": 0.06},
)
def one_layer_does_not_copy():
    one, two = (recorded(copying).numbers("bits", -1, layers=n) for n in (1, 2))
    return one, ">=", 3, two, "<=", 0.6, recorded(copying).numbers("best head", layers=1), "<=", 0.25


def silenced(which, reading):
    """Bits of SmolLM2 with all heads, without the eight that copy ("copiers out"), or without eight others (0, 1)."""
    path = (which,) if isinstance(which, str) else ("others out", which)
    return recorded(copiers_out).numbers(*path, reading)


@finding(
    "Without eight heads that copy, a random token that stood in the text before costs SmolLM2 at least 12 bits; "
    "without eight others of the same layers at most 5; plain text changes by at most 0.02 bits per character",
    chance=15.6,
)
def eight_heads_copy():
    plain = abs(silenced("copiers out", "plain text") - silenced("all heads", "plain text"))
    others = most_of(*(silenced(draw, "random tokens") for draw in (0, 1)))
    return silenced("copiers out", "random tokens"), ">=", 12, others, "<=", 5, plain, "<=", 0.02


@finding(
    "Without the heads that copy, an answer with the made-up suffix costs at least 0.7 bits more behind eight "
    "examples, and at least 0.5 more than without eight other heads",
    chance=15.6,
)
def the_suffix_needs_heads_that_copy():
    without, whole = silenced("copiers out", "made-up suffix"), silenced("all heads", "made-up suffix")
    others = most_of(*(silenced(draw, "made-up suffix") for draw in (0, 1)))
    return without - whole, ">=", 0.7, without - others, ">=", 0.5


# --- laboratory: how far back a model reads


def saved(name, low, high):
    """Bits per character that more memory saves, from point `low` of a model's curve to point `high`."""
    less, more = (recorded(by_memory).numbers("bits", point, name=name) for point in (low, high))
    return less - more


@finding(
    "More than 16 characters of memory save the RNN at most 0.02 bits per character, and more than 32 the LSTM, which "
    "still saves 0.05 between 8 and 32; from 4 to 16 characters the RNN saves at least 0.2",
    chance=6.0,
)
def recurrent_memory_ends():
    ends = most_of(saved("RNN", 4, 8), saved("LSTM", 5, 8))
    return ends, "<=", 0.02, saved("LSTM", 3, 5), ">=", 0.05, saved("RNN", 2, 4), ">=", 0.2


@finding(
    "SmolLM2 saves at least 0.05 bits per character when it remembers 256 tokens, about 840 characters, instead of 64",
    chance=6.0,
)
def a_large_model_reads_further():
    return saved("SmolLM2", 0, 1), ">=", 0.05


# --- laboratory: a loss foretold


def miss(formula):
    """How far a formula's prediction lies from the loss of the sixth model, in nats."""
    return recorded(sixth_model).numbers("miss", formula)


@finding(
    "The power law fitted to five models predicts the loss of a sixth, four times as large, to 0.05 nats, at most half "
    "the error of saying that nothing changes; a straight line in N is off by at least 0.3",
    chance={"miss": 0.0},
)
def a_power_law_predicts_the_sixth():
    law, same = miss("power law"), miss("same as the fifth")
    return law, "<=", 0.05, law, "<=", same * 0.5, miss("line in N"), ">=", 0.3


@finding(
    "A straight line in log N predicts the sixth model as well: within 0.01 nats of the power law, and within 0.05 of "
    "the true loss, which lies at least 0.2 below that of the smallest model",
    chance={"losses": 4.2, "foretold": 4.2, "miss": 0.0},
)
def a_line_in_log_n_predicts_it_too():
    law, line = (recorded(sixth_model).numbers("foretold", name) for name in ("power law", "line in log N"))
    smallest, sixth = (recorded(sixth_model).numbers("losses", at) for at in (0, -1))
    return abs(law - line), "<=", 0.01, miss("line in log N"), "<=", 0.05, smallest - sixth, ">=", 0.2
