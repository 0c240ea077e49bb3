"""bert/soft_targets.py: softened probabilities and their divergence by hand; states; a student made of its teacher."""

import math

import pytest
import torch
import torch.nn.functional as F
from test_lean_bert import lean
from torch.testing import assert_close

from course_lib.bert.soft_targets import distillation_loss, kept_layers, softened

NEAR = {"atol": 2e-6, "rtol": 0}


def scores(*shape, seed=0, dtype=torch.float32):
    return 2 * torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def a_teacher(dtype=torch.float32, **sizes):
    """Four blocks that are not shared, every weight drawn."""
    return lean(dtype, n_groups=4, **sizes).eval()


# --- softened


@pytest.mark.parametrize("temperature", [0.1, 1.0, 3.0])
def test_probabilities_at_a_temperature(temperature):
    """softened: exp(z / tau) over its sum, number by number; any shape."""
    logits = scores(2, 3, 4)
    found = softened(logits, temperature)
    for row, z in zip(found.flatten(0, 1).tolist(), logits.flatten(0, 1).tolist(), strict=True):
        whole = sum(math.exp(one / temperature) for one in z)
        assert row == pytest.approx([math.exp(one / temperature) / whole for one in z], abs=1e-6)
    assert torch.equal(softened(logits), logits.softmax(dim=-1))


def test_hot_is_even_and_cold_is_sure():
    """softened: far above 1 all are equally likely, near 0 the largest alone; their order stays."""
    logits = scores(5, 4)
    assert_close(softened(logits, 1e9), torch.full((5, 4), 0.25), **NEAR)
    assert_close(softened(logits, 1e-6), F.one_hot(logits.argmax(dim=-1), 4).float())
    assert torch.equal(softened(logits, 7.0).argsort(dim=-1), logits.argsort(dim=-1))
    assert (softened(logits, 2.0).amax(dim=-1) < softened(logits).amax(dim=-1)).all()


# --- the divergence


@pytest.mark.parametrize("temperature", [0.5, 1.0, 4.0])
@pytest.mark.parametrize("N, V", [(1, 2), (6, 5), (3, 1)])
def test_the_divergence_by_brute_force(N, V, temperature):
    """distillation_loss: tau^2 sum p_t log(p_t / p_s), the mean over places; tau (p_s - p_t) / N for the student.

    Nothing for the teacher.
    """
    student, teacher = scores(N, V).requires_grad_(), scores(N, V, seed=1).requires_grad_()
    loss = distillation_loss(student, teacher, temperature)
    p_s, p_t = softened(student.detach(), temperature), softened(teacher.detach(), temperature)
    told = sum(t * math.log(t / s) for s, t in zip(p_s.flatten().tolist(), p_t.flatten().tolist(), strict=True))
    assert loss.item() == pytest.approx(temperature**2 * told / N, abs=2e-5) and loss.item() >= -1e-6
    loss.backward()
    assert_close(student.grad, temperature * (p_s - p_t) / N, **NEAR)
    assert teacher.grad is None


@pytest.mark.parametrize("temperature", [0.5, 1.0, 4.0])
def test_who_says_the_same_has_nothing_to_learn(temperature):
    """distillation_loss: 0, and no gradient, for the same logits, and for logits that differ by a constant of a row."""
    teacher = scores(6, 5)
    for logits in (teacher, teacher + scores(6, 1, seed=1)):
        student = logits.clone().requires_grad_()
        loss = distillation_loss(student, teacher, temperature)
        loss.backward()
        assert_close(loss.detach(), torch.zeros(()), **NEAR)
        assert_close(student.grad, torch.zeros(6, 5), **NEAR)
    assert distillation_loss(scores(6, 5, seed=2), teacher, temperature) > 0.1


