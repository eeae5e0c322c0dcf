"""Loops over arrays whose rows are shorter than a vector, with values that all rows share.

`x + bias` of f32[1000,10] has rows of ten. All arrays are processed as one row of whole vectors;
the shared values are repeated in a table until they fill whole vectors, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import lcm

from hloc.codegen.builder.index import Index
from hloc.codegen.builder.ir_array import IrArray
from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.values import Value
from hloc.codegen.kernels.context import KernelContext
from hloc.codegen.kernels.lanes import Lanes, lanes_of
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.lazy_dataclass import dataclass
from hloc.shapes import ArrayShape, array_leaves, leaves

_FEWEST_ELEMENTS = 2048
"""Fewest elements for which the tables, of at most a vector per element of a row, cost little."""


@dataclass(frozen=True, slots=True)
class RepeatedRows:
    """A fusion that such a loop supports.

    Attributes:
        shape: of all arrays except those of shared values.
        size: elements of a row.
        shared: broadcasts of rows of shared values.
    """

    shape: ArrayShape
    size: int
    shared: tuple[Instruction, ...]


def repeated_rows(inst: Instruction) -> RepeatedRows | None:
    """Return the repeated rows of a fusion; None if it is not row-major or shares nothing."""
    if not inst.is_a("fusion"):
        return None
    body: Computation = inst.called[0]
    shape = array_leaves(inst.shape)[0]
    shared = tuple(member for member in body.instructions if _is_shared(member, shape))
    if not shared or shape.layout is not None or shape.elements < _FEWEST_ELEMENTS:
        return None
    sizes = {member.operands[0].array.elements for member in shared}
    return RepeatedRows(shape, sizes.pop(), shared) if len(sizes) == 1 else None


def only_for_shared(rows: RepeatedRows) -> frozenset[Instruction]:
    """Return the members that are used for shared values only."""
    found: set[Instruction] = set()
    waiting = [member.operands[0] for member in rows.shared]
    while waiting:
        member = waiting.pop()
        if member not in found and all(u in found or u in rows.shared for u in member.users):
            found.add(member)
            waiting += member.operands
    return frozenset(found)


def _is_shared(member: Instruction, shape: ArrayShape) -> bool:
    """True for a broadcast whose operand has the last dimensions."""
    if not member.is_a("broadcast") or member.array.dims != shape.dims:
        return False
    operand, rank = member.operands[0].array, shape.rank
    last = tuple(range(rank - operand.rank, rank))
    in_order = tuple(member.attributes.dimensions) == last and member.array.layout is None
    return 0 < operand.rank < rank and in_order and operand.layout is None


def lanes_for(k: KernelContext, rows: RepeatedRows) -> Lanes | None:
    """Return the writer of lanes if rows are shorter than a vector."""
    lanes = lanes_of(k)
    return lanes if lanes is not None and 1 < rows.size < lanes.count else None


def emit(k: KernelContext, rows: RepeatedRows, lanes: Lanes) -> None:
    """Write the loops: whole tables, whole vectors, single elements."""
    period = lcm(rows.size, lanes.count)
    tables = {member: _table(k, member, period) for member in rows.shared}
    k.g.flat = True
    m = k.math
    inner = rows.shape.elements // rows.shape.dims[_outermost(rows.shape)]
    begin, end = m.mul(k.begin, inner), m.mul(k.end, inner)
    whole = m.sub(end, m.rem(m.sub(end, begin), period))
    last = m.sub(end, m.rem(m.sub(end, whole), lanes.count))
    with (
        k.body.loop(begin, whole, period) as first,
        k.body.loop(0, period, lanes.count) as place,
        lanes.inside(),
    ):
        _write(k, rows, tables, lanes.at(m.add(first, place)), lanes.at(place))
    with k.body.loop(whole, last, lanes.count) as position, lanes.inside():
        _write(k, rows, tables, lanes.at(position), lanes.at(m.sub(position, whole)))
    with k.body.loop(last, end) as position:
        _write(k, rows, tables, position, m.sub(position, whole))


def _outermost(shape: ArrayShape) -> int:
    return next(dim for dim, size in enumerate(shape.dims) if size != 1)


def _table(k: KernelContext, member: Instruction, period: int) -> IrArray:
    """Return the row that `member` repeats, repeated to the length of the period."""
    operand = member.operands[0]
    size = operand.array.elements
    pointer = k.b.allocate(operand.array.dtype, period)
    table = IrArray(pointer, operand.array.dtype, (period,), (1,))
    dims = operand.array.dims
    with k.body.loop(0, size) as i:
        index: Index = tuple(k.math.delinear(i, dims))
        value = k.g.element(k.frame, operand, index)
        with k.body.loop(0, period, size) as first:
            table.store(k.math, (k.math.add(first, i),), value)
    return table


def _write(
    k: KernelContext,
    rows: RepeatedRows,
    tables: dict[Instruction, IrArray],
    position: IndexValue,
    place: IndexValue,
) -> None:
    """Compute the elements at a position, for which `place` is the index in the tables."""
    sources = k.frame.sources
    k.frame.sources = {
        **sources,
        **{member: table.load(k.math, (place,)) for member, table in tables.items()},
    }
    paths: Sequence[tuple[int, ...]] = [path for path, _ in leaves(k.inst.shape)]
    values: list[Value] = [k.g.element(k.frame, k.root, (position,), path) for path in paths]
    for value, output in zip(values, k.outputs, strict=True):
        output.flat(rows.shape.elements).store(k.math, (position,), value)
    k.frame.sources = sources
