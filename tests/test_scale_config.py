"""configured: what a training is asked for, refused in words before anything is built."""

from dataclasses import FrozenInstanceError, fields

import pytest

from course_lib.workshop.scale import folder
from course_lib.workshop.scale.__main__ import main, parsed
from course_lib.workshop.scale.config import SIZES, Config, configured
from course_lib.workshop.scale.run import check_share


@pytest.mark.parametrize(("model", "size"), [(model, size) for model in SIZES for size in SIZES[model]])
def test_every_size_is_whole(model, size):
    config = configured(model, size)
    assert config.pieces >= 1 and config.warmup <= config.steps


def test_what_is_asked_for_alone_takes_the_rest_along():
    assert configured("gpt", batch=6).micro == 2
    assert configured("gpt", batch=6, micro=3).pieces == 2
    assert configured("gpt", steps=20).warmup == 2
    assert (configured("vit", data="fashion").image, configured("vit", data="fashion").patch) == (28, 4)
    assert (configured("vit", "86m", data="hub:pictures").image, configured("vit", "86m").image) == (224, 8)


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"model": "rnn"}, "There is no rnn of size 'tiny'. There are gpt (tiny, small, 124m"),
        ({"size": "huge"}, "There is no gpt of size 'huge'."),
        ({"batch": 3, "micro": 2}, "A batch of 3 rows is not made of pieces of 2"),
        ({"steps": -1}, "--steps must be 0 or more; got -1."),
        ({"save_every": 0}, "--save-every must be 1 or more"),
        ({"lr": float("nan")}, "--lr must be 0 or more; got nan."),
        ({"optimiser": "sgd"}, "--optimiser must be one of adamw, muon; got 'sgd'."),
        ({"model": "vit", "patch": 3}, "Patches of 3 pixels do not fill images of 8"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(asked, sentence):
    with pytest.raises(ValueError) as told:
        configured(**{"model": "gpt"} | asked)
    assert sentence in str(told.value)


def test_a_run_continues_as_it_was_begun_but_may_be_computed_otherwise(tmp_path):
    folder.keep(configured("gpt", out=str(tmp_path), lr=1.0))
    folder.keep(configured("gpt", out=str(tmp_path)))  # no step was taken: anything may change
    (tmp_path / "log.jsonl").touch()
    folder.keep(configured("gpt", out=str(tmp_path), parallel="fsdp", precision="bf16", compile=True, save_every=7))
    with pytest.raises(ValueError, match="other settings: lr was 0.002 and is 0.001; seed was 0 and is 3"):
        folder.keep(configured("gpt", out=str(tmp_path), lr=1e-3, seed=3))
    with pytest.raises(ValueError, match="other settings: size was 'tiny' and is 'small'"):
        folder.keep(configured("gpt", "small", out=str(tmp_path)))


@pytest.mark.parametrize("left", ["log.jsonl", "step-00000004"])
def test_a_run_whose_settings_are_gone_is_refused(tmp_path, left):
    """It would continue with other settings, and nobody would know."""
    (tmp_path / left).touch() if "." in left else (tmp_path / left).mkdir()
    for content in (None, "{"):
        if content:
            (tmp_path / "config.json").write_text(content)
        with pytest.raises(ValueError, match="its settings cannot be read .*: put config.json back, or name another"):
            folder.keep(configured("gpt", out=str(tmp_path)))


def test_pieces_are_shared_out_equally_or_the_command_says_how():
    check_share(configured("gpt"), 4)
    with pytest.raises(ValueError, match="A step of 16 rows has 4 pieces of 4, and 3 processes .*: start 2, or choose"):
        check_share(configured("gpt"), 3)


def test_every_setting_is_an_option_of_the_command(capsys):
    config = parsed("bert --size tiny --steps 7 --parallel fsdp --compile --lr 1e-4 --no-recompute".split())
    assert (config.model, config.steps, config.parallel, config.compile) == ("bert", 7, "fsdp", True)
    assert config.lr == 1e-4 and not config.recompute
    with pytest.raises(SystemExit):
        parsed(["--help"])
    told = capsys.readouterr().out
    assert all(f"--{one.name.replace('_', '-')}" in told for one in fields(Config) if one.name != "model")
    with pytest.raises(ValueError, match="unrecognized arguments: --step 7"):
        parsed(["gpt", "--step", "7"])  # no guessing what a short name means


def test_the_command_ends_with_a_sentence_and_a_status(capsys, tmp_path):
    assert main(["gpt", "--size", "huge"]) == 1
    assert capsys.readouterr().err.startswith("Stopped: There is no gpt of size 'huge'")
    assert main(["vit", "--data", "plays", "--out", str(tmp_path)]) == 1
    assert "'plays' has no images: digits, fashion, or hub:name." in capsys.readouterr().err
    (tmp_path / "empty.txt").touch()
    (tmp_path / "many.txt").write_text("".join(map(chr, range(0x4E00, 0x4E00 + 20_000))), encoding="utf-8")
    for name in ("empty.txt", "many.txt"):  # 20,000 different characters are too many for a BERT's own tokenizer
        assert main(["bert", "--data", str(tmp_path / name), "--out", str(tmp_path / "run")]) == 1
        said = capsys.readouterr().err
        assert f"No tokenizer can be learned from {tmp_path / name}" in said and "--tokenizer published" in said


def test_the_first_process_of_a_machine_tells_what_all_have_found(capsys, monkeypatch):
    for rank in "10":
        monkeypatch.setenv("LOCAL_RANK", rank)
        assert main(["gpt", "--lr", "fast"]) == 1
    assert capsys.readouterr().err.count("argument --lr: invalid float value: 'fast'") == 1


def test_a_configuration_cannot_be_changed_behind_its_checks():
    with pytest.raises(FrozenInstanceError):
        configured("gpt").lr = 1.0
