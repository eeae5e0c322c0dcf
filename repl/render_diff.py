"""Renders diffs: unified, side by side, or as counts.

Every row has its glyph, so colour is redundant; styles are names of `themes`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice

from rich.text import Text

from hloc.analysis.diff_groups import (
    Item,
    MovedAway,
    Repeats,
    Rewired,
    Unchanged,
    folded,
    items_of,
)
from hloc.analysis.diff_rows import EXPANDED, REORDERED, ComputationRows, DiffRow, Parts
from hloc.analysis.module_diff import (
    ADDED,
    CHANGED,
    MERGED,
    MOVED,
    REMOVED,
    RENAMED,
    REWIRED,
    SAME,
)
from hloc.errors import printable
from hloc.report.text import count_text, plural, size_text
from repl.state_diff import DiffJson, ShownDiff

STYLES = {
    SAME: "",
    ADDED: "diff.added",
    REMOVED: "diff.removed",
    CHANGED: "diff.changed",
    REWIRED: "diff.rewired",
    MERGED: "diff.merged",
    EXPANDED: "diff.merged",
    MOVED: "diff.moved",
    REORDERED: "diff.moved",
    RENAMED: "diff.changed",
}
_PART_STYLES = {"old": "diff.old", "new": "diff.new"}

_FEW_NAMES = 4
_LABELS = 4
_RULE_COLUMN = 64
_HEAD_COLUMN = 58


def render_diff(shown: ShownDiff, width: int = 100) -> Iterator[Text]:
    """Yield the lines of a diff; `width` matters side by side only."""
    if shown.table.is_empty:
        yield Text(f"{_states(shown)}: no difference")
        return
    if shown.mode == "stat":
        yield from _stat(shown)
        return
    lines = _side(shown, width) if shown.mode == "side" else _unified(shown)
    yield from islice(lines, shown.limit)
    if next(lines, None) is not None:
        rows = sum(shown.table.counts().values())
        yield Text(f"... more lines ({rows:,} changes in all); diff --all shows them", style="dim")


def render_json(result: DiffJson) -> Iterator[Text]:
    """Yield the JSON text."""
    yield Text("\n".join(map(printable, result.text.split("\n"))))


def change_lines(shown: ShownDiff, by: str, limit: int) -> Iterator[Text]:
    """Yield the changed rows alone, as a single step shows them; `by` is said above them."""
    rows = [row for c in shown.table.computations for row in c.rows if row.kind != SAME]
    for row in rows[:limit]:
        yield _row(replace(row, by="") if row.by == by else row, "", "    ")
    if len(rows) > limit:
        yield Text(f"    ... {len(rows) - limit} more; diff shows all", style="dim")


# ---------------------------------------------------------------- heads


def _states(shown: ShownDiff) -> str:
    return f"{shown.before.label} → {shown.after.label}"


def deltas(shown: ShownDiff) -> str:
    """Return `-9 instrs, 0 FLOP, -15.0 KiB`: what the change adds or saves."""
    old, new = shown.measures
    instructions = new.instructions - old.instructions
    sign = "+" if instructions > 0 else ""
    return ", ".join(
        (
            f"{sign}{instructions:,} instr{'' if abs(instructions) == 1 else 's'}",
            _signed(new.cost.flops - old.cost.flops, lambda n: count_text(n, "FLOP")),
            _signed(new.cost.bytes - old.cost.bytes, size_text),
        )
    )


def _signed(number: int, text_of: Callable[[int], str]) -> str:
    sign = "-" if number < 0 else "+" if number > 0 else ""
    return f"{sign}{text_of(abs(number))}"


def _title(computation: ComputationRows) -> str:
    mark = "" if computation.kind == SAME else f"{computation.kind} "
    return f"{mark}{'ENTRY ' if computation.is_entry else ''}{printable(computation.name)}"


def _heads(shown: ShownDiff) -> Iterator[tuple[ComputationRows, tuple[str, ...], Text]]:
    """Yield the computations with the names of equal ones and their head lines."""
    about = f"{_states(shown)}   {printable(shown.by)}   {deltas(shown)}".replace("    ", "   ")
    for number, (computation, others) in enumerate(
        folded(shown.table.computations, expand=shown.expand)
    ):
        title = _title(computation)
        head = Text()
        head.append(title, style=STYLES[computation.kind])
        head.stylize("bold")
        if computation.note:
            head.append(f"   {printable(computation.note)}", style="dim")
        if number == 0:
            head.append(" " * max(3, _HEAD_COLUMN - len(head.plain)))
            head.append(about, style="diff.head")
        yield computation, others, head


# ---------------------------------------------------------------- one under the other


def _unified(shown: ShownDiff) -> Iterator[Text]:
    for computation, others, head in _heads(shown):
        yield head
        if computation.kind != REMOVED or shown.expand:
            for item in items_of(computation, expand=shown.expand):
                yield item_line(item, shown.by)
        elif computation.rows and not computation.note:
            yield Text(f"    {plural(len(computation.rows), 'instruction')}", style="dim")
        yield from _same_computations(others)


def _same_computations(others: Sequence[str]) -> Iterator[Text]:
    if others:
        count = plural(len(others), "more computation")
        yield Text(f"  {MERGED} same in {count}: {_some(others)}", style="diff.merged")


def item_line(item: Item, by: str) -> Text:
    """Return the line of one row, or of what stands for several; `by` is the pass of the head."""
    if isinstance(item, DiffRow):
        return _row(item, by, "  ")
    if isinstance(item, Unchanged):
        return _unchanged(item)
    if isinstance(item, Repeats):
        how = "" if item.same_shapes else ", other shapes"
        text = f"  {MERGED} same change ×{item.count} more{how}:  {_some(item.labels, ' ,  ')}"
        line = Text(text, style="diff.merged")
        line.append("   (diff --expand)", style="dim")
        return line
    if isinstance(item, Rewired):
        text = (
            f"  {REWIRED} {plural(len(item.names), 'user')}: {printable(item.old)} → "
            f"{printable(item.new)}   ({_some(item.names)})"
        )
        return Text(text, style=STYLES[REWIRED])
    assert isinstance(item, MovedAway)
    count = f"{len(item.names)} to {printable(item.into)}"
    return Text(f"  {MOVED} {count}:  {_some(item.names)}", style=STYLES[MOVED])


def _some(names: Sequence[str], between: str = ", ") -> str:
    more = f"{between}... {len(names) - _LABELS} more" if len(names) > _LABELS + 1 else ""
    shown = names[: _LABELS if more else _LABELS + 1]
    return printable(between.join(shown)) + more


def _unchanged(run: Unchanged) -> Text:
    count = f"{len(run.names)} unchanged"
    if len(run.names) <= _FEW_NAMES:
        names = printable(", ".join(run.names))
        return Text(f"    {names}".ljust(_HEAD_COLUMN) + f"  ({count})", style="dim")
    return Text(f"    ⋮ {count}", style="dim")


def _row(row: DiffRow, by: str, indent: str) -> Text:
    line = Text(f"{indent}{row.kind} ", style=STYLES[row.kind])
    _append(line, row.parts)
    if row.note:
        line.append(f"   ({printable(row.note)})", style="dim")
    rule = _rule(row.by, by)
    if rule:
        line.append(" " * max(3, _RULE_COLUMN - len(line.plain)))
        line.append(f"← {printable(rule)}", style="diff.rule")
    return line


def _append(line: Text, parts: Parts) -> None:
    for text, mark in parts:
        line.append(printable(text), style=_PART_STYLES.get(mark, ""))


def _rule(by: str, head: str) -> str:
    """Return the rule alone if the head says the pass."""
    what, _, rule = by.partition("/")
    return rule if rule and "," not in head else "" if by == head else rule or what


# ---------------------------------------------------------------- side by side


def _side(shown: ShownDiff, width: int) -> Iterator[Text]:
    half = max(20, (width - 3) // 2)
    for number, (computation, others, head) in enumerate(_heads(shown)):
        if number == 0:
            name = _title(computation)
            left = f"{shown.before.label} {name}"
            right = f"{shown.after.label} {name}   {printable(shown.by)}  {deltas(shown)}"
            yield Text(f"{left[:half]:{half}s} │ {right}", style="bold")
            yield Text("─" * half + "─┼─" + "─" * half, style="dim")
        else:
            yield head
        for item in items_of(computation, expand=shown.expand):
            if isinstance(item, DiffRow):
                yield from _side_rows(item, half)
            else:
                yield item_line(item, shown.by)
        yield from _same_computations(others)


def _side_rows(row: DiffRow, half: int) -> Iterator[Text]:
    """Yield a row with the line before on the left and the line after on the right."""
    style = STYLES[row.kind]
    left = _wrapped(((row.before, ""),), half - 4) if row.before and row.kind != MOVED else []
    if row.kind == MOVED and not row.after:
        left = _wrapped(((row.before, ""),), half - 4)
    parts: Parts = row.parts if row.after else ()
    if row.kind == REWIRED:
        parts = _later(row.parts)
    if row.note and row.after:
        parts = (*parts, (f"  ({row.note})", ""))
    right = _wrapped(parts, half - 4) if parts else []
    if row.note and not row.after:
        right = _wrapped(((f"({row.note})", ""),), half - 4)
    for number in range(max(len(left), len(right), 1)):
        line = Text(style=style)
        for side, has_text in ((left, bool(row.before)), (right, bool(row.after))):
            glyph = row.kind if number == 0 and has_text and side else " "
            cell = Text(f"{glyph} ")
            if number < len(side):
                cell.append("    " if number else "")
                cell.append_text(side[number])
            if side is left:
                cell.append(" " * max(0, half - len(cell.plain)))
                cell.append(" │ ", style="dim")
            line.append_text(cell)
        line.rstrip()
        yield line


def _later(parts: Parts) -> Parts:
    """Return a rewired line as it is now, without what was there before."""
    found: list[tuple[str, str]] = []
    skip = False
    for text, mark in parts:
        if mark == "old":
            skip = True
        elif skip:
            skip = False  # the arrow
        else:
            found.append((text, mark))
    return tuple(found)


_WORD = re.compile(r"\S+\s*|\s+")


def _wrapped(parts: Parts, width: int) -> list[Text]:
    """Return the lines of a text, broken between words; a longer word is broken anywhere."""
    lines, line, room = [], Text(), width
    for text, mark in parts:
        for word in _WORD.findall(printable(text)):
            while word:
                if len(word.rstrip()) > room and line.plain:
                    lines.append(line)
                    line, room = Text(), width - 4
                piece = word if len(word.rstrip()) <= room else word[:room]
                line.append(piece, style=_PART_STYLES.get(mark, ""))
                room -= len(piece)
                word = word[len(piece) :]
    lines.append(line)
    return lines


# ---------------------------------------------------------------- counts


def _stat(shown: ShownDiff) -> Iterator[Text]:
    old, new = shown.measures
    yield Text(f"{_states(shown)}   {printable(shown.by)}   {shown.table.summary()}", style="bold")
    width = max(len(_title(c)) for c in shown.table.computations)
    for computation in shown.table.computations:
        counts = Counter(row.kind for row in computation.rows if row.kind != SAME)
        shown_counts = " ".join(f"{kind}{count}" for kind, count in counts.items())
        text = f"  {_title(computation):{width}s}  {shown_counts or computation.note}"
        yield Text(text, style=STYLES[computation.kind])
    rules = Counter(row.by for c in shown.table.computations for row in c.rows if row.by)
    for by, count in sorted(rules.items(), key=lambda item: (-item[1], item[0])):
        yield Text(f"  {plural(count, 'row')} by {printable(by)}", style="dim")
    for name, before, after in (
        ("instructions", f"{old.instructions:,}", f"{new.instructions:,}"),
        ("arithmetic", count_text(old.cost.flops, "FLOP"), count_text(new.cost.flops, "FLOP")),
        ("memory traffic", size_text(old.cost.bytes), size_text(new.cost.bytes)),
    ):
        yield Text(f"  {name:14s} {before} → {after}" + ("  (same)" if before == after else ""))
