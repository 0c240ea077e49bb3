"""Exercises: every registered one proved, the proof itself shown failing, what all checks share, and the registry."""

import inspect
import itertools
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from mutants import changed
from toys import PREDICT, twice

from course_lib.lesson import limits
from course_lib.lesson.judge import judge
from course_lib.lesson.syllabus import LISTED
from course_lib.text.bpe import BPE
from course_lib.workshop import exercises
from course_lib.workshop.exercises import Exercise, Quiz, all_exercises, all_quizzes, find, find_quiz, worded
from course_lib.workshop.exercises.bert_build import MyBert, calendar, calendar_batches, calendar_blanks
from course_lib.workshop.exercises.compare import not_finite, same
from course_lib.workshop.exercises.gpt_build import MyGPT, cut_by_merges
from course_lib.workshop.exercises.probes import Case, fresh, on, tensors
from course_lib.workshop.exercises.transformer_build import MyTransformer

# The proof that every exercise must pass ------------------------------------------------------------------


def not_implemented(*args, **kwargs):
    raise NotImplementedError


def retyped(function):
    """The function with other source text: a stub that somebody has touched without mending it is an attempt."""

    def answer(*args, **kwargs):
        return function(*args, **kwargs)

    answer.__signature__ = inspect.signature(function)
    return answer


SEEDS = range(1, 9)  # of the long run; students and graders have seed 0


def prove(exercise, seeds=(0,)):
    """Stub: not attempted. Solution: passes. Every known mistake: caught, with a message of its own."""
    assert len(exercise.hints) >= 2, f"{exercise.name} has fewer than two hints"
    assert len(exercise.mistakes) >= 2, f"{exercise.name} knows fewer than two mistakes"
    messages = [message for _, message in exercise.mistakes]
    assert len(set(messages)) == len(messages), f"{exercise.name}: two mistakes get one message"
    stubs = [exercise.stub, None, ...]
    if not exercise.value:
        stubs += [lambda *args, **kwargs: ..., not_implemented]
    for stub in stubs:
        assert judge(exercise, stub).kind == "not attempted", f"{exercise.name}: the stub counts as attempted"
    # The exercise says itself what its stub is, so see also that it did not hand out the answer.
    handed_out = judge(replace(exercise, stub=None), exercise.stub)
    assert handed_out.kind != "passed", f"{exercise.name}: the stub is a solution already"
    answer = exercise.solution() if exercise.value else exercise.solution
    for seed in seeds:
        verdict = judge(exercise, answer, seed)
        assert verdict.kind == "passed", f"{exercise.name}: the solution fails: {verdict.message}"
    for wrong, message in exercise.mistakes:
        for seed in seeds:
            verdict = judge(exercise, wrong if exercise.value else retyped(wrong), seed)
            assert verdict.kind in ("wrong", "error", "unfinished"), f"{exercise.name}: {message!r} is not caught"
            assert message in verdict.message, f"{exercise.name}: {message!r} is not in {verdict.message!r}"


@pytest.mark.slow
@pytest.mark.parametrize("exercise", all_exercises(), ids=lambda exercise: exercise.name)
def test_every_exercise_is_proved(exercise):
    prove(exercise)
    assert len(exercise.hints) >= limits.HINTS and len(exercise.mistakes) <= limits.MISTAKES
    assert exercise.lesson in {lesson.slug for lesson in LISTED}
    assert inspect.getsource(exercise.solution)  # solution() shows it


@pytest.mark.full
@pytest.mark.parametrize("exercise", all_exercises(), ids=lambda exercise: exercise.name)
def test_no_verdict_hangs_on_the_seed(exercise):
    prove(exercise, SEEDS)


FUNCTIONS = [exercise for exercise in all_exercises() if not exercise.value]


def is_scalar(value):
    return value is None or isinstance(value, bool | int | float | str | tuple) or getattr(value, "shape", None) == ()


def first_scalars(exercise):
    """Pairs (name, value) of the solution's scalar arguments: their values in the first call, and their defaults."""
    signature, given = inspect.signature(exercise.solution), []

    def noting(*args, **kwargs):
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        given.append(bound.arguments)
        return exercise.solution(*args, **kwargs)

    case = exercise.cases[0]
    result = case.ask(noting, *fresh(case.draw()))
    if isinstance(result, Iterator):
        next(result)
    defaults = [(n, p.default) for n, p in signature.parameters.items() if p.default is not p.empty]
    return [(name, value) for name, value in [*given[0].items(), *defaults] if is_scalar(value)]


