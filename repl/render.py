"""From the session's data to rich renderables; colour is never the only signal.

Text of a module is always wrapped in `Text`, so nothing in it is read as markup or as a terminal
command.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from rich.text import Text

from hloc.analysis.module_diff import (
    ADDED,
    CHANGED,
    MERGED,
    REMOVED,
    REWIRED,
    SAME,
    ComputationDiff,
    Line,
    ModuleDiff,
    Row,
)
from hloc.cli.inputs import result_leaves
from hloc.cli.run_report import comparison_text, output_lines
from hloc.cli.text import duration, plural, size_text
from hloc.errors import HloError, printable
from repl.commands import Effects, Help, Info, Listing, Message, ModuleText, Moved
from repl.diff import TextDiff
from repl.provenance import Origin
from repl.session import Applied, HistoryEntry, RunResult, StateDiff, Stats, Verified

STYLES = {
    SAME: "",
    ADDED: "green",
    REMOVED: "red",
    CHANGED: "yellow",
    REWIRED: "cyan",
    MERGED: "magenta",
}
_CONTEXT = 1
_MAX_STEP_ROWS = 12
_TOP_OPCODES = 20


def render(result: object) -> Iterator[Text]:
    """Yield the lines that show `result`, a value that a command returned."""
    if isinstance(result, tuple):
        yield from _history(result)
        return
    yield from RENDERERS[type(result)](result)


def render_error(error: HloError) -> Iterator[Text]:
    """Yield the lines of all diagnostics."""
    for diagnostic in error.diagnostics:
        head, mark, rest = diagnostic.render().partition("error")
        yield Text.assemble(_safe(head), (mark, "bold red"), _safe(rest))


def _safe(text: str) -> str:
    return "\n".join(printable(line) for line in text.split("\n"))


def _text(text: str, style: str = "") -> Text:
    return Text(_safe(text), style=style)


def _message(result: Message) -> Iterator[Text]:
    yield _text(result.text)


def _module_text(result: ModuleText) -> Iterator[Text]:
    yield _text(result.text.rstrip("\n"))


def _moved(result: Moved) -> Iterator[Text]:
    module = result.state.module
    counts = (
        f"{plural(module.instruction_count, 'instruction')}, "
        f"{plural(len(module.computations), 'computation')}"
    )
    if result.how != "load":
        yield _text(f"{result.state.label} {result.state.how}: {counts}")
        return
    parameters = " ".join(p.shape.text_without_layout for p in module.entry.parameters)
    if len(parameters) > 100:
        parameters = plural(len(module.entry.parameters), "parameter")
    result_shape = module.entry.root.shape.text_without_layout
    shown = result_shape if len(result_shape) <= 100 else "a tuple"
    yield _text(f"{module.name}: {counts}, {parameters} -> {shown}")


def _listing(result: Listing) -> Iterator[Text]:
    for name, lines in result.groups:
        yield _text(name, "bold")
        for line in lines:
            yield _line(line)


def _line(line: Line, indent: str = "  ") -> Text:
    return _text(indent + line.text())


def _info(result: Info) -> Iterator[Text]:
    yield _text(result.line.text(), "bold")
    yield _text(f"  in {result.computation}, shape {result.shape}")
    for title, lines in (("operands", result.operands), ("users", result.users)):
        yield _text(f"  {title}: {'' if lines else 'none'}".rstrip())
        for line in lines[:20]:
            yield _line(line, "    ")
        if len(lines) > 20:
            yield _text(f"    ... {len(lines) - 20} more")


def _effects(result: Effects) -> Iterator[Text]:
    width = max(len(effect.name) for effect in result.effects) + 2
    for effect in result.effects:
        name = f"  {effect.name:{width}s}"
        if effect.rewrites is None:
            yield Text.assemble((name, "bold"), _safe(effect.summary))
        else:
            count = plural(effect.rewrites, "rewrite") if effect.rewrites else "nothing to do"
            yield Text.assemble((name, "bold" if effect.rewrites else "dim"), f"{count}")


def _applied(result: Applied) -> Iterator[Text]:
    if result.state is None:
        yield _text(f"  {result.what}: nothing to do", "dim")
    else:
        yield Text.assemble(
            (f"  {result.state.label} ", "bold"),
            _safe(result.what),
            f"   {result.before:,} → {result.after:,}   {result.diff.summary()}   "
            f"{result.wall_ms:.1f} ms",
        )
        for name, count in result.rewrites:
            if "/" in name:
                yield _text(f"       {name.partition('/')[2]} ×{count}", "dim")
        if result.what.endswith("(1 rewrite)"):
            yield from _rows(result.diff, _MAX_STEP_ROWS)
    for warning in result.warnings:
        yield Text.assemble(("  warning: ", "yellow"), _safe(warning))


def _rows(found: ModuleDiff, limit: int) -> Iterator[Text]:
    rows = [row for c in found.computations for row in c.rows if row.kind != SAME]
    for row in rows[:limit]:
        yield _row(row)
    if len(rows) > limit:
        yield _text(f"    ... {len(rows) - limit} more; diff shows all")


def _state_diff(result: StateDiff) -> Iterator[Text]:
    head = f"{result.before.label} → {result.after.label}   {result.diff.summary()}"
    yield _text(head, "bold")
    lines = (line for c in result.diff.computations for line in _computation(c))
    yield from islice(lines, result.limit)
    more = sum(1 for _ in lines)
    if more:
        yield _text(f"... {more:,} more lines; diff --all shows them", "dim")


def _computation(found: ComputationDiff) -> Iterator[Text]:
    entry = "ENTRY " if found.is_entry else ""
    mark = "" if found.kind == SAME else f"{found.kind} "
    yield _text(f"{mark}{entry}{found.name}", f"bold {STYLES[found.kind]}".strip())
    near = _near_changes(found.rows)
    skipped = 0
    for row, shown in zip(found.rows, near, strict=True):
        if not shown:
            skipped += 1
            continue
        if skipped:
            yield _text(f"    ⋮ {skipped} unchanged", "dim")
            skipped = 0
        yield _row(row)
    if skipped:
        yield _text(f"    ⋮ {skipped} unchanged", "dim")


def _near_changes(rows: tuple[Row, ...]) -> list[bool]:
    """Return which rows to show: the changed ones and one unchanged row around them."""
    changed = [row.kind != SAME for row in rows]
    return [any(changed[max(0, i - _CONTEXT) : i + _CONTEXT + 1]) for i in range(len(rows))]


def _row(row: Row) -> Text:
    text = Text.assemble((f"  {row.kind} {_safe(row.text)}", STYLES[row.kind]))
    if row.by:
        text.append(f"   ← {_safe(row.by)}", style="dim")
    return text


def _text_diff(result: TextDiff) -> Iterator[Text]:
    if not result.lines:
        yield _text("no difference")
    for line in result.lines:
        style = {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "")
        yield _text(line, style)


def _history(entries: tuple[HistoryEntry, ...]) -> Iterator[Text]:
    for entry in entries:
        state = entry.state
        mark = "●" if entry.is_current else "○"
        parent = f" from {state.parent.label}" if state.parent and entry.depth else ""
        yield Text.assemble(
            "  " + "│ " * entry.depth,
            (f"{mark} {state.label}", "bold" if entry.is_current else ""),
            f" {_safe(state.how)}{parent}   {state.instructions:,} instructions",
        )


def _origin(result: Origin) -> Iterator[Text]:
    yield _text(result.line, "bold")
    if not result.is_live:
        yield _text("  not in the current state any more")
    if result.text_line or result.source:
        parts = [f"line {result.text_line} of the text"] if result.text_line else []
        parts += [f"from {result.source}"] if result.source else []
        yield _text("  s0: " + ", ".join(parts))
    for cause in result.causes:
        yield Text.assemble(f"  {cause.state}: {_safe(cause.text)}", (f"   ← {cause.by}", "dim"))
    if not result.causes:
        yield _text("  no pass has touched it")


def _stats(result: Stats) -> Iterator[Text]:
    yield _text(
        f"{result.state.label}: {plural(result.instructions, 'instruction')}, "
        f"{plural(result.computations, 'computation')}"
    )
    yield _text(
        f"  parameters {size_text(result.parameter_bytes)}, results "
        f"{size_text(result.result_bytes)}, constants {size_text(result.constant_bytes)}"
    )
    for name, count in result.opcodes[:_TOP_OPCODES]:
        yield _text(f"  {count:7,}  {name}")
    if len(result.opcodes) > _TOP_OPCODES:
        yield _text(f"  ... {len(result.opcodes) - _TOP_OPCODES} more opcodes")


def _run(result: RunResult) -> Iterator[Text]:
    shapes = result_leaves(result.state.module)
    for line in output_lines(result.outputs, shapes, None):
        yield _text(line)
    yield _text(f"run {result.state.label}: {duration(result.wall_ms / 1e3)}, {result.inputs}")
    if result.comparison is not None:
        verdict = ("OK", "green") if result.comparison.ok else ("FAILED", "bold red")
        yield Text.assemble(
            f"compare with {result.compared_with}: ",
            verdict,
            f"  {_safe(comparison_text(result.comparison))}",
        )


def _verified(result: Verified) -> Iterator[Text]:
    sign = "≡" if result.ok else "≢"
    head = f"{result.before.label} {sign} {result.after.label}"
    yield _text(
        f"{head} on {plural(len(result.comparisons), 'set')} of random inputs",
        "green" if result.ok else "bold red",
    )
    for comparison in result.comparisons:
        if not comparison.ok:
            yield _text(f"  {comparison_text(comparison)}")


def _help(result: Help) -> Iterator[Text]:
    if len(result.commands) == 1:
        (command,) = result.commands
        yield _text(command.usage, "bold")
        yield _text(f"  {command.summary}")
        return
    for command in result.commands:
        if len(command.usage) > 30:
            yield _text(f"  {command.usage}", "bold")
            yield _text(" " * 33 + command.summary)
        else:
            yield Text.assemble((f"  {command.usage:31s}", "bold"), command.summary)
    yield _text("  States are s0, s1 ..., prev (the one before) and $ (the current one).")


RENDERERS: dict[type[Any], Callable[[Any], Iterator[Text]]] = {
    Applied: _applied,
    Effects: _effects,
    Help: _help,
    Info: _info,
    Listing: _listing,
    Message: _message,
    ModuleText: _module_text,
    Moved: _moved,
    Origin: _origin,
    RunResult: _run,
    StateDiff: _state_diff,
    Stats: _stats,
    TextDiff: _text_diff,
    Verified: _verified,
}
