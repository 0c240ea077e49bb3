"""The library's source in the notebook: the text that runs, its place, and the test that holds it right."""

import ast
import inspect
import re
import textwrap
from pathlib import Path

from course_lib.lesson.cards import emit
from course_lib.workshop.experiments.runs import slug_of

ROOT = Path(__file__).resolve().parents[2]  # the checkout, where the course is installed from one


def show_source(*objects, docstring: bool = True) -> None:
    """Show the source of functions, classes or methods of the course, each under its file, line and test.

    What only refuses bad input, a `check_shapes(...)` or another check on a line of its own, is left out: the listing
    is the formula. `docstring=False` leaves docstrings out, where a slide is short. Raises TypeError for what has no
    source in the course: builtins, other libraries, lambdas, objects typed in the notebook.
    """
    if not objects:
        raise TypeError("show_source needs a function, class or method of the course, e.g. show_source(rnn_step)")
    listings = [(heading(obj), code_of(obj, docstring)) for obj in objects]
    emit(
        "\n\n".join(f"{_bare(title)}\n\n{code}" for title, code in listings),
        markdown="\n\n".join(f"{title}\n\n{fenced(code)}" for title, code in listings),
        metadata={"source": [f"{inspect.unwrap(obj).__module__}:{obj.__qualname__}" for obj in objects]},
    )


def heading(obj) -> str:
    """The line above a listing, in Markdown: file · line · test; without the test where none is installed.

    In place of a test, a lesson's experiments and their parts name the record of what came out.
    """
    file, line = _located(obj)
    parts, record = [f"`{_relative(file)}`", f"line {line}"], _record_of(inspect.unwrap(obj).__module__)
    if record and (ROOT / record).is_file():
        parts.append(f"recorded in `{record}`")
    elif test := address_of_test(obj):
        parts.append(f"tested by `{test}`")
    return " · ".join(parts)


def _record_of(module: str) -> str:
    """Where the runs of a module of experiments are recorded; "" for another module."""
    return f"data/records/{slug_of(module)}.json" if ".experiments." in module else ""


def code_of(obj, docstring: bool = True) -> str:
    """The source text of `obj`, not indented, without what only refuses; without docstrings if `docstring` is false."""
    _located(obj)
    source = _without_refusals(source_of(obj))
    return source if docstring else _without_docstrings(source)


def source_of(obj) -> str:
    """The source text of any function or class that has one, not indented."""
    return textwrap.dedent(inspect.getsource(inspect.unwrap(obj))).rstrip()


