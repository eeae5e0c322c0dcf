"""Renders the results of session modules: steps, breakpoints, tables, runs, verdicts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from rich.text import Text

from hloc.errors import printable
from hloc.quantities import duration, size_text
from hloc.report.compare import Comparison
from hloc.report.conditioning_text import conditioning_lines
from hloc.report.inputs import result_leaves
from hloc.report.measure_text import effect_text
from hloc.report.run_report import comparison_text, output_lines
from hloc.report.text import aligned, plural
from hloc.shapes import ArrayShape
from repl.applying import Applied, Stopped
from repl.editing import BY
from repl.render.diff import change_lines
from repl.render.styled import styled
from repl.results import Edited, Message, PipelineView, Table, Tree
from repl.running import Bench, RunResult, Value
from repl.state import State
from repl.state_diff import compared, measure
from repl.stepping import Rewrites, Stepped
from repl.verifying import Culprit, Verified

_PASS_WIDTH = 20
_MOST_ELEMENTS = 1 << 20
_KINDS = {"good": "green", "bad": "bold red", "dim": "dim", "": ""}


def _message(result: Message) -> Iterator[Text]:
    yield styled(result.text, _KINDS[result.kind])


def _table(result: Table) -> Iterator[Text]:
    if result.title:
        yield styled(result.title, "bold")
    lines = [result.heads, *result.rows] if result.heads else list(result.rows)
    for number, line in enumerate(aligned(lines, result.right)):
        yield styled(f"  {line}", "dim" if result.heads and number == 0 else "")


def _tree(result: Tree) -> Iterator[Text]:
    for depth, line in result.rows:
        yield styled("  " * min(depth, 40) + line.text())
    if result.more:
        yield styled(f"  ... {result.more:,} more instructions", "dim")


def _pipeline(result: PipelineView) -> Iterator[Text]:
    yield styled(result.name, "bold")
    for step in result.steps:
        mark = {"next": "→", "done": "✓", "": " "}[step.status]
        style = {"next": "bold", "done": "dim", "": ""}[step.status]
        yield styled(f"  {mark} {'  ' * step.depth}{step.text}", style)
    if all(step.status == "done" for step in result.steps):
        yield styled("  → the end")


# ---------------------------------------------------------------- passes


def _applied(result: Applied) -> Iterator[Text]:
    """Yield a pass that was applied: rewrites by rule, time, warnings, faults that it left."""
    if result.state is None:
        yield styled(f"  {result.what}: nothing to do", "dim")
    else:
        count = sum(number for _, number in result.rewrites)
        yield Text.assemble(
            (f"  {result.state.label} ", "bold"),
            f"{printable(result.what):{_PASS_WIDTH}s}   {_effect(result.state)}   "
            f"{plural(count, 'rewrite')}, {result.diff.summary()}   {result.wall_ms:.1f} ms",
        )
        for name, count in result.rewrites:
            if "/" in name:
                yield styled(f"       {name.partition('/')[2]} ×{count}", "dim")
        for fault in result.state.faults:
            yield styled(f"  ✗ invalid: {fault}", "bold red")
        if result.culprit is not None:
            yield from _culprit(result.culprit)
    if result.no_gain:
        yield styled(f"       {result.no_gain}", "dim")
    for warning in result.warnings:
        yield Text.assemble(("  warning: ", "yellow"), printable(warning))
    if result.verified is not None and not result.verified.ok:
        yield from _verified(result.verified)
    if result.is_wrong:
        yield styled("  undo goes back", "dim")


def _effect(state: State) -> str:
    assert state.parent is not None
    return effect_text(measure(state.parent), measure(state), "→")


def _stepped(result: Stepped) -> Iterator[Text]:
    if result.state is None:
        ending = "no rewrite is left" if result.number else "nothing to do"
        more = "; continue makes it a state of its own" if result.number else ""
        yield styled(f"  {result.what}: {ending}{more}", "dim")
        return
    kind = "rule " if "/" in result.by else ""
    place = f"   ({result.place})" if result.place else ""
    yield Text.assemble(
        (f"  rewrite {result.number}/{result.of}  ", "bold"),
        printable(kind + (result.by.partition("/")[2] or result.by)),
        (place, "dim"),
    )
    assert result.state.parent is not None
    shown = compared(result.state.parent, result.state)
    yield from change_lines(shown, result.by)


def _stopped(result: Stopped) -> Iterator[Text]:
    yield styled(f"  stopped at {result.state.label}: {result.why}", "yellow")
    yield styled("  continue goes on", "dim")


def _edited(result: Edited) -> Iterator[Text]:
    state = result.state
    assert state.parent is not None
    shown = compared(state.parent, state)
    yield Text.assemble(
        (f"  {state.label} ", "bold"), styled(f"{state.how}   {shown.table.summary()}")
    )
    yield from change_lines(shown, BY)


def _rewrites(result: Rewrites) -> Iterator[Text]:
    yield styled(f"{result.what} on {result.label}: {plural(len(result.rows), 'rewrite')}", "bold")
    for number, by, at, delta in result.rows:
        mark = "✓" if number <= result.done else " "
        change = f"{delta:+d}" if delta else "="
        yield styled(f"  {mark} {number:4d}  {by}   %{at}   {change}")


# ---------------------------------------------------------------- runs


def _run(result: RunResult) -> Iterator[Text]:
    shapes = result_leaves(result.state.module)
    limit = _MOST_ELEMENTS if result.print_all else None
    for line in output_lines(result.outputs, shapes, limit, _stacked(result.outputs, shapes)):
        yield styled(line)
    for value in result.watched:
        yield from _value(value)
    figures = measure(result.state)
    yield styled(
        f"run {result.state.label}: {plural(figures.kernels, 'kernel')}, "
        f"{size_text(figures.cost.bytes)}, {duration(result.wall_ms / 1e3)}   ({result.inputs})"
    )
    if result.comparison is not None:
        yield from _verdict(result.comparison, result.compared_with)
        yield from (styled(line) for line in conditioning_lines(result.conditioning))


def _stacked(arrays: Sequence[np.ndarray[Any, Any]], shapes: Sequence[ArrayShape]) -> list[int]:
    """Return the indices of arrays that stack the devices along a first dimension."""
    pairs = zip(arrays, shapes, strict=True)
    return [i for i, (array, shape) in enumerate(pairs) if array.ndim > shape.rank]


def _verdict(found: Comparison, compared_with: str) -> Iterator[Text]:
    verdict = ("OK", "green") if found.ok else ("FAILED", "bold red")
    yield Text.assemble(
        f"compare with {compared_with}: ", verdict, f"  {printable(comparison_text(found))}"
    )


def _value(result: Value) -> Iterator[Text]:
    stacked = _stacked(result.arrays, result.shapes)
    lines = output_lines(result.arrays, result.shapes, None, stacked)
    if stacked:
        yield from (styled(result.name + line.removeprefix("out0")) for line in lines)
        return
    for line, summary in zip(lines, result.summaries(), strict=False):
        yield styled(f"{result.name} = {line.partition(' = ')[2]}")
        if summary:
            yield styled(f"    {summary}", "dim")


def _bench(result: Bench) -> Iterator[Text]:
    first = result.rows[0].median
    for row in result.rows:
        ratio = f"{row.median / first:.2f} of {result.rows[0].label}" if first else ""
        p95 = row.seconds[int(0.95 * (len(row.seconds) - 1))]
        yield styled(
            f"  {row.label:6s} {duration(row.median):>10s}  p95 {duration(p95):>10s}  "
            f"{plural(len(row.seconds), 'run'):9s}  {ratio:14s} {row.how}"
        )
    yield styled(f"  {result.inputs}", "dim")
    if result.no_gain:
        yield styled(f"  {result.no_gain}")


def _verified(result: Verified) -> Iterator[Text]:
    """Yield the verdict on two states, with the first inputs on which they differ."""
    count, labels = len(result.comparisons), (result.before.label, result.after.label)
    if result.ok:
        ulp = max((c.max_ulp for c in result.comparisons), default=0)
        mismatches = sum(c.nan_mismatches for c in result.comparisons)
        left = f" of {result.planned} planned" if count < result.planned else ""
        yield styled(
            f"{labels[0]} ≡ {labels[1]} on {plural(count, 'input set')}{left} "
            f"({', '.join(_kinds(result.sets))}): {plural(mismatches, 'mismatch')}, "
            f"max {ulp:,} ulp",
            "green",
        )
        return
    differ = f"differ on {result.differing_sets} of {plural(count, 'input set')}"
    why = result.refused or differ
    yield styled(f"  ✗ verify {labels[0]} vs {labels[1]}: {why}", "bold red")
    example = result.example
    if example is not None:
        yield styled(f"      first: {example.inputs}: {'; '.join(example.values)}")
        yield styled(f"      {labels[0]} → {'; '.join(example.before)}")
        yield styled(f"      {labels[1]} → {'; '.join(example.after)}")
    worst = next((c for c in result.comparisons if not c.ok), None)
    if worst is not None:
        yield styled(f"      {comparison_text(worst)}")
    if result.culprit is not None:
        yield from _culprit(result.culprit)


def _kinds(sets: tuple[str, ...]) -> list[str]:
    return list(dict.fromkeys(name.partition(",")[0] for name in sets))


def _culprit(found: Culprit) -> Iterator[Text]:
    number = f"rewrite {found.number} of {found.of}, " if found.number else ""
    kind = "rule" if "/" in found.by else "by"
    place = f" ({found.place})" if found.place else ""
    name = found.by.partition("/")[2] or found.by
    yield styled(f"      {found.state}: {number}{kind} {name}{place}")
    for line in found.text.before:
        yield styled(f"        - {line}", "red")
    for line in found.text.after:
        yield styled(f"        + {line}", "green")


RENDERERS: dict[type[Any], Callable[[Any], Iterator[Text]]] = {
    Applied: _applied,
    Bench: _bench,
    Edited: _edited,
    Message: _message,
    PipelineView: _pipeline,
    Rewrites: _rewrites,
    RunResult: _run,
    Stepped: _stepped,
    Stopped: _stopped,
    Table: _table,
    Tree: _tree,
    Value: _value,
    Verified: _verified,
}
