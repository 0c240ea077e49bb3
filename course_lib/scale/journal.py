"""What a run has seen, a line of JSON each: the steps, the held-out loss, the speed. Written by the first process."""

import json
from pathlib import Path

from course_lib.data.beside import write_beside
from course_lib.scale.config import LOG


class Journal:
    """The log of the run in folder `out`; lines behind step `after` go, for that is about to happen again.

    writes: whether this process writes it; board: for TensorBoard as well.
    Raises ModuleNotFoundError, in words, where TensorBoard is asked for and not installed.
    """

    def __init__(self, out: str | Path, writes: bool, board: bool = False, after: int = 0):
        self.path, self.writes = Path(out) / LOG, writes
        self.board = _board(out, after) if board and writes else None
        self._cut(after)

    def write(self, *lines: dict) -> None:
        """Add lines, each with its `step`."""
        if not self.writes:
            return
        with open(self.path, "a", encoding="utf-8") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)
        for line in lines if self.board else ():
            for name, value in line.items():
                if name != "step" and value is not None:
                    self.board.add_scalar(name, value, line["step"])

    def _cut(self, step: int) -> None:
        if self.writes and self.path.exists():
            kept = [line for line in read(self.path.parent) if line["step"] <= step]
            write_beside(self.path, "".join(json.dumps(line) + "\n" for line in kept))


def read(out: str | Path) -> list[dict]:
    """The lines of a run's log, but for half a one at its end; ValueError for a log that is damaged."""
    path = Path(out) / LOG
    *lines, half = path.read_bytes().split(b"\n")  # a killed writer leaves half a line
    return [_parsed(path, number, line) for number, line in enumerate(lines, start=1)]


def _board(out: str | Path, after: int):
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise ModuleNotFoundError("--tensorboard needs TensorBoard: pip install tensorboard.") from None
    return SummaryWriter(str(out), purge_step=after + 1)


def _parsed(path: Path, number: int, line: bytes) -> dict:
    try:
        found = json.loads(line)
        numbers = all(value is None or type(value) in (int, float) for value in found.values())
        if numbers and isinstance(found["step"], int):
            return found
    except (AttributeError, LookupError, RecursionError, TypeError, ValueError):
        pass
    raise ValueError(
        f"{path} is damaged: its line {number} is none of a log. Delete it, and the run goes on with a new one."
    )