def with_one_held(solution, name, value):
    """The solution, but it takes no notice of this argument: it is `value` whatever it is called with."""
    signature = inspect.signature(solution)

    def answer(*args, **kwargs):
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        bound.arguments[name] = value
        return solution(*bound.args, **bound.kwargs)

    answer.__signature__ = signature
    return answer


@pytest.mark.parametrize("exercise", FUNCTIONS, ids=lambda exercise: exercise.name)
def test_whoever_takes_no_notice_of_an_argument_is_refused(exercise):
    for name, value in first_scalars(exercise):
        verdict = judge(exercise, with_one_held(exercise.solution, name, value))
        assert verdict.kind != "passed", f"no case varies `{name}`: with {value!r} written into the code it passes"


def test_names_differ_over_all_lessons():
    assert len({e.name for e in all_exercises()}) == len(all_exercises())
    assert len({q.key for q in all_quizzes()}) == len(all_quizzes())


def test_a_file_of_exercises_is_short():
    files = Path(exercises.__file__).parent.glob("*.py")
    lengths = {file.name: len(file.read_text(encoding="utf-8").splitlines()) for file in files}
    assert {name: length for name, length in lengths.items() if length > limits.EXERCISE_LINES} == {}


# Exercises that give real numbers and need no gradient, which their texts say; and why.
UNASKED = {
    "my_bptt": "it is a gradient itself, made by hand",
    "my_truncated": "it is a gradient itself, made by hand",
    "my_clip": "it changes gradients, between backward() and the step",
    "mended_from_torch": "it copies weights",
    "my_sinusoids": "it is a table of constants",
    "my_shift": "it is a matrix of constants",
    "my_top_p": "it serves drawing alone",
    "my_rollout": "it looks into a model that has learned",
    "my_lift": "it is a gradient itself, made by hand",
    "my_quantise": "it rounds, which has no gradient",
    "mended_segments": "its gradients are added up in the weights, and its loss is to be read",
    "mended_revive": "it puts codes elsewhere, between two steps",
}


def has_reals(result):
    parts = result if isinstance(result, list | tuple) else [result]
    return any(torch.is_tensor(part) and part.is_floating_point() for part in parts)


def without_gradient(result):
    if isinstance(result, list | tuple):
        return type(result)(map(without_gradient, result))
    return result.detach() if torch.is_tensor(result) else result


@pytest.mark.parametrize("exercise", FUNCTIONS, ids=lambda exercise: exercise.name)
def test_whoever_loses_the_gradient_is_refused_or_it_is_not_asked(exercise):
    reals = []

    def answer(*args, **kwargs):
        result = exercise.solution(*args, **kwargs)
        reals.append(has_reals(result))
        return without_gradient(result)

    answer.__signature__ = inspect.signature(exercise.solution)
    passes = judge(exercise, answer).kind == "passed"
    assert (passes and any(reals)) == (exercise.name in UNASKED)


# Answers that are none --------------------------------------------------------------------------------------


def spoiled(right):
    """As `right`, with NaN for every number and a letter too many in every text; whole numbers know no NaN."""
    if isinstance(right, torch.Tensor) and not right.is_floating_point():
        return ~right  # the reverse of every truth value, and another number for every whole one
    if isinstance(right, torch.Tensor):
        return torch.full_like(right, math.nan)
    if isinstance(right, (list, tuple)):
        return type(right)(map(spoiled, right))
    return right + "?" if isinstance(right, str) else math.nan


NONE_AT_ALL = (math.nan, math.inf, -math.inf, None, 0.5, 1j, True, "text", (), torch.empty(0), torch.tensor(math.nan))


@pytest.mark.parametrize("exercise", all_exercises(), ids=lambda exercise: exercise.name)
def test_what_is_no_answer_passes_nowhere_and_gets_a_sentence(exercise):
    for odd in NONE_AT_ALL:
        verdict = judge(exercise, odd if exercise.value else lambda *args, odd=odd: odd)
        assert verdict.kind == ("not attempted" if exercise.value and odd is None else "wrong"), (odd, verdict)
        assert verdict.message.endswith((".", "?")) or odd is None, verdict.message
        assert "can make nothing" not in verdict.message or exercise.value, verdict.message


