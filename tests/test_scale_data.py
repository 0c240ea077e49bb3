"""Tokens, Windows: files of token ids read where they lie, in an order that seed and step alone decide."""

import json
from collections import Counter

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from course_lib.data.checksums import LIST
from course_lib.scale import corpus
from course_lib.scale.config import configured
from course_lib.scale.journal import Journal, read
from course_lib.scale.rows import Order, Windows, draw
from course_lib.scale.tasks import TASKS
from course_lib.scale.tokens import Tokens, Writer, is_whole
from course_lib.text.tokenizers import CharTokenizer
from course_lib.text.wordpiece import WordPiece


def silent(*_):
    pass


def text_of(folder, *documents, shard=10, vocab_size=1000):
    writer = Writer(folder, vocab_size, {"source": "test"}, shard)
    for ids in documents:
        writer.add("train", ids)
    writer.close()
    return Tokens(folder, "train")


def test_any_stretch_reads_as_in_one_row_over_the_borders_of_shards(tmp_path):
    tokens = text_of(tmp_path, range(7), range(7, 11), range(11, 30), range(30, 33))
    assert len(tokens.maps) == 3 and len(tokens) == 33
    for start in range(33):
        for n in range(34 - start):
            assert_close(tokens.read(start, n), np.arange(start, start + n))
    for start, n in ((-1, 2), (30, 4), (34, 0)):
        with pytest.raises(ValueError, match="were asked for, of 33"):
            tokens.read(start, n)


@pytest.mark.parametrize(("vocab_size", "dtype"), [(2**16, "<u2"), (2**16 + 1, "<u4")])
def test_the_largest_id_fits(tmp_path, vocab_size, dtype):
    tokens = text_of(tmp_path, [0, vocab_size - 1], vocab_size=vocab_size)
    assert tokens.index["dtype"] == dtype and tokens.read(0, 2).tolist() == [0, vocab_size - 1]


def test_damaged_shards_are_named(tmp_path):
    text_of(tmp_path, range(20), range(5))
    last = tmp_path / "train-00001.bin"
    whole = last.read_bytes()
    last.write_bytes(whole[:-3])
    with pytest.raises(ValueError, match="train-00001.bin is damaged: it should hold 5 tokens and holds 3"):
        Tokens(tmp_path, "train")
    last.unlink()
    with pytest.raises(ValueError, match="train-00001.bin is missing"):
        Tokens(tmp_path, "train")
    with pytest.raises(ValueError, match="has no validation part: its parts are train"):
        Tokens(tmp_path, "validation")
    (tmp_path / "index.json").write_text("{}")
    with pytest.raises(ValueError, match="is no folder of tokens"):
        Tokens(tmp_path, "train")


def test_a_shard_of_the_right_size_that_holds_other_tokens_is_told(tmp_path):
    text_of(tmp_path, range(20), range(5))
    last = tmp_path / "train-00001.bin"
    last.write_bytes(np.array([0, 1, 2, 3, 5], "<u2").tobytes())
    with pytest.raises(ValueError, match="train-00001.bin is damaged: its SHA-256 .* Delete the folder"):
        Tokens(tmp_path, "train")
    (tmp_path / LIST).unlink()  # as a folder has none that was made before there were lists
    assert Tokens(tmp_path, "train").read(20, 5).tolist() == [0, 1, 2, 3, 5]


@pytest.mark.parametrize("model", ["gpt", "bert", "vit"])
def test_a_flipped_bit_in_any_file_of_the_data_is_told_before_the_first_step(tmp_path, monkeypatch, model):
    (tmp_path / "text.txt").write_text("To be, or not to be, that is the question.\n" * 200)
    monkeypatch.setattr(corpus, "OWN", {"gpt": CharTokenizer, "bert": lambda text: WordPiece.train(text, 60)})
    data = {} if model == "vit" else {"data": str(tmp_path / "text.txt")}
    config = configured(model, out=str(tmp_path / "run"), **data)
    place = corpus.prepare(config, silent)
    files = sorted(path for path in place.iterdir() if path.name != LIST)
    assert len(files) == (5 if model == "vit" else 4)
    corpus.prepare(config, lambda _: pytest.fail("they were made again"))
    for path in files:
        whole = path.read_bytes()
        middle = len(whole) // 2
        path.write_bytes(whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :])
        with pytest.raises(ValueError, match=f"({path.name}|data)[^/]* is damaged.*elete the folder"):
            corpus.prepare(config, silent)
        path.write_bytes(whole)
    corpus.prepare(config, lambda _: pytest.fail("they were made again"))


