"""The digest of the code that an experiment ran: its own text, and the library's that it reaches, name by name.

From the experiment's function every name that it uses is followed: to what its own module defines, to what that
imports from course_lib, and so on. Each definition that is reached is hashed by its name and its text, and not by the
module in which it stands: a function that moves to another file makes no run stale. Docstrings, comments and calls
that only refuse (`_check_...(...)` on a line of its own) are left out, since they change no number, and so is
`@experiment(...)`, which says what is to be recorded. So a changed `attend` makes stale what rests on `attend`, and
nothing else.
"""

import ast
import hashlib
from functools import cache
from pathlib import Path

PACKAGE = "course_lib"
ROOT = Path(__file__).resolve().parents[3]


def digest(module: str, name: str, files: tuple[str, ...] = (), root: Path = ROOT) -> str:
    """Twelve hex digits for what `name` of `module` (course_lib.workshop.experiments.x) computes with.

    files: what else it reads, paths below the checkout (a stored model). Raises LookupError for a name that is not in
    the module, FileNotFoundError for a file that is not there.
    """
    found = hashlib.sha256()
    texts = reached(module, name, root)
    for part, text in sorted((place.rpartition(":")[2], text) for place, text in texts.items()):
        found.update(f"{part}\n{text}\n".encode())
    for file in sorted(files):
        found.update(hashlib.sha256((root / file).read_bytes()).digest())
    return found.hexdigest()[:12]


def reached(module: str, name: str, root: Path = ROOT) -> dict[str, str]:
    """Every definition that `name` of `module` rests on: "module:name" -> its code as `_text` tells it."""
    if name not in _definitions(module, root):
        raise LookupError(f"{module} defines no {name}: an experiment is a function at the top of its module.")
    texts, waiting = {}, [(module, name)]
    while waiting:
        module, name = waiting.pop()
        key = f"{module}:{name}"
        if key in texts:
            continue
        defined = _definitions(module, root).get(name)
        if defined is None:  # a module as a whole, or a name that a package hands on
            waiting += _handed_on(module, name, root)
            continue
        nodes, used = defined
        texts[key] = "\n".join(nodes)
        for other, of_it in used:
            if other in _definitions(module, root):
                waiting.append((module, other))
            elif other in _imported(module, root):
                base, what = _imported(module, root)[other]
                waiting.append((base, of_it if what == "*" and of_it else what))
    return texts


def _handed_on(module: str, name: str, root: Path) -> list[tuple[str, str]]:
    """Where `name` of a module lies that does not define it: imported from elsewhere, or all of a module."""
    if name == "*":
        return [(module, other) for other in _definitions(module, root)]
    if name in _imported(module, root):
        return [_imported(module, root)[name]]
    inner = f"{module}.{name}"
    return [(inner, "*")] if _path(inner, root) else []


def _path(module: str, root: Path) -> Path | None:
    place = root.joinpath(*module.split("."))
    return next((path for path in (place.with_suffix(".py"), place / "__init__.py") if path.is_file()), None)


@cache
def _tree(module: str, root: Path) -> ast.Module:
    path = _path(module, root)
    tree = ast.parse(path.read_text(encoding="utf-8")) if path else ast.Module([], [])
    return _Bare().visit(tree)


class _Bare(ast.NodeTransformer):
    """Takes away what computes nothing: docstrings, lines that only call a `_check...`, and `@experiment(...)`."""

    def visit_FunctionDef(self, node):
        node.decorator_list = [one for one in node.decorator_list if _called(one) != "experiment"]
        return self.generic_visit(node)

    def visit_Expr(self, node):
        value = node.value
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            return None
        if _called(value).startswith(("_check", "check_")):
            return None
        return self.generic_visit(node)


def _called(node: ast.AST) -> str:
    """The last part of the name that is called; "" for what is no call."""
    if not isinstance(node, ast.Call):
        return ""
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


@cache
def _definitions(module: str, root: Path) -> dict[str, tuple[list[str], set[tuple[str, str]]]]:
    """Name -> the code that defines it (a name may be set more than once), and the names that this code uses.

    A use is (name, what is taken of it): ("plays", "text") for plays.text, ("attend", "") for attend.
    """
    found: dict[str, tuple[list[str], set[tuple[str, str]]]] = {}
    for node in _tree(module, root).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names = {node.name}
        elif isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = {part.id for target in targets for part in ast.walk(target) if isinstance(part, ast.Name)}
        else:
            continue
        for name in names:
            texts, uses = found.setdefault(name, ([], set()))
            texts.append(_text(node))
            uses |= {use for use in _used(node) if use[0] not in names}
    return found


def _text(node) -> str:
    """The code of a node, the same on every Python (ast.dump has another form in some), wherever its names lie."""
    if isinstance(node, list):
        return f"[{' '.join(_text(part) for part in node if not isinstance(part, ast.Import | ast.ImportFrom))}]"
    if not isinstance(node, ast.AST):
        return repr(node)
    skipped = {"ctx", "kind", "type_comment", "type_params"}
    fields = [(name, value) for name, value in ast.iter_fields(node) if name not in skipped and value not in (None, [])]
    return f"({type(node).__name__} {' '.join(f'{name}={_text(value)}' for name, value in fields)})"


def _used(node: ast.AST) -> set[tuple[str, str]]:
    found, taken = set(), set()
    for part in ast.walk(node):
        if isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name):
            found.add((part.value.id, part.attr))
            taken.add(part.value)
        elif isinstance(part, ast.Name) and part not in taken:
            found.add((part.id, ""))
    return found


@cache
def _imported(module: str, root: Path) -> dict[str, tuple[str, str]]:
    """Name -> the module of course_lib and the name there; "*" for a whole module. Imports inside functions too."""
    found = {}
    path = _path(module, root)
    package = module if path and path.name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(_tree(module, root)):
        if isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*above, *filter(None, [base])])
            if base.split(".")[0] != PACKAGE:
                continue
            for alias in node.names:
                whole = _path(f"{base}.{alias.name}", root)
                where = (f"{base}.{alias.name}", "*") if whole else (base, alias.name)
                found[alias.asname or alias.name] = where
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == PACKAGE and alias.asname:
                    found[alias.asname] = (alias.name, "*")
    return found
