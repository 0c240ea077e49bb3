"""Soft targets: a small model learns all probabilities of a large one, not the one correct answer. Lesson 16.

    p_i = softmax(z / tau)_i,   loss = -tau^2 sum_i p_i(teacher) log p_i(student)
    (Hinton et al., 2015, section 2; DistilBERT: Sanh et al., 2019, section 2)

Shapes: N positions that are asked, V tokens.
Batch first, always.
"""

import math

from torch import Tensor

from course_lib.bert.lean_bert import LeanBert, LeanBertConfig
from course_lib.inputs.sequences import widened
from course_lib.inputs.shapes import check_shapes


def softened(logits: Tensor, temperature: float = 1.0) -> Tensor:
    """softmax(z / tau): (..., V) -> (..., V). Above 1 the differences shrink; far above, all are equally likely.

    Hinton et al. (2015), equation 1.
    """
    return (logits / temperature).softmax(dim=-1)


def distillation_loss(student: Tensor, teacher: Tensor, temperature: float = 1.0) -> Tensor:
    """tau^2 KL(p(teacher) || p(student)), nats per position, both softened: logits (N, V) each -> a scalar.

    The divergence, not the cross-entropy: they differ by the teacher's own entropy, which the student cannot change,
    and this one is 0 where both say the same. tau^2: else the gradients shrink by that (Hinton et al., 2015, section
    2). No gradient reaches the teacher. A token that the teacher gives probability 0 (logit -infinity) counts 0, and so
    does a position where it has no other; where the student alone gives 0, the loss is infinite. 0 for no position.
    Raises ValueError for shapes that differ.
    """
    check_shapes("distillation_loss", student=(student, "N V"), teacher=(teacher, "N V"))
    nothing = (teacher == -math.inf).all(dim=-1, keepdim=True)  # (N, 1)
    log_q = (widened(student).masked_fill(nothing, 0) / temperature).log_softmax(dim=-1)  # (N, V)
    log_p = (widened(teacher.detach()).masked_fill(nothing, 0) / temperature).log_softmax(dim=-1)
    p = log_p.exp()
    terms = (p * (log_p - log_q)).masked_fill(p == 0, 0)
    return (temperature**2 * terms.sum() / max(1, len(student))).to(student.dtype)


def kept_layers(teacher: LeanBert, layers: list[int]) -> LeanBert:
    """A copy of the teacher with these of its layers alone, in this order; tables and norms are the teacher's.

    layers: numbers from 0 (nearest to the tables). DistilBERT takes one of each two (Sanh et al., 2019, section 3). The
    copy has the teacher's dtype and device. Raises ValueError for a teacher that shares its blocks.
    """
    _check_layers(teacher)
    config = LeanBertConfig(**{**vars(teacher.config), "n_layers": len(layers), "n_groups": len(layers)})
    student = LeanBert(config).to(teacher.tokens.weight)
    kept = {f"blocks.{new}.": f"blocks.{old}." for new, old in enumerate(layers)}
    weights = {name: part for name, part in teacher.state_dict().items() if not name.startswith("blocks.")}
    for new, old in kept.items():
        weights |= {
            name.replace(old, new, 1): part for name, part in teacher.state_dict().items() if name.startswith(old)
        }
    student.load_state_dict(weights)
    return student.train(teacher.training)


def _check_layers(teacher: LeanBert) -> None:
    if teacher.config.n_groups != teacher.config.n_layers:
        raise ValueError("This teacher uses a block in several layers: no layer can be taken out of it.")