@pytest.mark.parametrize("exercise", FUNCTIONS, ids=lambda exercise: exercise.name)
def test_nan_of_the_right_shape_is_not_right_in_a_single_case(exercise):
    for bad in range(len(exercise.cases)):
        if exercise.cases[bad].ask.__name__ in ("cell_afterwards", "kind"):
            continue  # the numbers that come back do not count there
        calls = itertools.count()
        only_here = replace(exercise, cases=(exercise.cases[bad],), mistakes=())

        def answer(*args, calls=calls):
            next(calls)
            return spoiled(exercise.solution(*args))

        verdict = judge(only_here, answer)
        assert verdict.kind == "wrong" and verdict.message, exercise.cases[bad].says
        assert next(calls) > 0
    for case in exercise.cases:
        right = case.ask(exercise.solution, *fresh(case.draw()))
        assert not not_finite(list(right) if isinstance(right, Iterator) else right)


NEARLY = [
    ("my_masking", "0.15", "0.16", "and `choice` is 0.15"),
    ("my_masking", "0.15", "0.149", "and `choice` is 0.15"),
    ("my_masking", "0.8)", "0.81)", "and `kind` is 0.8"),
    ("my_masking", "0.9)", "0.91)", "and `kind` is 0.9"),
    ("my_masking", "0.9)", "0.89)", "and `kind` is 0.9"),
    ("mended_words", "0.15", "0.16", "does not read what it should"),
    ("mended_words", "0.15", "0.1495", "does not read what it should"),
    ("mended_words", ">= 0.8", ">= 0.81", "does not read what it should"),
    ("mended_words", "0.9)", "0.91)", "does not read what it should"),
    ("mended_words", "return ", "kind.zero_(); return ", "what you were given is not as it was"),
    ("my_sinusoids", "10000**", "9999**", "for 40 and 14 you are not"),
    ("my_sinusoids", "return ", "return 1.001 * ", "Print your row 1"),
    ("my_sinusoids", "return ", "return 1e-4 + ", "Print your row 1"),
    ("my_sinusoids", "flatten(-2)", "flatten(-2).half()", "Print your row 1"),
    ("my_shift", "/ 10000 **", "/ 9999 **", "is not table[p + 3]|k = 37 and width 12|width 10 you are not"),
    ("my_shift", "return shift", "return 1.001 * shift", "M @ table[p] is not table[p + 3]"),
    ("my_image", "** 0.5)", "** 0.51)", "With P = 64 it is wrong"),
    ("my_image", "** 0.5)", "** 0.495)", "With P = 64 it is wrong"),
    ("my_cached", "k.shape[-1] ** 0.5", "(k.shape[-1] / 2)", "Where keys are 7 wide it is wrong"),
    (
        "my_forget_product",
        "prod(dim=1)",
        "prod(dim=1).squeeze()",
        "here a batch of one|Here that is a tensor of shape (1, 1)",
    ),
    ("my_masked_softmax", "(~mask, 0)", "(~mask, 0).squeeze()", "Here that is a tensor of shape (1, 1, 4)"),
    ("mended_streams", "(len(ids) - 1)", "(len(ids) - 2)", "Here that is a list of 5|61 characters are five chunks"),
    ("mended_accuracy", " and len(written) < max_len", "", "With max_len = 2"),
    ("mended_accuracy", "len(written) < max_len", "len(written) <= max_len", "With max_len = 2"),
    ("mended_next", "return ", "ids.zero_(); return ", "`ids` is not as it was"),
    ("mended_next", "return readout(x)", "return readout(x).double()", "(3, 1, 9), float64"),
    (
        "mended_decoder",
        "return readout(x)",
        "return readout(x).double()",
        "yours is a tensor of shape (3, 5, 7), float64",
    ),
    (
        "mended_start",
        "return x + places",
        "return (x + places).double()",
        "yours is a tensor of shape (3, 6, 7), float64",
    ),
    ("mended_from_torch", "torch.cat([i, f, o, g])", "torch.cat([i, f, o, g]).double()", "w_x (D, 4H)"),
    ("my_mask", "padding=0", "padding=3", "where some are left out it is not: there `padding` is 0"),
    ("my_self_attention", "turn=None", "turn=torch.tanh", "where some are left out it is not: there `turn` is None"),
]


