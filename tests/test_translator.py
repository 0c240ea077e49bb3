"""The translator: what it hands on is what model and tokenizers give, and typed text is answered kindly."""

import pytest
import torch

from course_lib.data import Pair
from course_lib.text.pairs import PADDING, masked_loss, shift
from course_lib.text.tokenizers import WordTokenizer
from course_lib.translation.seq2seq import Seq2Seq
from course_lib.translation.translator import Translator, translation_loss

PAIRS = [
    Pair(["May", "4"], ["le", "4", "mai"], [(0, 2), (1, 1)]),
    Pair(["June"], ["juin"], [(0, 0)]),
    Pair(["May", "4", ",", "June"], ["mai"], []),
]


def made(attention="additive"):
    reads, writes = (WordTokenizer([pair[side] for pair in PAIRS]) for side in (0, 1))
    torch.manual_seed(0)
    return Translator(Seq2Seq(len(reads), len(writes), 6, 8, attention, "gru"), reads, writes)


def test_attention_of_a_batch_is_that_of_each_pair_alone():
    translator = made()
    together = translator.attention(PAIRS)
    assert [tuple(w.shape) for w in together] == [(3, 2), (1, 1), (1, 4)]
    for pair, weights in zip(PAIRS, together, strict=True):
        torch.testing.assert_close(weights, translator.attention([pair])[0])
        torch.testing.assert_close(weights.sum(1), torch.ones(len(pair.target)))


def test_a_model_without_attention_is_named():
    with pytest.raises(ValueError, match="gives no attention"):
        made(None).attention(PAIRS)


def test_ids_are_those_of_the_two_tokenizers():
    translator = made()
    assert [translator.reads.decode(source) for source, _ in translator.ids(PAIRS)] == [pair.source for pair in PAIRS]
    assert [translator.writes.decode(target) for _, target in translator.ids(PAIRS)] == [pair.target for pair in PAIRS]


def test_translate_answers_each_sentence_within_its_limit():
    found = made().translate(["May 4", "June", ""], max_len=5)
    assert len(found) == 3 and found[2] == [] and all(len(words) <= 5 for words in found)


def test_the_loss_is_the_masked_loss_of_the_batch():
    translator = made()
    source, real = translator.reads.batch([pair.source for pair in PAIRS])
    target, _ = translator.writes.batch([pair.target for pair in PAIRS], start=True, end=True)
    target_in, target_out = shift(target)
    loss = translation_loss(translator.model, (source, real.sum(1), target_in, target_out))
    logits = translator.model(source, real.sum(1), target_in)[0]
    assert (target_out == PADDING).any()
    torch.testing.assert_close(loss, masked_loss(logits, target_out))


@pytest.mark.parametrize(
    ("text", "tokens", "remark"),
    [
        ("", [], "nothing to translate yet. I know dates"),
        ("  \n", [], "nothing to translate yet"),
        ("May 4", ["May", "4"], ""),
        ("may 4", ["May", "4"], ""),
        ("May 5", ["May", "5"], "I do not know 5"),
        ("hello there", [], "none of these words: hello there. I know dates"),
        (",", [], "none of these words"),
        ("May " * 70, [], "70 words and marks; at most 60"),
    ],
)
def test_what_is_typed_is_read_or_answered_kindly(text, tokens, remark):
    found, said = made().typed(text, knows="dates")
    assert found == tokens
    assert remark in said and bool(said) == bool(remark)