def test_a_shard_of_no_token_is_told(tmp_path):
    text_of(tmp_path / "some", range(20))
    index = json.loads((tmp_path / "some" / "index.json").read_text())
    index["splits"]["train"].append({"file": "train-00001.bin", "tokens": 0})
    (tmp_path / "some" / "index.json").write_text(json.dumps(index))
    (tmp_path / "some" / "train-00001.bin").touch()
    with pytest.raises(ValueError, match="train-00001.bin holds no token: delete the folder"):
        Tokens(tmp_path / "some", "train")
    with pytest.raises(ValueError, match="has no train part: its parts are none"):
        text_of(tmp_path / "none", [])


def test_a_writer_goes_on_behind_the_last_whole_shard(tmp_path):
    def documents(first):
        return [(n, list(range(7 * n, 7 * n + 7))) for n in range(first, 9)]

    writer = Writer(tmp_path, 100, {"source": "test"}, shard=20)
    for n, ids in documents(0)[:5]:
        writer.add("train", ids, {"next": n + 1})
    again = Writer(tmp_path, 100, {"source": "test"}, shard=20)  # the first was killed: two documents waited
    assert again.state == {"next": 3} and not is_whole(tmp_path)
    for n, ids in documents(again.state["next"]):
        again.add("train", ids, {"next": n + 1})
    again.close()
    assert is_whole(tmp_path)
    assert_close(Tokens(tmp_path, "train").read(0, 63), np.arange(63))
    with pytest.raises(ValueError, match="holds another corpus: about was"):
        Writer(tmp_path, 100, {"source": "other"})


def test_splits_are_written_together_so_that_none_runs_ahead(tmp_path):
    def rows(first):
        return [(n, "validation" if n % 3 == 2 else "train", list(range(5 * n, 5 * n + 5))) for n in range(first, 12)]

    def write(writer, rows):
        for n, split, ids in rows:
            writer.add(split, ids, {"next": n + 1})

    write(Writer(tmp_path / "killed", 100, {}, shard=20), rows(0)[:6])
    again = Writer(tmp_path / "killed", 100, {}, shard=20)
    assert again.state == {"next": 4} and (again.written("train"), again.written("validation")) == (15, 5)
    write(again, rows(4))
    again.close()
    write(whole := Writer(tmp_path / "whole", 100, {}, shard=20), rows(0))
    whole.close()
    for split, n in (("train", 40), ("validation", 20)):
        ours, theirs = (Tokens(tmp_path / name, split) for name in ("killed", "whole"))
        assert_close(ours.read(0, n), theirs.read(0, n))
        assert len(ours) == len(theirs) == n


def test_where_nothing_tells_how_to_go_on_a_writer_begins_anew(tmp_path):
    for _ in range(2):  # the first is killed behind its first shard, and its source has no state
        writer = Writer(tmp_path, 100, {}, shard=10)
        for ids in (range(10), range(10, 15)):
            writer.add("train", ids)
    writer.close()
    assert Tokens(tmp_path, "train").read(0, 15).tolist() == [*range(15)] and len(Tokens(tmp_path, "train")) == 15
    once_more = Writer(tmp_path, 100, {}, shard=10)  # whole, and asked for again
    assert once_more.written("train") == 0


@pytest.mark.parametrize("n", [1, 2, 7, 100])
def test_every_row_comes_once_a_round_in_an_order_of_its_own(n):
    order, rounds = Order(n, seed=3), 3
    seen = [place for first in range(0, rounds * n, 5) for place in order.rows(first, min(5, rounds * n - first))]
    assert sorted(seen) == [(k, row) for k in range(rounds) for row in range(n)]
    assert Order(n, seed=3).rows(2, 4) == order.rows(2, 4)
    if n == 100:
        assert [row for _, row in order.rows(0, n)] != [row for _, row in order.rows(n, n)] != list(range(n))
        assert order.rows(0, n) != Order(n, seed=4).rows(0, n)


def test_windows_ask_for_nearly_every_token_once_a_round(tmp_path):
    tokens = text_of(tmp_path, range(103))
    windows = Windows(tokens, length=10, seed=0)
    for k in range(4):
        rows = windows.rows(k * windows.order.n, windows.order.n)
        assert_close(rows[:, 1:], rows[:, :-1] + 1)
        asked = Counter(rows[:, 1:].flatten().tolist())
        assert max(asked.values()) == 1 and len(asked) == 10 * windows.order.n >= 103 - 20
    begins = {windows.rows(k * windows.order.n, windows.order.n).min() for k in range(8)}
    assert len(begins) > 1


