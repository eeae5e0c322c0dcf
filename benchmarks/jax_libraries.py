"""Flax, Equinox, Optax, Diffrax, NumPyro and BlackJAX on hloc's backend and on plain JAX.

    python benchmarks/jax_libraries.py [NAME...] [--stretches 5] [--page OUT.md]

Programs of `benchmarks/jax_programs/libraries.py`; those whose packages are missing are skipped.
Each runs in two processes in turn, as in `jax_small.py`. `first` is the time of the first call,
with tracing and compiling; `call` that of the least later one. Times are of the processor.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import harness
from benchmarks.engine_process import EngineError, Row, ask, worker


def main() -> None:
    """Print a row per program, then the geometric means."""
    parser = argparse.ArgumentParser(description="libraries of JAX on hloc and on plain JAX")
    parser.add_argument("names", nargs="*", help="programs; all if none")
    parser.add_argument("--stretches", type=int, default=5)
    parser.add_argument("--page", type=Path, help="write the table as Markdown")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--results", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work(options.worker, Path(options.results))
        return
    from benchmarks.jax_programs.libraries import PROGRAMS

    print(f"{'program':22s} {'hloc ms':>9s} {'JAX ms':>9s} {'call':>6s} {'first':>6s}")
    rows: dict[str, Row] = {}
    for program in PROGRAMS:
        if options.names and program.name not in options.names:
            continue
        if program.missing:
            row: Row = {"fault": f"skipped: {' and '.join(program.missing)} not installed"}
        else:
            row = measure(program.name, options.stretches, program.rtol)
        rows[program.name] = row
        print(row_text(program.name, row), flush=True)
    print(summary(rows))
    if options.page:
        options.page.write_text(page(rows))


def measure(name: str, stretches: int, rtol: float) -> Row:
    """Measure one program in a process per engine; `fault` in the row says what went wrong."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            with (
                worker(name, "jax", folder, __file__) as jax,
                worker(name, "hloc", folder, __file__) as hloc,
            ):
                engines = {"jax": jax, "hloc": hloc}
                first = {engine: ask(process)["first"] for engine, process in engines.items()}
                least = dict.fromkeys(engines, float("inf"))
                for _ in range(stretches):
                    for engine, process in engines.items():
                        least[engine] = min(least[engine], ask(process, "run")["seconds"])
        except EngineError as error:
            return {"fault": str(error)}
        same = is_same(Path(folder), rtol)
    return {
        "hloc": least["hloc"], "jax": least["jax"],
        "hloc_first": first["hloc"], "jax_first": first["jax"], "same": same,
    }  # fmt: skip


def work(name: str, results: Path) -> None:
    """Run one program once, save its results, then time a call per line of stdin."""
    harness.use_cores(1)
    import jax
    import numpy as np

    from benchmarks.jax_programs.libraries import PROGRAMS

    program = next(p for p in PROGRAMS if p.name == name)
    jax.config.update("jax_enable_x64", program.x64)
    call = program.make()
    start = time.process_time()
    answer = jax.block_until_ready(call())
    print(json.dumps({"first": time.process_time() - start}), flush=True)
    np.savez(results, *map(np.asarray, jax.tree.leaves(answer)))
    for _ in sys.stdin:
        start = time.process_time()
        jax.block_until_ready(call())
        print(json.dumps({"seconds": time.process_time() - start}), flush=True)


def is_same(folder: Path, rtol: float) -> bool:
    """Return whether all results agree, relative to the largest number of each."""
    import numpy as np

    found, wanted = np.load(folder / "hloc.npz"), np.load(folder / "jax.npz")
    return all(
        np.allclose(found[k], wanted[k], rtol=rtol, atol=rtol * float(np.abs(wanted[k]).max()))
        for k in wanted.files
    )


# ---------------------------------------------------------------- reports


def row_text(name: str, row: Row) -> str:
    """Return the line of one program."""
    if "fault" in row:
        return f"{name:22s} {row['fault']}"
    return (
        f"{name:22s} {row['hloc'] * 1e3:9.2f} {row['jax'] * 1e3:9.2f}"
        f" {row['hloc'] / row['jax']:6.2f} {row['hloc_first'] / row['jax_first']:6.2f}"
        + ("" if row["same"] else "  WRONG")
    )


def summary(rows: dict[str, Row]) -> str:
    """Return the geometric means of hloc / JAX."""
    good = [row for row in rows.values() if "fault" not in row]
    if not good:
        return "nothing was measured"
    call = harness.mean(row["hloc"] / row["jax"] for row in good)
    first = harness.mean(row["hloc_first"] / row["jax_first"] for row in good)
    same = sum(1 for row in good if row["same"])
    return (
        f"{len(good)} of {len(rows)} programs, {same} with the same results; "
        f"hloc / JAX: call {call:.2f}, first call {first:.2f}"
    )


def page(rows: dict[str, Row]) -> str:
    """Return the table as Markdown."""
    lines = [
        "# Libraries of JAX on hloc",
        "",
        "Written by `python benchmarks/jax_libraries.py --page docs/jax-libraries.md`. Programs of",
        "`benchmarks/jax_programs/libraries.py` on hloc's backend and on plain JAX, in turn, on",
        "one core; processor time of the least call, and of the first, tracing and compiling too.",
        "",
        summary(rows),
        "",
        "| program | hloc ms | JAX ms | call | hloc first s | JAX first s | first | same results |",
        "|---|--:|--:|--:|--:|--:|--:|---|",
    ]
    for name, row in rows.items():
        if "fault" in row:
            lines.append(f"| {name} | {row['fault']} | | | | | | |")
            continue
        cells = (
            name, f"{row['hloc'] * 1e3:.4g}", f"{row['jax'] * 1e3:.4g}",
            f"{row['hloc'] / row['jax']:.2f}", f"{row['hloc_first']:.2f}",
            f"{row['jax_first']:.2f}", f"{row['hloc_first'] / row['jax_first']:.2f}",
            "yes" if row["same"] else "no",
        )  # fmt: skip
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
