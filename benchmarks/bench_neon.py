"""The suite on a 64-bit ARM processor that QEMU emulates: instructions, hloc beside XLA:CPU.

    python benchmarks/bench_neon.py [NAME|GROUP...] [--json OUT] [--xla EARLIER.json]

counts the instructions that one call of a program executes on one thread. Instructions are not
time: a division counts as much as an addition, and waiting for memory counts nothing. The processor
is a Neoverse N1: NEON with 32 registers of 128 bits, arithmetic in f16, and dot products of bytes.

hloc's code is made here, as `hloc -shared --target=aarch64 --mcpu=neoverse-n1` makes it; XLA
compiles in the emulation. What a call costs that does nothing is subtracted. Results of hloc are
compared with those of XLA on this machine. `--xla` takes XLA's counts from earlier results, which
saves most of the time.

Needs jax, a C compiler, the cross compiler `aarch64-linux-gnu-gcc`, `qemu-aarch64` with plugins
(Debian: qemu-user), and in the environment variable HLOC_AARCH64_ROOT a folder with an aarch64
system: `usr/bin/python3` and what it needs, and in `site` the packages of jax and scipy:

    debootstrap --foreign --arch=arm64 --variant=minbase --include=python3 bookworm ROOT
    for deb in ROOT/var/cache/apt/archives/*.deb; do dpkg -x $deb ROOT; done
    pip install --target ROOT/site --platform manylinux_2_28_aarch64 --python-version 3.11 \
        --only-binary=:all: jax==0.10.2 scipy
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import harness, history

ROOT_VARIABLE = "HLOC_AARCH64_ROOT"
PROCESSOR = "neoverse-n1"
MACHINE = "Neoverse N1 emulated by QEMU"
MOST_FLOPS, MOST_BYTES = 1e9, 64e6
"""Larger programs are left out: the emulation executes 20 to 60 million instructions a second."""

CACHED_BYTES, MEMORY_BOUND = 4e6, 2
"""Bytes that stay in a cache, and bytes per instruction above which a core waits for memory.

