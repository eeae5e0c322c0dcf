"""The part of `bench_neon.py` that runs in the emulated processor; needs NumPy, and jax for XLA.

    python neon_worker.py COUNTER FOLDER...

Each folder is called like a program of the suite and has `model.so`, `program.json`, and the bytes
of its arguments. A line of JSON on stdout per program has the instructions of one call; the bytes
of hloc's results are written into the folder.
"""

import ctypes
import json
import mmap
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
CALLS, SAME, LONG = 6, 1.001, 20_000_000
"""Calls at most, the ratio of the counts of two that ends them, and the count that two are enough
for: the first ones load code."""


def main() -> None:
    """Count the instructions of each program named on the command line."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:1])
    with open(sys.argv[1], "r+b") as file:
        counter = memoryview(mmap.mmap(file.fileno(), 8)).cast("Q")
    for folder in map(Path, sys.argv[2:]):
        try:
            found = measured(folder, counter)
        except Exception as fault:  # whatever a compiler says of one program: the others go on
            found = {"fault": f"{type(fault).__name__}: {fault}".splitlines()[0]}
        print(json.dumps({"folder": folder.name, **found}), flush=True)


def measured(folder: Path, counter: memoryview) -> dict[str, Any]:
    """Return the instructions of one call of a program, of hloc and maybe of XLA."""
    about = json.loads((folder / "program.json").read_text())
    arguments = [
        array_of(folder / f"arg{i}", dtype, dims)
        for i, (dtype, dims) in enumerate(about["arguments"])
    ]
    results = [np.zeros(size, np.uint8) for size in about["results"]]
    run = library_call(folder / "model.so", about, arguments, results)
    nothing = ctypes.CDLL(None).labs
    found = {"hloc": count(run, counter) - count(lambda: nothing(1, 2, 3), counter)}
    for i, result in enumerate(results):
        result.tofile(folder / f"out{i}")
    if about["with_xla"]:
        found["xla"] = xla_count(folder.name, with_doubles=about["with_doubles"], counter=counter)
    return found


def array_of(path: Path, dtype: str, dims: list[int]) -> Array:
    """Return the array whose bytes a file has."""
    import ml_dtypes

    return np.fromfile(path, np.dtype(getattr(ml_dtypes, dtype, dtype))).reshape(dims)


def library_call(
    path: Path, about: dict[str, Any], arguments: list[Array], results: list[Array]
) -> Callable[[], object]:
    """Return a call of the function in a library that hloc made."""
    function = ctypes.CDLL(str(path)).model_run
    temp = np.zeros(about["temp"] + about["alignment"], np.uint8)
    start = -temp.ctypes.data % about["alignment"]
    places = [addresses(arguments), addresses(results), temp.ctypes.data + start]

    def run() -> None:
        if status := function(places[0], places[1], ctypes.c_void_p(places[2])):
            raise RuntimeError(f"the library returned {status}")

    run.arrays = temp, arguments, results  # type: ignore[attr-defined]  # they live as long
    return run


def addresses(arrays: list[Array]) -> Any:
    """Return a C array of where arrays lie."""
    return (ctypes.c_void_p * len(arrays))(*(array.ctypes.data for array in arrays))


def xla_count(name: str, *, with_doubles: bool, counter: memoryview) -> int:
    """Return the instructions of one call in XLA, less those of a call that does nothing."""
    import jax

    from benchmarks.suite.program import load_all

    jax.config.update("jax_enable_x64", with_doubles)

    def of(function: Callable[..., Any], arguments: tuple[Any, ...]) -> int:
        placed = jax.device_put(arguments)
        compiled = jax.jit(function, keep_unused=True).lower(*placed).compile()
        return count(lambda: jax.block_until_ready(compiled(*placed)), counter)

    program = load_all()[name]
    nothing = of(lambda x: x, (np.float32(0),))
    return of(program.function, program.arguments(np.random.default_rng(0))) - nothing


def count(call: Callable[[], object], counter: memoryview) -> int:
    """Return the instructions of a call, the fewest of some."""
    found: list[int] = []
    while len(found) < CALLS:
        before = counter[0]
        call()
        found.append(counter[0] - before)
        least, *others = sorted(found)
        if others and (others[0] <= SAME * least or least >= LONG):
            break
    return min(found)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    main()
