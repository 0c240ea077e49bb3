"""`python -m course_lib.workshop.scale gpt --size tiny`: one training, in one process or in those of `torchrun`."""

import argparse
import os
import signal
import sys
from dataclasses import MISSING, fields

from course_lib.workshop.scale.config import Config, configured

LOST = ("peer", "connection", "socket", "gloo", "remote process exited", "timed out", "broken pipe")


def parsed(arguments: list[str] | None = None) -> Config:
    """The configuration that a command line asks for; raises ValueError, in words."""
    parser = argparse.ArgumentParser(
        prog="python -m course_lib.workshop.scale",
        description=__doc__.splitlines()[0],
        allow_abbrev=False,
        argument_default=argparse.SUPPRESS,
    )
    parser.error = _refuse
    for one in fields(Config):
        about, name = one.metadata, one.name if one.name == "model" else f"--{one.name.replace('_', '-')}"
        kind = {"type": one.type, "choices": about["choices"]}
        kind = {"action": argparse.BooleanOptionalAction} if one.type is bool else kind
        default = "" if one.default is MISSING else f" [{one.default}]"
        changes = " (may change when a run continues)" if about["how"] and one.name != "out" else ""
        parser.add_argument(name, help=about["help"] + default + changes, **kind)
    return configured(**vars(parser.parse_args(arguments)))


def main(arguments: list[str] | None = None) -> int:
    """Run the command -> its exit status: 0, 1 after an error, or 128 and a signal.

    What all processes find is told by the first one on each machine, what may have happened to one alone by each.
    """
    status, each = 1, False
    try:
        config = parsed(arguments)
        from course_lib.workshop.scale.run import train  # a mistake in the command is told before PyTorch is loaded

        return train(config)
    except KeyboardInterrupt:
        said = "Stopped at once. The same command continues from the newest snapshot, if there is one."
        status = 128 + signal.SIGINT
    except (ValueError, FloatingPointError, ModuleNotFoundError, OSError) as error:
        said, each = f"Stopped: {error}", isinstance(error, OSError)
    except RuntimeError as error:
        why, each = str(error).partition("\n")[0], True
        if type(error).__name__ == "OutOfMemoryError":
            said = "Stopped: the device is out of memory. Try --recompute, --parallel fsdp, or a smaller --micro."
        elif type(error).__module__.startswith(("torch._dynamo", "torch._inductor")):
            said = f"Stopped: torch.compile does not work here ({why}). Train without --compile."
        elif any(word in str(error).lower() for word in LOST):
            said = (
                "Stopped: another process of this run has ended or cannot be reached. The same command, with as many "
                f"processes or another number, continues from the newest snapshot. (PyTorch said: {why})"
            )
        else:
            raise
    if each or os.environ.get("LOCAL_RANK", "0") == "0":
        print(said, file=sys.stderr, flush=True)
    return status


def _refuse(message: str) -> None:
    raise ValueError(f"{message}. All options: python -m course_lib.workshop.scale --help")


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    if status:  # without waiting for processes that are gone
        os._exit(status)
