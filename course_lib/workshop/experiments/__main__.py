"""`python -m course_lib.workshop.experiments [lesson ...]`: run what the records lack, or hold from other code.

As many runs at a time as there are cores, two at least, a thread each. Each finished run is written at once, so a
command that was stopped (Ctrl-C) goes on where it was. --list says what is missing or stale and runs nothing; --only
names experiments. Lessons are told by number or slug: `make experiments LESSON=02`.

After a change that should alter no number (a name, an input that no experiment has) --confirm 2 runs the two shortest
runs of each stale experiment: where they give the recorded numbers again, to the last digit, the record takes the new
digest and says so; where one does not, nothing of it is taken, and it is left to be run.
"""

import argparse
import importlib
import queue
import sys
import threading
import time
from collections.abc import Callable
from datetime import date
from difflib import get_close_matches
from pathlib import Path

from course_lib.train.machine import cores, machine
from course_lib.workshop.experiments.experiment import Experiment, module_of, modules
from course_lib.workshop.experiments.record import RECORDS, missing, read, write
from course_lib.workshop.experiments.worker import Worker

AT_A_TIME = max(2, cores())


def slugs() -> list[str]:
    """The records that there should be: a lesson's own, and those of its parts."""
    return sorted(modules())


def experiments(slug: str) -> list[Experiment]:
    """All experiments of a lesson, in the order in which its module defines them."""
    module = importlib.import_module(module_of(slug))
    return [one for one in vars(module).values() if isinstance(one, Experiment) and one.module == module.__name__]


class Book:
    """The records under way: what is kept of them, one more run at a time, written at once."""

    def __init__(self, folder: Path = RECORDS):
        self.folder, self.lock = folder, threading.Lock()

    def lacking(self, slug: str, only: list[str] | None = None) -> list[tuple[Experiment, dict, int, str]]:
        """The runs of a lesson that its record lacks."""
        kept = read(slug, self.folder)
        return [
            (one, *run)
            for one in experiments(slug)
            if not only or one.name in only
            for run in missing(one, kept.get(one.name, {}).get("runs", []))
        ]

    def add(self, one: Experiment, entry: dict) -> None:
        """Put a run into its record, in the place of what it replaces; what no experiment asks for any more goes."""
        with self.lock:
            kept = read(one.slug, self.folder)
            runs = kept.get(one.name, {}).get("runs", [])
            runs = [old for old in runs if _run(old) != _run(entry)] + [entry]
            order = {_key(run): place for place, run in enumerate(one.runs())}
            runs = sorted((run for run in runs if _key(_run(run)) in order), key=lambda run: order[_key(_run(run))])
            kept[one.name] = {"what": one.what, "runs": runs}
            write(one.slug, {other.name: kept[other.name] for other in experiments(one.slug) if other.name in kept},
                  self.folder)  # fmt: skip

    def samples(self, slug: str, count: int, only: list[str] | None = None) -> list[tuple[Experiment, dict, int, str]]:
        """Of each experiment that is recorded whole, but with other code, the `count` shortest runs."""
        kept, found = read(slug, self.folder), []
        for one in dict.fromkeys(job[0] for job in self.lacking(slug, only)):
            entries = kept.get(one.name, {}).get("runs", [])
            if all(run in [_run(entry) for entry in entries] for run in one.runs()):
                shortest = sorted(entries, key=lambda entry: entry["seconds"])[:count]
                found += [(one, *_run(entry)) for entry in shortest]
        return found

    def confirm(self, one: Experiment, results: list[tuple[dict, int, str, dict]]) -> bool:
        """Take the new digest for all runs of an experiment, if each result is the recorded one; whether it was."""
        kept = read(one.slug, self.folder)
        runs = kept[one.name]["runs"]
        recorded = {_key(_run(entry)): entry["result"] for entry in runs}
        if any(recorded[_key((variant, seed, cpu))] != result for variant, seed, cpu, result in results):
            return False
        for entry in runs:
            entry |= {"digest": one.digest, "confirmed": date.today().isoformat()}
        write(one.slug, kept, self.folder)
        return True


def _run(entry: dict) -> tuple:
    return entry["variant"], entry["seed"], entry["cpu"]


def _key(run: tuple) -> str:
    return repr(run)


