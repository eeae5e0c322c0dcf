"""Plan of a row fusion: the loops over one row and the values they keep.

A reduction needs the whole row before its result can be used, so the work falls into stages, one
loop over the row each. A value that several stages need is kept in a temporary row if it is
expensive, else recomputed.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from hloc.analysis.rows import FULL, OTHER, ROW, Access, Rows, RowWork, levels, own_access, row_work
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.lazy_dataclass import dataclass
from hloc.opt.fusion.fusible import weight_of

MAX_TEMPORARY_BYTES = 1 << 17
"""Limit on the bytes of all temporary rows, which are on the stack."""

_PARAMETER_COST = 2
_KEEP = 8
"""Values of at least this cost are kept, not recomputed; in units of `Opcode.weight`."""

_KEEP_OUTPUT = 4
"""The same for a value that is written to memory anyway."""

_MAX_COST = 1 << 20


@dataclass(frozen=True, slots=True)
class Stage:
    """One loop over the row.

    Attributes:
        row_values: values computed once per row before the loop, operands first.
        keeps: members whose row is kept for later stages.
        writes: outputs with an element for every element of the row.
        reduces: its reductions.
    """

    row_values: tuple[Instruction, ...]
    keeps: tuple[Instruction, ...]
    writes: tuple[Instruction, ...]
    reduces: tuple[Instruction, ...]


@dataclass(frozen=True, slots=True)
class RowPlan:
    """How to run a fusion row by row.

    Attributes:
        dims: sizes of the array; the first `outer` dimensions enumerate the rows.
        access: how each member is read.
        writes_rows: outputs with one element per row, written after all stages.
        outputs: members that are results, in the order of the results.
    """

    rows: Rows
    dims: tuple[int, ...]
    outer: int
    access: dict[Instruction, Access]
    stages: tuple[Stage, ...]
    writes_rows: tuple[Instruction, ...]
    outputs: tuple[Instruction, ...]


def row_plan(body: Computation) -> RowPlan | None:
    """Return how to run a fused computation row by row, None if it has no rows.

    Kernels ask for it several times; it is made again only after a change.
    """
    return body.derived(_row_plan)


def _row_plan(body: Computation) -> RowPlan | None:
    work = row_work(body)
    return None if work is None else _Planner(work).plan()


def is_cut(inst: Instruction, rows: Rows) -> bool:
    """True if no dimension of `inst` spans several rows."""
    return outer_rank(inst.array.dims, rows) is not None


def outer_rank(dims: Sequence[int], rows: Rows) -> int | None:
    """Return how many leading dimensions enumerate the rows, None if there is no such number."""
    for rank in range(len(dims) + 1):
        if prod(dims[:rank]) == rows.count:
            return rank
    return None


class _Planner:
    """Finds the members of each stage, first stage first."""

    def __init__(self, work: RowWork) -> None:
        self.rows, self.order, self.outputs = work.rows, work.order, work.outputs
        self.access, self.reduces = work.access, work.reduces
        self.level = levels(work.order)
        self.cost = self._costs()
        self.first: dict[Instruction, int] = {}
        self.kept: dict[Instruction, None] = {}
        self.room = MAX_TEMPORARY_BYTES

    def plan(self) -> RowPlan:
        """Put every write and reduction into the stage of its level, with what they need.

        Level n is what depends on n reductions one after another, so that stage n runs after they
        are done. Values with one element per row (`ROW`) are written when all stages are done.
        """
        writes = [o for o in dict.fromkeys(self.outputs) if self._access(o) == FULL]
        ends = [o for o in dict.fromkeys(self.outputs) if self._access(o) == ROW]
        reduces = self.reduces
        last = max([self.level[r] for r in reduces] + [self.level[o] + 1 for o in writes])
        needs = []
        for number in range(last):
            heads = [o for o in writes if self.level[o] == number]
            for inst in reduces:
                if self.level[inst] == number + 1:
                    heads += inst.operands[: len(inst.operands) // 2]
            needs.append(self._walk(number, heads))
        stages = tuple(
            Stage(
                tuple(needs[number]),
                tuple(m for m in self.order if m in self.kept and self.first[m] == number),
                tuple(o for o in writes if self.level[o] == number),
                tuple(r for r in reduces if self.level[r] == number + 1),
            )
            for number in range(last)
        )
        dims = reduces[0].operands[0].array.dims
        outer = outer_rank(dims, self.rows)
        assert outer is not None
        return RowPlan(
            self.rows, dims, outer, self.access, stages, tuple(ends), self.outputs
        )  # fmt: skip

    def _access(self, output: Instruction) -> Access:
        return own_access(output, self.rows)

    def _walk(self, number: int, heads: Sequence[Instruction]) -> list[Instruction]:
        """Record the members of stage `number`; return the values it reads once per row."""
        seen: set[Instruction] = set()
        row_values: set[Instruction] = set()
        stack = list(heads)
        while stack:
            inst = stack.pop()
            if inst in seen:
                continue
            seen.add(inst)
            earlier = self.first.setdefault(inst, number) < number
            if earlier and (inst in self.kept or self._is_worth_keeping(inst)):
                self.kept[inst] = None
                continue
            for operand in inst.operands:
                access = self.access[operand]
                if access & FULL and operand.opcode.name != "parameter":
                    stack.append(operand)
                if access == ROW:
                    row_values.add(operand)
        return [inst for inst in self.order if inst in row_values]

    def _is_worth_keeping(self, inst: Instruction) -> bool:
        """True if a row of `inst` should be kept in memory; reserves the memory."""
        if self.access[inst] != FULL:  # something reads it at another index
            return False
        if inst in self.outputs:
            return self.cost[inst] >= _KEEP_OUTPUT
        size = self.rows.size * inst.array.dtype.storage_bytes
        if self.cost[inst] < _KEEP or size > self.room or not is_cut(inst, self.rows):
            return False
        self.room -= size
        return True

    def _costs(self) -> dict[Instruction, int]:
        """Return the cost of one element, given the values in memory or computed once per row."""
        cost: dict[Instruction, int] = {}
        for inst in self.order:
            if self.access.get(inst, 0) & (FULL | OTHER) == 0 or inst.opcode.name == "reduce":
                cost[inst] = 0
            elif inst.opcode.name == "parameter":
                # With another layout, it is read across the row, element by element.
                cost[inst] = _PARAMETER_COST if inst.array.layout is None else _KEEP
            else:
                below = sum(cost[operand] for operand in dict.fromkeys(inst.operands))
                cost[inst] = min(weight_of(inst) + below, _MAX_COST)
        return cost
