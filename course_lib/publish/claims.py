"""`python -m course_lib.publish.claims [files] --seeds 1 2 --cpu default avx2`: which claims hold elsewhere?

Runs the notebooks under every seed and every instruction set (rounding differs, so for a training run another
processor is another seed) and says which claims did not hold, with what was measured. The notebooks are not written.
What the experiments recorded is the same in each of these runs; what a notebook trains live is another.
"""

import argparse
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from course_lib.publish.execute import chosen
from course_lib.publish.kernels import run

AT_A_TIME = 2  # kernels, a thread each: two cores stay busy to the end
PROBE = "import torch; torch.randn(64, 64).tanh().sum().item(); print(torch.backends.cpu.get_cpu_capability())"


def wanting(path: Path, seed: int, cpu: str) -> list[str]:
    """What did not hold in one run of a notebook, a line each: claims, whatever else was raised, an early end."""
    variables = {"COURSE_SEED": str(seed), "ATEN_CPU_CAPABILITY": cpu, "OMP_NUM_THREADS": "1"}
    done = run(path, variables, keep_going=True)
    reasons = [*done.failures, *([] if done.ended else ["it did not come to its end"])]
    told = [f"{path.name}, seed {seed}, {cpu}: {reason}" for reason in reasons]
    print("\n".join(told or [f"{path.name}, seed {seed}, {cpu}: every claim held"]), flush=True)
    return told


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
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2], metavar="SEED")
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
    jobs = [(path, seed, cpu) for seed in seeds for path in paths for cpu in cpus]
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        try:
            found = sum(pool.map(lambda job: wanting(*job), jobs), [])
        except KeyboardInterrupt:
            pool.shutdown(wait=False, cancel_futures=True)
            print("Stopped.", file=sys.stderr)
            return 1
    print(f"{len(jobs)} runs: {f'{len(found)} did not hold' if found else 'all held'}")
    return min(len(found), 1)


if __name__ == "__main__":
    sys.exit(main())
