"""This machine in words, for what is measured on it."""

import os
import platform
import re
from importlib.metadata import version
from pathlib import Path

import torch


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def machine() -> str:
    """This machine in words: cores, processor family, GPU if the course would use it, PyTorch's version."""
    parts = [f"{cores()} core{'s' if cores() != 1 else ''}", _processor()]
    if torch.cuda.is_available() and os.environ.get("COURSE_DEVICE", "cuda").startswith("cuda"):
        parts.append(torch.cuda.get_device_name())
    return ", ".join([*parts, f"PyTorch {version('torch').split('+')[0]}"])


def _processor():
    """The processor's family, without its clock or marks; the architecture where the system does not tell."""
    try:
        info = Path("/proc/cpuinfo").read_text()
    except OSError:
        info = ""
    found = re.search(r"^model name\s*: (.+)$", info, re.MULTILINE)
    name = found[1] if found else platform.processor()
    name = re.sub(r"\((R|TM|C)\)|@.*$|\bCPU\b|\bProcessor\b", " ", name, flags=re.IGNORECASE)
    return " ".join(name.split()) or platform.machine()
