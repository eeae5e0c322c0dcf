"""Rows: which elements a fusion reads when it works on arrays row by row.

An array of `count * size` elements is divided into `count` rows, row-major. A member of a fusion
is read `FULL` (at the element that is being computed), by `ROW` (an array with one element per row,
at the row that is being computed) or in some `OTHER` way. Softmax and norms read nothing `OTHER`
except operands of the fusion, so they can be computed row by row.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import TypeAlias

from hloc.analysis.dataflow import forwards
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ir.traversal import live_order
from hloc.lazy_dataclass import dataclass
from hloc.ops.folding import works_per_element
from hloc.shapes import ArrayShape, TupleShape, leaves

Access: TypeAlias = int
"""A bit set of `FULL`, `ROW` and `OTHER`."""

FULL: Access = 1
ROW: Access = 2
OTHER: Access = 4

_WAYS = tuple(tuple(way for way in (FULL, ROW, OTHER) if access & way) for access in range(8))
"""By access: its single ways."""

MAX_REDUCES = 8
"""Maximum number of reductions in a fusion by rows; more make code too large to optimise."""


@dataclass(frozen=True, slots=True)
class Rows:
    """The number of rows and the elements of each."""

    count: int
    size: int

    @property
    def elements(self) -> int:
        """Number of elements of an array that is read `FULL`."""
        return self.count * self.size


def rows_of(reduce: Instruction) -> Rows | None:
    """Return the rows that a reduce folds, None if it reduces other than the last dimensions.

    `reduce(f32[8,1,128]), dimensions={2}` has 8 rows of 128.
    """
    shape = reduce.operands[0].array
    if shape.layout is not None:
        return None
    dims, reduced = shape.dims, reduce.attributes.dimensions
    large = [dim for dim, size in enumerate(dims) if size != 1]
    kept = [dim for dim in large if dim not in reduced]
    count = prod([dims[dim] for dim in kept])
    if count == 0 or shape.elements // count < 2 or large[: len(kept)] != kept:
        return None
    return Rows(count, shape.elements // count)


@dataclass(frozen=True, slots=True)
class RowWork:
    """A fusion that can be computed row by row.

    Attributes:
        order: its live members, operands first, without the tuple of results.
        outputs: the members that are results, in the order of the results.
        access: how each member is read.
    """

    rows: Rows
    order: tuple[Instruction, ...]
    outputs: tuple[Instruction, ...]
    reduces: tuple[Instruction, ...]
    access: dict[Instruction, Access]


def row_work(body: Computation) -> RowWork | None:
    """Return the row work of a fused computation, None if it has none.

    Passes and code generation ask for it in turn; it is found again only after a change.
    """
    return body.derived(_row_work)


def _row_work(body: Computation) -> RowWork | None:
    """Return the row-wise work of a fused computation, None if a member is not computed by rows."""
    if not any([inst.opcode.name == "reduce" for inst in body.instructions]):
        return None
    root = body.root
    outputs = root.operands if root.opcode.name == "tuple" else (root,)
    if any(isinstance(output.shape, TupleShape) for output in outputs):
        return None
    order = tuple([inst for inst in live_order(body) if inst.opcode.name != "tuple"])
    reduces = tuple([inst for inst in order if inst.opcode.name == "reduce"])
    if not reduces or len(reduces) > MAX_REDUCES or not all(map(_is_taken_apart, reduces)):
        return None
    rows = rows_of(reduces[0])
    access = accesses(order, outputs, rows) if rows else None
    if rows is None or access is None:
        return None
    tuples = [inst for inst in order if isinstance(inst.shape, TupleShape)]
    if any(inst not in reduces and access.get(inst) for inst in tuples):
        return None
    return RowWork(rows, order, outputs, reduces, access)


def _is_taken_apart(reduce: Instruction) -> bool:
    return not isinstance(reduce.shape, TupleShape) or all(
        user.opcode.name == "get-tuple-element" for user in reduce.users
    )


def levels(order: Sequence[Instruction]) -> dict[Instruction, int]:
    """Return how many loops over the row must end before each member can be computed."""
    level: dict[Instruction, int] = {}
    for inst in order:
        found = max((level[operand] for operand in inst.operands), default=0)
        level[inst] = found + (inst.opcode.name == "reduce")
    return level


def overwritable(work: RowWork) -> frozenset[tuple[int, int]]:
    """Return which results may reuse the memory of which operands, as pairs of their numbers.

    A row of the result is written after the last read of the operand: in the same loop
    over the row, which reads an element before it writes it, or in a later one.
    """
    level = levels(work.order)
    last = _last_reads(work, level)
    found = set()
    for number, output in enumerate(work.outputs):
        if own_access(output, work.rows) != FULL:
            continue
        for inst in work.order:
            if (
                inst.opcode.name == "parameter"
                and work.access.get(inst) == FULL
                and inst.array.dims == output.array.dims
                and inst.array.layout is None
                and inst.array.dtype.storage_bytes == output.array.dtype.storage_bytes
                and last[inst] <= level[output]
            ):
                found.add((inst.attributes.number, number))
    return frozenset(found)


def _last_reads(work: RowWork, level: dict[Instruction, int]) -> dict[Instruction, int]:
    """Return the last loop over the row that may read each member at the element it computes."""
    last: dict[Instruction, int] = {}
    for output in work.outputs:
        if own_access(output, work.rows) == FULL:
            last[output] = max(last.get(output, 0), level[output])
    for inst in reversed(work.order):
        if inst.opcode.name == "reduce":
            inputs = inst.operands[: len(inst.operands) // 2]
            at = level[inst] - 1
        else:
            inputs = tuple(o for o in inst.operands if work.access.get(o, 0) & FULL)
            at = last.get(inst, -1)
        for operand in inputs:
            last[operand] = max(last.get(operand, -1), at)
    return last


def own_access(inst: Instruction, rows: Rows) -> Access:
    """Return how result `inst` is written, 0 if it has neither `elements` nor `count` elements.

    For a tuple, such as that of a variadic reduce, the first leaf counts.
    """
    shape = inst.shape
    if isinstance(shape, TupleShape):
        shape = next(leaf for _, leaf in leaves(shape))
    if not isinstance(shape, ArrayShape) or shape.layout is not None:
        return 0
    if shape.elements == rows.elements:
        return FULL
    return ROW if shape.elements == rows.count else 0


def accesses(
    order: Sequence[Instruction], outputs: Iterable[Instruction], rows: Rows
) -> dict[Instruction, Access] | None:
    """Return how the members of a fusion, and their operands, are read for the outputs.

    Args:
        order: the members, operands first.
        outputs: members that are written to memory.
        rows: how arrays are divided.

    Returns:
        None if it cannot be computed row by row: a reduction over something other than a row, or
        an output of another size.
    """
    found: dict[Instruction, Access] = {}
    for output in outputs:
        access = own_access(output, rows)
        if not access:
            return None
        found[output] = found.get(output, 0) | access
    for inst in reversed(order):
        own, name = found.get(inst, 0), inst.opcode.name
        if not own or name == "parameter":
            continue
        if name == "reduce" and (own != ROW or rows_of(inst) != rows):
            return None
        shape = inst.array if works_per_element(inst) else None
        for place, operand in enumerate(inst.operands):
            access = found.get(operand, 0)
            if shape and (operand.shape is shape or operand.array.dims == shape.dims):
                access |= own  # at the same index
            else:
                for way in _WAYS[own]:
                    access |= passed_on(inst, place, way, rows)
            found[operand] = access
    return found


def passed_on(user: Instruction, place: int, access: Access, rows: Rows) -> Access:
    """Return how operand `place` is read if `user` is read in the way `access`."""
    name = user.opcode.name
    operand = user.operands[place]
    if name == "reduce":
        return FULL if 2 * place < len(user.operands) else OTHER
    if access == OTHER:
        return OTHER
    if name in ("reshape", "get-tuple-element"):
        return access
    if name == "bitcast":
        plain = user.array.layout is None and operand.array.layout is None
        return access if plain and forwards(user) else OTHER
    if name == "broadcast":
        return _of_broadcast(user, access, rows)
    if works_per_element(user) or name == "copy":
        if operand.array.dims == user.array.dims:
            return access
        return _one_per_row(operand.array, rows)
    return OTHER


def _one_per_row(shape: ArrayShape, rows: Rows) -> Access:
    return ROW if rows.count == 1 and shape.elements == 1 else OTHER


def _of_broadcast(user: Instruction, access: Access, rows: Rows) -> Access:
    operand, result = user.operands[0].array, user.array
    elements, dims = operand.elements, result.dims
    if elements not in (result.elements, rows.count):
        return _one_per_row(operand, rows)
    large = [dim for dim, size in enumerate(dims) if size != 1]
    mapped = [dim for dim in user.attributes.dimensions if dims[dim] != 1]
    if elements == result.elements:
        return access if mapped == large else OTHER
    if access == FULL and mapped == large[: len(mapped)]:
        return ROW
    return _one_per_row(operand, rows)
