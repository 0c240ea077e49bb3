"""Where a training stood, on disk: written beside its place by all processes and renamed when it is whole.

PyTorch's distributed checkpoint: each process writes what it holds, and any number of processes reads it, whether they
share weights out or not. A snapshot lies between two steps, and is whole when all its files are there as they were
written, by their size and their SHA-256.
Its list of contents is a pickle, which runs code when it is read: open only snapshots that you, or somebody you trust,
have written. `weights` is plain numbers.
"""

import errno
import hashlib
import json
import os
import shutil
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import torch.distributed.checkpoint as dcp
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_state_dict,
    set_state_dict,
)

from course_lib.data.beside import beside, write_beside
from course_lib.scale.config import STEP, snapshots_in
from course_lib.scale.endings import first_line, lost
from course_lib.scale.processes import Here

CONTENTS, WEIGHTS = "contents.json", "model.safetensors"
FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
# What libraries write of it; PyTorch's says of a disk that takes a part only that it stands at an "unexpected pos".
NO_ROOM = "the disk is full, or no more may be written there"
TOLD_OF_FULL = ("unexpected pos", *map(os.strerror, FULL))


def place_of(out: str | Path, step: int) -> Path:
    """The folder of the snapshot after so many steps."""
    return Path(out) / f"step-{step:08d}"


def newest(out: str | Path, say=print) -> int:
    """After how many steps the newest whole snapshot in this folder was taken; 0 where there is none."""
    for step, place in reversed(snapshots_in(out).items()):
        if _is_whole(place):
            return step
        say(f"{place} is not whole, and is passed over.")
    return 0


def save(out: str | Path, step: int, model: nn.Module, optimiser, here: Here, keep: int) -> None:
    """Write a snapshot, and keep it and those before it, `keep` in all. Raises OSError, on all, where it cannot be."""
    place = place_of(out, step)
    new = place.with_name(f".{place.name}.part")
    if here.first:
        shutil.rmtree(new, ignore_errors=True)
    here.wait()
    with _told(f"The snapshot of step {step}", new, here):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that there is one process alone, and of PyTorch's own renamed functions
            dcp.save(_state(model, optimiser), checkpoint_id=new)
        if here.first:
            write_beside(new / CONTENTS, json.dumps(_contents(sorted(new.iterdir()))))
            shutil.rmtree(place, ignore_errors=True)  # one that was not whole
            os.replace(new, place)
    if here.first:
        places = snapshots_in(out)
        before = [one for one in places if one <= step]  # those behind it were damaged, and the run took them anew
        for old in places.keys() - {*before[-keep:]}:
            shutil.rmtree(places[old], ignore_errors=True)
    here.wait()


def load(out: str | Path, step: int, model: nn.Module, optimiser) -> None:
    """Bring model and optimiser to where they stood after so many steps. Raises ValueError for another model's."""
    state = _state(model, optimiser)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            dcp.load(state, checkpoint_id=place_of(out, step))
    except (dcp.api.CheckpointException, OSError, RuntimeError, ValueError) as error:
        _check_all_here(error)
        raise ValueError(
            f"{place_of(out, step)} belongs to another model, or is damaged ({_why(error)}): name another "
            "folder with --out."
        ) from None
    set_state_dict(model, optimiser, model_state_dict=state["model"], optim_state_dict=state["optimiser"])


def weights(out: str | Path, model: nn.Module, here: Here) -> Path:
    """Write the whole model's weights as safetensors, by the names that the model alone has."""
    path = Path(out) / WEIGHTS
    whole = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True, cpu_offload=True))
    if here.first:
        with _told(f"The weights in {path}", None, here), beside(path) as new:
            save_file({name: tensor.contiguous() for name, tensor in whole.items()}, new)
    return path


def sweep(out: str | Path) -> None:
    """Remove what killed writers have left; ValueError where something else lies in the place of a snapshot."""
    _check_places(Path(out))
    for left in Path(out).glob(".step-*.part"):
        if STEP.fullmatch(left.name[1 : -len(".part")]):
            shutil.rmtree(left, ignore_errors=True)


def _state(model: nn.Module, optimiser) -> dict:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        of_model, of_optimiser = get_state_dict(model, optimiser)
    return {"model": of_model, "optimiser": of_optimiser}


def _contents(paths: list[Path]) -> dict[str, list]:
    """Size and SHA-256 of each file of a snapshot. Read side by side: there is one of each process."""
    with ThreadPoolExecutor() as several:
        return {path.name: seen for path, seen in zip(paths, several.map(_seen, paths), strict=True)}


def _seen(path: Path) -> list:
    with open(path, "rb") as file:
        return [path.stat().st_size, hashlib.file_digest(file, "sha256").hexdigest()]


def _is_whole(place: Path) -> bool:
    try:
        contents = json.loads((place / CONTENTS).read_text(encoding="utf-8"))
        found = _contents([place / name for name in contents])
        # Of a snapshot from before there were sums, the sizes are all that can be compared.
        return bool(found) and all(contents[name] in (seen, seen[0]) for name, seen in found.items())
    except (OSError, LookupError, RecursionError, TypeError, ValueError):
        return False


@contextmanager
def _told(what: str, new: Path | None, here: Here):
    """Inside, what cannot be written is told as an OSError in words, and what was half written goes."""
    try:
        yield
    except (dcp.api.CheckpointException, SafetensorError, OSError) as error:
        _check_all_here(error)
        if here.first and new:
            shutil.rmtree(new, ignore_errors=True)
        why = _why(error)
        advice = "make room" if why == NO_ROOM else "put that right"
        raise OSError(
            f"{what} could not be written ({why}). The snapshots before it are whole: {advice}, and the same command "
            "goes on."
        ) from None


def _check_places(out: Path) -> None:
    for path in (*out.glob("step-*"), *out.glob(".step-*.part"), out / WEIGHTS):
        ours = path.name == WEIGHTS or STEP.fullmatch(path.name.removeprefix(".").removesuffix(".part"))
        if ours and path.exists() and path.is_dir() == (path.name == WEIGHTS):
            kind, other = ("folder", "file") if path.is_dir() else ("file", "folder")
            raise ValueError(
                f"{path} is a {kind}, and this training writes a {other} there: move it away, or name another folder "
                "with --out."
            )


def _check_all_here(error: BaseException) -> None:
    """Raise RuntimeError where a snapshot failed because another process is gone."""
    for inner in _causes(error):
        if lost(inner):
            raise RuntimeError(str(inner)) from None


def _causes(error: BaseException) -> list[BaseException]:
    """What failed, on one process or on several."""
    return [one[0] if isinstance(one, tuple) else one for one in getattr(error, "failures", {0: error}).values()]


def _why(error: BaseException) -> str:
    """What went wrong, in a line: of a failure on several processes the first one's."""
    cause = next(iter(_causes(error)), error)
    if getattr(cause, "errno", None) in FULL or any(words in str(cause) for words in TOLD_OF_FULL):
        return NO_ROOM
    return first_line(cause)
