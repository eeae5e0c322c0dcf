"""Facts about instructions, from a change log and two snapshots, for the rows of a diff.

The facts: which survivor replaced which instructions, what each instruction was expanded into,
which new instruction is a copy of one removed from another computation, and which only moved in the
schedule.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence

from hloc.analysis.diff.module_diff import ADDED, ComputationDiff
from hloc.analysis.diff.module_lines import Line, Snapshot
from hloc.ir.events import Created, Event, Replaced
from hloc.ir.instruction import Instruction
from hloc.lazy_dataclass import dataclass

_STEM = re.compile(r"(?:\.\d+|\.clone)*$")


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts about instructions, by uid.

    Attributes:
        old, new: the lines of both states.
        homes: the computation that contains an instruction afterwards.
        expanded: the new instructions that replaced a removed one, if created for it.
        merged: the survivor that replaces an instruction.
        counts: how many instructions a survivor represents, itself included.
        sources: the removed instruction that an added one is a copy of, and its computation.
        moved: where the first copy of a removed instruction is.
        unused: computations that are no longer called, by uid.
    """

    old: Mapping[int, Line]
    new: Mapping[int, Line]
    homes: Mapping[int, str]
    names: frozenset[str]
    expanded: Mapping[int, tuple[str, ...]]
    merged: Mapping[int, int]
    counts: Mapping[int, int]
    sources: Mapping[int, tuple[int, str]]
    moved: Mapping[int, str]
    unused: frozenset[int]


def facts_of(
    before: Snapshot,
    after: Snapshot,
    events: Sequence[Event],
    diffs: Sequence[ComputationDiff],
) -> Facts:
    """Return the facts about the change from `before` to `after`; `diffs` are its rows so far."""
    old_lines = {line.uid: line for c in before for line in c.lines}
    new_lines = {line.uid: line for c in after for line in c.lines}
    was_in = {line.uid: c.name for c in before for line in c.lines}
    homes = {line.uid: c.name for c in after for line in c.lines}
    unused = _unused(before, after)
    pool = [
        line for c in before for line in c.lines if line.uid not in new_lines or c.uid in unused
    ]
    added = [new_lines[r.uid] for d in diffs for r in d.rows if r.kind == ADDED]
    sources = _copies(added, pool, homes, was_in)
    moved: dict[int, str] = {}
    for uid, (source, _) in sources.items():
        moved.setdefault(source, homes[uid])
    merged, counts = _merged(events, old_lines, new_lines)
    expanded = {
        uid: names
        for uid, names in _expanded(events, set(sources)).items()
        if uid in old_lines and uid not in merged
    }
    names = frozenset(c.name for c in (*before, *after))
    return Facts(
        old_lines, new_lines, homes, names, expanded, merged, counts, sources, moved, unused
    )


def _unused(before: Snapshot, after: Snapshot) -> frozenset[int]:
    """Return the uids of computations that the entry no longer reaches."""
    left = {c.uid for c in after if not c.is_called}
    return frozenset(c.uid for c in before if c.is_called and c.uid in left)


def _expanded(events: Iterable[Event], copies: set[int]) -> dict[int, tuple[str, ...]]:
    """Return the instructions that one rewrite each expanded into several."""
    found: dict[int, tuple[str, ...]] = {}
    created: list[Instruction] = []
    for event in events:
        if isinstance(event, Created):
            created.append(event.inst)
        elif isinstance(event, Replaced):
            home = event.old.computation
            ours = [inst for inst in created if inst.computation is home and inst.uid not in copies]
            if len(ours) > 1 and event.new in ours:
                found[event.old.uid] = tuple(inst.name for inst in ours)
            created = []
    return found


def _merged(
    events: Iterable[Event], old: Mapping[int, Line], new: Mapping[int, Line]
) -> tuple[dict[int, int], dict[int, int]]:
    """Return which equal instruction replaced which, and how many each survivor represents."""
    found: dict[int, int] = {}
    for event in events:
        if not isinstance(event, Replaced):
            continue
        a, b = old.get(event.old.uid), old.get(event.new.uid) or new.get(event.new.uid)
        if a and b and (a.head, a.tail) == (b.head, b.tail) and event.by.startswith("cse"):
            found[a.uid] = b.uid
    counts: Counter[int] = Counter()
    for uid in found:
        survivor = uid
        while survivor in found:
            survivor = found[survivor]
        counts[survivor] += 1
    return found, {uid: count + 1 for uid, count in counts.items() if uid in new}


def _copies(
    added: Sequence[Line],
    pool: Sequence[Line],
    homes: Mapping[int, str],
    was_in: Mapping[int, str],
) -> dict[int, tuple[int, str]]:
    """Return which line of `pool`, removed from another computation, each added one copies.

    A copy keeps its place in the original text. Instructions that passes created have none: they
    are matched by name without the number, opcode, shape and attributes.
    """
    by_key: dict[Hashable, list[int]] = {}
    for line in pool:
        by_key.setdefault(_copy_key(line), []).append(line.uid)
    found: dict[int, tuple[int, str]] = {}
    taken: Counter[Hashable] = Counter()
    for line in added:
        if line.opcode == "parameter":
            continue
        key = _copy_key(line)
        candidates = [c for c in by_key.get(key, ()) if was_in[c] != homes[line.uid]]
        if candidates:
            source = candidates[taken[key] % len(candidates)]
            taken[key] += 1
            found[line.uid] = (source, was_in[source])
    return found


def _copy_key(line: Line) -> Hashable:
    if line.place is not None:
        return line.place, line.opcode
    return _STEM.sub("", line.name), line.head, line.tail


# ---------------------------------------------------------------- schedules


def reordered(before: Snapshot, after: Snapshot) -> frozenset[int]:
    """Return the smallest set of instructions whose move turns one order into the other."""
    old = {c.uid: c for c in before}
    found: set[int] = set()
    for c in after:
        if c.uid in old:
            places = {line.uid: number for number, line in enumerate(old[c.uid].lines)}
            found |= _out_of_place([(places[i.uid], i.uid) for i in c.lines if i.uid in places])
    return frozenset(found)


def _out_of_place(pairs: Sequence[tuple[int, int]]) -> set[int]:
    """Return the uids outside of a longest increasing subsequence of places."""
    tails: list[int] = []
    lengths = []
    for place, _ in pairs:
        at = bisect_left(tails, place)
        tails[at : at + 1] = [place]
        lengths.append(at)
    kept: set[int] = set()
    wanted, bound = len(tails) - 1, float("inf")
    for (place, uid), length in zip(reversed(pairs), reversed(lengths), strict=True):
        if length == wanted and place < bound:
            kept.add(uid)
            wanted, bound = wanted - 1, place
    return {uid for _, uid in pairs} - kept
