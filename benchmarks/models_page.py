"""docs/models.md, and the figures of whole models in README.

    python benchmarks/models_page.py RESULTS.json...

The results are those of `bench_models.py`.
"""

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import bench_models, harness, history
from benchmarks.bench_models import PEERS

_INTRODUCTION = """\
Written by `make bench-models`: models of `benchmarks/models/`, each with each engine in a process
of its own with an empty cache. The architectures are written in JAX at their published
sizes, with random weights, which are arguments of the compiled function; names with `N_blocks` have
fewer blocks than published. `bN` is the batch; weights are f32, `bf16` (activations too) or `s8`
(matrices in s8 with a scale per column, all else f32). `train` is the loss, its gradient and a step
of gradient descent; `decode` is one token with 1,000 in the caches before it. The main models have
twins in PyTorch with the same sizes, run operator by operator and by `torch.compile`, and exported
for ONNX Runtime.

Times are medians of runs in which the engines take turns. `run` and `best` are hloc's time over
XLA's and over that of the fastest other engine: below 1 hloc is faster. `first` is compiling and
the first run, without tracing. `memory` is the peak of resident memory above what imports, weights
and inputs take, of compiling and running together. A cell is empty where an engine was not
measured."""
_KINDS = {"run": "run", "best": "best peer", "first": "first", "memory": "memory"}
_COLUMNS = (
    "model", "hloc ms", *(f"{title} ms" for title in PEERS.values()), "run", "best", "first s",
    "first", "memory MB", "memory",
)  # fmt: skip


README_MARKS = "<!-- written by make bench-models -->\n", "<!-- end -->\n"


def main() -> None:
    """Write the page, and README's sentence."""
    content = bench_models.joined([Path(name) for name in sys.argv[1:]])
    (harness.ROOT / "docs" / "models.md").write_text(page(content, history.read("models")))
    readme = harness.ROOT / "README.md"
    readme.write_text(in_readme(readme.read_text(), content))


def in_readme(text: str, content: dict[str, Any]) -> str:
    """Return README with the figures of `content` between its marks."""
    good = [found for row in content["rows"].values() if (found := bench_models.ratios(row))]
    means = {kind: harness.mean(r[kind] for r in good) for kind in ("run", "first", "memory")}
    cores = content["cores"]
    where = f"{'one core' if cores == 1 else f'{cores} cores'} ({content['machine']['cpu']})"
    sentence = (
        f"On {where}, {len(good)} whole models at their published sizes run in {means['run']:.2f} "
        f"of XLA:CPU's time (geometric mean), have the first result in {means['first']:.2f} of its "
        f"time and need {means['memory']:.2f} of its memory: "
        "[docs/models.md](docs/models.md).\n"
    )
    before, _, rest = text.partition(README_MARKS[0])
    _, end, after = rest.partition(README_MARKS[1])
    assert end, "README has the two marks"
    return before + README_MARKS[0] + sentence + end + after


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
