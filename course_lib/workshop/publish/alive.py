"""Models that answer in the published page: weights, tokenizer and a form that stands beside a control's picture.

What a reader types is read and written on in the reader's own browser, with nothing installed. The forward pass is
ours, in JavaScript, in `pages/alive`, under the names that the Python has; `pages/static/alive.js` is the page's side.

Why not a runtime. ONNX Runtime Web 1.30 is well kept and under the MIT licence, and was looked at first. No package of
PyPI ships it (`onnxruntime` does not), and the course is installed by pip alone. Its smallest binary has 14 MB, ten
times the weights of the GPT that it would run. And it reads that binary, and its own module, by `fetch` and `import`:
both are refused to a page that was opened from disk, as is a worker made of a file. What such a page may do is load a
script. So weights are a script that assigns a string, and the worker is made of a Blob that holds the text of
functions; tests/browser/test_alive.py holds a browser to each of these sentences. A GPT block is forty lines.

Not on slides: there the forms are not set. The GPT's is 1,100 pixels high where it is 784 wide, a slide 720; the keys
that move its sliders leaf there, and its colours are those of the pages' theme.

L blocks, H heads. Numbers are float32 from half-precision weights, sums double.
"""

import ast
import base64
import html
import json
import re
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

from nbformat import NotebookNode

from course_lib.attention.attention import AdditiveAttention
from course_lib.data import glyphs
from course_lib.language.gpt import GPT
from course_lib.recurrent.language_model import CharRNN
from course_lib.recurrent.lstm import GRU
from course_lib.recurrent.rnn import RNN
from course_lib.show.frames import STANDS
from course_lib.text.bpe import BPE, NUMBER, SPACE, SYMBOL
from course_lib.text.pairs import END, START
from course_lib.text.tokenizers import CharTokenizer, WordTokenizer
from course_lib.translation.seq2seq import AttentionDecoder, Seq2Seq
from course_lib.vision.vit import ViT
from course_lib.workshop.recipes import plays, sounds
from course_lib.workshop.recipes.glyphs import VIT, base_letters
from course_lib.workshop.recipes.recipe import Recipe
from course_lib.workshop.recipes.stored import load

ACTIVATIONS = ("gelu", "gelu_tanh")  # that pages/alive/attention.js has
FIRST_WORDS = "My lord, the king"  # stands in the box of the site's first page
INSIDE = "inside_gpt.html"  # the page on which the GPT lies open
SCRIPTS = Path(__file__).with_name("pages") / "alive"


@dataclass(frozen=True)
class Live:
    """A model that answers at a control, tokens that it writes at once, what it is.

    `beside`: another, which answers the same.
    """

    model: Recipe
    tokens: int
    about: str
    beside: Recipe | None = None


# By notebook and by cell. The cell's call of `explore` gives the text and the knobs, as the notebook has them.
LIVE = {
    "01_rnn_bptt": {
        "temperature-control": Live(
            plays.RNN,
            140,
            "A network of the same size answers, trained beforehand for longer than that of the picture.",
        )
    },
    "07_gpt": {"choose-control": Live(plays.GPT, 24, "The same GPT answers as in the picture.")},
}
# Lesson 03 has a word to type as well; the weights of its network are another package's, and stay there.
SAID = {
    "04_attention_alignment": {
        "letters-type": Live(
            sounds.ATTENTION,
            sounds.LONGEST,
            "The lesson's two networks say your word, of the letters a to z, sound by sound.",
            beside=sounds.ONE_VECTOR,
        )
    }
}
DRAWN = {
    "09_vit": {
        "matter-control": Live(
            VIT, 0, "The stored ViT reads what you draw. It has seen printed letters only, none drawn by hand."
        )
    }
}


def script(recipe: Recipe) -> str:
    """The stored model of a recipe as a script that puts it into `alive.models`: weights in half precision, Base64.

    Raises what `load` raises, and TypeError for a model or a tokenizer that the page has no forward pass of.
    """
    model, record = load(recipe)
    kind, config = _kind(model)
    weights = {key: value.half().contiguous() for key, value in model.state_dict().items()}
    numbers = b"".join(value.numpy().tobytes() for value in weights.values())
    reads, writes = record.get("tokenizer"), None
    if isinstance(model, Seq2Seq):
        speaker = sounds.reads_aloud(model)
        reads, writes = speaker.reads, speaker.writes
    told = {
        "kind": kind,
        "config": config,
        "tokenizer": _tokenizer(reads) if reads else None,
        "writes": _tokenizer(writes) if writes else None,
        "shapes": [[key, list(value.shape)] for key, value in weights.items()],
        "weights": base64.b64encode(numbers).decode(),
    }
    return f"alive.models.{recipe.name} = {json.dumps(told)};\n"


