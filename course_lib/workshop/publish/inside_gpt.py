"""The page "Inside a small GPT": the stored GPT lies open on the reader's own text, and each number says its origin.

The page computes in `pages/alive`. Where a number comes from is read off the library when the page is made: the file
and the line of the statement that computes it.
"""

import ast
import html
import inspect
import pkgutil
import textwrap
from dataclasses import dataclass
from pathlib import Path

from course_lib.lesson.sources import fenced
from course_lib.workshop.publish import alive
from course_lib.workshop.publish.measured import ROOT
from course_lib.workshop.recipes import plays
from course_lib.workshop.recipes.stored import load

MODEL = plays.GPT
TEXT = Path(__file__).with_name("pages") / "inside_gpt.md"


@dataclass(frozen=True)
class Origin:
    """Where a number comes from: what it is, its formula, and the statement of the library that computes it.

    of: "module:name" of a function or method, below course_lib; says: what the source of that statement begins with.
    """

    title: str
    formula: str
    of: str
    says: str

    def place(self) -> tuple[str, int, str]:
        """The statement's file below the checkout, its line, and its source, not indented.

        Raises ValueError, in words, where no statement of the function begins so; what `resolve_name` raises where
        there is no such function.
        """
        function = inspect.unwrap(pkgutil.resolve_name(f"course_lib.{self.of}"))
        lines, first = inspect.getsourcelines(function)
        tree = ast.parse(textwrap.dedent("".join(lines)))
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign | ast.AugAssign | ast.Return | ast.Expr):
                source = textwrap.dedent("".join(lines[node.lineno - 1 : node.end_lineno])).rstrip()
                if source.startswith(self.says):
                    file = Path(inspect.getsourcefile(function)).relative_to(ROOT).as_posix()
                    return file, first + node.lineno - 1, source
        raise ValueError(f"{self.of} has no statement that begins with `{self.says}`")


# By the name that the page's script has for the number.
ORIGINS = {
    "id": Origin(
        "A token's number",
        r"\text{text} \to \text{pieces} \to \text{bytes} \to \text{merges, the first learnt first} \to \text{numbers}",
        "text.bpe:BPE.encode",
        "self._known.keep(piece, [self._index",
    ),
    "token": Origin("The token's vector", r"E[\text{token}]", "language.gpt:GPT.forward", "x = self.tokens(ids)"),
    "place": Origin("The place's vector", r"P[\text{place}]", "language.gpt:GPT.forward", "x = self.dropout(x if"),
    "embedded": Origin(
        "The stream before the first block",
        r"x = E[\text{token}] + P[\text{place}]",
        "language.gpt:GPT.forward",
        "x = self.dropout(x if",
    ),
    "normed": Origin(
        "The stream, brought to one size",
        r"\text{norm}(x) = g \odot \frac{x - \text{mean}(x)}{\sqrt{\text{variance}(x) + \epsilon}} + s",
        "attention.norms:layer_norm",
        "return gain *",
    ),
    "q": Origin(
        "A query", r"q = \text{norm}(x)\, W_q + b_q", "attention.multi_head:MultiHead.forward", "q = self._turned("
    ),
    "k": Origin(
        "A key", r"k = \text{norm}(x)\, W_k + b_k", "attention.multi_head:MultiHead._seen", "k, v = (self.split"
    ),
    "v": Origin(
        "A value", r"v = \text{norm}(x)\, W_v + b_v", "attention.multi_head:MultiHead._seen", "k, v = (self.split"
    ),
    "score": Origin("A score", r"e_u = \frac{q \cdot k_u}{\sqrt{d}}", "attention.attention:attend", "scores = q @ k"),
    "weight": Origin(
        "A weight of attention",
        r"a_u = \frac{\exp(e_u)}{\sum_{w \le t} \exp(e_w)}",
        "attention.attention:masked_softmax",
        "weights = torch.softmax(",
    ),
    "heads": Origin(
        "What the head found", r"\sum_{u \le t} a_u v_u", "attention.attention:attend", "return weights.to("
    ),
    "attended": Origin(
        "What attention adds",
        r"\text{Concat}(\text{head}_1, \dots, \text{head}_H)\, W_o + b_o",
        "attention.multi_head:MultiHead.forward",
        "out = self.w_o(",
    ),
    "between": Origin(
        "The stream behind attention",
        r"x + \text{attention}(\text{norm}(x))",
        "attention.block:Block.forward",
        "x = x + self.dropout(self.attention(",
    ),
    "hidden": Origin(
        "The hidden units",
        r"\text{GELU}(\text{norm}(x)\, W_1 + b_1)",
        "attention.block:FeedForward.forward",
        "return self.w_2(",
    ),
    "thought": Origin(
        "What the feed-forward network adds",
        r"\text{GELU}(\text{norm}(x)\, W_1 + b_1)\, W_2 + b_2",
        "attention.block:FeedForward.forward",
        "return self.w_2(",
    ),
    "after": Origin(
        "The stream behind the block",
        r"x + \text{feedforward}(\text{norm}(x))",
        "attention.block:Block.forward",
        "return x + self.dropout(self.feed_forward(",
    ),
    "logit": Origin("A logit", r"\text{norm}(x) \cdot E[\text{token}]", "language.gpt:GPT.forward", "return F.linear("),
    "own": Origin(
        "A probability",
        r"p_i = \frac{\exp(\text{logit}_i)}{\sum_j \exp(\text{logit}_j)}",
        "language.generate:next_probs",
        "return logits.softmax(",
    ),
    "drawn": Origin(
        "A probability at a temperature",
        r"p_i = \frac{\exp(\text{logit}_i / \text{temperature})}{\sum_j \exp(\text{logit}_j / \text{temperature})}",
        "language.generate:next_probs",
        "logits = logits / temperature",
    ),
    "random": Origin(
        "The draw: each token by its probability",
        r"\begin{gathered} \text{page: the } i \text{ with }"
        r"\textstyle\sum_{j<i} p_j \le r < \textstyle\sum_{j \le i} p_j \\"
        r"\text{library: } \text{argmax}_i\ p_i / w_i,\quad w_i \sim \text{Exp}(1) \end{gathered}",
        "language.generate:_draw",
        "return (probs / waits",
    ),
}


