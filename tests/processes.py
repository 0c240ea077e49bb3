"""Starts `python -m course_lib.train` as torchrun would, in so many processes, and reads what they say."""

import json
import os
import resource
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ONLY_HERE = {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "COURSE_DEVICE": "cpu"}
COMMAND = ("-m", "course_lib.train")


@dataclass
class Ended:
    """How a process ended: its exit status, or minus the signal; and what it said."""

    status: int
    said: str


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def start(n: int, *arguments: object, command=COMMAND, port=0, ranks=None, largest=()) -> list[subprocess.Popen]:
    """n processes of one training, or those of them in `ranks`. command: what Python runs.

    largest: {rank: bytes of the largest file that this process may write}.
    """
    port = port or free_port()

    def one(rank: int) -> subprocess.Popen:
        place = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": n, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        limit = dict(largest).get(rank)
        return subprocess.Popen(
            [sys.executable, *command, *map(str, arguments)],
            env=os.environ | ONLY_HERE | {name: str(value) for name, value in place.items()},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            preexec_fn=limit and (lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))),
        )

    return [one(rank) for rank in ranks or range(n)]


def ended(processes: list, seconds: float = 240) -> list[Ended]:
    """What became of them; whoever still runs after so many seconds is killed, and the test fails."""
    try:
        said = [process.communicate(timeout=seconds)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
    return [Ended(process.returncode, text) for process, text in zip(processes, said, strict=True)]


def run(n: int, *arguments: object, **how) -> list[Ended]:
    return ended(start(n, *arguments, **how))


def losses(out: Path, kind: str = "loss") -> dict[int, float]:
    """The loss of each step that the log tells, or another number that it tells of some."""
    lines = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    return {line["step"]: line[kind] for line in lines if kind in line}
