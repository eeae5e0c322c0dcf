"""Small JAX programs on hloc's backend and on plain JAX (XLA:CPU).

    python benchmarks/jax_small.py [NAME|GROUP...] [--stretches 12] [--json OUT] [--page OUT.md]

Needs jax. Each program of `benchmarks/jax_programs/` runs unchanged in two processes, one with
`JAX_PLATFORMS=hloc,cpu` and one with `JAX_PLATFORMS=cpu`, both on one core and an empty cache.
They run in turn, a stretch of calls each; the time of a call is that of the least stretch. Times
are of the processor, which a busy machine changes less than the clock's. Compile times are of
`jax.jit(f).lower(...).compile()`, without the lowering, after a small loop has been compiled.
Ratios are hloc / JAX: below 1 hloc is faster. Results are compared too: a program whose answer
differs is no result. An element may differ beyond the table of tolerances where XLA's own moves
as far when the arguments move by one unit in the last place, as in chaotic systems.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import harness, history
from benchmarks.engine_process import EngineError, Row, ask, worker

STRETCH_SECONDS = 0.01
MOVES = 3
"""Runs on arguments whose floats moved to a neighbour, which show how far roundings grow."""
GROWTH = 16
"""Times that movement a result may be off: roundings inside a program are many."""
PRINTED = ("run", "compile")


def main() -> None:
    """Print a row per program, then the geometric means."""
    parser = argparse.ArgumentParser(description="small JAX programs on hloc and on plain JAX")
    parser.add_argument("names", nargs="*", help="programs, groups or patterns; all if none")
    parser.add_argument("--stretches", type=int, default=12)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--page", type=Path, help="write the table as Markdown")
    parser.add_argument("--append", type=Path, help="add such a JSON to the history, run nothing")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--results", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work(options.worker, Path(options.results))
        return
    if options.append:
        history.append(history_line(json.loads(options.append.read_text())))
        return
    print(f"{'program':26s} {'hloc ms':>9s} {'JAX ms':>9s} {'run':>6s} {'compile':>8s}")
    rows: dict[str, Row] = {}
    for name in chosen(options.names):
        row = rows[name] = measure(name, options.stretches)
        print(row_text(name, row), flush=True)
    print(summary(rows))
    if options.json:
        content = {"machine": harness.machine(), "rows": rows}
        options.json.write_text(json.dumps(content, indent=1) + "\n")
    if options.page:
        options.page.write_text(page(rows))


def chosen(names: list[str]) -> list[str]:
    """Return the programs that `names` (programs, groups, patterns) stand for, in table order."""
    from benchmarks.jax_programs.program import load_all

    return harness.chosen(load_all(), names)


# ---------------------------------------------------------------- one program, two processes


def measure(name: str, stretches: int) -> Row:
    """Measure one program in a process per engine; `fault` in the row says what went wrong."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            with (
                worker(name, "jax", folder, __file__) as jax,
                worker(name, "hloc", folder, __file__) as hloc,
            ):
                engines = {"jax": jax, "hloc": hloc}
                compiled = {engine: ask(process) for engine, process in engines.items()}
                seconds: dict[str, list[float]] = {engine: [] for engine in engines}
                for _ in range(stretches):
                    for engine, process in engines.items():
                        seconds[engine].append(ask(process, "run")["seconds"])
        except EngineError as error:
            return {"fault": str(error)}
        wrong = differences(Path(folder))
    return {
        "hloc": min(seconds["hloc"]),
        "jax": min(seconds["jax"]),
        "hloc_compile": compiled["hloc"]["compile"],
        "jax_compile": compiled["jax"]["compile"],
        "wrong": wrong,
    }


def work(name: str, results: Path) -> None:
    """Compile one program, save its results, then time a stretch of calls per line of stdin."""
    harness.use_cores(1)
    import jax
    import numpy as np

    from benchmarks.jax_programs.program import load_all

    program = load_all()[name]
    arguments = program.arguments()
    doubles = any(np.asarray(a).dtype.itemsize == 8 for a in jax.tree.leaves(arguments))
    jax.config.update("jax_enable_x64", doubles)
    step = lambda x, row: (jax.numpy.sin(row @ x), x)  # noqa: E731
    warm_up = jax.jit(lambda x: jax.lax.scan(step, x[0, 0], x))
    warm_up.lower(np.ones((3, 4, 4), np.float32)).compile()  # imports, tables
    lowered = jax.jit(program.function).lower(*arguments)
    start = time.process_time()
    compiled = lowered.compile()
    spent = time.process_time() - start
    placed = jax.device_put(arguments)
    random = np.random.default_rng(0)
    runs = [placed, *(jax.tree.map(partial(moved, random), arguments) for _ in range(MOVES))]
    leaves = [jax.tree.leaves(compiled(*run)) for run in runs]
    np.savez(results, *(np.stack(of_runs) for of_runs in zip(*leaves, strict=True)))
    print(json.dumps({"compile": spent}), flush=True)
    function = jax.jit(program.function)

    def stretch(calls: int) -> float:
        start = time.process_time()
        for _ in range(calls):
            jax.block_until_ready(function(*placed))
        return (time.process_time() - start) / calls

    stretch(2)  # compiles again
    calls = max(1, int(STRETCH_SECONDS / max(stretch(2), 1e-7)))
    for _ in sys.stdin:
        print(json.dumps({"seconds": stretch(calls)}), flush=True)


