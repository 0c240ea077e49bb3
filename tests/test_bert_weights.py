"""weights/bert_weights.py: published weights under our names; what is no BERT, or another, is refused."""

import pytest
import torch
from test_bert import drawn_config, hugging_faces
from torch import nn

from course_lib.bert.bert import Bert
from course_lib.weights.bert_weights import BERT_NAMES, BERT_SIZES, from_bert, our_name


def theirs():
    model = hugging_faces(**drawn_config(1))
    return model.config.to_dict(), model.state_dict()


def test_every_weight_has_a_name_here():
    """our_name, from_bert, BERT_NAMES, BERT_SIZES: those of our own model, none twice, and the old names of norms."""
    config, weights = theirs()
    sizes, found = from_bert(config, weights)
    assert found.keys() == Bert.from_weights(config, weights).state_dict().keys()
    assert len({our_name(name) for name in weights}) == len(weights)
    assert our_name("bert.encoder.layer.3.attention.output.LayerNorm.gamma") == "bert.blocks.3.around.0.norm.gain"
    assert our_name("encoder.layer.0.attention.output.dense.bias") == "blocks.0.attention.w_o.bias"
    assert our_name("cls.predictions.bias") == "bias" and our_name("qa_outputs.weight") == "readout.weight"
    assert {ours for ours, _ in BERT_SIZES} < sizes.keys() and sizes["pooler"] is True
    assert all(
        ours.count(".") == other.count(".") or ours.endswith(".") or ours == "bias" for ours, other in BERT_NAMES
    )


def test_what_a_file_holds_beside_weights_is_left_out():
    config, weights = theirs()
    more = {"embeddings.position_ids": torch.arange(7)[None], "cls.predictions.decoder.weight": torch.ones(2)}
    assert from_bert(config, weights | more)[1].keys() == from_bert(config, weights)[1].keys()


@pytest.mark.parametrize(
    "changed, words",
    [
        ({"position_embedding_type": "relative_key"}, "nothing like positions of the kind 'relative_key'"),
        ({"is_decoder": True}, "nothing like is_decoder"),
        ({"tie_word_embeddings": False}, "a read-out of its own"),
        ({"hidden_act": "mish"}, "knows the activations gelu_new, .*got 'mish'"),
        ({"model_type": "roberta"}, "this configuration is that of a roberta"),
        ({"num_hidden_layers": 9}, "not those of a Bert of these sizes: blocks"),
        ({"vocab_size": 3}, "not those of a Bert of these sizes: tokens.weight"),
    ],
)
def test_what_ours_does_not_compute_is_refused(changed, words):
    config, weights = theirs()
    with pytest.raises(ValueError, match=words):
        Bert.from_weights(config | changed, weights)


def test_weights_of_something_else_are_refused():
    config, weights = theirs()
    for name in list(weights)[:3]:
        with pytest.raises(ValueError, match="not those of a Bert"):
            Bert.from_weights(config, {key: part for key, part in weights.items() if key != name})
    with pytest.raises(ValueError, match="not those of a Bert"):
        Bert.from_weights(config, nn.Linear(2, 2).state_dict())
