"""Models that answer in a page that was opened from disk, held to the library's own; and the page around them."""

import json
import random
import re
from copy import deepcopy

import pytest
import torch

from course_lib.data import plays
from course_lib.language.generate import generate, next_probs
from course_lib.recurrent.rnn import rnn_step
from course_lib.show.record import capture
from course_lib.vision.rollout import rollout
from course_lib.workshop.publish import alive
from course_lib.workshop.recipes import stored
from course_lib.workshop.recipes.__main__ import recipes
from course_lib.workshop.recipes.glyphs import base_letters, lettered

from .conftest import is_from_disk, patient, watched_page
from .test_accessibility import MEASURE, MISSED, REACHED

PLACES = {live.model.name: (name, cell) for name, cells in alive.LIVE.items() for cell, live in cells.items()}
DRAWN = {live.model.name: (name, cell) for name, cells in alive.DRAWN.items() for cell, live in cells.items()}
# The model is asked as the page asks it: one answer for each token that it writes, and one at the end.
ASK = """async ([name, text, knobs, tokens, inside]) => {
  const model = await alive.open(name);
  const began = performance.now();
  return new Promise((done) => model.ask({ ask: "read", text, knobs, tokens }, (answer) => answer.kind === "read" &&
    done({ ...answer, ms: performance.now() - began, logits: [...answer.logits],
           seen: inside && { ...answer.seen, values: [...answer.seen.values] } }))); }"""
ODD = [
    "", " ", "\n", "a", "\t\t x", "ROMEO.\nI", "don't we'll I'VE 'tis o'er'd", "x  y   z ", "__init__ _a_",
    "1,234.5 ½ Ⅷ ²", "Ünïcödé ñandú", "日本語のテキスト", "🙂🙃 emoji 👨\u200d👩\u200d👧", "e\u0301 a\u0308",
    "zero\u200bwidth", "\ufeffbegins", "١٢٣ نص عربي", "हिन्दी पाठ", "ข้อความ", "𝒜𝓃𝓎 ℝ",
    "no\u00a0break\u2003em\u2028line", "\x1c\x1d\x1e\x1f", "\x00\x07\x85", "ſtraße ŉ Ǆ", "a" * 300,
    "\U0001e4d0 \U00011f02 \u0378", "<b>&amp;</b>\\u0041 `${x}`",
]  # fmt: skip


def inputs(lengths):
    """Texts: what is odd, passages of plays from one character to more than a model can read, any code points."""
    draws, text = random.Random(0), plays.text("test")
    found = list(ODD)
    for length in lengths:
        start = draws.randrange(len(text) - length)
        found.append(text[start : start + length])
    characters = [chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000]
    return found + ["".join(draws.sample(characters, length)) for length in (1, 4, 9, 20, 40, 60, 80)]


@pytest.fixture(scope="module")
def lessons(answering):
    return answering


@pytest.fixture
def page(lessons, page_from_disk, console_errors):
    """A page that opens the lesson of a model: page.show("plays_gpt")."""
    page_from_disk.show = lambda model: page_from_disk.goto((lessons / f"{(PLACES | DRAWN)[model][0]}.html").as_uri())
    yield page_from_disk
    assert console_errors == []


def wake(page):
    """Ask for the model, and wait for its first answer."""
    page.locator("section.alive .begin").press("Enter")
    page.get_by_text("tokens read").wait_for()


def halved(name):
    """The stored model with its weights rounded to half precision and kept in full, as the page has them; tokenizer."""
    model, record = stored.load(recipes()[name])
    with torch.no_grad():
        for value in model.state_dict().values():
            value.copy_(value.half())
    return model, record.get("tokenizer")


@torch.no_grad()
def logits(model, ids):
    found = model(torch.as_tensor(ids)[None])
    return (found[0] if isinstance(found, tuple) else found)[0, -1]


def ids_of(answer):
    return [token["id"] for token in answer["tokens"]]


@pytest.mark.parametrize("name", PLACES)
def test_texts_are_cut_and_read_as_the_library_does(page, name):
    """Logits within 1e-3, in all texts in which they are a number that float32 can tell; some lengths stand for more.

    The character network is chaotic on a few texts that are unlike any play: what it rounds off grows from step to
    step, and the library's own float32 and float64 part there. Each single step is compared there, from the state
    that the page had.
    """
    page.show(name)
    (model, tokenizer), texts, chaotic = halved(name), inputs((1, 8, 55, 233, 2000)), []
    precise = deepcopy(model).double()
    assert len(texts) == len({*texts})
    for text in texts:
        answer = page.evaluate(ASK, [name, text, {}, 0])
        wanted = tokenizer.encode(text or "\n").tolist()[-getattr(model, "max_len", 10_000) :]
        assert ids_of(answer) == wanted, text
        assert answer["tokens"][0]["text"] == tokenizer.decode(wanted[:1])
        if (logits(precise, wanted) - logits(model, wanted)).abs().max() > 1e-4:
            chaotic.append(text)
            assert_each_step(model, torch.tensor(wanted), page.evaluate(ASK, [name, text, {}, 0, True]))
        else:
            assert (torch.tensor(answer["logits"]) - logits(model, wanted)).abs().max() < 1e-3, text
    assert len(chaotic) <= (8 if name == "plays_rnn" else 0)


