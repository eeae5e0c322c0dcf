"""What changed between two states of a module, by instruction identity instead of by text line.

Instructions keep their uid through every pass and clone, so nothing is guessed; the change log says
which rule did it. A line diff would show every user of a renamed operand as changed. Modules that
share no history get common uids in `file_diff`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from hloc.analysis.diff.module_lines import (
    ComputationLines,
    Line,
    Snapshot,
)
from hloc.ir.computation import Computation
from hloc.ir.events import Created, Event, Modified, OperandReplaced, Removed, Replaced
from hloc.lazy_dataclass import dataclass

SAME, CHANGED, REWIRED, ADDED, REMOVED, MERGED = " ", "~", "⇄", "+", "-", "≡"
MOVED, RENAMED, LAYOUT = "»", "@", "□"
"""Kinds of rows, by glyph. REWIRED: only operands changed; LAYOUT: only the layout of the result;
MERGED: an equal one replaced it; MOVED: was in another computation; RENAMED: only the name
changed, shown when asked for."""

KIND_NAMES = {
    ADDED: "added",
    REMOVED: "removed",
    CHANGED: "changed",
    REWIRED: "rewired",
    LAYOUT: "layout",
    MERGED: "merged",
    MOVED: "moved",
    RENAMED: "renamed",
    SAME: "same",
}


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a diff: glyph of its kind, text, and the pass and rule that did it.

    `name` is that of the instruction, `was` the old text, if the row shows it.
    """

    kind: str
    uid: int
    text: str
    by: str = ""
    name: str = ""
    was: str = ""


@dataclass(frozen=True, slots=True)
class ComputationDiff:
    """The rows of one computation; `kind` is SAME, ADDED, REMOVED or RENAMED for itself."""

    kind: str
    name: str
    is_entry: bool
    rows: tuple[Row, ...]

    @property
    def is_empty(self) -> bool:
        return self.kind == SAME and all(row.kind == SAME for row in self.rows)


@dataclass(frozen=True, slots=True)
class ModuleDiff:
    """The differing computations, in the order of the later module, removed ones last.

    `header` has a row for each difference outside of the computations.
    """

    computations: tuple[ComputationDiff, ...]
    header: tuple[Row, ...] = ()

    @property
    def is_empty(self) -> bool:
        return not self.computations and not self.header

    def count(self, *kinds: str) -> int:
        """Return how many rows are of one of `kinds`."""
        return sum(row.kind in kinds for c in self.computations for row in c.rows)

    def summary(self) -> str:
        """Return `+3 -5 ~1 ⇄2 ≡1`, without the kinds that do not occur."""
        counts = [(kind, self.count(kind)) for kind in KIND_NAMES if kind != SAME]
        return " ".join(f"{kind}{count}" for kind, count in counts if count) or "no change"


@dataclass(frozen=True, slots=True)
class _Causes:
    """The rewrite that created, removed or changed each instruction, by uid, and its replacement.

    `idle` are the instructions without users afterwards; `homes` are the names of the
    computations before, `kept` the uids after, `names` whether renaming is a change.
    """

    made: dict[int, str]
    removed: dict[int, str]
    changed: dict[int, str]
    replaced: dict[int, tuple[int, str]]
    idle: set[int]
    homes: dict[int, str]
    kept: set[int]
    names: bool


def _causes(
    events: Iterable[Event], idle: set[int], homes: dict[int, str], kept: set[int], names: bool
) -> _Causes:
    found = _Causes({}, {}, {}, {}, idle, homes, kept, names)
    for event in events:
        if isinstance(event, Created):
            found.made[event.inst.uid] = event.by
        elif isinstance(event, Removed):
            found.removed[event.inst.uid] = event.by
        elif isinstance(event, Replaced):
            found.replaced[event.old.uid] = (event.new.uid, event.by)
        elif isinstance(event, OperandReplaced):
            found.changed[event.user.uid] = event.by
        elif isinstance(event, Modified) and not isinstance(event.target, Computation):
            found.changed[event.target.uid] = event.by
    return found


def diff_snapshots(
    before: Snapshot, after: Snapshot, events: Iterable[Event] = (), *, names: bool = False
) -> ModuleDiff:
    """Return the changes from `before` to `after`.

    Args:
        before: one state.
        after: another; equal uids mean the same instruction or computation.
        events: the change log from before to after, which names the pass and rule.
        names: also show instructions whose name only changed.
    """
    old = {c.uid: c for c in before}
    new = {c.uid for c in after}
    homes = {line.uid: c.name for c in before for line in c.lines}
    kept = {line.uid for c in after for line in c.lines}
    used = {uid for c in after for line in c.lines for uid, _ in line.operands}
    idle = {line.uid for c in after for line in c.lines if not line.is_root} - used
    causes = _causes(events, idle, homes, kept, names)
    diffs = [_diff_computation(old.get(c.uid), c, causes) for c in after]
    diffs += [_diff_computation(c, None, causes) for c in before if c.uid not in new]
    return ModuleDiff(tuple(d for d in diffs if not d.is_empty))


def _diff_computation(
    before: ComputationLines | None, after: ComputationLines | None, causes: _Causes
) -> ComputationDiff:
    old = before.lines if before else ()
    new = after.lines if after else ()
    kind = ADDED if before is None else REMOVED if after is None else SAME
    if before and after and causes.names and before.name != after.name:
        kind = RENAMED
    shown = after or before
    assert shown is not None
    return ComputationDiff(kind, shown.name, shown.is_entry, tuple(_rows(old, new, causes)))