def test_the_divergence_is_the_cross_entropy_but_for_what_cannot_be_learned():
    """distillation_loss: they differ by the teacher's entropy; and a teacher that is sure is a label."""
    student, teacher = scores(6, 5).requires_grad_(), scores(6, 5, seed=1)
    p = softened(teacher, 3.0)
    crossed = 9 * F.cross_entropy(student / 3, p)
    entropy = 9 * -(p * p.log()).sum(dim=-1).mean()
    loss = distillation_loss(student, teacher, 3.0)
    assert_close(loss, crossed - entropy)
    for one, other in zip(torch.autograd.grad(loss, student), torch.autograd.grad(crossed, student), strict=True):
        assert_close(one, other, **NEAR)
    labels = torch.arange(6) % 5
    assert_close(distillation_loss(student, 500.0 * F.one_hot(labels, 5)), F.cross_entropy(student, labels))


def test_gradients_are_as_large_at_any_high_temperature():
    """distillation_loss: for large tau they are those of half the mean square of centred logits, and tau drops out."""
    student, teacher = scores(6, 5).requires_grad_(), scores(6, 5, seed=1)
    gap = student.detach() - teacher
    limit = (gap - gap.mean(dim=-1, keepdim=True)) / (6 * 5)
    for temperature in (100.0, 1000.0):
        (grad,) = torch.autograd.grad(distillation_loss(student, teacher, temperature), student)
        assert_close(grad, limit, atol=10 / temperature * limit.abs().max().item(), rtol=0)
    (cold,) = torch.autograd.grad(distillation_loss(student, teacher, 0.1), student)
    assert (cold - limit).norm() > 0.3 * limit.norm()


@pytest.mark.parametrize("temperature", [0.5, 4.0])
def test_what_has_no_probability_counts_nothing(temperature):
    """distillation_loss: a vocabulary that both mask, or the teacher alone, is as if it were not there."""
    hidden = torch.tensor([[True, False, False, False, True], [False] * 5, [False, True, True, True, True]])
    student, teacher = scores(3, 5).requires_grad_(), scores(3, 5, seed=1).masked_fill(hidden, -math.inf)
    loss = distillation_loss(student.masked_fill(hidden, -math.inf), teacher, temperature)
    alone = [distillation_loss(s[~h][None], t[~h][None], temperature)
             for s, t, h in zip(student, teacher, hidden, strict=True)]  # fmt: skip
    assert_close(loss, sum(alone) / 3)
    for one, other in zip(*(torch.autograd.grad(some, student) for some in (loss, sum(alone) / 3)), strict=True):
        assert_close(one, other, **NEAR)
    leaf = student.detach().masked_fill(hidden, -math.inf).requires_grad_()
    distillation_loss(leaf, teacher, temperature).backward()
    assert leaf.grad.isfinite().all() and not leaf.grad[hidden].any()
    p, log_q = softened(teacher, temperature), (student / temperature).log_softmax(dim=-1)
    wanted = temperature**2 * (torch.xlogy(p, p) - p * log_q).sum() / 3
    assert_close(distillation_loss(student, teacher, temperature), wanted)
    assert_close(torch.autograd.grad(wanted, student), torch.autograd.grad(
        distillation_loss(student, teacher, temperature), student), **NEAR)  # fmt: skip


def test_where_nothing_or_the_impossible_is_told():
    """distillation_loss: a place where the teacher says nothing is free; what the student rules out costs without end.

    A NaN is still seen.
    """
    nothing = torch.full((1, 5), -math.inf)
    for student in (scores(1, 5), nothing.clone()):
        student.requires_grad_()
        loss = distillation_loss(student, nothing)
        loss.backward()
        assert loss == 0 and not student.grad.any()
    both = [torch.cat([scores(2, 5, seed=seed), nothing]) for seed in (0, 1)]
    assert_close(3 * distillation_loss(*both), 2 * distillation_loss(*(part[:2] for part in both)))
    assert distillation_loss(torch.tensor([[0.0, -math.inf]]), torch.zeros(1, 2)) == math.inf
    far = torch.tensor([[0.0, -500.0]])  # a probability that is 0 in single precision
    assert distillation_loss(torch.tensor([[0.0, -math.inf]]), far) == 0
    for broken in (scores(1, 5).fill_(math.nan), torch.tensor([[0.0, math.nan, -math.inf, 0, 0]])):
        assert distillation_loss(scores(1, 5), broken).isnan() and distillation_loss(broken, scores(1, 5)).isnan()


