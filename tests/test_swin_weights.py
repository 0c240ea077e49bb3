"""weights/swin_weights.py: every weight of Hugging Face's Swin has one place in ours; what ours lacks is refused."""

import pytest
import torch
from test_swin import hugging_faces

from course_lib.vision.swin import Swin, SwinConfig
from course_lib.weights.swin_weights import from_swin


@pytest.mark.parametrize("bias", [True, False])
def test_every_weight_has_its_place(bias):
    """from_swin: names and shapes are those of a Swin, nothing is left over, and all are copies."""
    theirs = hugging_faces(qkv_bias=bias)
    sizes, weights = from_swin(theirs.config.to_dict(), theirs.state_dict())
    ours = Swin(SwinConfig(**sizes))
    assert {name: part.shape for name, part in ours.named_parameters()} == {
        name: part.shape for name, part in weights.items()
    }
    lent = {part.data_ptr() for part in theirs.parameters()}
    assert not lent & {part.data_ptr() for part in weights.values()}
    assert bias or not weights["stages.1.0.attention.w_k.bias"].any()
    assert sizes["depths"] == (2, 2) and sizes["side"] == 2 and sizes["n_classes"] == 5 and sizes["patch_size"] == 1


def test_a_table_is_read_from_its_end():
    theirs = hugging_faces()
    table = theirs.swin.encoder.layers[0].blocks[1].attention.relative_position_bias.relative_position_bias_table
    with torch.no_grad():
        table.copy_(torch.arange(9.0)[:, None])
    _, weights = from_swin(theirs.config.to_dict(), theirs.state_dict())
    assert weights["stages.0.1.attention.position_bias.table"][:, 0].tolist() == [8, 7, 6, 5, 4, 3, 2, 1, 0]


@pytest.mark.parametrize(
    ("strange", "words"),
    [
        ({"use_absolute_embeddings": True}, "places of its own"),
        ({"mlp_ratio": 2.0}, "feed-forward network 2.0 times as wide"),
        ({"patch_size": [1, 2]}, "patches of 1 x 2"),
        ({"hidden_act": "mish"}, "the activation 'mish'"),
        ({"window_size": 8}, "windows of 8 where the last grid is 4 wide.*cannot run either"),
        ({"num_labels": 0}, "with a classifier"),
        ({"window_size": 3}, "Windows of 3 x 3 do not fill a grid of 8 x 8"),
        ({"patch_size": 3, "window_size": 1}, "Patches of 3 and"),
    ],
)
def test_what_ours_does_not_compute_is_refused(strange, words):
    with pytest.raises(ValueError, match=words):
        Swin.from_hf(hugging_faces(**strange))
