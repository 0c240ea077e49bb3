"""detection/average_precision.py: COCO's own evaluation, cases by hand, scikit-learn; bad input."""

import numpy as np
import pytest
import torch

from course_lib.detection.average_precision import (
    Found,
    average_precision,
    duplicates,
    found_by,
    mean_average_precision,
    precision_recall,
    right_ones,
)


def drawn(seed, S=12, Q=8, M=4, K=3):
    """Found boxes near true ones, with some of another class, some twice, padding on both sides."""
    torch.manual_seed(seed)
    labels = torch.where(torch.rand(S, M) < 0.7, torch.randint(0, K, (S, M)), -1)
    truth = torch.cat([torch.rand(S, M, 2), torch.rand(S, M, 2) / 4 + 0.1], dim=2)
    which = torch.randint(0, M, (S, Q))
    names = torch.where(torch.rand(S, Q) < 0.8, labels.gather(1, which), torch.randint(-1, K, (S, Q)))
    boxes = truth.gather(1, which[..., None].expand(-1, -1, 4)) + 0.02 * torch.randn(S, Q, 4)
    return Found(names, boxes.clamp(min=0.01), torch.rand(S, Q)), labels, truth


def coco(found, labels, truth, at):
    """The same by COCO's own evaluation, which names boxes by their left upper corner and their size."""
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    def rows(names, boxes, *more):
        for (s, q), name in np.ndenumerate(names.numpy()):
            if name >= 0:
                (x, y, w, h), area = boxes[s, q].tolist(), boxes[s, q, 2:].prod().item()
                row = {"image_id": s + 1, "category_id": int(name) + 1, "bbox": [x - w / 2, y - h / 2, w, h]}
                yield row | {"area": area, "iscrowd": 0} | {key: value[s, q].item() for key, value in more}

    data = COCO()
    kinds = [{"id": int(name) + 1} for name in labels[labels >= 0].unique()]
    objects = [row | {"id": n} for n, row in enumerate(rows(labels, truth), 1)]  # an object's id of 0 counts as none
    data.dataset = {"images": [{"id": s + 1} for s in range(len(labels))], "categories": kinds, "annotations": objects}
    data.createIndex()
    judge = COCOeval(data, data.loadRes([*rows(found.labels, found.boxes, ("score", found.scores))]), "bbox")
    judge.params.recThrs = np.arange(101) / 100  # theirs, np.linspace, misses 13 / 20 and 31 more by the last digit
    judge.params.iouThrs, judge.params.areaRng, judge.params.areaRngLbl = np.array([at]), [[0, 1e5]], ["all"]
    judge.evaluate()
    judge.accumulate()
    return judge.eval["precision"][0, :, :, 0, -1].mean()


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("at", [0.5, 0.75])
def test_it_is_cocos(seed, at):
    """mean_average_precision, right_ones: as pycocotools computes them."""
    found, labels, truth = drawn(seed)
    for name, n in zip(labels[labels >= 0].unique(), (20, 10, 8), strict=True):  # many recalls are hundredths
        places = (labels == name).nonzero()
        labels[tuple(places[n:].T)] = -1
    assert mean_average_precision(found, labels, truth, at) == pytest.approx(coco(found, labels, truth, at), abs=1e-6)


def test_precision_and_recall_are_scikit_learns():
    """precision_recall: at each score, where no object was missed altogether."""
    from sklearn.metrics import precision_recall_curve

    torch.manual_seed(0)
    right, scores = torch.rand(50) < 0.5, torch.rand(50)
    precision, recall = precision_recall(right, scores, int(right.sum()))
    theirs, its, _ = precision_recall_curve(right.numpy(), scores.numpy())
    own = dict(zip(recall.tolist(), precision.tolist(), strict=True))
    for p, r in zip(theirs[:-1], its[:-1], strict=True):
        assert any(abs(r - one) < 1e-6 and abs(p - other) < 1e-6 for one, other in
                   zip(recall.tolist(), precision.tolist(), strict=True))  # fmt: skip
    assert len(own) <= 50


def test_by_hand():
    """average_precision: three found, two of them right, of two objects: 1 up to recall 0.5, then 2 / 3."""
    precision, recall = precision_recall(torch.tensor([True, False, True]), torch.tensor([0.9, 0.8, 0.7]), 2)
    assert precision.tolist() == pytest.approx([1, 1 / 2, 2 / 3]) and recall.tolist() == [0.5, 0.5, 1.0]
    assert average_precision(precision, recall) == pytest.approx((51 * 1 + 50 * 2 / 3) / 101)
    # A third object that nobody finds: the recalls above 2 / 3 count as 0.
    assert average_precision(*precision_recall(torch.ones(2).bool(), torch.ones(2), 3)) == pytest.approx(67 / 101)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_a_recall_that_is_a_hundredth_is_reached(dtype):
    """average_precision, precision_recall: k of n found, all right, is (1 + floor(100 k / n)) / 101."""
    for n in (1, 2, 3, 7, 20, 25, 29, 100, 200, 300):
        for k in range(1, n + 1):
            precision, recall = precision_recall(torch.ones(k).bool(), torch.ones(k), n)
            recall = torch.arange(1, k + 1, dtype=dtype) / n if dtype == torch.float64 else recall
            found = average_precision(precision.to(dtype), recall)
            assert round(101 * found, 3) == 1 + 100 * k // n, (k, n)
    assert average_precision(*precision_recall(torch.ones(13).bool(), torch.ones(13), 20)) == pytest.approx(66 / 101)
    assert average_precision(torch.zeros(0), torch.zeros(0)) == 0


