"""The loop of lesson 01 on many devices: each step is computed in pieces, by whoever is there, and comes out the same.

No step waits for a device. What was seen lies there until it is logged: then all of it is read at once, and a number
that is not finite ends the run, whose last whole snapshot is from before.
"""

import math
import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from functools import partial
from threading import Thread

import torch
from torch import Tensor, nn

from course_lib.scale import arithmetic, corpus, snapshots
from course_lib.scale.config import Config, alone, in_words, keep
from course_lib.scale.endings import world_size
from course_lib.scale.journal import Journal
from course_lib.scale.processes import (
    Here,
    Wishes,
    blocks_of,
    computing,
    joined,
    share_out,
    together_only_if,
)
from course_lib.scale.rows import draw
from course_lib.scale.tasks import TASKS, WIDTHS, Task
from course_lib.train.device import to_device
from course_lib.train.loop import cosine

HELD_OUT = 16  # pieces that an evaluation reads
DROPOUT = 1  # where its draws stand apart from those that a piece was made by


def train(config: Config) -> int:
    """Train as `config` says, from the newest whole snapshot on -> 0, or the signal that ended it, as shells count.

    Raises ValueError, OSError, ConnectionError and FloatingPointError, in words.
    """
    check_share(config, world_size())
    with joined() as here, alone(config) if here.first else nullcontext():
        say = partial(print, flush=True) if here.first else _silent
        prepare(config, here, say)
        if not config.steps:
            return 0
        task = TASKS[config.model](config, corpus.folder(config))
        run = Run(config, task, here, say)
        if here.first:
            say(run.in_words())
        with Wishes().heard() as wishes, ThreadPoolExecutor(1) as ahead:
            return run.go(wishes, ahead)


def prepare(config: Config, here: Here, say=print) -> None:
    """The first process makes the run's folder and data; the others look each second whether it is done."""

    def make():
        keep(config)
        snapshots.sweep(config.out)
        corpus.prepare(config, say)

    if here.world == 1:
        return make()
    made = Future()

    def work():
        try:
            made.set_result(make())
        except BaseException as error:  # told where the process waits for it
            made.set_exception(error)

    if here.first:
        Thread(target=work, daemon=True).start()  # it keeps nobody who is asked to end
    while here.add_up(torch.tensor(float(here.first and not made.done()))):
        time.sleep(1)
    if here.first:
        made.result()
    here.wait()  # where that failed, the first process is gone


def check_share(config: Config, world: int) -> None:
    """Raise ValueError where the pieces of a step cannot be shared out equally."""
    if config.pieces % world:
        fewer = next(n for n in range(world, 0, -1) if config.pieces % n == 0)
        rows = next((n for n in range(config.micro, 0, -1) if config.batch % (n * world) == 0), None)
        way = f"--micro {rows}" if rows else f"--batch {-(-config.batch // world) * world}"
        raise ValueError(
            f"A step of {config.batch} rows has {config.pieces} pieces of {config.micro}, and {world} processes cannot "
            f"take equal shares of them: start {fewer}, or ask for {way} in a new run."
        )


def optimiser_of(model: nn.Module, config: Config) -> torch.optim.Optimizer:
    """AdamW by its fused kernel; or Muon for the matrices inside the blocks. Biases and gains of norms do not decay."""
    vectors = {"params": [weight for weight in model.parameters() if weight.ndim < 2], "weight_decay": 0.0}
    wide = [weight for weight in model.parameters() if weight.ndim > 1]
    if config.optimiser == "adamw":
        groups = [{"params": wide}, vectors]
        return torch.optim.AdamW(groups, config.lr, (0.9, 0.95), weight_decay=config.weight_decay, fused=True)
    from course_lib.scale.matrices import SharedMuon, matrices_of

    inside = matrices_of(blocks_of(model))
    known = {id(weight) for weight in inside}
    tables = {"params": [weight for weight in wide if id(weight) not in known], "matrices": False}
    groups = [{"params": inside, "matrices": True, "lr": config.matrix_lr}, tables, vectors | {"matrices": False}]
    return SharedMuon(groups, lr=config.lr, weight_decay=config.weight_decay)


