"""The loop of lesson 01 on many devices: each step is computed in pieces, by whoever is there, and comes out the same.

No step waits for a device. What was seen stays there until it is logged: then all of it is read at once, and a number
that is not finite ends the run, whose last snapshot is from before.
"""

import math
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import asdict
from functools import partial

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from course_lib.train.device import to_device
from course_lib.train.loop import cosine
from course_lib.workshop.scale import arithmetic, corpus, folder, processes
from course_lib.workshop.scale.config import Config
from course_lib.workshop.scale.processes import Here, StopRequest
from course_lib.workshop.scale.rows import draw
from course_lib.workshop.scale.tasks import TASKS, WIDTHS, Task

HELD_OUT = 16  # pieces that an evaluation reads
DROPOUT = 1  # its draws differ from those that made the piece


def train(config: Config) -> int:
    """Train as `config` says, from the newest snapshot on -> 0, or 128 and the signal that ended it.

    Raises ValueError, OSError, ModuleNotFoundError and FloatingPointError, in words.
    """
    check_share(config, processes.world_size())
    with processes.joined() as here, folder.alone(config.out) if here.first else nullcontext():
        say = partial(print, flush=True) if here.first else _silent
        prepare(config, here, say)
        if not config.steps:
            return 0
        run = Run(config, TASKS[config.model](config, corpus.place_of(config)), here, say)
        say(run.in_words())
        with StopRequest() as stop:
            return run.go(stop)


def prepare(config: Config, here: Here, say=print) -> None:
    """The first process makes the run's folder and data, which may take hours; the others wait for it."""
    if here.first:
        folder.keep(config)
        corpus.prepare(config, say)
    ThreadPoolExecutor(1).submit(here.wait, processes.LONG).result()  # in a thread, so that Ctrl-C is heard meanwhile


def check_share(config: Config, world: int) -> None:
    """Raise ValueError where the pieces of a step cannot be shared out equally."""
    if config.pieces % world:
        fewer = next(n for n in range(world, 0, -1) if config.pieces % n == 0)
        raise ValueError(
            f"A step of {config.batch} rows has {config.pieces} pieces of {config.micro}, and {world} processes cannot "
            f"take equal shares of them: start {fewer}, or choose another --micro in a new run."
        )


def optimiser_of(model: nn.Module, config: Config) -> torch.optim.Optimizer:
    """AdamW by its fused kernel; or Muon for the matrices inside the blocks. Biases and gains do not decay."""
    vectors = {"params": [weight for weight in model.parameters() if weight.ndim < 2], "weight_decay": 0.0}
    wide = [weight for weight in model.parameters() if weight.ndim > 1]
    if config.optimiser == "adamw":
        groups = [{"params": wide}, vectors]
        return torch.optim.AdamW(groups, config.lr, (0.9, 0.95), weight_decay=config.weight_decay, fused=True)
    inside = [part.weight for part in processes.blocks_of(model).modules() if isinstance(part, nn.Linear)]
    known = {id(weight) for weight in inside}
    matrices = {"params": inside, "matrices": True, "lr": config.matrix_lr}
    tables = {"params": [weight for weight in wide if id(weight) not in known]}
    return processes.GatheredMuon([matrices, tables, vectors], lr=config.lr, weight_decay=config.weight_decay)


