"""weights/hf_activations.py: Hugging Face's names lead to functions of ours that compute the same."""

import torch
from torch.testing import assert_close

from course_lib.attention.block import ACTIVATIONS
from course_lib.weights.hf_activations import HF_ACTIVATIONS


def test_every_activation_is_hugging_faces():
    """HF_ACTIVATIONS: each name's function is ours, and every one of ours has a name."""
    from transformers.activations import ACT2FN

    x = torch.linspace(-8, 8, 1001, dtype=torch.float64)
    for theirs, ours in HF_ACTIVATIONS.items():
        assert_close(ACTIVATIONS[ours](x), ACT2FN[theirs](x), atol=1e-12, rtol=0)
    assert set(HF_ACTIVATIONS.values()) == set(ACTIVATIONS)
