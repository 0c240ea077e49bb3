"""Tokens, Windows: files of token ids read where they lie, in an order that seed and step alone decide."""

import json
import sys
from collections import Counter

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from course_lib.data import checksums
from course_lib.text.tokenizers import CharTokenizer
from course_lib.text.wordpiece import WordPiece
from course_lib.workshop.scale import corpus, tokens
from course_lib.workshop.scale.config import configured
from course_lib.workshop.scale.folder import Journal, read_log
from course_lib.workshop.scale.rows import Order, Windows, draw
from course_lib.workshop.scale.tasks import TASKS
from course_lib.workshop.scale.tokens import Tokens


def silent(*_):
    pass


def text_of(folder, *documents, shard=10, vocab_size=1000):
    index = tokens.begin(folder, {}, vocab_size)
    tokens.write(folder, index, (("train", ids, None) for ids in documents), shard=shard)
    return Tokens(folder, "train")


def test_any_stretch_reads_as_in_one_row_over_the_borders_of_shards(tmp_path):
    text = text_of(tmp_path, range(7), range(7, 11), [], range(11, 30), range(30, 33))
    assert len(text.maps) == 3 and len(text) == 33 and len(Tokens(tmp_path, "validation")) == 0
    for start in range(33):
        for n in range(1, 34 - start):
            assert_close(text.read(start, n), np.arange(start, start + n))


@pytest.mark.parametrize(("vocab_size", "dtype"), [(2**16, "<u2"), (2**16 + 1, "<u4")])
def test_the_largest_id_fits(tmp_path, vocab_size, dtype):
    text = text_of(tmp_path, [0, vocab_size - 1], vocab_size=vocab_size)
    assert text.maps[0].dtype == dtype and text.read(0, 2).tolist() == [0, vocab_size - 1]


@pytest.fixture
def small_corpus(tmp_path, monkeypatch):
    """model -> the configuration of a run whose data are made in no time."""
    monkeypatch.setattr(corpus, "OWN", {"gpt": CharTokenizer, "bert": lambda text: WordPiece.train(text, 60)})
    (tmp_path / "text.txt").write_text("To be, or not to be, that is the question.\n" * 200)

    def of(model, **asked):
        data = {} if model == "vit" else {"data": str(tmp_path / "text.txt")}
        return configured(model, out=str(tmp_path / "run"), **data | asked)

    return of


@pytest.mark.parametrize("model", ["gpt", "bert", "vit"])
def test_damage_in_any_file_of_the_data_is_told_before_the_first_step(small_corpus, model):
    config = small_corpus(model)
    place = corpus.prepare(config, silent)
    files = sorted(path for path in place.iterdir() if path.name != checksums.LIST)
    assert len(files) == (5 if model == "vit" else 4)
    for path in files:
        whole = path.read_bytes()
        middle = len(whole) // 2
        for content in (whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :], whole[:-1], None):
            path.unlink() if content is None else path.write_bytes(content)
            with pytest.raises(ValueError, match=f"{path.name} is damaged: delete the folder .*, and it is made again"):
                corpus.prepare(config, silent)
        path.write_bytes(whole)
    corpus.prepare(config, lambda _: pytest.fail("they were made again"))


def test_other_settings_make_other_data(small_corpus):
    corpus.prepare(small_corpus("gpt"), silent)
    said = []
    place = corpus.prepare(small_corpus("gpt", data="plays"), said.append)
    assert len(said) == 1 and len(Tokens(place, "train")) > 100_000


def test_a_killed_writer_is_continued_after_its_last_whole_shards(tmp_path):
    """Of every split at once, so that none runs ahead of the state."""

    def documents(first):
        for n in range(first, 12):
            yield "validation" if n % 3 == 2 else "train", list(range(5 * n, 5 * n + 5)), {"next": n + 1}

    def killed():
        for n, document in enumerate(documents(0)):
            if n == 6:
                raise KeyboardInterrupt
            yield document

    about = {"source": "test"}
    with pytest.raises(KeyboardInterrupt):
        tokens.write(tmp_path, tokens.begin(tmp_path, about, 100), killed(), shard=20)
    assert tokens.begin(tmp_path, {"source": "another"}, 100)["state"] is None
    index = tokens.begin(tmp_path, about, 100)
    assert index["state"] == {"next": 4} and not (tmp_path / checksums.LIST).exists()
    assert {split: [part["tokens"] for part in parts] for split, parts in index["splits"].items()} == {
        "train": [15],
        "validation": [5],
    }
    tokens.write(tmp_path, index, documents(4), shard=20)
    assert checksums.listed(tmp_path) and not checksums.damaged(tmp_path)
    for split, rest in (("train", (0, 1)), ("validation", (2,))):
        expected = [token for n in range(12) if n % 3 in rest for token in range(5 * n, 5 * n + 5)]
        assert Tokens(tmp_path, split).read(0, len(expected)).tolist() == expected
        assert len(Tokens(tmp_path, split)) == len(expected)
    assert tokens.begin(tmp_path, about, 100)["splits"] == {}  # it is whole, and would begin anew


@pytest.mark.parametrize("n", [1, 2, 7, 100])
def test_every_row_comes_once_per_round_in_an_order_of_its_own(n):
    order, rounds = Order(n, seed=3), 3
    seen = [place for first in range(0, rounds * n, 5) for place in order.rows(first, min(5, rounds * n - first))]
    assert sorted(seen) == [(k, row) for k in range(rounds) for row in range(n)]
    assert Order(n, seed=3).rows(2, 4) == order.rows(2, 4)
    if n == 100:
        assert [row for _, row in order.rows(0, n)] != [row for _, row in order.rows(n, n)] != list(range(n))
        assert order.rows(0, n) != Order(n, seed=4).rows(0, n)


