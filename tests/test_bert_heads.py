"""bert/bert_heads.py: every head's logits and gradients are Hugging Face's; padding; layer mixing; bad input."""

import pytest
import torch
from parity import exact_or_not
from test_bert import a_bert, drawn_config, drawn_text, hugging_faces, near
from torch.testing import assert_close

from course_lib.bert.bert import parameter_count
from course_lib.bert.bert_heads import Classifier, LayerMix, MaskedWords, SpanFinder, Tagger

SMALL = {Classifier: (4,), Tagger: (3,), SpanFinder: (), MaskedWords: ()}


def copied(kind, head, dtype, seed=0, **more):
    """Hugging Face's model and ours with its weights, of sizes drawn at random."""
    config = drawn_config(seed, **more)
    theirs = hugging_faces(kind, seed, dtype, **config)
    ours = head.from_hf(theirs)
    assert not ours.training and all(weight.dtype == dtype for weight in ours.parameters())
    learnt = {id(part): part for part in theirs.parameters()}.values()
    assert sum(p.numel() for p in ours.parameters()) == sum(p.numel() for p in learnt)
    return config, theirs, ours


def alike(ours, theirs, found, expected, dtype):
    """The same logits, and from them the same gradients in the table of tokens and at the last layer."""
    for mine, other in zip(found, expected, strict=True):
        near(mine, other, dtype)
    for logits in (found, expected):
        sum((part.log_softmax(dim=-1)[..., 0]).sum() for part in logits).backward()
    last = theirs.bert.encoder.layer[-1].output.dense.weight
    near(ours.bert.tokens.weight.grad, theirs.bert.embeddings.word_embeddings.weight.grad, dtype)
    near(ours.bert.blocks[-1].feed_forward.w_2.weight.grad, last.grad, dtype)


@exact_or_not
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("head", [Classifier, Tagger], ids=lambda head: head.__name__)
def test_classes_and_tags(head, seed, dtype):
    """Classifier.forward, Tagger.forward, Head.from_hf, Head.states: beside theirs, one sentence or two, padded."""
    config, theirs, ours = copied(head.theirs, head, dtype, seed, num_labels=seed + 2)
    ids, segments, mask = drawn_text(config)
    found, expected = ours(ids, segments, mask), theirs(ids, mask.long(), segments).logits
    assert found.shape == ((4,) if head is Classifier else ids.shape) + (seed + 2,)
    alike(ours, theirs, [found], [expected], dtype)


@exact_or_not
def test_a_span(dtype):
    """SpanFinder.forward: beside BertForQuestionAnswering; padding cannot be an answer."""
    config, theirs, ours = copied("BertForQuestionAnswering", SpanFinder, dtype, max_position_embeddings=7)
    ids, segments, mask = drawn_text(config)
    expected = theirs(ids, mask.long(), segments)
    found = ours(ids, segments, mask)
    assert found.shape == (4, 2, 7) and (found.transpose(1, 2)[~mask] == -torch.inf).all()
    near(found[:, 0][mask], expected.start_logits[mask], dtype)
    near(found[:, 1][mask], expected.end_logits[mask], dtype)
    alike(ours, theirs, ours(ids, segments).unbind(dim=1), theirs(ids, None, segments)[:2], dtype)


@exact_or_not
@pytest.mark.parametrize("seed", range(3))
def test_masked_words(seed, dtype):
    """MaskedWords.forward, MaskedWords.from_hf: beside BertForMaskedLM, everywhere and at the places asked."""
    config, theirs, ours = copied("BertForMaskedLM", MaskedWords, dtype, seed)
    assert parameter_count(ours.bert.config, masked_words=True) == sum(p.numel() for p in ours.parameters())
    ids, segments, mask = drawn_text(config)
    found = ours(ids, segments, mask)
    places = torch.tensor([0, ids.numel() - 1, 1])
    near(ours(ids, segments, mask, places), found.flatten(0, 1)[places], dtype)
    alike(ours, theirs, [found], [theirs(ids, mask.long(), segments).logits], dtype)


