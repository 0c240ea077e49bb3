"""The interface strings: read and cut rightly, split without leaks, the same everywhere, clear when one is missing."""

import io
import re
import struct
import subprocess
import sys

import pytest

from course_lib.data import SPLITS, Pair, interface, interface_source
from course_lib.data.interface import Row
from course_lib.data.interface_source import bare_words, clean, find_locale, tokenize

EVERYTHING = [row for split in SPLITS for row in interface.rows(split)]
MARK = re.compile(r"%\d|\{\w*\}")
HEADER = "Content-Type: text/plain; charset=UTF-8\nPlural-Forms: nplurals=2; plural=(n != 1);\n"


def bare(text):
    """A text in small letters without placeholders, digits and punctuation, one space between words."""
    return " ".join(re.findall(r"[^\W\d_]+", MARK.sub(" ", text.lower())))


def compiled(messages):
    """A catalog (.mo) of strings and translations, as msgfmt writes it."""
    entries = sorted({"": HEADER, **messages}.items())
    start, tables, texts = 28 + 16 * len(entries), [], b""
    for column in (0, 1):
        for entry in entries:
            text = entry[column].encode()
            tables.append(struct.pack("<2I", len(text), start + len(texts)))
            texts += text + b"\0"
    head = struct.pack("<7I", 0x950412DE, 0, len(entries), 28, 28 + 8 * len(entries), 0, 0)
    return head + b"".join(tables) + texts


@pytest.fixture
def pack(tmp_path, monkeypatch):
    """Writes a language pack that Python finds, from messages or from bytes."""

    def write(locale, content):
        folder = tmp_path / f"jupyterlab_language_pack_{locale}"
        catalogs = folder / "locale" / locale / "LC_MESSAGES"
        catalogs.mkdir(parents=True)
        (folder / "__init__.py").write_text("raise RuntimeError('a pack is read, not run')")
        if content is not None:
            data = compiled(content) if isinstance(content, dict) else content
            (catalogs / "jupyterlab.mo").write_bytes(data)

    monkeypatch.syspath_prepend(tmp_path)
    interface._splits.cache_clear()
    yield write
    interface._splits.cache_clear()


# Reading


def test_counts_and_checksum_are_pinned():
    assert [len(interface.rows(split)) for split in SPLITS] == [2_459, 268, 279]
    assert interface.checksum() == "21fa8f8d7b20ef11479a40db63e43e118924c4ca05c852625922e56e1de37930"


@pytest.mark.parametrize("source, target", [
    ("Open from Path…", "Ouvrir à partir du chemin…"),
    ("%1 cells hidden", "%1 cellules masquées"),  # a plural
    ("Kernel status: %1", "Statut du noyau : %1"),
    ("Fully connected & initialized (%2 virtual document)",
     "Entièrement connecté et initialisé (%2 document virtuel)"),
    ("ripgrep command was not found. You can install it using e.g. the conda package manager.",  # had links
     "La commande ripgrep n'a pas été trouvée. Vous pouvez l'installer en utilisant par exemple le gestionnaire "
     "de paquets conda."),
])  # fmt: skip
def test_known_strings_are_there(source, target):
    assert [row.target for row in EVERYTHING if row.source == source] == [target]


def test_rows_are_clean_translated_and_there_once():
    for row in EVERYTHING:
        for text in (row.source, row.target):
            assert text == " ".join(text.split()) and bare(text), row
            assert not re.search(r"</|[`{}’\u200b-\u200f]|\.\.\.|&\w", text.replace("{}", "")), row
        assert bare(row.source) != bare(row.target), row
        assert sorted(MARK.findall(row.source)) == sorted(MARK.findall(row.target)), row
    assert len({tuple(row.source_tokens) for row in EVERYTHING}) == len(EVERYTHING)


def test_tokens_lose_nothing_but_spaces_and_keep_placeholders_whole():
    for row in EVERYTHING:
        for text, tokens in ((row.source, row.source_tokens), (row.target, row.target_tokens)):
            assert "".join(tokens) == text.replace(" ", ""), row
            assert [t for t in tokens if MARK.search(t)] == MARK.findall(text), row