@torch.no_grad()
def assert_each_step(model, ids, answer):
    """Each state follows from the one before it, and the logits from the last."""
    states = torch.tensor(answer["seen"]["values"]).view(answer["seen"]["shape"])  # (T, H)
    before = torch.cat([torch.zeros_like(states[:1]), states[:-1]])
    step = rnn_step(model.embed(ids), before, model.rnn.w_x[0], model.rnn.w_h[0], model.rnn.b[0])
    assert (step - states).abs().max() < 1e-5
    assert (model.readout(states[-1]) - torch.tensor(answer["logits"])).abs().max() < 1e-4


def test_what_is_read_after_something_else_is_read_as_if_alone(page):
    """The page keeps what two texts begin with."""
    page.show("plays_gpt")
    model, tokenizer = halved("plays_gpt")
    text = plays.text("test")[:900]
    for said in ("To be", "To be, or not", "To bear", "To be", "To be", text, text + " So", text[:300], "T"):
        answer = page.evaluate(ASK, ["plays_gpt", said, {}, 0])
        wanted = tokenizer.encode(said)[-model.max_len :]
        assert ids_of(answer) == wanted.tolist()
        assert (torch.tensor(answer["logits"]) - logits(model, wanted)).abs().max() < 1e-3


def test_it_writes_what_the_library_writes_and_goes_on_where_its_window_is_full(page):
    page.show("plays_gpt")
    model, tokenizer = halved("plays_gpt")
    begun = tokenizer.encode("ROMEO.\nI").tolist()
    answer = page.evaluate(ASK, ["plays_gpt", "ROMEO.\nI", {"temperature": 0}, 60])
    (wanted,) = generate(model, [begun], 60, temperature=0)
    assert ids_of(answer) == begun + wanted and answer["written"] == tokenizer.decode(wanted)
    answer = page.evaluate(ASK, ["plays_gpt", "ROMEO.\nI", {"temperature": 1}, 200])
    assert model.max_len / 2 <= len(answer["tokens"]) <= model.max_len
    assert answer["start"] + len(answer["tokens"]) == len(begun) + 200
    assert (torch.tensor(answer["logits"]) - logits(model, ids_of(answer))).abs().max() < 1e-3


def test_a_character_network_writes_what_the_library_writes(page):
    page.show("plays_rnn")
    model, tokenizer = halved("plays_rnn")
    answer = page.evaluate(ASK, ["plays_rnn", "ROMEO.\n", {"temperature": 0}, 60, True])
    assert ids_of(answer) == model.sample(tokenizer.encode("ROMEO.\n")[None], 60, temperature=0)[0].tolist()
    with torch.no_grad(), capture(model, "rnn.hidden.0") as maps:
        model(torch.tensor([ids_of(answer)]))
    states = maps.over_time("rnn.hidden.0")[0]
    assert answer["seen"]["shape"] == list(states.shape)
    assert (torch.tensor(answer["seen"]["values"]).view_as(states) - states).abs().max() < 1e-3


def test_attention_is_that_of_the_library(page):
    page.show("plays_gpt")
    model, tokenizer = halved("plays_gpt")
    answer = page.evaluate(ASK, ["plays_gpt", "To be, or not to be, that is the question", {}, 0, True])
    with torch.no_grad(), capture(model, "blocks.*.attention.weights") as maps:
        model(torch.tensor([ids_of(answer)]))
    wanted = torch.cat([maps[f"blocks.{layer}.attention.weights"][0] for layer in range(len(model.blocks))])
    assert answer["seen"]["shape"] == list(wanted.shape)
    assert (torch.tensor(answer["seen"]["values"]).view_as(wanted) - wanted).abs().max() < 1e-4