It moves some 12 GB, and executes some 6 billion instructions, in a second.
"""

_CPU_INFORMATION = """\
processor\t: 0
Features\t: fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp asimdrdm lrcpc asimddp
CPU implementer\t: 0x41
CPU architecture: 8
CPU variant\t: 0x3
CPU part\t: 0xd0c
CPU revision\t: 1
"""
"""What /proc/cpuinfo says on this processor; LLVM reads it."""

_HERE = Path(__file__).resolve().parent
Row = dict[str, Any]


def main() -> None:
    """Print a row per program, then the geometric mean."""
    parser = argparse.ArgumentParser(description="hloc beside XLA:CPU on NEON, in instructions")
    parser.add_argument("names", nargs="*", help="programs, groups or patterns; all if none")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--xla", type=Path, help="earlier results whose counts of XLA are taken")
    parser.add_argument("--append", type=Path, nargs="+", help="add such JSONs to the history")
    options = parser.parse_args()
    if options.append:
        history.append_files("neon", options.append, ratios)
        return
    earlier = json.loads(options.xla.read_text())["rows"] if options.xla else {}
    from benchmarks.suite.program import load_all

    names = harness.chosen(load_all(), options.names)
    print(f"{'program':24s} {'hloc':>14s} {'XLA':>14s} {'ratio':>6s}")
    rows: dict[str, Row] = {}
    with tempfile.TemporaryDirectory(prefix="hloc-neon-") as folder:
        for name, row in measured(names, Path(folder), earlier):
            rows[name] = row
            print(row_text(name, row), flush=True)
            if options.json:
                harness.save_rows(options.json, 1, rows, cpu=MACHINE)
    print(summary(rows))


def measured(names: list[str], folder: Path, earlier: dict[str, Row]) -> Iterator[tuple[str, Row]]:
    """Yield the programs that are small enough, with what was measured of each."""
    rows: dict[str, Row] = {}
    wanted: dict[str, list[Any]] = {}
    for name in names:
        (folder / name).mkdir()
        try:
            rows[name], wanted[name] = prepare(name, folder / name, with_xla=name not in earlier)
        except Exception as fault:  # the row tells it, and the others go on
            yield name, {"fault": f"{type(fault).__name__}: {fault}".splitlines()[0]}
    left = [name for name in wanted if is_small(rows[name])]
    left.sort(key=lambda name: rows[name]["flops"] + rows[name]["bytes"])
    while left:
        for name, counts in emulated(folder, left):
            left.remove(name)
            row = rows[name] | counts
            if name in earlier:
                row["xla"] = earlier[name]["xla"]
            if "fault" not in row:
                row["wrong"] = wrong_elements(folder / name, wanted[name])
            yield name, row
        if left:  # the emulation ended with a fault
            yield left[0], {"fault": "the emulation ended"}
            del left[0]


def is_small(row: Row) -> bool:
    """True if the emulation takes no more than a minute or so for a program."""
    return bool(row["flops"] <= MOST_FLOPS and row["bytes"] <= MOST_BYTES)


# ---------------------------------------------------------------- before the emulation


def prepare(name: str, folder: Path, *, with_xla: bool) -> tuple[Row, list[Any]]:
    """Write a program into its folder for `neon_worker.py`.

    Returns:
        its work and memory traffic, and XLA's results on this machine.
    """
    import jax
    import numpy as np

    from benchmarks.suite.program import load_all
    from hloc import driver
    from hloc.analysis.cost import module_cost
    from hloc.cli.linking import link_shared
    from hloc.codegen.cpu.aot.linkable import build_library
    from hloc.codegen.cpu.backend import CpuModule
    from hloc.options import CompileOptions

    program = load_all()[name]
    arguments = program.arguments(np.random.default_rng(0))
    flat = [np.asarray(a) for a in jax.tree.leaves(arguments)]
    with_doubles = any(a.dtype in (np.float64, np.complex128) for a in flat)
    jax.config.update("jax_enable_x64", with_doubles)
    jitted = jax.jit(program.function, keep_unused=True)
    text = jitted.lower(*arguments).as_text("hlo")
    options = CompileOptions(triple="aarch64", cpu=PROCESSOR)
    module = driver.parse_text(text)
    driver.optimise(module, options)
    compiled = driver.generate(module, options)
    assert isinstance(compiled, CpuModule)
    library = build_library(compiled, "model")
    link_shared(library, compiled.machine, str(folder / "model.so"))
    sizes = [array.shape.size_bytes for array in library.interface.results]
    row = {"flops": module_cost(module).flops, "bytes": sum(a.nbytes for a in flat) + sum(sizes)}
    if not is_small(row):
        return row, []
    about = {
        "with_xla": with_xla,
        "with_doubles": with_doubles,
        "arguments": [(a.dtype.name, a.shape) for a in flat],
        "results": sizes,
        "layouts": [array.shape.minor_to_major for array in library.interface.results],
        "temp": library.interface.temp_bytes,
        "alignment": library.interface.alignment,
    }
    (folder / "program.json").write_text(json.dumps(about))
    for i, array in enumerate(flat):
        array.tofile(folder / f"arg{i}")
    return row, [np.asarray(a) for a in jax.tree.leaves(jitted(*arguments))]


# ---------------------------------------------------------------- in the emulation


def emulated(folder: Path, names: list[str]) -> Iterator[tuple[str, Row]]:
    """Run programs in the emulated processor; yields the counts of each."""
    root = root_folder()
    plugin, counter = build_plugin(folder)
    command = [
        *("qemu-aarch64", "-cpu", PROCESSOR, "-L", str(root)),
        *("-plugin", f"{plugin},counter={counter}", str(root / "usr/bin/python3")),
        *(str(_HERE / "neon_worker.py"), str(counter), *(str(folder / name) for name in names)),
    ]
    environment = os.environ | {"PYTHONPATH": str(root / "site")}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout
        for line in process.stdout:
            row = json.loads(line)
            yield row.pop("folder"), row


def build_plugin(folder: Path) -> tuple[Path, Path]:
    """Compile the plugin that counts; returns it, and the file of its counter."""
    plugin, counter = folder / "count.so", folder / "counter"
    compiler, source = os.environ.get("CC", "cc"), str(_HERE / "count_instructions.c")
    subprocess.run([compiler, "-O1", "-shared", "-fPIC", "-o", str(plugin), source], check=True)
    counter.write_bytes(bytes(8))
    return plugin, counter


def root_folder() -> Path:
    """Return the folder with the emulated system, which sees the files of its processor."""
    named = os.environ.get(ROOT_VARIABLE)
    if not named or not (Path(named) / "usr/bin/python3").exists():
        sys.exit(f"{ROOT_VARIABLE} names no folder with an aarch64 system: see bench_neon.py")
    information = Path(named) / "proc" / "cpuinfo"  # QEMU opens this one for that of the machine
    information.parent.mkdir(exist_ok=True)
    information.write_text(_CPU_INFORMATION)
    return Path(named)


def wrong_elements(folder: Path, wanted: list[Any]) -> int:
    """Return how many elements of hloc's results differ from XLA's."""
    import numpy as np

    from hloc.report.compare import Bounds, compare

    layouts = json.loads((folder / "program.json").read_text())["layouts"]
    found = []
    for i, (want, layout) in enumerate(zip(wanted, layouts, strict=True)):
        order = layout[::-1]
        stored = np.fromfile(folder / f"out{i}", want.dtype)
        in_memory = stored.reshape([want.shape[axis] for axis in order])
        found.append(in_memory.transpose(np.argsort(order)) if order else in_memory)
    return compare(found, wanted, Bounds()).bad


# ---------------------------------------------------------------- reports


def row_text(name: str, row: Row) -> str:
    """Return the line of one program."""
    if "fault" in row:
        return f"{name:24s} {row['fault']}"
    return f"{name:24s} {row['hloc']:14,d} {row['xla']:14,d} {row['hloc'] / row['xla']:6.2f}" + (
        f"  WRONG: {row['wrong']} elements" if row["wrong"] else ""
    )


def summary(rows: dict[str, Row]) -> str:
    """Return the geometric mean, and the programs above 1."""
    run = {name: found["instructions"] for name, row in rows.items() if (found := ratios(row))}
    if not run:
        return "nothing was measured"
    above = sorted((name for name in run if run[name] > 1), key=lambda name: -run[name])
    names = ", ".join(f"{name} {run[name]:.2f}" for name in above) or "none"
    return (
        f"{len(run)} programs: geometric mean of the ratios of instructions "
        f"{harness.mean(run.values()):.2f}; more than XLA: {names}"
    )


def ratios(row: Row) -> history.Ratios:
    """Return the ratio of a row, none if it has a fault."""
    return {} if "fault" in row else {"instructions": row["hloc"] / row["xla"]}


def waits_for_memory(row: Row) -> bool:
    """True if arrays beyond the caches, not instructions, decide the time of a program."""
    return bool(row["bytes"] > CACHED_BYTES and row["bytes"] > MEMORY_BOUND * row["hloc"])


if __name__ == "__main__":
    main()
