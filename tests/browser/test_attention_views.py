"""Attention views in a browser: drawn, whole and moving, in an exported page and in a live notebook, offline."""

import os
import re
import secrets
import socket
import subprocess
import sys
import time
import urllib.request

import nbformat
import pytest
import torch

from course_lib.attention_views import head_view, model_view, neuron_view
from course_lib.plots import token_label
from course_lib.publish.normalise import KERNEL

WORDS = "The animal did n't cross the street because it was too tired .".split()
UNRULY = ["<b>bold</b>", "</script>", "<img src=x onerror=alert(1)>", "&amp;", "\"'`", "שלום", "😀👩‍👧", "", " a\n",
          "$x$", "\u202ex", "WWWWWWWWWWWW", "a"]
LAYERS, HEADS = 3, 4
KINDS = ["head", "model", "neuron"]

# What a person sees in the frame: shapes that have a size and a colour, and whether all of them lie inside it.
SEEN = """() => {
  const seen = [...document.querySelectorAll("svg line, svg rect, svg path, svg text")].filter(node => {
    const style = getComputedStyle(node), box = node.getBoundingClientRect();
    let strength = 1;
    for (let up = node; up instanceof Element; up = up.parentElement) strength *= getComputedStyle(up).opacity;
    strength *= node.tagName === "line" ? style.strokeOpacity : 1;
    return style.visibility === "visible" && strength > 0.02 && box.width + box.height > 1;
  });
  const boxes = seen.map(node => node.getBoundingClientRect());
  const most = (side, of) => of.apply(null, boxes.map(box => box[side]));
  return {
    lines: seen.filter(node => node.tagName === "line").length,
    shapes: seen.filter(node => node.tagName === "rect").length,
    tokens: seen.filter(node => node.tagName === "text").map(node => node.textContent),
    left: most("left", Math.min), top: most("top", Math.min),
    right: innerWidth - most("right", Math.max), bottom: innerHeight - most("bottom", Math.max),
    scrolls: [document.scrollingElement.scrollWidth - innerWidth, document.scrollingElement.scrollHeight - innerHeight],
  };
}"""


@pytest.fixture(autouse=True)
def quiet(console_errors):
    """No page of these tests writes an error to the console."""
    yield
    assert console_errors == []


def random(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(1, HEADS, *shape, generator=generator) for _ in range(LAYERS)]


def make(kind, tokens=WORDS):
    size = len(tokens)
    if kind == "neuron":
        return neuron_view(random(size, 16), random(size, 16, seed=1), tokens)
    weights = [(2 * scores).softmax(-1) for scores in random(size, size)]
    return {"head": head_view, "model": model_view}[kind](weights, tokens)


def export(view, folder, theme="light"):
    """The view as the output of a cell, exported to HTML by nbconvert; what nbconvert itself would load is left out."""
    from nbconvert import HTMLExporter

    elsewhere = ["mathjax_url", "require_js_url", "jquery_url", "widget_renderer_url", "mermaid_js_url"]
    exporter = HTMLExporter(theme=theme, **dict.fromkeys(elsewhere, "data:text/javascript,"))
    body, _ = exporter.from_notebook_node(stored(view))
    file = folder / "page.html"
    file.write_text(body, encoding="utf-8")
    return file.as_uri()


def stored(view):
    """A notebook with one executed cell that shows the view."""
    data = {"text/html": view._repr_html_(), "text/plain": repr(view)}
    output = nbformat.v4.new_output("execute_result", data=data, execution_count=1)
    notebook = nbformat.v4.new_notebook(metadata={"kernelspec": KERNEL})
    notebook.cells = [nbformat.v4.new_code_cell("view", outputs=[output], execution_count=1)]
    return notebook


def frame_of(page):
    """The document in the view's frame, once it is drawn."""
    page.locator("iframe").wait_for(timeout=90_000)
    frame = page.locator("iframe").element_handle().content_frame()
    frame.locator("svg [role]").first.wait_for(state="attached")
    return frame


def whole(frame):
    """What is seen, once the page has come to rest; fails if anything is cut."""
    for _ in range(20):
        seen = frame.evaluate(SEEN)
        if min(seen[side] for side in ("left", "top", "right", "bottom")) >= 0 and max(seen["scrolls"]) <= 0:
            return seen
        frame.page.wait_for_timeout(100)
    raise AssertionError(f"cut: {seen}")


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_an_exported_page_draws_it_whole(page_from_disk, tmp_path, kind, theme):
    page_from_disk.goto(export(make(kind), tmp_path, theme))
    seen = whole(frame_of(page_from_disk))
    assert seen["shapes" if kind == "neuron" else "lines"] > 100
    assert kind == "model" or [token for token in seen["tokens"] if token in WORDS] == WORDS + WORDS
    assert seen["bottom"] < 40, "the frame is higher than what it shows"
    stills = page_from_disk.locator(".attention-still img")
    assert stills.count() >= 1
    for still in stills.all():
        assert still.evaluate("image => image.naturalWidth > 100 && image.getBoundingClientRect().width > 100")


