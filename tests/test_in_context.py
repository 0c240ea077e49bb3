"""In-context learning measured: prompts and their controls to the letter, and a reading that equals the plain one."""

import math
import re
from collections import Counter

import pytest
import torch
import torch.nn as nn

from course_lib.language.gpt import GPT, GPTConfig
from course_lib.language.in_context import accuracy, answers, draw, prompt, read, shuffled_pairs, wrong_labels
from course_lib.text.tokenizers import CharTokenizer

PAIRS = [("cat", "cats"), ("mouse", "mice"), ("box", "boxes"), ("fly", "flies"), ("ox", "oxen"), ("day", "days")]
LETTERS = CharTokenizer("abcdefghijklmnopqrstuvwxyz ->\n")


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def small(**changes):
    torch.manual_seed(0)
    sizes = {"max_len": 80, "d_model": 16, "n_heads": 2, "n_layers": 2} | changes
    model = GPT(GPTConfig(vocab_size=len(LETTERS), **sizes)).double()
    for part in model.parameters():
        nn.init.normal_(part, std=0.5)  # else it expects every token alike
    return model.eval()


class Pieces:
    """Words with the space before them, and line ends: "a -> b" is "a", " ->", " b"."""

    def __init__(self, *more):
        self.vocab = ["\n", "\n\n", " ->", *more]

    def encode(self, text):
        for piece in (found := re.findall(r"\n+| ?[^ \n]+", text)):
            if piece not in self.vocab:
                self.vocab.append(piece)
        return [self.vocab.index(piece) for piece in found]

    def decode(self, ids):
        return "".join(self.vocab[i] for i in ids)


class Successor(nn.Module):
    """Expects behind each token the one that `after` names, by id, and of all others nothing better than another."""

    blocks, max_len = (), 1000

    def __init__(self, tokenizer, after, n=100):
        super().__init__()
        self.table, self.calls = nn.Parameter(torch.zeros(n, n)), []
        for token, follows in after.items():
            self.table.data[tokenizer.vocab.index(token), tokenizer.vocab.index(follows)] = 50.0

    def forward(self, ids, mask=None, cache=None):
        self.calls.append((tuple(ids.shape), self.training))
        return self.table[ids]


def test_a_prompt_to_the_letter():
    assert prompt([("cat", "cats"), ("Italy", "Rome")], "house") == "cat -> cats\nItaly -> Rome\nhouse ->"
    assert prompt([], "house") == "house ->"


def test_a_draw_is_repeatable_and_holds_different_pairs_and_in_the_end_all_orders():
    assert draw(PAIRS, 4, seeded(1)) == draw(PAIRS, 4, seeded(1)) and draw(PAIRS, 0) == []
    generator = seeded()
    drawn = [tuple(draw(PAIRS[:3], 2, generator)) for _ in range(600)]
    assert min(Counter(drawn).values()) > 60 and len(set(drawn)) == 6
    with pytest.raises(ValueError, match="6 pairs to choose from; got n=7"):
        draw(PAIRS, 7)


def test_wrong_labels_are_of_the_task_and_never_right():
    """wrong_labels: each word keeps its place and gets another word's answer."""
    generator, seen = seeded(), set()
    for _ in range(100):
        wrong = wrong_labels(PAIRS[:3], PAIRS, generator)
        assert [word for word, _ in wrong] == ["cat", "mouse", "box"]
        assert all(mine != right for (_, mine), (_, right) in zip(wrong, PAIRS, strict=False))
        seen |= set(wrong)
    assert len(seen) == 3 * 5  # every other answer of the task


def test_a_wrong_label_of_a_class_is_each_other_class_as_often():
    kinds = [("oak", "tree"), ("elm", "tree"), ("ash", "tree"), ("ant", "insect"), ("cod", "fish")]
    found = Counter(wrong_labels(kinds[3:4], kinds, seeded(i))[0][1] for i in range(400))
    assert set(found) == {"tree", "fish"} and min(found.values()) > 150


@pytest.mark.parametrize("n", [0, 2, 3, 6])
def test_shuffled_pairs_keep_every_word_and_answer_and_no_pair(n):
    for seed in range(20):
        mixed = shuffled_pairs(PAIRS[:n], seeded(seed))
        assert [word for word, _ in mixed] == [word for word, _ in PAIRS[:n]] and not set(mixed) & set(PAIRS)
        assert sorted(answer for _, answer in mixed) == sorted(answer for _, answer in PAIRS[:n])


def test_equal_answers_are_exchanged_as_far_as_that_goes():
    two = [("oak", "tree"), ("elm", "tree"), ("ant", "insect"), ("bee", "insect")]
    assert [answer for _, answer in shuffled_pairs(two)] == ["insect", "insect", "tree", "tree"]
    for examples in (two[:3], PAIRS[:1]):
        with pytest.raises(ValueError, match="more than half"):
            shuffled_pairs(examples)


