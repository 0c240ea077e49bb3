"""Lesson 17's exercises: they agree with the library, and the planted bug misleads."""

import pytest
import torch
import torch.nn.functional as F

from course_lib.attention.block import Block
from course_lib.lesson.judge import judge
from course_lib.long_context.hashing import hash_buckets
from course_lib.long_context.linear_attention import features, linear_attention
from course_lib.long_context.reversible import reversible_step
from course_lib.long_context.segments import SegmentConfig, SegmentReader, recalled
from course_lib.long_context.window import band_mask
from course_lib.workshop.exercises import all_exercises, all_investigations, all_quizzes, find
from course_lib.workshop.exercises.longer import my_band_mask, my_recalled
from course_lib.workshop.exercises.longer_buckets import my_hash_round, my_linear_step, my_reversed_step
from course_lib.workshop.exercises.longer_segments import broken_segments, mended_segments, read_through, reader, text

# Wrong ways that are not in the tables ------------------------------------------------------------------------


def wider_behind(T, window, n_global):
    place = torch.arange(T)
    return my_band_mask(T, window, n_global) | (place[:, None] - place == window)


def one_global_place_less(T, window, n_global):
    return my_band_mask(T, window, max(0, n_global - 1))


def not_itself(T, window, n_global):
    return my_band_mask(T, window, n_global) & ~torch.eye(T, dtype=torch.bool)


def a_decaying_memory(memory, x, w_k, w_v):
    return my_recalled(0.9 * memory, x, w_k, w_v)


def values_by_half(memory, x, w_k, w_v):
    k, v = my_recalled(memory, x, w_k, w_v)
    return k, v / 2


def a_memory_that_learns_a_little(memory, x, w_k, w_v):
    k, v = my_recalled(memory, x, w_k, w_v)
    return k, v + (memory - memory.detach()).mean()


def keys_that_learn_half(memory, x, w_k, w_v):
    return my_recalled(memory, x, (w_k + w_k.detach()) / 2, w_v)


def turned_by_one(x, turns):
    return (my_hash_round(x, turns) + 1) % (2 * turns.shape[1])


def one_number_less(x, turns):
    return my_hash_round(x[:, :-1], turns[:-1]) if x.shape[1] > 1 else my_hash_round(x, turns)


def all_but_the_last_direction(x, turns):
    return my_hash_round(x, turns[:, : max(1, turns.shape[1] - 1)])


def half_of_g(f, g, y_1, y_2):
    return my_reversed_step(f, lambda x: g(x) / 2, y_1, y_2)


def f_of_a_little_less(f, g, y_1, y_2):
    x_1, x_2 = my_reversed_step(f, g, y_1, y_2)
    return x_1 + 0.1 * f(x_2), x_2


def a_state_that_decays(S, z, q, k, v):
    return my_linear_step(0.9 * S, z, q, k, v)


def a_sum_that_decays(S, z, q, k, v):
    return my_linear_step(S, 0.9 * z, q, k, v)


def safe_division(S, z, q, k, v):
    out, S, z = my_linear_step(S, z, q, k, v)
    return out * 0.99, S, z


def twice_the_loss(model, segments):
    return 2 * mended_segments(model, segments)


def a_cut_at_every_second(model, segments):
    memory, losses = None, []
    for number, (x, y) in enumerate(segments):
        logits, memory = model(x, memory)
        memory = tuple(states.detach() for states in memory) if number % 2 else memory
        loss = F.cross_entropy(logits.flatten(0, 1), y.flatten()) / len(segments)
        loss.backward(retain_graph=True)
        losses.append(loss.detach())
    return torch.stack(losses).sum()


def learned_from_twice(model, segments):
    memory, losses = None, []
    for x, y in segments:
        logits, memory = model(x, memory)
        memory = tuple(states.detach() for states in memory)
        loss = F.cross_entropy(logits.flatten(0, 1), y.flatten()) / len(segments)
        (1.5 * loss).backward()
        losses.append(loss.detach())
    return torch.stack(losses).sum()