def test_knobs_do_what_they_do_in_the_library(page):
    page.show("plays_gpt")
    for knobs in (
        {}, {"temperature": 0}, {"temperature": 0.3}, {"temperature": 2, "top_k": 3}, {"top_p": 0.5}, {"top_p": 0},
        {"temperature": 0.7, "top_k": 10, "top_p": 0.8},
    ):  # fmt: skip
        answer = page.evaluate(ASK, ["plays_gpt", "ROMEO.\nI", knobs, 0])
        given = torch.tensor(answer["logits"])
        own, drawn = next_probs(given), next_probs(given, **knobs)
        assert [one["id"] for one in answer["best"]] == own.argsort(descending=True)[:16].tolist(), knobs
        for one in answer["best"]:
            gaps = abs(one["own"] - float(own[one["id"]])), abs(one["drawn"] - float(drawn[one["id"]]))
            assert max(gaps) < 1e-5, knobs


def test_it_draws_by_the_probabilities_that_it_shows(page):
    page.show("plays_rnn")
    source = """async () => { await alive.open("plays_rnn"); const parts = alive.numbers();
      const { draw } = alive.generate(parts); const found = [0, 0, 0, 0];
      for (let n = 0; n < 1000; n++) found[draw(Float32Array.from([0.5, 0, 0.3, 0.2]), (n + 0.5) / 1000)]++;
      return found; }"""
    assert page.evaluate(source) == [500, 0, 300, 200]


@pytest.mark.full
@pytest.mark.parametrize("name", PLACES)
def test_it_writes_twenty_tokens_a_second(page, name):
    """The best of three, for what else the machine does is not the page's doing. The GPT's window fills up in it."""
    page.show(name)
    seconds = [page.evaluate(ASK, [name, "ROMEO.\nI", {}, 160])["ms"] / 1000 for _ in range(3)]
    assert 160 / min(seconds) >= 20


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name == "plays_gpt" else pytest.mark.full) for name in PLACES]
)
def test_the_page_answers_meanwhile(chromium, page, name, tmp_path):
    """No task of the page's main thread takes 50 ms of a processor: neither loading nor writing, nor a long text."""
    page.show(name)
    chromium.start_tracing(page=page, path=tmp_path / "trace.json", categories=["toplevel", "devtools.timeline"])
    wake(page)
    # How long the browser takes to put a paste into a box is its own; what the page does with it is ours.
    page.locator("section.alive .typed").evaluate(
        "(box, text) => { box.value = text; box.dispatchEvent(new Event('input', { bubbles: true })); }",
        plays.text("test")[:1000],
    )
    page.get_by_role("button", name="Write on").click()
    page.get_by_text("It wrote").wait_for(state="attached")
    chromium.stop_tracing()
    events = json.loads((tmp_path / "trace.json").read_text(encoding="utf-8"))["traceEvents"]
    main = {(one["pid"], one["tid"]) for one in events if one["args"].get("name") == "CrRendererMain"}
    tasks = [one for one in events if one["name"].endswith("RunTask") and (one["pid"], one["tid"]) in main]
    assert len(tasks) > 50
    assert max(task.get("tdur", 0) for task in tasks) / 1000 < 50


def test_nothing_is_loaded_before_somebody_asks(page):
    asked = []
    page.on("request", lambda request: asked.append(request.url.rpartition("/")[2]))
    page.show("plays_gpt")
    page.locator("section.alive .begin").wait_for()
    assert not {"plays_gpt.js", "worker.js"} & {*asked}
    wake(page)
    assert {"plays_gpt.js", "worker.js"} < {*asked} and "plays_rnn.js" not in asked


def test_all_of_it_works_by_keys_and_is_told(page):
    page.show("plays_gpt")
    section, said = page.locator("section.alive"), page.locator("section.alive [role=status]")
    assert page.locator("article img").is_visible()
    wake(page)
    assert not page.locator("article img").is_visible(), "what answers stands in the picture's place"
    assert page.evaluate("document.activeElement.className") == "typed"
    page.keyboard.press("Control+a")
    page.keyboard.type("JULIET.\nO Rome")
    page.wait_for_function("document.querySelector('.alive .tokens').textContent.endsWith('Rome')")
    page.get_by_role("button", name="Write on").press("Enter")
    page.get_by_text("It wrote").wait_for(state="attached")
    page.wait_for_function("document.querySelectorAll('.alive .written').length === 24")
    assert "tokens read" in said.inner_text()
    assert section.locator(".next tr").count() == 16
    before = section.locator(".tokens").evaluate("box => box.innerHTML")
    page.get_by_role("radio", name="block 1, head 1").focus()
    page.keyboard.press("ArrowRight")
    assert page.get_by_role("radio", name="block 1, head 2").is_checked()
    page.wait_for_function("before => document.querySelector('.alive .tokens').innerHTML !== before", arg=before)
    page.get_by_role("slider", name="who looks back").press("Home")
    section.locator(".tokens .looks", has_text=re.compile("^J$")).wait_for()
    page.get_by_role("slider", name="temperature").press("Home")
    page.wait_for_function("document.querySelector('.alive .next td:nth-of-type(2)').textContent === '100 %'")
    page.get_by_role("button", name="Back to my text").press("Enter")
    page.wait_for_function("!document.querySelector('.alive .written')")


