"""The composition and cost of a module as text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from hloc.analysis.cost import Cost
from hloc.analysis.statistics import Group, ModuleStatistics
from hloc.errors import printable
from hloc.options import GROUPINGS
from hloc.quantities import count_text, size_text
from hloc.report.text import aligned, plural

_MOST_ROWS = 25
_MOST_WIDTH = 60


def overview(
    found: ModuleStatistics, name: str, groupings: Sequence[str] = GROUPINGS[:-1]
) -> list[str]:
    """Return counts, costs and bytes of the module of file or state `name`, and some tables."""
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
    for grouping in groupings:
        lines += ["", *table_by(found, grouping, _MOST_ROWS)]
    return lines


def largest_arrays(found: ModuleStatistics) -> list[str]:
    """Return a table of the largest arrays."""
    rows = ((a.name, a.opcode, a.shape, size_text(a.size_bytes)) for a in found.largest)
    return _table(("largest arrays", "opcode", "shape", "size"), rows)


def table_by(found: ModuleStatistics, grouping: str, limit: int) -> list[str]:
    """Return the table of one grouping, at most `limit` rows (0: all)."""
    if grouping == "computation":
        heads = ("computation", "count", "FLOP", "transc.", "bytes", "callers", "")
        rows = [
            (printable(c.name), f"{c.instructions:,}", *_cost(c.cost), f"{c.callers:,}", _note(c))
            for c in found.computations
        ]
    else:
        groups: Mapping[str, Group] = {
            "opcode": found.opcodes, "dtype": found.dtypes, "scope": found.scopes,
            "source": found.sources,
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
    cells = [heads, *((_short(row[0]), *row[1:]) for row in rows)]
    return [f"  {line}" for line in aligned(cells, range(1, len(heads)))]


def _short(text: str) -> str:
    return text if len(text) <= _MOST_WIDTH else "..." + text[3 - _MOST_WIDTH :]
