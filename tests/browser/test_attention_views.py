"""Attention views in a browser: drawn, whole and moving, in an exported page and in a live notebook, offline."""

from functools import cache

import nbformat
import pytest
import torch

from course_lib.show.attention_views import head_view, model_view
from course_lib.show.letters import token_label
from course_lib.workshop.publish.normalise import KERNEL

from .lab import Notebook

WORDS = "The animal did n't cross the street because it was too tired .".split()
UNRULY = [
    "<b>bold</b>",
    "</script>",
    "<img src=x onerror=alert(1)>",
    "&amp;",
    "\"'`",
    "שלום",
    "😀👩‍👧",
    "",
    " a\n",
    "$x$",
    "\u202ex",
    "WWWWWWWWWWWW",
    "a",
]
LAYERS, HEADS = 3, 4
KINDS = ["head", "model"]

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
    weights = [(2 * scores).softmax(-1) for scores in random(size, size)]
    return {"head": head_view, "model": model_view}[kind](weights, tokens)


def export(view, folder, theme="light"):
    """The address of a page in `folder` with the view as the output of a cell."""
    file = folder / "page.html"
    file.write_text(exported(view, theme), encoding="utf-8")
    return file.as_uri()


@cache
def viewed(kind, unruly=False):
    return make(kind, UNRULY if unruly else WORDS)


@cache
def exported(view, theme):
    """The page as nbconvert writes it; what nbconvert itself would load is left out."""
    from nbconvert import HTMLExporter

    elsewhere = ["mathjax_url", "require_js_url", "jquery_url", "widget_renderer_url", "mermaid_js_url"]
    exporter = HTMLExporter(theme=theme, **dict.fromkeys(elsewhere, "data:text/javascript,"))
    body, _ = exporter.from_notebook_node(stored(view))
    return body


def stored(*views, sources=("",)):
    """A notebook of executed cells, each of which shows a view."""
    notebook = nbformat.v4.new_notebook(metadata={"kernelspec": KERNEL})
    for number, (view, source) in enumerate(zip(views, sources, strict=True), 1):
        data = {"text/html": view._repr_html_(), "text/plain": repr(view)}
        output = nbformat.v4.new_output("execute_result", data=data, execution_count=number)
        cell = nbformat.v4.new_code_cell(source, id=f"view-{number}", outputs=[output], execution_count=number)
        notebook.cells.append(cell)
    return notebook


def frame_of(place):
    """The document in the frame of a view, on a page or in a part of it, once it is drawn."""
    place.locator("iframe").wait_for()
    frame = place.locator("iframe").element_handle().content_frame()
    frame.locator("svg [role]").first.wait_for(state="attached")
    return frame


def whole(frame):
    """What is seen; fails if anything is cut, at any moment: there is nothing to wait for."""
    seen = frame.evaluate(SEEN)
    cut = min(seen[side] for side in ("left", "top", "right", "bottom")) < 0 or max(seen["scrolls"]) > 0
    assert not cut, f"cut: {seen}"
    return seen


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_an_exported_page_draws_it_whole(page_from_disk, tmp_path, kind, theme):
    page_from_disk.goto(export(viewed(kind), tmp_path, theme))
    seen = whole(frame_of(page_from_disk))
    assert seen["lines"] > 100
    assert kind == "model" or [token for token in seen["tokens"] if token in WORDS] == WORDS + WORDS
    assert seen["bottom"] < 40, "the frame is higher than what it shows"
    stills = page_from_disk.locator(".attention-still img")
    assert stills.count() >= 1
    for still in stills.all():
        assert still.evaluate("image => image.naturalWidth > 100 && image.getBoundingClientRect().width > 100")


def test_a_frame_is_white_in_a_dark_page(page_from_disk, tmp_path, kind):
    page_from_disk.emulate_media(color_scheme="dark")
    page_from_disk.goto(export(viewed(kind), tmp_path, "dark"))
    colours = frame_of(page_from_disk).evaluate(
        "[getComputedStyle(document.documentElement).backgroundColor, getComputedStyle(document.body).color]"
    )
    assert colours == ["rgb(255, 255, 255)", "rgb(31, 41, 51)"]


def test_a_narrow_page_shows_it_smaller_not_cut(page_from_disk, tmp_path, kind):
    page_from_disk.set_viewport_size({"width": 420, "height": 700})
    page_from_disk.goto(export(viewed(kind, True), tmp_path))
    whole(frame_of(page_from_disk))


def test_it_fits_its_frame_before_any_event_tells_of_a_new_size(page_from_disk, tmp_path, kind):
    """A frame out of sight, or on a busy machine, is told of its size late or never: the layout must not wait."""
    page_from_disk.add_init_script("addEventListener('resize', event => event.stopImmediatePropagation())")
    page_from_disk.goto(export(viewed(kind), tmp_path))
    frame = frame_of(page_from_disk)
    page_from_disk.set_viewport_size({"width": 420, "height": 700})
    whole(frame)


def test_it_is_whole_when_it_was_drawn_in_a_closed_fold(page_from_disk, tmp_path, kind):
    page_from_disk.set_viewport_size({"width": 420, "height": 700})
    address = export(viewed(kind, True), tmp_path)
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    page = page.replace("<figure", "<details><summary>More</summary><figure").replace(
        "</figure>", "</figure></details>"
    )
    (tmp_path / "page.html").write_text(page, encoding="utf-8")
    page_from_disk.goto(address)
    frame = page_from_disk.locator("iframe").element_handle().content_frame()
    frame.locator("svg [role]").first.wait_for(state="attached")
    page_from_disk.locator("summary").click()
    whole(frame)