@pytest.mark.parametrize(
    ("name", "old", "new", "said"), NEARLY, ids=[f"{n}: {old} -> {new}" for n, old, new, _ in NEARLY]
)
def test_what_is_nearly_right_is_wrong(name, old, new, said):
    """Each of these passed once: on the inputs that were drawn it gave the right numbers, or all but."""
    for seed in range(2):
        verdict = judge(find(name), changed(find(name).solution, (old, new)), seed)
        assert verdict.kind in ("wrong", "error") and any(part in verdict.message for part in said.split("|")), verdict


@pytest.mark.parametrize("exercise", FUNCTIONS, ids=lambda exercise: exercise.name)
def test_who_hands_out_one_by_one_returns_nothing(exercise):
    """A list of what comes was the solution's list in eight exercises."""

    def one_by_one(*args):
        yield from exercise.solution(*args)

    verdict = judge(exercise, one_by_one)
    assert verdict.kind == "wrong" and "one by one (by `yield`" in verdict.message


def test_a_rate_that_hides_a_division_by_zero_is_not_right():
    def my_error_rate(links, gold):
        try:
            return 1 - 2 * len(links & gold) / (len(links) + len(gold))
        except ZeroDivisionError:
            return float("nan")

    verdict = judge(find("my_error_rate"), my_error_rate)
    assert verdict.kind == "wrong"
    assert verdict.message.startswith("There is NaN in yours. ") and "the rate is 0" in verdict.message


@pytest.mark.parametrize("name", ["my_masked_softmax", "my_masked_loss", "my_joint_loss", "mended_words"])
def test_the_right_numbers_without_their_gradient_are_told_so(name):
    def cut(result):
        if isinstance(result, tuple):
            return tuple(map(cut, result))
        return (result.detach() if result.ndim else result.item()) if isinstance(result, torch.Tensor) else result

    solution = find(name).solution
    verdict = judge(find(name), lambda *args, **kwargs: cut(solution(*args, **kwargs)))
    assert verdict.kind == "wrong" and ".item()" in verdict.message, verdict


@pytest.mark.parametrize("answer", ["4.98", "five", [4.98], True])
def test_what_is_no_number_is_no_number(answer):
    verdict = judge(find("lag_100"), answer)
    assert verdict.kind == "wrong" and "Answer with one number" in verdict.message, verdict


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "letters", "line"),
    [("my_lstm_step", "ifog", "i, f, o, g = ("), ("my_gru_step", "rzn", "r_{}, z_{}, n_{} = (")],
)
def test_parts_read_in_another_order_are_told_which(name, letters, line):
    exercise = find(name)
    for order in itertools.permutations(letters):
        edits = []
        for end in ("x", "h"):
            names = [part.strip() for part in line.format(end, end, end).split("=")[0].split(",")]
            read = ", ".join(names[letters.index(letter)] for letter in order)
            edits.append((line.format(end, end, end), f"{read} = ("))
        verdict = judge(exercise, changed(exercise.solution, *dict(edits).items()))
        if order == tuple(letters):
            assert verdict.kind == "passed"
        else:
            expected = f"You read the parts in the order {', '.join(order)}. Here they lie {', '.join(letters)}."
            assert verdict.message == expected


# A toy exercise, and what the proof says of spoilt copies of it -------------------------------------------


DOUBLE = Exercise(
    "double",
    "rnn_bptt",
    "Twice a number",
    solution=twice,
    returns="a tensor of the shape of x, (B, D)",
    cases=on("B D", "The numbers are not twice those of x."),
    hints=("What is 2 + 2?", "Add `x` to itself."),
    mistakes=(
        (lambda x: x * x, "Each number is multiplied by itself."),
        (lambda x: 2 * x[:1], "Only the first row comes back."),
    ),
)
TOYS = [DOUBLE, PREDICT]


@pytest.mark.parametrize("toy", TOYS, ids=lambda toy: toy.name)
def test_the_proof_accepts_a_good_exercise(toy):
    prove(toy)


