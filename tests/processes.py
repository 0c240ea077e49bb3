"""Starts `python -m course_lib.workshop.scale` as torchrun would, in so many processes, and reads what they say.

Each is a copy of a process that has read PyTorch already, which takes seconds; test_torchrun_starts_the_same_command
starts from nothing.
"""

import json
import multiprocessing
import os
import resource
import socket
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import torch

ONLY_HERE = {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "COURSE_DEVICE": "cpu"}
COMMAND = "import sys; from course_lib.workshop.scale.__main__ import main; sys.exit(main(sys.argv[1:]))"

copies = multiprocessing.get_context("forkserver")
# The last three are what a first step and a first snapshot would read, in each process anew.
copies.set_forkserver_preload([
    "course_lib.workshop.scale.run", "torch.distributed.fsdp", "torch._dynamo", "torch._functorch.deprecated",
    "torch.distributed.checkpoint.hf_storage",
])  # fmt: skip


@dataclass
class Ended:
    """How a process ended: its exit status, or minus the signal; and what it said."""

    status: int
    said: str


class Started:
    """A process that runs `command`, Python's code, with these arguments; nothing is between it and its signals."""

    def __init__(self, command: str, arguments: list[str], environment: dict[str, str], largest: int | None):
        self._file = tempfile.NamedTemporaryFile(prefix="unrolled-said-")
        self._process = copies.Process(target=_run, args=(command, arguments, environment, largest, self._file.name))
        self._process.start()

    @property
    def said(self) -> str:
        """What it has said so far."""
        return Path(self._file.name).read_text()

    def send_signal(self, number: int) -> None:
        os.kill(self._process.pid, number)

    def ended(self, deadline: float) -> Ended:
        """What became of it; raises TimeoutError where it runs on at that moment of the monotonic clock."""
        self._process.join(max(0, deadline - time.monotonic()))
        if self._process.exitcode is None:
            raise TimeoutError(f"a process still runs, and said so far: {self.said}")
        return Ended(self._process.exitcode, self.said)

    def kill(self) -> None:
        self._process.kill()
        self._process.join()


def _run(command: str, arguments: list[str], environment: dict[str, str], largest: int | None, said: str) -> None:
    with open(said, "w") as file:
        for standard in (1, 2):
            os.dup2(file.fileno(), standard)
    if largest:
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest, largest))
    os.environ.clear()
    os.environ.update(environment)
    torch.set_num_threads(int(environment["OMP_NUM_THREADS"]))  # PyTorch was read under another environment
    sys.argv = ["-c", *arguments]
    exec(compile(command, "<command>", "exec"), {"__name__": "__main__"})


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def start(n: int, *arguments: object, command=COMMAND, port=0, ranks=None, largest=()) -> list[Started]:
    """n processes of one training, or those of them in `ranks`.

    largest: {rank: bytes of the largest file that this process may write}.
    """
    port = port or free_port()

    def one(rank: int) -> Started:
        place = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": n, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        environment = os.environ | ONLY_HERE | {name: str(value) for name, value in place.items()}
        return Started(command, [str(one) for one in arguments], environment, dict(largest).get(rank))

    return [one(rank) for rank in ranks or range(n)]


def ended(processes: list[Started], seconds: float = 240) -> list[Ended]:
    """What became of them; whoever still runs after so many seconds is killed, and the test fails."""
    deadline = time.monotonic() + seconds
    try:
        return [process.ended(deadline) for process in processes]
    finally:
        for process in processes:
            process.kill()


def run(n: int, *arguments: object, **how) -> list[Ended]:
    return ended(start(n, *arguments, **how))


def losses(out: Path, kind: str = "loss") -> dict[int, float]:
    """The loss of each step that the log tells, or another number that it tells of some."""
    lines = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    return {line["step"]: line[kind] for line in lines if kind in line}
