"""weights/lean_bert_weights.py: published weights under our names; what a file holds beside them; other models."""

import re

import pytest
from test_lean_bert import of_hf
from torch import nn

from course_lib.bert.lean_bert import LeanBert, LeanBertConfig, LeanWords
from course_lib.bert.replaced_words import Discriminator
from course_lib.weights.lean_bert_weights import (
    LEAN_KINDS,
    LEAN_NAMES,
    LEAN_NOT_LEARNT,
    from_lean_bert,
    our_lean_name,
)

HEADS = {
    "AlbertModel": LeanBert,
    "ElectraModel": LeanBert,
    "DistilBertModel": LeanBert,
    "AlbertForMaskedLM": LeanWords,
    "ElectraForMaskedLM": LeanWords,
    "ElectraForPreTraining": Discriminator,
}


@pytest.mark.parametrize("kind", HEADS)
def test_every_weight_has_a_name_here(kind):
    """from_lean_bert, our_lean_name, LEAN_NAMES, LEAN_KINDS: those of our own model, no two the same, all copied."""
    theirs = of_hf(kind, 1)
    sizes, found = from_lean_bert(theirs, (kind,))
    bert = LeanBert(LeanBertConfig(**sizes))
    ours = bert if HEADS[kind] is LeanBert else HEADS[kind](bert)
    assert {name: part.shape for name, part in found.items()} == {n: p.shape for n, p in ours.state_dict().items()}
    learnt = [name for name in theirs.state_dict() if not LEAN_NOT_LEARNT.search(name)]
    assert len({our_lean_name(name) for name in learnt}) == len(learnt) == len(found)
    places = {part.data_ptr() for part in theirs.state_dict().values()}
    assert not places & {part.data_ptr() for part in found.values()}
    assert {*next(sizes for name, sizes in LEAN_KINDS.items() if kind.startswith(name))} <= {*sizes}
    assert sizes["pooler"] is (kind == "AlbertModel")


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("albert.encoder.albert_layer_groups.2.albert_layers.0.ffn.weight", "bert.blocks.2.feed_forward.w_1.weight"),
        ("encoder.albert_layer_groups.0.albert_layers.0.ffn_output.bias", "blocks.0.feed_forward.w_2.bias"),
        ("encoder.albert_layer_groups.0.albert_layers.0.full_layer_layer_norm.weight", "blocks.0.norm_2.gain"),
        ("encoder.albert_layer_groups.0.albert_layers.0.attention.LayerNorm.bias", "blocks.0.norm_1.shift"),
        ("electra.encoder.layer.11.attention.self.query.weight", "bert.blocks.11.attention.w_q.weight"),
        ("electra.encoder.layer.3.attention.output.dense.bias", "bert.blocks.3.attention.w_o.bias"),
        ("electra.encoder.layer.3.output.dense.weight", "bert.blocks.3.feed_forward.w_2.weight"),
        ("electra.embeddings_project.weight", "bert.widen.weight"),
        ("transformer.layer.5.attention.v_lin.weight", "blocks.5.attention.w_v.weight"),
        ("transformer.layer.5.sa_layer_norm.weight", "blocks.5.norm_1.gain"),
        ("transformer.layer.5.output_layer_norm.bias", "blocks.5.norm_2.shift"),
        ("transformer.layer.5.ffn.lin2.weight", "blocks.5.feed_forward.w_2.weight"),
        ("embeddings.LayerNorm.gamma", "norm.gain"),
        ("generator_predictions.LayerNorm.weight", "norm.gain"),
        ("generator_lm_head.bias", "bias"),
        ("predictions.bias", "bias"),
        ("discriminator_predictions.dense_prediction.bias", "readout.bias"),
    ],
)
def test_names_by_example(theirs, ours):
    """our_lean_name: one of each kind of part, of all three models and their heads."""
    assert our_lean_name(theirs) == ours


def test_sizes_by_example():
    """from_lean_bert: ALBERT's groups; an ELECTRA and a DistilBERT have as many as layers, the last no segments."""
    albert, _ = from_lean_bert(of_hf("AlbertModel", num_hidden_layers=6, num_hidden_groups=2), ("AlbertModel",))
    assert (albert["n_layers"], albert["n_groups"]) == (6, 2)
    electra, _ = from_lean_bert(of_hf("ElectraModel", num_hidden_layers=3), ("ElectraModel",))
    assert (electra["n_layers"], electra["n_groups"]) == (3, 3)
    distil, _ = from_lean_bert(of_hf("DistilBertModel", n_layers=2, activation="gelu"), ("DistilBertModel",))
    assert (distil["n_layers"], distil["n_groups"], distil["n_segments"], distil["eps"]) == (2, 2, 0, 1e-12)
    assert distil["d_embedding"] == distil["d_model"] and distil["activation"] == "gelu"


def test_no_pattern_is_left_over():
    """LEAN_NAMES: each renames a weight of one of these models, read from the top; a pooler is called the same here."""
    used = set()
    for kind in HEADS:
        for name in of_hf(kind, 1).state_dict():
            for n, (ours, theirs) in enumerate(LEAN_NAMES):
                changed = re.sub(theirs, ours, name, count=1)
                used |= {n} if changed != name else set()
                name = changed
    assert {ours for n, (ours, _) in enumerate(LEAN_NAMES) if n not in used} <= {"pooler.", "bert.pooler."}


def test_another_class_than_was_wanted_is_refused():
    with pytest.raises(TypeError, match="copies a transformers.AlbertModel; got ElectraModel"):
        from_lean_bert(of_hf("ElectraModel"), ("AlbertModel",))
    with pytest.raises(TypeError, match="AlbertModel or ElectraModel; got Linear"):
        from_lean_bert(nn.Linear(2, 2), ("AlbertModel", "ElectraModel"))
