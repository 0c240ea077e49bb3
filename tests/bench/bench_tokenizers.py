"""`python tests/bench/bench_tokenizers.py`: our tokenizers beside the package `tokenizers`, on the test plays.

Ours are plain Python, theirs is compiled Rust, on one thread and by its fast way without offsets. Both have the same
vocabulary and must give the same ids, as a tensor. cold: a fresh tokenizer that has seen no word; warm: the same text
once more, for both sides keep the words that they have cut. The ratio is their time over ours: below 1, ours is slower.
"""

import json
import os
from collections.abc import Callable

os.environ["TOKENIZERS_PARALLELISM"] = "false"

import torch  # noqa: E402
from side_by_side import begin, in_turns, store, table  # noqa: E402
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers  # noqa: E402

from course_lib.data import plays  # noqa: E402
from course_lib.text.bpe import BPE  # noqa: E402
from course_lib.text.wordpiece import WordPiece  # noqa: E402

BPE_SIZE, WORDPIECE_SIZE = 256 + 1000, 2000  # the stored GPT's, and enough for WordPiece to cut most words
LEARNT_FROM = 300_000  # characters


def their_bpe(vocab: list[str] | None = None, merges: list | None = None) -> Tokenizer:
    """Their byte-level BPE; without arguments one that is yet to be trained."""
    found = {"vocab": {token: i for i, token in enumerate(vocab)}, "merges": merges} if vocab else {}
    tokenizer = Tokenizer(models.BPE(**found))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return tokenizer


def their_wordpiece(vocab: list[str]) -> Tokenizer:
    pieces = {piece: i for i, piece in enumerate(vocab)}
    tokenizer = Tokenizer(models.WordPiece(pieces, unk_token="[UNK]", max_input_chars_per_word=100))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return tokenizer


def train_theirs(text: str) -> Tokenizer:
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    settings = {"vocab_size": BPE_SIZE, "min_frequency": 2, "show_progress": False}
    tokenizer = their_bpe()
    tokenizer.train_from_iterator([text], trainers.BpeTrainer(initial_alphabet=alphabet, **settings))
    return tokenizer


def ids(tokenizer, text: str) -> torch.Tensor:
    """What a tokenizer of either side makes of a text."""
    if isinstance(tokenizer, Tokenizer):
        return torch.tensor(tokenizer.encode_batch_fast([text])[0].ids)
    return tokenizer.encode(text)


def fresh_and_again(make: Callable, text: str) -> dict[str, Callable]:
    """Two calls, in this order: the text is read by a tokenizer just made, then by the same once more.

    A tokenizer is made beforehand, so that its making is not timed.
    """
    waiting, used = [make() for _ in range(64)], []

    def cold():
        used[:] = [waiting.pop()]
        ids(used[0], text)

    return {"cold": cold, "warm": lambda: ids(used[0], text)}


def compare(name: str, make_ours: Callable, make_theirs: Callable, text: str, device: torch.device) -> list[dict]:
    assert torch.equal(ids(make_ours(), text), ids(make_theirs(), text)), "Both sides must cut alike."
    ours, theirs = fresh_and_again(make_ours, text), fresh_and_again(make_theirs, text)
    calls = {("theirs", key): call for key, call in theirs.items()} | {
        ("ours", key): call for key, call in ours.items()
    }
    took = in_turns(calls, device, budget=8.0, least=5)
    return [row(f"{name}, {key}", len(text), took["theirs", key], took["ours", key]) for key in ("cold", "warm")]


def row(job: str, characters: int, theirs: float, ours: float) -> dict:
    speeds = {"their characters/s": characters / theirs, "our characters/s": characters / ours}
    return {"job": job, "characters": characters} | speeds | {"theirs / ours": theirs / ours}


def main() -> None:
    device, text = begin(), plays.text("test")
    beginning = text[:LEARNT_FROM]
    bpe, pieces = BPE.train(beginning, BPE_SIZE), WordPiece.train(beginning, WORDPIECE_SIZE).vocab
    model = json.loads(train_theirs(beginning).to_str())["model"]
    learnt = sorted(model["vocab"], key=model["vocab"].get), [tuple(pair) for pair in model["merges"]]
    assert learnt == (bpe.vocab, bpe.merges), "Both sides must learn the same merges."
    sides = {"theirs": lambda: train_theirs(beginning), "ours": lambda: BPE.train(beginning, BPE_SIZE)}
    took = in_turns(sides, device, budget=5.0, least=3)
    rows = [row(f"BPE, {BPE_SIZE - 256} merges learnt", len(beginning), took["theirs"], took["ours"])]
    rows += compare("BPE", lambda: BPE(*learnt), lambda: their_bpe(*learnt), text, device)
    rows += compare("WordPiece", lambda: WordPiece(pieces), lambda: their_wordpiece(pieces), text, device)
    table("Plain Python beside Rust: their time over ours", rows)
    store("tokenizers", rows, device)


if __name__ == "__main__":
    main()
