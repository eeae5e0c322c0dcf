"""Large modules: the compilers themselves, on training steps of GPT with ever more blocks.

    python benchmarks/bench_large.py [NAME...] [--rounds 3] [--seconds 120] [--json OUT]

Needs jax, which writes the HLO text. hloc and XLA:CPU read that text in processes of their own,
with an empty cache, on one core, in turn; a figure is the median of `--rounds`, fewer once
`--seconds` have passed. Arrays are small, so that the time to the first result is that of the
compilers. Times are of the processor. `memory` is the peak of resident memory above what imports
and inputs take. `changed` is hloc's time for the same text with the middle one of its products
changed to a sum, in another process with the cache of the first.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import bench_models, bench_run, harness, history, model_worker
from benchmarks.engine_process import EngineError, Row, ask, worker

BLOCKS = (2, 8, 32, 64)
PROGRAMS = {f"gpt_train_{blocks}_blocks": blocks for blocks in BLOCKS}
ENGINES = ("hloc", "xla")
EXAMPLE = harness.ROOT / "examples" / "lstm_scan.hlo"
_PRODUCT = re.compile(r"(= f32\[\d\S* )multiply\(")


def main() -> None:
    """Print a row per module, then the geometric means."""
    parser = argparse.ArgumentParser(description="large modules on hloc and XLA:CPU")
    parser.add_argument("names", nargs="*", help="programs or patterns; all if none")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--append", type=Path, nargs="+", help="add such JSONs to the history")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--engine", help=argparse.SUPPRESS)
    parser.add_argument("--changed", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--results", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work(Path(options.worker), options.engine, options.results, changed=options.changed)
        return
    if options.append:
        history.append_files("large", options.append, ratios)
        return
    rows: dict[str, Row] = {}
    for name in harness.matching(PROGRAMS, options.names):
        row = rows[name] = measure(PROGRAMS[name], options.rounds, options.seconds)
        print(row_text(name, row), flush=True)
        if options.json:
            harness.save_rows(options.json, 1, rows)
    print(summary(rows))


def measure(blocks: int, rounds: int, seconds: float) -> Row:
    """Return the medians of both engines; `fault` in a part says what went wrong."""
    from benchmarks.models import deep_gpt

    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder) / "module.hlo"
        text.write_text(deep_gpt.training_step_text(blocks))
        answers: dict[str, list[Row]] = {engine: [] for engine in ENGINES}
        start = time.perf_counter()
        for done in range(rounds):
            if done and time.perf_counter() - start > seconds:
                break
            for engine in ENGINES:
                with tempfile.TemporaryDirectory() as cache:
                    try:
                        answers[engine].append(_answer(text, engine, cache, folder))
                    except EngineError as error:
                        return {engine: {"fault": str(error)}}
        found = {
            engine: {kind: median(answer[kind] for answer in given) for kind in given[0]}
            for engine, given in answers.items()
        }
        found |= bench_models.comparison(Path(folder), "float32", list(ENGINES))
        return found | {"load": harness.load()}


def _answer(text: Path, engine: str, cache: str, folder: str) -> Row:
    more = (f"--engine={engine}",)
    with worker(str(text), engine, cache, __file__, *more) as process:
        answer = ask(process)
    (Path(cache) / f"{engine}.npz").replace(Path(folder) / f"{engine}.npz")
    if engine == "hloc":
        with worker(str(text), engine, cache, __file__, *more, "--changed") as process:
            answer["changed"] = ask(process)["first"]
    return answer


def changed_text(text: str) -> str:
    """Return the text with the middle one of its products changed to a sum.

    Raises:
        ValueError: it has no product.
    """
    found = list(_PRODUCT.finditer(text))
    if not found:
        raise ValueError("there is no product to change")
    product = found[len(found) // 2]
    return f"{text[: product.start()]}{product[1]}add({text[product.end() :]}"


# ---------------------------------------------------------------- one engine, in its process


def work(path: Path, engine: str, results: Path, *, changed: bool = False) -> None:
    """Print the time from the text to the first result, and the peak of memory."""
    harness.use_cores(1)
    run_first = ENGINE_FUNCTIONS[engine]
    measure_more = None if changed else {"hloc": passes}.get(engine)

    def text_of(file: Path) -> str:
        text = file.read_text()
        return changed_text(text) if changed else text

    run_first(text_of(EXAMPLE), inputs(EXAMPLE))()  # imports, tables
    first = run_first(text_of(path), inputs(path))
    before, earlier = model_worker.status("VmRSS"), model_worker.children_seconds()
    model_worker.forget_peak()
    seconds, arrays = model_worker.timed(first)
    memory = model_worker.status("VmHWM") - before
    if model_worker.children_seconds() > earlier:
        memory += model_worker.children_peak()
    model_worker.save(results, arrays)
    more = measure_more(path) if measure_more else {}
    model_worker.answer({"first": seconds[0], "memory": memory, **more})


def inputs(path: Path) -> list[Any]:
    """Return arrays for the parameters of a module."""
    import hloc

    return bench_run.inputs_for(hloc.load(str(path)), path)


def hloc_engine(text: str, arrays: list[Any]) -> Callable[[], list[Any]]:
    """Return what compiles the text and runs it once."""
    import hloc

    return lambda: list(hloc.compile(text, threads=1)(*arrays))


def xla_engine(text: str, arrays: list[Any]) -> Callable[[], list[Any]]:
    """Return the same for XLA:CPU."""
    from benchmarks import xla

    return lambda: list(xla.compiled(text, arrays)())


ENGINE_FUNCTIONS = {"hloc": hloc_engine, "xla": xla_engine}


def passes(path: Path) -> Row:
    """Return the number of instructions, and the seconds that all of hloc's passes take."""
    from benchmarks import bench_passes
    from hloc import driver

    found = bench_passes.measure(driver.load_module(str(path)), disabled=())
    return {"instructions": found.instructions, "passes": found.seconds}


