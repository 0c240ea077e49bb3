"""Lesson 08's exercises: they agree with the library, and the planted bug misleads."""

import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F

from course_lib.bert.bert import Bert, BertConfig
from course_lib.bert.bert_heads import LayerMix, MaskedWords
from course_lib.bert.masked_words import mask_tokens
from course_lib.lesson.judge import judge
from course_lib.text.wordpiece import SPECIALS, WordPiece
from course_lib.workshop.exercises import all_exercises, all_investigations, all_quizzes, find
from course_lib.workshop.exercises.bert import my_masking, my_pair
from course_lib.workshop.exercises.bert_leak import broken_words, mended_words
from course_lib.workshop.exercises.bert_reading import my_fill, my_mix, my_span

# Wrong ways that are not in the tables ------------------------------------------------------------------------


def hides_one_more(ids, special, mask_id, choice, kind, other):
    return my_masking(ids, special, mask_id, choice - 0.05, kind, other)


def changes_its_texts(ids, special, mask_id, choice, kind, other):
    read, chosen = my_masking(ids, special, mask_id, choice, kind, other)
    return ids.copy_(read), chosen


def cut_short(first, second, cls, sep, padding, length):
    return tuple(part[:-1] for part in my_pair(first, second, cls, sep, padding, length))


def segments_from_the_end(first, second, cls, sep, padding, length):
    ids, segments, mask = my_pair(first, second, cls, sep, padding, length)
    return ids, segments.flip(0), mask


def doubled_bias(states, places, table, w, b, gain, shift, bias):
    return my_fill(states, places, table, w, b, gain, shift, 2 * bias)


