"""docs/linear-algebra.md: programs with linear algebra beside XLA:CPU, of the groups in `TITLES`.

    python benchmarks/linear_algebra_page.py > docs/linear-algebra.md

The figures are those of the history of measurements (`history.py`).
"""

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import bench_suite, history
from benchmarks.suite_page import measured, table_row

TITLES = {
    "small_matrices": "Batches of small matrices, LAPACK's rarer routines, filters and solvers",
    "factorisations": "Factorisations, regressions and steps of Newton's method",
    "linear_algebra": "Fourier transforms and one large system",
}
"""Groups of the suite, and what they hold."""

_INTRODUCTION = """\
Written by `make bench-linear-algebra`: programs of `benchmarks/suite/`, hloc and XLA:CPU in turn on
one core, medians of processor time. XLA calls LAPACK. Ratios are hloc / XLA: below 1 hloc is
faster; compile times are with an empty cache (cold) and a filled one (warm), and temp is the memory
of temporaries. [custom-calls.md](custom-calls.md) says which calls are kernels of hloc's own, and
[ADR 0009](adr/0009-own-linear-algebra.md) why."""

_HIGH = 0.8
"""Ratio above which programs are named."""


def main() -> None:
    """Print the page."""
    from benchmarks.suite.program import load_all

    groups = {name: p.group for name, p in load_all().items() if p.group in TITLES}
    print(page(history.newest(history.read("suite"), order=groups), groups), end="")


def page(content: dict[str, Any], groups: dict[str, str]) -> str:
    """Return the text; `groups` has the group of each program."""
    rows = measured(content)
    high = [f"{name} {r['hloc'] / r['xla']:.2f}" for name, r in rows.items() if _is_high(r)]
    lines = [
        "# Linear algebra beside XLA:CPU",
        "",
        *_INTRODUCTION.splitlines(),
        "",
        history.about(content),
        "",
        *bench_suite.summary(rows).splitlines(),
        f"above {_HIGH}: {', '.join(high) or 'none'}",
    ]
    for group, title in TITLES.items():
        lines += [
            "",
            f"## {title}",
            "",
            "| program | hloc ms | XLA ms | run | cold | warm | temp |",
        ]
        lines.append("|---|--:|--:|--:|--:|--:|--:|")
        chosen = {name: row for name, row in rows.items() if groups.get(name) == group}
        lines += [table_row(history.title(name, content), row) for name, row in chosen.items()]
    return "\n".join(lines) + "\n"


def _is_high(row: dict[str, Any]) -> bool:
    return bool(row["hloc"] / row["xla"] > _HIGH)


if __name__ == "__main__":
    main()