class Run:
    """One training under way: model, optimiser, where it stands, what it has seen."""

    def __init__(self, config: Config, task: Task, here: Here, say=print):
        self.config, self.task, self.here, self.say = config, task, here, say
        torch.manual_seed(config.seed)
        self.bare = task.model()
        d_model, _, layers = WIDTHS[config.model][config.size]
        self.shape = arithmetic.shape_of(self.bare, layers, d_model, task.reach, task.read_out)
        self.model = processes.share_out(self.bare, config, here)
        self.optimiser = optimiser_of(self.bare, config)
        self.rates = [group["lr"] for group in self.optimiser.param_groups]
        self.chip = torch.cuda.get_device_name(here.device) if here.device.type == "cuda" else here.device.type
        self.peak = config.peak or arithmetic.peak_of(self.chip)
        found = folder.newest(config.out, say) if here.first else 0  # one looks, for all
        self.done = int(here.add_up(torch.tensor(found)))
        if self.done:
            folder.load(config.out, self.done, self.bare, self.optimiser)
        self.journal = folder.Journal(config.out, self.done, config.tensorboard) if here.first else None
        self.unread: list[Tensor] = []

    def in_words(self) -> str:
        """What is about to be trained, by whom."""
        c, work = self.config, arithmetic.flops_per_token(self.shape)
        peak = f"{self.peak:.3g} FLOPs/s" if self.peak else "unknown, see --peak"
        start = f"Continues after step {self.done}." if self.done else "Begins."
        settings = "\n".join(f"  {name:14} {value}" for name, value in asdict(c).items())
        return (
            f"{c.model} {c.size}: {self.shape.weights:,} weights, {work:.3g} FLOPs per token\n{settings}\n"
            f"{self.here.world} processes on {self.chip} (peak {peak}), {c.batch * self.task.per_row:,} tokens per "
            f"step. {start}"
        )

    def go(self, stop: StopRequest) -> int:
        """Take the steps that are left -> 0, or 128 and the signal that ended them."""
        c, began, counted = self.config, time.perf_counter(), self.done
        steps, pinned = range(self.done, c.steps), self.here.device.type == "cuda"
        for pieces in DataLoader(steps, batch_size=None, collate_fn=self.pieces, pin_memory=pinned):
            self.step(pieces, stop.number)
            last, asked = self.done == c.steps, False
            log, evaluate, save = (last or self.done % n == 0 for n in (c.log_every, c.evaluate_every, c.save_every))
            if log or evaluate or save or self.done == 1:
                asked = self.read()
            if log or self.done == 1:
                now = time.perf_counter()
                self._tell((self.done - counted) / (now - began))
                began, counted = now, self.done
            between = time.perf_counter()
            if evaluate:
                self.evaluate()
            if save or asked:
                folder.save(c.out, self.done, self.bare, self.optimiser, self.here, c.keep)
            began += time.perf_counter() - between  # neither is a step
            if asked:
                self.say(f"Stopped after step {self.done} of {c.steps}, which is kept: the same command continues.")
                return 128 + (stop.number or signal.SIGTERM)
        self.say(f"Trained: {folder.save_weights(c.out, self.bare, self.here)}")
        return 0

    def pieces(self, step: int) -> list:
        """This process's share of a step, on the CPU."""
        return [self.task.piece(step, k) for k in self.here.share(self.config.pieces)]

    def step(self, pieces: list, asked: int = 0) -> None:
        """One step of the optimiser along the gradient of all processes' pieces; what it saw stays on the device.

        asked: not 0 if this process was asked to stop.
        """
        c, here = self.config, self.here
        self.model.train()
        self.optimiser.zero_grad(set_to_none=True)
        loss = torch.zeros((), device=here.device)
        for k, piece in zip(here.share(c.pieces), pieces, strict=True):
            torch.manual_seed(draw(c.seed, self.done, k, DROPOUT))
            with processes.averaging(self.model, last=piece is pieces[-1]):
                with processes.computing(self.model, c, here):
                    of_piece = self.task.loss(self.model, to_device(piece, here.device)) / len(pieces)
                of_piece.backward()
            loss = loss + of_piece.detach()
        norm = nn.utils.clip_grad_norm_(self.bare.parameters(), c.clip or math.inf)
        norm = norm.full_tensor() if hasattr(norm, "full_tensor") else norm
        factor = cosine(self.done, c.steps, c.warmup)
        for group, rate in zip(self.optimiser.param_groups, self.rates, strict=True):
            group["lr"] = rate * factor
        self.optimiser.step()
        stop = torch.full((), float(asked > 0), device=here.device)
        self.unread.append(torch.cat([here.add_up(torch.stack([loss / here.world, stop])), norm[None]]))
        self.done += 1

    def read(self) -> bool:
        """Write what the last steps saw into the log: the one wait for the device -> whether anybody is asked to stop.

        Raises FloatingPointError for a loss or gradient that is not finite.
        """
        c, first, asked = self.config, self.done - len(self.unread), False
        seen, self.unread, lines = torch.stack(self.unread).tolist(), [], []
        for before, (loss, stop, norm) in enumerate(seen, first):
            if not math.isfinite(loss + norm):
                raise FloatingPointError(
                    f"step {before + 1} has loss {loss} and gradient norm {norm}. Snapshots that are there are from "
                    f"before: lower the rates (--lr, now {c.lr:g}) in a folder of its own (--out)."
                )
            asked = asked or stop > 0
            rate = self.rates[-1] * cosine(before, c.steps, c.warmup)
            lines.append({"step": before + 1, "loss": loss, "norm": norm, "lr": rate})
        self._write(*lines)
        self.last = loss
        return asked

    @torch.no_grad()
    def evaluate(self) -> None:
        """Log the loss on held-out pieces; nothing where there are none."""
        if self.task.held_out(0) is None:
            return
        here, loss = self.here, torch.zeros((), device=self.here.device)
        self.model.eval()
        for k in here.share(-(-HELD_OUT // here.world) * here.world):  # as many for each: FSDP computes together
            piece = to_device(self.task.held_out(k), here.device)
            with processes.computing(self.model, self.config, here):
                of_piece = self.task.loss(self.model, piece)
            loss = loss + of_piece.float() * (k < HELD_OUT) / HELD_OUT
        loss = here.add_up(loss).item()
        self._write({"step": self.done, "held_out": loss})
        self.say(f"step {self.done:7}  held out {loss:.4f}")

    def _tell(self, steps_per_second: float) -> None:
        tokens = steps_per_second * self.config.batch * self.task.per_row
        line, shown = {"step": self.done, "tokens_per_second": tokens}, ""
        if self.peak:
            line["utilisation"] = tokens * arithmetic.flops_per_token(self.shape) / (self.peak * self.here.world)
            shown = f"  {line['utilisation']:.1%} of the peak"
        self._write(line)
        self.say(f"step {self.done:7}  loss {self.last:.4f}  {tokens:,.0f} tokens/s{shown}")

    def _write(self, *lines: dict) -> None:
        if self.journal:
            self.journal.write(*lines)


def _silent(*_) -> None:
    """Says nothing."""
