"""docs/performance.md and its charts, from the history of measurements (`history.py`).

    python benchmarks/suite_page.py

Writes docs/performance.md, docs/screens/suite.svg and docs/screens/suite_history.svg.
"""

import math
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import bench_large, bench_neon, bench_suite, harness, history
from hloc.pictures.style import CHART_STYLE

_ROW_HEIGHT, _LEFT, _WIDTH, _TOP = 15, 190, 560, 50
_DECADES = (-2, 1)  # ratios from 0.01 to 10
_INTRODUCTION = """\
Written by `make performance`, these tables by `make bench-suite`: every program of
`benchmarks/suite/` in a process of its own, hloc and XLA:CPU in turn on one core, medians of
processor time. Ratios are hloc / XLA: below 1 hloc is faster. Compile times are those of
`hloc.compile` with an empty cache (cold) and a filled one (warm) over XLA's; with both, routines
that serve any size come compiled (`hloc cache --fill=package`). temp is the memory of temporaries.
`limit` is the share of the time that the machine's copy speed and its speed of NumPy's matrix
product would allow; more than 100 % is data that stays in a cache. A machine "as" an older
processor hides newer instruction sets from both (`make bench-suite PROCESSOR=avx2`)."""
_LARGE = """\
`make bench-large`: training steps of GPT with ever more blocks and small arrays, read as HLO text
by hloc and XLA:CPU in processes of their own, in turn, on one core, with an empty cache. `us each`
is the time of hloc's passes per instruction, `first` that from the text to the first result,
`changed` that of the text with one product changed to a sum, in another process with the cache of
the first, `memory` the peak of resident memory above what imports and inputs take; ratios are
hloc / XLA."""
_NEON = """\
`make bench-neon`: instructions that one call executes on one thread, counted by QEMU, not time: a
division counts as much as an addition, and waiting for memory counts nothing. Ratios are hloc /
XLA:CPU. Both compile for a Neoverse N1 (NEON, vectors of 128 bits, dot products of bytes). `memory`
marks programs that wait for arrays beyond the caches, where fewer instructions gain little. hloc's
side is an object (`hloc -shared`): factorisations for which hloc in Python calls SciPy's LAPACK are
its own code there, or refused. Programs of more than 1 GFLOP or 64 MB are left out."""
Rows = dict[str, dict[str, Any]]


def main() -> None:
    """Write the page, its charts, and the figures of README and docs/status.md."""
    from benchmarks.suite.program import load_all

    docs, order = harness.ROOT / "docs", load_all()
    past = {suite: history.read(suite) for suite in ("suite", "models", "large", "start", "neon")}
    tables = history.tables(past["suite"], order)
    (docs / "screens" / "suite.svg").write_text(chart(measured(tables[0][0])))
    (docs / "screens" / "suite_history.svg").write_text(history_chart(past["suite"]))
    text = page(tables) + neon_section(past["neon"], order) + past_section(past)
    (docs / "performance.md").write_text(text)
    text = "".join(f"- {sentence(content)}\n" for content, _ in tables)
    for path in (harness.ROOT / "README.md", docs / "status.md"):
        harness.write_between_marks(path, "bench-suite", text)
    if past["large"]:
        readme = harness.ROOT / "README.md"
        harness.write_between_marks(readme, "bench-large", large_sentence(past["large"]))


def sentence(content: dict[str, Any]) -> str:
    """Return what other pages say of the suite on one machine."""
    return f"{content['machine']['cpu']}: {bench_suite.summary(measured(content)).splitlines()[0]}"


def measured(content: dict[str, Any]) -> Rows:
    """Return the rows of programs that ran."""
    return {name: row for name, row in content["rows"].items() if "fault" not in row}


def page(tables: list[tuple[dict[str, Any], dict[str, Any]]]) -> str:
    """Return the text of docs/performance.md.

    Args:
        tables: for each machine what was measured on one core, and on all: maybe no rows.
    """
    lines = ["# How fast hloc is", "", *_INTRODUCTION.splitlines()]
    lines += ["", "![ratios of run time, hloc / XLA](screens/suite.svg)"]
    for content, together in tables:
        lines += ["", f"## {content['machine']['cpu']}", "", *_table(content, together)]
    return "\n".join(lines) + "\n"


def _table(content: dict[str, Any], together: dict[str, Any]) -> list[str]:
    rows, others = measured(content), measured(together)
    lines = [
        history.about(content),
        "",
        *bench_suite.summary(rows).splitlines(),
        "",
        *(_all_cores(together, others) if others else ()),
        "| program | hloc ms | XLA ms | run | all cores | limit | cold | warm | temp |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    return lines + [
        _row_of_suite(history.title(name, content), row, others.get(name))
        for name, row in rows.items()
    ]


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


