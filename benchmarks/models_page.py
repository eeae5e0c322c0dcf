"""docs/models.md, and the figures of whole models in README.

    python benchmarks/models_page.py

The figures are those of the history of measurements (`history.py`).
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import bench_models, harness, history
from benchmarks.bench_models import PEERS

_INTRODUCTION = """\
Written by `make bench-models`: models of `benchmarks/models/`, each with each engine in a process
of its own with an empty cache. The architectures are written in JAX at their published
sizes, with random weights; names with `N_blocks` have fewer blocks than published. `bN` is the
batch; weights are f32, `bf16` (activations too) or `s8` (matrices in s8 with a scale per column,
all else f32). `train` is the loss, its gradient and a step of gradient descent; `decode` is one
token with 1,000 in the caches before it. All but Mamba have twins in PyTorch with the same sizes,
run operator by operator and by `torch.compile`; those that ONNX Runtime can run as exported are
measured there, too. A training step of DLRM has gradients of its tables as rows (`sparse=True`).

Weights are arguments of the compiled function in all engines but ONNX Runtime: they may differ from
call to call, so nothing can be packed or folded into them ahead of a call. ONNX Runtime holds them
as constants, and packs and folds them when it loads the model. The column `constant` is hloc with
the weights as constants of the module, too (`bind` in [python.md](python.md)).

Times are medians of runs in which the engines take turns, each stopped while it waits: of the
processor on one core, by the clock on more. They are those of a steady state: an engine runs once,
uncounted, before each (not so in rows of d6527d7e and bda9f5e3). `run` and `best` are hloc's time
over XLA's and over that of the fastest other engine: below 1 hloc is faster; `constant best` is the
same for hloc with constant weights. `first` is compiling and the first run, without tracing.
`memory` is the peak of resident memory above what imports, weights and inputs take, of compiling
and running together. A cell is empty where an engine was not measured.

NumPy's and hloc's arrays lie in large pages where the system has some. After days of use it may
have none: a token of GPT-2 then takes 1.8 times as long. To make some, write 1 to
`/proc/sys/vm/compact_memory`."""
_KINDS = {
    "run": "run", "best": "best peer", "constant_best": "constant best", "all_cores": "all cores",
    "first": "first", "memory": "memory",
}  # fmt: skip
_COLUMNS = (
    "model", "hloc ms", "constant ms", *(f"{title} ms" for title in PEERS.values()), "run", "best",
    "constant best", "first s", "first", "memory MB", "memory",
)  # fmt: skip
_COLUMNS_ON_ALL = (
    "model", "hloc ms", *(f"{title} ms" for title in PEERS.values()), "run", "best",
)  # fmt: skip


def main() -> None:
    """Write the page, and README's sentence."""
    from benchmarks.models.model import load_all

    lines, order = history.read("models"), list(load_all())
    tables, docs = history.tables(lines, order), harness.ROOT / "docs"
    (docs / "models.md").write_text(page(tables, lines, len(order)))
    text = "".join(f"- {sentence(content)}\n" for content, _ in tables)
    harness.write_between_marks(harness.ROOT / "README.md", "bench-models", text)
    text = "".join(f"- {_summary(content, len(order))}\n" for content, _ in tables)
    harness.write_between_marks(docs / "status.md", "bench-models", text)


def sentence(content: dict[str, Any]) -> str:
    """Return what README says of whole models on one machine."""
    good = [found for row in content["rows"].values() if (found := bench_models.ratios(row))]
    means = {kind: harness.mean(r[kind] for r in good) for kind in ("run", "first", "memory")}
    return (
        f"{content['machine']['cpu']}: {len(good)} models run in {means['run']:.2f} of XLA:CPU's "
        f"time, have the first result in {means['first']:.2f} of its time and need "
        f"{means['memory']:.2f} of its memory"
    )


def _summary(content: dict[str, Any], count: int) -> str:
    """Return what docs/status.md says of whole models on one machine."""
    means, slow = bench_models.summary(content["rows"], count).splitlines()
    return f"{content['machine']['cpu']}: {means}; {slow}"


def page(
    tables: list[tuple[dict[str, Any], dict[str, Any]]], past: list[history.Record], count: int
) -> str:
    """Return the text.

    Args:
        tables: for each machine what was measured on one core, and on all: maybe no rows.
        past: the lines of the history.
        count: of models that there are.
    """
    lines = ["# Whole models", "", *_INTRODUCTION.splitlines()]
    for content, together in tables:
        lines += ["", f"## {content['machine']['cpu']}", "", *_machine(content, together, count)]
    lines += ["", "## Over time", "", "Geometric means of the ratios.", ""]
    return "\n".join([*lines, *history.table(past, _KINDS)]) + "\n"


def _machine(content: dict[str, Any], together: dict[str, Any], count: int) -> list[str]:
    rows = content["rows"]
    lines = [
        history.about(content),
        "",
        *bench_models.summary(rows, count).splitlines(),
        "",
        *_table(_COLUMNS, content, _row),
    ]
    faults = [f"- {name}: {bench_models.fault(row)}" for name, row in rows.items()]
    faults = [line for line in faults if not line.endswith(": ")]
    if faults:
        lines += ["", "Faults:", "", *faults]
    if together["rows"]:
        lines += ["", f"On {together['cores']} cores:", "", history.about(together), ""]
        lines += _table(_COLUMNS_ON_ALL, together, _row_on_all)
    return lines


def _table(
    columns: tuple[str, ...],
    content: dict[str, Any],
    cells_of: Callable[[dict[str, Any]], list[str]],
) -> list[str]:
    lines = ["| " + " | ".join(columns) + " |", "|---|" + "--:|" * (len(columns) - 1)]
    for name, row in content["rows"].items():
        if bench_models.ratios(row):
            lines.append(f"| {' | '.join([history.title(name, content), *cells_of(row)])} |")
    return lines


def _row(row: dict[str, Any]) -> list[str]:
    found, hloc = bench_models.ratios(row), row["hloc"]
    return [
        *(_milliseconds(row, engine) for engine in ("hloc", "constant", *PEERS)),
        *_shown(found, "run", "best", "constant_best"),
        f"{hloc['first']:.2f}",
        *_shown(found, "first"),
        f"{hloc['memory'] / 1e6:.0f}",
        *_shown(found, "memory"),
    ]


def _row_on_all(row: dict[str, Any]) -> list[str]:
    times = [_milliseconds(row, engine) for engine in ("hloc", *PEERS)]
    return [*times, *_shown(bench_models.ratios(row), "run", "best")]


def _milliseconds(row: dict[str, Any], engine: str) -> str:
    seconds = row.get(engine, {}).get("run")
    return "" if seconds is None else f"{seconds * 1e3:.4g}"


def _shown(found: dict[str, float], *kinds: str) -> list[str]:
    return [f"{found[kind]:.2f}" if kind in found else "" for kind in kinds]


if __name__ == "__main__":
    main()
