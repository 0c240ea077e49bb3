"""How Sphinx makes the pages. Everything they load is copied beside them: they open from disk, with no network."""

import os
from importlib.util import find_spec
from pathlib import Path

# One script that draws every formula as vector paths: no fonts, which browsers refuse to load from disk.
MATHJAX = Path(find_spec("sphinx-mathjax-offline").origin).parent / "static" / "mathjax" / "tex-svg.js"

project = "Unrolled"
language = "en"
extensions = ["myst_nb", "sphinx.ext.githubpages"]

myst_enable_extensions = ["amsmath", "attrs_block", "deflist", "dollarmath"]
nb_execution_mode = "off"
# Only where the course's place on GitHub is named: a button that fetches what runs a page's code, when it is pressed.
if os.environ.get("UNROLLED_REPOSITORY"):
    extensions.append("sphinx_thebe")
    thebe_config = {
        "repository_url": f"https://github.com/{os.environ['UNROLLED_REPOSITORY']}",
        "repository_branch": os.environ["UNROLLED_BRANCH"],
        "path_to_docs": "notebooks",
        "selector": "div.cell",
        "selector_input": "div.cell_input pre",
        "selector_output": "div.cell_output",
    }
nb_ipywidgets_js = {}  # controls move by moves.js; nothing asks for widget scripts
nb_code_prompt_show = "Show the code"
nb_code_prompt_hide = "Hide the code"

html_theme = "furo"
html_title = "Unrolled"
templates_path = ["templates"]
html_static_path = ["static", str(MATHJAX)]
html_css_files = ["course.css"]
html_js_files = [(name, {"defer": "defer"}) for name in ("course.js", "moves.js", "quiz.js", "alive.js")]
html_copy_source = False
html_show_copyright = False
html_use_index = False
html_show_search_summary = False  # summaries are read from the pages, which a browser refuses on disk
mathjax_path = "tex-svg.js"
mathjax3_config = {"options": {"enableMenu": False}}  # the menu would load scripts that are not here

# The colours of the plots, in a light and a dark form. Cards in the outputs read the names that begin with jp.
LIGHT = {
    "code-font-size": "78%",
    "color-brand-primary": "#1769AA",
    "color-brand-content": "#1769AA",
    "color-brand-visited": "#7A1F5C",
    "color-link-underline": "#9DC3E2",
    "color-link-underline--visited": "#C9A3BC",
    "color-foreground-primary": "#1F2933",
    "color-foreground-muted": "#5F6770",
    "color-code-background": "#F5F7F9",
    "color-inline-code-background": "#F0F3F6",
    "mystnb-source-bg-color": "#F5F7F9",
    "mystnb-source-border-color": "transparent",
    "mystnb-source-margin-color": "#9DC3E2",
    "mystnb-stdout-bg-color": "transparent",
    "mystnb-stdout-border-color": "transparent",
    "jp-success-color1": "#1B8A5A",
    "jp-error-color1": "#C62828",
    "jp-info-color1": "#1769AA",
    "jp-border-color1": "#8A939C",
    "jp-border-color2": "#D3D9DF",
    "jp-ui-font-color2": "#4A5560",
}
DARK = LIGHT | {
    "color-brand-primary": "#7CBDF2",
    "color-brand-content": "#7CBDF2",
    "color-brand-visited": "#D9A3C8",
    "color-link-underline": "#3B6E96",
    "color-link-underline--visited": "#86557A",
    "color-foreground-primary": "#DCE2E8",
    "color-foreground-muted": "#969FA8",
    "color-background-primary": "#14181D",
    "color-background-secondary": "#1A1F25",
    "color-code-background": "#1E242B",
    "color-inline-code-background": "#232A32",
    "mystnb-source-bg-color": "#1E242B",
    "mystnb-source-margin-color": "#3B6E96",
    "jp-success-color1": "#4FBF8B",
    "jp-error-color1": "#F08A80",
    "jp-info-color1": "#7CBDF2",
    "jp-border-color2": "#39424C",
    "jp-ui-font-color2": "#B3BDC7",
}
html_theme_options = {"light_css_variables": LIGHT, "dark_css_variables": DARK}

# Highlighting whose colours pass WCAG AA on their own backgrounds.
pygments_style = "a11y-high-contrast-light"
pygments_dark_style = "github-dark"
