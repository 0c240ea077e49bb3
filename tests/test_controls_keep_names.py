"""What a control draws is drawn when somebody moves it: no later cell may give another thing one of its names.

A notebook runs to its end, and then its controls are moved: a function of cell 20 that reads `pair` would by then read
the `pair` of cell 60.
"""

import ast
import symtable
from functools import cache

import nbformat
import pytest

from course_lib.workshop.publish import measured

NOTEBOOKS = measured.written()


@cache
def bound(source):
    """The names that a cell binds at its top."""
    table = symtable.symtable(source, "cell", "exec")
    return {it.get_name() for it in table.get_symbols() if it.is_assigned() or it.is_imported() or it.is_namespace()}


@cache
def imported(source):
    """The names that a cell binds by imports alone: they mean the same wherever they are imported."""
    table = symtable.symtable(source, "cell", "exec")
    return {it.get_name() for it in table.get_symbols() if it.is_imported() and not it.is_assigned()}


def read_by(table):
    """The global names that a function reads, in functions inside it too."""
    names = {it.get_name() for it in table.get_symbols() if it.is_global() and it.is_referenced()}
    return names.union(*(read_by(inner) for inner in table.get_children()))


def drawn_with(source):
    """What a cell hands to `explore`: (name, whether it is handed over itself), else it is read by a lambda, later."""
    for call in (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)):
        if getattr(call.func, "id", "") == "explore" and call.args:
            draw = call.args[0]
            yield from ((node.id, node is draw) for node in ast.walk(draw) if isinstance(node, ast.Name))


def lost(sources):
    """The names that a control reads when it is moved and that a later cell has bound anew, a sentence each."""
    found = []
    for place, source in enumerate(sources):
        handed = dict(drawn_with(source))
        needed, waiting = set(), set(handed)
        while waiting:
            name = waiting.pop()
            needed.add(name)
            for earlier in reversed(sources[: place + 1]):
                tables = symtable.symtable(earlier, "cell", "exec").get_children()
                mine = [table for table in tables if table.get_name() == name]
                if mine:
                    waiting |= read_by(mine[-1]) - needed
                if name in bound(earlier):
                    break
        for later, other in enumerate(sources[place + 1 :], place + 1):
            for name in sorted((needed & bound(other)) - imported(other) - {name for name in handed if handed[name]}):
                if any(name in bound(earlier) for earlier in sources[: place + 1]):
                    found.append(f"cell {place + 1} draws with {name}, which cell {later + 1} binds anew")
    return found


def plain(source):
    """A cell's code without lines that are IPython's."""
    return "\n".join("" if line.startswith(("%", "!")) else line for line in source.splitlines())


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_no_cell_takes_a_name_from_a_control_above_it(path):
    cells = nbformat.read(path, as_version=4).cells
    assert lost([plain(cell.source) for cell in cells if cell.cell_type == "code"]) == []


DRAW = """
pair = 1
def draw(n):
    return shown(n)
def shown(n):
    return pair + n
explore(draw, n=("n", 1, 0, 5, 1))
"""


@pytest.mark.parametrize(
    ("later", "name"),
    [("pair = 2", "pair"), ("for pair in x: ...", "pair"), ("def shown(n): ...", "shown"), ("pair += 1", "pair")],
)
def test_a_name_that_is_taken_is_found(later, name):
    (told,) = lost([DRAW, later])
    assert name in told
    assert lost([DRAW, "draw = 1"]) == [], "explore holds the function itself"
    assert lost([DRAW, "[pair for pair in x]\ndef f(pair):\n    shown = 1\nother = 3"]) == []
    assert lost(["maps = {}\nexplore(lambda n: maps[n], n=('n', 1, 0, 5, 1))", "maps = 2"]) != []