def test_windows_ask_for_nearly_every_token_once_per_round(tmp_path):
    windows = Windows(text_of(tmp_path, range(103)), length=10, seed=0)
    for k in range(4):
        rows = windows.rows(k * windows.order.n, windows.order.n)
        assert_close(rows[:, 1:], rows[:, :-1] + 1)
        asked = Counter(rows[:, 1:].flatten().tolist())
        assert max(asked.values()) == 1 and len(asked) == 10 * windows.order.n >= 103 - 20
    assert len({windows.rows(k * windows.order.n, windows.order.n).min() for k in range(8)}) > 1


@pytest.mark.parametrize("n", [11, 12, 20, 21])
def test_the_shortest_texts_have_a_row(tmp_path, n):
    text = text_of(tmp_path, range(n))
    assert Windows(text, 10, 0).rows(0, 3).shape == (3, 11)
    with pytest.raises(ValueError, match=f"A row needs {n + 1} tokens, and the text has {n}"):
        Windows(text, n, 0)


def test_places_draw_apart():
    assert len({draw(0, step, k) for step in range(50) for k in range(50)}) == 2500
    assert draw(0, 1) != draw(1, 0) != draw(1, 1)


@pytest.mark.parametrize("model", ["gpt", "bert", "vit"])
def test_a_piece_follows_from_its_place_alone(small_corpus, model):
    config = small_corpus(model, batch=16, micro=4)
    place = corpus.prepare(config, silent)
    one, other = (TASKS[model](config, place) for _ in range(2))
    one.piece(4, 1)  # whatever was asked for before
    for draw_it in (lambda task: task.piece(7, 2), lambda task: task.held_out(3)):
        first, again = draw_it(one), draw_it(other)
        parts = zip(first, again, strict=True) if isinstance(first, tuple) else [(first, again)]
        for a, b in parts:
            assert a is b is None or torch.equal(a, b)
    assert str(one.piece(7, 2)) != str(one.piece(7, 3)) != str(one.piece(8, 3))


def test_a_bert_reaches_as_far_and_is_asked_as_often_as_is_counted(small_corpus):
    config = small_corpus("bert")
    task = TASKS["bert"](config, corpus.prepare(config, silent))
    pieces = [task.piece(step, k) for step in range(100) for k in range(4)]
    lengths = [piece.ids.shape[1] for piece in pieces]
    ordinary = 1 - sum(3 / length for length in lengths) / len(lengths)  # [CLS] and both [SEP] are never asked for
    asked = sum(len(piece.answers) / piece.ids.numel() for piece in pieces) / len(pieces)
    assert {piece.ids.numel() for piece in pieces} == {config.micro * config.tokens}
    assert abs(sum(lengths) / len(lengths) / task.reach - 1) < 0.1
    assert abs(asked / ordinary / task.read_out - 1) < 0.05


@pytest.mark.slow
def test_a_data_set_of_the_hub_is_streamed_and_continued(tmp_path, monkeypatch):
    """A folder of JSON lines stands for the hub's: the library reads both alike."""
    for k in range(2):
        rows = [json.dumps({"text": f"document {k} {n}, a word or two"}) for n in range(150)]
        (tmp_path / f"part{k}.jsonl").write_text("\n".join(rows))
    source = f"hub:{tmp_path}"
    texts = [(split, text) for split, text, _ in corpus._documents(source)]
    assert len(texts) == 300 and [split for split, _ in texts].count("validation") == 3
    stopped = next(state for _, text, state in corpus._documents(source) if text == texts[170][1])
    assert [(split, text) for split, text, _ in corpus._documents(source, stopped)] == texts[171:]

    config = configured("gpt", data=source, tokenizer="own", fetch=2000, out=str(tmp_path / "run"))
    monkeypatch.setattr(corpus, "OWN", {"gpt": CharTokenizer})
    assert 2000 <= len(Tokens(corpus.prepare(config, silent), "train")) < 2100
    with pytest.raises(ConnectionError, match="cannot be had .* Without the network: --data plays"):
        next(corpus._documents("hub:nobody/nothing"))


def test_a_data_set_without_text_is_told(tmp_path):
    (tmp_path / "part.jsonl").write_text('{"words": "a"}\n')
    with pytest.raises(ValueError, match="has no column `text`: its columns are words"):
        next(corpus._documents(f"hub:{tmp_path}"))


def test_a_log_loses_what_will_happen_again(tmp_path):
    journal = Journal(tmp_path)
    journal.write(*({"step": step, "loss": 1.0} for step in range(1, 8)))
    with open(journal.path, "a") as file:
        file.write('{"step": 8, "lo')  # a killed writer
    Journal(tmp_path, after=5)
    assert [line["step"] for line in read_log(tmp_path)] == [1, 2, 3, 4, 5]
    journal.path.write_text('{"step": 3\n{"step": 5}\n')
    with pytest.raises(ValueError, match=r"log.jsonl is damaged .*: delete it, and the run continues with a new one"):
        Journal(tmp_path, after=3)


def test_without_tensorboard_a_run_that_asks_for_it_says_so(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(ModuleNotFoundError, match="pip install tensorboard"):
        Journal(tmp_path, board=True)
