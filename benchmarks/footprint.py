"""What it takes to run a program once: bytes on disk, peak memory, time to the first result.

    python benchmarks/footprint.py [--runs 9] [--write]

Each way is a process that starts, reads its arguments from .npy files, computes, writes its results
and ends: a C program that `hloc --emit=exe` made and that needs no other file; the same computation
written by hand in NumPy; hloc from Python, with an empty and with a filled cache; XLA:CPU of
jaxlib. The ways take turns; time is the best and memory the median of `--runs`. Results are
compared with the answers stored beside the examples. `--write` writes docs/footprint.md. Needs a C
compiler that links statically; the row of XLA is left out where jax is not installed.
"""

import argparse
import importlib.metadata
import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import harness, xla
from hloc.cli import main as hloc_main
from hloc.quantities import size_text

HERE = Path(__file__).resolve().parent / "footprint_ways"
PROGRAMS = ("mlp_train_step", "gpt_block")
PAGE = harness.ROOT / "docs" / "footprint.md"
_NAME = re.compile(r"[A-Za-z0-9._-]+")


@dataclass
class Way:
    """One way to run a program.

    Attributes:
        command: without the program that measures.
        environment: variables that it needs.
        disk_bytes: of all files that must be there.
        forgets: folder that is emptied before each run.
        seconds, peak_bytes: one per run.
    """

    name: str
    command: list[str]
    disk_bytes: int
    environment: dict[str, str] = field(default_factory=dict)
    forgets: Path | None = None
    seconds: list[float] = field(default_factory=list)
    peak_bytes: list[int] = field(default_factory=list)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        launcher = folder / "launch"
        compiler = shutil.which("cc") or sys.exit("there is no C compiler cc")
        source = str(HERE / "launch.c")
        subprocess.run([compiler, "-O1", "-static", source, "-o", launcher], check=True)
        tables = [_table(name, folder / name, launcher, arguments.runs) for name in PROGRAMS]
    page = "\n".join([_INTRODUCTION, "", _machine(arguments.runs), "", *tables])
    print(page)
    if arguments.write:
        PAGE.write_text(page)


_INTRODUCTION = """\
# What a compiled program needs

Written by `make footprint` (`benchmarks/footprint.py`). Each row is a process that starts, reads
its arguments from `.npy` files, computes once, writes its results and ends. Time and peak memory
are those of the whole process; results are compared with the stored answers of XLA each time.

- `hloc, C program`: `CC='cc -static' hloc FILE -O2 --emit=exe`, which holds libc as well; on disk
  it is one file. The object alone is the code, the constants and the wrapper that a C program
  would link with.
- `NumPy`: the same computation written by hand (`benchmarks/footprint_ways/*_numpy.py`); on disk
  are Python with its standard library, and NumPy.
- `hloc, Python`: `hloc.compile` in a fresh process, with an empty cache of objects (cold) or a
  filled one (warm); on disk are Python, hloc and the packages it requires.
- `XLA:CPU`: jax and jaxlib compile the same module in a fresh process; on disk are Python, both
  and the packages they require."""


def _machine(runs: int) -> str:
    return (
        f"Machine: {harness.machine()['cpu']}, {os.cpu_count()} cores, Python "
        f"{platform.python_version()}. It was shared: the best time of {runs} runs in turn,\n"
        "and the median of the memory."
    )


def _table(program: str, folder: Path, launcher: Path, runs: int) -> str:
    """Run all ways of `program` and return its part of the page."""
    folder.mkdir()
    module = harness.ROOT / "examples" / f"{program}.hlo"
    stored = np.load(module.with_suffix(".inputs.npz"))
    for name in stored.files:
        np.save(folder / f"{name}.npy", stored[name])
    wanted = np.load(module.with_suffix(".outputs.npz"))
    object_bytes = _object_bytes(module, folder)
    ways = list(_ways(program, module, folder, len(stored.files)))
    for _ in range(runs):
        for way in ways:
            _run(way, launcher, folder)
            for name in wanted.files:
                found = np.load(folder / f"{name}.npy")
                np.testing.assert_allclose(found, wanted[name], rtol=1e-4, atol=1e-5)
                (folder / f"{name}.npy").unlink()
    lines = [
        f"## {program}",
        "",
        f"The object is {size_text(object_bytes)}.",
        "",
        "| way | on disk | peak memory | first result after |",
        "|---|--:|--:|--:|",
    ]
    for way in ways:
        milliseconds = 1e3 * min(way.seconds)
        shown = f"{milliseconds:,.0f}" if milliseconds >= 100 else f"{milliseconds:.3g}"
        peak = size_text(int(statistics.median(way.peak_bytes)))
        lines.append(f"| {way.name} | {size_text(way.disk_bytes)} | {peak} | {shown} ms |")
    return "\n".join([*lines, ""])


