"""What a run keeps in its folder: its settings, its log, and snapshots from which it continues exactly.

A snapshot is PyTorch's distributed checkpoint: each process writes what it holds, and any number of processes reads it,
whether they share weights out or not. Its files are safetensors, whose contents are numbers; PyTorch's default format
lists its contents in a pickle, which could run code when it is read. A snapshot is written to a hidden folder with its
SHA256SUMS, and renamed when it is whole.
"""

import json
import os
import re
import shutil
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, fields
from functools import partial
from pathlib import Path

import torch.distributed.checkpoint as dcp
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import nn
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader, HuggingFaceStorageWriter
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict, get_state_dict

from course_lib.data import checksums
from course_lib.data.beside import beside, write_beside
from course_lib.workshop.scale.config import Config
from course_lib.workshop.scale.processes import Here

try:
    import fcntl
except ImportError:  # Windows: nobody starts two runs in one folder there
    fcntl = None

SETTINGS, LOG, LOCK, WEIGHTS = "config.json", "log.jsonl", ".lock", "model.safetensors"
quiet = partial(warnings.catch_warnings, action="ignore")  # PyTorch warns that a process is alone


# --- settings


@contextmanager
def alone(out: str | Path) -> Iterator[None]:
    """Inside, no other training writes to the folder; ValueError where one does."""
    Path(out).mkdir(parents=True, exist_ok=True)
    with open(Path(out) / LOCK, "a") as lock:
        try:
            if fcntl:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ValueError(f"Another training writes to {out}: wait, or name another folder with --out.") from None
        except OSError:
            pass  # a file system without locks
        yield


def keep(config: Config) -> None:
    """Write the settings into the run's folder; where a run has begun there, compare them with its own.

    Raises ValueError for a run of other settings, or one whose settings are gone.
    """
    path, new = Path(config.out) / SETTINGS, asdict(config)
    if (path.parent / LOG).exists() or snapshots_in(config.out):
        try:
            old = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise ValueError(
                f"{config.out} holds a run, but its settings cannot be read ({error}): put {SETTINGS} back, or name "
                "another folder with --out."
            ) from None
        fixed = [one.name for one in fields(config) if not one.metadata["how"]]
        changed = [f"{name} was {old.get(name)!r} and is {new[name]!r}" for name in fixed if old.get(name) != new[name]]
        if changed:
            raise ValueError(
                f"{config.out} holds a run with other settings: {'; '.join(changed)}. Ask for it as it was begun, or "
                "name another folder with --out."
            )
    write_beside(path, json.dumps(new, indent=1) + "\n")


# --- the log


class Journal:
    """The log of a run, a line of JSON per entry. What comes after step `after` goes, for it is about to happen again.

    board: for TensorBoard as well. Raises ModuleNotFoundError where it is not installed, ValueError for a damaged log.
    """

    def __init__(self, out: str | Path, after: int = 0, board: bool = False):
        self.path, self.board = Path(out) / LOG, None
        if self.path.exists():
            kept = [json.dumps(line) + "\n" for line in read_log(out) if line["step"] <= after]
            write_beside(self.path, "".join(kept))
        if board:
            try:
                from torch.utils.tensorboard import SummaryWriter
            except ImportError:
                raise ModuleNotFoundError("--tensorboard needs TensorBoard: pip install tensorboard.") from None
            self.board = SummaryWriter(str(out), purge_step=after + 1)

    def write(self, *lines: dict) -> None:
        """Add lines, each with its `step`."""
        with open(self.path, "a", encoding="utf-8") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)
        for line in lines if self.board else ():
            for name in line.keys() - {"step"}:
                self.board.add_scalar(name, line[name], line["step"])


def read_log(out: str | Path) -> list[dict]:
    """The lines of a run's log, without half a line at its end, which a killed writer leaves; ValueError if damaged."""
    path = Path(out) / LOG
    try:
        return [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]
    except ValueError as error:
        raise ValueError(f"{path} is damaged ({error}): delete it, and the run continues with a new one.") from None


