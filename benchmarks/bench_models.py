"""Whole models on hloc, XLA:CPU, PyTorch and ONNX Runtime.

    python benchmarks/bench_models.py [NAME|GROUP...] [--cores 1] [--engines hloc xla ...]
        [--rounds 7] [--seconds 8] [--json OUT]

Needs jax; `constant` is hloc with weights that are constants. PyTorch (`torch`, `compile`) and ONNX
Runtime (`onnx`) are measured where they are installed and the model has a twin in
`models/twins/`. Each model and engine is a process of its own with an empty cache, on the
first `--cores` cores. Engines take turns, at most `--rounds` rounds and, after three, `--seconds`
of a model; a figure is the median round. `first` is compiling
and the first run, without tracing, exporting and loading weights. With one core, times are those of
the processor, which a busy machine changes less than the clock's. Results of hloc are compared with
XLA's; those of the others need only have the shape.
"""

from __future__ import annotations

import argparse
import importlib.util
import math
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import harness, history
from benchmarks.engine_process import EngineError, Row, ask, worker
from benchmarks.model_engines import ENGINES, PACKAGES

WORKER = str(Path(__file__).with_name("model_worker.py"))
LEAST_ROUNDS = 3
DISTANCES = {"float32": 1e-3, "int8": 1e-3, "bfloat16": 5e-2}
"""How far a result may be off in the norm, relative to XLA's, by the type of the weights.

Sums in another order differ by 1e-7 of their size in f32 and 4e-3 in bf16 at each of some fifty
layers, which add up like a random walk.
"""
PEERS = {"xla": "XLA", "torch": "PyTorch", "compile": "torch.compile", "onnx": "ONNX Runtime"}
GOALS = {"best": 0.7, "first": 0.5, "memory": 0.8}
"""Geometric means to reach: of run time to the best peer, of first result and memory to XLA."""
WORST = 1.1
"""Ratio to the best peer that no model should exceed."""


def main() -> None:
    """Print a row per model, then the geometric means."""
    parser = argparse.ArgumentParser(description="whole models on hloc and its peers")
    parser.add_argument("names", nargs="*", help="models, groups or patterns; all if none")
    parser.add_argument("--cores", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=list(ENGINES))
    parser.add_argument("--json", type=Path)
    parser.add_argument(
        "--append", type=Path, nargs="+", help="add such JSONs to the history, run nothing"
    )
    options = parser.parse_args()
    if options.append:
        history.append_files("models", options.append, ratios)
        return
    from benchmarks.models.model import load_all

    models = load_all()
    print(f"{'model':32s} {'hloc ms':>9s} {'XLA ms':>9s} {'run':>5s} {'best':>5s}"
          f" {'first':>5s} {'memory':>6s}")  # fmt: skip
    rows: dict[str, Row] = {}
    for name in harness.chosen(models, options.names):
        engines = [e for e in options.engines if runs(e, models[name])]
        row = rows[name] = measure(models[name], engines, options)
        print(row_text(name, row), flush=True)
        if options.json:  # after each: a run takes long and may be ended
            harness.save_rows(options.json, options.cores, rows)
    print(summary(rows, len(rows)))


def runs(engine: str, model: Any) -> bool:
    """Return whether an engine is installed and has this model."""
    installed = all(importlib.util.find_spec(name) is not None for name in PACKAGES[engine])
    if engine == "constant" and model.trains:
        return False  # the weights change in every call
    return installed and (engine in ("hloc", "constant", "xla") or has_twin(engine, model))


def has_twin(engine: str, model: Any) -> bool:
    """Return whether there is a twin; those for ONNX Runtime are f32 and carry nothing over."""
    if engine == "onnx" and (model.dtype != "float32" or model.carried is not None):
        return False
    return bool(model.twin)


def measure(model: Any, engines: list[str], options: argparse.Namespace) -> Row:
    """Return what was measured, by engine; `fault` in a part says what went wrong."""
    clock = 0 if options.cores == 1 else 1
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        found: Row = {}
        processes = {}
        for engine in engines:
            more = (f"--engine={engine}", f"--cores={options.cores}")
            try:
                with ExitStack() as own:
                    process = own.enter_context(worker(model.name, engine, folder, WORKER, *more))
                    first = ask(process)
                    stack.push(own.pop_all())
            except EngineError as error:
                found[engine] = {"fault": str(error)}
                continue
            processes[engine] = process
            found[engine] = {"first": first["seconds"][clock], "memory": first["memory"]}
        take_turns(processes, found, clock, options)
        found["load"] = harness.load()
        return found | comparison(Path(folder), model.dtype, list(processes))