def test_a_newer_text_ends_what_is_being_written(page):
    page.show("plays_rnn")
    wake(page)
    page.get_by_role("button", name="Write on").click()
    page.locator("section.alive .typed").fill("Enter")
    page.wait_for_function("document.querySelector('.alive .tokens').textContent === 'Enter'")
    page.get_by_role("button", name="Write on").click()
    page.get_by_role("button", name="Stop").click()
    page.wait_for_function("!document.querySelector('.alive .busy')")
    page.wait_for_function("document.querySelector('.alive .tokens').innerText.startsWith('Enter')")


@pytest.mark.parametrize("name", [pytest.param("plays_rnn", marks=pytest.mark.full), "plays_gpt"])
def test_nothing_of_it_is_hard_to_see_or_to_reach(page, name):
    page.show(name)
    wake(page)
    for width in (1440, 400):
        page.set_viewport_size({"width": width, "height": 900})
        for theme in ("dark", "light"):
            page.emulate_media(color_scheme=theme)
            assert page.evaluate(MEASURE) == [], (width, theme)
    for _ in range(60):  # of the narrow page, which has all that the wide one has
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement === document.body"):
            break
        assert page.evaluate(REACHED) or page.evaluate("document.activeElement.type") == "radio"
    for _ in range(60):
        page.keyboard.press("Shift+Tab")
        page.evaluate(REACHED)
    assert [missed for missed in page.evaluate(MISSED) if "back-to-top" not in missed] == []


def test_a_finger_wakes_it_and_lets_it_write(chromium, lessons):
    context = patient(chromium, viewport={"width": 390, "height": 844}, has_touch=True)
    page = context.new_page()
    page.goto((lessons / f"{PLACES['plays_gpt'][0]}.html").as_uri())
    page.locator("section.alive .begin").tap()
    page.get_by_text("tokens read").wait_for()
    page.get_by_role("button", name="Write on").tap()
    page.get_by_text("It wrote").wait_for(state="attached")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    context.close()


def test_without_workers_the_picture_stands_and_a_sentence_says_so(page):
    page.add_init_script("delete globalThis.Worker")
    page.show("plays_gpt")
    assert "What is above stands for it." in page.locator("section.alive [role=status]").inner_text()
    assert page.locator("article img").is_visible() and not page.locator("section.alive button").first.is_visible()


def test_without_its_files_the_picture_stands_and_a_sentence_says_so(chromium, lessons):
    with watched_page(chromium, is_from_disk, []) as page:
        page.route("**/plays_gpt.js", lambda route: route.abort())
        page.goto((lessons / f"{PLACES['plays_gpt'][0]}.html").as_uri())
        page.locator("section.alive .begin").click()
        page.get_by_text("plays_gpt.js does not lie beside this page").wait_for()
        assert page.locator("article img").is_visible()


def test_without_scripts_the_picture_stands_and_says_where_it_moves(chromium, lessons):
    context = patient(chromium, java_script_enabled=False)
    page = context.new_page()
    page.goto((lessons / f"{PLACES['plays_gpt'][0]}.html").as_uri())
    assert page.locator("article img").is_visible() and page.get_by_text("Run the cell to move").is_visible()
    assert not page.locator("section.alive").is_visible()
    context.close()


def test_the_first_page_goes_on_with_three_words(page, lessons):
    """Its model comes when its box is reached, and a text that is sent meanwhile is answered."""
    asked = []
    page.on("request", lambda request: asked.append(request.url.rpartition("/")[2]))
    page.goto((lessons / "index.html").as_uri())
    box = page.get_by_role("textbox", name="The GPT of lesson 07")
    assert box.input_value() == alive.FIRST_WORDS and "plays_gpt.js" not in asked
    assert not page.get_by_text("shows what it writes").is_visible()
    box.fill("Shall I compare")
    page.keyboard.press("Enter")
    page.get_by_text("It wrote").wait_for(state="attached")
    assert page.locator("section.alive .tokens").inner_text().startswith("Shall I compare")
    page.wait_for_function("document.querySelectorAll('section.alive .written').length === 24")
    assert page.evaluate(MEASURE) == []


