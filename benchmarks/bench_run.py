"""Time of running compiled modules, beside XLA:CPU in the same run where jax is installed.

    python benchmarks/bench_run.py [FILE...] [-O 2] [--cores 1] [--rounds 15] [--json OUT]

Without files: the examples. Inputs are the stored ones, or random. Both programs get arrays that
are in memory already and return new ones; both are kept on the same cores. ratio = hloc / XLA,
below 1 is faster than XLA.
"""

import argparse
import math
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import harness, xla


def inputs_for(module: Any, path: Path) -> list[Any]:
    """Return the stored inputs of an example, or seeded random ones of the right shapes."""
    import numpy as np

    from hloc.shapes import ArrayShape, leaves

    flat = [leaf for p in module.entry.parameters for _, leaf in leaves(p.shape)]
    shapes = [leaf for leaf in flat if isinstance(leaf, ArrayShape)]
    stored = path.with_suffix(".inputs.npz")
    if stored.exists():
        with np.load(stored, allow_pickle=False) as arrays:
            return [arrays[f"arg{i}"].view(s.dtype.numpy) for i, s in enumerate(shapes)]
    rng = np.random.default_rng(0)
    return [
        (rng.uniform(-1, 1, s.dims) if s.dtype.is_float else rng.integers(0, 2, s.dims)).astype(
            s.dtype.numpy
        )
        for s in shapes
    ]


def main() -> None:
    """Print a row per module, and the geometric mean of the ratios."""
    parser = argparse.ArgumentParser(description="time of compiled modules")
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("-O", dest="opt_level", type=int, default=2)
    parser.add_argument("--cores", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    harness.use_cores(options.cores)

    import hloc

    dumped = sorted((harness.ROOT / "examples").glob("*.inputs.npz"))
    files = options.files or [p.with_name(p.name.replace(".inputs.npz", ".hlo")) for p in dumped]
    results, ratios = {}, []
    print(f"{'module':24s} {'compile ms':>10s} {'hloc us':>9s} {'XLA us':>9s} {'ratio':>6s}")
    for path in files:
        module = hloc.load(str(path))
        arrays = inputs_for(module, path)
        start = time.perf_counter()
        executable = hloc.compile(module, opt_level=options.opt_level, threads=options.cores)
        compile_ms = (time.perf_counter() - start) * 1e3
        calls: dict[str, Callable[[], object]] = {"hloc": partial(executable, *arrays)}
        if xla.available():
            calls["xla"] = xla.compiled(path.read_text(), arrays)
        timings = results[path.stem] = harness.measure(calls, options.rounds)
        own = timings["hloc"].median
        row = f"{path.stem:24s} {compile_ms:10.1f} {own * 1e6:9.1f}"
        if "xla" in timings:
            ratios.append(own / timings["xla"].median)
            row += f" {timings['xla'].median * 1e6:9.1f} {ratios[-1]:6.2f}"
        print(row, flush=True)
    if ratios:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        print(f"geometric mean of the ratios: {mean:.2f} on {options.cores} core(s)")
    else:
        print("jax is not installed, so there is nothing to compare with: pip install -e '.[jax]'")
    if options.json:
        harness.save(options.json, options.cores, results)


if __name__ == "__main__":
    main()
