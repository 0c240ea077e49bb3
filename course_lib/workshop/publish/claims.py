"""`python -m course_lib.workshop.publish.claims [files] --seeds 1 2 --cpu avx2`: do the claims hold elsewhere?

Runs each notebook, up to its last claim, under every seed and every instruction set (rounding differs, so for a
training run another processor is another seed), says which claims did not hold, and keeps what each compared in
data/records/claims/. A test reads these runs: every bound must lie far from them. The notebooks are not written.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from nbformat import NotebookNode

from course_lib.data.beside import write_beside
from course_lib.workshop.publish import measured
from course_lib.workshop.publish.execute import chosen
from course_lib.workshop.publish.kernels import run

KEPT = measured.ROOT / "data" / "records" / "claims"
AT_A_TIME = 2  # kernels, a thread each: two cores stay busy to the end
# What stands for another processor, by the name of its instruction set; "native" is this machine as it is.
CPUS = {
    "default": {"ATEN_CPU_CAPABILITY": "default", "MKL_ENABLE_INSTRUCTIONS": "SSE4_2"},
    "avx2": {"ATEN_CPU_CAPABILITY": "avx2", "MKL_ENABLE_INSTRUCTIONS": "AVX2"},
    "native": {},
}
PROBE = "import torch; torch.randn(64, 64).tanh().sum().item(); print(torch.backends.cpu.get_cpu_capability())"


def stated(notebook: NotebookNode) -> Iterator[tuple[str, dict]]:
    """The claims among a notebook's outputs: (name, data), where the name is the cell's id and the claim's number."""
    for cell in notebook.cells:
        outputs = cell.get("outputs", [])
        made = [data for data in (o.get("metadata", {}).get("unrolled", {}) for o in outputs) if "claim" in data]
        yield from ((f"{cell.id}.{number}", data) for number, data in enumerate(made))


def kept(name: str, folder: Path | None = None) -> dict:
    """The runs that are kept of a notebook's claims: "seed, cpu" -> {claim: [[value, bound], ...]}; {} without any."""
    path = (folder or KEPT) / f"{name.removesuffix('.ipynb')}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def keep(name: str, runs: dict, folder: Path | None = None) -> None:
    """Write the runs of a notebook's claims, a run a line."""
    lines = ",\n".join(f" {json.dumps(run)}: {json.dumps(runs[run], ensure_ascii=False)}" for run in sorted(runs))
    path = (folder or KEPT) / f"{name.removesuffix('.ipynb')}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_beside(path, f"{{\n{lines}\n}}\n")


def measure(path: Path, seed: int, cpu: str) -> tuple[dict, list[str]]:
    """One run of a notebook: what its claims compared, and what did not hold, a line each."""
    done = run(path, {"COURSE_SEED": str(seed), "OMP_NUM_THREADS": "1", **CPUS[cpu]}, keep_going=True, last="claim(")
    found = dict(stated(done.notebook))
    reasons = [*done.failures, *([] if done.ended else ["it did not come to its end"])]
    reasons += [f"“{data['claim']}” does not hold: {data['values']}" for data in found.values() if not data["holds"]]
    lines = [f"{path.name}, seed {seed}, {cpu}: {reason}" for reason in reasons]
    print("\n".join(lines or [f"{path.name}, seed {seed}, {cpu}: every claim held"]), flush=True)
    return {name: [[v["value"], v["bound"]] for v in data["values"]] for name, data in found.items()}, lines


def cannot(cpu: str) -> str:
    """Why this machine cannot compute under the setting `cpu`, in words; "" if it can."""
    if cpu not in CPUS:
        return f"there is no setting {cpu}; there are: {', '.join(CPUS)}."
    here = os.environ | CPUS[cpu]
    tried = subprocess.run([sys.executable, "-c", PROBE], env=here, capture_output=True, text=True)
    answer = tried.stdout.strip().lower()
    if tried.returncode == 0 and (answer == cpu or cpu == "native"):
        return ""
    why = f"PyTorch uses {answer} instead" if answer else "PyTorch fails under it"
    return f"this machine has no instruction set {cpu} ({why}): name others, for example CPU=default."


def main(arguments: list[str] | None = None) -> int:
    """The command; 0 if every claim held in every run, 1 if not, 2 for a wrong name."""
    parser = argparse.ArgumentParser(prog="course_lib.workshop.publish.claims", description=__doc__)
    parser.add_argument("files", nargs="*", type=str, help="notebooks; all of the course if none is named")
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3, 4, 5], metavar="SEED")
    parser.add_argument("--cpu", nargs="+", default=["default", "avx2"], metavar="SETTING")
    options = parser.parse_args(arguments)
    seeds, cpus = list(dict.fromkeys(options.seeds)), list(dict.fromkeys(options.cpu))
    try:
        paths = chosen(options.files)
        if reasons := list(filter(None, map(cannot, cpus))):
            raise ValueError(reasons[0])
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    jobs = [(path, seed, cpu) for path in paths for seed in seeds for cpu in cpus]
    failed = 0
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        try:
            for (path, seed, cpu), (found, lines) in zip(jobs, pool.map(lambda job: measure(*job), jobs), strict=True):
                failed += len(lines)
                if path.resolve().parent == measured.NOTEBOOKS and found:
                    keep(path.name, kept(path.name) | {f"{seed}, {cpu}": found})
        except KeyboardInterrupt:
            pool.shutdown(wait=False, cancel_futures=True)
            print("Stopped. What is finished is kept.", file=sys.stderr)
            return 1
    print(f"{len(jobs)} runs: {f'{failed} did not hold' if failed else 'all held'}")
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
