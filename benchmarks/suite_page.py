"""docs/performance.md and its chart, from the JSON of `bench_suite.py`.

    python benchmarks/suite_page.py RESULTS.json [ALL_CORES.json]

Writes docs/performance.md, docs/screens/suite.svg and, from the history of measurements,
docs/screens/suite_history.svg. The second file, of a run with `--cores`, gives the column for all
cores.
"""

import json
import math
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import bench_suite, harness, history
from hloc.pictures.style import CHART_STYLE

_ROW_HEIGHT, _LEFT, _WIDTH, _TOP = 15, 190, 560, 50
_DECADES = (-2, 1)  # ratios from 0.01 to 10
_INTRODUCTION = """\
Written by `make performance`: every program of `benchmarks/suite/` in a process of its own, hloc
and XLA:CPU in turn on one core, medians of processor time. Ratios are hloc / XLA: below 1 hloc is
faster. Compile times are those of `hloc.compile` with an empty cache (cold) and a filled one (warm)
over XLA's; with both, routines that serve any size come compiled (`hloc cache --fill=package`).
temp is the memory of temporaries. `limit` is the share of the time that the machine's copy speed
and its speed of NumPy's matrix product would allow; more than 100 % is data that stays in a
cache."""
Rows = dict[str, dict[str, Any]]


def main() -> None:
    """Write the page and the chart."""
    content = json.loads(Path(sys.argv[1]).read_text())
    together = json.loads(Path(sys.argv[2]).read_text()) if len(sys.argv) > 2 else {"rows": {}}
    docs = harness.ROOT / "docs"
    rows = measured(content)
    (docs / "screens" / "suite.svg").write_text(chart(rows))
    lines = history.read("suite")
    (docs / "screens" / "suite_history.svg").write_text(history_chart(lines))
    past = past_section(lines, history.read("start"), history.read("models"))
    (docs / "performance.md").write_text(page(content, rows, together) + past)


def measured(content: dict[str, Any]) -> Rows:
    """Return the rows of programs that ran."""
    return {name: row for name, row in content["rows"].items() if "fault" not in row}


