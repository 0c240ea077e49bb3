"""weights/t5_weights.py: every weight has its name here; what is no T5, or computes something else, is refused."""

import pytest
from test_t5 import KINDS, hugging_faces
from torch import nn

from course_lib.text_to_text.t5 import T5, T5Config
from course_lib.weights.t5_weights import T5_NAMES, T5_SIZES, from_t5


@pytest.mark.parametrize("kind", KINDS)
def test_every_weight_has_a_name_here(kind):
    """from_t5, T5_NAMES, T5_SIZES: those of our own model; a table of distances for each block, all alike."""
    theirs = hugging_faces(kind, 2, num_layers=3, num_decoder_layers=2)
    sizes, weights = from_t5(theirs)
    assert weights.keys() == T5(T5Config(**sizes)).state_dict().keys()
    assert {ours for ours, _ in T5_SIZES} < sizes.keys() and sizes["tied"] == (kind in ("first", "tied and gated"))
    tables = [weights[f"encoder.blocks.{n}.attention.position_bias.bias.weight"] for n in range(3)]
    assert all(table.equal(tables[0]) for table in tables) and tables[0] is not tables[1]
    assert all(theirs_name not in name for name in weights for _, theirs_name in T5_NAMES if len(theirs_name) > 8)


def test_weights_are_copied():
    theirs = hugging_faces("1.1", 2)
    ours = T5.from_hf(theirs)
    before = {name: part.clone() for name, part in ours.state_dict().items()}
    for part in theirs.parameters():
        nn.init.zeros_(part)
    assert all(part.equal(before[name]) for name, part in ours.state_dict().items())


def test_the_mode_is_theirs():
    theirs = hugging_faces()
    assert not T5.from_hf(theirs).training and T5.from_hf(theirs.train()).training


def test_something_else_is_refused():
    import transformers

    for other in (nn.Linear(2, 2), transformers.T5EncoderModel(hugging_faces().config)):
        with pytest.raises(TypeError, match="copies a transformers T5ForConditionalGeneration"):
            from_t5(other)
    theirs = hugging_faces()
    theirs.lm_head.weight = nn.Parameter(theirs.lm_head.weight + 1)
    with pytest.raises(ValueError, match="one table of tokens, and lm_head.weight is another"):
        from_t5(theirs)
    with pytest.raises(ValueError, match="is_encoder_decoder=False"):
        from_t5(hugging_faces(is_encoder_decoder=False))
    theirs = hugging_faces()
    theirs.config.dense_act_fn = "mish"
    with pytest.raises(ValueError, match="knows the activations gelu_new, .*got 'mish'"):
        from_t5(theirs)