def set_live(notebook: NotebookNode, name: str) -> set[Recipe]:
    """Put a form under the stills of those controls at which a model can answer, in place; the models.

    It is hidden until the page's script runs. name: the notebook's file name. Raises ValueError for a control whose
    call of `explore` has no text to type.
    """
    used = set()
    for cell in notebook.cells:
        for places, made in (
            (LIVE, lambda live, cell: form(live, controls(cell.source), cell.id)),
            (SAID, lambda live, cell: speaker(live, controls(cell.source), cell.id)),
            (DRAWN, lambda live, cell: desk(live, cell.id)),
        ):
            live = places.get(Path(name).stem, {}).get(cell.id)
            for output in cell.get("outputs", []) if live else []:
                if STANDS in output.get("data", {}).get("text/html", ""):
                    output.data["text/html"] += made(live, cell)
                    used |= {live.model, live.beside} - {None}
    return used


def write(models: set[Recipe], folder: Path) -> None:
    """Write what the page's script loads when a reader asks: the forward pass, and the models."""
    if models:
        shutil.copytree(SCRIPTS, folder)
    for one in models:
        (folder / f"{one.name}.js").write_text(script(one), encoding="utf-8")


def controls(source: str) -> dict[str, tuple]:
    """What the cell's call of `explore` says of its controls, by name; ValueError where it has no text to type."""
    for node in ast.walk(ast.parse(re.sub("^%.*", "", source, flags=re.MULTILINE))):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "explore":
            found = {one.arg: ast.literal_eval(one.value) for one in node.keywords}
            if any(isinstance(spec[1], str) for spec in found.values()):
                return found
    raise ValueError("no explore(...) with a text to type: a model can answer only where there is one")


def form(live: Live, specs: dict[str, tuple], key: str) -> str:
    """The button that wakes the model, and the form: text, knobs, what it wrote, the next token, what is inside."""
    (text,) = [name for name, spec in specs.items() if isinstance(spec[1], str)]
    label, start = (html.escape(part) for part in specs[text][:2])
    knobs = "".join(_knob(name, spec, f"alive-{key}-{name}") for name, spec in specs.items() if name != text)
    model, _ = load(live.model)
    more = f'<p><a href="{INSIDE}">Look inside this GPT</a></p>' if isinstance(model, GPT) else ""
    first = "\n" if start.startswith("\n") else ""  # a browser leaves out the first line's end of a textarea
    return f"""
<section class="alive" hidden data-model="{live.model.name}" data-tokens="{live.tokens}" data-prevent-swipe>
<button type="button" class="begin">Type a text of your own: the model answers in this page</button>
{more}<form hidden><p>{html.escape(live.about)} Nothing leaves this page.</p>
<label for="alive-{key}-text">{label}</label>
<textarea id="alive-{key}-text" class="typed" rows="3" spellcheck="false" autocomplete="off">{first}{start}</textarea>
<div class="knobs">{knobs}</div>
<div class="buttons"><button>Write on</button><button type="button" class="stop">Stop</button>
<button type="button" class="again">Back to my text</button></div>
<div class="tokens" role="group" aria-label="What it has read and written" tabindex="0"></div>
<div class="both"><table><caption>The next token</caption>
<thead><tr><th scope="col">token</th><th scope="col">its own</th><th scope="col">drawn from</th></tr></thead>
<tbody class="next"></tbody></table>{_inside(model, f"alive-{key}")}</div></form>
<p role="status"></p></section>"""


