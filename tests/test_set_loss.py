"""detection/set_loss.py: Hugging Face's loss of DETR; orders that are nothing, scenes without objects; bad input."""

from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from course_lib.detection.set_loss import NOTHING, in_order, left_to_right, loss_given, set_loss


def drawn(B=3, Q=7, M=4, K=5, seed=0, dtype=torch.float64):
    """Logits, boxes, labels, truth; the last scene is empty, and others have padding."""
    torch.manual_seed(seed)
    labels = torch.randint(0, K, (B, M))
    counts = torch.randint(1, M + 1, (B, 1))
    counts[-1] = 0
    labels = torch.where(torch.arange(M) < counts, labels, -1)
    truth = torch.rand(B, M, 4, dtype=dtype) * (labels >= 0)[..., None]
    return torch.randn(B, Q, K + 1, dtype=dtype), torch.rand(B, Q, 4, dtype=dtype), labels, truth


def hugging_faces(logits, boxes, labels, truth):
    """Their three losses, weighed as their configuration does, from their own code."""
    from transformers.loss.loss_for_object_detection import ForObjectDetectionLoss

    config = SimpleNamespace(class_cost=1, bbox_cost=5, giou_cost=2, num_labels=logits.shape[-1] - 1,
                             eos_coefficient=NOTHING, auxiliary_loss=False, bbox_loss_coefficient=5,
                             giou_loss_coefficient=2)  # fmt: skip
    targets = [{"class_labels": own[own >= 0], "boxes": box[own >= 0]} for own, box in zip(labels, truth, strict=True)]
    return ForObjectDetectionLoss(logits, targets, logits.device, boxes, config)[0]


@pytest.mark.parametrize("seed", range(5))
def test_it_is_hugging_faces(seed):
    """set_loss: their loss and its gradients, matching and all, on drawn scenes, one of them empty."""
    logits, boxes, labels, truth = drawn(seed=seed, dtype=torch.float32)  # theirs weighs classes in it alone
    found = []
    for loss in (set_loss, hugging_faces):
        parts = [part.clone().requires_grad_() for part in (logits, boxes)]
        value = loss(*parts, labels, truth)
        found.append([value, *torch.autograd.grad(value, parts)])
    for one, other in zip(*found, strict=True):
        assert_close(one, other, atol=1e-5, rtol=1e-5)


def test_no_order_changes_it():
    """set_loss: neither the objects' nor the queries'."""
    logits, boxes, labels, truth = drawn()
    value = set_loss(logits, boxes, labels, truth)
    objects, queries = torch.randperm(labels.shape[1]), torch.randperm(logits.shape[1])
    assert_close(set_loss(logits, boxes, labels[:, objects], truth[:, objects]), value)
    assert_close(set_loss(logits[:, queries], boxes[:, queries], labels, truth), value)
    more = F.pad(labels, (0, 3), value=-1), F.pad(truth, (0, 0, 0, 3))
    assert_close(set_loss(logits, boxes, *more), value)  # padding changes nothing


def test_a_fixed_order_is_not_a_set():
    """in_order: another order of the list is another loss."""
    logits, boxes, labels, truth = drawn(M=7)
    given = in_order(labels, 7)
    value = loss_given(given, logits, boxes, labels, truth)
    turned = labels.flip(1), truth.flip(1)
    assert (loss_given(in_order(turned[0], 7), logits, boxes, *turned) - value).abs() > 1e-3
    assert value >= set_loss(logits, boxes, labels, truth) - 1.0


def test_gradients():
    """loss_given: in float64 against differences."""
    logits, boxes, labels, truth = drawn(Q=5)
    given = in_order(labels, 5)
    parts = [logits.requires_grad_(), boxes.requires_grad_()]
    assert torch.autograd.gradcheck(lambda *two: loss_given(given, *two, labels, truth), parts)


