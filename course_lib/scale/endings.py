"""How a training of many processes ends badly: one sentence, by one of them. Imports nothing heavy."""

import os
import socket
import sys
import tempfile
import time
from pathlib import Path

LAUNCH = ("MASTER_PORT", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT")
BEGAN = time.time()
LOST = ("peer", "connection", "socket", "gloo", "remote process exited", "timed out", "broken pipe")


def world_size() -> int:
    """How many processes this training has been started with."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def say_once(sentence: str) -> None:
    """Print an error as one process alone: of those of a launch on this machine the first that has something to say."""
    if world_size() > 1:
        launch = (os.getppid(), *(os.environ.get(name, "") for name in LAUNCH))
        mark = Path(tempfile.gettempdir()) / f"unrolled-{socket.gethostname()}-{'-'.join(map(str, launch))}.said"
        try:
            if mark.exists() and mark.stat().st_mtime < BEGAN - 60:  # of a launch long ago that had our numbers
                mark.unlink()
            mark.touch(exist_ok=False)
        except FileExistsError:
            return
        except OSError:  # no place for a mark: better twice than never
            pass
    print(sentence, file=sys.stderr, flush=True)


def first_line(error: BaseException) -> str:
    """What an error says, cut to a line."""
    return (str(error).strip() or type(error).__name__).partition("\n")[0][:200]


def lost(error: BaseException) -> bool:
    """Whether an error says that another process of the run is gone, or cannot be reached."""
    return isinstance(error, RuntimeError) and any(word in str(error).lower() for word in LOST)