def test_unruly_tokens_are_read_not_run(page_from_disk, tmp_path, kind):
    dialogs = []
    page_from_disk.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
    page_from_disk.goto(export(viewed(kind, True), tmp_path))
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
    page_from_disk.goto(export(viewed("head"), tmp_path))
    frame = frame_of(page_from_disk)
    before = frame.evaluate(SEEN)["lines"]
    assert HEADS * len(WORDS) < before
    frame.locator("#left text", has_text="because").hover()
    frame.wait_for_function(f"() => {{ const n = ({SEEN})().lines; return n > 0 && n <= {HEADS * len(WORDS)}; }}")
    frame.locator("#menus").hover()
    frame.wait_for_function(f"() => ({SEEN})().lines === {before}")

    weights = torch.cat([(2 * scores).softmax(-1) for scores in random(len(WORDS), len(WORDS))])
    torch.testing.assert_close(torch.tensor(opacities(frame)), weights[0].flatten() / HEADS, atol=1e-3, rtol=0)
    frame.get_by_label("Layer").select_option("2")
    torch.testing.assert_close(torch.tensor(opacities(frame)), weights[2].flatten() / HEADS, atol=1e-3, rtol=0)

    frame.get_by_role("checkbox", name="head 1").click()
    assert frame.get_by_role("checkbox", name="head 1").get_attribute("aria-checked") == "false"
    lit = torch.tensor(opacities(frame)).view(HEADS, -1).sum(1)
    assert [bool(one) for one in lit] == [True, False, True, True]


def test_the_model_view_opens_the_head_that_is_clicked(page_from_disk, tmp_path):
    page_from_disk.goto(export(viewed("model"), tmp_path))
    frame = frame_of(page_from_disk)
    for layer in range(LAYERS):
        for head in range(HEADS):
            frame.get_by_role("button", name=f"layer {layer}, head {head}").press("Enter")
            seen = whole(frame)
            assert f"Layer {layer}, Head {head}" in seen["tokens"]
            assert [token for token in seen["tokens"] if token in WORDS] == WORDS + WORDS


def test_every_part_is_reached_by_keyboard(page_from_disk, tmp_path, kind):
    page_from_disk.goto(export(viewed(kind), tmp_path))
    frame = frame_of(page_from_disk)
    reached = []
    for _ in range(60):
        page_from_disk.keyboard.press("Tab")
        active = "document.activeElement.getAttribute('aria-label') || document.activeElement.id"
        reached.append(frame.evaluate(active))
    wanted = {
        "head": ["layer", *(f"token {word}" for word in WORDS), *(f"head {head}" for head in range(HEADS))],
        "model": [f"layer {layer}, head {head}" for layer in range(LAYERS) for head in range(HEADS)],
    }[kind]
    assert set(wanted) <= set(reached)


def test_the_frame_can_ask_for_nothing(page_from_disk, tmp_path, console_errors):
    page_from_disk.goto(export(viewed("head"), tmp_path))
    frame = frame_of(page_from_disk)
    answer = "fetch('data:text/plain,x').then(() => 'sent', () => 'refused')"
    assert frame.evaluate(answer) == "refused"
    assert frame.evaluate("(() => { try { return parent.document.title } catch { return 'refused' } })()") == "refused"
    assert all("Content Security Policy" in error for error in console_errors)
    console_errors.clear()


def test_a_browser_that_cannot_unpack_it_says_so(page_from_disk, tmp_path):
    page_from_disk.goto(export(viewed("head"), tmp_path))
    frame = page_from_disk.locator("iframe")
    frame.evaluate("frame => { frame.srcdoc = frame.srcdoc.replace('DecompressionStream', 'NotThere') }")
    page_from_disk.frame_locator("iframe").get_by_text("The picture says the same").wait_for()


# --- in JupyterLab


@pytest.mark.full  # test_lessons_in_lab.py sees that a stored view of a lesson moves where a kernel runs
def test_a_live_notebook_draws_them_and_a_stored_one_shows_the_pictures(page_offline, lab):
    """Opened as somebody else's, a notebook shows the pictures and keeps the frames back; run, it shows both."""
    views, path = [make(kind) for kind in KINDS], lab.folder / "views.ipynb"
    nbformat.write(stored(*views, sources=[SOURCE.format(kind=kind) for kind in KINDS]), path)
    page_offline.goto(f"{lab.address}/lab/tree/views.ipynb?token={lab.token}&reset")
    notebook = Notebook(page_offline, path)
    for name, view in zip(notebook.cells, views, strict=True):
        cell = notebook.cell(name)
        cell.scroll_into_view_if_needed()
        cell.locator("img").first.wait_for()
        shown = [image.get_attribute("alt") for image in cell.locator("img").all()]
        assert shown == [still.alt for still in view.pictures]
        assert cell.locator("iframe").count() == 0

    notebook.run_many("Run All Cells", patience=90_000)
    for name, view in zip(notebook.cells, views, strict=True):
        cell = notebook.cell(name)
        cell.scroll_into_view_if_needed()
        assert whole(frame_of(cell))["lines"] > 100
        assert cell.locator(".attention-still img").count() == len(view.pictures)
    lab.end_kernels()


SOURCE = """import torch
from course_lib.show.attention_views import head_view, model_view
torch.manual_seed(0)
tokens = "The animal did n't cross the street because it was too tired .".split()
weights = [(2 * torch.randn(1, 4, 13, 13)).softmax(-1) for _ in range(3)]
views = {{"head": lambda: head_view(weights, tokens), "model": lambda: model_view(weights, tokens)}}
views["{kind}"]()"""