def test_a_frame_is_white_in_a_dark_page(page_from_disk, tmp_path, kind):
    page_from_disk.emulate_media(color_scheme="dark")
    page_from_disk.goto(export(make(kind), tmp_path, "dark"))
    colours = frame_of(page_from_disk).evaluate(
        "[getComputedStyle(document.documentElement).backgroundColor, getComputedStyle(document.body).color]")
    assert colours == ["rgb(255, 255, 255)", "rgb(31, 41, 51)"]


def test_a_narrow_page_shows_it_smaller_not_cut(page_from_disk, tmp_path, kind):
    page_from_disk.set_viewport_size({"width": 420, "height": 700})
    page_from_disk.goto(export(make(kind, UNRULY), tmp_path))
    whole(frame_of(page_from_disk))


def test_unruly_tokens_are_read_not_run(page_from_disk, tmp_path, kind):
    dialogs = []
    page_from_disk.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
    page_from_disk.goto(export(make(kind, UNRULY), tmp_path))
    frame = frame_of(page_from_disk)
    if kind == "model":
        frame.locator("[role=button]").last.click()
    seen = whole(frame)
    shown = [token_label(token) for token in UNRULY]
    assert [token for token in seen["tokens"] if token in shown] == shown + shown
    assert frame.locator("b, img").count() == 0 and page_from_disk.locator("figure b").count() == 0
    assert dialogs == []


def opacities(frame):
    lines = "[...document.querySelectorAll('#attention line')]"
    return frame.evaluate(f"{lines}.map(line => +line.getAttribute('stroke-opacity'))")


def test_the_head_view_follows_the_pointer_the_squares_and_the_menu(page_from_disk, tmp_path):
    page_from_disk.goto(export(make("head"), tmp_path))
    frame = frame_of(page_from_disk)
    before = frame.evaluate(SEEN)["lines"]
    frame.locator("#left text", has_text="because").hover()
    assert 0 < frame.evaluate(SEEN)["lines"] <= HEADS * len(WORDS) < before
    frame.locator("#menus").hover()
    assert frame.evaluate(SEEN)["lines"] == before

    weights = torch.cat([(2 * scores).softmax(-1) for scores in random(len(WORDS), len(WORDS))])
    torch.testing.assert_close(torch.tensor(opacities(frame)), weights[0].flatten() / HEADS, atol=1e-3, rtol=0)
    frame.get_by_label("Layer").select_option("2")
    torch.testing.assert_close(torch.tensor(opacities(frame)), weights[2].flatten() / HEADS, atol=1e-3, rtol=0)

    frame.get_by_role("checkbox", name="head 1").click()
    assert frame.get_by_role("checkbox", name="head 1").get_attribute("aria-checked") == "false"
    lit = torch.tensor(opacities(frame)).view(HEADS, -1).sum(1)
    assert [bool(one) for one in lit] == [True, False, True, True]


def test_the_model_view_opens_the_head_that_is_clicked(page_from_disk, tmp_path):
    page_from_disk.goto(export(make("model"), tmp_path))
    frame = frame_of(page_from_disk)
    for layer in range(LAYERS):
        for head in range(HEADS):
            frame.get_by_role("button", name=f"layer {layer}, head {head}").press("Enter")
            seen = whole(frame)
            assert f"Layer {layer}, Head {head}" in seen["tokens"]
            assert [token for token in seen["tokens"] if token in WORDS] == WORDS + WORDS


def test_the_neuron_view_multiplies_where_the_pointer_is(page_from_disk, tmp_path):
    page_from_disk.goto(export(make("neuron"), tmp_path))
    frame = frame_of(page_from_disk)
    before = frame.evaluate(SEEN)["shapes"]
    frame.locator("#expanded #leftText text", has_text="street").hover()
    assert frame.evaluate(SEEN)["shapes"] > before + len(WORDS)
    query = random(len(WORDS), 16)[0][0, 0, WORDS.index("street")]
    expected = query * random(len(WORDS), 16, seed=1)[0][0, 0]
    shown = frame.evaluate("[...document.querySelectorAll('#product .element')].map(e => +e.dataset.value)")
    torch.testing.assert_close(torch.tensor(shown).view_as(expected), expected, atol=5e-3, rtol=0)
    frame.get_by_label("Layer").select_option("2")
    frame.get_by_label("Head").select_option("3")
    assert frame.locator("#expanded").get_attribute("visibility") == "visible"