@pytest.mark.parametrize(
    ("spoilt", "complaint"),
    [
        (dict(hints=("One hint.",)), "fewer than two hints"),
        (dict(mistakes=DOUBLE.mistakes[:1]), "fewer than two mistakes"),
        (dict(stub=lambda x: x + x), "stub is a solution already"),
        (dict(check=lambda fn: "No."), "solution fails"),
        (dict(solution=lambda x: torch.rand(x.shape), mistakes=PREDICT.mistakes), "solution fails"),
        (dict(check=lambda fn: None, cases=()), "counts as attempted"),  # it never calls the function, so passes any
        (dict(mistakes=(*DOUBLE.mistakes, (lambda x: x + x, "sum"))), "is not caught"),
        (dict(mistakes=(*DOUBLE.mistakes, (lambda x: x**2, "power"))), "is not in"),
        (dict(mistakes=(*DOUBLE.mistakes, (lambda x: -x, "Only the first row comes back."))), "one message"),
    ],
)
def test_the_proof_rejects_a_bad_exercise(spoilt, complaint):
    with pytest.raises(AssertionError, match=complaint):
        prove(replace(DOUBLE, **spoilt))


# What is asked of every answer ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (lambda x: 3 * x, "The numbers are not twice those of x."),
        (
            lambda x: 2 * x.T,
            "Return a tensor of the shape of x, (B, D). Here that is a tensor of shape (3, 4), float64;",
        ),
        (lambda x: (2 * x).float(), "yours is a tensor of shape (3, 4), float32."),
        (lambda x: 2 * x + 0j, "yours is a tensor of shape (3, 4), complex128."),
        (lambda x: [x, x], "yours is a list: a tensor of shape (3, 4), float64 and a tensor"),
        (lambda x: x / 0, "There is infinity in yours. The numbers are not"),
        (lambda x: 2 * x * (len(x) == 3), "With other sizes"),
        (lambda x: torch.log(torch.exp(x) ** 2), "There is infinity in yours. Numbers a thousand times as large"),
        (lambda x: 2 * x.detach(), "no gradient flows back to `x`"),
        (lambda x: x + x.data, "their gradient is not"),
        (lambda x: 2 * x + 0 * (y := x.exp()) * y.add_(1), "you change a tensor in place"),
        (lambda x: 2 * x + 0 * (x - x).abs().sqrt(), "There is NaN in yours. On the way back 0 meets infinity"),
        (lambda x: x.double() * 2, "In single precision"),
    ],
)
def test_what_every_case_shares_is_noticed(answer, said):
    verdict = judge(DOUBLE, answer)
    assert verdict.kind == "wrong"
    assert said in verdict.message or said.startswith("In single") and "yours is" in verdict.message


def test_a_known_mistake_is_named_only_where_it_agrees_with_all_that_was_seen():
    """Two functions differ at zero alone: the second is right elsewhere, and is not taken for the first."""
    first, second = (lambda x: 3 * x, "Three times."), (lambda x: 2 * x + (x == 0), "Not at zero.")
    zero = Case(lambda: (torch.zeros(2),), "At zero.")
    exercise = replace(DOUBLE, cases=(Case(tensors("B"), "Anywhere."), zero), mistakes=(first, second))
    assert judge(exercise, lambda x: 3 * x).message == "Three times."
    assert judge(exercise, lambda x: 2 * x + (x == 0)).message == "Not at zero."
    assert judge(exercise, lambda x: 2 * x + 5 * (x == 0)).message == "At zero."


def test_an_error_in_a_later_case_says_which():
    def double(x):
        return x / 0 if len(x) == 1 else 2 * x

    late = replace(DOUBLE, cases=(DOUBLE.cases[0], Case(lambda: (torch.zeros(0),), "With nothing to double.")))

    def fails(x):
        if not len(x):
            raise IndexError("nothing there")
        return 2 * x

    verdict = judge(late, fails)
    assert verdict.kind == "error"
    assert "IndexError: nothing there" in verdict.message and verdict.message.endswith("With nothing to double.")


