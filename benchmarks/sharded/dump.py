"""Dump every sharded program, what XLA's partitioner makes of it, and XLA:CPU's answers.

    python -m benchmarks.sharded.dump FOLDER [NAME|GROUP...] [--partitioner shardy|gspmd]

Needs jax. For each program `FOLDER/shardy/` (and `gspmd/`: with JAX's
`jax_use_shardy_partitioner` off) gets
`NAME.hlo`, annotated, as XLA gets it; `NAME.partitioned.hlo`, the text after `spmd-partitioning`;
`NAME.npz` with whole arrays `arg0`, `out0`, ... and the devices' parts of them, stacked:
`arg0.parts`, `out0.parts`; and `index.json` with, per program, the number of devices, the element
types, the bytes its collectives send per device, and what went wrong (`xla_wrong`: XLA's answer is
not that of NumPy). The device at index d is
partition d. The folder belongs outside of the repository.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.sharded.workers import ROOT, Row, rows_of

PARTITIONERS = ("shardy", "gspmd")
FLAGS = (
    "--xla_force_host_platform_device_count=8 --xla_dump_to={} --xla_dump_hlo_as_text"
    " --xla_dump_hlo_pass_re=spmd-partitioning"
    " --xla_cpu_collective_call_terminate_timeout_seconds=600"
)


def main() -> None:
    """Dump the chosen programs; print those that XLA cannot run, with the reason."""
    parser = argparse.ArgumentParser(description="dump the sharded programs")
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", help="programs, groups or patterns; all if none")
    parser.add_argument("--partitioner", choices=PARTITIONERS, help="both if not given")
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work(options.folder, options.worker, options.names)
        return
    for partitioner in [options.partitioner] if options.partitioner else PARTITIONERS:
        rows = dump(options.folder / partitioner, options.names, partitioner)
        faults = {name: row["fault"] for name, row in rows.items() if "fault" in row}
        print(f"{partitioner}: {len(rows)} programs, {len(faults)} without XLA's answer")
        for name, fault in faults.items():
            print(f"  {name}: {fault}")


def chosen(names: list[str]) -> list[str]:
    """Return the programs that `names` (programs, groups, patterns) stand for, in table order."""
    from benchmarks.sharded.program import load_all

    return [
        p.name
        for p in load_all().values()
        if not names or any(fnmatch.fnmatch(part, n) for part in (p.name, p.group) for n in names)
    ]


def dump(folder: Path, names: list[str], partitioner: str) -> dict[str, Row]:
    """Dump programs into `folder` and return the rows of its index."""
    folder.mkdir(parents=True, exist_ok=True)
    index = folder / "index.json"
    rows: dict[str, Row] = json.loads(index.read_text()) if index.exists() else {}
    known = chosen([])
    rows = {name: row for name, row in rows.items() if name in known}
    asked = chosen(names)
    with tempfile.TemporaryDirectory() as scratch:
        rows |= run_worker(folder, Path(scratch), asked, partitioner)
    for name in asked:
        path = folder / f"{name}.partitioned.hlo"
        rows[name]["bytes"] = sent_bytes(path.read_text()) if path.exists() else None
    index.write_text(json.dumps(rows, indent=1) + "\n")
    return {name: rows[name] for name in asked}


def run_worker(
    folder: Path, scratch: Path, names: list[str], partitioner: str
) -> Iterator[tuple[str, Row]]:
    """Yield the rows of programs, dumped by a process of their own."""
    environment = os.environ | {
        "XLA_FLAGS": FLAGS.format(scratch),
        "JAX_PLATFORMS": "cpu",
        "JAX_USE_SHARDY_PARTITIONER": "true" if partitioner == "shardy" else "false",
        "PYTHONPATH": str(ROOT),
    }
    command = [
        sys.executable, "-m", "benchmarks.sharded.dump", f"--worker={scratch}", str(folder)
    ]  # fmt: skip

    def dead(name: str) -> Row:
        collect(scratch, folder, name)
        row: Row = json.loads((scratch / "row.json").read_text())
        return row

    return rows_of(command, names, environment, on_death=dead)


# ---------------------------------------------------------------- in the worker


def work(folder: Path, scratch: Path, names: list[str]) -> None:
    """Dump programs, a line of JSON on stdout for each; a fault of XLA may end the process."""
    import jax

    from benchmarks.sharded.program import load_all

    programs = load_all()
    for name in names:
        program = programs[name]
        jax.config.update("jax_enable_x64", program.wide())
        try:
            row = dump_one(program, folder, scratch)
        except Exception as error:
            known = {} if program.answer is None else json.loads((scratch / "row.json").read_text())
            row = known | {
                "fault": f"{type(error).__name__}: {str(error).strip().splitlines()[0][:200]}"
            }
        collect(scratch, folder, name)
        print(json.dumps(row), flush=True)


def dump_one(program: Any, folder: Path, scratch: Path) -> Row:
    """Compile and run one program under XLA; write its arrays, return its row."""
    import contextlib

    import jax
    import numpy as np

    mesh = jax.set_mesh(program.jax_mesh()) if program.mesh else contextlib.nullcontext()
    arrays: dict[str, Any] = {}
    wholes = program.arrays()
    row: Row = {"group": program.group, "mesh": program.mesh}
    if program.mesh:
        row["devices"] = int(np.prod(list(program.mesh.values())))
    with mesh:
        placed = program.placed()
        (scratch / "row.json").write_text(json.dumps(row))
        if program.answer is not None:  # the compilation fails or ends the process
            devices = list(program.jax_mesh().devices.flat)
            expected = program.answer(*wholes)
            for i, (whole, value) in enumerate(zip(wholes, placed, strict=True)):
                arrays |= both(f"arg{i}", whole, value, devices)
            arrays |= {f"out{j}": raw(np.asarray(value)) for j, value in enumerate(expected)}
            np.savez(folder / f"{program.name}.npz", **arrays)
            row |= {
                "arguments": [str(a.dtype) for a in wholes],
                "results": [str(a.dtype) for a in expected],
            }
        (scratch / "row.json").write_text(json.dumps(row))
        lowered = jax.jit(program.function, keep_unused=True).lower(*placed)
        compiled = lowered.compile()
        if program.answer is not None:
            found = jax.tree.leaves(compiled(*placed))
            wrong = not all(map(np.allclose, found, expected))
            return row | {"xla_wrong": wrong}
        devices = compiled.runtime_executable().local_devices()
        shardings = jax.tree.leaves(compiled.input_shardings[0])
        fed = [jax.device_put(w, s) for w, s in zip(wholes, shardings, strict=True)]
        results = jax.tree.leaves(compiled(*fed))
        for i, (whole, value) in enumerate(zip(wholes, fed, strict=True)):
            arrays |= both(f"arg{i}", whole, value, devices)
        for j, value in enumerate(results):
            arrays |= both(f"out{j}", np.asarray(value), value, devices)
    np.savez(folder / f"{program.name}.npz", **arrays)
    return row | {
        "devices": len(devices),
        "arguments": [str(a.dtype) for a in wholes],
        "results": [str(r.dtype) for r in results],
    }


def both(name: str, whole: Any, value: Any, devices: list[Any]) -> dict[str, Any]:
    """Return the entries of one array: whole, and the parts of the devices stacked."""
    import numpy as np

    parts = {shard.device: np.asarray(shard.data) for shard in value.addressable_shards}
    return {name: raw(whole), f"{name}.parts": raw(np.stack([parts[d] for d in devices]))}


def raw(array: Any) -> Any:
    """Return the array; types that NumPy lacks as unsigned integers of the same width."""
    return array if array.dtype.isbuiltin == 1 else array.view(f"u{array.dtype.itemsize}")


def collect(scratch: Path, folder: Path, name: str) -> None:
    """Move the two texts of a program out of XLA's dump and empty it."""
    for pattern, target in (
        ("before_optimizations.txt", f"{name}.hlo"),
        ("*after_spmd-partitioning*.txt", f"{name}.partitioned.hlo"),
    ):
        found = sorted(scratch.glob(f"*.jit_{name}.{pattern}"))
        if found:
            shutil.copy(found[-1], folder / target)
    for path in scratch.glob("module_*"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def sent_bytes(text: str) -> int | None:
    """Return what the collectives of a partitioned text send per device, None if not readable."""
    import hloc
    from hloc.analysis.network.sharding_explanation import total_bytes_sent

    try:
        return total_bytes_sent(hloc.parse(text))
    except hloc.HloError:
        return None


if __name__ == "__main__":
    main()