def first_page(notebooks: dict[str, NotebookNode]) -> str:
    """The GPT's form for the site's first page, open from the start; "" where the lesson that it is of is not there."""
    page, cell = "07_gpt", "choose-control"
    sources = {one.id: one.source for one in notebooks[f"{page}.ipynb"].cells} if f"{page}.ipynb" in notebooks else {}
    if cell not in sources:
        return ""
    live, specs = LIVE[page][cell], controls(sources[cell])
    _, record = load(live.model)
    told = f"The GPT of lesson {page[:2]}, {record['weights'] / 1e6:.1f} million weights trained on plays, goes on"
    knob = _knob("temperature", specs["temperature"], "alive-front-temperature")
    return f"""
<div><p>{told} with what you type, where scripts run: <a href="{page}.html">its lesson</a> shows what it writes, and <a
href="{INSIDE}">it lies open</a> on a text of yours.</p>
<section class="alive" hidden data-model="{live.model.name}" data-tokens="{live.tokens}">
<form hidden><label for="alive-front">{told} with what you type</label>
<input id="alive-front" class="typed" value="{FIRST_WORDS}" spellcheck="false" autocomplete="off">
<div class="knobs">{knob}<input type="hidden" data-knob="top_p" value="{specs["top_p"][1]}"></div>
<div class="buttons"><button>Write on</button><button type="button" class="stop">Stop</button>
<button type="button" class="again">Back to my text</button></div>
<div class="tokens" role="group" aria-label="What it has read and written" tabindex="0"></div>
<div class="both"><table hidden><tbody class="next"></tbody></table></div>
<p><a href="{INSIDE}">Look inside it</a></p></form>
<p role="status"></p></section></div>"""


def speaker(live: Live, specs: dict[str, tuple], key: str) -> str:
    """The button that wakes two readers of words, and the form: a word, its sounds, how each looks at the letters."""
    ((_, start),) = [spec for spec in specs.values() if isinstance(spec[1], str)]
    both = f"{live.model.name} {live.beside.name}"
    return f"""
<section class="alive" hidden data-model="{both}" data-longest="{live.tokens}" data-prevent-swipe>
<button type="button" class="begin">Type a word of your own: both networks say it in this page</button>
<form hidden><p>{html.escape(live.about)} Nothing leaves this page.</p>
<div class="knobs"><span><label for="alive-{key}-word">a word</label><input id="alive-{key}-word" class="word"
value="{html.escape(start)}" maxlength="60" spellcheck="false" autocomplete="off" autocapitalize="off"></span>
<span><label for="alive-{key}-from">sound</label><input id="alive-{key}-from" class="from" type="range" min="0"
value="0"><output for="alive-{key}-from"></output></span></div>
<div class="threads" role="group" aria-label="Letters and sounds" tabindex="0"><table><caption>With attention: a row for
each sound, dark where it looks</caption><thead></thead><tbody></tbody></table></div></form>
<p role="status"></p></section>"""


def desk(live: Live, key: str) -> str:
    """The button that wakes a reader of images, and a square to draw on, by hand or by typing one letter."""
    line = f'data-size="{glyphs.SIZE}" data-baseline="{glyphs.BASELINE}"'
    square = f'width="{glyphs.SIDE}" height="{glyphs.SIDE}"'
    return f"""
<section class="alive" hidden data-model="{live.model.name}" {line} data-prevent-swipe>
<button type="button" class="begin">Draw a letter: the model reads it in this page</button>
<form hidden><p>{html.escape(live.about)} Nothing leaves this page.</p>
<div class="both"><figure><div class="desk"><canvas class="paper" {square} role="img"
aria-label="The square to draw on; a letter can also be typed below it"></canvas><canvas class="sheet"
aria-hidden="true"></canvas></div><figcaption>Draw large, and leave room below for a tail. Blue: rollout, how much of
each patch stands in [CLS] in the end, if attention alone moved anything.</figcaption>
<p class="buttons"><label for="alive-{key}-letter">or type one letter</label>
<input id="alive-{key}-letter" class="letter" value="g" maxlength="2" spellcheck="false" autocomplete="off">
<button type="button" class="clear">Clear</button></p></figure>
<table><caption>The base letter</caption>
<thead><tr><th scope="col">letter</th><th scope="col">probability</th></tr></thead>
<tbody class="next"></tbody></table></div></form>
<p role="status"></p></section>"""


