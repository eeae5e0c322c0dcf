"""Renders diffs of states: unified, side by side, or as counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice

from rich.text import Text

from hloc.analysis.diff.module_diff import SAME
from hloc.errors import printable
from hloc.quantities import count_text, size_text
from hloc.report.diff.diff_lines import (
    STYLES,
    DiffView,
    SpanLine,
    row_lines,
    side_lines,
    title_of,
    unified_lines,
)
from hloc.report.text import plural
from repl.state_diff import DiffJson, ShownDiff

_MOST_STEP_ROWS = 12


def render_diff(shown: ShownDiff, width: int = 100) -> Iterator[Text]:
    """Yield the lines of a diff in `width` columns."""
    if shown.table.is_empty:
        yield Text(f"{_states(shown)}: no difference")
        return
    if shown.mode == "stat":
        yield from _stat(shown)
        return
    by, costs = printable(shown.by), deltas(shown)
    if shown.mode == "side":
        view = DiffView(shown.table, shown.by, f"{by}   {costs}", shown.expand)
        lines = side_lines(view, width, shown.before.label, shown.after.label)
    else:
        about = f"{_states(shown)}   {by}   {costs}".replace("    ", "   ")
        view = DiffView(shown.table, shown.by, about, shown.expand, width=width)
        lines = unified_lines(view)
    yield from map(_text, islice(lines, shown.limit))
    if next(lines, None) is not None:
        rows = sum(shown.table.counts().values())
        yield Text(f"... more lines ({rows:,} changes in all); diff --all shows them", style="dim")


def _text(line: SpanLine) -> Text:
    found = Text()
    for text, styles in line:
        start = len(found)
        found.append(text)
        for style in styles.split():
            found.stylize(style, start)
    return found


def render_json(result: DiffJson) -> Iterator[Text]:
    """Yield the JSON text."""
    yield Text("\n".join(map(printable, result.text.split("\n"))))


def change_lines(shown: ShownDiff, by: str) -> Iterator[Text]:
    """Yield only the changed rows, as a single step shows them; `by` is in the line above."""
    lines = list(row_lines(shown.table, by))
    yield from map(_text, lines[:_MOST_STEP_ROWS])
    if len(lines) > _MOST_STEP_ROWS:
        yield Text(f"    ... {len(lines) - _MOST_STEP_ROWS} more; diff shows all", style="dim")


def _states(shown: ShownDiff) -> str:
    return f"{shown.before.label} → {shown.after.label}"


def deltas(shown: ShownDiff) -> str:
    """Return `-2 kernels, -15.0 KiB, 0 FLOP, -9 instrs`: the change in cost."""
    old, new = shown.measures
    return ", ".join(
        (
            _signed(new.kernels - old.kernels, lambda n: plural(n, "kernel")),
            _signed(new.cost.bytes - old.cost.bytes, size_text),
            _signed(new.cost.flops - old.cost.flops, lambda n: count_text(n, "FLOP")),
            _signed(new.instructions - old.instructions, lambda n: plural(n, "instr")),
        )
    )


def _signed(number: int, text_of: Callable[[int], str]) -> str:
    sign = "-" if number < 0 else "+" if number > 0 else ""
    return f"{sign}{text_of(abs(number))}"


# ---------------------------------------------------------------- counts


def _stat(shown: ShownDiff) -> Iterator[Text]:
    """Yield the changes counted by computation and by rule, and the costs before and after."""
    old, new = shown.measures
    yield Text(f"{_states(shown)}   {printable(shown.by)}   {shown.table.summary()}", style="bold")
    width = max(len(title_of(c)) for c in shown.table.computations)
    for computation in shown.table.computations:
        counts = Counter(row.kind for row in computation.rows if row.kind != SAME)
        shown_counts = " ".join(f"{kind}{count}" for kind, count in counts.items())
        text = f"  {title_of(computation):{width}s}  {shown_counts or computation.note}"
        yield Text(text, style=STYLES[computation.kind])
    rules = Counter(row.by for c in shown.table.computations for row in c.rows if row.by)
    for by, count in sorted(rules.items(), key=lambda item: (-item[1], item[0])):
        yield Text(f"  {plural(count, 'row')} by {printable(by)}", style="dim")
    for name, before, after in (
        ("kernels", f"{old.kernels:,}", f"{new.kernels:,}"),
        ("instructions", f"{old.instructions:,}", f"{new.instructions:,}"),
        ("arithmetic", count_text(old.cost.flops, "FLOP"), count_text(new.cost.flops, "FLOP")),
        ("memory traffic", size_text(old.cost.bytes), size_text(new.cost.bytes)),
    ):
        yield Text(f"  {name:14s} {before} → {after}" + ("  (same)" if before == after else ""))