class Run:
    """One training under way: model, optimiser, where it stands, what it has seen."""

    def __init__(self, config: Config, task: Task, here: Here, say=print):
        self.config, self.task, self.here, self.say = config, task, here, say
        torch.manual_seed(config.seed)
        self.bare = task.model()
        d_model, _, layers = WIDTHS[config.model][config.size]
        self.shape = arithmetic.shape_of(self.bare, layers, d_model, task.reach, task.read_out)
        self.model = share_out(self.bare, config, here)
        self.optimiser = optimiser_of(self.bare, config)
        self.rates = [group["lr"] for group in self.optimiser.param_groups]
        self.chip = torch.cuda.get_device_name(here.device) if here.device.type == "cuda" else here.device.type
        self.peak = config.peak or arithmetic.peak_of(self.chip)
        found = snapshots.newest(config.out, say) if here.first else 0  # one looks, for all
        self.done = int(here.add_up(torch.tensor(found)))
        if self.done:
            snapshots.load(config.out, self.done, self.bare, self.optimiser)
        self.unread: list[tuple[Tensor, float]] = []
        self.journal = Journal(config.out, here.first, config.tensorboard, self.done)

    def in_words(self) -> str:
        """What is about to be trained, by whom."""
        c, shape = self.config, self.shape
        work = arithmetic.flops_per_token(shape)
        peak = f"of a peak of {self.peak:.3g}" if self.peak else "of a peak that is not known: --peak names it"
        start = f"Goes on after step {self.done}." if self.done else "Begins."
        return (
            f"{c.model} {c.size}: {shape.weights:,} weights, {work:.3g} FLOPs a token, {peak}\n{in_words(c)}\n"
            f"{self.here.world} processes on {self.chip}, {c.batch * self.task.per_row:,} tokens a step. {start}"
        )

    def go(self, wishes: Wishes, ahead: ThreadPoolExecutor) -> int:
        """Take the steps that are left -> 0, or 128 and the signal that ended them."""
        c, began, counted = self.config, time.perf_counter(), self.done
        coming = ahead.submit(self.pieces, self.done)
        while self.done < c.steps:
            pieces = coming.result()
            if self.done + 1 < c.steps:
                coming = ahead.submit(self.pieces, self.done + 1)
            self.step(pieces, wishes)
            due = self.done % c.log_every == 0 or self.done in (1, c.steps)
            asked = 0
            if due or self.done % c.save_every == 0 or self.done % c.evaluate_every == 0:
                asked = self.read()
            if due:
                now = time.perf_counter()
                self._tell(self.done - counted, now - began)
                began, counted = now, self.done
            left = time.perf_counter()
            if self.done % c.evaluate_every == 0 or self.done == c.steps:
                self.evaluate()
            if self.done % c.save_every == 0 or self.done == c.steps or asked:
                self.save()
            began += time.perf_counter() - left  # neither is a step
            if asked:
                self.say(f"Stopped after step {self.done} of {c.steps}, which is kept: the same command goes on.")
                return 128 + asked
        path = snapshots.weights(c.out, self.bare, self.here)
        self.say(f"Trained: {path}")
        return 0

    def pieces(self, step: int) -> list:
        """This process's share of a step, on the CPU."""
        pieces = [self.task.piece(step, k) for k in self.here.share(self.config.pieces)]
        return pieces if self.here.device.type != "cuda" else [_pinned(piece) for piece in pieces]

    def step(self, pieces: list, wishes: Wishes | None = None) -> None:
        """One step of the optimiser along the gradient of all processes' pieces; what it saw stays on the device."""
        c, here, model = self.config, self.here, self.model
        factor = cosine(self.done, c.steps, c.warmup)
        answers = [sum(terms) for terms in zip(*map(self.task.answers, pieces), strict=True)]
        total = here.add_up(here.put(answers))
        self.optimiser.zero_grad(set_to_none=True)
        model.train()
        share = torch.zeros((), device=here.device)
        for k, piece in zip(here.share(c.pieces), pieces, strict=True):
            piece = to_device(piece, here.device)
            torch.manual_seed(draw(c.seed, self.done, k, DROPOUT))  # what it draws follows from the place as well
            with together_only_if(k + here.world >= c.pieces, model):
                with computing(model, c, here):
                    loss = (self.task.nats(model, piece) / total.clamp(min=1)).sum()
                (loss * here.world).backward()  # the processes average their gradients, and the sum is wanted
            share = share + loss.detach()
        norm = nn.utils.clip_grad_norm_(self.bare.parameters(), c.clip or math.inf)
        norm = norm.full_tensor() if hasattr(norm, "full_tensor") else norm
        for group, rate in zip(self.optimiser.param_groups, self.rates, strict=True):
            group["lr"] = rate * factor
        self.optimiser.step()
        place = torch.arange(2 * here.world, device=here.device)  # each process's loss, then each one's wish
        wish = float(wishes.signal if wishes else 0)
        seen = torch.where(place == here.rank, share, torch.where(place == here.world + here.rank, wish, 0.0))
        self.unread.append((torch.cat([here.add_up(seen), norm[None]]), factor))
        self.done += 1

    def read(self) -> int:
        """Bring what was seen into the log -> the signal that somebody was sent, or 0; the one wait for the device.

        Raises FloatingPointError for a loss or gradient that is not finite, and says whose.
        """
        if not self.unread:
            return 0
        seen, factors = torch.stack([row for row, _ in self.unread]).tolist(), [factor for _, factor in self.unread]
        first, self.unread, lines, asked = self.done - len(seen) + 1, [], [], 0.0
        for step, ((*row, norm), factor) in enumerate(zip(seen, factors, strict=True), start=first):
            shares, wishes = row[: self.here.world], row[self.here.world :]
            asked = max(asked, *wishes)
            if not math.isfinite(sum(shares) + norm):
                whose = [rank for rank, share in enumerate(shares) if not math.isfinite(share)]
                self._fail(step, sum(shares), norm, whose)
            lines.append({"step": step, "loss": sum(shares), "norm": norm, "lr": self.rates[-1] * factor})
        self.journal.write(*lines)
        self.last = lines[-1]["loss"]
        return int(asked)

    @torch.no_grad()
    def evaluate(self) -> None:
        """The loss on pieces that are held out, into the log; nothing where none are."""
        if self.task.held_out(0) is None:
            return
        here, config = self.here, self.config
        self.model.eval()
        nats, answers = 0.0, 0.0
        for k in here.share(-(-HELD_OUT // here.world) * here.world):  # as many for each: FSDP computes together
            piece = to_device(self.task.held_out(k), here.device)
            with computing(self.model, config, here):
                seen = self.task.nats(self.model, piece)
            nats = nats + seen.float() * (k < HELD_OUT)
            answers = answers + here.put(self.task.answers(piece)) * (k < HELD_OUT)
        loss = (here.add_up(nats) / here.add_up(answers).clamp(min=1)).sum().item()
        self.journal.write({"step": self.done, "held_out": loss})
        self.say(f"step {self.done:7}  held out {loss:.4f}")

    def save(self) -> None:
        """A snapshot of where the run stands."""
        snapshots.save(self.config.out, self.done, self.bare, self.optimiser, self.here, self.config.keep)

    def _tell(self, steps: int, seconds: float) -> None:
        tokens = steps * self.config.batch * self.task.per_row / max(seconds, 1e-9)
        rate = tokens * arithmetic.flops_per_token(self.shape)
        used = rate / (self.peak * self.here.world) if self.peak else None
        self.journal.write(
            {"step": self.done, "tokens_per_second": tokens, "flops_per_second": rate, "utilisation": used}
        )
        shown = f"{used:.1%} of {self.peak:.3g} FLOPs/s a process" if used else f"{rate:.3g} FLOPs/s"
        self.say(f"step {self.done:7}  loss {self.last:.4f}  {tokens:,.0f} tokens/s  {shown}")

    def _fail(self, step: int, loss: float, norm: float, whose: list[int]) -> None:
        one = 0 < len(whose) < self.here.world
        on = f" on process {', '.join(map(str, whose))} of {self.here.world} alone" if one else ""
        kept = snapshots.newest(self.config.out, _silent)
        back = f"The snapshot of step {kept} is whole" if kept else "There is no snapshot yet"
        raise FloatingPointError(
            f"Step {step}: loss {loss}{on}, gradient norm {norm}. {back}: lower the rates (--lr, now "
            f"{self.config.lr:g}) in a folder of its own (--out)."
        )


def _pinned(piece):
    """The same batch in memory that a GPU reads by itself."""
    if isinstance(piece, Tensor):
        return piece.pin_memory()
    moved = [part if part is None else part.pin_memory() for part in piece]
    return type(piece)(*moved) if hasattr(piece, "_fields") else type(piece)(moved)


def _silent(*_) -> None:
    """Says nothing."""