@pytest.mark.parametrize("n", [11, 12, 20, 21])
def test_the_shortest_texts_have_a_row(tmp_path, n):
    assert Windows(text_of(tmp_path, range(n)), 10, 0).rows(0, 3).shape == (3, 11)
    with pytest.raises(ValueError, match=f"A row needs {n + 1} tokens, and the text has {n}"):
        Windows(Tokens(tmp_path, "train"), n, 0)


def test_places_draw_apart():
    assert len({draw(0, step, k) for step in range(50) for k in range(50)}) == 2500
    assert draw(0, 1) != draw(1, 0) != draw(1, 1)


@pytest.fixture(scope="module")
def plays_of(tmp_path_factory):
    made = {}

    def of(model):
        if model not in made:
            made[model] = configured(model, out=str(tmp_path_factory.mktemp(model)))
            corpus.prepare(made[model], silent)
        return made[model]

    return of


@pytest.mark.slow
@pytest.mark.parametrize("model", ["gpt", "bert", "vit"])
def test_a_piece_follows_from_its_place_alone(plays_of, model):
    config = plays_of(model)
    one, other = (TASKS[model](config, corpus.folder(config)) for _ in range(2))
    one.piece(4, 1)  # whatever was asked for before
    for draw_it in (lambda task: task.piece(7, 2), lambda task: task.held_out(3)):
        first, again = draw_it(one), draw_it(other)
        parts = zip(first, again, strict=True) if isinstance(first, tuple) else [(first, again)]
        for a, b in parts:
            assert_close(a, b)
    assert str(one.piece(7, 2)) != str(one.piece(7, 3)) != str(one.piece(8, 3))


@pytest.mark.slow
def test_a_bert_looks_as_far_and_is_asked_as_often_as_is_counted(plays_of):
    config = plays_of("bert")
    task = TASKS["bert"](config, corpus.folder(config))
    pieces = [task.piece(step, k) for step in range(100) for k in range(4)]
    lengths = [piece.ids.shape[1] for piece in pieces]
    ordinary = 1 - sum(3 / length for length in lengths) / len(lengths)  # [CLS] and both [SEP] are never asked for
    asked = sum(len(piece.answers) / piece.ids.numel() for piece in pieces) / len(pieces)
    assert {piece.ids.numel() for piece in pieces} == {config.micro * config.tokens}
    assert abs(sum(lengths) / len(lengths) / task.reach - 1) < 0.1
    assert abs(asked / ordinary / task.read_out - 1) < 0.05


@pytest.mark.slow
@pytest.mark.parametrize("model", ["gpt", "bert", "vit"])
def test_the_nats_of_a_task_are_those_of_the_lesson(plays_of, model):
    """Their sums over their answers give the loss that the lesson's own function has."""
    from course_lib.bert.masked_words import masked_loss
    from course_lib.language.next_token import next_token_loss
    from course_lib.vision.images import image_loss

    config = plays_of(model)
    task = TASKS[model](config, corpus.folder(config))
    network, piece = task.model().eval(), task.piece(0, 0)
    answers = torch.tensor(task.answers(piece), dtype=torch.float32)
    theirs = {"gpt": next_token_loss, "bert": masked_loss, "vit": image_loss}[model](network, piece)
    assert_close((task.nats(network, piece) / answers).sum(), theirs)


@pytest.mark.slow
def test_a_data_set_of_the_hub_is_streamed_and_goes_on(tmp_path, monkeypatch):
    """A folder of JSON lines stands for the hub's: the library reads both alike."""
    for k in range(2):
        rows = [json.dumps({"text": f"document {k} {n}, a word or two"}) for n in range(150)]
        (tmp_path / f"part{k}.jsonl").write_text("\n".join(rows))
    source = f"hub:{tmp_path}"
    texts = [(split, text) for split, text, _ in corpus._streamed(source, None)]
    assert len(texts) == 300 and [split for split, _ in texts].count("validation") == 3
    stopped = next(state for _, text, state in corpus._streamed(source, None) if text == texts[170][1])
    assert [(split, text) for split, text, _ in corpus._streamed(source, stopped)] == texts[171:]

    config = configured("gpt", data=source, tokenizer="own", fetch=2000, out=str(tmp_path / "run"))
    monkeypatch.setattr(corpus, "OWN", {"gpt": CharTokenizer})
    place = corpus.prepare(config, silent)
    assert 2000 <= len(Tokens(place, "train")) < 2100
    with pytest.raises(ConnectionError, match="cannot be had .* Without the network: --data plays"):
        next(corpus._streamed("hub:nobody/nothing", None))