# --- snapshots


def place_of(out: str | Path, step: int) -> Path:
    """The folder of the snapshot after so many steps."""
    return Path(out) / f"step-{step:08d}"


def snapshots_in(out: str | Path) -> dict[int, Path]:
    """The folders of a run's snapshots, whole or not, by their step, in order."""
    found = {path: re.fullmatch(r"step-(\d{8,})", path.name) for path in Path(out).glob("step-*")}
    return dict(sorted((int(name[1]), path) for path, name in found.items() if name and path.is_dir()))


def newest(out: str | Path, say=print) -> int:
    """After how many steps the newest whole snapshot was taken; 0 where there is none."""
    for step, place in reversed(snapshots_in(out).items()):
        with suppress(ValueError):
            if checksums.listed(place) and not checksums.damaged(place):
                return step
        say(f"{place} is damaged or incomplete, and is passed over.")
    return 0


def save(out: str | Path, step: int, model: nn.Module, optimiser, here: Here, keep: int) -> None:
    """Write a snapshot, and keep it and those before it, `keep` in all. Raises OSError, on all processes."""
    place, new = place_of(out, step), Path(out) / ".snapshot.part"
    if here.first:
        shutil.rmtree(new, ignore_errors=True)
    here.wait()
    with quiet(), _told(f"The snapshot of step {step}"):
        dcp.save(_numbers(model, optimiser), storage_writer=HuggingFaceStorageWriter(str(new), save_distributed=True))
        if here.first:
            checksums.write_list(new, {path.name: checksums.checksum(path) for path in new.iterdir()})
            shutil.rmtree(place, ignore_errors=True)  # one that was damaged
            os.replace(new, place)
            places = snapshots_in(out)
            for old in places.keys() - {*[one for one in places if one <= step][-keep:]}:
                shutil.rmtree(places[old], ignore_errors=True)
    here.wait()


def load(out: str | Path, step: int, model: nn.Module, optimiser) -> None:
    """Bring model and optimiser to where they stood after so many steps. Raises ValueError for another model's."""
    place = place_of(out, step)
    try:
        with quiet():
            dcp.load(_numbers(model, optimiser), storage_reader=HuggingFaceStorageReader(str(place)))
    except dcp.api.CheckpointException as error:
        why = str(_first_cause(error)).partition("\n")[0]
        raise ValueError(f"{place} belongs to another model ({why}): name another folder with --out.") from None


def save_weights(out: str | Path, model: nn.Module, here: Here) -> Path:
    """Write the whole model's weights as one file of safetensors, under the names that the model alone has."""
    path = Path(out) / WEIGHTS
    whole = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True, cpu_offload=True))
    if here.first:
        with _told(f"The weights in {path}"), beside(path) as new:
            save_file({name: tensor.contiguous() for name, tensor in whole.items()}, new)
    return path


def _numbers(model: nn.Module, optimiser) -> dict:
    """The tensors of model and optimiser themselves, so that loading fills them in place.

    The optimiser's settings are not among them: they follow from the run's.
    """
    of_model, of_optimiser = get_state_dict(model, optimiser)
    return {"model": of_model, "optimiser": of_optimiser["state"]}


@contextmanager
def _told(what: str) -> Iterator[None]:
    """Inside, what cannot be written is told as an OSError in words."""
    try:
        yield
    except (dcp.api.CheckpointException, SafetensorError, OSError) as error:
        cause = _first_cause(error)
        if not isinstance(cause, (SafetensorError, OSError)):
            raise cause from None  # another process is gone
        raise OSError(
            f"{what} could not be written ({cause}). The snapshots before it are whole: make room, or put that right, "
            "and the same command continues."
        ) from None


def _first_cause(error: BaseException) -> BaseException:
    """What failed, on one process or on several."""
    return next(iter(error.failures.values()))[0] if isinstance(error, dcp.api.CheckpointException) else error