def _row_of_suite(title: str, row: dict[str, Any], together: dict[str, Any] | None) -> str:
    on_all = f"{together['hloc'] / together['xla']:.2f}" if together else ""
    return table_row(title, row, on_all, f"{row['limit']:.0%}")


def neon_section(past: list[history.Record], order: Iterable[str]) -> str:
    """Return the instructions on an emulated processor, "" if they were never counted."""
    if not past:
        return ""
    content = history.newest(past, order=order)
    rows = measured(content)
    lines = ["", f"## {content['machine']['cpu']}", "", *_NEON.splitlines(), ""]
    lines += [f"Version: {content['commit']} of {content['date']}. {bench_neon.summary(rows)}", ""]
    lines += ["| program | hloc, million | XLA, million | ratio | |", "|---|--:|--:|--:|---|"]
    for name, row in rows.items():
        cells = [
            history.title(name, content),
            *(f"{row[engine] / 1e6:.4g}" for engine in ("hloc", "xla")),
            f"{row['hloc'] / row['xla']:.2f}",
            "memory" if bench_neon.waits_for_memory(row) else "",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def past_section(past: dict[str, list[history.Record]]) -> str:
    """Return what `benchmarks/history` holds of all suites, as tables and a chart."""
    lines = ["", "## Over time", ""]
    lines += [
        "Geometric means of the ratios, from `benchmarks/history/suite.jsonl`.",
        "",
    ]
    lines += ["![means of the ratios, version after version](screens/suite_history.svg)", ""]
    kinds = {"run": "run", "all_cores": "all cores", "cold": "cold", "warm": "warm"}
    lines += history.table(past["suite"], kinds)
    if models := past["models"]:
        lines += ["", "## Whole models", ""]
        lines += ["[models.md](models.md), written by `make bench-models`. `best` is over the"]
        lines += ["fastest of XLA, PyTorch and ONNX Runtime, the others are over XLA.", ""]
        lines += history.table(models, {name: name for name in models[-1]["means"]})
    if past["large"]:
        lines += ["", "## Large modules", "", *large_section(past["large"])]
    if start := past["start"]:
        lines += ["", "## Starting", ""]
        lines += ["`make bench-start`: processor time of whole commands, ms. `run` compiles,"]
        lines += ["`run again` finds the kept program.", ""]
        lines += history.table(start, {name: name for name in start[-1]["means"]})
    return "\n".join(lines) + "\n"


def large_sentence(past: list[history.Record]) -> str:
    """Return what README says of the largest module."""
    rows = {n: row for n, row in history.newest(past)["rows"].items() if bench_large.ratios(row)}
    name, row = max(rows.items(), key=lambda item: item[1]["hloc"]["instructions"])
    found, hloc = bench_large.ratios(row), row["hloc"]
    return (
        f"`{name}`, a training step of {hloc['instructions']:,.0f} instructions with small arrays, "
        f"has its first result {hloc['first']:.1f} s after its text: {found['first']:.2f} of "
        f"XLA:CPU's time, in {found['memory']:.2f} of its memory "
        "([large modules](docs/performance.md#large-modules)).\n"
    )


def large_section(past: list[history.Record]) -> list[str]:
    """Return the table of the modules of `bench_large.py`, and its history."""
    content = history.newest(past)
    columns = ("module", "instructions", "us each", "first s", "first", "changed s", "memory MB",
               "memory")  # fmt: skip
    lines = [
        *_LARGE.splitlines(),
        "",
        history.about(content),
        "",
        "| " + " | ".join(columns) + " |",
        "|---|" + "--:|" * (len(columns) - 1),
    ]
    for name, row in content["rows"].items():
        if not (found := bench_large.ratios(row)):
            continue
        hloc = row["hloc"]
        cells = [
            history.title(name, content),
            f"{hloc['instructions']:,.0f}",
            f"{bench_large.microseconds(row):.0f}",
            f"{hloc['first']:.2f}",
            f"{found['first']:.2f}",
            f"{hloc['changed']:.2f}" if "changed" in hloc else "",
            f"{hloc['memory'] / 1e6:.0f}",
            f"{found['memory']:.2f}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return [*lines, "", *history.table(past, {"first": "first", "memory": "memory"})]


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
        cpu, as_, simulated = line["machine"]["cpu"].partition(harness.AS)
        label = f"{line['date']} {cpu.split('(')[0][:12]}{as_}{simulated.split(' ')[0]}"
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