def test_no_place_at_all_has_no_loss():
    student = torch.zeros(0, 5).requires_grad_()
    loss = distillation_loss(student, torch.zeros(0, 5))
    loss.backward()
    assert loss == 0 and student.grad.shape == (0, 5)


# --- layers that are kept


@pytest.mark.parametrize("more", [{}, {"rotary": True, "n_segments": 0, "pooler": False}], ids=["placed", "rotary"])
@pytest.mark.parametrize("layers", [[0, 2], [3], [2, 0, 1], [1, 1], [0, 1, 2, 3]], ids=str)
def test_a_student_begins_with_layers_of_its_teacher(layers, more):
    """kept_layers: tables, norms and the layers that were kept, in this order, compute what they do in the teacher."""
    teacher = a_teacher(**more)
    student, ids, mask = kept_layers(teacher, layers), torch.randint(11, (3, 7)), torch.rand(3, 7) < 0.7
    expected = {"n_layers": len(layers), "n_groups": len(layers)}
    assert vars(student.config) == vars(teacher.config) | expected and len(student.blocks) == len(layers)
    h = teacher.embed(ids, None, mask)
    for layer in layers:
        h = teacher.blocks[layer](h, mask)
    assert_close(student(ids, None, mask), teacher.last_norm(h), atol=1e-6, rtol=0)
    if layers == [0, 1, 2, 3]:
        assert torch.equal(student(ids, None, mask), teacher(ids, None, mask))
        assert student.state_dict().keys() == teacher.state_dict().keys()


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16], ids=str)
def test_a_student_has_its_teachers_kind_of_number(dtype):
    """kept_layers: to the last digit."""
    teacher = a_teacher().double()
    with torch.no_grad():
        teacher.tokens.weight.add_(1e-12)  # which single precision does not hold
    student = kept_layers(teacher.to(dtype), [3, 1])
    assert {part.dtype for part in student.state_dict().values()} == {dtype}
    assert torch.equal(student.tokens.weight, teacher.tokens.weight)
    assert torch.equal(student.blocks[0].feed_forward.w_1.weight, teacher.blocks[3].feed_forward.w_1.weight)


def test_a_student_is_a_copy_and_keeps_the_mode():
    """kept_layers: what the student learns leaves the teacher as it was, and two uses of one layer apart."""
    teacher, ids = a_teacher(), torch.randint(11, (2, 5))
    before, student = teacher(ids), kept_layers(teacher, [0, 0])
    assert not student.training and kept_layers(teacher.train(), [1]).training
    assert not {p.data_ptr() for p in student.parameters()} & {p.data_ptr() for p in teacher.parameters()}
    with torch.no_grad():
        for weight in student.blocks[0].parameters():
            weight.add_(1.0)
        student.tokens.weight.zero_()
    assert torch.equal(teacher(ids), before) and all(p.requires_grad for p in student.parameters())
    pairs = zip(student.blocks[1].parameters(), teacher.blocks[0].parameters(), strict=True)
    assert all(torch.equal(mine, theirs) for mine, theirs in pairs)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64], ids=str)
def test_any_kind_of_real_number(dtype):
    """distillation_loss: half precision too; the loss is of the same kind."""
    student, teacher = scores(3, 4, dtype=dtype), scores(3, 4, seed=1, dtype=dtype)
    found = distillation_loss(student, teacher)
    assert found.dtype == dtype
    assert found.item() == pytest.approx(distillation_loss(student.float(), teacher.float()).item(), rel=0.01)
    near = teacher * 1.02 + 0.03  # the difference of two logarithms is small
    wanted = distillation_loss(near.double(), teacher.double()).item()
    assert distillation_loss(near, teacher).item() == pytest.approx(wanted, rel=0.01)


# --- bad input


def test_bad_input_is_refused_in_words():
    with pytest.raises(ValueError, match="distillation_loss needs .* got .2, 3. and .1, 3."):
        distillation_loss(scores(2, 3), scores(1, 3))
    with pytest.raises(ValueError, match="uses a block in several layers: no layer can be"):
        kept_layers(lean(n_groups=1), [0])
