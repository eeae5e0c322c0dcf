"""`hloc stats FILE...`: what a module is made of and what it costs."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Iterable, Mapping
from dataclasses import asdict

from hloc.analysis.cost import Cost
from hloc.analysis.statistics import Group, ModuleStatistics, module_statistics
from hloc.cli.guard import guarded
from hloc.cli.talk import Talk
from hloc.errors import printable
from hloc.report.exits import Exit
from hloc.report.source_input import need_files, read_modules, shown_name
from hloc.report.text import count_text, plural, size_text

_MOST_ROWS = 25
_MOST_WIDTH = 60


def print_statistics(arguments: Namespace, talk: Talk) -> int:
    """`hloc stats FILE...`."""
    found: list[dict[str, object]] = []

    def print_one(name: str) -> int:
        for module in read_modules(name):
            statistics = module_statistics(module)
            if arguments.format == "json":
                found.append({"file": shown_name(name), **_as_data(statistics)})
            elif arguments.by:
                talk.product("\n".join(_by(statistics, arguments.by, 0)))
            else:
                talk.product("\n".join(_overview(statistics, shown_name(name))))
        return Exit.OK

    files = need_files(arguments.files)
    code = max(guarded(talk, lambda name=name: print_one(name)) for name in files)  # type: ignore[misc]
    if arguments.format == "json":
        talk.product(json.dumps(found, indent=1))
    return code


def _overview(found: ModuleStatistics, name: str) -> list[str]:
    cost = found.cost
    loops = f", {plural(found.loops, 'loop')} counted as one iteration" if found.loops else ""
    elided = f", {found.elided:,} left out of the text" if found.elided else ""
    lines = [
        f"{name}: module {printable(found.name)}",
        f"  size        {plural(found.instructions, 'instruction')}, "
        f"{plural(len(found.computations), 'computation')}",
        f"  operations  {count_text(cost.flops, 'FLOP')}, "
        f"{count_text(cost.transcendentals, 'transcendental')}{loops}",
        f"  memory      {size_text(cost.bytes_read)} read, {size_text(cost.bytes_written)} written,"
        f" {found.intensity:.3g} FLOP per byte",
        f"  parameters  {found.parameters:,}, {size_text(found.parameter_bytes)}; "
        f"result {size_text(found.result_bytes)}",
        f"  constants   {found.constants:,}, {size_text(found.constant_bytes)}{elided}",
    ]
    for grouping in ("opcode", "dtype", "scope", "computation"):
        lines += ["", *_by(found, grouping, _MOST_ROWS)]
    rows = ((a.name, a.opcode, a.shape, size_text(a.size_bytes)) for a in found.largest)
    return [*lines, "", *_table(("largest arrays", "opcode", "shape", "size"), rows)]


def _by(found: ModuleStatistics, grouping: str, limit: int) -> list[str]:
    """Return the table of one grouping, at most `limit` rows (0: all)."""
    if grouping == "computation":
        heads = ("computation", "count", "FLOP", "transc.", "bytes", "callers", "")
        rows = [
            (printable(c.name), f"{c.instructions:,}", *_cost(c.cost), f"{c.callers:,}", _note(c))
            for c in found.computations
        ]
    else:
        groups: Mapping[str, Group] = {
            "opcode": found.opcodes, "dtype": found.dtypes, "scope": found.scopes
        }[grouping]  # fmt: skip
        heads = (grouping, "count", "FLOP", "transc.", "bytes", "", "")
        rows = [
            (printable(name), f"{group.instructions:,}", *_cost(group.cost), "", "")
            for name, group in groups.items()
        ]
    left_out = len(rows) - limit if limit else 0
    lines = _table(heads, rows[:limit] if limit else rows)
    return [*lines, f"  ... {left_out:,} more; see --by={grouping}"] if left_out > 0 else lines


def _note(computation: object) -> str:
    if getattr(computation, "is_entry", False):
        return "entry"
    return "per iteration" if getattr(computation, "in_loop", False) else ""


def _cost(cost: Cost) -> tuple[str, str, str]:
    return (
        count_text(cost.flops, "").strip(),
        count_text(cost.transcendentals, "").strip(),
        size_text(cost.bytes),
    )


def _table(heads: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> list[str]:
    """Return lines with the first column to the left and the others to the right."""
    cells = [heads, *([_short(row[0]), *row[1:]] for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(heads))]
    return [
        f"  {row[0]:{widths[0]}s}"
        + "".join(
            f"  {text:>{width}s}" for text, width in zip(row[1:], widths[1:], strict=True)
        ).rstrip()
        for row in cells
    ]


def _short(text: str) -> str:
    return text if len(text) <= _MOST_WIDTH else "..." + text[3 - _MOST_WIDTH :]


def _as_data(found: ModuleStatistics) -> dict[str, object]:
    data = asdict(found)
    data["intensity"] = found.intensity
    data["loops_counted_as"] = "one iteration"
    return data
