"""Loops over rows shorter than a vector: points, colours, boxes, some columns of a table.

A row is in each lane of a vector. The columns are computed one after another, and rows of cheap
operations are put together with shuffles and stored at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import product
from math import prod

from hloc.codegen.builder.lane_builder import LaneBuilder
from hloc.codegen.builder.values import LaneIndex, Value
from hloc.codegen.cpu.emitters.movement.tiles import strided_reads
from hloc.codegen.cpu.emitters.shared_values import compute_shared
from hloc.codegen.kernels.context import KernelContext, has_functions
from hloc.codegen.kernels.emitter import KernelPlan
from hloc.codegen.kernels.lanes import FEWEST_LANES, lane_count, mark_final, nest_of_rows
from hloc.codegen.llvm.target import Target
from hloc.ir.instruction import Instruction
from hloc.shapes import ArrayShape, array_leaves, leaves

_MOST_INTERLEAVED = 4
"""Most elements of rows that LLVM puts together."""

_MOST_UNROLLED, _MOST_STORED = 9, 144
"""Most elements of a row that are stored at once, and of a vector of rows.

LLVM takes 0.3 to 0.6 s for the shuffles of 32 or 64 rows of 9 bytes.
"""

_MOST_IN_A_LANE = 64
"""Most elements of rows with functions: each vector is stored to as many rows as it has lanes."""


def interleaves(inst: Instruction, shape: ArrayShape, order: Sequence[int]) -> bool:
    """True if few elements lie along the fastest dimension, and an operand is read along the next.

    All elements of the fastest dimension are then written by one iteration, which LLVM vectorises
    with shuffles. Three planes of 241x321 bytes become pixels in 12 us, not 86.
    """
    if len(order) < 2 or shape.dims[order[-1]] > _MOST_INTERLEAVED:
        return False
    members = inst.called[0].instructions if inst.is_a("fusion") else (inst,)
    return any(dim == order[-2] for member in members for _, dim in strided_reads(member, shape))


def plan_in_lanes(
    inst: Instruction, order: Sequence[int], target: Target
) -> KernelPlan[KernelContext] | None:
    """Plan a loop over narrow rows, None if vectors along the rows are faster.

    Time relative to vectors along the rows, or one element after another, f32, AVX2: 2 x + 1 of 3,
    5 and 7 columns 0.31, 0.28, 0.41, x - y of 3 and 5 coordinates 0.40, 0.72, masks of rows of 2 to
    7 0.12 to 0.43; exp of 3 columns 0.43, tanh of 6 0.50, cosines of 5 angles 0.47. Rows of 4 fill
    vectors of half a width, and take 0.78 to 1.5.
    """
    (shape, *others), lanes = array_leaves(inst.shape), lane_count(inst, target)
    if any(other.minor_to_major != shape.minor_to_major for other in others):
        return None  # rows of one result are columns of the other
    size = shape.dims[order[-1]]
    fills_half = size == lanes // 2 >= FEWEST_LANES
    wide = [number for number, dim in enumerate(order) if shape.dims[dim] > lanes]
    if not 1 < size < lanes or fills_half or not wide or interleaves(inst, shape, order):
        return None
    around, inner = order[: wide[-1] + 1], order[wide[-1] + 1 :]
    is_dear, columns = has_functions(inst), prod(shape.dims[dim] for dim in inner)
    if columns > (_MOST_IN_A_LANE if is_dear else _MOST_UNROLLED):
        return None
    if not is_dear and columns * lanes > _MOST_STORED:
        return None
    emit = _emit_loops if is_dear else _emit_unrolled
    return KernelPlan(partial(emit, around, inner), shape.dims[order[0]])


def _emit_loops(around: Sequence[int], inner: Sequence[int], k: KernelContext) -> None:
    """Write loops over the columns: the code of a function is long."""
    dims, paths = array_leaves(k.inst.shape)[0].dims, [path for path, _ in leaves(k.inst.shape)]
    compute_shared(k, dims, range(len(dims)))
    with nest_of_rows(k, dims, around) as index:
        compute_shared(k, dims, inner, index)
        with k.body.nest(dims, inner) as at:
            for dim in inner:
                index[dim] = at[dim]
            values = [k.g.element(k.frame, k.root, tuple(index), path) for path in paths]
            for value, output in zip(values, k.outputs, strict=True):
                output.store(k.math, tuple(index), value)
    mark_final(k)


def _emit_unrolled(around: Sequence[int], inner: Sequence[int], k: KernelContext) -> None:
    """Compute all columns, and then store the rows."""
    dims, paths = array_leaves(k.inst.shape)[0].dims, [path for path, _ in leaves(k.inst.shape)]
    assert isinstance(k.b, LaneBuilder)
    compute_shared(k, dims, range(len(dims)))
    with nest_of_rows(k, dims, around) as index:
        rows: list[list[Value]] = [[] for _ in paths]
        for at in product(*[range(dims[dim]) for dim in inner]):
            for dim, position in zip(inner, at, strict=True):
                index[dim] = position
            for row, path in zip(rows, paths, strict=True):
                row.append(k.g.element(k.frame, k.root, tuple(index), path))
        for dim in inner:
            index[dim] = 0
        for row, output in zip(rows, k.outputs, strict=True):
            place = k.math.linear(tuple(index), output.strides)
            assert isinstance(place, LaneIndex)
            k.b.store_rows(output.pointer, place, row)
    mark_final(k)
