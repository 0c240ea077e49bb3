"""bertviz in a frame that needs no network: its scripts, d3 and jQuery come from installed packages.

All that comes from outside travels as compressed base64, so no token can be read as HTML. The frame's own rules forbid
every request, and its sandbox keeps it away from the notebook.
"""

import base64
import gzip
import html
import json
from importlib.util import find_spec
from pathlib import Path

SCRIPTS = (("sphinxcontrib.jquery", "jquery.js"), ("mpld3", "js/d3.v5.min.js"))
# bertviz asks require.js for its two libraries; here they are already loaded.
REQUIRE = "var require = {config() {}}; function requirejs(names, run) { run(jQuery, d3); }"
# Below zero and above zero as in the course's plots; bertviz has orange for below.
COLOURS = {"#ff6318": "#542788", "#0c36d8": "#B35806"}

PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>%(title)s</title>
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'">
<style>html{color-scheme:light;background:white;color:#1F2933;font:15px "DejaVu Sans",Helvetica,Arial,sans-serif}
body{margin:8px}#view{max-width:%(width)dpx}label{margin-right:1em;user-select:none}select{font:inherit;height:26px}
#menus{height:34px}#menus:empty{height:0}
#vis svg{display:block;overflow:visible;width:100%%;height:auto;aspect-ratio:%(width)d/%(height)d}
:focus-visible{outline:2px solid #C65102}</style></head>
<body><div id="view"><div id="menus">%(menus)s</div><div id="vis"></div></div>
<script>(async () => {
const packed = "data:application/gzip;base64,%(packed)s";
const bytes = Uint8Array.from(atob(packed.split(",")[1]), c => c.charCodeAt(0));
const script = document.createElement("script");
try {
  const unpacked = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  script.textContent = await new Response(unpacked).text();
} catch (error) {
  document.getElementById("vis").textContent = "This browser cannot unpack the view. The picture says the same.";
}
document.body.append(script);
})();</script></body></html>"""

# What bertviz draws for a mouse, made reachable by keyboard and named for a screen reader. A drawing wider than its
# frame is shown smaller, not cut, and so is a long token. Neither asks how large the frame is: when this runs, a frame
# in a closed fold, or on a busy machine, may have no size yet, and no event need tell of the first one that it gets.
REACH = """(() => {
const vis = document.getElementById("vis"), pen = document.createElement("canvas").getContext("2d");
const fire = (node, kind) => node.dispatchEvent(new MouseEvent(kind, {bubbles: kind !== "mouseleave"}));
const all = selector => [...vis.querySelectorAll(selector)];
function reachable(node, role, name, press, leave) {
  if (node.tabIndex === 0) return;
  node.setAttribute("tabindex", 0); node.setAttribute("role", role); node.setAttribute("aria-label", name);
  if (leave) {
    node.addEventListener("focus", () => fire(node.querySelector("text"), "mouseover"));
    node.addEventListener("blur", () => fire(leave, "mouseleave"));
  }
  if (press) node.addEventListener("keydown", event => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    fire(press, "click");
  });
}
function reach() {
  all("svg > g:last-of-type:not([id]) > rect").forEach((square, head) => {
    if (bertviz_params.kind !== "head") return;
    reachable(square, "checkbox", "head " + head, square);
    square.setAttribute("aria-checked", Boolean(square.__data__));
  });
  for (const side of all("#left, #right"))
    for (const token of side.querySelectorAll(":scope > g:not(.attentionBoxes) > g"))
      reachable(token, "img", "token " + token.textContent, null, side);
  for (const token of all("#leftText > g"))
    reachable(token, "button", "query " + token.textContent, token.querySelector("rect:last-of-type"), token);
  all(".attn_background").forEach((square, i) => {
    const heads = bertviz_params.include_heads, layers = bertviz_params.include_layers;
    const name = "layer " + layers[Math.floor(i / heads.length)] + ", head " + heads[i % heads.length];
    reachable(square.parentNode.lastChild, "button", name, square.parentNode.lastChild);
  });
}
function shorten() {
  const room = {head: 100, model: 74, neuron: 92}[bertviz_params.kind];
  for (const text of all("#left text, #right text, text.token")) {
    pen.font = getComputedStyle(text).font;
    if (text.hasAttribute("textLength") || pen.measureText(text.textContent).width <= room) continue;
    text.setAttribute("textLength", room);
    text.setAttribute("lengthAdjust", "spacingAndGlyphs");
  }
}
function drawn() {
  vis.querySelector("svg").setAttribute("viewBox", bertviz_params.view_box);
  reach(); shorten();
}
if (bertviz_params.kind === "neuron") {
  document.querySelectorAll("#layer option").forEach((option, i) => option.text = bertviz_params.include_layers[i]);
  fire(vis.querySelector("#collapsed #leftText rect:last-of-type"), "click");
}
drawn();
new MutationObserver(drawn).observe(vis, {childList: true, subtree: true});
addEventListener("click", reach);
})();"""


def framed(
    kind: str, params: dict, *, title: str, menus: dict[str, tuple[str, list[str]]], width: int, height: int
) -> str:
    """An <iframe> that shows bertviz's `kind` view ("head" or "model") of `params`, whole, with no network.

    menus maps the id that bertviz looks for to a label and the options; none where bertviz fills them in.
    """
    script = _shipped("bertviz", f"{kind}_view.js").replace("PYTHON_PARAMS", "window.bertviz_params")
    for theirs, ours in COLOURS.items():
        script = script.replace(theirs, ours)
    params = {**params, "kind": kind, "root_div_id": "view", "view_box": f"0 0 {width} {height}"}
    libraries = [_shipped(package, path) for package, path in SCRIPTS]
    given = f"window.bertviz_params = {json.dumps(params, separators=(',', ':'))};"
    source = "\n".join([*libraries, REQUIRE, given, script, REACH])
    packed = base64.b64encode(gzip.compress(source.encode(), 9, mtime=0)).decode()  # the same bytes every time
    page = PAGE % {
        "title": html.escape(title),
        "width": width,
        "height": height,
        "packed": packed,
        "menus": "".join(_menu(name, *spec) for name, spec in menus.items()),
    }
    return (
        f'<iframe title="{html.escape(title)}" sandbox="allow-scripts" srcdoc="{html.escape(page)}" '
        f'style="border:0;border-radius:4px;background:white;color-scheme:light;width:{width + 16}px;'
        f'max-width:100%;height:{height + (34 if menus else 0) + 16}px"></iframe>'
    )


def _menu(name: str, label: str, options: list[str]) -> str:
    choices = "".join(f'<option value="{i}">{html.escape(option)}</option>' for i, option in enumerate(options))
    return f'<label>{label}: <select id="{name}">{choices}</select></label>'


def _shipped(package: str, path: str) -> str:
    """A file of an installed package, read without importing it."""
    try:
        found = find_spec(package)
    except ModuleNotFoundError:  # a parent package is missing too
        found = None
    file = found and Path(found.submodule_search_locations[0]) / path
    if not file or not file.is_file():
        raise ModuleNotFoundError(
            f"The attention views need {path} of the package {package}, which is not installed "
            "as the course pins it: run make lab again, or pip install -e . in the course."
        )
    return file.read_text(encoding="utf-8")
