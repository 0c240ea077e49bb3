"""Run one notebook from a fresh kernel, as a student's "Run All" does, and measure it."""

import asyncio
import atexit
import os
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import nbformat
import psutil
from ipykernel.kernelspec import RESOURCES, get_kernel_dict
from jupyter_client import AsyncKernelManager
from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbformat import NotebookNode

from course_lib.workshop.publish.normalise import first_line

CELL_TIMEOUT = 600  # seconds; a lesson's own limit is far below


class _ThisPython(KernelSpecManager):
    """Knows one kernel: the Python that runs this, whatever else calls itself python3 on this machine."""

    def get_kernel_spec(self, kernel_name):
        return KernelSpec(resource_dir=RESOURCES, **get_kernel_dict())


@dataclass
class Run:
    """One notebook, executed: its outputs, its wall time, its kernel's peak memory, and what went wrong.

    `ended` is True once every cell was run: not where the kernel did not start, died, or was stopped.
    """

    notebook: NotebookNode
    seconds: float = 0.0
    peak_mb: int = 0
    failures: list[str] = field(default_factory=list)
    ended: bool = False


def run(path: Path, variables: dict[str, str] | None = None, keep_going: bool = False, last: str = "") -> Run:
    """Execute the notebook at `path` in its own folder, with a home of its own and no network wanted.

    `variables` are environment variables of this run; without COURSE_SEED the notebook uses its own. With
    `keep_going` a cell that raises does not end the run, so that every claim is measured; with `last` the run
    ends behind the last code cell that holds this text. The file is not written, and what it stores is not seen:
    all outputs in the result are of this run.
    """
    result = Run(_without_outputs(nbformat.read(path, as_version=4)))
    if last:
        cells = result.notebook.cells
        holding = [n for n, cell in enumerate(cells, 1) if cell.cell_type == "code" and last in cell.source]
        del cells[max(holding, default=len(cells)) :]
    where = ["before its first cell"]

    def started(cell, cell_index):
        where[0] = f"cell {cell_index + 1} (`{first_line(cell.source, 50)}`)"

    def executed(cell, cell_index, execute_reply):
        result.peak_mb = max(result.peak_mb, _peak_mb(client.km.provisioner.pid))

    def failed(cell, cell_index, execute_reply):
        content = execute_reply["content"]
        result.failures.append(f"{where[0]} raised {content['ename']}: {first_line(content['evalue'], 300)}")

    manager = AsyncKernelManager(kernel_name="python3", kernel_spec_manager=_ThisPython(), transport_encryption="auto")
    with tempfile.TemporaryDirectory(prefix="unrolled-") as home:
        client = NotebookClient(
            result.notebook,
            km=manager,
            resources={"metadata": {"path": str(path.resolve().parent)}},
            timeout=CELL_TIMEOUT,
            allow_errors=keep_going,
            record_timing=False,
            store_widget_state=False,
            on_cell_start=started,
            on_cell_executed=executed,
            on_cell_error=failed,
        )
        client.owns_km = True  # ours was made for this run, and ends with it
        start = time.perf_counter()
        try:
            # An event loop of this run's own, closed after it: runs may go side by side, a thread each.
            asyncio.run(client.async_execute(env=_environment(home) | (variables or {})))
            result.ended = True
        except CellExecutionError:
            pass  # `failed` has told
        except CellTimeoutError:
            result.failures.append(f"{where[0]} did not end within {CELL_TIMEOUT} seconds")
        except (DeadKernelError, RuntimeError) as error:
            result.failures.append(f"the kernel ended in {where[0]}: {first_line(str(error))}")
        finally:
            atexit.unregister(client._cleanup_kernel)  # nbclient leaves it where no kernel started
        result.seconds = time.perf_counter() - start
    return result


def _without_outputs(notebook):
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    return notebook


def _environment(home):
    """This environment, less what would make the run another than a student's."""
    mine = {
        "ATEN_CPU_CAPABILITY",
        "MKL_ENABLE_INSTRUCTIONS",
        "COURSE_SEED",
        "MPLBACKEND",
        "PYTHONPATH",
        "PYTHONWARNINGS",
    }
    environment = {name: value for name, value in os.environ.items() if name not in mine}
    return environment | {"COURSE_HOME": home, "IPYTHONDIR": str(Path(home) / "ipython"), "HF_HUB_OFFLINE": "1"}


def _peak_mb(pid):
    """A process's peak memory so far, in MB; where the system does not tell, what it holds now."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) // 1024
    except (OSError, StopIteration):
        pass
    try:
        memory = psutil.Process(pid).memory_info()
    except psutil.Error:
        return 0
    return getattr(memory, "peak_wset", memory.rss) // 2**20