def _rows(old: Sequence[Line], new: Sequence[Line], causes: _Causes) -> Iterator[Row]:
    """Yield the rows in the order of `new`; removed lines keep their place."""
    by_uid = {line.uid: line for line in old}
    surviving = {line.uid for line in new}
    gone_before = _gone_before(old, surviving)
    for line in new:
        for gone in gone_before.get(line.uid, ()):
            if gone.uid not in causes.kept:
                yield _removed_row(gone, causes)
        yield _row(by_uid.get(line.uid), line, causes)
    for gone in gone_before.get(None, ()):
        if gone.uid not in causes.kept:
            yield _removed_row(gone, causes)


def _gone_before(old: Sequence[Line], surviving: set[int]) -> dict[int | None, list[Line]]:
    """Return the removed lines by the surviving line that followed them, None for the end."""
    found: dict[int | None, list[Line]] = {}
    waiting: list[Line] = []
    for line in old:
        if line.uid not in surviving:
            waiting.append(line)
        elif waiting:
            found[line.uid] = waiting
            waiting = []
    found[None] = waiting
    return found


def _removed_row(line: Line, causes: _Causes) -> Row:
    replaced = causes.replaced.get(line.uid)
    if replaced is None:
        by = causes.removed.get(line.uid, "")
        return Row(REMOVED, line.uid, line.text(), by, line.name)
    new_uid, by = replaced
    merged = by.partition("/")[0] == "cse" and new_uid in causes.homes
    return Row(MERGED if merged else REMOVED, line.uid, line.text(), by, line.name)


def _row(old: Line | None, new: Line, causes: _Causes) -> Row:
    """Return what happened to one line: the first kind that applies, most telling first.

    `old` is None if the computation did not have it; it may have moved from another one.
    """
    uid, name = new.uid, new.name
    if old is None and uid in causes.homes:
        was = f"in {causes.homes[uid]}"
        return Row(MOVED, uid, f"{new.text()}   (was {was})", "", name, was)
    if old is None:
        return Row(ADDED, uid, new.text(), causes.made.get(uid, ""), name)
    if uid in causes.replaced and uid in causes.idle:
        by = causes.replaced[uid][1]
        return Row(MERGED, uid, f"{new.text()}   (no users left)", by, name)
    by = causes.changed.get(uid, "")
    if (old.head, old.tail, old.is_root, len(old.operands)) != (
        new.head,
        new.tail,
        new.is_root,
        len(new.operands),
    ):
        if _differs_in_layout(old, new):
            was = ", ".join(_LAYOUT.findall(old.head)) or "row-major"
            return Row(LAYOUT, uid, f"{new.text()}   (was {was})", by, name, was)
        was = _was(old, new)
        return Row(CHANGED, uid, f"{new.text()}   (was {was})", by, name, was)
    if [operand for operand, _ in old.operands] != [operand for operand, _ in new.operands]:
        was = ", ".join(operand_name for _, operand_name in old.operands)
        return Row(REWIRED, uid, new.text(_arrows(old, new)), by, name, f"({was})")
    if causes.names and old.name != name:
        return Row(RENAMED, uid, f"{new.text()}   (was {old.name})", by, name, old.name)
    return Row(SAME, uid, new.text(), "", name)


_LAYOUT = re.compile(r"(?<=\])\{[^{}]*\}")


def _differs_in_layout(old: Line, new: Line) -> bool:
    """Return whether only the layout of the result is different."""
    read = [[uid for uid, _ in line.operands] for line in (old, new)]
    same = read[0] == read[1] and (old.tail, old.is_root) == (new.tail, new.is_root)
    return same and _LAYOUT.sub("", old.head) == _LAYOUT.sub("", new.head)


def _was(old: Line, new: Line) -> str:
    """Return the parts of `old` that are different, and only those."""
    parts = [old.head] if old.head != new.head else []
    if old.tail != new.tail:
        kept = set(_parts(new.tail))
        gone = [part for part in _parts(old.tail) if part not in kept]
        parts += gone or ["without " + ", ".join(_new_keys(old.tail, new.tail))]
    if old.is_root != new.is_root:
        parts.append("root" if old.is_root else "not root")
    if len(old.operands) != len(new.operands):
        count = len(old.operands)
        parts.append(f"{count} operand{'' if count == 1 else 's'}")
    return ", ".join(parts)


_PART = re.compile(r", (?=[\w\-]+=)")


def _parts(tail: str) -> list[str]:
    """Return the attributes of `), dimensions={0}, to_apply=add`; a literal counts as one."""
    parts = _PART.split(tail.removeprefix(")"))
    return [part[:-1] if part.count(")") > part.count("(") else part for part in parts if part]


def _new_keys(old: str, new: str) -> list[str]:
    known = {part.partition("=")[0] for part in _parts(old)}
    keys = [part.partition("=")[0] for part in _parts(new)]
    return [key for key in keys if key not in known] or ["attributes"]


def _arrows(old: Line, new: Line) -> Iterator[str]:
    """Yield `x` for an unchanged operand and `x → y` for a replaced one."""
    for (old_uid, old_name), (new_uid, new_name) in zip(old.operands, new.operands, strict=True):
        yield new_name if old_uid == new_uid else f"{old_name} → {new_name}"
