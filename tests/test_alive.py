"""Models that answer in a page: what is written for the browser, for which controls, and what is refused."""

import base64
import json
import re

import nbformat
import numpy as np
import pytest
import torch
from bs4 import BeautifulSoup
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from course_lib.show.frames import STANDS
from course_lib.translation.seq2seq import Seq2Seq
from course_lib.workshop.publish import alive
from course_lib.workshop.publish.measured import NOTEBOOKS, ROOT
from course_lib.workshop.recipes import glyphs, images, plays, stored

PLACES = [*alive.LIVE.values(), *alive.SAID.values(), *alive.DRAWN.values()]
MODELS = {one.name: one for cells in PLACES for live in cells.values() for one in (live.model, live.beside) if one}
CELLS = [(name, cell) for name, cells in alive.LIVE.items() for cell in cells]
SAID = [(name, cell) for name, cells in alive.SAID.items() for cell in cells]
# What the page's files have, and what that is called where in the library.
NAMES = {
    "attention/attend": ("attention/attention", "attend"),
    "attention/layerNorm": ("attention/norms", "layer_norm"),
    "attention/multiHead": ("attention/multi_head", "MultiHead"),
    "attention/feedForward": ("attention/block", "FeedForward"),
    "attention/block": ("attention/block", "Block"),
    "attention/GPT": ("language/gpt", "GPT"),
    "attention/patchify": ("vision/patches", "patchify"),
    "attention/rollout": ("vision/rollout", "rollout"),
    "attention/ViT": ("vision/vit", "ViT"),
    "recurrent/rnnStep": ("recurrent/rnn", "rnn_step"),
    "recurrent/CharRNN": ("recurrent/language_model", "CharRNN"),
    "recurrent/gruStep": ("recurrent/lstm", "gru_step"),
    "recurrent/additiveAttention": ("attention/attention", "AdditiveAttention"),
    "recurrent/Seq2Seq": ("translation/seq2seq", "Seq2Seq"),
    "recurrent/translate": ("translation/decode", "translate"),
    "generate/keepTopK": ("language/generate", "keep_top_k"),
    "generate/keepTopP": ("language/generate", "keep_top_p"),
    "generate/nextProbs": ("language/generate", "next_probs"),
    "tokenizers/BPE": ("text/bpe", "BPE"),
    "tokenizers/applyMerges": ("text/bpe", "apply_merges"),
    "tokenizers/CharTokenizer": ("text/tokenizers", "CharTokenizer"),
    "tokenizers/WordTokenizer": ("text/tokenizers", "WordTokenizer"),
}


def told(name):
    """What the script of a model tells, and nothing but it."""
    found = re.fullmatch(rf"alive\.models\.{name} = (\{{.*\}});\n", alive.script(MODELS[name]))
    return json.loads(found[1])


@pytest.mark.parametrize("name", MODELS)
def test_a_model_is_written_whole_in_half_precision_and_small(name):
    assert len(alive.script(MODELS[name]).encode()) < 4_000_000
    written, weights = told(name), stored.load(MODELS[name])[0].state_dict()
    numbers, at = np.frombuffer(base64.b64decode(written["weights"]), dtype="<f2"), 0
    assert [key for key, _ in written["shapes"]] == list(weights)
    for (_, shape), weight in zip(written["shapes"], weights.values(), strict=True):
        assert shape == list(weight.shape)
        part = numbers[at : at + weight.numel()].reshape(shape)
        assert torch.equal(torch.from_numpy(part.copy()), weight.half())
        at += weight.numel()
    assert at == len(numbers) and np.isfinite(numbers).all()


def test_our_own_script_is_small_and_has_the_names_of_the_library():
    files = [*alive.SCRIPTS.glob("*.js"), *(alive.SCRIPTS.parent / "static").glob("*.js")]
    assert sum(file.stat().st_size for file in files) < 60_000
    for theirs, (file, name) in NAMES.items():
        part, _, ours = theirs.partition("/")
        text = (alive.SCRIPTS / f"{part}.js").read_text(encoding="utf-8")
        assert re.search(rf"(const|class) {ours}\b|^    {ours}\(", text, re.MULTILINE), theirs
        assert re.search(rf"^(def|class) {name}\b", (ROOT / "course_lib" / f"{file}.py").read_text(), re.MULTILINE), (
            name
        )


@pytest.mark.parametrize(("name", "cell"), CELLS, ids=[cell for _, cell in CELLS])
def test_the_form_has_the_text_and_the_knobs_of_the_lessons_control(name, cell):
    notebook = nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4)
    (source,) = [one.source for one in notebook.cells if one.id == cell]
    specs = alive.controls(source)
    stills = {one.id: one.outputs for one in notebook.cells if one.cell_type == "code"}[cell]
    assert any(STANDS in output.get("data", {}).get("text/html", "") for output in stills)
    assert alive.set_live(notebook, f"{name}.ipynb") == {alive.LIVE[name][cell].model}
    (output,) = [one.outputs[0] for one in notebook.cells if one.id == cell]
    section = BeautifulSoup(output.data["text/html"], "html.parser").select_one("section.alive[hidden]")
    (text,) = [spec for spec in specs.values() if isinstance(spec[1], str)]
    assert section.textarea.text == text[1]
    knobs = {one["data-knob"]: one for one in section.select("[data-knob]")}
    assert knobs.keys() == {key for key, spec in specs.items() if spec is not text}
    for key, knob in knobs.items():
        chosen = knob.get("value") or knob.select_one("[selected]")["value"]
        assert float(chosen) == specs[key][1]
    labelled = {label["for"] for label in section.select("label[for]")}
    assert {one["id"] for one in section.select("textarea, [data-knob], .from")} == labelled


