"""Grouped rows of a diff: runs of unchanged rows, and repeated changes shown once.

A change is a connected set of rows: what a rule removed, what it created, and the new users. Two
changes are alike if the same rules did the same to the same opcodes; those of equal shapes and
those of equal ranks only are grouped apart.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import TypeAlias

from hloc.analysis.diff.diff_rows import ComputationRows, DiffRow
from hloc.analysis.diff.module_diff import MOVED, REWIRED, SAME
from hloc.lazy_dataclass import dataclass

_SINGLE_ROWS = 4
"""Minimum number of changes of one row each that one line summarises."""

_SAME_ARROW = 4
"""Minimum number of users of one replaced instruction that one line summarises."""


@dataclass(frozen=True, slots=True)
class Unchanged:
    """A run of rows without a change."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Repeats:
    """Changes similar to one that is shown.

    Attributes:
        count: number of changes.
        labels: their names: the remaining instruction, and what it uses now.
        same_shapes: True if their shapes are equal too.
    """

    count: int
    labels: tuple[str, ...]
    same_shapes: bool


@dataclass(frozen=True, slots=True)
class Rewired:
    """Users of an instruction that now use another one, by name."""

    names: tuple[str, ...]
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class MovedAway:
    """Names of instructions that moved to another computation."""

    names: tuple[str, ...]
    into: str


Item: TypeAlias = DiffRow | Unchanged | Repeats | Rewired | MovedAway


def items_of(
    computation: ComputationRows, *, expand: bool = False, context: int = 0
) -> Iterator[Item]:
    """Yield the items to show for a computation, in order.

    Args:
        computation: its rows.
        expand: show every changed row.
        context: unchanged rows shown before and after each changed one.
    """
    hidden = {} if expand else _hidden(computation.rows)
    said: set[int] = set()
    run: list[DiffRow] = []
    is_first = True
    for row in computation.rows:
        if row.kind == SAME:
            run.append(row)
            continue
        item: Item = hidden.get(row.uid, row)
        if id(item) in said:
            continue
        yield from _run(run, 0 if is_first else context, context)
        run, is_first = [], False
        said.add(id(item))
        yield item
    yield from _run(run, 0 if is_first else context, 0)


def _run(rows: Sequence[DiffRow], first: int, last: int) -> Iterator[Item]:
    """Yield a run of unchanged rows: its `first` and `last` rows, and one item for the others."""
    end = max(first, len(rows) - last)
    yield from rows[:first]
    if rows[first:end]:
        yield Unchanged(tuple(row.name for row in rows[first:end]))
    yield from rows[end:]


def folded(
    computations: Sequence[ComputationRows], *, expand: bool = False
) -> list[tuple[ComputationRows, tuple[str, ...]]]:
    """Return the computations, each with the names of others with exactly the same changes.

    Args:
        computations: all that differ.
        expand: do not group them.
    """
    if expand:
        return [(computation, ()) for computation in computations]
    groups: dict[Hashable, list[ComputationRows]] = {}
    for computation in computations:
        changed = [row for row in computation.rows if row.kind != SAME]
        key = (computation.kind, computation.note, _form(changed)) if changed else computation
        groups.setdefault(key, []).append(computation)
    return [(first, tuple(c.name for c in others)) for first, *others in groups.values()]


def changes_of(rows: Sequence[DiffRow]) -> list[list[DiffRow]]:
    """Return the connected sets of changed rows, each in order, the first set first."""
    changed = [row for row in rows if row.kind != SAME]
    owner = {row.uid: row.uid for row in changed}
    for row in changed:
        for uid in row.links[1:]:
            if uid in owner:
                owner[_top(owner, uid)] = _top(owner, row.uid)
    found: dict[int, list[DiffRow]] = {}
    for row in changed:
        found.setdefault(_top(owner, row.uid), []).append(row)
    return list(found.values())


def _top(owner: dict[int, int], uid: int) -> int:
    """Return the representative of a set (union-find with path halving)."""
    while owner[uid] != uid:
        owner[uid] = owner[owner[uid]]
        uid = owner[uid]
    return uid


def _hidden(rows: Sequence[DiffRow]) -> dict[int, Item]:
    """Return, by uid, the row that represents a hidden one."""
    found: dict[int, Item] = dict(_moved_away(rows))
    found.update(_same_arrows([row for row in rows if row.uid not in found]))
    changes = [[row for row in change if row.uid not in found] for change in changes_of(rows)]
    by_form: dict[Hashable, list[list[DiffRow]]] = {}
    for change in changes:
        if change:
            by_form.setdefault(tuple((r.kind, r.by, r.loose) for r in change), []).append(change)
    for alike in by_form.values():
        first, *others = alike
        if not others or (len(first) == 1 and len(alike) < _SINGLE_ROWS):
            continue
        exact = _form(first)
        for same_shapes in (True, False):
            chosen = [other for other in others if (_form(other) == exact) is same_shapes]
            if chosen:
                labels = tuple(_label(change) for change in chosen)
                item = Repeats(len(chosen), labels, same_shapes)
                found.update((row.uid, item) for change in chosen for row in change)
    return found


def _form(change: Sequence[DiffRow]) -> Hashable:
    return tuple((row.kind, row.by, row.local) for row in change)


def _label(change: Sequence[DiffRow]) -> str:
    """Return `add.6 ← b.1`: the remaining instruction, and what it uses now."""
    left = [row for row in change if row.after] or change
    last = left[-1]
    return f"{last.name} ← {last.arrow[1]}" if last.arrow else last.name


def _moved_away(rows: Sequence[DiffRow]) -> Iterator[tuple[int, MovedAway]]:
    """Yield one item, by the uid of each, for all that moved to the same computation."""
    groups: dict[str, list[DiffRow]] = {}
    for row in rows:
        if row.kind == MOVED and row.into:
            groups.setdefault(row.into, []).append(row)
    for into, moved in groups.items():
        item = MovedAway(tuple(row.name for row in moved), into)
        yield from ((row.uid, item) for row in moved)


def _same_arrows(rows: Sequence[DiffRow]) -> Iterator[tuple[int, Rewired]]:
    """Yield one item for many rows that only replaced the same operand by the same other."""
    groups: dict[tuple[str, str], list[DiffRow]] = {}
    for row in rows:
        if row.kind == REWIRED and row.arrow:
            groups.setdefault(row.arrow, []).append(row)
    for (old, new), rewired in groups.items():
        if len(rewired) >= _SAME_ARROW:
            item = Rewired(tuple(row.name for row in rewired), old, new)
            yield from ((row.uid, item) for row in rewired)


def only_about(computation: ComputationRows, name: str) -> tuple[DiffRow, ...]:
    """Return the rows of the change that the instruction `name` is part of, () if it is in none."""
    for change in changes_of(computation.rows):
        if any(row.name == name for row in change):
            return tuple(change)
    return ()
