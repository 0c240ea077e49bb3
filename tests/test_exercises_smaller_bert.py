"""Lesson 16's exercises: they agree with the library, and the planted bug misleads."""

from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F

from course_lib.bert.fewer_bits import dequantise, quantise, rounded
from course_lib.bert.lean_bert import LeanBert, LeanBertConfig
from course_lib.bert.replaced_words import replace
from course_lib.bert.soft_targets import distillation_loss
from course_lib.lesson.judge import judge
from course_lib.workshop.exercises import all_exercises, all_investigations, all_quizzes, find
from course_lib.workshop.exercises.smaller_bert import broken_replaced, mended_replaced, my_replace, my_shared_stack
from course_lib.workshop.exercises.smaller_bert_bits import my_distillation_loss, my_quantise

# Wrong ways that are not in the tables ------------------------------------------------------------------------


def takes_the_first_twice(x, blocks, n_layers):
    return my_shared_stack(blocks[0](x) if n_layers > 1 else x, blocks, n_layers)


def begins_at_the_second(x, blocks, n_layers):
    return my_shared_stack(x, [*blocks[1:], blocks[0]], n_layers)


def writes_into_the_text(ids, chosen, drawn):
    before = ids.clone()
    ids[chosen] = drawn
    return ids, ids != before


def says_so_everywhere(ids, chosen, drawn):
    return my_replace(ids, chosen, drawn)[0], torch.ones_like(chosen)


def another_at_the_first(ids, chosen, drawn):
    read, replaced = my_replace(ids, chosen, drawn)
    return torch.where(chosen, read + 1, read), replaced


def half(student, teacher, temperature):
    return my_distillation_loss(student, teacher, temperature) / 2


def a_constant_more(student, teacher, temperature):
    return my_distillation_loss(student, teacher, temperature) + 0.1


def cubed(student, teacher, temperature):
    return temperature * my_distillation_loss(student, teacher, temperature)


def pulls_the_teacher(student, teacher, temperature):
    return my_distillation_loss(student, teacher, temperature) + (teacher - teacher.detach()).mean()


def one_less(weights, bits):
    whole, scales = my_quantise(weights, bits)
    return whole - whole.sign(), scales


def scales_in_half(weights, bits):
    whole, scales = my_quantise(weights, bits)
    return whole, scales / 2


def drawn_twice(ids, chosen, generator, mask_id):
    text, _ = mended_replaced(ids, chosen, generator, mask_id)
    return text, mended_replaced(ids, chosen, generator, mask_id)[1]


@pytest.mark.parametrize(
    ("name", "answer", "said"),
    [
        ("my_shared_stack", takes_the_first_twice, "One layer is right, one block in two layers is not"),
        ("my_shared_stack", begins_at_the_second, "Two blocks for two layers are wrong"),
        ("my_replace", writes_into_the_text, "`ids`"),
        ("my_replace", says_so_everywhere, "Where no position was chosen nothing was replaced"),
        ("my_replace", another_at_the_first, "The text is wrong at chosen positions"),
        ("my_distillation_loss", half, "It is wrong even for one position, two tokens and temperature 1"),
        ("my_distillation_loss", a_constant_more, "It is wrong even if both give the same logits, at temperature 1"),
        ("my_distillation_loss", cubed, "At temperature 1 it is right"),
        ("my_distillation_loss", pulls_the_teacher, "a gradient reaches the teacher"),
        ("my_quantise", one_less, "The integers are wrong, by up to 1"),
        ("my_quantise", scales_in_half, "The scales are wrong"),
        ("mended_replaced", drawn_twice, "It reads what it should. The answers are wrong"),
    ],
)
def test_a_wrong_way_that_nobody_listed_is_told_where_to_look(name, answer, said):
    verdict = judge(find(name), answer)
    assert verdict.kind == "wrong" and said in verdict.message, verdict


@pytest.mark.parametrize("name", ["my_shared_stack", "my_distillation_loss"])
def test_the_right_numbers_without_their_gradient_are_told_so(name):
    solution = find(name).solution
    verdict = judge(find(name), lambda *given: solution(*given).detach())
    assert verdict.kind == "wrong" and "detach" in verdict.message, verdict


