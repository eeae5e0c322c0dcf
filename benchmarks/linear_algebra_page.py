"""docs/linear-algebra.md: programs with linear algebra beside XLA:CPU, from `bench_suite.py`.

    python benchmarks/linear_algebra_page.py RESULTS.json > docs/linear-algebra.md

The results are those of the groups in `TITLES`.
"""

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import bench_suite
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
    content = json.loads(Path(sys.argv[1]).read_text())
    from benchmarks.suite.program import load_all

    print(page(content, {name: program.group for name, program in load_all().items()}), end="")


def page(content: dict[str, Any], groups: dict[str, str]) -> str:
    """Return the text; `groups` has the group of each program."""
    machine, rows = content["machine"], measured(content)
    high = [f"{name} {r['hloc'] / r['xla']:.2f}" for name, r in rows.items() if _is_high(r)]
    lines = [
        "# Linear algebra beside XLA:CPU",
        "",
        *_INTRODUCTION.splitlines(),
        "",
        f"Machine: {machine['cpu']}, {content['cores']} core, Python {machine['python']}.",
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
        lines += [table_row(n, r) for n, r in rows.items() if groups.get(n) == group]
    return "\n".join(lines) + "\n"


def _is_high(row: dict[str, Any]) -> bool:
    return bool(row["hloc"] / row["xla"] > _HIGH)


if __name__ == "__main__":
    main()
