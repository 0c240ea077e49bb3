"""TO BE WRITTEN: what is proved here, in one sentence: equal to a reference, in float64, on shapes drawn at random.

`show_source` sends readers to the test whose docstring begins with a function's name and a colon. A model (an nn.Module
with a forward) also gets an entry in tests/models.py: by that it is compiled, and tried on a device.
"""

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from course_lib.detection.detr import detr


@pytest.mark.parametrize("shape", [(1, 2), (3, 5), (2, 64)])
def test_it_is_the_formula(shape):
    """detr: x - mean(x), as PyTorch's layer norm has it before it divides."""
    x = torch.randn(shape, dtype=torch.float64)
    spread = x.std(dim=1, keepdim=True, correction=0)
    assert_close(detr(x), F.layer_norm(x, shape[1:], eps=0) * spread, atol=1e-10, rtol=0)


def test_another_shape_is_refused_in_words():
    with pytest.raises(ValueError, match=r"detr needs x \(batch, D\); got \(2, 3, 4\)"):
        detr(torch.zeros(2, 3, 4))
