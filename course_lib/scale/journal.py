"""What a run has seen, a line of JSON each: the steps, the held-out loss, the speed. Written by the first process."""

import json
import math
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
            kept = [line for line in self.path.read_text(encoding="utf-8").splitlines() if _step_of(line) <= step]
            write_beside(self.path, "".join(line + "\n" for line in kept))


def read(out: str | Path) -> list[dict]:
    """The lines of a run's log."""
    return [json.loads(line) for line in (Path(out) / LOG).read_text(encoding="utf-8").splitlines()]


def _board(out: str | Path, after: int):
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise ModuleNotFoundError("--tensorboard needs TensorBoard: pip install tensorboard.") from None
    return SummaryWriter(str(out), purge_step=after + 1)


def _step_of(line: str) -> float:
    try:
        return json.loads(line)["step"]
    except (ValueError, KeyError, TypeError):  # half a line, of a killed writer
        return math.inf