# ---------------------------------------------------------------- reports


def ratios(row: Row) -> dict[str, float]:
    """Return hloc's figures over XLA's; empty where one of them gave none."""
    if not all("first" in row.get(engine, {}) for engine in ENGINES):
        return {}
    return {kind: row["hloc"][kind] / row["xla"][kind] for kind in ("first", "memory")}


def microseconds(row: Row) -> float:
    """Return the time of hloc's passes per instruction."""
    return float(row["hloc"]["passes"] / row["hloc"]["instructions"] * 1e6)


def fault(row: Row) -> str:
    """Return what is wrong with a row, "" if nothing is."""
    for engine in ENGINES:
        if "fault" in row.get(engine, {}):
            return str(row[engine]["fault"])
    return f"WRONG: {row['wrong']} results, distance {row['distance']:.1e}" if row["wrong"] else ""


def row_text(name: str, row: Row) -> str:
    """Return the line of one module."""
    found = ratios(row)
    if not found:
        return f"{name:24s} {fault(row)}"
    hloc = row["hloc"]
    return (
        f"{name:24s} {hloc['instructions']:7,.0f} instructions  passes {microseconds(row):4.0f} us"
        f" each  first {hloc['first']:6.2f} s {found['first']:5.2f}"
        f"  changed {hloc['changed']:6.2f} s"
        f"  memory {hloc['memory'] / 1e6:5.0f} MB {found['memory']:5.2f}  {fault(row)}"
    ).rstrip()


def summary(rows: dict[str, Row]) -> str:
    """Return the geometric means of the ratios."""
    means = history.means_of({name: found for name, row in rows.items() if (found := ratios(row))})
    if not means:
        return "nothing was measured"
    return (
        f"{len(rows)} modules, geometric means: first result {means['first']:.2f} of XLA's time, "
        f"memory {means['memory']:.2f} of XLA's"
    )


if __name__ == "__main__":
    main()
