"""Lessons 09 to 18: wrong answers that are right in the usual case are refused under any seed; and what may differ."""

import pytest
import torch
from mutants import changed

from course_lib.lesson.judge import judge
from course_lib.workshop.exercises import find

NEARLY = [
    ("my_image", "len(patches), H // P, W", "H // P, len(patches), W", "mixed up two lengths"),
    ("my_iou", "both / union.where(union > 0, torch.ones_like(union))", "both / (union + 1e-5)", "small beside every"),
    ("my_giou", "both / union", "both / (union + 1e-5)", "small beside every union"),
    ("mended_set_loss", "labels[None] >= 0", "labels[None] > 0", "Class 0 is a class like any other"),
    ("mended_set_loss", "-p[:, labels] + 5 *", "5 *", "The boxes have too much weight in your costs"),
    (
        "mended_set_loss",
        "+ 5 * (boxes[:",
        "+ 8 * (boxes[:",
        "You match another prediction|The boxes have too much weight",
    ),
    (
        "mended_set_loss",
        "+ 5 * (boxes[:",
        "+ 5.7 * (boxes[:",
        "You match another prediction|The boxes have too much weight",
    ),
    (
        "mended_set_loss",
        "+ 5 * (boxes[:",
        "+ 4.4 * (boxes[:",
        "You match another prediction|The boxes have too little weight",
    ),
    (
        "mended_set_loss",
        "-p[:, labels]",
        "-logits[:, :-1].softmax(-1)[:, labels]",
        "You match another prediction|one object and nine",
    ),
    ("my_zero_shot", "scale * images", "8.0 * images", "With another scale it is wrong"),
    ("my_prefix", "[end]", "[2]", "With another end it is wrong"),
    ("my_corrupted", "sentinels[k]", "100 + k", "Sentinels may be any ids"),
    ("my_restored", "token in sentinels", "token >= 100", "Sentinels may be any ids"),
    ("mended_packed", "sentinels[k]", "sentinels[0] + k", "Sentinels may be any ids"),
    ("my_target_loss", "!= padding", "!= 0", "With another padding it is wrong"),
    ("my_target_loss", "!= padding", "> padding", "With another padding it is wrong"),
    ("my_bm25", "k1 *", "1.2 *", "With another k1 it is wrong"),
    ("my_bm25", "1 - b + b", "1 - 0.7 + 0.7", "With another b it is wrong"),
    ("mended_replaced", "chosen, mask_id)", "chosen, 5)", "Where [MASK] has another id it is wrong"),
    ("my_quantise", ".to(torch.int8)", ".long()", "each takes more than a byte"),
    ("my_linear_step", ".squeeze(1)", ".squeeze()", "shape (2, 2), float64"),
    ("my_draw", ":] - n_words", ":] % n_words", "With more codes than words|Two codes are right|The first code"),
    ("mended_revive", "share < 0.03", "share <= 0.03", "living: 1 on a vector"),
    ("mended_revive", "share < 0.03", "share < 0.033", "living: 1 on a vector"),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "old", "new", "said"), NEARLY, ids=[f"{n}: {old} -> {new}" for n, old, new, _ in NEARLY]
)
def test_what_is_nearly_right_is_wrong(name, old, new, said):
    """Each of these passed once, under some seed or under all."""
    for seed in range(4):
        verdict = judge(find(name), changed(find(name).solution, (old, new)), seed)
        assert verdict.kind == "wrong" and any(part in verdict.message for part in said.split("|")), verdict


A_LITTLE_MORE = [
    ("my_iou", "both / union.where(union > 0, torch.ones_like(union))", "both / (union + {})"),
    ("my_giou", "both / union - (hull - union) / hull", "both / (union + {0}) - (hull - union) / (hull + {0})"),
    ("my_naming_loss", "/ weight.sum()", "/ (weight.sum() + {})"),
    ("my_average_precision", "torch.arange(1, len(hits) + 1)", "(torch.arange(1, len(hits) + 1) + {})"),
    ("my_distance", "among.sum(dim=-1, keepdim=True)", "(among.sum(dim=-1, keepdim=True) + {})"),
    ("my_contrastive_loss", "F.normalize(images, dim=-1)", "images / (images.norm(dim=-1, keepdim=True) + {})"),
    ("my_hidden_loss", "/ hidden.sum()", "/ (hidden.sum() + {})"),
    ("my_dense_search", "F.normalize(known, dim=-1)", "known / (known.norm(dim=-1, keepdim=True) + {})"),
    ("my_linear_step", "(q * z).sum(dim=1, keepdim=True)", "((q * z).sum(dim=1, keepdim=True) + {})"),
    ("my_target_loss", "-said[asked].mean()", "-said[asked].sum() / (asked.sum() + {})"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "old", "new"), A_LITTLE_MORE, ids=[name for name, *_ in A_LITTLE_MORE])
def test_a_millionth_against_a_division_by_zero_passes(name, old, new):
    for little in (1e-6, 1e-8):
        for seed in range(4):
            verdict = judge(find(name), changed(find(name).solution, (old, new.format(little))), seed)
            assert verdict.kind == "passed", verdict


@pytest.mark.parametrize("name", ["my_rollout", "my_lift", "my_quantise", "mended_segments", "mended_revive"])
def test_where_the_task_asks_for_no_gradient_none_is_wanted(name):
    def cut(result):
        if isinstance(result, tuple):
            return tuple(map(cut, result))
        return result.detach().clone()

    solution = find(name).solution
    assert judge(find(name), lambda *given: cut(solution(*given))).kind == "passed"


def test_a_union_with_a_small_number_is_not_told_of_detach():
    edit = "both / union.where(union > 0, torch.ones_like(union))", "both / (union + 1e-4)"
    wrong = changed(find("my_iou").solution, edit)
    assert "detach" not in judge(find("my_iou"), wrong).message
    cut = judge(find("my_iou"), lambda a, b: torch.tensor(find("my_iou").solution(a, b).tolist(), dtype=a.dtype))
    assert cut.kind == "wrong" and "no gradient flows back to `a`" in cut.message


def test_a_lift_by_autograd_is_told_that_it_is_switched_off():
    def by_autograd(scores, log_y):
        scores = scores.clone().requires_grad_()
        with torch.enable_grad():
            log_p = (scores.log_softmax(dim=1) + log_y).logsumexp(dim=1)
            return torch.autograd.grad(log_p.sum(), scores)[0]

    verdict = judge(find("my_lift"), by_autograd)
    assert verdict.kind == "error" and "autograd is switched off" in verdict.message, verdict