def test_every_part_is_reached_by_keyboard(page_from_disk, tmp_path, kind):
    page_from_disk.goto(export(make(kind), tmp_path))
    frame = frame_of(page_from_disk)
    reached = []
    for _ in range(60):
        page_from_disk.keyboard.press("Tab")
        active = "document.activeElement.getAttribute('aria-label') || document.activeElement.id"
        reached.append(frame.evaluate(active))
        if kind == "neuron" and reached[-1] == "query street":
            assert frame.locator("#dotproducts").evaluate("node => node.style.opacity") == "1"
    wanted = {
        "head": ["layer", *(f"token {word}" for word in WORDS), *(f"head {head}" for head in range(HEADS))],
        "model": [f"layer {layer}, head {head}" for layer in range(LAYERS) for head in range(HEADS)],
        "neuron": ["layer", "att_head", *(f"query {word}" for word in WORDS)],
    }[kind]
    assert set(wanted) <= set(reached)


def test_the_frame_can_ask_for_nothing(page_from_disk, tmp_path, console_errors):
    page_from_disk.goto(export(make("head"), tmp_path))
    frame = frame_of(page_from_disk)
    answer = "fetch('data:text/plain,x').then(() => 'sent', () => 'refused')"
    assert frame.evaluate(answer) == "refused"
    assert frame.evaluate("(() => { try { return parent.document.title } catch { return 'refused' } })()") == "refused"
    assert all("Content Security Policy" in error for error in console_errors)
    console_errors.clear()


def test_a_browser_that_cannot_unpack_it_says_so(page_from_disk, tmp_path):
    page_from_disk.goto(export(make("head"), tmp_path))
    frame = page_from_disk.locator("iframe")
    frame.evaluate("frame => { frame.srcdoc = frame.srcdoc.replace('DecompressionStream', 'NotThere') }")
    page_from_disk.frame_locator("iframe").get_by_text("The picture says the same").wait_for()


# --- in JupyterLab


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """A JupyterLab of its own on this machine: (folder that it serves, address, token)."""
    root = tmp_path_factory.mktemp("lab")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    token = secrets.token_hex(16)
    folders = {f"JUPYTER_{name}_DIR": str(root / ".jupyter" / name.lower()) for name in ("CONFIG", "DATA", "RUNTIME")}
    server = subprocess.Popen(
        [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--ServerApp.ip=127.0.0.1",
         f"--ServerApp.port={port}", "--ServerApp.port_retries=0", f"--IdentityProvider.token={token}",
         f"--ServerApp.root_dir={root}", "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
         "--LabApp.news_url=None", "--LabApp.extension_manager=readonly", "--LanguageServerManager.autodetect=False"],
        env={**os.environ, **folders, "IPYTHONDIR": str(root / ".ipython"), "JUPYTER_PREFER_ENV_PATH": "1"},
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    address = f"http://127.0.0.1:{port}"
    try:
        for _ in range(120):
            try:
                urllib.request.urlopen(f"{address}/api?token={token}", timeout=5).close()
                break
            except OSError:
                assert server.poll() is None, "JupyterLab did not start"
                time.sleep(0.5)
        yield root, address, token
    finally:
        server.terminate()
        server.wait(20)


def open_notebook(page, lab, notebook):
    root, address, token = lab
    nbformat.write(notebook, root / "view.ipynb")
    page.goto(f"{address}/lab/tree/view.ipynb?token={token}&reset")
    page.locator(".jp-Notebook .jp-CodeCell").first.wait_for()


def test_a_live_notebook_draws_it_and_a_stored_one_shows_the_picture(page_offline, lab, kind):
    """Opened as somebody else's, a notebook shows the picture and keeps the frame back; run, it shows both."""
    view = make(kind)
    notebook = stored(view)
    notebook.cells[0].source = SOURCE.format(kind=kind)
    open_notebook(page_offline, lab, notebook)
    page = page_offline
    page.locator(".jp-OutputArea img").first.wait_for()
    assert [image.get_attribute("alt") for image in page.locator(".jp-OutputArea img").all()] == [
        still.alt for still in view.pictures]
    assert page.locator(".jp-OutputArea iframe").count() == 0

    page.get_by_text("Python 3 (ipykernel) | Idle").wait_for(timeout=90_000)
    page.get_by_text("Run", exact=True).first.click()
    page.get_by_role("menuitem", name=re.compile("^Run All Cells")).click()
    frame = frame_of(page)
    assert whole(frame)["shapes" if kind == "neuron" else "lines"] > 100
    assert page.locator(".attention-still img").count() == len(view.pictures)


SOURCE = """import torch
from course_lib.attention_views import head_view, model_view, neuron_view
torch.manual_seed(0)
tokens = "The animal did n't cross the street because it was too tired .".split()
vectors = [torch.randn(1, 4, 13, 16) for _ in range(3)]
weights = [(2 * torch.randn(1, 4, 13, 13)).softmax(-1) for _ in range(3)]
views = {{"head": lambda: head_view(weights, tokens), "model": lambda: model_view(weights, tokens),
         "neuron": lambda: neuron_view(vectors, vectors, tokens)}}
views["{kind}"]()"""