@pytest.mark.parametrize(
    ("name", "answer", "said"),
    [
        ("my_band_mask", wider_behind, "With a window of 1 and no global token it is wrong already"),
        ("my_band_mask", one_global_place_less, "Global tokens are wrong"),
        ("my_band_mask", not_itself, "With a window of 1 and no global token it is wrong already"),
        ("my_recalled", a_decaying_memory, "The keys of the memory are wrong"),
        ("my_recalled", values_by_half, "The keys are right, the values are not"),
        ("my_recalled", a_memory_that_learns_a_little, "the gradient by `memory` is not. There should be none"),
        ("my_recalled", keys_that_learn_half, "the gradient by `w_k` is not"),
        ("my_hash_round", turned_by_one, "With one direction and one number per vector it is wrong already"),
        ("my_hash_round", one_number_less, "with several it is wrong: x @ turns"),
        ("my_hash_round", all_but_the_last_direction, "With one direction it is right, with several it is wrong"),
        ("my_reversed_step", half_of_g, "x_2 is wrong. It comes first"),
        ("my_reversed_step", f_of_a_little_less, "x_2 is right, x_1 is wrong"),
        ("my_linear_step", a_state_that_decays, "S is wrong"),
        ("my_linear_step", a_sum_that_decays, "S is right. z is wrong"),
        ("my_linear_step", safe_division, "S and z are right. What is read is wrong"),
        ("mended_segments", twice_the_loss, "The loss is wrong. It was right before"),
        ("mended_segments", a_cut_at_every_second, "A gradient passes through the segments 2, 1, 2, 1 times"),
        ("mended_segments", learned_from_twice, "The gradients themselves are not right"),
    ],
)
def test_a_wrong_way_that_nobody_listed_is_told_where_to_look(name, answer, said):
    verdict = judge(find(name), answer)
    assert verdict.kind == "wrong" and said in verdict.message, verdict


@pytest.mark.parametrize("name", ["my_recalled", "my_reversed_step", "my_linear_step"])
def test_the_right_numbers_without_their_gradient_are_told_so(name):
    solution = find(name).solution
    verdict = judge(find(name), lambda *given: [part.detach() for part in solution(*given)])
    assert verdict.kind == "wrong" and "detach" in verdict.message, verdict


def test_who_writes_into_the_state_is_told_so():
    def in_place(S, z, q, k, v):
        S += k[:, :, None] * v[:, None, :]
        z += k
        return (q[:, None, :] @ S).squeeze(1) / (q * z).sum(dim=1, keepdim=True), S, z

    verdict = judge(find("my_linear_step"), in_place)
    assert verdict.kind == "wrong" and "changes its input `S` in place" in verdict.message


# The solutions are the library's ------------------------------------------------------------------------------


def test_the_mask_and_the_buckets_are_the_librarys():
    torch.manual_seed(0)
    for T, window, n_global in ((1, 1, 0), (9, 2, 1), (12, 5, 3), (4, 8, 9)):
        assert torch.equal(my_band_mask(T, window, n_global), band_mask(T, window, n_global))
    x, turns = torch.randn(2, 3, 20, 6), torch.randn(4, 6, 5)
    for number, one in enumerate(turns):  # a solution takes more dimensions than are asked for
        assert torch.equal(my_hash_round(x, one), hash_buckets(x, turns)[..., number, :])


def test_keys_and_values_are_the_librarys_cache():
    """`recalled` is the part in front, behind the norm and cut into heads."""
    torch.manual_seed(0)
    block = Block.from_sizes(8, 2, 16, pre_norm=True)
    memory, x, heads = torch.randn(3, 4, 8), torch.randn(3, 5, 8), block.attention
    with torch.no_grad():
        cache = recalled(block, memory, torch.arange(4))["own"]
        mine = my_recalled(block.norm_1(memory), block.norm_1(x), heads.w_k.weight.T, heads.w_v.weight.T)
        for name, layer, whole in zip("kv", (heads.w_k, heads.w_v), mine, strict=True):
            whole = whole if layer.bias is None else whole + layer.bias
            torch.testing.assert_close(heads.split(whole, 2)[:, :, :4], cache[name])