@pytest.mark.parametrize(("name", "cell"), SAID, ids=[cell for _, cell in SAID])
def test_both_readers_of_words_stand_at_the_control_with_its_word(name, cell):
    notebook = nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4)
    live = alive.SAID[name][cell]
    assert alive.set_live(notebook, f"{name}.ipynb") == {live.model, live.beside}
    (found,) = [one for one in notebook.cells if one.id == cell]
    section = BeautifulSoup(found.outputs[0].data["text/html"], "html.parser").select_one("section.alive[hidden]")
    assert section["data-model"].split() == [live.model.name, live.beside.name]
    assert section.select_one(".word")["value"] == alive.controls(found.source)["word"][1]
    assert {one["id"] for one in section.select("input")} == {one["for"] for one in section.select("label")}


@pytest.mark.parametrize("name", alive.DRAWN)
def test_a_square_to_draw_on_stands_where_it_is_named(name):
    notebook = nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4)
    assert alive.set_live(notebook, f"{name}.ipynb") == {live.model for live in alive.DRAWN[name].values()}
    for cell in alive.DRAWN[name]:
        (output,) = [one.outputs[0] for one in notebook.cells if one.id == cell]
        section = BeautifulSoup(output.data["text/html"], "html.parser").select_one("section.alive[hidden]")
        assert (
            section.select_one("canvas.paper")["aria-label"]
            and section.select_one("label")["for"] == section.input["id"]
        )


def test_only_the_controls_that_are_named_have_a_form():
    still = new_output("display_data", data={"text/html": f"<img>{STANDS}<strong>text</strong>.</p>"})
    source = 'explore(drawn, text=("text", "to be"), n=("tokens", 1, 0, 9, 1))'
    cells = [new_code_cell(source, id=cell, outputs=[still.copy()]) for cell in ("choose-control", "other")]
    for name, models, forms in (("07_gpt.ipynb", {plays.GPT}, 1), ("06_transformer.ipynb", set(), 0)):
        notebook = nbformat.from_dict(json.loads(json.dumps(new_notebook(cells=[new_markdown_cell("# A"), *cells]))))
        assert alive.set_live(notebook, name) == models
        assert [str(cell).count('class="alive"') for cell in notebook.cells[1:]] == [forms, 0]


@pytest.mark.parametrize("source", ["x = 1", 'explore(drawn, n=("n", 1, 0, 9, 1))'])
def test_a_control_without_a_text_has_no_model_to_answer(source):
    with pytest.raises(ValueError, match="no explore"):
        alive.controls(source)


@pytest.mark.parametrize("recipe", [plays.LSTM, plays.BERT, images.VIT, glyphs.CONV], ids=lambda recipe: recipe.name)
def test_a_model_that_the_page_cannot_compute_is_refused(recipe):
    with pytest.raises(TypeError, match="no forward pass"):
        alive.script(recipe)


@pytest.mark.parametrize(
    "other",
    [{"cell": "lstm"}, {"n_layers": 2}, {"bidirectional": False}, {"attention": "dot"}, {"input_feeding": True}],
    ids=lambda other: next(iter(other)),
)
def test_another_reader_of_words_is_refused(other, monkeypatch):
    ours = {"cell": "gru", "bidirectional": True, "attention": "additive"}
    monkeypatch.setattr(alive, "load", lambda recipe: (Seq2Seq(30, 74, 8, 8, **(ours | other)), {}))
    with pytest.raises(TypeError, match="no forward pass"):
        alive.script(MODELS["sounds_attention"])


def test_nothing_is_written_where_no_model_answers(tmp_path):
    alive.write(set(), tmp_path / "alive")
    assert not (tmp_path / "alive").exists()
    alive.write({plays.RNN}, tmp_path / "alive")
    assert {path.name for path in (tmp_path / "alive").iterdir()} >= {"attention.js", "worker.js", "plays_rnn.js"}


def test_ranges_are_the_inside_of_a_class():
    assert alive.ranges("abcx\U0001d49c") == r"\u{61}-\u{63}\u{78}-\u{78}\u{1d49c}-\u{1d49c}"


def test_the_first_page_has_the_gpt_where_its_lesson_is():
    notebook = nbformat.read(NOTEBOOKS / "07_gpt.ipynb", as_version=4)
    made = BeautifulSoup(alive.first_page({"07_gpt.ipynb": notebook}), "html.parser")
    assert made.select_one("section.alive[hidden]")["data-model"] == "plays_gpt"
    assert made.select_one("p a")["href"] == "07_gpt.html" and made.input["value"] == alive.FIRST_WORDS
    assert alive.first_page({"01_a.ipynb": notebook}) == ""
    assert alive.first_page({"07_gpt.ipynb": new_notebook(cells=[new_markdown_cell("# A")])}) == ""