def test_scenes_without_any_object():
    """Only "no object" is asked then, and nothing of the boxes."""
    logits, boxes, labels, truth = drawn()
    labels, boxes = torch.full_like(labels, -1), boxes.requires_grad_()
    value = set_loss(logits, boxes, labels, truth)
    assert_close(value, -logits.log_softmax(-1)[..., -1].mean())
    value.backward()
    assert (boxes.grad == 0).all()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64], ids=str)
def test_a_batch_without_room_for_an_object(dtype):
    """set_loss, loss_given, in_order, left_to_right: M = 0 is the class loss alone, and its gradient."""
    logits, boxes, labels, truth = drawn(dtype=dtype)
    parts = [logits.requires_grad_(), boxes.requires_grad_()]
    value, padded = set_loss(*parts, labels[:, :0], truth[:, :0]), set_loss(*parts, torch.full_like(labels, -1), truth)
    assert_close(value, -logits.to(value.dtype).log_softmax(-1)[..., -1].mean())
    assert value == padded and loss_given(in_order(labels[:, :0], 7), *parts, labels[:, :0], truth[:, :0]) == padded
    for one, other in zip(*(torch.autograd.grad(loss, parts) for loss in (value, padded)), strict=True):
        assert_close(one, other, atol=0, rtol=0)
        assert one.dtype == dtype
    assert [part.shape for part in left_to_right(labels[:, :0], truth[:, :0])] == [(3, 0), (3, 0, 4)]


@pytest.mark.parametrize("half", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("seed", range(3))
def test_half_precision_has_the_loss_of_its_numbers(half, seed):
    """set_loss: as the same numbers in single precision, to the last digit; what is true may stay in single."""
    logits, boxes, labels, truth = drawn(seed=seed, dtype=torch.float32)
    logits, boxes = logits.to(half).requires_grad_(), boxes.to(half).requires_grad_()
    for objects in (truth, truth.to(half)):
        value = set_loss(logits, boxes, labels, objects)
        assert value == set_loss(logits.float(), boxes.float(), labels, objects.float())
        assert all(part.dtype == half and part.any() for part in torch.autograd.grad(value, (logits, boxes)))


def test_more_objects_than_queries():
    logits, boxes, labels, truth = drawn(Q=2)
    assert set_loss(logits, boxes, labels, truth).isfinite()
    assert in_order(torch.tensor([[3, 1, 0, -1]]), 2).tolist() == [[0, 1]]


def test_the_weight_of_no_object():
    """With 0 a query without an object is asked for nothing."""
    logits, boxes, labels, truth = drawn(B=1)
    labels = torch.tensor([[2, -1, -1, -1]])
    logits.requires_grad_()
    given = torch.tensor([[-1, 0, -1, -1, -1, -1, -1]])
    loss_given(given, logits, boxes, labels, truth, nothing=0.0).backward()
    assert (logits.grad[0, 0] == 0).all() and (logits.grad[0, 1] != 0).any()


def test_from_left_to_right():
    """left_to_right: padding stays last."""
    labels, truth = torch.tensor([[4, 2, -1], [-1, -1, -1]]), torch.rand(2, 3, 4)
    truth[0, 0, 0], truth[0, 1, 0] = 0.9, 0.1
    names, boxes = left_to_right(labels, truth)
    assert names.tolist() == [[2, 4, -1], [-1, -1, -1]]
    assert torch.equal(boxes[0, :2], truth[0, :2].flip(0))


def test_bad_input_is_refused_in_words():
    logits, boxes, labels, truth = drawn()
    with pytest.raises(ValueError, match='Labels are classes from 0 to 4, or -1 for padding; got -1 to 5. "No object"'):
        set_loss(logits, boxes, torch.where(labels < 0, -1, 5), truth)
    with pytest.raises(ValueError, match="Labels are classes from 0 to 4"):
        loss_given(in_order(labels, 7), logits, boxes, torch.where(labels < 0, -1, 6), truth)