def half_as_long(start, end, longest):
    return my_span(start, end, max(1, longest // 2))


def gamma_squared(layers, scores, gamma):
    return gamma * my_mix(layers, scores, gamma)


def asks_the_second_half(model, ids, special, mask_id, choice, kind, other):
    read, chosen = my_masking(ids, special, mask_id, choice, kind, other)
    asked = chosen & (torch.arange(ids.shape[1]) >= ids.shape[1] // 2)
    return F.cross_entropy(model(read)[asked], ids[asked])


@pytest.mark.parametrize(
    ("name", "answer", "said"),
    [
        ("my_masking", hides_one_more, "so `chosen` is False; yours is not."),
        ("my_masking", changes_its_texts, "Your function changes its input `ids` in place"),
        ("my_pair", cut_short, "Return three tensors, ids, segments and mask, each (length,)"),
        ("my_pair", segments_from_the_end, "your segments are wrong at position 2, from 0: 0 is right, yours has 1."),
        ("my_fill", doubled_bias, "With the last bias it goes wrong"),
        ("my_span", half_as_long, "With answers of any length it is wrong already"),
        ("my_mix", gamma_squared, "With gamma = 1 you are right."),
        ("mended_words", asks_the_second_half, "The model reads what it should. The loss is wrong"),
    ],
)
def test_a_wrong_way_that_nobody_listed_is_told_where_to_look(name, answer, said):
    verdict = judge(find(name), answer)
    assert verdict.kind == "wrong" and said in verdict.message, verdict


# The solutions are the library's ------------------------------------------------------------------------------


def test_the_masking_is_the_librarys():
    words = WordPiece([*SPECIALS, *"abcdefgh"])
    special = torch.arange(len(words)) < len(SPECIALS)
    ids = torch.randint(len(words), (6, 40), generator=torch.Generator().manual_seed(0))
    choice, kind, other = torch.rand(3, 6, 40, generator=torch.Generator().manual_seed(1))
    read, chosen = mask_tokens(ids, words, torch.Generator().manual_seed(1))
    drawn = len(SPECIALS) + (other * 8).long()
    own = my_masking(ids, special, words.mask, choice, kind, drawn)
    assert torch.equal(own[0], read) and torch.equal(own[1], chosen)


@pytest.mark.parametrize("text", [("a b", "c d e"), "a b c"])
def test_the_pair_is_the_librarys(text):
    words = WordPiece([*SPECIALS, *"abcdefgh"])
    pair = text if isinstance(text, tuple) else (text, "")
    first, second = (words.encode(part).tolist() for part in pair)
    read = words.batch([text, ("a b c", "d e f g")])
    own = my_pair(first, second, words.cls, words.sep, words.padding, read.ids.shape[1])
    for mine, theirs in zip(own, (read.ids, read.segments, read.mask), strict=True):
        assert torch.equal(mine, theirs[0]) and mine.dtype == theirs.dtype


def test_the_head_and_the_mix_are_the_librarys():
    torch.manual_seed(0)
    model = MaskedWords(Bert(BertConfig(30, 12, 16, 2, 2, 0.0))).double()
    ids, places = torch.randint(30, (3, 12)), torch.tensor([0, 5, 30])
    layers = model.bert.layers(ids)
    own = my_fill(
        layers[-1],
        places,
        model.bert.tokens.weight,
        model.transform.weight.T,
        model.transform.bias,
        *model.norm.parameters(),
        model.bias,
    )
    torch.testing.assert_close(own, model(ids, places=places), rtol=0, atol=1e-12)
    mix = LayerMix(3).double()
    nn.init.normal_(mix.scores)
    torch.testing.assert_close(my_mix(layers, mix.scores, mix.gamma), mix(layers), rtol=0, atol=1e-12)


# The planted bug ----------------------------------------------------------------------------------------------

LETTERS, LENGTH = 11, 8  # 0 padding, 1 [CLS], 2 [SEP], 3 [MASK], then letters
VOCAB = 4 + LETTERS
SPECIAL = torch.arange(VOCAB) < 4


def counted(n, generator):
    """Texts that count on from a letter, [CLS] e f g h i j k a [SEP]: each letter can be told from its neighbours."""
    letters = 4 + (torch.randint(LETTERS, (n, 1), generator=generator) + torch.arange(LENGTH)) % LETTERS
    return torch.cat([torch.full((n, 1), 1), letters, torch.full((n, 1), 2)], dim=1)


class Neighbours(nn.Module):
    """Looks at the place itself and at its neighbours on both sides, then at a read-out."""

    def __init__(self, d=48):
        super().__init__()
        self.tokens, self.look, self.readout = nn.Embedding(VOCAB, d), nn.Linear(3 * d, d), nn.Linear(d, VOCAB)

    def forward(self, ids):
        x = self.tokens(ids)
        return self.readout(F.gelu(self.look(torch.cat([x.roll(1, 1), x, x.roll(-1, 1)], dim=-1))))


def taught(loss, seed):
    """The loss on new texts, and the share of blanks, one in each text, that the model fills rightly."""
    torch.manual_seed(seed)
    model, generator = Neighbours(), torch.Generator().manual_seed(seed)
    optimiser = torch.optim.Adam(model.parameters(), 5e-3)

    def told(n):
        ids = counted(n, generator)
        choice, kind = torch.rand(2, *ids.shape, generator=generator)
        return loss(model, ids, SPECIAL, 3, choice, kind, torch.randint(4, VOCAB, ids.shape, generator=generator))

    for _ in range(400):
        optimiser.zero_grad()
        told(32).backward()
        optimiser.step()
    with torch.no_grad():
        ids = counted(400, generator)
        at = torch.randint(1, LENGTH + 1, (400, 1), generator=generator)
        said = model(ids.scatter(1, at, 3)).argmax(-1).gather(1, at)
        return told(400).item(), (said == ids.gather(1, at)).double().mean().item()


@pytest.mark.slow
def test_the_planted_bug_trains_splendidly_and_fills_no_blank():
    """Of ten seeds: see `mended_words` in the notebook."""
    loss, right = taught(broken_words, 0)
    assert loss < 0.02 and right == 0
    loss, right = taught(mended_words, 0)
    assert loss > 0.1 and right >= 0.95


# What is asked ------------------------------------------------------------------------------------------------


def test_the_lesson_asks_what_its_plan_lists():
    own = [one for one in all_exercises() if one.lesson == "bert"]
    names = {"my_masking", "my_pair", "my_fill", "my_span", "my_mix", "mended_words"}
    assert {one.name for one in own} == names
    asked = {one.key for one in all_quizzes() if one.lesson == "bert"}
    assert asked == {
        "both_ways_next", "one_in_ten_stays", "what_cls_is_for", "asked_at_15", "random_control", "not_in_vocabulary",
    }  # fmt: skip
    assert {one.name for one in all_investigations() if one.lesson == "bert"} == {"who_speaks"}
