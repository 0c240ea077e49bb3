"""The page on which a GPT lies open: its inner numbers held to the library's, and each asked where it comes from."""

import json
import re

import pytest
import torch

from course_lib.data import plays
from course_lib.language.generate import generate, next_probs
from course_lib.show.record import capture
from course_lib.workshop.publish import alive
from course_lib.workshop.publish.inside_gpt import MODEL, ORIGINS

from .conftest import is_from_disk, patient, watched_page
from .test_accessibility import MEASURE, MISSED, REACHED
from .test_alive import halved, ids_of

PARTS = (
    "token",
    "place",
    "embedded",
    "x",
    "normed",
    "q",
    "k",
    "v",
    "heads",
    "attended",
    "between",
    "hidden",
    "thought",
)
OPEN = """async ([name, question]) => {
  const model = await alive.open(name);
  const found = await new Promise((done) => model.ask({ ask: "inside", drawn: [], knobs: {}, ...question }, done));
  const plain = (one) => one instanceof Float32Array ? [...one] : Array.isArray(one) ? one.map(plain)
    : one && typeof one === "object" ? Object.fromEntries(Object.entries(one).map(([key, own]) => [key, plain(own)]))
    : one;
  return plain({ ...found, seen: null }); }"""
# Every number is asked, and says what stands in the panel then.
ASKED = """() => [...document.querySelectorAll("section.inside [data-from]")].map((one) => {
  one.click();
  const panel = document.querySelector(".panel");
  return [one.dataset.from, panel.hidden ? "" : panel.textContent, !!panel.querySelector("mjx-container svg")]; })"""


@pytest.fixture(scope="module")
def address(answering):
    return (answering / alive.INSIDE).as_uri()


def opened(page, address):
    """The page, its model awake; its formulas drawn."""
    page.goto(address)
    page.locator("section.inside [role=status]").filter(has_text="Most likely next").wait_for()
    page.wait_for_function("MathJax.startup?.promise && MathJax.startup.promise.then(() => true)")
    return page


@pytest.fixture
def page(address, page_from_disk, console_errors):
    yield opened(page_from_disk, address)
    assert console_errors == []


@torch.no_grad()
def inner(model, ids):
    """What the library computes of the ids (T), by the page's names: a list of blocks, rows (T, width) each."""
    parts = ("norm_1", "attention.w_q", "attention.w_k", "attention.w_v", "attention.w_o", "feed_forward")
    taps = [f"blocks.*.{part}" for part in (*parts, "attention.weights", "feed_forward.w_1")]
    with capture(model, *taps) as heard:
        logits = model(ids[None])[0]
    token, place = model.tokens(ids), model.places(torch.arange(len(ids)))
    x, blocks = token + place, []
    for n, block in enumerate(model.blocks):
        found = {part: heard[f"blocks.{n}.{part}"][0][0] for part in parts}
        weights = heard[f"blocks.{n}.attention.weights"][0][0]  # (H, T, T)
        between = x + found["attention.w_o"]
        blocks.append({
            "token": token, "place": place, "embedded": token + place, "x": x, "normed": found["norm_1"],
            "q": found["attention.w_q"], "k": found["attention.w_k"], "v": found["attention.w_v"],
            "heads": (weights @ block.attention.split(found["attention.w_v"][None])[0]).transpose(0, 1).flatten(1),
            "attended": found["attention.w_o"], "between": between, "thought": found["feed_forward"],
            "hidden": block.feed_forward.activation(heard[f"blocks.{n}.feed_forward.w_1"][0][0]),
            "after": between + found["feed_forward"], "weights": weights,
        })  # fmt: skip
        x = blocks[-1]["after"]
    return blocks, logits


def steps(blocks):
    """The parts of all blocks, in order: the block, and the names of what the part adds and of the sum behind it."""
    parts = (("attended", "between"), ("thought", "after"))
    return [(block, adds, total) for block in blocks for adds, total in parts]


def near(found, wanted, to=1e-3):
    assert (torch.tensor(found) - wanted).abs().max() < to * max(1, float(wanted.abs().max()))


