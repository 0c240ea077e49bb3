"""weights/xlm_weights.py: every weight has its name here; what computes something else is refused."""

from functools import partial

import pytest
import torch
from parity import hf_model
from torch import nn

from course_lib.bert.bert import BertConfig
from course_lib.bert.xlm import XLM
from course_lib.weights.xlm_weights import XLM_LAYERS, XLM_NAMES, XLM_SIZES, from_xlm

SIZES = {"vocab_size": 23, "emb_dim": 12, "n_layers": 2, "n_heads": 3, "n_langs": 3, "max_position_embeddings": 16}


hugging_faces = partial(hf_model, "XLMWithLMHeadModel", **SIZES)


@pytest.mark.parametrize("tell", [True, False])
def test_every_weight_has_a_name_here(tell):
    """from_xlm, XLM_NAMES, XLM_LAYERS, XLM_SIZES: those of our own model, languages told or not."""
    theirs = hugging_faces(use_lang_emb=tell)
    sizes, told, weights = from_xlm(theirs.config.to_dict(), theirs.state_dict())
    assert told == tell and {ours for ours, _ in XLM_SIZES} < sizes.keys()
    assert weights.keys() == XLM(BertConfig(**sizes), told).state_dict().keys()
    assert weights["tokens.weight"].equal(theirs.transformer.embeddings.weight)
    assert weights["bias"].equal(theirs.pred_layer.proj.bias)
    assert any(name.startswith("segments.") for name in weights) == tell
    assert all(any(name.startswith(ours) for name in weights) for ours, _ in XLM_NAMES if ours != "segments.")
    assert all(f"blocks.1.{ours}" in {name.rpartition(".")[0] for name in weights} for ours, _, _ in XLM_LAYERS)


def test_weights_are_copied():
    theirs = hugging_faces()
    ours = XLM.from_hf(theirs)
    before = {name: part.clone() for name, part in ours.state_dict().items()}
    for part in theirs.parameters():
        nn.init.zeros_(part)
    assert all(torch.equal(part, before[name]) for name, part in ours.state_dict().items())


@pytest.mark.parametrize("odd", ["causal", "sinusoidal_embeddings", "asm"])
def test_what_computes_something_else_is_refused(odd):
    config = hugging_faces().config.to_dict() | {odd: True}
    with pytest.raises(ValueError, match=odd):
        from_xlm(config, {})


@pytest.mark.parametrize("said", [True, False])
def test_a_read_out_of_its_own_is_refused(said):
    """Whether its configuration says so or not."""
    theirs = hugging_faces(tie_word_embeddings=not said)
    if not said:
        theirs.pred_layer.proj.weight = nn.Parameter(torch.randn(23, 12))
    with pytest.raises(ValueError, match="nothing like a read-out of its own"):
        XLM.from_hf(theirs)
