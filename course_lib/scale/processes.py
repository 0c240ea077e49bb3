"""One training in many processes: who is there, and how a model is shared out.

`torchrun` starts the processes and tells each its number by environment variables; without it there is one. With DDP
each process holds the whole model and they average gradients (Li et al., 2020); with FSDP each holds a share of every
weight, gradient and moment, and gathers a block's weights while it computes (Zhao et al., 2023).
"""

import os
import signal
import socket
import sys
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
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

from course_lib.scale.config import Config
from course_lib.scale.endings import first_line
from course_lib.train.device import pick_device

PATIENCE = timedelta(minutes=10)  # how long a process waits for the others
AT_THE_END = timedelta(hours=3)  # while the first one writes the weights


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

    def share(self, pieces: int) -> list[int]:
        """Which of a step's pieces this process computes."""
        return list(range(self.rank, pieces, self.world))

    def add_up(self, numbers: Tensor) -> Tensor:
        """The sum over all processes, in place, on each; the program does not wait for a GPU."""
        if self.world > 1:
            dist.all_reduce(numbers)
        return numbers

    def put(self, numbers: list[float]) -> Tensor:
        """The numbers on the device, for which the program does not wait: each travels with the call that writes it."""
        return torch.stack([torch.full((), float(number), device=self.device) for number in numbers])

    def wait(self) -> None:
        """Until all are here."""
        if self.world > 1:
            dist.barrier()  # by gloo, which notices at once who is gone


@contextmanager
def joined() -> Iterator[Here]:
    """The processes of this training, joined while the block runs.

    Raises ConnectionError where they do not meet, ValueError where there are more of them than GPUs here.
    """
    rank, world, local = (int(os.environ.get(name, default)) for name, default in NUMBERS.items())
    device = pick_device()
    if device.type == "mps" and world > 1:
        device = torch.device("cpu")  # PyTorch has nothing that would join processes there
    if device.type == "cuda" and world > 1:
        _check_one_each(local)
        device = torch.device("cuda", local)
        torch.cuda.set_device(device)
    if world == 1:
        yield Here(0, 1, device)
        return
    backend = f"cpu:gloo,{device.type}:nccl" if device.type == "cuda" else "gloo"
    try:
        on_one_machine = os.environ.get("LOCAL_WORLD_SIZE") == str(world)
        store = _listening_here(rank, world) if on_one_machine else None
        numbers = {"rank": rank, "world_size": world} if store else {}
        dist.init_process_group(backend, store=store, timeout=PATIENCE, **numbers)
    except (OSError, RuntimeError, ValueError) as error:
        address = f"{os.environ.get('MASTER_ADDR')}:{os.environ.get('MASTER_PORT')}"
        raise ConnectionError(f"The {world} processes could not meet at {address}: {first_line(error)}") from None
    try:
        yield Here(rank, world, device)
        dist.barrier(timeout=AT_THE_END)
    finally:
        if dist.is_initialized() and sys.exc_info()[0] is None:
            dist.destroy_process_group()


NUMBERS = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0"}


def share_out(model: nn.Module, config: Config, here: Here) -> nn.Module:
    """`model` on its device, as this run computes it: what is called in its place in a step.

    bf16: DDP computes under autocast (see `computing`); FSDP keeps its shares in float32 and gathers bf16. A model that
    is recomputed keeps only what stands between its blocks, and computes each block once more on the way back (Chen et
    al., 2016).
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
    """The context of a forward pass: autocast to bf16, where FSDP does not do it already."""
    shared = isinstance(model, FSDPModule)
    return (
        torch.autocast(here.device.type, torch.bfloat16) if config.precision == "bf16" and not shared else nullcontext()
    )


@contextmanager
def together_only_if(last: bool, model: nn.Module) -> Iterator[None]:
    """DDP adds up pieces' gradients where they are and averages with the `last` one; FSDP, to hold less, with each."""
    with model.no_sync() if isinstance(model, DistributedDataParallel) and not last else nullcontext():
        yield


class Wishes:
    """What a first interrupt, or a cluster's SIGTERM, asks for: to end after a step, with what was learned kept."""

    def __init__(self):
        self.signal = 0

    @contextmanager
    def heard(self) -> Iterator["Wishes"]:
        """Inside, the first signal is noted; a second one ends the process as it always did."""

        def note(number, frame):
            self.signal = number
            for one, handler in before.items():
                signal.signal(one, handler)

        before = {one: signal.signal(one, note) for one in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield self
        finally:
            for one, handler in before.items():
                signal.signal(one, handler)


def _listening_here(rank: int, world: int) -> dist.Store | None:
    """Let gloo, and the store where they meet, listen to this machine alone; None where torchrun keeps that store.

    PyTorch's own store listens on every network of the machine, and gloo on the one that the machine's name belongs to.
    """
    if loopback := [name for _, name in socket.if_nameindex() if name in ("lo", "lo0")]:  # on Linux, on macOS
        os.environ.setdefault("GLOO_SOCKET_IFNAME", loopback[0])
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
        return None
    place = ("127.0.0.1", int(os.environ["MASTER_PORT"]))
    listening = socket.create_server(place).detach() if rank == 0 else None
    return dist.TCPStore(*place, world, rank == 0, PATIENCE, master_listen_fd=listening)


def _check_one_each(local: int) -> None:
    """Raise ValueError where a process of this machine finds no GPU of its own."""
    if local >= torch.cuda.device_count():
        raise ValueError(
            f"Process {local} of this machine finds no GPU of its own among {torch.cuda.device_count()}: start as many "
            "processes as there are (--nproc-per-node), or compute on the CPU (COURSE_DEVICE=cpu)."
        )
