"""Time of collectives over MPI: hloc's machine code beside raw mpi4py, in the same processes.

    mpiexec -n 2 python benchmarks/mpi_latency.py [--json FILE]

Both are timed in rounds that take turns, and the fastest round of each counts, since processes that
share a core wait for each other. hloc's time is that inside the exchanges of a compiled program,
one after the other: no Python runs. `all-reduce` sums in the order of the ranks; `fast` lets MPI
sum.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

import hloc
from hloc.runtime.communicator.mpi.call_lists import ExchangeOptions
from hloc.runtime.communicator.mpi.communicator import MpiEngine

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

SIZES = (4, 65536, 4194304)  # bytes
_ROUNDS = 15
_ROUND_BYTES = 16 << 20
_MOST_CALLS = 200


@dataclass(frozen=True, slots=True)
class Collective:
    """One row of the table.

    Attributes:
        text: the instruction on `x`, whose shape is SHAPE; GROUP and PAIRS stand for devices.
        raw: the same with mpi4py: communicator, array to send, array to receive.
    """

    name: str
    text: str
    raw: Callable[[Any, Array, Array], None]
    fast: bool = False


def _raw_permute(world: Any, sent: Array, received: Array) -> None:
    target, source = (world.rank + 1) % world.size, (world.rank - 1) % world.size
    requests = [world.Irecv(received, source), world.Isend(sent, target)]
    requests[0].Waitall(requests)


_REDUCE = (
    "SHAPE all-reduce(x), replica_groups=GROUP, channel_id=1, use_global_device_ids=true, "
    "to_apply=add"
)
ROWS = (
    Collective("all-reduce", _REDUCE, lambda world, x, y: world.Allreduce(x, y)),
    Collective("all-reduce, fast", _REDUCE, lambda world, x, y: world.Allreduce(x, y), fast=True),
    Collective(
        "all-to-all",
        "SHAPE all-to-all(x), replica_groups=GROUP, channel_id=1, dimensions={0}",
        lambda world, x, y: world.Alltoall(x, y),
    ),
    Collective(
        "collective-permute",
        "SHAPE collective-permute(x), source_target_pairs=PAIRS, channel_id=1",
        _raw_permute,
    ),
)

_HEAD = """\
HloModule latency, num_partitions=DEVICES
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT sum = f32[] add(a, b) }
ENTRY main {
  x0 = SHAPE parameter(0)
"""


def program_text(row: Collective, devices: int, elements: int, calls: int) -> str:
    """Return a module of `calls` collectives, each on the result of the one before."""
    ids = range(devices)
    pairs = ",".join(f"{{{i},{(i + 1) % devices}}}" for i in ids)
    steps = (
        f"  {'ROOT ' * (i == calls - 1)}x{i + 1} = {row.text.replace('(x)', f'(x{i})')}\n"
        for i in range(calls)
    )
    return (
        (_HEAD + "".join(steps) + "}\n")
        .replace("GROUP", "{{" + ",".join(map(str, ids)) + "}}")
        .replace("PAIRS", f"{{{pairs}}}")
        .replace("SHAPE", f"f32[{elements}]")
        .replace("DEVICES", str(devices))
    )


def measure(row: Collective, size_bytes: int) -> tuple[float, float]:
    """Return seconds of one call, hloc's and mpi4py's, on the slowest process."""
    engine = MpiEngine(ExchangeOptions(fast=row.fast))
    world, rank = engine.library.world, engine.library.rank
    elements = max(size_bytes // 4, world.size if row.name == "all-to-all" else 1)
    calls = max(1, min(_MOST_CALLS, _ROUND_BYTES // size_bytes))
    executable = hloc.compile(program_text(row, world.size, elements, calls))
    executable.use_engine(engine)
    x = np.full(elements, rank, np.float32) * np.float32(1e-30)
    y = np.empty_like(x)
    own, raw, before = [], [], 0.0
    for _ in range(_ROUNDS):
        world.Barrier()
        executable.run_devices([[x]])
        total = sum(seconds for _, (seconds,) in executable.exchange_seconds())
        own.append((total - before) / calls)
        before = total
        world.Barrier()
        started = time.perf_counter()
        for _ in range(calls):
            row.raw(world, x, y)
            x, y = y, x
        raw.append((time.perf_counter() - started) / calls)
    slowest = max(world.allgather(min(own))), max(world.allgather(min(raw)))
    return slowest


def main() -> int:
    """Print the table on process 0."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="also write the figures to a file")
    options = parser.parse_args()
    first = MpiEngine().library.rank == 0
    rows = []
    for row in ROWS:
        for size_bytes in SIZES:
            own, raw = measure(row, size_bytes)
            rows.append({"row": row.name, "bytes": size_bytes, "hloc_s": own, "mpi4py_s": raw})
            if first:
                line = f"{row.name:20} {size_bytes:9,} B  hloc {own * 1e6:9.2f} us"
                print(f"{line}  mpi4py {raw * 1e6:9.2f} us  ratio {own / raw:5.2f}", flush=True)
    if options.json is not None and first:
        options.json.write_text(json.dumps(rows, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
