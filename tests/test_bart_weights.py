"""weights/bart_weights.py: every weight has its name here; what is no BART, or computes something else, is refused."""

import pytest
from test_bart import hugging_faces
from torch import nn

from course_lib.text_to_text.bart import Bart, BartConfig
from course_lib.weights.bart_weights import (
    ALIKE,
    BART_NAMES,
    BART_OFFSET,
    BART_SIZES,
    BIAS,
    TABLE,
    from_bart,
)


def test_every_weight_has_a_name_here():
    """from_bart, BART_NAMES, BART_SIZES: those of our own model; two rows of places are left out."""
    theirs = hugging_faces(2)
    sizes, weights = from_bart(theirs)
    assert weights.keys() == Bart(BartConfig(**sizes)).state_dict().keys()
    assert {ours for ours, _ in BART_SIZES} < sizes.keys()
    places = theirs.model.encoder.embed_positions.weight
    assert len(places) - len(weights["source.positions.places.weight"]) == BART_OFFSET == 2
    assert weights["source.tokens.weight"].equal(theirs.state_dict()[TABLE])
    assert weights["target.bias"].equal(theirs.state_dict()[BIAS][0])
    assert not [name for name in weights for ours, other in BART_NAMES if ours and other != ours and other in name]


def test_weights_are_copied():
    theirs = hugging_faces(2)
    ours = Bart.from_hf(theirs)
    before = {name: part.clone() for name, part in ours.state_dict().items()}
    for part in (*theirs.parameters(), theirs.final_logits_bias):
        nn.init.zeros_(part)
    assert all(part.equal(before[name]) for name, part in ours.state_dict().items())


def test_what_ours_does_not_compute_is_refused():
    import transformers

    with pytest.raises(ValueError, match="nothing like scale_embedding"):
        from_bart(hugging_faces(scale_embedding=True))
    untied = hugging_faces()
    untied.lm_head.weight = nn.Parameter(untied.lm_head.weight + 1)
    for theirs in (hugging_faces(tie_word_embeddings=False), untied):
        with pytest.raises(ValueError, match="nothing like several tables of tokens"):
            from_bart(theirs)
    theirs = hugging_faces()
    theirs.config.activation_function = "mish"
    with pytest.raises(ValueError, match="nothing like the activation 'mish'"):
        from_bart(theirs)
    for part in ALIKE:
        theirs = hugging_faces()
        setattr(theirs.config, f"decoder_{part}", 7)
        with pytest.raises(ValueError, match=f"nothing like {part} of the encoder's and another of the decoder's"):
            from_bart(theirs)
    for other in (nn.Linear(2, 2), transformers.BartModel(hugging_faces().config)):
        with pytest.raises(TypeError, match="copies a BartForConditionalGeneration"):
            from_bart(other)