def fenced(code: str) -> str:
    """`code` as a Markdown block, fenced by more backticks than it contains itself."""
    longest = max((len(run) for run in re.findall(r"`{3,}", code)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}python\n{code}\n{fence}"


def address_of_test(obj, root: Path | None = None) -> str:
    """The test that tells most of `obj`, as "tests/test_rnn.py::test_..."; its file if none does; "" if no file.

    A test says of itself what it tells of: its docstring begins with the names and a colon, as in "rnn_step: tanh(1)
    by hand." Where none does, it is the first test whose name has the object's, then the first that mentions it.
    """
    root = root or ROOT
    file = Path(_located(obj)[0])
    if not (root / "pyproject.toml").is_file():
        return ""  # installed without its tests; a "tests" folder here belongs to somebody else
    # The test of a package's file may bear the package's name: course_lib/data/plays.py, tests/test_data.py.
    for stem in (file.stem, file.parent.name):
        path = root / "tests" / f"test_{stem}.py"
        if path.is_file():
            return f"tests/{path.name}" + _test_in(path, obj.__qualname__)
    return ""


def _test_in(path, qualname):
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except SyntaxError:
        return ""
    tests = list(_tests(tree))
    parts = qualname.split(".")
    for name in dict.fromkeys((qualname, parts[0])):  # RNN.forward: what tells of it, else what tells of RNN
        if telling := [address for address, node in tests if name in _told(node)]:
            return telling[0]
    for name in reversed(parts):  # a test of forward, else a test of RNN
        if name.startswith("__"):
            continue
        word = re.compile(rf"(?<![a-z0-9]){re.escape(name)}(?![a-z0-9])")
        by_name = [address for address, node in tests if word.search(node.name)]
        by_body = [address for address, node in tests if name in _mentioned(node)]
        if by_name or by_body:
            return (by_name + by_body)[0]
    return ""


def _tests(tree, prefix="::"):
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test"):
            yield prefix + node.name, node
        elif isinstance(node, ast.ClassDef) and node.name.startswith("Test"):
            yield from _tests(node, f"{prefix}{node.name}::")


def _told(node):
    """The names before the first colon of a test's docstring: what it tells of."""
    names, colon, _ = (ast.get_docstring(node) or "").partition(":")
    return [name.strip() for name in names.split(",")] if colon else []


def _mentioned(node):
    names = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
    return names | {part.attr for part in ast.walk(node) if isinstance(part, ast.Attribute)}


def _located(obj):
    """File and first line of `obj`; TypeError in words where the course does not hold it."""
    plain = inspect.unwrap(obj) if callable(obj) else obj
    kind = type(obj).__name__
    if inspect.ismodule(obj):
        raise TypeError(f"show_source shows a function or class; name one of the module {obj.__name__}")
    if not (inspect.isfunction(plain) or inspect.ismethod(plain) or inspect.isclass(plain)):
        if type(obj).__module__.split(".")[0] == "course_lib":
            raise TypeError(f"this is an object of the class {kind}: write show_source({kind})")
        raise TypeError(f"show_source shows functions, classes and methods of the course; this is a {kind}")
    name = plain.__qualname__
    if "<lambda>" in name:
        raise TypeError("a lambda has no name to find it by: show_source needs a function made with def")
    module = plain.__module__ or ""
    if module == "__main__":
        raise TypeError(f"{name} was typed in this notebook, and can be read there; show_source is for the library")
    if not module.startswith("course_lib"):
        raise TypeError(f"{name} belongs to {module.split('.')[0] or 'Python'}, not to the course")
    return inspect.getsourcefile(plain), inspect.getsourcelines(plain)[1]


def _relative(file):
    """The file from the folder that holds course_lib on, so that no output names a folder of this machine."""
    parts = Path(file).parts
    last = len(parts) - 1 - parts[::-1].index("course_lib")
    return "/".join(parts[last:])


def _without_refusals(source):
    """Without the lines that only call a `_check...` or a `check_...`, the rule of experiments' digests."""
    lines, dropped = source.split("\n"), set()
    for node in ast.walk(ast.parse(source)):
        for block in (getattr(node, name, None) for name in ("body", "orelse", "finalbody")):
            refusing = [part for part in block if _only_refuses(part)] if isinstance(block, list) else []
            if refusing and len(refusing) < len(block):  # a block needs one line at least
                dropped.update(line for part in refusing for line in range(part.lineno - 1, part.end_lineno))
    return "\n".join(line for i, line in enumerate(lines) if i not in dropped)


def _only_refuses(node):
    called = node.value.func if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) else None
    name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
    return name.startswith(("_check", "check_"))


def _without_docstrings(source):
    lines, dropped, kept_open = source.split("\n"), set(), {}
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.FunctionDef | ast.ClassDef) or ast.get_docstring(node) is None:
            continue
        first = node.body[0]
        span = range(first.lineno - 1, first.end_lineno)
        if span[0] == node.lineno - 1:  # def f(): "on one line"
            continue
        dropped.update(span)
        if len(node.body) == 1:
            kept_open[span[0]] = " " * first.col_offset + "..."
        elif not lines[span[-1] + 1].strip():
            dropped.add(span[-1] + 1)  # the blank line that set the docstring off
    return "\n".join(kept_open.get(i, line) for i, line in enumerate(lines) if i not in dropped or i in kept_open)


def _bare(markdown):
    return markdown.replace("`", "")
