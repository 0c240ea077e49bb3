"""A process that runs experiments one after another: a line of JSON asks, a line of JSON answers.

The instruction set is chosen when PyTorch starts, so each set has a process of its own. What the process was told in
its environment is all that it is told: a run under a seed is the same whatever ran before it.
"""

import importlib
import json
import os
import subprocess
import sys
import time
import traceback
from collections.abc import Iterable


class Worker:
    """One such process under the instruction set `cpu`, one thread; `run` asks it and waits."""

    def __init__(self, cpu: str):
        self.cpu = cpu
        here = os.environ | {"ATEN_CPU_CAPABILITY": cpu, "OMP_NUM_THREADS": "1", "COURSE_DEVICE": "cpu"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "course_lib.workshop.experiments.worker"],
            env=here,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, module: str, name: str, variant: dict, seed: int) -> dict:
        """{"result": ..., "seconds": CPU seconds} or {"error": ...}."""
        ask = {"module": module, "name": name, "variant": variant, "seed": seed}
        try:
            self.process.stdin.write(json.dumps(ask) + "\n")
            self.process.stdin.flush()
            answer = self.process.stdout.readline()
        except OSError:
            answer = ""
        return json.loads(answer) if answer else {"error": f"the process ended with status {self.process.wait()}"}

    def end(self) -> None:
        """Ends the process, in the middle of a run too."""
        self.process.kill()
        self.process.wait()


def answers(asked: Iterable[str]):
    """The answer to each question, as `Worker.run` describes it; an error in an experiment ends nothing."""
    import torch

    torch.set_num_threads(1)
    for line in asked:
        ask = json.loads(line)
        start = time.process_time()
        try:
            one = getattr(importlib.import_module(ask["module"]), ask["name"])
            result = one(ask["seed"], **ask["variant"])
            yield {"result": result, "seconds": round(time.process_time() - start, 1)}
        except Exception:
            yield {"error": traceback.format_exc()}


def main() -> None:
    """Answer on the true standard output; what an experiment prints goes to the error output."""
    out, sys.stdout = sys.stdout, sys.stderr
    for answer in answers(sys.stdin):
        print(json.dumps(answer, ensure_ascii=False), file=out, flush=True)


if __name__ == "__main__":
    main()