def test_the_first_page_leads_to_the_lesson_where_no_model_can_answer(page, lessons):
    page.add_init_script("delete globalThis.Worker")
    page.goto((lessons / "index.html").as_uri())
    assert page.get_by_text("shows what it writes").is_visible() and not page.locator("section.alive form").is_visible()


# --- a reader of drawn letters

LOOK = """async ([name, images]) => {
  const model = await alive.open(name);
  const told = ({ logits, seen, best }) => ({ logits: [...logits], seen: [...seen], best });
  const look = (image) => new Promise((done) => model.ask({ ask: "look", image }, (answer) => done(told(answer))));
  const found = [];
  for (const image of images) found.push(await look(image));
  return found; }"""


@torch.no_grad()
def test_fifty_images_are_read_as_the_library_does(page):
    page.show("glyphs_vit")
    model, _ = halved("glyphs_vit")
    letters, draws = lettered("test")[0][:, 0], torch.Generator().manual_seed(0)
    chosen = letters[torch.randperm(len(letters), generator=draws)[:40]]
    odd = [torch.zeros(1, 32, 32), torch.ones(1, 32, 32), torch.rand(8, 32, 32, generator=draws)]
    images = torch.cat([chosen, *odd])
    found = page.evaluate(LOOK, ["glyphs_vit", images.flatten(1).tolist()])
    with capture(model, "encoder.blocks.*.attention.weights") as maps:
        wanted = model(images[:, None])
    assert wanted.shape == (50, len(base_letters()))
    assert (torch.tensor([one["logits"] for one in found]) - wanted).abs().max() < 1e-3
    seen = rollout([maps[f"encoder.blocks.{n}.attention.weights"][0] for n in range(len(model.blocks))])[:, 0, 1:]
    assert (torch.tensor([one["seen"] for one in found]) - seen).abs().max() < 1e-4
    best = [base_letters()[n] for n in wanted.argmax(dim=1)]
    assert [one["best"][0]["text"] for one in found] == best


def test_a_letter_is_typed_or_drawn_and_read(page):
    page.show("glyphs_vit")
    said = page.locator("section.alive [role=status]")
    page.locator("section.alive .begin").press("Enter")
    said.filter(has_text="It reads").wait_for()
    assert page.evaluate("document.activeElement.className") == "letter"
    page.keyboard.press("Control+a")
    page.keyboard.type("O")
    page.wait_for_function("document.querySelector('.alive .next th').textContent === 'O'")
    page.get_by_role("button", name="Clear").press("Enter")
    said.filter(has_text="Nothing is drawn").wait_for()
    desk = page.locator("section.alive .desk")
    desk.scroll_into_view_if_needed()
    box = desk.bounding_box()
    x, top, bottom = box["x"] + box["width"] / 2, box["y"] + 0.28 * box["height"], box["y"] + 0.78 * box["height"]
    page.mouse.move(x, top)
    page.mouse.down()
    page.mouse.move(x, bottom, steps=8)
    page.mouse.up()
    page.wait_for_function("/^(I|L|LONG S|DOTLESS I|J)$/.test(document.querySelector('.alive .next th').textContent)")
    assert "It reads" in said.inner_text() and page.locator("section.alive .next tr").count() == 16
    for width, theme in ((1280, "light"), (1280, "dark"), (400, "light")):
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme=theme)
        assert page.evaluate(MEASURE) == []


# --- what the choice of the runtime rests on


@pytest.mark.parametrize(
    ("asking", "granted"),
    [
        ("fetch('part.wasm')", False),
        ("import('./part.mjs')", False),
        ("new Promise((y, n) => { const w = new Worker('part.js'); w.onmessage = y; w.onerror = n; })", False),
        ("new Promise((y, n) => { const w = new Worker(URL.createObjectURL(new Blob(['postMessage(1)'])));"
         " w.onmessage = y; w.onerror = n; })", True),
        ("new Promise((y, n) => document.head.append(Object.assign(document.createElement('script'),"
         " { src: 'part.js', onload: y, onerror: n })))", True),
    ],
    ids=["fetch", "import", "worker of a file", "worker of a blob", "script"],
)  # fmt: skip
def test_what_a_page_from_disk_may_load(page_from_disk, tmp_path, asking, granted):
    for name, text in {"page.html": "<!DOCTYPE html><title>t</title>", "part.js": "globalThis.postMessage?.(1, '*')",
                       "part.mjs": "export default 1", "part.wasm": "wasm"}.items():  # fmt: skip
        (tmp_path / name).write_text(text)
    page_from_disk.goto((tmp_path / "page.html").as_uri())
    assert (
        page_from_disk.evaluate(f"async () => {{ try {{ await {asking}; return true }} catch {{ return false }} }}")
        == granted
    )
