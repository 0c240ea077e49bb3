"""experiments/gpt*.py: held-out text of every test play; special tokens by number; counts and forms as named."""

import pytest
import torch

from course_lib.data import plays
from course_lib.text.bpe import BPE
from course_lib.text.counts import count_bits
from course_lib.workshop.experiments.gpt.controls import FORMS, counted_probs, followers
from course_lib.workshop.experiments.gpt.core import LETTERS, STRETCHES, excerpt, in_template, with_specials


def told(row):
    return f"{row.speaker}.\n{row.text}\n\n" if row.speaker else f"[{row.text}]\n\n"


def test_what_is_asked_comes_from_every_test_play():
    """excerpt: stretches at equal distances, each as it stands in the plays, at least one of each play."""
    asked, rows = excerpt("test"), plays.rows("test")
    length = len(asked) // STRETCHES
    assert len(asked) == LETTERS["test"]
    of = {play: "".join(told(row) for row in rows if row.play == play) for play in plays.TEST_PLAYS}
    assert sum(map(len, of.values())) == len(plays.text("test"))
    read = [asked[at : at + length] for at in range(0, len(asked), length)]
    within = {play: sum(stretch in text for stretch in read) for play, text in of.items()}
    assert min(within.values()) >= 1 and sum(within.values()) >= STRETCHES - len(of)
    assert excerpt("train") == plays.text("train")


def test_special_tokens_are_put_in_by_number():
    """with_specials: the names give the tokens; without it no text spells them."""
    bpe = BPE.train("to be or not to be", 270, specials=["<|open|>", "<|close|>"])
    ids = with_specials(bpe, "<|open|>to be<|close|>")
    assert ids[0] == bpe.specials["<|open|>"] and ids[-1] == bpe.specials["<|close|>"]
    assert torch.equal(ids[1:-1], bpe.encode("to be"))
    assert not {*bpe.specials.values()} & {*bpe.encode("<|open|>to be<|close|>").tolist()}


def test_counts_write_with_the_probabilities_that_count_bits_measures():
    """counted_probs sums to one, and its bits of a text are those that the lesson compares a GPT with."""
    ids = torch.randint(5, (300,), generator=torch.Generator().manual_seed(0))
    known, asked = torch.cat([ids[:200], torch.tensor([5, 6])]), ids[200:]  # nothing asked ends what is known
    counts, wanted = followers(known), count_bits(known, asked, 7, 3)
    for longest, bits in enumerate(wanted, 1):
        p = [counted_probs(counts, asked[:at].tolist(), longest, 7) for at in range(2, len(asked))]
        assert all(abs(float(one.sum()) - 1) < 1e-9 for one in p)
        found = [-float(one[token].log2()) for one, token in zip(p, asked[2:], strict=True)]
        assert abs(sum(found) / len(found) - bits) < 1e-5


@pytest.mark.slow
def test_each_form_leaves_its_part_of_the_template_away():
    """FORMS: nothing but the named parts goes, and the question stays."""
    question, whole = "What is the plural of ox?", in_template("What is the plural of ox?")
    forms = {name: form(question) for name, form in FORMS.items()}
    assert all(question in text for text in forms.values())
    assert whole.endswith(forms["without system turn"]) and "<|im_start|>system" in whole
    assert "system" not in forms["without system turn"] and "<|im_end|>" in forms["without system turn"]
    assert forms["without special tokens"].startswith("system\n") and "<|" not in forms["without special tokens"]
    assert forms["names of the turns"] == f"user\n{question}\nassistant\n"