def one_object(*boxes, scores, labels=None):
    names = torch.tensor([labels or [1] * len(boxes)])
    return (Found(names, torch.tensor([boxes]), torch.tensor([scores])), torch.tensor([[1, -1]]),
            torch.tensor([[[0.5, 0.5, 0.2, 0.2], [0.0, 0.0, 0.0, 0.0]]]))  # fmt: skip


HERE, BESIDE, AWAY = [0.5, 0.5, 0.2, 0.2], [0.52, 0.5, 0.2, 0.2], [0.9, 0.9, 0.1, 0.1]


def test_an_object_is_found_once():
    """A second box on it is wrong, however good; the surest takes it, not the best."""
    found, labels, truth = one_object(HERE, BESIDE, AWAY, scores=[0.6, 0.9, 0.95])
    assert right_ones(found, labels, truth).tolist() == [[False, True, False]]
    assert duplicates(found, labels, truth) == 1.0
    assert duplicates(found, labels, truth, sure=0.7) == 0.0
    assert mean_average_precision(found, labels, truth) == pytest.approx(0.5)


def test_another_class_and_too_little_are_wrong():
    found, labels, truth = one_object(HERE, scores=[0.9], labels=[2])
    assert mean_average_precision(found, labels, truth) == 0
    found, labels, truth = one_object(BESIDE, scores=[0.9])
    assert mean_average_precision(found, labels, truth, 0.75) == 1
    assert mean_average_precision(found, labels, truth, 0.95) == 0


def test_what_is_exact_is_one():
    _, labels, truth = drawn(0)
    found = Found(labels, truth, torch.rand(labels.shape))
    assert mean_average_precision(found, labels, truth, 0.99) == pytest.approx(1)
    assert duplicates(found, labels, truth) == 0


def test_scenes_where_nothing_is_or_is_found():
    found, labels, truth = drawn(1)
    nothing = Found(torch.full_like(found.labels, -1), found.boxes, found.scores)
    assert mean_average_precision(nothing, labels, truth) == 0
    assert not right_ones(found, torch.full_like(labels, -1), truth).any()
    for empty in (torch.full_like(labels, -1), labels[:, :0]):
        boxes = truth[:, : empty.shape[1]]
        assert not right_ones(found, empty, boxes).any() and right_ones(found, empty, boxes).shape == (12, 8)
        assert duplicates(found, empty, boxes) == 0
        with pytest.raises(ValueError, match="No scene holds an object"):
            mean_average_precision(found, empty, boxes)
    unfound = Found(*(part[:, :0] for part in found))
    assert mean_average_precision(unfound, labels, truth) == duplicates(unfound, labels, truth) == 0


def test_no_scene_at_all_is_refused():
    found, labels, truth = drawn(1)
    found, labels, truth = Found(*(part[:0] for part in found)), labels[:0], truth[:0]
    assert right_ones(found, labels, truth).shape == (0, 8)
    with pytest.raises(ValueError, match="No scene holds an object"):
        mean_average_precision(found, labels, truth)
    with pytest.raises(ValueError, match="duplicates needs labels .*, not empty"):
        duplicates(found, labels, truth)
    with pytest.raises(ValueError, match="No scene holds an object"):
        precision_recall(torch.zeros(3).bool(), torch.zeros(3), 0)


@pytest.mark.parametrize("half", [torch.float16, torch.bfloat16], ids=str)
def test_half_precision_is_judged_as_its_numbers_are(half):
    found, labels, truth = drawn(2)
    found = Found(found.labels, found.boxes.to(half), found.scores.to(half))
    wide = Found(found.labels, found.boxes.float(), found.scores.float())
    for at in (0.5, 0.75, 0.9):
        assert right_ones(found, labels, truth.to(half), at).equal(right_ones(wide, labels, truth.to(half).float(), at))
        assert mean_average_precision(found, labels, truth, at) == mean_average_precision(wide, labels, truth, at)


def test_what_a_set_answers():
    """found_by: the best class that is not "no object", with the p that it has among all."""
    logits = torch.tensor([[[0.0, 2.0, 5.0], [3.0, 1.0, 0.0]]])
    found = found_by(logits, torch.rand(1, 2, 4))
    assert found.labels.tolist() == [[1, 0]]
    assert torch.equal(found.scores[0, 0], logits[0, 0].softmax(-1)[1])
