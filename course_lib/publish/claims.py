"""`python -m course_lib.publish.claims [files] --seeds 1 2`: the claims of notebooks under other seeds.

Nothing is written. Every claim stands with the numbers that each seed measured; one that fails under any seed
fails the command.
"""

import argparse
import sys
from pathlib import Path

from course_lib.publish.execute import chosen
from course_lib.publish.kernels import Run, run
from course_lib.publish.measured import records


def tabulate(runs: dict[int, Run]) -> tuple[list[str], int]:
    """One notebook's claims by seed, as lines of text, and how many of them failed or are missing."""
    by_seed = {
        seed: {data["claim"]: data for data in records(one.notebook, "claim")} for seed, one in runs.items()
    }
    texts = list(dict.fromkeys(text for claims in by_seed.values() for text in claims))
    lines, failed = [], 0
    for text in texts:
        found = {seed: claims.get(text) for seed, claims in by_seed.items()}
        holds = all(data is not None and data.get("holds", True) for data in found.values())
        failed += not holds
        lines.append(f"  {'holds' if holds else 'FAILS'}  {text}")
        lines += [f"           seed {seed}: {_numbers(data)}" for seed, data in found.items()]
    # A cell that raised for another reason than its claim is a failure of its own.
    for seed, one in runs.items():
        others = [failure for failure in one.failures if " raised ClaimFailed:" not in failure]
        failed += len(others)
        lines += [f"  FAILS  seed {seed}: {failure}" for failure in others]
    return lines, failed


def _numbers(data):
    if data is None:
        return "not reached"
    values = [
        " ".join(
            str(part)
            for part in (
                value.get("name", ""),
                _short(value.get("value")),
                value.get("unit", ""),
                value.get("operator", ""),
                value.get("bound_name", ""),
                _short(value.get("bound")),
            )
            if part != ""
        )
        for value in data.get("values", [])
    ]
    return "; ".join(values) or ("true" if data.get("holds", True) else "false")


def _short(value):
    return f"{value:.4g}" if isinstance(value, float) else "" if value is None else value


def main(arguments: list[str] | None = None) -> int:
    """The command; 0 if every claim holds under every seed, 1 if not, 2 for a wrong name."""
    parser = argparse.ArgumentParser(prog="course_lib.publish.claims", description=__doc__)
    parser.add_argument("files", nargs="*", type=str, help="notebooks; all of the course if none is named")
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2], metavar="SEED")
    options = parser.parse_args(arguments)
    try:
        paths: list[Path] = chosen(options.files)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    claims = failures = 0
    for path in paths:
        lines, failed = tabulate({seed: run(path, seed=seed, keep_going=True) for seed in options.seeds})
        print("\n".join([path.name, *(lines or ["  no claims"])]), flush=True)
        claims += sum(line.startswith(("  holds", "  FAILS")) for line in lines)
        failures += failed
    print(f"{claims} checked under seeds {', '.join(map(str, options.seeds))}: {failures} failed")
    return min(failures, 1)


if __name__ == "__main__":
    sys.exit(main())
