"""The lines of a diff: one under the other, or side by side.

A line is pieces of text with the name of a style, which front ends turn into colours. Every row has
its glyph, so colour is redundant.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TypeAlias

from hloc.analysis.diff.diff_groups import (
    Item,
    MovedAway,
    Repeats,
    Rewired,
    Unchanged,
    folded,
    items_of,
)
from hloc.analysis.diff.diff_rows import (
    EXPANDED,
    REORDERED,
    ComputationRows,
    DiffRow,
    DiffTable,
    Parts,
)
from hloc.analysis.diff.module_diff import (
    ADDED,
    CHANGED,
    LAYOUT,
    MERGED,
    MOVED,
    REMOVED,
    RENAMED,
    REWIRED,
    SAME,
)
from hloc.errors import printable
from hloc.lazy_dataclass import dataclass
from hloc.report.text import plural

SpanLine: TypeAlias = tuple[tuple[str, str], ...]
"""Pieces of one line, each with the names of its styles, a blank between them."""

STYLES = {
    SAME: "",
    ADDED: "diff.added",
    REMOVED: "diff.removed",
    CHANGED: "diff.changed",
    REWIRED: "diff.rewired",
    LAYOUT: "diff.changed",
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


@dataclass(frozen=True, slots=True)
class DiffView:
    """A diff and how to show it.

    Attributes:
        by: the passes that made it; rows do not repeat it.
        about: text at the right of the first heading: states, passes, costs, with three blanks
            between them; above it if the line would be too long.
        width: columns of the terminal.
        expand: show every changed row, also those that others represent.
        context: unchanged rows shown before and after changed ones.
    """

    table: DiffTable
    by: str = ""
    about: str = ""
    expand: bool = False
    context: int = 0
    width: int = 100


def plain(line: SpanLine) -> str:
    """Return the text of a line."""
    return "".join(text for text, _ in line)


def title_of(computation: ComputationRows) -> str:
    """Return `+ fused_computation`, `ENTRY main`."""
    mark = "" if computation.kind == SAME else f"{computation.kind} "
    return f"{mark}{'ENTRY ' if computation.is_entry else ''}{printable(computation.name)}"


def _heads(view: DiffView) -> Iterator[tuple[ComputationRows, tuple[str, ...], SpanLine]]:
    """Yield the computations with the names of equal ones and their headings."""
    found = folded(view.table.computations, expand=view.expand)
    for number, (computation, others) in enumerate(found):
        head = [(title_of(computation), f"{STYLES[computation.kind]} bold".strip())]
        if computation.note:
            head.append((f"   {printable(computation.note)}", "dim"))
        if number == 0 and view.about and not _is_above(view):
            head.append((_blanks_before_about(plain(tuple(head))), ""))
            head.append((printable(view.about), "diff.head"))
        yield computation, others, tuple(head)


def _blanks_before_about(head: str) -> str:
    return " " * max(3, _HEAD_COLUMN - len(head))


def _is_above(view: DiffView) -> bool:
    """Return whether `about` is too long for the first heading."""
    if not view.about or not view.table.computations:
        return False
    first = view.table.computations[0]
    head = title_of(first) + (f"   {printable(first.note)}" if first.note else "")
    return len(head + _blanks_before_about(head) + printable(view.about)) > view.width


def _about_lines(view: DiffView) -> Iterator[SpanLine]:
    """Yield `about`, broken between its parts."""
    line = ""
    for part in printable(view.about).split("   "):
        if line and len(line) + 3 + len(part) > view.width:
            yield ((line, "diff.head"),)
            line = part
        else:
            line = f"{line}   {part}" if line else part
    if line:
        yield ((line, "diff.head"),)


# ---------------------------------------------------------------- one under the other


def unified_lines(view: DiffView) -> Iterator[SpanLine]:
    """Yield the lines of a diff, the old line below the new one."""
    if _is_above(view):
        yield from _about_lines(view)
    for row in view.table.header:
        yield ((f"{row.kind} {printable(row.text)}", STYLES[row.kind]),)
    for computation, others, head in _heads(view):
        yield head
        if computation.kind != REMOVED or view.expand:
            for item in items_of(computation, expand=view.expand, context=view.context):
                yield item_line(item, view.by)
        elif computation.rows and not computation.note:
            yield ((f"    {plural(len(computation.rows), 'instruction')}", "dim"),)
        yield from _same_computations(others)


def row_lines(table: DiffTable, by: str) -> Iterator[SpanLine]:
    """Yield the changed rows only; the caller prints `by` above them."""
    for computation in table.computations:
        for row in computation.rows:
            if row.kind != SAME:
                yield _row(replace(row, by="") if row.by == by else row, "", "    ")


def _same_computations(others: Sequence[str]) -> Iterator[SpanLine]:
    if others:
        count = plural(len(others), "more computation")
        yield ((f"  {MERGED} same in {count}: {_some(others)}", "diff.merged"),)


def item_line(item: Item, by: str) -> SpanLine:
    """Return the line of one row, or of the item for several; `by` is the pass in the heading."""
    if isinstance(item, DiffRow):
        return _row(item, by, "  ")
    if isinstance(item, Unchanged):
        return _unchanged(item)
    if isinstance(item, Repeats):
        how = "" if item.same_shapes else ", other shapes"
        text = f"  {MERGED} same change ×{item.count} more{how}:  {_some(item.labels, ' ,  ')}"
        return (text, "diff.merged"), ("   (diff --expand)", "dim")
    if isinstance(item, Rewired):
        text = (
            f"  {REWIRED} {plural(len(item.names), 'user')}: {printable(item.old)} → "
            f"{printable(item.new)}   ({_some(item.names)})"
        )
        return ((text, STYLES[REWIRED]),)
    assert isinstance(item, MovedAway)
    count = f"{len(item.names)} to {printable(item.into)}"
    return ((f"  {MOVED} {count}:  {_some(item.names)}", STYLES[MOVED]),)


def _some(names: Sequence[str], between: str = ", ") -> str:
    more = f"{between}... {len(names) - _LABELS} more" if len(names) > _LABELS + 1 else ""
    shown = names[: _LABELS if more else _LABELS + 1]
    return printable(between.join(shown)) + more


def _unchanged(run: Unchanged) -> SpanLine:
    count = f"{len(run.names)} unchanged"
    if len(run.names) <= _FEW_NAMES:
        names = printable(", ".join(run.names))
        return ((f"    {names}".ljust(_HEAD_COLUMN) + f"  ({count})", "dim"),)
    return ((f"    ⋮ {count}", "dim"),)


def _row(row: DiffRow, by: str, indent: str) -> SpanLine:
    style = STYLES[row.kind]
    line = [(f"{indent}{row.kind} ", style)]
    line += [(printable(text), _part_style(style, mark)) for text, mark in row.parts]
    if row.note:
        line.append((f"   ({printable(row.note)})", "dim"))
    rule = _rule(row.by, by)
    if rule:
        line.append((" " * max(3, _RULE_COLUMN - len(plain(tuple(line)))), ""))
        line.append((f"← {printable(rule)}", "diff.rule"))
    return tuple(line)


def _part_style(style: str, mark: str) -> str:
    return f"{style} {_PART_STYLES.get(mark, '')}".strip()


def _rule(by: str, head: str) -> str:
    """Return the rule only if the heading has the pass."""
    what, _, rule = by.partition("/")
    return rule if rule and "," not in head else "" if by == head else rule or what


# ---------------------------------------------------------------- side by side


def side_lines(view: DiffView, width: int, before: str = "", after: str = "") -> Iterator[SpanLine]:
    """Yield the lines of a diff in two columns, the old module on the left.

    Args:
        view: the diff.
        width: columns of the terminal.
        before: title of the left column.
        after: title of the right column.
    """
    half = max(20, (width - 3) // 2)
    for row in view.table.header:
        yield ((f"{row.kind} {printable(row.text)}", STYLES[row.kind]),)
    for number, (computation, others, head) in enumerate(_heads(replace(view, about=""))):
        if number == 0 and (before or after):
            name = title_of(computation)
            left, right = f"{before} {name}", f"{after} {name}"
            if len(right) + 3 + len(view.about) <= half:
                right = f"{right}   {view.about}"
            else:
                yield from _about_lines(replace(view, width=width))
            yield ((f"{left[:half]:{half}s} │ {right}", "bold"),)
            yield (("─" * half + "─┼─" + "─" * half, "dim"),)
        else:
            yield head
        for item in items_of(computation, expand=view.expand, context=view.context):
            if isinstance(item, DiffRow):
                yield from _side_rows(item, half, view.by)
            else:
                yield item_line(item, view.by)
        yield from _same_computations(others)


def _side_rows(row: DiffRow, half: int, by: str) -> Iterator[SpanLine]:
    """Yield a row with the line before on the left and the line after on the right."""
    style = STYLES[row.kind]
    was_here = row.before and (row.kind != MOVED or not row.after)
    left = _wrapped(((row.before, ""),), half - 4) if was_here else []
    parts: Parts = row.parts if row.after else ()
    if row.kind == REWIRED:
        parts = _later(row.parts)
    notes = [f"({row.note})"] if row.note else []
    rule = _rule(row.by, by)
    notes += [f"← {rule}"] if rule else []
    if notes:
        parts = (*parts, ("  " * bool(parts) + " ".join(notes), ""))
    right = _wrapped(parts, half - 4) if parts else []
    for number in range(max(len(left), len(right), 1)):
        line: list[tuple[str, str]] = []
        for side, has_text in ((left, bool(row.before)), (right, bool(row.after))):
            glyph = row.kind if number == 0 and has_text and side else " "
            cell = [(f"{glyph} {'    ' if number else ''}", style)]
            if number < len(side):
                cell += [(text, _part_style(style, mark)) for text, mark in side[number]]
            if side is left:
                cell.append((" " * max(0, half - len(plain(tuple(cell)))), ""))
                cell.append((" │ ", "dim"))
            line += cell
        yield _stripped(line)


def _stripped(line: list[tuple[str, str]]) -> SpanLine:
    """Return a line without trailing blanks."""
    while line and not line[-1][0].strip():
        line.pop()
    return (*line[:-1], (line[-1][0].rstrip(), line[-1][1])) if line else ()


def _later(parts: Parts) -> Parts:
    """Return a rewired line in its new form, without the old operands."""
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


def _wrapped(parts: Parts, width: int) -> list[Parts]:
    """Return the lines of a wrapped text, broken between words; too long words break anywhere."""
    lines: list[Parts] = []
    line: list[tuple[str, str]] = []
    room = width
    for text, mark in parts:
        for word in _WORD.findall(printable(text)):
            while word:
                if len(word.rstrip()) > room and line:
                    lines.append(tuple(line))
                    line, room = [], width - 4
                piece = word if len(word.rstrip()) <= room else word[:room]
                line.append((piece, mark))
                room -= len(piece)
                word = word[len(piece) :]
    return [*lines, tuple(line)]
