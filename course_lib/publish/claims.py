"""`python -m course_lib.publish.claims [files] --seeds 0 1 2 3 4 --cpu default avx2`: how firm is each claim?

Runs the notebooks under every seed and every instruction set (rounding differs, so for a training run another
processor is another seed) and records in notebooks/claims.json what each claim measured. Each finished run is kept
under build/claims, so that a command that was stopped goes on where it was; a run is made again once the notebook's
code is another. Every number that is told or recorded was measured by one of these runs.
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from pathlib import Path

import nbformat

from course_lib.data.beside import write_beside
from course_lib.publish import measured
from course_lib.publish.claim_records import store, summary, told
from course_lib.publish.execute import chosen
from course_lib.publish.kernels import Run, run

KEPT = measured.ROOT / "build" / "claims"
AT_A_TIME = 2  # kernels, a thread each: two cores stay busy to the end
PROBE = "import torch; torch.randn(64, 64).tanh().sum().item(); print(torch.backends.cpu.get_cpu_capability())"


def findings(done: Run) -> dict:
    """What one run found, as it is kept: when and where, every claim in its order, what else was raised."""
    return {
        "date": date.today().isoformat(),
        "machine": measured.machine(),
        "claims": [
            {"cell": cell.id, **output.metadata.unrolled}
            for cell in done.notebook.cells
            if cell.cell_type == "code"
            for output in cell.outputs
            if "claim" in output.get("metadata", {}).get("unrolled", {})
        ],
        "raised": [failure for failure in done.failures if " raised ClaimFailed:" not in failure],
        "ended": done.ended,
    }


def kept_at(path: Path, seed: int, cpu: str) -> Path:
    """Where a run is kept: its name tells the notebook's code, the seed and the instruction set."""
    code = [cell.source for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
    digest = hashlib.sha256("\n\n".join(code).encode()).hexdigest()[:12]
    return KEPT / f"{path.stem}-{digest}-seed{seed}-{cpu}.json"


def measure(path: Path, seed: int, cpu: str) -> dict:
    """`findings` of a notebook under a seed and an instruction set: of a kept run, or of a new one.

    A new run is kept if it came to its end and nothing but claims failed in it.
    """
    kept = kept_at(path, seed, cpu)
    if kept.exists():
        return json.loads(kept.read_text(encoding="utf-8"))
    variables = {"COURSE_SEED": str(seed), "ATEN_CPU_CAPABILITY": cpu, "OMP_NUM_THREADS": "1"}
    done = run(path, variables, keep_going=True)
    found = findings(done)
    if done.ended and not found["raised"]:
        write_beside(kept, json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    print(f"{path.name}, seed {seed}, {cpu}: {done.seconds:.0f} s", *found["raised"], sep="\n  ", flush=True)
    return found


def measure_all(jobs: list[tuple[Path, int, str]]) -> dict[tuple[Path, int, str], dict]:
    """`measure` for each job, two at a time. Ctrl-C lets the two under way end, so that they are kept."""
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        try:
            return dict(zip(jobs, pool.map(lambda job: measure(*job), jobs), strict=True))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def cannot(cpu: str) -> str:
    """Why this machine cannot compute under the setting `cpu`, in words; "" if it can."""
    here = os.environ | {"ATEN_CPU_CAPABILITY": cpu}
    tried = subprocess.run([sys.executable, "-c", PROBE], env=here, capture_output=True, text=True)
    answer = tried.stdout.strip().lower()
    if tried.returncode == 0 and answer == cpu:
        return ""
    why = f"PyTorch takes {answer} in its place" if answer else "PyTorch fails under it"
    return f"this machine has no instruction set {cpu} ({why}): name others, for example CPU=default."


def main(arguments: list[str] | None = None) -> int:
    """The command; 0 if every claim held in every run, 1 if not, 2 for a wrong name."""
    parser = argparse.ArgumentParser(prog="course_lib.publish.claims", description=__doc__)
    parser.add_argument("files", nargs="*", type=str, help="notebooks; all of the course if none is named")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2, 3, 4], metavar="SEED")
    parser.add_argument("--cpu", nargs="+", default=["default", "avx2"], metavar="SETTING")
    options = parser.parse_args(arguments)
    seeds, cpus = list(dict.fromkeys(options.seeds)), list(dict.fromkeys(options.cpu))
    try:
        paths: list[Path] = chosen(options.files)
        if reasons := list(filter(None, map(cannot, cpus))):
            raise ValueError(reasons[0])
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    try:
        found = measure_all([(path, seed, cpu) for seed in seeds for path in paths for cpu in cpus])
    except KeyboardInterrupt:
        print("Stopped. What is finished is kept: the same command goes on from here.", file=sys.stderr)
        return 1
    wanting = 0
    for path in paths:
        runs = {(seed, cpu): found[path, seed, cpu] for seed in seeds for cpu in cpus}
        entry = summary(runs)
        lines, failed = told(entry, runs)
        wanting += failed
        print("\n".join([path.name, *lines]), flush=True)
        if not all(one["ended"] for one in runs.values()):
            print(f"{path.name}: some run did not come to its end, so its record is left as it was", file=sys.stderr)
        elif path.resolve().parent == measured.NOTEBOOKS:
            store(path.name, entry)
    print(f"{len(seeds)} seeds, {len(cpus)} instruction sets: {wanting or 'none'} wanting")
    return min(wanting, 1)


if __name__ == "__main__":
    sys.exit(main())