def test_what_the_hub_has_and_is_no_text_is_told(tmp_path):
    (tmp_path / "part.jsonl").write_text('{"words": "a"}\n')
    with pytest.raises(ValueError, match="has no column `text`: its columns are words"):
        next(corpus._streamed(f"hub:{tmp_path}", None))


def test_a_log_loses_what_will_happen_again(tmp_path):
    journal = Journal(tmp_path, writes=True)
    journal.write(*({"step": step, "loss": 1.0} for step in range(1, 8)))
    with open(journal.path, "a") as file:
        file.write('{"step": 8, "lo')  # a killed writer
    Journal(tmp_path, writes=False, after=2)
    Journal(tmp_path, writes=True, after=5)
    assert [line["step"] for line in read(tmp_path)] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    "line",
    [
        b'{"step": "four", "loss": 1.0}',
        b'{"step": 4, "loss": "low"}',
        b"\x80\xff\x00",
        b"[4]",
        b'{"loss": 1.0}',
        b"4",
        b"[" * 9999,
    ],
)
def test_a_damaged_log_is_told(tmp_path, line):
    (tmp_path / "log.jsonl").write_bytes(b'{"step": 3, "loss": 1.0}\n' + line + b'\n{"step": 5, "loss": 1.0}\n')
    for look in (read, lambda out: Journal(out, writes=True, after=3)):
        with pytest.raises(ValueError, match=r"log.jsonl is damaged: its line 2 is none of a log. Delete it"):
            look(tmp_path)


LOOKS = (is_whole, lambda folder: Tokens(folder, "train"), lambda folder: Writer(folder, 1000, {}))


@pytest.mark.parametrize(
    ("name", "value"),
    [("whole", None), ("whole", "yes"), ("splits", None), ("splits", [1]), ("splits", {"train": [{"file": "../a"}]}),
     ("splits", {"train": [{"tokens": 3}]}), ("dtype", "<f4"), ("dtype", 3), ("vocab_size", None), ("about", None)],
)  # fmt: skip
def test_a_damaged_index_is_told(tmp_path, name, value):
    text_of(tmp_path, range(20))
    index = json.loads((tmp_path / "index.json").read_text()) | {name: value}
    if value is None:
        del index[name]
    (tmp_path / "index.json").write_text(json.dumps(index))
    for look in LOOKS:
        with pytest.raises(ValueError, match="index.json is damaged: delete the folder, and it is made again"):
            look(tmp_path)


@pytest.mark.parametrize("look", LOOKS)
def test_an_index_of_lists_without_end_is_told(tmp_path, look):
    (tmp_path / "index.json").write_text("[" * 100_000)
    with pytest.raises(ValueError, match="index.json is damaged: delete the folder, and it is made again"):
        look(tmp_path)


@pytest.mark.parametrize(
    "content", [b"{}", b"[]", b"{", b"[" * 9999, b"\x80", b'{"size": "many"}', b'{"size": 3, "vocab": 4}']
)
def test_a_damaged_tokenizer_is_told(tmp_path, content):
    (tmp_path / "tokenizer.json").write_bytes(content)
    for model in ("gpt", "bert")[content.endswith(b"4}") :]:
        with pytest.raises(ValueError, match="tokenizer.json is damaged: delete the folder .*, and it is made again"):
            corpus.tokenizer_of(tmp_path, model)


@pytest.mark.parametrize("name", ["images.json", "images-train.bin", "labels-validation.npy"])
@pytest.mark.parametrize("content", [None, b"{}", b"[" * 9999, b"\x80" * 200])
def test_damaged_images_are_told(tmp_path, name, content):
    config = configured("vit", out=str(tmp_path))
    place = corpus.prepare(config, silent)
    (place / name).unlink() if content is None else (place / name).write_bytes(content)
    with pytest.raises(ValueError, match=f"{name} is damaged: delete the folder .*, and it is made again"):
        TASKS["vit"](config, place)


def test_without_tensorboard_a_run_that_asks_for_it_says_so(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "torch.utils.tensorboard", None)
    with pytest.raises(ModuleNotFoundError, match="pip install tensorboard"):
        Journal(tmp_path, writes=True, board=True)
    assert Journal(tmp_path, writes=False, board=True).board is None