@pytest.mark.parametrize(
    ("a", "b", "alike"),
    [
        (1.0, 1.0 + 1e-9, True),
        (1.0, 1.001, False),
        (math.nan, 1.0, False),
        (math.nan, math.nan, True),
        (math.inf, math.inf, True),
        (True, 1, False),
        (1 + 0j, 1, False),
        ("C", "C", True),
        (torch.tensor(2), 2, True),
        (torch.ones(2), torch.ones(2) + 1e-9, True),
        (torch.ones(2), torch.ones(1, 2), False),
        (torch.ones(2), torch.ones(2).double(), False),
        (torch.tensor(0.1), torch.tensor(0.1).double(), True),
        (torch.tensor(0.1), 0.1001, False),
        (torch.tensor(0.5, requires_grad=True), 0.5, True),
        (torch.tensor([1, 2]), torch.tensor([1, 2]).int(), True),
        (torch.tensor([1, 2]), torch.tensor([1, 3]).int(), False),
        (torch.tensor([1, 0]), torch.tensor([True, False]), False),
        (torch.tensor([1, 0]), torch.tensor([1.0, 0.0]), False),
        ((torch.ones(2), 1), [torch.ones(2), 1], True),
        ([1, 2], [1, 2, 3], False),
        (iter([1, 2]), [1, 2], True),
        (iter([1, 2, 3]), [1, 2], False),
        (ValueError("a"), ValueError("b"), True),
        (ValueError("a"), TypeError("a"), False),
    ],
)
def test_two_results_are_the_same(a, b, alike):
    assert same(a, b) is alike


def test_a_change_must_change_something():
    with pytest.raises(ValueError, match="twice does not say 'three'"):
        changed(twice, ("three", "four"))


# The questions ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("quiz", all_quizzes(), ids=lambda quiz: quiz.key)
def test_a_question_gives_reasons_and_no_option_stands_out_by_its_length(quiz):
    assert quiz.lesson in {lesson.slug for lesson in LISTED}
    assert len(quiz.options) >= limits.OPTIONS
    reasons = [reason for _, reason in quiz.options]
    assert len(set(reasons)) == len(reasons), "two options are given the same reason"
    assert all(len(reason) >= limits.REASON_CHARACTERS for reason in reasons), "a reason says why"
    lengths = [len(text) for text, _ in quiz.options]
    assert max(lengths) <= limits.OPTION_LENGTHS * min(lengths), lengths


@pytest.mark.parametrize("extreme", [max, min])
def test_who_takes_the_longest_or_the_shortest_option_is_right_no_more_often_than_by_chance(extreme):
    right = chance = 0.0
    for quiz in all_quizzes():
        lengths = [len(text) for text, _ in quiz.options]
        chosen = [i for i, length in enumerate(lengths) if length == extreme(lengths)]  # drawn among these
        right += (quiz.correct in chosen) / len(chosen)
        chance += 1 / len(lengths)
    assert right <= chance


def test_the_right_option_stands_at_every_place():
    places = [quiz.correct for quiz in all_quizzes()]
    assert set(places) == set(range(4))
    assert max(map(places.count, places)) <= len(places) / 2


# The registry ---------------------------------------------------------------------------------------------


def test_an_exercise_gets_its_texts_by_its_name_and_those_of_its_mistakes_by_theirs():
    bare = Exercise(solution=twice, cases=DOUBLE.cases, mistakes={"squared": lambda x: x * x})
    text = {"title": "Twice", "hints": ["Add.", "x + x"], "mistakes": {"squared": "You square it."}}
    found = worded(bare, "rnn_bptt", text)
    assert (found.lesson, found.title, found.hints) == ("rnn_bptt", "Twice", ("Add.", "x + x"))
    assert judge(found, lambda x: x**2).message == "You square it."
    for more in ({"mistakes": {}}, {"mistakes": {**text["mistakes"], "halved": "You halve it."}}):
        with pytest.raises(ValueError, match="is a mistake without a message, or the reverse"):
            worded(bare, "rnn_bptt", text | more)
    with pytest.raises(ValueError, match=r"no TOML file of this folder has a table \[exercise.twice\]"):
        worded(bare, "", {})


def test_find_says_what_there_is():
    assert find("double", TOYS) is DOUBLE
    with pytest.raises(LookupError, match="There are: double, predict"):
        find("zebra", TOYS)
    with pytest.raises(LookupError, match="There are none"):
        find_quiz("zebra", [])


@pytest.mark.parametrize(
    ("field", "value", "error"),
    [
        ("name", "two words", "Python name"),
        ("check", "no function", "check must be a function"),
        ("solution", None, "solution must be a function"),
        ("hints", "one string", "tuple of sentences"),
        ("hints", ("",), "tuple of sentences"),
        ("mistakes", (twice,), "pairs"),
        ("mistakes", ((twice, ""),), "pairs"),
        ("cases", (), "check must be a function where there are no cases"),
    ],
)
def test_a_malformed_exercise_is_refused_in_words(field, value, error):
    with pytest.raises((TypeError, ValueError), match=error):
        replace(DOUBLE, **{field: value})