def page(names: list[str]) -> str:
    """The page, as Markdown, beside the lessons of those file names; raises what `Origin.place` and `load` raise."""
    model, record = load(MODEL)
    (lesson,) = [name for name, cells in alive.LIVE.items() if any(live.model == MODEL for live in cells.values())]
    link = f"[lesson {lesson[:2]}]({lesson}.ipynb)" if f"{lesson}.ipynb" in names else f"lesson {lesson[:2]}"
    numbers = {"millions": f"{record['weights'] / 1e6:.1f} million", "origins": origins(), "form": form(model.config)}
    return TEXT.read_text(encoding="utf-8").format(lesson=link, **numbers)


def origins() -> str:
    """An entry for each kind of number: what it is, its formula, file, line and statement."""
    return "\n\n".join(_entry(key, origin) for key, origin in ORIGINS.items())


def _entry(key, origin):
    file, line, source = origin.place()
    return (
        f'```{{raw}} html\n<div class="origin" id="from-{key}">\n```\n\n**{origin.title}**\n\n'
        f"$$\n{origin.formula}\n$$\n\n`{file}`, line {line}\n\n{fenced(source)}\n\n```{{raw}} html\n</div>\n```"
    )


def form(config) -> str:
    """What stands open once the model is there, for a GPT of that configuration."""
    blocks = _choices("block", config.n_layers)
    heads = _choices("head", config.n_heads, '<canvas aria-hidden="true"></canvas>')
    whose, which = '<b class="whose"></b>', '<span class="which"></span>'
    d = config.d_model // config.n_heads
    stages = [
        _stage(
            "Tokens",
            f"The text is cut into tokens, pieces of words, each with its number in a vocabulary of "
            f"{config.vocab_size:,}. The last {config.max_len} are read. Choose one: all below happens at its place.",
            '<fieldset class="chips-of"><legend>The place that is opened</legend><div class="chips"></div></fieldset>',
            f'<p>{_asked("id", "Where do the numbers come from?")}</p>',
        ),
        _stage(
            "Embedding",
            f"{whose} has a row in a table of tokens, its place one in a table of places. Their sum, {config.d_model} "
            "numbers, is the residual stream, to which each block adds.",
            _vectors(token="its token", place="its place", embedded="the sum"),
        ),
        _stage(
            "One block, opened",
            "Each block adds twice: what attention finds, here and at earlier places, then what a feed-forward network "
            "makes of the sum.",
            f'<fieldset class="blocks"><legend>Which of the {config.n_layers} blocks</legend>{blocks}</fieldset>',
            "<h3>Attention</h3>",
            f'<fieldset class="heads"><legend>Which of its {config.n_heads} heads: a row for each token that looks, '
            f'a column for each that is looked at</legend><div style="--heads: {config.n_heads}">{heads}</div>'
            "</fieldset>",
            f"<p>In {which}, {whose} asks with a query and is found by a key; what is found is a value, {d} numbers "
            "each.</p>",
            _vectors(x="the stream", normed="its norm", q="query", k="key", v="value"),
            "<p>Its query meets the keys of all places up to its own. The softmax of the scores weighs their values."
            f"</p>{_table('found', f'Where {whose} looks most', 'token (place)', 'score', 'weight')}",
            _vectors(heads="weighted values", attended=f"{config.n_heads} heads, through W<sub>o</sub>",
                     between="the stream"),
            "<h3>Feed-forward network</h3>",
            f"<p>{4 * config.d_model if config.d_ff is None else config.d_ff} hidden units, at this place alone.</p>",
            _vectors(hidden="hidden units", thought="what it adds", after="the stream"),
        ),
        _stage(
            "The stream through all blocks",
            f"What each part adds at the place of {whose}, and how long the stream is behind it.",
            _table("stream", "Lengths", "part", "adds", "stream"),
        ),
        _stage(
            "The next token",
            "Behind the last block and a norm, the stream is compared with each token's row of the first table. These "
            f"are the most likely tokens behind {whose}; one is drawn behind the last token.",
            '<div class="knobs"><span><label for="inside-temperature">temperature</label>'
            '<input id="inside-temperature" data-knob="temperature" type="range" min="0" max="2" step="0.1" value="1">'
            '<output for="inside-temperature">1</output></span></div>',
            '<div class="buttons"><button>Draw the next token</button><button type="button" class="again">Back to my '
            'text</button></div><p class="chance"></p>',
            _table("nexts", "The next token", "token", "logit", "its own", "drawn from"),
        ),
    ]  # fmt: skip
    return f"""
<section class="alive inside" hidden data-model="{MODEL.name}" data-script="inside">
<button type="button" class="begin">Open it</button>
<form hidden><label for="inside-text">Your text</label>
<textarea id="inside-text" class="typed" rows="2" spellcheck="false" autocomplete="off">{alive.FIRST_WORDS}</textarea>
<p class="legend">A strip shows a vector, a field a number: <span class="above"></span> above zero,
<span class="below"></span> below; its length stands beside it. Arrow keys go from number to number.</p>
{"".join(f"<div class='stage'>{stage}</div>" for stage in stages)}
</form><div class="panel" role="region" aria-label="Where this number comes from" hidden><div class="asked"
aria-live="polite"></div><button type="button" class="close">Close</button></div>
<p role="status"></p></section>"""


def _stage(title, says, *parts):
    return f"<h2>{title}</h2><p>{says}</p>{''.join(parts)}"


def _choices(name, count, drawn=""):
    return "".join(
        f'<label><input type="radio" name="{name}" value="{n}"{"" if n else " checked"}>{drawn}<span>{name} {n + 1}'
        "</span></label>"
        for n in range(count)
    )


def _asked(key, words):
    return f'<button type="button" class="number" data-from="{key}">{html.escape(words)}</button>'


def _vectors(**names):
    """A strip for each vector, by the name that it has in the script."""
    rows = "".join(
        f'<div data-vector="{key}"><span>{name}</span><button type="button" class="strip" aria-label="the numbers of '
        f'{name.partition("<")[0]}, one after the other"><canvas></canvas></button>'
        '<button type="button" class="number">0</button></div>'
        for key, name in names.items()
    )
    return f'<div class="vectors">{rows}</div>'


def _table(kind, caption, *columns):
    head = "".join(f'<th scope="col">{column}</th>' for column in columns)
    return (
        f'<div class="{kind}"><table role="grid"><caption>{caption}</caption><thead><tr>{head}</tr></thead><tbody>'
        "</tbody></table></div>"
    )