def page(content: dict[str, Any], rows: Rows, together: dict[str, Any]) -> str:
    """Return the text of docs/performance.md; `together` is a run on all cores, or has no rows."""
    machine = content["machine"]
    others = measured(together)
    lines = [
        "# How fast hloc is",
        "",
        *_INTRODUCTION.splitlines(),
        "",
        f"Machine: {machine['cpu']}, {content['cores']} core, Python {machine['python']}, "
        f"{machine['bytes_per_second'] / 1e9:.0f} GB/s, "
        f"{machine['flops_per_second'] / 1e9:.0f} GFLOP/s. It was shared: figures near 1 are even.",
        "",
        *bench_suite.summary(rows).splitlines(),
        "",
        *(_all_cores(together, others) if others else ()),
        "![ratios of run time, hloc / XLA](screens/suite.svg)",
        "",
        "| program | hloc ms | XLA ms | run | all cores | limit | cold | warm | temp |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    lines += [_row_of_suite(name, row, machine, others.get(name)) for name, row in rows.items()]
    return "\n".join(lines) + "\n"


def _all_cores(together: dict[str, Any], rows: Rows) -> list[str]:
    """Return what the run on all cores comes to."""
    run = harness.mean(row["hloc"] / row["xla"] for row in rows.values())
    threads = bench_suite.summary_of_threads(rows)
    return [
        f"On {together['cores']} cores, by the clock (column `all cores`): run {run:.2f} of "
        f"XLA's time" + (f"; hloc alone, {threads}" if threads else ""),
        "",
    ]


def table_row(name: str, row: dict[str, Any], *more: str) -> str:
    """Return a row of a table; cells of `more` stand before the ratios of compiling."""
    cells = [
        name,
        f"{row['hloc'] * 1e3:.4g}",
        f"{row['xla'] * 1e3:.4g}",
        f"{row['hloc'] / row['xla']:.2f}",
        *more,
        f"{row['cold'] / row['xla_cold']:.2f}",
        f"{row['warm'] / row['xla_cold']:.2f}",
        f"{row['temp'] / row['xla_temp']:.2f}" if row["xla_temp"] else "",
    ]
    return "| " + " | ".join(cells) + " |"


def _row_of_suite(
    name: str, row: dict[str, Any], machine: dict[str, Any], together: dict[str, Any] | None
) -> str:
    least = max(
        row["bytes"] / machine["bytes_per_second"], row["flops"] / machine["flops_per_second"]
    )
    on_all = f"{together['hloc'] / together['xla']:.2f}" if together else ""
    return table_row(name, row, on_all, f"{least / row['hloc']:.0%}")


def past_section(
    suite: list[history.Record], start: list[history.Record], models: list[history.Record]
) -> str:
    """Return what `benchmarks/history` holds, as tables and a chart."""
    lines = ["", "## Over time", ""]
    lines += [
        "Geometric means of the ratios, from `benchmarks/history/suite.jsonl`.",
        "",
    ]
    lines += ["![means of the ratios, version after version](screens/suite_history.svg)", ""]
    kinds = {"run": "run", "all_cores": "all cores", "cold": "cold", "warm": "warm"}
    lines += history.table(suite, kinds)
    if models:
        lines += ["", "## Whole models", ""]
        lines += ["[models.md](models.md), written by `make bench-models`. `best` is over the"]
        lines += ["fastest of XLA, PyTorch and ONNX Runtime, the others are over XLA.", ""]
        lines += history.table(models, {name: name for name in models[-1]["means"]})
    if start:
        lines += ["", "## Starting", ""]
        lines += ["`make bench-start`: processor time of whole commands, ms. `run` compiles,"]
        lines += ["`run again` finds the kept program.", ""]
        lines += history.table(start, {name: name for name in start[-1]["means"]})
    return "\n".join(lines) + "\n"


def history_chart(lines: list[history.Record]) -> str:
    """Return an SVG: a row per version and machine, dots for run, cold and warm compile."""
    height, width = _TOP + 2 * _ROW_HEIGHT * len(lines) + 20, _LEFT + _WIDTH + 60
    kinds = {"run": "#2e7d32", "cold": "#0969da", "warm": "#9a6700"}
    svg = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}">',
        f"<style>{CHART_STYLE}</style>",
    ]
    for i, (kind, colour) in enumerate(kinds.items()):
        x = _LEFT + 70 * i
        svg.append(f'<circle cx="{x}" cy="16" r="5" fill="{colour}"/>')
        svg.append(f'<text x="{x + 10}" y="20">{kind}</text>')
    svg += _scale(height)
    for i, line in enumerate(lines):
        y = _TOP + 2 * _ROW_HEIGHT * i + _ROW_HEIGHT
        label = f"{line['date']} {line['machine']['cpu'].split('(')[0][:12]}"
        svg.append(f'<text x="{_LEFT - 8}" y="{y + 4}" text-anchor="end">{label}</text>')
        for kind, colour in kinds.items():
            at = _place(line["means"][kind])
            svg.append(f'<circle cx="{at}" cy="{y}" r="5" fill="{colour}"/>')
    return "\n".join([*svg, "</svg>"]) + "\n"


def _scale(height: int) -> list[str]:
    lines = []
    for tick in (0.01, 0.03, 0.1, 0.3, 1, 3, 10):
        x = _place(tick)
        lines.append(f'<line class="grid" x1="{x}" x2="{x}" y1="{_TOP}" y2="{height - 20}"/>')
        lines.append(f'<text x="{x}" y="{_TOP - 8}" text-anchor="middle">{tick:g}</text>')
    return lines


def chart(rows: Rows) -> str:
    """Return an SVG of the ratios, the best first, on a logarithmic scale."""
    ratios = sorted((row["hloc"] / row["xla"], name) for name, row in rows.items())
    height = _TOP + _ROW_HEIGHT * len(ratios) + 20
    width = _LEFT + _WIDTH + 60
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}">',
        f"<style>{CHART_STYLE} .faster {{ fill: #2e7d32; }} .slower {{ fill: #d1242f; }}</style>",
        f'<text x="{_LEFT}" y="20">run time, hloc / XLA, one core</text>',
        *_scale(height),
    ]
    for i, (ratio, name) in enumerate(ratios):
        y = _TOP + i * _ROW_HEIGHT
        start, end = sorted((_place(1), _place(ratio)))
        kind = "faster" if ratio <= 1 else "slower"
        lines.append(f'<text x="{_LEFT - 8}" y="{y + 11}" text-anchor="end">{name}</text>')
        lines.append(
            f'<rect class="{kind}" x="{start}" y="{y + 2}" width="{max(end - start, 1):.1f}"'
            f' height="{_ROW_HEIGHT - 4}"/>'
        )
    x = _place(1)
    lines.append(f'<line class="axis" x1="{x}" x2="{x}" y1="{_TOP}" y2="{height - 20}"/>')
    return "\n".join([*lines, "</svg>"]) + "\n"


def _place(ratio: float) -> float:
    low, high = _DECADES
    at = (min(max(math.log10(ratio), low), high) - low) / (high - low)
    return round(_LEFT + at * _WIDTH, 1)


if __name__ == "__main__":
    main()