@exact_or_not
def test_masked_words_and_pairs(dtype):
    """MaskedWords: with pairs=True, beside BertForPreTraining."""
    config, theirs, ours = copied("BertForPreTraining", MaskedWords, dtype)
    ids, segments, mask = drawn_text(config)
    expected = theirs(ids, mask.long(), segments)
    found = ours(ids, segments, mask)
    alike(ours, theirs, found, [expected.prediction_logits, expected.seq_relationship_logits], dtype)


def test_the_read_out_is_the_table_of_tokens():
    m = MaskedWords(a_bert()).double()
    assert m.readout is None and sum(p.shape == (11, 12) for p in m.parameters()) == 1
    with torch.no_grad():
        m.bert.tokens.weight[5] = 0
    assert (m(torch.zeros(1, 3).long())[..., 5] == m.bias[5]).all()


@pytest.mark.parametrize("head", SMALL, ids=lambda head: head.__name__)
def test_padding_changes_nothing(head):
    torch.manual_seed(0)
    m, ids = head(a_bert(), *SMALL[head]).double().eval(), torch.randint(11, (3, 7))
    mask = torch.arange(7) < torch.tensor([7, 4, 1])[:, None]
    found = []
    for _ in range(2):
        ids = torch.where(mask, ids, torch.randint(11, ids.shape))
        out = m(ids, None, mask)
        found.append(out.transpose(1, 2)[mask] if head is SpanFinder else out[mask] if out.ndim == 3 else out)
    assert_close(*found, atol=1e-10, rtol=0)


def test_a_head_begins_small_and_keeps_its_dropout():
    torch.manual_seed(0)
    head = Classifier(a_bert(dropout=0.3, d_model=120), 500)
    assert head.dropout.p == 0.3 and Classifier(a_bert(), 2, 0.5).dropout.p == 0.5
    assert abs(head.readout.weight.std() / 0.02 - 1) < 0.05 and (head.readout.bias == 0).all()
    theirs = hugging_faces("BertForTokenClassification", **drawn_config(0, classifier_dropout=0.2)).train()
    ours = Tagger.from_hf(theirs)
    assert ours.training and ours.dropout.p == 0.2 and ours.bert.dropout.p == 0.1 and ours.bert.pooler is None


def test_layers_are_mixed_by_the_formula():
    """LayerMix.forward: gamma sum softmax(s) h; at first the mean; one large score picks its layer."""
    layers = a_bert().layers(torch.randint(11, (2, 5)))
    mix = LayerMix(3).double()
    assert_close(mix(layers), sum(layers) / 3, atol=1e-12, rtol=0)
    with torch.no_grad():
        mix.scores[1], mix.gamma[()] = 100, 2
    assert_close(mix(layers), 2 * layers[1], atol=1e-12, rtol=0)
    mix(layers).sum().backward()
    assert mix.gamma.grad is not None and mix.scores.grad.shape == (3,)


def pairs(m):
    return torch.zeros(2, 4).long(), torch.tensor([[0, 0, 1, 1], [0, 0, 0, 0]])


@pytest.mark.parametrize(
    "wrong, error, words",
    [
        (lambda m: Classifier(m, 2, sentences=1)(*pairs(m)), ValueError, "built for one sentence, and a text here has"),
        (lambda m: Classifier(m, 2, sentences=2)(*pairs(m)), ValueError, "Classifier was built for pairs: hand over"),
        (
            lambda m: MaskedWords.from_hf(
                hugging_faces("BertForMaskedLM", **drawn_config(0, tie_word_embeddings=False))
            ),
            ValueError,
            "read-out of its own",
        ),
        (
            lambda m: SpanFinder.from_hf(hugging_faces("BertForQuestionAnswering", **drawn_config(0, num_labels=3))),
            ValueError,
            "not those of a Bert of these sizes: readout",
        ),
    ],
)
def test_bad_input_is_refused_in_words(wrong, error, words):
    with pytest.raises(error, match=words):
        wrong(a_bert())


def test_sentences_that_were_asked_for_are_let_through():
    ids, segments = pairs(None)
    m = a_bert()
    assert Classifier(m, 2, sentences=1).double()(ids).shape == (2, 2)
    assert Classifier(m, 2, sentences=2).double()(ids[:1], segments[:1]).shape == (1, 2)