def take_turns(
    processes: dict[str, Any], found: Row, clock: int, options: argparse.Namespace
) -> None:
    """Run all engines in turn; add the median time and the peak memory to their rows."""
    seconds: dict[str, list[float]] = {engine: [] for engine in processes}
    start = time.perf_counter()
    for done in range(options.rounds):
        if done >= LEAST_ROUNDS and time.perf_counter() - start > options.seconds:
            break
        for engine, process in processes.items():
            answer = ask(process, "run")
            seconds[engine].append(answer["seconds"][clock])
            found[engine]["memory"] = max(found[engine]["memory"], answer["memory"])
    for engine, times in seconds.items():
        found[engine]["run"] = statistics.median(times)


def comparison(folder: Path, dtype: str, engines: list[str]) -> Row:
    """Return how far hloc's results are from XLA's, and whose first result has another shape."""
    import numpy as np

    results = {engine: np.load(folder / f"{engine}.npz") for engine in engines}
    if not {"hloc", "xla"} <= results.keys():
        return {}
    hloc, xla = results["hloc"], results["xla"]
    names = [name for name in xla.files if name.startswith("arr")]
    distances = [distance(hloc[name], xla[name]) for name in names]
    shape = xla["shape"].tolist()
    other = [e for e, found in results.items() if found["shape"].tolist() != shape]
    wrong = [d for d in distances if not d <= DISTANCES[dtype]]
    return {"distance": max(distances), "wrong": len(wrong), "other_shape": other}


def distance(found: Any, wanted: Any) -> float:
    """Return the norm of the difference over that of the wanted array; infinity if not finite."""
    import numpy as np

    if found.shape != wanted.shape:
        return math.inf
    error = float(np.linalg.norm(np.subtract(found, wanted, dtype=float)))
    size = float(np.linalg.norm(wanted.astype(float)))
    return 0.0 if error == 0 else error / size if size and math.isfinite(error) else math.inf


# ---------------------------------------------------------------- reports


def ratios(row: Row) -> dict[str, float]:
    """Return hloc's figures over XLA's, and its run time over that of the fastest peer.

    Empty where hloc or XLA gave none. `constant_best` is that of hloc with constant weights.
    """
    hloc, xla = row.get("hloc", {}), row.get("xla", {})
    if "run" not in hloc or "run" not in xla:
        return {}
    best = min(row[peer]["run"] for peer in PEERS if "run" in row.get(peer, {}))
    found = {
        "run": hloc["run"] / xla["run"],
        "best": hloc["run"] / best,
        "first": hloc["first"] / xla["first"],
        "memory": hloc["memory"] / max(xla["memory"], 1),
    }
    constant = row.get("constant", {}).get("run")
    return found if constant is None else found | {"constant_best": constant / best}


def fault(row: Row) -> str:
    """Return why there is no ratio, or what is wrong with the results; "" if all is well."""
    for engine in ("hloc", "xla"):
        if "fault" in row.get(engine, {}):
            return str(row[engine]["fault"])
    if not ratios(row):
        return "not measured on both hloc and XLA"
    if row["wrong"]:
        return f"WRONG: {row['wrong']} results, distance {row['distance']:.1e}"
    return f"OTHER SHAPE: {', '.join(row['other_shape'])}" if row["other_shape"] else ""


def row_text(name: str, row: Row) -> str:
    """Return the line of one model."""
    found = ratios(row)
    if not found:
        return f"{name:32s} {fault(row)}"
    return (
        f"{name:32s} {row['hloc']['run'] * 1e3:9.3f} {row['xla']['run'] * 1e3:9.3f}"
        f" {found['run']:5.2f} {found['best']:5.2f} {found['first']:5.2f} {found['memory']:6.2f}"
        f"  {fault(row)}"
    ).rstrip()


def summary(rows: dict[str, Row], count: int) -> str:
    """Return the geometric means beside the goals, and the models above `WORST`, of `count`."""
    good = {name: ratios(row) for name, row in rows.items() if ratios(row)}
    if not good:
        return "nothing was measured"
    means = {kind: harness.mean(r[kind] for r in good.values()) for kind in ("run", *GOALS)}
    slow = sorted((n for n in good if good[n]["best"] > WORST), key=lambda n: -good[n]["best"])
    return (
        f"{len(good)} of {count} models, geometric means: run {means['run']:.2f} of XLA's time,"
        f" {means['best']:.2f} of the best peer's (goal {GOALS['best']}); first result "
        f"{means['first']:.2f} of XLA's (goal {GOALS['first']}); memory {means['memory']:.2f} of "
        f"XLA's (goal {GOALS['memory']})\n"
        f"above {WORST} of the best peer: "
        + (", ".join(f"{n} {good[n]['best']:.2f}" for n in slow) or "none")
    )


if __name__ == "__main__":
    main()
