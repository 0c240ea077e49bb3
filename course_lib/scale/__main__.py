"""`python -m course_lib.scale gpt --size tiny`: one training, by one process or by as many as `torchrun` starts."""

import argparse
import signal
import sys
from dataclasses import MISSING, fields

from course_lib.scale.config import HOW, SIZES, Config, configured
from course_lib.scale.endings import first_line, lost, say_once

HELP = {
    "data": "plays, a text file, hub:name[:config]; for vit: digits, fashion, hub:name[:config]",
    "out": "the run's folder; a run that lies there goes on from its newest whole snapshot",
    "steps": "of the whole training; 0: the data are made, and no step is taken",
    "batch": "rows in a step, of all processes together",
    "micro": "rows that a process reads at a time",
    "tokens": "tokens of a row",
    "matrix_lr": "learning rate of Muon's matrices",
    "tokenizer": "own: learned from the text; published: GPT-2's or BERT's; auto: published for hub:name, else own",
    "fetch": "how many tokens, or images, of the hub are read; 0: all",
    "parallel": "ddp: every process holds the whole model; fsdp: a share of it",
    "compile": "with torch.compile",
    "recompute": "keep less of the way there, and compute it again on the way back",
    "tensorboard": "write what is logged for TensorBoard as well",
    "peak": "FLOPs a second that a device can do at best, where its name is not known",
}


def parsed(arguments: list[str] | None = None) -> Config:
    """The configuration that a command line asks for; raises ValueError, in words."""
    parser = argparse.ArgumentParser(
        prog="python -m course_lib.scale", description=__doc__.splitlines()[0], allow_abbrev=False
    )
    parser.error = _refuse
    parser.add_argument("model", choices=SIZES)
    parser.add_argument("--size", default="tiny", help=", ".join(dict.fromkeys(s for m in SIZES.values() for s in m)))
    for field in fields(Config):
        if field.name in ("model", "size"):
            continue
        name, help = f"--{field.name.replace('_', '-')}", HELP.get(field.name, "")
        kind = {"action": argparse.BooleanOptionalAction} if field.type is bool else {"type": field.type}
        again = " (may change when a run goes on)" if field.name in HOW - {"out"} else ""
        given = "" if field.default is MISSING else f" [{field.default}]"
        parser.add_argument(name, default=None, help=f"{help}{given}{again}".strip(), **kind)
    return configured(**vars(parser.parse_args(arguments)))


def main(arguments: list[str] | None = None) -> int:
    """Run the command -> its exit status: 0, 1 after an error that one process has told, or 128 and a signal."""
    try:
        config = parsed(arguments)
        from course_lib.scale.run import train  # a mistake in the command is told before anything heavy is read

        return train(config)
    except (ValueError, OSError, FloatingPointError, ModuleNotFoundError) as error:
        say_once(f"Not trained: {error}" if not isinstance(error, FloatingPointError) else f"Stopped. {error}")
    except RuntimeError as error:
        if type(error).__name__ == "OutOfMemoryError":
            say_once("Stopped: the device has no memory left. Try --recompute, --parallel fsdp, or a new --micro.")
            return 1
        if type(error).__module__.startswith(("torch._dynamo", "torch._inductor")):
            say_once(f"Stopped: torch.compile cannot do it here ({first_line(error)}). Train without --compile.")
            return 1
        if not lost(error):
            raise
        say_once(
            "Stopped: another process of this run has ended, or cannot be reached, so no step can be finished. Start "
            "the same command again, with as many processes or others: it goes on from the newest whole snapshot. "
            f"(PyTorch said: {first_line(error)})"
        )
    except KeyboardInterrupt:
        say_once("Stopped at once: the same command goes on from the newest whole snapshot, if there is one.")
        return 128 + signal.SIGINT
    return 1


def _refuse(message: str) -> None:
    raise ValueError(f"{message}. All that can be asked for: python -m course_lib.scale --help")


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    sys.stderr.flush()
    if status:  # at once: what waits for processes that are gone would keep this one
        import os

        os._exit(status)
    sys.exit(status)
