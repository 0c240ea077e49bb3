"""The record of an experiment: data/records/<slug>.json, every run with seed, setting, machine, date and digest."""

import hashlib
import json
from pathlib import Path

from course_lib.data.beside import write_beside
from course_lib.workshop.experiments.experiment import Experiment, plain
from course_lib.workshop.experiments.runs import Runs

RECORDS = Path(__file__).resolve().parents[3] / "data" / "records"


class Record:
    """What is recorded of an experiment, and what was run live beside it.

    record.numbers("accuracy", lag=24) gives that number in each run of the variant lag=24, as `Runs`; with more than
    one key it goes down into the result. record.lists("curve", ...) gives whole curves, a list a recorded run.
    record.run(lag=24) runs the variant here and now under a seed that the record does not hold; from then on its
    numbers have a live one. Where the notebook trains in cells of its own, record.take(result, lag=24) hands it in.
    Raises LookupError, in words, for a variant or key that was not recorded.
    """

    def __init__(self, experiment: Experiment, runs: list[dict]):
        self.experiment, self.entries = experiment, runs
        self.live: list[dict] = []

    def run(self, **variant) -> dict:
        """Run the variant live, remember its result, and give it."""
        variant = self._variant(variant)
        return self.take(self.experiment(self.experiment.live_seed, **variant), **variant)

    def take(self, result: dict, **variant) -> dict:
        """Remember a result that the notebook's own code measured as the live one of the variant, and give it."""
        variant, result = self._variant(variant), plain(result, self.experiment.name)
        self.live = [entry for entry in self.live if entry["variant"] != variant]
        self.live.append({"variant": variant, "seed": self.experiment.live_seed, "result": result})
        return result

    def numbers(self, *path, **variant) -> Runs:
        """The number at `path` in each run of the variant, the live one apart."""
        recorded, live = self.lists(*path, **variant), self.live_result(**variant)
        return Runs(recorded, None if live is None else _at(live, path, self.experiment.name))

    def lists(self, *path, **variant) -> list:
        """What stands at `path` in each recorded run of the variant: numbers, or curves."""
        variant = self._variant(variant)
        found = [entry["result"] for entry in self.entries if entry["variant"] == variant]
        if not found:
            raise LookupError(
                f"{self.experiment.name} is not recorded for {variant or 'its one variant'}: "
                f"run `make experiments LESSON={self.experiment.slug}`."
            )
        return [_at(result, path, self.experiment.name) for result in found]

    def live_result(self, **variant) -> dict | None:
        """The result of the live run of the variant, if it was run."""
        variant = self._variant(variant)
        return next((entry["result"] for entry in self.live if entry["variant"] == variant), None)

    @property
    def stale(self) -> bool:
        """Whether something is recorded with other code than the experiment's of today."""
        return any(entry["digest"] != self.experiment.digest for entry in self.entries)

    def _variant(self, variant: dict) -> dict:
        """The full variant that is meant: what is not named is taken from the one variant that fits."""
        fits = [one for one in self.experiment.variants if variant.items() <= one.items()]
        exact = [one for one in fits if one == variant]
        if len(exact or fits) != 1:
            known = "; ".join(map(str, self.experiment.variants[:8]))
            what = "more than one variant fits" if fits else "no variant fits"
            raise LookupError(f"{self.experiment.name}: {what} {variant}. There are: {known}.")
        return (exact or fits)[0]


def recorded(experiment: Experiment) -> Record:
    """The record of an experiment, out of data/records; raises LookupError where it was never run."""
    entries = read(experiment.slug).get(experiment.name, {}).get("runs", [])
    if not entries:
        raise LookupError(f"There is no record of {experiment.name}: run `make experiments LESSON={experiment.slug}`.")
    return Record(experiment, entries)


def read(slug: str, folder: Path | None = None) -> dict:
    """A lesson's record, its experiments by name; {} where there is none. Raises ValueError for a damaged one."""
    path = (folder or RECORDS) / f"{slug}.json"
    if not path.exists():
        return {}
    try:
        found = json.loads(path.read_text(encoding="utf-8"))["experiments"]
        for one in found.values():
            for entry in one["runs"]:
                entry["variant"], entry["seed"], entry["cpu"], entry["digest"], entry["result"]
        return found
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"{path.name} is damaged ({error}): get it back from the repository.") from None


def parts(slug: str, folder: Path | None = None) -> list[str]:
    """The records of a lesson: its own, and those of parts, <slug>_<part>.json, where one module grew too long."""
    stems = sorted(path.stem for path in (folder or RECORDS).glob("*.json"))
    return [stem for stem in stems if stem == slug or stem.startswith(f"{slug}_")]


def results(slug: str, folder: Path | None = None) -> str:
    """Twelve hex digits of every result recorded for a lesson, "" without one: a notebook that read others is old."""
    found = [
        [name, run["variant"], run["seed"], run["cpu"], run["result"]]
        for part in parts(slug, folder)
        for name, one in read(part, folder).items()
        for run in one["runs"]
    ]
    return hashlib.sha256(json.dumps(found).encode()).hexdigest()[:12] if found else ""


def write(slug: str, experiments: dict, folder: Path | None = None) -> None:
    """Write a lesson's record, a run a line, so that a difference between two versions can be read."""
    lines = []
    for name, one in experiments.items():
        runs = ",\n".join("   " + json.dumps(entry, ensure_ascii=False) for entry in one["runs"])
        what = json.dumps(one["what"], ensure_ascii=False)
        lines.append(f'  {json.dumps(name)}: {{\n   "what": {what},\n   "runs": [\n{runs}\n   ]\n  }}')
    text = '{\n "experiments": {\n' + ",\n".join(lines) + "\n }\n}\n"
    json.loads(text)
    write_beside((folder or RECORDS) / f"{slug}.json", text)


def missing(experiment: Experiment, entries: list[dict]) -> list[tuple[dict, int, str]]:
    """The runs that a whole record of the experiment has and `entries` have not, or have from other code."""
    now = experiment.digest
    have = [(entry["variant"], entry["seed"], entry["cpu"]) for entry in entries if entry["digest"] == now]
    return [run for run in experiment.runs() if run not in have]


def _at(result, path, name: str):
    for key in path:
        try:
            result = result[str(key) if isinstance(result, dict) else int(key)]
        except (KeyError, IndexError, TypeError, ValueError):
            known = ", ".join(map(str, result)) if isinstance(result, dict) else f"{type(result).__name__}"
            raise LookupError(f"{name} records no {key!r} here; there is: {known}.") from None
    return float(result) if result in ("nan", "inf", "-inf") else result
