"""configured: what a training is asked to be, refused in words before anything is built."""

import pytest

from course_lib.scale import endings
from course_lib.scale.__main__ import main, parsed
from course_lib.scale.config import SIZES, Config, configured, in_words, keep, kept, snapshots_in
from course_lib.scale.run import check_share


@pytest.mark.parametrize(("model", "size"), [(model, size) for model in SIZES for size in SIZES[model]])
def test_every_size_is_whole(model, size):
    config = configured(model, size)
    assert config.pieces >= 1 and config.warmup <= config.steps
    assert size in in_words(config) and str(config.lr) in in_words(config)


def test_a_batch_that_is_asked_for_alone_is_read_in_pieces_that_fit():
    assert configured("gpt", batch=6).micro == 2
    assert configured("gpt", batch=6, micro=3).pieces == 2
    assert configured("gpt", steps=20).warmup == 2
    assert (configured("vit", data="fashion").image, configured("vit", data="fashion").patch) == (28, 4)


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"model": "rnn"}, "There is no model 'rnn' to train: gpt, bert, vit."),
        ({"size": "huge"}, "There is no gpt of size 'huge': tiny,"),
        ({"batch": 3, "micro": 2}, "A batch of 3 rows is not made of pieces of 2"),
        ({"steps": -1}, "--steps must be a whole number, 0 or more; got -1."),
        ({"save_every": 0}, "--save-every must be a whole number"),
        ({"lr": float("nan")}, "--lr must be a number of 0 or more; got nan."),
        ({"clip": -1.0}, "--clip must be a number"),
        ({"optimiser": "sgd"}, "--optimiser must be one of adamw, muon; got 'sgd'."),
        ({"precision": "fp8"}, "--precision must be one of float32, bf16"),
        ({"tokens": 1}, "--tokens must be a whole number, 2 or more"),
        ({"model": "bert", "tokens": 10}, "needs 20 pieces or more"),
        ({"batch": 1_000_000_000_000}, "--batch must be 1,048,576 or less; got 1,000,000,000,000."),
        ({"model": "vit", "image": 10**12}, "--image must be 16,384 or less"),
        (
            {"model": "vit", "patch": 3},
            "Images of 8 by 8 are not made of patches of 3: ask for --patch 1 or 2 or 4 or 8",
        ),
        ({"model": "vit", "patch": 16}, "Images of 8 by 8 are not made of patches of 16"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(asked, sentence):
    with pytest.raises(ValueError) as told:
        configured(**{"model": "gpt"} | asked)
    assert sentence in str(told.value)


def test_a_run_goes_on_as_it_was_begun_but_may_be_computed_otherwise(tmp_path):
    config = keep(configured("gpt", out=str(tmp_path)))
    assert kept(tmp_path) == config
    keep(configured("gpt", out=str(tmp_path), parallel="fsdp", precision="bf16", compile=True, save_every=7))
    (tmp_path / "log.jsonl").touch()  # it has taken a step
    with pytest.raises(ValueError, match="other settings: lr was 0.002 and is 0.001; seed was 0 and is 3"):
        keep(configured("gpt", out=str(tmp_path), lr=1e-3, seed=3))
    with pytest.raises(ValueError, match="other settings: size was 'tiny' and is 'small'"):
        keep(configured("gpt", "small", out=str(tmp_path)))
    for content in ("{", "[" * 9999):
        (tmp_path / "config.json").write_text(content)
        with pytest.raises(ValueError, match="is no configuration of a run"):
            keep(config)


@pytest.mark.parametrize("left", ["log.jsonl", "step-00000004"])
def test_a_run_whose_configuration_is_gone_is_refused(tmp_path, left):
    """It would go on with other settings, and nobody would know."""
    keep(configured("gpt", out=str(tmp_path)))
    (tmp_path / left).touch() if "." in left else (tmp_path / left).mkdir()
    (tmp_path / "config.json").unlink()
    with pytest.raises(ValueError, match="holds a run, but no config.json that would say which: put the file back, or"):
        keep(configured("gpt", out=str(tmp_path), lr=5e-6))
    assert not (tmp_path / "config.json").exists()


def test_only_exact_names_are_snapshots(tmp_path):
    for name in ("step-00000012", "step-00000004", "step-123456789", "step-00000004.bak", "step-4", "step-notes"):
        (tmp_path / name).mkdir()
    (tmp_path / "step-00000020").touch()
    assert list(snapshots_in(tmp_path)) == [4, 12, 123_456_789]
    assert snapshots_in(tmp_path)[4] == tmp_path / "step-00000004"


def test_pieces_are_shared_out_equally_or_the_command_says_how():
    check_share(configured("gpt"), 4)
    with pytest.raises(ValueError, match="A step of 2 rows has 1 pieces of 2, and 2 processes .* --micro 1 in a new"):
        check_share(configured("gpt", batch=2, micro=2), 2)
    with pytest.raises(
        ValueError, match="and 3 processes cannot take equal shares of them: start 2, or ask for --batch 18"
    ):
        check_share(configured("gpt"), 3)
    with pytest.raises(ValueError, match="--batch 8"):
        check_share(configured("gpt", batch=4), 8)


def test_every_setting_is_an_option_of_the_command():
    given = [
        "bert",
        "--size",
        "tiny",
        "--steps",
        "7",
        "--parallel",
        "fsdp",
        "--compile",
        "--lr",
        "1e-4",
        "--no-recompute",
    ]
    config = parsed(given)
    assert (config.model, config.steps, config.parallel, config.compile) == ("bert", 7, "fsdp", True)
    assert config.lr == 1e-4 and not config.recompute
    with pytest.raises(ValueError, match="unrecognized arguments: --step 7"):
        parsed(["gpt", "--step", "7"])  # no guessing what a short name means


def test_the_command_ends_with_a_sentence_and_a_status(capsys, tmp_path):
    assert main(["gpt", "--size", "huge"]) == 1
    assert capsys.readouterr().err.startswith("Not trained: There is no gpt of size 'huge'")
    assert main(["vit", "--data", "plays", "--out", str(tmp_path)]) == 1
    assert "'plays' has no images: digits, fashion, or hub:name." in capsys.readouterr().err
    (tmp_path / "empty.txt").touch()
    assert main(["gpt", "--data", str(tmp_path / "empty.txt"), "--out", str(tmp_path / "run")]) == 1
    assert "is empty: there is nothing to learn from." in capsys.readouterr().err
    (tmp_path / "many.txt").write_text("".join(map(chr, range(0x4E00, 0x4E00 + 20_000))), encoding="utf-8")
    assert main(["bert", "--data", str(tmp_path / "many.txt"), "--out", str(tmp_path / "run")]) == 1
    said = capsys.readouterr().err
    assert "has 19,800 different characters, too many for a BERT's own tokenizer of 2,000 pieces" in said
    assert "--tokenizer published" in said and "too short" not in said


def test_one_process_of_a_launch_speaks(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(endings.tempfile, "gettempdir", lambda: str(tmp_path))
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("MASTER_PORT", "1")
    endings.say_once("first")
    endings.say_once("second")
    monkeypatch.setenv("MASTER_PORT", "2")
    endings.say_once("another launch")
    assert capsys.readouterr().err == "first\nanother launch\n"
    monkeypatch.setenv("WORLD_SIZE", "1")
    endings.say_once("alone")
    endings.say_once("alone")
    assert capsys.readouterr().err == "alone\nalone\n"


def test_who_is_lost_is_told_from_other_errors():
    assert endings.lost(RuntimeError("[gloo] Connection closed by peer [127.0.0.1]:1234"))
    assert not endings.lost(RuntimeError("mat1 and mat2 shapes cannot be multiplied"))
    assert not endings.lost(ValueError("connection"))


def test_a_configuration_cannot_be_changed_behind_its_checks():
    with pytest.raises(AttributeError):
        configured("gpt").lr = 1.0
    assert isinstance(configured("gpt"), Config)