def test_a_layer_goes_back_and_a_row_of_steps_is_linear_attention():
    torch.manual_seed(0)
    x_1, x_2 = torch.randn(2, 3, 4, dtype=torch.float64).unbind()
    torch.testing.assert_close(my_reversed_step(torch.sin, torch.exp, *reversible_step(torch.sin, torch.exp, x_1, x_2)),
                               (x_1, x_2))  # fmt: skip
    q, k, v = torch.randn(3, 2, 9, 5, dtype=torch.float64).unbind()
    q, k, S, z, said = features(q), features(k), q.new_zeros(2, 5, 5), q.new_zeros(2, 5), []
    for t in range(9):
        out, S, z = my_linear_step(S, z, q[:, t], k[:, t], v[:, t])
        said.append(out)
    torch.testing.assert_close(torch.stack(said, dim=1), linear_attention(q, k, v))


def test_the_mended_loop_trains_the_librarys_reader():
    torch.manual_seed(0)
    model = SegmentReader(SegmentConfig(7, 8, 2, 2, memory=5)).double()
    ids = torch.randint(7, (2, 13))
    segments = [(ids[:, t : t + 4], ids[:, t + 1 : t + 5]) for t in (0, 4, 8)]
    found = []
    for loop in (broken_segments, mended_segments):  # there the library cuts by itself
        model.zero_grad()
        found.append([loop(model, segments), *(w.grad.clone() for w in model.parameters())])
    torch.testing.assert_close(*found)


# The planted bug ----------------------------------------------------------------------------------------------


def test_with_the_planted_bug_the_loss_falls_all_the_same_and_gradients_come_by_again_and_again():
    falls, passes = {}, {}
    torch.manual_seed(0)
    _, *drawn, places = text(6, 1, 3, 6, 2)
    ids = torch.arange(19) % 6  # a text that can be learned
    segments = torch.stack([ids[:-1], ids[1:]]).view(2, 6, 1, 3).transpose(0, 1)
    for loop in (broken_segments, mended_segments):
        table, weights = (0.3 * part for part in drawn)
        passes[loop] = read_through(loop, segments, table.clone(), weights.clone(), places)[2]
        table, weights = table.clone().requires_grad_(), weights.clone().requires_grad_()
        optimiser, losses = torch.optim.Adam([table, weights], lr=0.05), []
        for _ in range(30):
            optimiser.zero_grad()
            losses.append(loop(reader(table, weights, places, []), [tuple(pair) for pair in segments]).item())
            optimiser.step()
        falls[loop] = losses
    assert falls[broken_segments][0] == pytest.approx(falls[mended_segments][0], abs=1e-12)  # forward it is the same
    assert all(losses[-1] < 0.6 * losses[0] for losses in falls.values())
    assert passes[mended_segments] == [1] * 6
    assert passes[broken_segments] == [6, 5, 4, 3, 2, 1]  # to the beginning, though farther than 4 back it is 0


# What is asked ------------------------------------------------------------------------------------------------


def test_the_lesson_asks_what_its_plan_lists():
    own = [one for one in all_exercises() if one.lesson == "longer"]
    assert {one.name for one in own} == {
        "my_band_mask", "my_recalled", "my_hash_round", "my_reversed_step", "my_linear_step", "mended_segments",
    }  # fmt: skip
    assert {one.key for one in all_quizzes() if one.lesson == "longer"} == {
        "three_layers_of_eight", "one_global_place", "places_that_clash", "one_vector_for_both",
        "what_reversing_costs", "what_a_state_forgets",
    }  # fmt: skip
    assert {one.name for one in all_investigations() if one.lesson == "longer"} == {"which_for_a_book"}
