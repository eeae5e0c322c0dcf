"""A diff of two states of one module, row by row, with the meaning of each change.

`module_diff` finds what changed; this adds the interpretation: one instruction expanded into
several, copies that are moves into or out of a computation, several merged into one survivor, pure
changes of the schedule, and the tokens of a line that differ.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import replace
from difflib import SequenceMatcher
from typing import TypeAlias

from hloc.analysis.diff.diff_facts import Facts, facts_of, reordered
from hloc.analysis.diff.module_diff import (
    ADDED,
    CHANGED,
    KIND_NAMES,
    LAYOUT,
    MERGED,
    MOVED,
    REMOVED,
    REWIRED,
    SAME,
    ComputationDiff,
    Row,
    diff_snapshots,
)
from hloc.analysis.diff.module_lines import Line, Snapshot, snapshot
from hloc.ir.events import Event
from hloc.ir.module import Module
from hloc.ir.notebook import NotebookView
from hloc.lazy_dataclass import dataclass

EXPANDED, REORDERED = "*", "↕"
"""More kinds of rows: one instruction became several; only the place in the schedule changed."""

KIND_WORDS = {**KIND_NAMES, EXPANDED: "expanded", REORDERED: "reordered"}

Parts: TypeAlias = tuple[tuple[str, str], ...]
"""Pieces of a line with their kinds: "" for unchanged text, `old` or `new` for a token."""

_MANY_TOKENS = 300
_TOKEN = re.compile(r"[\w.\-%]+|\s+|.")


@dataclass(frozen=True, slots=True)
class DiffRow:
    """One instruction in a diff.

    Attributes:
        kind: its glyph.
        before: the old line, "" if there was none.
        after: the new line, "" if there is none.
        parts: the line to show, with the changed tokens marked.
        by: the pass and rule that did it, `pass/rule`.
        note: a short explanation: `3 → 1`, `from relu.1`.
        links: uids of the instructions that this change is about, itself first.
        local: opcode, shape and attributes without names, to find changes of the same form.
        arrow: for a rewired row, names of one replaced operand and of what replaced it.
        into: the computation that it moved to, if it did.
    """

    kind: str
    uid: int
    name: str
    before: str
    after: str
    parts: Parts
    by: str = ""
    note: str = ""
    links: tuple[int, ...] = ()
    local: Hashable = None
    loose: Hashable = None
    arrow: tuple[str, str] | None = None
    into: str = ""

    @property
    def text(self) -> str:
        """The line to show."""
        return "".join(text for text, _ in self.parts)


@dataclass(frozen=True, slots=True)
class ComputationRows:
    """The rows of one computation, unchanged ones too; `note` says what happened to it."""

    kind: str
    name: str
    is_entry: bool
    rows: tuple[DiffRow, ...]
    note: str = ""


@dataclass(frozen=True, slots=True)
class DiffTable(NotebookView):
    """The computations that differ, in the order of the later module, removed ones last.

    `header` has a row for each difference outside of the computations.
    """

    computations: tuple[ComputationRows, ...]
    header: tuple[Row, ...] = ()

    @property
    def is_empty(self) -> bool:
        return not self.computations and not self.header

    def counts(self) -> dict[str, int]:
        """Return how many rows are of each kind, in the order of KIND_WORDS, SAME left out.

        A moved instruction counts once, in its new place.
        """
        found = Counter(row.kind for c in self.computations for row in c.rows if not row.into)
        return {kind: found[kind] for kind in KIND_WORDS if kind != SAME and found[kind]}

    def summary(self) -> str:
        """Return `+3 -5 ~1 ⇄2 ≡1`, without the kinds that do not occur."""
        return " ".join(f"{kind}{count}" for kind, count in self.counts().items()) or "no change"


@dataclass(frozen=True, slots=True)
class RowOptions:
    """What to show beside changes of content: new names, and places in the schedule."""

    names: bool = False
    order: bool = False


CONTENT = RowOptions()
"""Neither."""


def diff_table(
    old: Module, new: Module, events: Iterable[Event] = (), options: RowOptions = CONTENT
) -> DiffTable:
    """Return what is different in `new`.

    Args:
        old: one state of a module.
        new: another state: equal uids mean the same instruction.
        events: the change log from `old` to `new`, () if it is not known.
        options: what to show.
    """
    return table_of(snapshot(old), snapshot(new), tuple(events), options)


def table_of(
    before: Snapshot,
    after: Snapshot,
    events: Sequence[Event] = (),
    options: RowOptions = CONTENT,
    header: Sequence[Row] = (),
) -> DiffTable:
    """Return `diff_table`, given the snapshots of both modules.

    Args:
        before: one state.
        after: another; equal uids mean the same instruction or computation.
        events: the change log from before to after, () if it is not known.
        options: what to show.
        header: differences outside of the computations.
    """
    found = diff_snapshots(before, after, events, names=options.names)
    facts = facts_of(before, after, events, found.computations)
    moved_places = reordered(before, after) if options.order else frozenset()
    computations = [_computation(c, facts, moved_places) for c in found.computations]
    shown = {c.uid for c in before if c.name in {d.name for d in found.computations}}
    for c in before:
        if c.uid in facts.unused and c.uid not in shown:
            count = f"{len(c.lines)} instruction{'' if len(c.lines) == 1 else 's'}"
            computations.append(
                ComputationRows(REMOVED, c.name, False, (), f"{count}, no callers left")
            )
    if options.order:
        known = {c.name for c in computations}
        computations += _only_reordered(after, moved_places, known, facts)
    return DiffTable(tuple(computations), tuple(header))


# ---------------------------------------------------------------- rows


def _computation(
    found: ComputationDiff, facts: Facts, moved_places: frozenset[int]
) -> ComputationRows:
    rows = tuple(_row(row, facts, moved_places) for row in found.rows)
    note = ""
    if found.kind == REMOVED:
        homes = list(dict.fromkeys(row.into for row in rows if row.into))
        note = f"moved to {', '.join(homes)}" if homes else ""
    return ComputationRows(found.kind, found.name, found.is_entry, rows, note)


def _row(row: Row, facts: Facts, moved_places: frozenset[int]) -> DiffRow:
    """Return `row` with both texts and, if it is a change, with what it means."""
    old, new = facts.old.get(row.uid), facts.new.get(row.uid)
    if row.kind == SAME:
        assert new is not None
        return _same_row(row, new, moved_places, facts)
    line = old if row.kind == REMOVED or new is None else new
    assert line is not None
    local, loose = _forms(line, facts.names)
    base = DiffRow(
        row.kind,
        row.uid,
        row.name,
        old.text() if old else "",
        new.text() if new else "",
        ((line.text(), ""),),
        row.by,
        "",
        (row.uid, *_linked(row.kind, old, new, facts)),
        local,
        loose,
    )
    return _explained(base, row, old, new, facts)


def _explained(
    base: DiffRow, row: Row, old: Line | None, new: Line | None, facts: Facts
) -> DiffRow:
    """Return the row with its kind, note and marked tokens."""
    if row.kind == ADDED and row.uid in facts.sources:
        source, home = facts.sources[row.uid]
        is_first = facts.moved[source] == facts.homes[row.uid]
        note = f"from {home}" if is_first else f"copied from {home}"
        return replace(base, kind=MOVED, before=facts.old[source].text(), note=note)
    if row.kind == MOVED:
        return replace(base, note=row.was.replace("in ", "from ", 1))
    if row.kind in (REMOVED, MERGED) and row.uid in facts.merged:
        survivor = facts.merged[row.uid]
        name = (facts.new.get(survivor) or facts.old[survivor]).name
        left = ", no users left" if new else ""
        return replace(base, kind=MERGED, note=f"same as {name}{left}")
    if row.kind == MERGED:
        return replace(base, note="no users left" if new else "")
    if row.kind == REMOVED and row.uid in facts.moved:
        into = facts.moved[row.uid]
        return replace(base, kind=MOVED, note=f"to {into}", into=into)
    if row.kind == REMOVED and row.uid in facts.expanded:
        names = facts.expanded[row.uid]
        shown = ", ".join(names[:4]) + (", ..." if len(names) > 4 else "")
        return replace(base, kind=EXPANDED, note=f"1 → {len(names)}: {shown}")
    if row.kind == REWIRED and old and new:
        return replace(base, parts=tuple(_arrow_parts(old, new)), arrow=_arrow(old, new))
    if row.kind in (CHANGED, LAYOUT) and old and new:
        return replace(base, parts=_token_parts(old.text(), new.text()), note=f"was {row.was}")
    return replace(base, note=f"was {row.was}" if row.was else "")


def _same_row(row: Row, line: Line, moved_places: frozenset[int], facts: Facts) -> DiffRow:
    text, kind, note = line.text(), SAME, ""
    if row.uid in facts.counts:
        kind, note = MERGED, f"{facts.counts[row.uid]} → 1"
    elif row.uid in moved_places:
        kind = REORDERED
    if kind == SAME:
        return DiffRow(SAME, row.uid, row.name, text, text, ((text, ""),))
    local, loose = _forms(line, facts.names)
    links = (row.uid,)
    return DiffRow(
        kind, row.uid, row.name, text, text, ((text, ""),), "", note, links, local, loose
    )


def _linked(kind: str, old: Line | None, new: Line | None, facts: Facts) -> Iterator[int]:
    """Yield the other instructions of a change: the operands that a line lost or gained."""
    was = [uid for uid, _ in old.operands] if old else []
    now = [uid for uid, _ in new.operands] if new else []
    if old and new and kind != MOVED:
        kept = set(was) & set(now)
        yield from (uid for uid in (*was, *now) if uid not in kept)
    else:
        yield from (*was, *now)
    if old and old.uid in facts.merged:
        yield facts.merged[old.uid]


_CALLED = re.compile(r"(?<==)\{?[\w.\-]+(?:, [\w.\-]+)*\}?")
_LIST = re.compile(r"[\w.\-]+")


def _forms(line: Line, computations: frozenset[str]) -> tuple[Hashable, Hashable]:
    """Return a line without names, and its form of opcode, element type and rank only."""
    opcode = line.opcode
    tail = "" if opcode == "parameter" else line.tail
    if "=" in tail:
        tail = _CALLED.sub(
            lambda value: _LIST.sub(
                lambda name: "@" if name.group() in computations else name.group(), value.group()
            ),
            tail,
        )
    shape = line.head.rpartition(" ")[0]
    return (line.head, tail, len(line.operands)), (opcode, re.sub(r"\d+(?=[,\]])", "", shape))


def _arrow_parts(old: Line, new: Line) -> Iterator[tuple[str, str]]:
    yield new.text(()).removesuffix(new.tail), ""
    for number, ((was, was_name), (now, name)) in enumerate(
        zip(old.operands, new.operands, strict=True)
    ):
        if number:
            yield ", ", ""
        if was != now:
            yield was_name, "old"
            yield " → ", ""
        yield name, "new" if was != now else ""
    yield new.tail, ""


def _arrow(old: Line, new: Line) -> tuple[str, str] | None:
    pairs = {
        (was, now) for (a, was), (b, now) in zip(old.operands, new.operands, strict=True) if a != b
    }
    return pairs.pop() if len(pairs) == 1 else None


def _token_parts(old: str, new: str) -> Parts:
    """Return `new` with the tokens marked that differ from `old`."""
    was, now = _TOKEN.findall(old), _TOKEN.findall(new)
    if len(was) > _MANY_TOKENS or len(now) > _MANY_TOKENS:
        return ((new, "new"),)
    found: list[tuple[str, str]] = []
    for what, _, _, first, stop in SequenceMatcher(None, was, now, autojunk=False).get_opcodes():
        if stop > first:
            found.append(("".join(now[first:stop]), "" if what == "equal" else "new"))
    return tuple(found)


def _only_reordered(
    after: Snapshot, moved_places: frozenset[int], known: set[str], facts: Facts
) -> Iterator[ComputationRows]:
    for c in after:
        if c.name not in known and any(line.uid in moved_places for line in c.lines):
            rows = tuple(
                _same_row(Row(SAME, i.uid, "", "", i.name), i, moved_places, facts) for i in c.lines
            )
            yield ComputationRows(SAME, c.name, c.is_entry, rows)
