"""`python tests/bench/bench_processes.py`: one training in one, two and four processes, curve over curve.

Each model's small size trains for 50 steps alone, then shared out by DDP and by FSDP. Printed is the largest difference
of a step's loss from the one that the single process had.
"""

import shutil
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from processes import losses, run  # noqa: E402  it lies beside the tests

STEPS = 50


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        print("model  processes  shared by   largest difference of a loss   loss at the end")
        for model in ("gpt", "bert", "vit"):
            reference = None
            for n, parallel in [(1, "ddp"), (2, "ddp"), (2, "fsdp"), (4, "ddp"), (4, "fsdp")]:
                out = Path(folder) / f"{model}-{n}-{parallel}"
                found = run(n, model, "--steps", STEPS, "--out", out, "--parallel", parallel)
                if any(one.status for one in found):
                    sys.exit("\n".join(one.said for one in found))
                curve = losses(out)
                reference = reference or curve
                apart = max(abs(curve[step] - reference[step]) for step in reference)
                print(f"{model:5}  {n:9}  {parallel:9}   {apart:28.1e}   {curve[STEPS]:.6f}", flush=True)
                shutil.rmtree(out)


if __name__ == "__main__":
    main()
