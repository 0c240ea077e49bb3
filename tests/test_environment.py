"""The set-up files agree: exact versions, one PyTorch, an environment.yml that conda and pip can read."""

import ast
import os
import socket
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from rattler import MatchSpec
from rattler.exceptions import InvalidMatchSpecError

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
ENVIRONMENT = yaml.safe_load((ROOT / "environment.yml").read_text())
CONDA = [line for line in ENVIRONMENT["dependencies"] if isinstance(line, str)]
PIP = next(line["pip"] for line in ENVIRONMENT["dependencies"] if isinstance(line, dict))
PACKAGES = [
    *PROJECT["dependencies"],
    *(p for extra in PROJECT["optional-dependencies"].values() for p in extra),
]


def is_exact(requirement: str) -> bool:
    """Whether a requirement admits one version only."""
    specifiers = list(Requirement(requirement).specifier)
    return len(specifiers) == 1 and specifiers[0].operator == "==" and "*" not in specifiers[0].version


def pin(name: str, requirements: list[str]) -> str:
    """The version that `requirements` pin `name` to."""
    return next(str(r.specifier) for r in map(Requirement, requirements) if r.name == name)


@pytest.mark.parametrize("requirement", PACKAGES)
def test_packages_are_pinned_exactly(requirement):
    assert is_exact(requirement)


@pytest.mark.parametrize("loose", ["torch", "torch>=2", "torch==2.*", "torch==2.13.0,!=2.13.1"])
def test_a_loose_pin_is_seen(loose):
    assert not is_exact(loose)


def test_no_package_is_named_twice():
    names = [Requirement(requirement).name for requirement in PACKAGES]
    assert len(names) == len(set(names))


def imported(sources: list[str]) -> set[str]:
    """The top-level names of everything that Python sources import, at any depth, less Python's own."""
    nodes = [node for source in sources for node in ast.walk(ast.parse(source))]
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module and not node.level}
    return {name.split(".")[0] for name in names} - sys.stdlib_module_names - {"course_lib"}


@pytest.mark.slow
def test_what_the_library_imports_is_pinned():
    named = {canonicalize_name(Requirement(requirement).name) for requirement in PACKAGES}
    brought_by = packages_distributions()
    library = ROOT / "course_lib"
    # What publishes notebooks may use any part of Jupyter that comes with the pinned ones; no lesson stands on it.
    paths = [path for path in library.rglob("*.py") if library / "workshop" / "publish" not in path.parents]
    sources = [path.read_text(encoding="utf-8") for path in paths]
    missing = [n for n in imported(sources) if not named & {canonicalize_name(d) for d in brought_by.get(n, [])}]
    assert missing == []


def test_imports_are_seen():
    assert imported(["import os, PIL.Image\ndef f():\n    from sklearn.svm import SVC\nfrom . import x"]) == {
        "PIL",
        "sklearn",
    }


def test_conda_reads_its_lines():
    specs = {MatchSpec(line, strict=True).name.normalized: line for line in CONDA}
    assert {"python", "pip"} <= specs.keys(), "conda warns about a pip section without pip"


def test_a_line_that_conda_cannot_read_is_refused():
    with pytest.raises(InvalidMatchSpecError):
        MatchSpec("python>>3.11", strict=True)


def test_only_conda_forge_is_asked():
    assert ENVIRONMENT["channels"] == ["conda-forge", "nodefaults"]


def test_pip_reads_its_lines_and_installs_this_package():
    assert PIP[-1] == "-e ."
    assert all(is_exact(line) for line in PIP[:-1])


def test_pytorch_has_one_version():
    assert pin("torch", PIP[:-1]) == pin("torch", PROJECT["dependencies"])


def test_conda_brings_a_python_that_the_package_takes():
    python = next(line for line in CONDA if line.startswith("python="))
    assert SpecifierSet(PROJECT["requires-python"]).contains(python.removeprefix("python="))


def test_the_page_of_platforms_says_by_hand_what_make_test_runs():
    plain = {name: value for name, value in os.environ.items() if name not in ("WORKERS", "MAKEFLAGS")}
    make = ["make", "--dry-run", "--no-print-directory", "test"]
    told = subprocess.run(make, cwd=ROOT, env=plain, capture_output=True, text=True, check=True).stdout
    command = told.strip().splitlines()[-1]
    assert command.startswith(".venv/bin/python -m pytest ")
    page = ROOT / "course_lib" / "workshop" / "publish" / "pages" / "platforms.md"
    assert command in page.read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("name", ["course", """a $HOME 'b' "c" d,(e) #f"""])
def test_make_works_in_a_folder_of_any_name(tmp_path, name):
    """A stand-in for the set-up's Python writes down what it is told: nothing is installed."""
    folder = tmp_path.resolve() / name
    (folder / ".venv" / "bin").mkdir(parents=True)
    (folder / "notebooks").mkdir()
    (folder / "notebooks" / "01_rnn.ipynb").touch()
    for file in ("Makefile", "pyproject.toml"):
        (folder / file).write_bytes((ROOT / file).read_bytes())
    python, told = folder / ".venv" / "bin" / "python", folder / "told.txt"
    variables = '"$JUPYTER_CONFIG_DIR" "$JUPYTER_CONFIG_PATH" "$JUPYTERLAB_SETTINGS_DIR"'
    python.write_text(f'#!/bin/sh\nprintf "%s\\n" {variables} "$@" >> told.txt\n')
    python.chmod(0o755)
    plain = {key: value for key, value in os.environ.items() if key not in ("MAKEFLAGS", "JUPYTER_CONFIG_PATH")}

    def run(*command):
        told.write_text("")
        subprocess.run(["make", *command], cwd=folder, env=plain, capture_output=True, check=True)
        return told.read_text().splitlines()

    state, root = f"{folder}/.venv/state", f"--ServerApp.root_dir={folder}"
    first, again, talk = run("lab"), run("lab"), run("present", "LESSON=01")
    assert (folder / ".venv" / ".installed").read_text() == f"{folder}\n"
    assert (folder / ".venv" / "state" / "jupyter" / "labconfig" / "default_setting_overrides.json").exists()
    assert "pip" in first and root in first and f"{state}/jupyter" in first
    assert "pip" not in again and root in again
    assert {root, f"{folder}/course_lib/workshop/publish/live", f"{state}/talk/settings"} <= {*talk}
    title = """A $x `b` "c" 'd' #e"""
    assert f"--title={title}" in run("lesson", f"TITLE={title}", "QUESTION=Why?")


def test_tests_cannot_reach_the_network():
    with socket.socket() as outward, pytest.raises(RuntimeError, match="without it"):
        outward.connect(("192.0.2.1", 9))
