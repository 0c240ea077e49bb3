"""bert/bert_labels.py: the loss on any labels, tags at first pieces, the best span; by hand, and bad input."""

import pytest
import torch
import torch.nn.functional as F
from test_bert import a_bert
from torch.testing import assert_close

from course_lib.bert.bert_heads import Classifier, SpanFinder, Tagger
from course_lib.bert.bert_labels import IGNORED, best_span, first_pieces, label_loss
from course_lib.text.wordpiece import SPECIALS, WordPiece


def fixed(logits):
    return lambda *read: logits


@pytest.mark.parametrize("head, shape", [(Classifier, ()), (Tagger, (5,)), (SpanFinder, (2,))])
def test_one_loss_for_every_head(head, shape):
    """label_loss: the mean over what is asked, beside PyTorch's; it can be learned from."""
    torch.manual_seed(0)
    m = head(a_bert(), *([3] if head in (Classifier, Tagger) else [])).double()
    ids = torch.randint(11, (4, 5))
    labels = torch.randint(2, (4, *shape))
    loss = label_loss(m, (ids, None, None, labels))
    logits = m(ids)
    assert_close(loss, F.cross_entropy(logits.flatten(0, -2), labels.flatten()), atol=1e-12, rtol=0)
    loss.backward()
    assert all(p.grad is not None for n, p in m.named_parameters() if "pooler" not in n)


def test_places_that_are_not_asked_count_for_nothing():
    logits, labels = torch.randn(2, 3, 4), torch.tensor([[IGNORED, 1, IGNORED], [2, IGNORED, IGNORED]])
    expected = -(logits[0, 1].log_softmax(0)[1] + logits[1, 0].log_softmax(0)[2]) / 2
    assert_close(label_loss(fixed(logits), (labels,)), expected)
    assert label_loss(fixed(logits), (torch.full((2, 3), IGNORED),)) == 0


def test_a_tag_stands_at_the_first_piece_of_its_word():
    """first_pieces: words of several pieces, a word without one, padding."""
    t = WordPiece([*SPECIALS, "a", "##b", "'"])
    words = t.batch([["ab", "a'a", "", "a"], ["abb"]]).words
    labels = first_pieces(words, [[7, 8, 9, 6], [5]])
    I = IGNORED  # noqa: E741
    assert labels.tolist() == [[I, 7, I, 8, I, I, 6, I], [I, 5, I, I, I, I, I, I]]
    pair = t.batch([(["a"], ["a", "ab"])]).words
    assert pair.tolist() == [[-1, 0, -1, 0, 1, 1, -1]]


def test_the_best_span_is_the_best_of_all_pairs():
    """best_span: beside trying every pair; where an answer may stand, and how long it may be."""
    torch.manual_seed(0)
    for T, longest in ((1, 1), (6, 30), (9, 3)):
        logits, allowed = torch.randn(40, 2, T), torch.rand(40, T) < 0.6
        allowed[:, 0] = True
        for where in (None, allowed):
            found = best_span(logits, where, longest)
            for row, (i, j) in zip(range(40), found.tolist(), strict=True):
                ok = where[row] if where is not None else torch.ones(T).bool()
                pairs = [(a, b) for a in range(T) for b in range(a, min(T, a + longest)) if ok[a] and ok[b]]
                assert (i, j) == max(pairs, key=lambda p: logits[row, 0, p[0]] + logits[row, 1, p[1]])
    assert best_span(torch.full((1, 2, 3), -torch.inf)).tolist() == [[0, 0]]


def test_labels_of_other_shapes_are_refused_in_words():
    with pytest.raises(ValueError, match="one label for each of .2,. rows of logits; got .2, 3."):
        label_loss(fixed(torch.zeros(2, 3)), (torch.zeros(2, 3).long(),))
    with pytest.raises(ValueError, match="Text 0 has 2 words or more and 1 labels"):
        first_pieces(torch.tensor([[-1, 0, 1]]), [[4]])