@pytest.mark.parametrize(
    ("options", "correct", "error"),
    [
        ((("a", "why"),), 0, "at least two"),
        ((("a", "why"), ("b", "")), 0, "neither of them empty"),
        ((("a", "why"), ("a", "why not")), 0, "same text"),
        ((("a", "why"), ("b", "why not")), 2, "names no option"),
    ],
)
def test_a_malformed_question_is_refused_in_words(options, correct, error):
    with pytest.raises(ValueError, match=error):
        Quiz("key", "Which?", options, correct)


@pytest.mark.parametrize("d", [32, 64])
def test_a_transformer_of_own_parts_takes_any_width_and_no_place_sees_a_later_word(d):
    """MyHeads, MyCross, MyTransformer: built of the solutions, padding and later words change nothing, at any width."""
    torch.manual_seed(0)
    parts = SimpleNamespace(**{name: find(f"my_{name}").solution for name in ("attention", "heads", "mask", "block")})
    model = MyTransformer(parts, 9, 11, d=d)
    source, target = torch.tensor([[4, 5, 6, 0], [7, 8, 4, 5]]), torch.tensor([[1, 4, 5, 6], [1, 7, 8, 9]])
    other = target.clone()
    other[:, -1] = 10
    with torch.no_grad():
        logits, changed = (model(source, None, ids)[0] for ids in (target, other))
        padded = model(torch.cat([source, torch.zeros(2, 2, dtype=torch.long)], dim=1), None, target)[0]
    assert logits.shape == (2, 4, 11)
    torch.testing.assert_close(changed[:, :-1], logits[:, :-1])
    assert (changed[:, -1] - logits[:, -1]).abs().max() > 1e-3
    torch.testing.assert_close(padded, logits)


def test_a_bert_of_own_parts_gives_the_logits_of_its_formula_and_hides_as_the_student_does():
    """MyBert, calendar, calendar_batches, calendar_blanks: of the solutions, logits by formula, months that follow."""
    torch.manual_seed(0)
    parts = SimpleNamespace(**{name: find(f"my_{name}").solution for name in ("masking", "pair", "fill")})
    pieces, batch = calendar(), next(calendar_batches(parts, 64, 0))
    model = MyBert(parts, len(pieces))
    assert set(batch.answers.tolist()) <= set(range(5, len(pieces))) and (batch.ids == pieces.mask).any()
    with torch.no_grad():
        states = model.bert(batch.ids, batch.segments, batch.mask).flatten(0, 1)[batch.places]
        head = torch.nn.functional.layer_norm(torch.nn.functional.gelu(states @ model.w + model.b), (48,), eps=1e-12)
        torch.testing.assert_close(model(*batch[:4]), head @ model.bert.tokens.weight.T + model.bias)
    (first, second), answer = calendar_blanks()[20]
    assert " ".join((first, second)).replace("[MASK]", answer).split() == [
        *("september october november december january february march april".split())
    ]


def test_a_gpt_of_own_parts_writes_with_its_cache_what_it_says_to_the_whole_text():
    """MyGPT, cut_by_merges: built of the solutions, the cache changes no logit, no place sees a later token."""
    torch.manual_seed(0)
    parts = SimpleNamespace(**{name: find(f"my_{name}").solution for name in ("merge", "window", "top_p", "cached")})
    bpe = BPE.train("the other mother and her brother " * 3, 280)
    ids = cut_by_merges("the other brother", bpe, parts)
    assert ids.tolist() == bpe.encode("the other brother").tolist()
    model = MyGPT(parts, len(bpe), d=32, max_len=24).double()
    wrote, logits = model.write(ids[None], 12, 0.9, torch.Generator().manual_seed(0))
    assert wrote.shape == (1, len(ids) + 12)
    with torch.no_grad():
        at_once = model(wrote)
        other = model(torch.cat([wrote[:, :-1], (wrote[:, -1:] + 1) % len(bpe)], dim=1))
    torch.testing.assert_close(at_once[0, len(ids) - 1 : -1], logits)
    torch.testing.assert_close(other[:, :-1], at_once[:, :-1], rtol=0, atol=0)