def _inside(model, key):
    """Where the page shows what the model holds: maps of attention, or states."""
    if isinstance(model, CharRNN):
        told = (
            "The state behind each character: a row a character, a column a hidden unit, dark near 1 and light near -1"
        )
        drawn = f'<canvas role="img" aria-label="{told}."></canvas><figcaption>{told}.</figcaption>'
        return f'<figure class="states">{drawn}</figure>'
    maps = "".join(
        f'<label><input type="radio" name="{key}-head" value="{layer * model.config.n_heads + head}"'
        f'{" checked" if layer == head == 0 else ""}><canvas aria-hidden="true"></canvas>'
        f"<span>block {layer + 1}, head {head + 1}</span></label>"
        for layer in range(model.config.n_layers)
        for head in range(model.config.n_heads)
    )
    return (
        f'<fieldset class="heads"><legend>Attention: a row for each token that looks, a column for each that is looked '
        f'at</legend><div style="--heads: {model.config.n_heads}">{maps}</div>'
        f'<span><label for="{key}-from">who looks back</label><input id="{key}-from" class="from" type="range" min="0">'
        f'<output for="{key}-from"></output></span></fieldset>'
    )


def _knob(name, spec, key):
    label = f'<label for="{key}">{html.escape(spec[0])}</label>'
    if len(spec) == 3:
        pairs = [one if isinstance(one, tuple) else (str(one), one) for one in spec[2]]
        options = "".join(
            f'<option value="{value}"{" selected" if value == spec[1] else ""}>{html.escape(str(shown))}</option>'
            for shown, value in pairs
        )
        return f'<span>{label}<select id="{key}" data-knob="{name}">{options}</select></span>'
    _, start, low, high, step = spec
    return (
        f'<span>{label}<input id="{key}" data-knob="{name}" type="range" min="{low}" max="{high}" step="{step}" '
        f'value="{start}"><output for="{key}">{start}</output></span>'
    )


def _kind(model):
    """What the page calls such a model, and the settings that it needs beside the weights."""
    if isinstance(model, GPT):
        config = model.config
        if config.tied and config.pre_norm and config.activation in ACTIVATIONS and model.places is not None:
            return "GPT", {name: asdict(config)[name] for name in ("max_len", "n_heads", "eps", "activation")}
    if isinstance(model, ViT) and model.config.channels == 1 and model.config.activation in ACTIVATIONS:
        config, (side, across), known = model.config, model.config.size, base_letters()
        if side == across and side % config.patch_size == 0 and config.n_classes == len(known):
            names = {"names": known, "size": side, "patch": config.patch_size}
            return "ViT", names | {name: asdict(config)[name] for name in ("n_heads", "eps", "activation")}
    if isinstance(model, CharRNN) and isinstance(model.rnn, RNN) and model.rnn.n_layers == 1:
        return "CharRNN", {}
    if isinstance(model, Seq2Seq) and _is_read_both_ways(model):
        return "Seq2Seq", {"start": START, "end": END}
    raise TypeError(f"a page has no forward pass of this {type(model).__name__}")


def _is_read_both_ways(model):
    """Whether encoder and decoder are single layers of GRU, the first in both directions, with the additive score."""
    layers, decoder = (model.encoder.rnn, model.decoder.rnn), model.decoder
    if any(not isinstance(layer, GRU) or layer.n_layers > 1 for layer in layers) or not layers[0].bidirectional:
        return False
    if isinstance(decoder, AttentionDecoder):
        return isinstance(decoder.attention, AdditiveAttention) and not decoder.input_feeding
    return True


def _tokenizer(tokenizer):
    """The tokenizer as the page builds it again, with what Python's table calls a letter, a number and a space."""
    if isinstance(tokenizer, CharTokenizer | WordTokenizer):
        return {"kind": type(tokenizer).__name__, "vocab": tokenizer.vocab}
    plain = isinstance(tokenizer, BPE) and tokenizer.alphabet == "bytes" and not tokenizer.specials
    made = sorted(SYMBOL.values()) + [a + b for a, b in tokenizer.merges] if plain else []
    if not plain or tokenizer.digits or list(dict.fromkeys(made)) != tokenizer.vocab:
        raise TypeError(f"a page cannot rebuild this {type(tokenizer).__name__}")
    letters = "".join(c for c in map(chr, range(0x110000)) if c.isalpha())
    return {
        "kind": "BPE",
        "symbols": [SYMBOL[byte] for byte in range(256)],
        "merges": tokenizer.merges,
        "letters": ranges(letters),
        "numbers": ranges(NUMBER),
        "space": SPACE,
    }


def ranges(characters: str) -> str:
    """The characters, given in order, as the inside of a character class of a JavaScript expression."""
    found = []
    for code in map(ord, characters):
        if found and found[-1][1] == code - 1:
            found[-1][1] = code
        else:
            found.append([code, code])
    return "".join(f"\\u{{{low:x}}}-\\u{{{high:x}}}" for low, high in found)