def test_the_commonest_translation_is_kept_and_the_first_of_equals(pack):
    runs = {"menu\x04Run": "Laufen", "a\x04Run": "Start", "b\x04Run": "Start"}
    pack("de_DE", runs | {"Edit": "Ändern", "view\x04Edit": "Bearbeiten"})
    rows = {row.source: row.target for split in SPLITS for row in interface.rows(split, "de")}
    assert rows == {"Run": "Start", "Edit": "Ändern"}


def test_what_is_no_translation_is_left_out(pack):
    kept = {"Open file %1": "Datei %1 öffnen", "&Save...": "&Sichern...", "cell\0cells": "Zelle\0Zellen"}
    left_out = {
        "Close": "Close", "Quit": "", "%1 / %2": "%1 – %2", "JSON!": "json", "Delete %1": "Löschen",
        "Row %1": "Zeile %2",
        'Example:\n{\n  "disabled": true\n}': 'Beispiel:\n{\n  "disabled": true\n}',
    }  # fmt: skip
    pack("de_DE", kept | left_out)
    rows = {(row.source, row.target) for split in SPLITS for row in interface.rows(split, "de")}
    assert rows == {("Open file %1", "Datei %1 öffnen"), ("Save…", "Sichern…"), ("cell", "Zelle"), ("cells", "Zellen")}


# Cleaning and cutting


@pytest.mark.parametrize("raw, cleaned", [
    ("  Save\u00a0As...\n ", "Save As…"),
    ("&File", "File"),
    ("Save &amp; Quit, R&D, A & B", "Save & Quit, R&D, A & B"),
    ("ファイル(&F)", "ファイル"),
    ('Use <a href="%1" target="_blank">this</a> or <B>that</B>', "Use this or that"),
    ("a < b and c > d, `<name>`", "a < b and c > d, <name>"),
    ("100%% of `null`", "100% of null"),
    ("l’e\u0301cran\u200b", "l'écran"),
])  # fmt: skip
def test_clean_by_eye(raw, cleaned):
    assert clean(raw) == cleaned == clean(cleaned)


@pytest.mark.parametrize("language, text, tokens", [
    ("fr", "L'onglet %1 n'est pas vide.", "L' onglet %1 n' est pas vide ."),
    ("fr", "Qu'est-ce ? Jusqu'à l'URL, aujourd'hui !", "Qu' est-ce ? Jusqu' à l' URL , aujourd'hui !"),
    ("fr", "d'%1 l'{name} '%2'", "d' %1 l' {name} ' %2 '"),
    ("en", "Don't close Jupyter's 'side-by-side' view…", "Don't close Jupyter's ' side-by-side ' view …"),
    ("en", "%1/%2 cells, 50% of {0} at %s, %(n)d", "%1 / %2 cells , 50 % of {0} at %s , %(n)d"),
    ("en", "config.py, e.g. a_b (.gitignore) in 4.1.", "config.py , e.g. a_b ( .gitignore ) in 4.1 ."),
    ("en", "See https://a.org/b_c?d=1.", "See https://a.org/b_c?d=1 ."),
    ("ja", "%1個のJupyterLabファイル。", "%1 個 の JupyterLab フ ァ イ ル 。"),
    ("ar", "افتح الملفّ %1؟", "افتح الملفّ %1 ؟"),
    ("it", "Nell'area dell'app", "Nell' area dell' app"),
    ("de", "", ""),
])  # fmt: skip
def test_tokenize_by_eye(language, text, tokens):
    assert tokenize(text, language) == tokens.split()


@pytest.mark.parametrize("nonsense", [None, 3, ["a"]])
def test_tokenize_refuses_what_is_no_text(nonsense):
    with pytest.raises(TypeError, match="takes a text"):
        tokenize(nonsense)


# Splitting


@pytest.mark.slow
@pytest.mark.parametrize("side", ["source", "target"])
def test_no_near_duplicate_is_on_two_sides(side):
    seen = {split: {bare(getattr(row, side)) for row in interface.rows(split)} for split in SPLITS}
    assert not seen["test"] & (seen["train"] | seen["validation"])
    assert not seen["validation"] & seen["train"]