def _object_bytes(module: Path, folder: Path) -> int:
    path = folder / "model.o"
    assert hloc_main([str(module), "-q", "-O2", "--emit=obj", "-o", str(path)]) == 0
    return path.stat().st_size


def _ways(program: str, module: Path, folder: Path, arguments: int) -> list[Way]:
    """Return the ways that this installation has."""
    path = folder / program
    os.environ["CC"] = "cc -static"
    assert hloc_main([str(module), "-q", "-O2", "--emit=exe", "-o", str(path)]) == 0
    files = [str(folder / f"arg{i}.npy") for i in range(arguments)]
    python = [sys.executable, "-P"]
    kept, forgotten = folder / "kept", folder / "forgotten"
    numpy_script = str(HERE / f"{program}_numpy.py")
    hloc_script = [*python, str(HERE / "with_hloc.py"), str(module), str(folder)]
    paths = {"PYTHONPATH": str(harness.ROOT)}
    project = tomllib.loads((harness.ROOT / "pyproject.toml").read_text())["project"]
    hloc_bytes = _packages("hloc", project["dependencies"])
    ways = [
        Way("hloc, C program", [str(path), *files, "-o", str(folder / "out")], path.stat().st_size),
        Way("NumPy", [*python, numpy_script, str(folder)], _packages("", ["numpy"]), paths),
        Way("hloc, Python, warm", hloc_script, hloc_bytes, {**paths, "HLOC_CACHE_DIR": str(kept)}),
        Way(
            "hloc, Python, cold",
            hloc_script,
            hloc_bytes,
            {**paths, "HLOC_CACHE_DIR": str(forgotten)},
            forgets=forgotten,
        ),
    ]
    if xla.available():
        script = [*python, str(HERE / "with_xla.py"), str(module), str(folder)]
        ways.append(Way("XLA:CPU, Python", script, _packages("", ["jax", "jaxlib"]), paths))
    return ways


def _packages(own: str, names: Sequence[str]) -> int:
    """Return the bytes of Python, its library, the requirements `names` and what they require.

    `own` is a package of this checkout.
    """
    found: dict[str, importlib.metadata.Distribution] = {}
    waiting = list(names)
    while waiting:
        match = _NAME.match(waiting.pop())
        assert match
        name = match[0]
        key = re.sub(r"[-_.]+", "-", name).lower()
        if key in found:
            continue
        found[key] = importlib.metadata.distribution(name)
        for requirement in found[key].requires or ():
            if "extra ==" not in requirement and "python_version <" not in requirement:
                waiting.append(requirement)
    total = _python_bytes() + (_folder_bytes(harness.ROOT / own) if own else 0)
    for distribution in found.values():
        paths = (Path(str(distribution.locate_file(file))) for file in distribution.files or ())
        total += sum(path.stat().st_size for path in paths if path.is_file())
    return total


def _python_bytes() -> int:
    library = Path(sysconfig.get_path("stdlib"))
    return Path(sys.executable).resolve().stat().st_size + _folder_bytes(library)


def _folder_bytes(folder: Path) -> int:
    """Return the bytes of all files under `folder` but other packages and what Python caches."""
    total = 0
    for parent, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name not in ("site-packages", "__pycache__")]
        total += sum(Path(parent, n).stat().st_size for n in names if Path(parent, n).is_file())
    return total


def _run(way: Way, launcher: Path, folder: Path) -> None:
    if way.forgets is not None:
        shutil.rmtree(way.forgets, ignore_errors=True)
    done = subprocess.run(
        [launcher, *way.command],
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, "JAX_PLATFORMS": "cpu", **way.environment},
        check=False,
    )
    if done.returncode:
        sys.exit(f"{way.name} failed:\n{done.stdout}{done.stderr}")
    seconds, peak = done.stdout.split()[-2:]
    way.seconds.append(float(seconds))
    way.peak_bytes.append(int(peak))


if __name__ == "__main__":
    main()
