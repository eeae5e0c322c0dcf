"""Changes from an earlier module, by instruction, for the marks in a picture."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from hloc.analysis.diff.file_diff import diff_modules
from hloc.analysis.diff.module_diff import (
    ADDED,
    CHANGED,
    LAYOUT,
    MERGED,
    MOVED,
    REMOVED,
    REWIRED,
    ModuleDiff,
)
from hloc.analysis.diff.module_match import match_modules
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.traversal import all_instructions, post_order
from hloc.lazy_dataclass import dataclass

_STATUS = {
    ADDED: "added",
    CHANGED: "changed",
    LAYOUT: "changed",
    MOVED: "changed",
    REWIRED: "rewired",
}


@dataclass(frozen=True, slots=True)
class Changes:
    """Changes by instruction.

    Attributes:
        of: status, former text and rule, for instructions of the later module.
        removed: removed instructions by computation of the later module, operands first.
        now: the instruction that replaced one of the earlier module.
    """

    of: Mapping[Instruction, tuple[str, str]] = field(default_factory=dict)
    removed: Mapping[Computation, tuple[Instruction, ...]] = field(default_factory=dict)
    now: Mapping[Instruction, Instruction] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        return not self.of and not self.removed


def changes_between(before: Module, after: Module, diff: ModuleDiff | None = None) -> Changes:
    """Return the changes from `before` to `after`.

    Args:
        before: an earlier module; neither is changed.
        after: the module to draw.
        diff: the diff, if both are states of one module with common uids; otherwise the two
            are matched.
    """
    if diff is None:
        match = match_modules(before, after)
        now, homes = match.instructions, match.computations
        diff = diff_modules(before, after)
    else:
        new = {inst.uid: inst for inst in all_instructions(after)}
        now = {inst: new[inst.uid] for inst in all_instructions(before) if inst.uid in new}
        computations = {computation.uid: computation for computation in after.computations}
        homes = {c: computations[c.uid] for c in before.computations if c.uid in computations}
    rows = {
        (row.name, row.kind in (REMOVED, MERGED)): row
        for computation in diff.computations
        for row in computation.rows
    }
    of = {}
    for inst in all_instructions(after):
        row = rows.get((inst.name, False))
        if row is not None and row.kind in _STATUS:
            parts = ("was", row.was), ("by", row.by)
            of[inst] = (_STATUS[row.kind], ", ".join(f"{w} {what}" for w, what in parts if what))
    removed = {}
    for old, home in homes.items():
        gone = tuple(i for i in post_order(old) if i not in now and (i.name, True) in rows)
        if gone:
            removed[home] = gone
    return Changes(of, removed, now)
