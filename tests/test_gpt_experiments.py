"""experiments/gpt.py: held-out text comes from every test play; a special token is put in by number, never spelled."""

import torch

from course_lib.data import plays
from course_lib.experiments.gpt import LETTERS, STRETCHES, excerpt, with_specials
from course_lib.text.bpe import BPE


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
