"""The look of everything that a lesson says: a card with a coloured bar, and the same in plain text.

Colours are JupyterLab's own variables, so that both themes work; after each comma stands the value for pages
that do not know them. Nothing depends on colour alone, nor on style at all: a page that drops styles (a
notebook not yet trusted, GitHub) still shows the same words.
"""

import html
import re

SYMBOL = {"good": "✓", "bad": "✗", "open": "○", "info": ""}
_BAR = {
    "good": "var(--jp-success-color1, #388e3c)",
    "bad": "var(--jp-error-color1, #d32f2f)",
    "open": "var(--jp-border-color1, #9e9e9e)",
    "info": "var(--jp-info-color1, #0288d1)",
}
QUIET = "color: var(--jp-ui-font-color2, inherit); font-size: 0.92em"


def prose(text: str) -> str:
    """`text` as HTML: escaped; `code` between backticks, *stress* between asterisks; line ends kept."""
    parts = re.split(r"`([^`\n]+)`", text)
    escaped = [html.escape(part, quote=False) for part in parts]
    # A stressed word follows a space, so that products such as 2*h*w stay as they are.
    escaped[::2] = [re.sub(r"(?<!\S)\*(\w[^*\n]*)\*(?!\w)", r"<em>\1</em>", part) for part in escaped[::2]]
    escaped[1::2] = [f"<code>{part}</code>" for part in escaped[1::2]]
    return "".join(escaped).replace("\n", "<br>")


def card(tone: str, title: str, *lines: str) -> str:
    """HTML of a card: a bold first line, then the other lines; `title` and `lines` are HTML already."""
    first = f"{SYMBOL[tone]} {title}".strip()
    body = "".join(f'<div style="margin-top: 0.2em">{line}</div>' for line in lines if line)
    return (
        f'<div style="border-left: 5px solid {_BAR[tone]}; padding: 0.35em 0.9em; margin: 0.35em 0; '
        f'line-height: 1.45; max-width: 62em; text-align: left"><div>{first}</div>{body}</div>'
    )


def printed(text: str) -> str:
    """HTML of text as a program printed it; long lines wrap, so that a slide cuts nothing."""
    style = "white-space: pre-wrap; margin: 0.2em 0; font-family: var(--jp-code-font-family, monospace)"
    return f'<pre style="{style}">{html.escape(text, quote=False)}</pre>'


def emit(
    plain: str,
    *,
    html: str = "",
    markdown: str = "",
    widget: dict | None = None,
    metadata: dict | None = None,
):
    """Show one output in all the forms it has; outside a notebook, print the plain one.

    `metadata` is stored with the output under the key "unrolled", for programs that read the notebook.
    """
    from IPython import get_ipython
    from IPython.display import display

    if get_ipython() is None:
        print(_sendable(plain))
        return
    texts = {"text/plain": plain, "text/html": html, "text/markdown": markdown}
    bundle = {**(widget or {}), **{kind: text for kind, text in texts.items() if text or kind == "text/plain"}}
    display(_sendable(bundle), raw=True, metadata=_sendable({"unrolled": metadata} if metadata else {}))


def _sendable(said):
    """`said`, a text or a dict or list of them, with half characters (lone surrogates) spelt out: none can be sent."""
    if isinstance(said, str):
        return said.encode("utf-8", "backslashreplace").decode()
    if isinstance(said, dict):
        return {_sendable(key): _sendable(value) for key, value in said.items()}
    return [_sendable(item) for item in said] if isinstance(said, list | tuple) else said