def test_no_plural_and_no_run_of_six_words_is_on_two_sides():
    singular, runs = {}, {}
    for split in SPLITS:
        words = [bare(row.source).split() for row in interface.rows(split)]
        singular[split] = {" ".join(word.rstrip("s") for word in part) for part in words}
        runs[split] = {tuple(part[i : i + 6]) for part in words for i in range(len(part) - 5)}
    for seen in (singular, runs):
        assert not seen["test"] & (seen["train"] | seen["validation"])
        assert not seen["validation"] & seen["train"]


def test_strings_that_belong_together_are_one_family_whatever_their_order():
    texts = [
        ("Delete %1 file?", "Supprimer %1 fichier ?"),
        ("delete files", "effacer des fichiers"),  # the same letters, but for case and a plural
        ("Erase a file", "Supprimer 2 fichier"),  # the same translation
        ("Open", "Ouvrir"),
        ("one two three four five six seven", "un"),
        ("zero, two three Four five six (seven)", "deux"),  # six words in a row
        ("one two three four five and", "trois"),  # five are not enough
    ]
    found = [Row(s, t, tokenize(s), tokenize(t, "fr")) for s, t in texts]
    names = interface._families(found)
    assert len({*names[:3]}) == 1 and len({*names[4:6]}) == 1
    assert len({names[0], names[3], names[4], names[6]}) == 4
    assert interface._families(found[::-1])[::-1] == names


def test_bare_words_by_eye():
    assert bare_words("Delete %1 files?") == bare_words("delete 2 FILES…") == ["delete", "files"]
    assert bare_words("%1 {} 12…") == []


# Loading


def test_pairs_are_the_tokens_without_alignment():
    found = interface.pairs("test")
    assert found == [Pair(row.source_tokens, row.target_tokens, []) for row in interface.rows("test")]


def test_what_a_caller_does_to_the_rows_stays_with_the_caller():
    interface.pairs("test")[0].source.clear()
    interface.rows("test").clear()
    assert interface.rows("test")[0].source_tokens and interface.pairs("test")[0].source


@pytest.mark.slow
def test_pairs_need_no_heavy_import():
    heavy = {"datasets", "torch", "numpy", "jupyterlab_language_pack_fr_FR"}
    code = "import sys; from course_lib.data import interface; interface.pairs('train'); "
    code += f"print({heavy} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


# Other languages


@pytest.mark.parametrize("name", ["zh", "zh-CN", "zh_cn", "ZH_CN"])
def test_a_language_has_several_names(name):
    assert find_locale(name) == "zh_CN"
    assert find_locale("zh-TW") == "zh_TW"


@pytest.mark.parametrize("name", ["", "f", "english", "en", "fr_CA", None])
def test_an_unknown_language_is_refused(name):
    with pytest.raises(ValueError, match="language must be one of ar_SA, .*, or its first two letters; got "):
        interface.pairs("test", name)


def test_a_missing_pack_says_what_to_install(monkeypatch):
    interface._splits.cache_clear()
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install jupyterlab-language-pack-de-DE==4\.5\.post3$"):
        interface.load("de")
    with pytest.raises(ModuleNotFoundError, match=r"pip install jupyterlab_language_pack_fr_FR==4\.5\.post3$"):
        interface.load()


@pytest.mark.parametrize("content", [
    b"", b"not a catalog", compiled({"a": "b"})[:-9], compiled({"a": "b"})[:40], None,
    struct.pack("<7I", 0x950412DE, 0, 10**6, 28, 28, 0, 0),
])  # fmt: skip
def test_a_damaged_pack_says_what_to_do(pack, content):
    pack("de_DE", content)
    with pytest.raises(RuntimeError, match=r"pip install jupyterlab-language-pack-de-DE==.* --force-reinstall"):
        interface.pairs("test", "de")


def test_french_files_that_are_not_ours_are_refused(monkeypatch):
    interface._splits.cache_clear()
    monkeypatch.setattr(interface_source, "CHECKSUM", "0" * 64)
    with pytest.raises(RuntimeError, match="pip install --force-reinstall"):
        interface.pairs("test")


def test_gettext_reads_the_catalogs_of_these_tests():
    import gettext

    assert gettext.GNUTranslations(io.BytesIO(compiled({"a": "ä"}))).gettext("a") == "ä"