def test_its_inner_numbers_are_the_librarys(page):
    """At first, middle and last places, in each block and head, in texts from one token to more than it can read."""
    model, tokenizer = halved(MODEL.name)
    d, texts = (
        model.config.d_model // model.config.n_heads,
        ["My lord, the king", "a", "日本 x", plays.text("test")[:900]],
    )
    for text in texts:
        ids = tokenizer.encode(text)[-model.max_len :]
        blocks, logits = inner(model, ids)
        for n, block in enumerate(blocks):
            head, t = (n + 1) % model.config.n_heads, [0, len(ids) // 2, len(ids) - 1, 1][n % 4] % len(ids)
            found = page.evaluate(OPEN, [MODEL.name, {"text": text, "place": t, "block": n, "head": head}])
            assert ids_of(found) == ids.tolist() and found["t"] == t
            for name in (*PARTS, "after"):
                own = block[name][t]
                near(found["vectors"][name], own[head * d : (head + 1) * d] if name in "q k v heads".split() else own)
            q, k = (block[name].unflatten(1, (-1, d))[:, head] for name in "qk")
            near(found["scores"], (q[t] @ k[: t + 1].T) / d**0.5)
            near(found["weights"], block["weights"][head, t, : t + 1], 1e-4)
            for part, (whose, adds, total) in zip(found["parts"], steps(blocks), strict=True):
                near(part["adds"], whose[adds][t])
                near(part["sum"], whose[total][t])
            near(found["logits"], logits[t])


def test_every_number_can_be_asked_and_names_its_file_and_line(page):
    found = page.evaluate(ASKED)
    assert {name for name, *_ in found} == {*ORIGINS} - {"random"} and len(found) > 80
    for name, told, has_formula in found:
        file, line, _ = ORIGINS[name].place()
        assert f"{file}, line {line}" in told and has_formula, name
    page.get_by_role("button", name="Draw the next token").click()
    page.locator(".chance .number").click()
    file, line, _ = ORIGINS["random"].place()
    assert f"{file}, line {line}" in page.locator(".panel").inner_text()
    page.get_by_role("radio", name="block 2").check(force=True)
    page.locator('[data-vector="x"] .number').click()
    page.locator(".panel").filter(has_text=ORIGINS["after"].title).wait_for()


def test_keys_go_from_number_to_number_and_ask(page):
    panel, focused = page.locator(".panel"), "document.activeElement"
    page.locator(".found td.number").first.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    assert page.evaluate(f"[{focused}.dataset.from, {focused}.parentElement.rowIndex]") == ["weight", 2]
    page.keyboard.press("Enter")
    panel.filter(has_text="looks at").filter(has_text=ORIGINS["weight"].title).wait_for()
    page.keyboard.press("Escape")
    assert not panel.is_visible() and page.evaluate(f"{focused}.dataset.from") == "weight"
    page.locator('[data-vector="q"] .strip').focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    panel.filter(has_text="Number 3 of 40").wait_for()
    said = page.locator("section.inside [role=status]")
    page.get_by_role("radio", name="king").focus()
    page.keyboard.press("ArrowLeft")
    said.filter(has_text="Token 4 of 5").wait_for()
    page.wait_for_function("document.querySelectorAll('.found tbody tr').length === 4")
    assert page.evaluate(f"{focused}.name") == "place"


def test_it_draws_as_the_library_and_goes_back(page):
    model, tokenizer = halved(MODEL.name)
    ids = tokenizer.encode(alive.FIRST_WORDS)
    (wanted,) = generate(model, [ids.tolist()], 3, temperature=0)
    page.get_by_role("slider", name="temperature").press("Home")
    for n in range(3):
        page.get_by_role("button", name="Draw the next token").press("Enter")
        page.locator(".chips label").nth(len(ids) + n).wait_for()
    shown = page.locator(".chips small").all_inner_texts()
    assert [int(one) for one in shown] == ids.tolist() + wanted and page.locator(".chips .written").count() == 3
    assert "draws" in page.locator(".chance").inner_text()
    page.get_by_role("button", name="Back to my text").press("Enter")
    page.wait_for_function("!document.querySelector('.chips .written')")
    assert page.locator(".chance").inner_text() == ""
    question = {"text": "To be", "draw": True, "block": 0, "head": 0, "knobs": {"temperature": 1.5}}
    chance = page.evaluate(OPEN, [MODEL.name, question])["chance"]
    with torch.no_grad():
        probs = next_probs(model(tokenizer.encode("To be")[None])[0, -1], temperature=1.5)
    low = float(probs[: chance["id"]].sum())
    assert abs(chance["low"] - low) < 1e-4 and abs(chance["high"] - low - float(probs[chance["id"]])) < 1e-4
    assert chance["low"] - 1e-5 <= chance["random"] <= chance["high"] + 1e-5


def test_nothing_of_it_is_hard_to_see_or_to_reach(page):
    for width in (1200, 400):
        page.set_viewport_size({"width": width, "height": 900})
        page.locator(".found td.number").first.click()
        for theme in ("dark", "light"):
            page.emulate_media(color_scheme=theme)
            assert page.evaluate(MEASURE) == [], (width, theme)
        page.keyboard.press("Escape")
    for key in ("Shift+Tab", "Tab"):  # of the narrow page, which has all that the wide one has
        for _ in range(90):
            page.keyboard.press(key)
            page.evaluate(REACHED)
    assert [missed for missed in page.evaluate(MISSED) if "back-to-top" not in missed] == []


def test_a_finger_asks(chromium, address):
    context = patient(chromium, viewport={"width": 390, "height": 844}, has_touch=True)
    page = opened(context.new_page(), address)
    page.locator('[data-vector="q"] .strip').tap()
    told = page.locator(".panel").inner_text()
    assert ORIGINS["q"].title in told and re.search("Number (20|21) of 40", told)  # its middle was touched
    page.get_by_role("button", name="Close").tap()
    assert not page.locator(".panel").is_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    context.close()


def test_the_page_answers_meanwhile(chromium, page, tmp_path):
    """No task of the main thread takes 50 ms of a processor: a text as long as it can read is opened and drawn on."""
    chromium.start_tracing(page=page, path=tmp_path / "trace.json", categories=["toplevel", "devtools.timeline"])
    page.locator(".typed").evaluate(
        "(box, text) => { box.value = text; box.dispatchEvent(new Event('input', { bubbles: true })); }",
        plays.text("test")[:1000],
    )
    said = page.locator("section.inside [role=status]")
    said.filter(has_text="Token 128 of 128").wait_for()
    page.get_by_role("button", name="Draw the next token").click()
    said.filter(has_text="Drawn:").wait_for()
    chromium.stop_tracing()
    events = json.loads((tmp_path / "trace.json").read_text(encoding="utf-8"))["traceEvents"]
    main = {(one["pid"], one["tid"]) for one in events if one["args"].get("name") == "CrRendererMain"}
    tasks = [one for one in events if one["name"].endswith("RunTask") and (one["pid"], one["tid"]) in main]
    assert len(tasks) > 20
    assert max(task.get("tdur", 0) for task in tasks) / 1000 < 50


def test_where_no_model_can_answer_a_sentence_stands_and_the_formulas(chromium, address):
    with watched_page(chromium, is_from_disk, []) as page:
        page.add_init_script("delete globalThis.Worker")
        page.goto(address)
        page.get_by_text("this browser gives a page no worker").wait_for()
        assert page.get_by_text("Elsewhere the formulas below stand for it").is_visible()
        assert not page.locator("section.inside form").is_visible()
    context = patient(chromium, java_script_enabled=False)
    page = context.new_page()
    page.goto(address)
    assert page.get_by_text("Elsewhere the formulas below stand for it").is_visible()
    assert page.locator(".origin").count() == len(ORIGINS) and page.locator(".origin").last.is_visible()
    assert not page.locator("section.inside").is_visible()
    context.close()