@pytest.mark.parametrize("n_examples", [0, 1, 3])
def test_bits_are_those_of_each_text_read_alone_without_a_cache(n_examples):
    model, asked = small(), PAIRS[3:]
    prompts = [prompt(PAIRS[:n_examples], word) for word, _ in asked]
    _, bits = read(model, LETTERS, prompts, [answer for _, answer in asked])
    for text, (_, answer), mine in zip(prompts, asked, bits, strict=True):
        ids = LETTERS.encode(f"{text} {answer}\n")
        log_p = model(ids[None])[0].log_softmax(-1)
        plain = -sum(log_p[t - 1, ids[t]] for t in range(len(text), len(ids))) / math.log(2)
        torch.testing.assert_close(mine, plain, rtol=0, atol=1e-10)


def test_one_prompt_and_equal_prompts_are_read_like_any_other():
    model, text = small(), prompt(PAIRS[:2], "day")
    one, three = read(model, LETTERS, [text], ["days"]), read(model, LETTERS, [text] * 3, ["days", "x", "days"])
    torch.testing.assert_close(three.bits[[0, 2]], one.bits.expand(2), rtol=0, atol=1e-10)
    assert one.right.shape == one.bits.shape == (1,) and one.right.dtype == torch.bool


def test_bits_of_a_model_that_knows_nothing():
    tokenizer = Pieces()
    model = Successor(tokenizer, {}, n=64)
    _, bits = read(model, tokenizer, ["a ->", "b ->"], ["c", "d e"])
    torch.testing.assert_close(bits, torch.tensor([2 * 6.0, 3 * 6.0]))  # 64 tokens; the line's end is one more


def test_what_is_right_is_what_greedy_writing_gives():
    tokenizer = Pieces(" yes", " no", " maybe")
    model = Successor(tokenizer, {" ->": " yes", " yes": "\n", " no": "\n"})
    prompts, wanted = ["a ->", "b b b ->", "c ->"], ["yes", "no", "yes maybe"]
    assert answers(model, tokenizer, prompts) == ["yes", "yes", "yes"]
    right, bits = read(model, tokenizer, prompts, wanted)
    assert right.tolist() == [True, False, False] and bits[0] < 1e-6 and bits[1:].min() > 50
    assert accuracy(model, tokenizer, [("d", "no")], list(zip("abc", wanted, strict=True))) == pytest.approx(1 / 3)


def test_any_token_that_begins_with_a_lines_end_ends_the_line():
    tokenizer = Pieces(" yes")
    model = Successor(tokenizer, {" ->": " yes", " yes": "\n\n"})
    assert read(model, tokenizer, ["a ->"], ["yes"]).right.tolist() == [True]
    assert answers(model, tokenizer, ["a ->"], n_tokens=2) == ["yes"]


def test_an_answer_without_end_is_cut_and_counts_as_wrong():
    tokenizer = Pieces(" yes")
    model = Successor(tokenizer, {" ->": " yes", " yes": " yes"})
    assert answers(model, tokenizer, ["a ->"], n_tokens=3) == ["yes yes yes"]
    assert read(model, tokenizer, ["a ->"], ["yes yes yes"]).right.tolist() == [False]


def test_the_examples_are_read_once_and_the_model_is_left_in_its_mode():
    tokenizer = Pieces(" yes")
    model = Successor(tokenizer, {}).train()
    read(model, tokenizer, [prompt([("x", "yes")] * 5, word) for word in "abcd"], ["yes"] * 4)
    # five lines of four tokens once; then a word, an arrow, the answer and the line's end
    assert model.calls == [((1, 20), False), ((4, 4), False)] and model.training
    assert not small(dropout=0.5).train().eval().training


def test_dropout_is_off_while_a_model_is_read():
    model, question = small(dropout=0.5).train(), ([prompt(PAIRS[:1], "day")], ["days"])
    torch.testing.assert_close(read(model, LETTERS, *question).bits, read(model.eval(), LETTERS, *question).bits)


def test_an_empty_prompt_is_refused_in_words():
    with pytest.raises(ValueError, match="the prompt is empty"):
        read(small(), LETTERS, [""], ["b"])


@pytest.mark.parametrize("joined", ["> c", "c\n"])
def test_a_tokenizer_that_joins_what_is_counted_apart_is_refused(joined):
    class Joins:
        def encode(self, text):
            return list(text.replace(joined, "§").encode("latin-1"))

        def decode(self, ids):
            return bytes(ids).decode("latin-1").replace("§", joined)

    with pytest.raises(ValueError, match="this tokenizer joins them"):
        read(Successor(Pieces(), {}), Joins(), ["a ->"], ["c"])
