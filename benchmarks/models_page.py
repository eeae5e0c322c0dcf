"""docs/models.md: whole models beside XLA:CPU, PyTorch and ONNX Runtime.

    python benchmarks/models_page.py RESULTS.json > docs/models.md

The results are those of `bench_models.py`.
"""

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import bench_models, history
from benchmarks.bench_models import PEERS

_INTRODUCTION = """\
Written by `make bench-models`: every model of `benchmarks/models/`, each with each engine in a
process of its own with an empty cache. The architectures are written in JAX at their published
sizes, with random weights, which are arguments of the compiled function; names with `N_blocks` have
fewer blocks than published. `bN` is the batch; weights are f32, `bf16` (activations too) or `s8`
(matrices in s8 with a scale per column, all else f32). `train` is the loss, its gradient and a step
of gradient descent; `decode` is one token with 1,000 in the caches before it. The main models have
twins in PyTorch with the same sizes, run operator by operator and by `torch.compile`, and exported
for ONNX Runtime.

Times are medians of runs in which the engines take turns. `run` and `best` are hloc's time over
XLA's and over that of the fastest other engine: below 1 hloc is faster. `first` is compiling and
the first run, without tracing. `memory` is the peak of resident memory above what imports, weights
and inputs take, of compiling and running together."""
_KINDS = {"run": "run", "best": "best peer", "first": "first", "memory": "memory"}
_COLUMNS = (
    "model", "hloc ms", *(f"{title} ms" for title in PEERS.values()), "run", "best", "first s",
    "first", "memory MB", "memory",
)  # fmt: skip


def main() -> None:
    """Print the page."""
    content = json.loads(Path(sys.argv[1]).read_text())
    print(page(content, history.read("models")), end="")


def page(content: dict[str, Any], past: list[history.Record]) -> str:
    """Return the text; `past` are the lines of the history."""
    machine, rows, cores = content["machine"], content["rows"], content["cores"]
    clock = "processor time" if cores == 1 else "time by the clock"
    good = {name: row for name, row in rows.items() if bench_models.ratios(row)}
    lines = [
        "# Whole models",
        "",
        *_INTRODUCTION.splitlines(),
        "",
        f"Machine: {machine['cpu']}, {cores} core{'s' if cores > 1 else ''}, {clock}, "
        f"Python {machine['python']}. It was shared: figures near 1 are even.",
        "",
        *bench_models.summary(rows).splitlines(),
        "",
        "| " + " | ".join(_COLUMNS) + " |",
        "|---|" + "--:|" * (len(_COLUMNS) - 1),
        *(_row(name, row) for name, row in good.items()),
    ]
    faults = [f"- {name}: {bench_models.fault(row)}" for name, row in rows.items()]
    faults = [line for line in faults if not line.endswith(": ")]
    if faults:
        lines += ["", "Faults:", "", *faults]
    if past:
        lines += ["", "## Over time", "", "Geometric means of the ratios.", ""]
        lines += history.table(past, _KINDS)
    return "\n".join(lines) + "\n"


def _row(name: str, row: dict[str, Any]) -> str:
    found, hloc = bench_models.ratios(row), row["hloc"]
    times = (row.get(peer, {}).get("run") for peer in PEERS)
    cells = [
        name,
        f"{hloc['run'] * 1e3:.4g}",
        *("" if time is None else f"{time * 1e3:.4g}" for time in times),
        f"{found['run']:.2f}",
        f"{found['best']:.2f}",
        f"{hloc['first']:.2f}",
        f"{found['first']:.2f}",
        f"{hloc['memory'] / 1e6:.0f}",
        f"{found['memory']:.2f}",
    ]
    return "| " + " | ".join(cells) + " |"


if __name__ == "__main__":
    main()