def test_a_way_back_through_the_last_layer_alone_is_told_so():
    """All numbers fit, and each shared block would learn from one use at most."""

    def cut(x, blocks, n_layers):
        for layer in range(n_layers):
            x = blocks[layer * len(blocks) // n_layers](x.detach())
        return x

    verdict = judge(find("my_shared_stack"), cut)
    assert verdict.kind == "wrong" and "no gradient flows back to" in verdict.message, verdict


# The library ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_groups", [1, 2, 4])
def test_the_stack_is_the_librarys(n_groups):
    torch.manual_seed(0)
    sizes = dict(max_len=9, d_model=8, n_heads=2, n_layers=4, d_embedding=6, n_segments=0, pooler=False)
    bert, ids = LeanBert(LeanBertConfig(20, n_groups=n_groups, **sizes)), torch.randint(20, (3, 7))
    with torch.no_grad():
        mine = my_shared_stack(bert.embed(ids), list(bert.blocks), 4)
        torch.testing.assert_close(mine, bert(ids))


def test_the_others_are_the_librarys():
    torch.manual_seed(0)
    student, teacher = torch.randn(5, 11), torch.randn(5, 11)
    torch.testing.assert_close(my_distillation_loss(student, teacher, 3.0), distillation_loss(student, teacher, 3.0))
    ids, chosen = torch.randint(9, (4, 6)), torch.rand(4, 6) < 0.5
    drawn = torch.randint(9, (int(chosen.sum()),))
    for mine, theirs in zip(my_replace(ids, chosen, drawn), replace(ids, chosen, drawn), strict=False):
        assert torch.equal(mine, theirs)
    weights = torch.randn(7, 12)
    weights[3] = 0
    for bits in range(2, 9):
        whole, scales = my_quantise(weights, bits)
        torch.testing.assert_close((whole, scales[:, None]), quantise(weights, bits))
        torch.testing.assert_close(dequantise(whole, scales[:, None]), rounded(weights, bits))


# The planted bug --------------------------------------------------------------------------------------------------


def right_share(batch, steps=60, V=12):
    """How often a small discriminator is right on random letters, of which nobody can tell what was replaced."""
    torch.manual_seed(0)
    table = torch.zeros(V + 1, requires_grad=True)  # one number for each piece: nothing else can be read there
    optimiser = torch.optim.Adam([table], lr=0.3)
    for step in range(steps + 1):
        ids, chosen = torch.randint(V, (64, 24)), torch.rand(64, 24) < 0.15
        read, replaced = batch(ids, chosen, lambda text: torch.randint(V, text.shape), V)
        if step == steps:
            return SimpleNamespace(
                accuracy=((table[read] > 0) == replaced).float().mean().item(), replaced=replaced.float().mean().item()
            )
        optimiser.zero_grad()
        F.binary_cross_entropy_with_logits(table[read], replaced.float()).backward()
        optimiser.step()


def test_the_bug_is_right_at_once_where_nothing_can_be_known_and_the_mended_batch_is_not():
    broken, mended = right_share(broken_replaced), right_share(mended_replaced)
    assert broken.accuracy > 0.98
    assert mended.accuracy < 1 - 0.9 * mended.replaced


# What is asked ------------------------------------------------------------------------------------------------


def test_the_lesson_asks_what_its_plan_lists():
    own = [one for one in all_exercises() if one.lesson == "smaller_bert"]
    assert {one.name for one in own} == {
        "my_shared_stack", "my_replace", "my_distillation_loss", "my_quantise", "mended_replaced",
    }  # fmt: skip
    assert {one.key for one in all_quizzes() if one.lesson == "smaller_bert"} == {
        "what_sharing_saves", "drawn_alike", "no_gan", "soft_targets", "why_tau_squared", "one_outlier",
    }  # fmt: skip
    assert {one.name for one in all_investigations() if one.lesson == "smaller_bert"} == {"which_half"}