def run_all(jobs: list[tuple[Experiment, dict, int, str]], take: Callable[[Experiment, dict], None]) -> list[str]:
    """Run the jobs, AT_A_TIME at once, and hand each entry to `take` -> what failed, a text each.

    Ctrl-C ends the runs under way and raises.
    """
    waiting, failed, done, start = queue.SimpleQueue(), [], [], time.perf_counter()
    for job in jobs:
        waiting.put(job)
    workers: list[Worker] = []

    def work():
        worker = None
        while True:
            try:
                one, variant, seed, cpu = waiting.get_nowait()
            except queue.Empty:
                break
            if worker is None or worker.cpu != cpu or worker.process.poll() is not None:
                if worker:
                    worker.end()
                worker = Worker(cpu)
                workers.append(worker)
            now = one.digest
            answer = worker.run(one.module, one.name, variant, seed)
            named = f"{one.slug}: {one.name}({', '.join(f'{k}={v!r}' for k, v in variant.items())}) seed {seed}, {cpu}"
            if "error" in answer:
                failed.append(f"{named}\n{answer['error']}")
                continue
            take(one, {"variant": variant, "seed": seed, "cpu": cpu, "machine": machine(),
                           "date": date.today().isoformat(), "digest": now, **answer})  # fmt: skip
            done.append(answer["seconds"])
            left = (time.perf_counter() - start) / len(done) * (len(jobs) - len(done)) / 60
            print(f"{named}: {answer['seconds']:.0f} s  ({len(done)} of {len(jobs)}, {left:.0f} min left)", flush=True)
        if worker:
            worker.end()

    threads = [threading.Thread(target=work, daemon=True) for _ in range(AT_A_TIME)]
    try:
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            time.sleep(0.2)
    except KeyboardInterrupt:
        while not waiting.empty():
            waiting.get_nowait()
        for worker in workers:
            worker.end()
        raise
    return failed


def chosen(names: list[str]) -> list[str]:
    """Slugs for what was asked: numbers, slugs or notebooks; all lessons if none was. ValueError for others."""
    from course_lib.lesson.syllabus import LISTED

    by_name = {name: lesson.slug for lesson in LISTED
               for name in (f"{lesson.number:02d}", str(lesson.number), lesson.slug, lesson.notebook)}  # fmt: skip
    known = slugs()
    found = []
    for name in names:
        slug = by_name.get(Path(name).name, name)
        modules = [one for one in known if one == slug or one.startswith(f"{slug}_")]  # a lesson may have parts
        if not modules:
            near = get_close_matches(slug, known, cutoff=0.5)
            advice = f"did you mean {' or '.join(near)}?" if near else "say a lesson's number, such as 02."
            raise ValueError(f"there are no experiments of {slug!r}: {advice}")
        found += modules
    return found or known


def main(arguments: list[str] | None = None) -> int:
    """The command; 0 if the records are whole, 1 if a run failed or something is missing, 2 for a wrong name."""
    parser = argparse.ArgumentParser(prog="course_lib.workshop.experiments", description=__doc__)
    parser.add_argument("lessons", nargs="*", help="numbers or slugs; all if none is named")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these experiments alone")
    parser.add_argument("--list", action="store_true", help="say what is missing or stale, run nothing")
    parser.add_argument("--confirm", type=int, metavar="N", help="after a change of code alone: run N samples, compare")
    options = parser.parse_args(arguments)
    book = Book()
    try:
        lessons = chosen(options.lessons)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    if options.confirm:
        return confirm([job for slug in lessons for job in book.samples(slug, options.confirm, options.only)], book)
    jobs = [job for slug in lessons for job in book.lacking(slug, options.only)]
    if options.list:
        for one in dict.fromkeys(job[0] for job in jobs):
            print(f"{one.slug}: {one.name}: {sum(job[0] is one for job in jobs)} runs are missing or stale")
        print(f"{len(jobs) or 'No'} runs are missing or stale.")
        return int(bool(jobs))
    jobs.sort(key=lambda job: CPU_ORDER.get(job[3], 9))
    try:
        failed = run_all(jobs, book.add)
    except KeyboardInterrupt:
        print("Stopped. What is finished is kept: the same command goes on from here.", file=sys.stderr)
        return 1
    print(*failed, sep="\n", file=sys.stderr)
    print(f"{len(jobs) - len(failed)} runs recorded, {len(failed) or 'none'} failed.")
    return int(bool(failed))


def confirm(jobs: list[tuple[Experiment, dict, int, str]], book: Book) -> int:
    """Run the samples and take what they confirm; 0 if that is all of them."""
    found: dict[str, list] = {}
    by_name = {f"{job[0].slug}: {job[0].name}": job[0] for job in jobs}

    def keep(one: Experiment, entry: dict) -> None:
        found.setdefault(f"{one.slug}: {one.name}", []).append((*_run(entry), entry["result"]))

    failed = run_all(sorted(jobs, key=lambda job: CPU_ORDER.get(job[3], 9)), keep)
    print(*failed, sep="\n", file=sys.stderr)
    wanting = 0
    for name, one in by_name.items():
        whole = len(found.get(name, [])) == sum(job[0] is one for job in jobs)
        same = whole and book.confirm(one, found[name])
        wanting += not same
        print(f"{name}: {'the same numbers, taken' if same else 'other numbers: run it anew'}", flush=True)
    return int(bool(wanting))


CPU_ORDER = {"default": 0, "avx2": 1}  # runs of one instruction set one after another: a process serves many


if __name__ == "__main__":
    sys.exit(main())
