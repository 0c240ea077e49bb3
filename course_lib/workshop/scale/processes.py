"""One training in many processes: who is there, and how a model is shared out.

`torchrun` starts the processes and numbers them by environment variables; without it there is one. With DDP each
process holds the whole model and they average gradients (Li et al., 2020); with FSDP each holds a share of every
weight, gradient and moment, and gathers the weights of a block while it computes (Zhao et al., 2023).
"""

import os
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, Replicate
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

from course_lib.language.muon import Muon
from course_lib.train.device import pick_device
from course_lib.workshop.scale.config import Config

PATIENCE = timedelta(minutes=10)  # how long a process waits for the others within a step
LONG = timedelta(days=3)  # and while the first one makes the data, or writes the weights


@dataclass(frozen=True)
class Here:
    """This process among all: its number, how many there are, its device."""

    rank: int
    world: int
    device: torch.device

    @property
    def first(self) -> bool:
        """Whether this is the process that writes and prints."""
        return self.rank == 0

    def share(self, pieces: int) -> range:
        """The pieces of a step that this process computes."""
        return range(self.rank, pieces, self.world)

    def add_up(self, numbers: Tensor) -> Tensor:
        """The sum over all processes, in place; the program does not wait for a GPU."""
        if self.world > 1:
            dist.all_reduce(numbers)
        return numbers

    def wait(self, patience: timedelta = PATIENCE) -> None:
        """Until all processes are here."""
        if self.world > 1:
            dist.barrier(timeout=patience)  # by gloo, which notices at once that a process is gone


def world_size() -> int:
    """How many processes this training has been started with: torchrun says it."""
    return int(os.environ.get("WORLD_SIZE", "1"))


@contextmanager
def joined() -> Iterator[Here]:
    """Join the processes of this training while the block runs.

    Raises ConnectionError where they do not meet, ValueError where there are more of them than GPUs.
    """
    rank, world, device = int(os.environ.get("RANK", "0")), world_size(), pick_device()
    if world == 1:
        yield Here(0, 1, device)
        return
    here = int(os.environ.get("LOCAL_WORLD_SIZE", world))
    if device.type == "cuda":
        if here > (gpus := torch.cuda.device_count()):
            raise ValueError(
                f"{here} processes find {gpus} GPUs on this machine: start as many as there are (--nproc-per-node), or "
                "compute on the CPU (COURSE_DEVICE=cpu)."
            )
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    else:
        device = torch.device("cpu")  # PyTorch joins no processes on a Mac's GPU
    backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
    try:
        store = _local_store(rank, world) if here == world else None
        numbers = {"rank": rank, "world_size": world} if store else {}
        dist.init_process_group(backend, store=store, timeout=PATIENCE, **numbers)
    except (OSError, RuntimeError, ValueError) as error:
        address = f"{os.environ.get('MASTER_ADDR')}:{os.environ.get('MASTER_PORT')}"
        why = str(error).partition("\n")[0]
        raise ConnectionError(f"The {world} processes could not meet at {address}: {why}") from None
    yield Here(rank, world, device)
    dist.barrier(timeout=LONG)
    dist.destroy_process_group()


def _local_store(rank: int, world: int) -> dist.Store | None:
    """A store, and gloo, that listen to this machine alone; None where torchrun keeps the store.

    PyTorch's own store listens on every network of the machine, and gloo on that of the machine's name.
    """
    if loopback := [name for _, name in socket.if_nameindex() if name in ("lo", "lo0")]:  # on Linux, on macOS
        os.environ.setdefault("GLOO_SOCKET_IFNAME", loopback[0])
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
        return None
    place = ("127.0.0.1", int(os.environ["MASTER_PORT"]))
    listening = socket.create_server(place).detach() if rank == 0 else None
    return dist.TCPStore(*place, world, rank == 0, PATIENCE, master_listen_fd=listening)


def share_out(model: nn.Module, config: Config, here: Here) -> nn.Module:
    """`model` on its device, as this run computes it: what is called in its place in a step.

    In bf16, DDP computes under autocast (see `computing`); FSDP keeps its shares in float32 and gathers bf16. With
    `recompute`, only the inputs of blocks are kept, and the backward pass computes blocks again (Chen et al., 2016).
    """
    shared = config.parallel == "fsdp" and here.world > 1
    if not shared:  # else each block goes there when it is shared out: the whole may find no room
        model.to(here.device)
    blocks = blocks_of(model)
    for block in blocks:
        if config.compile:  # one by one: they share their code, and gradients of one travel while others are computed
            block.forward = torch.compile(block.forward, fullgraph=True)
        if config.recompute:
            block.forward = partial(checkpoint, block.forward, use_reentrant=False)
    if here.world == 1:
        return model
    if not shared:
        torch._dynamo.config.optimize_ddp = False  # it would cut compiled blocks into smaller parts
        return DistributedDataParallel(model, [here.device] if here.device.type == "cuda" else None)
    mesh = init_device_mesh(here.device.type, (here.world,))
    half = torch.bfloat16 if config.precision == "bf16" else None
    for block in blocks:
        fully_shard(block, mesh=mesh, mp_policy=MixedPrecisionPolicy(half, torch.float32))
    return fully_shard(model, mesh=mesh, mp_policy=MixedPrecisionPolicy(half, torch.float32, torch.float32))


def blocks_of(model: nn.Module) -> nn.ModuleList:
    """The blocks of a GPT, a ViT, or of the BERT inside a head."""
    return model.bert.blocks if hasattr(model, "bert") else model.blocks


def computing(model: nn.Module, config: Config, here: Here):
    """The context of a forward pass: autocast to bf16 where that is asked for and FSDP does not do it already."""
    half = config.precision == "bf16" and not isinstance(model, FSDPModule)
    return torch.autocast(here.device.type, torch.bfloat16) if half else nullcontext()


def averaging(model: nn.Module, last: bool):
    """DDP averages gradients with the `last` piece, and only adds them up before; FSDP, to hold less, with each."""
    return model.no_sync() if isinstance(model, DistributedDataParallel) and not last else nullcontext()


class GatheredMuon(Muon):
    """`Muon` that gathers a matrix which FSDP has shared out, for its direction is that of the whole."""

    @staticmethod
    def along(matrix: Tensor, rounds: int) -> Tensor:
        if isinstance(matrix, DTensor):
            matrix = matrix.redistribute(placements=[Replicate()] * matrix.device_mesh.ndim)
        return Muon.along(matrix, rounds)


class StopRequest:
    """Inside the block, the first Ctrl-C or SIGTERM is noted in `number`; a second one ends the process as usual."""

    number = 0

    def __enter__(self) -> "StopRequest":
        self.before = {number: signal.signal(number, self._note) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *_) -> None:
        for number, handler in self.before.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame) -> None:
        self.number = number
        self.__exit__()
