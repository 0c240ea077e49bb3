"""What a writer marks in a notebook: where its laboratory begins, and which code a student need not read."""

from nbformat import NotebookNode

LABORATORY = "laboratory"  # tag of the cell that begins the laboratory; what stands before it is the core
DRAWING = {"figure", "control"}  # tags of cells whose output is the point
COVER = "cover"  # tag of the cell whose picture stands for the lesson on the site's first page
SETUP = "setup"  # id of the cell of imports


def begins_laboratory(cell: NotebookNode) -> bool:
    """Whether the laboratory begins with this cell."""
    return LABORATORY in cell.metadata.get("tags", [])


def is_folded(cell: NotebookNode) -> bool:
    """Whether the code of this cell is folded on pages and absent from slides.

    The key by which JupyterLab folds a cell decides; where it is not set, figures and controls are folded.
    """
    drawing = bool(DRAWING & set(cell.metadata.get("tags", [])))
    return cell.cell_type == "code" and bool(cell.metadata.get("jupyter", {}).get("source_hidden", drawing))


def fold(notebook: NotebookNode) -> None:
    """Fold figures, controls and imports of a notebook with a laboratory for JupyterLab too, in place.

    A cell keeps what its writer has set: "source_hidden": false leaves the code of a figure open everywhere.
    """
    if not any(map(begins_laboratory, notebook.cells)):
        return
    for cell in notebook.cells:
        if is_folded(cell) or cell.cell_type == "code" and cell.id == SETUP:
            cell.metadata.setdefault("jupyter", NotebookNode()).setdefault("source_hidden", True)