def moved(random: Any, argument: Any) -> Any:
    """Return an argument whose floats are neighbours of its own, up or down."""
    import numpy as np

    array = np.asarray(argument)
    if array.dtype.kind != "f":
        return argument
    target = np.where(random.random(array.shape) < 0.5, np.inf, -np.inf).astype(array.dtype)
    return np.nextafter(array, target)


def differences(folder: Path) -> int:
    """Return how many elements of hloc's results are not those of plain JAX, within tolerance."""
    import numpy as np

    from hloc.report.compare import Bounds, compare

    hloc, jax = np.load(folder / "hloc.npz"), np.load(folder / "jax.npz")
    found, wanted = [], []
    for name in jax.files:
        got, want = hloc[name][0], jax[name][0]
        with np.errstate(invalid="ignore"):
            movement = np.abs(np.subtract(jax[name][1:], want, dtype=float)).max(axis=0)
            rounding = np.abs(np.subtract(got, want, dtype=float)) <= GROWTH * movement
        found.append(np.where(rounding, want, got))
        wanted.append(want)
    return compare(found, wanted, Bounds()).bad


# ---------------------------------------------------------------- reports


def row_text(name: str, row: Row) -> str:
    """Return the line of one program."""
    if "fault" in row:
        return f"{name:26s} {row['fault']}"
    run, compile_ratio = ratios(row).values()
    return (
        f"{name:26s} {row['hloc'] * 1e3:9.4f} {row['jax'] * 1e3:9.4f} {run:6.2f}"
        f" {compile_ratio:8.2f}" + (f"  WRONG: {row['wrong']} elements" if row["wrong"] else "")
    )


def ratios(row: Row) -> dict[str, float]:
    """Return hloc's time over plain JAX's, for running and for compiling."""
    return {
        "run": row["hloc"] / row["jax"],
        "compile": row["hloc_compile"] / row["jax_compile"],
    }


def summary(rows: dict[str, Row]) -> str:
    """Return the geometric means, and the programs above 1."""
    good = {name: ratios(row) for name, row in rows.items() if "fault" not in row}
    if not good:
        return "nothing was measured"
    means = {kind: harness.mean(row[kind] for row in good.values()) for kind in PRINTED}
    slower = sorted((n for n in good if good[n]["run"] > 1), key=lambda n: -good[n]["run"])
    listed = ", ".join(f"{n} {good[n]['run']:.2f}" for n in slower) or "none"
    return (
        f"{len(good)} of {len(rows)} programs, hloc / JAX: run {means['run']:.2f}, "
        f"compile {means['compile']:.2f}\nslower than JAX: {listed}"
    )


def history_line(content: dict[str, Any]) -> history.Record:
    """Return the line of a run for `benchmarks/history/jax_small.jsonl`."""
    measured = {name: row for name, row in content["rows"].items() if "fault" not in row}
    found = {
        name: {kind: float(f"{ratio:.4g}") for kind, ratio in ratios(row).items()}
        for name, row in measured.items()
    }
    return history.record(
        "jax_small", content["machine"], means=history.means_of(found), ratios=found
    )


def page(rows: dict[str, Row]) -> str:
    """Return the table as Markdown."""
    from benchmarks.jax_programs.program import load_all

    programs = load_all()
    lines = [
        "# Small JAX programs",
        "",
        "Written by `python benchmarks/jax_small.py --page docs/jax-small.md`: each program of",
        "`benchmarks/jax_programs/` in two processes, on hloc's backend and on plain JAX.",
        "Times are of the processor on one core, the least of many stretches; compile times are",
        "without JAX's own tracing and lowering. Ratios are hloc / JAX: below 1 hloc is faster.",
        "",
        *summary(rows).splitlines(),
        "",
        "| program | after | hloc ms | JAX ms | run | hloc compile s | JAX compile s | compile |",
        "|---|---|--:|--:|--:|--:|--:|--:|",
    ]
    for name, row in rows.items():
        if "fault" in row:
            lines.append(f"| {name} | | {row['fault']} | | | | | |")
            continue
        both = ratios(row)
        cells = (
            name, programs[name].source, f"{row['hloc'] * 1e3:.4g}", f"{row['jax'] * 1e3:.4g}",
            f"{both['run']:.2f}" + (f", {row['wrong']} differ" if row["wrong"] else ""),
            f"{row['hloc_compile']:.2f}", f"{row['jax_compile']:.2f}",
            f"{both['compile']:.2f}",
        )  # fmt: skip
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
