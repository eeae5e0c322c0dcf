"""The general emitter: one loop nest over the result; the element generator computes each element.

Where all arrays have the same order in memory, one loop runs over all elements; otherwise one loop
per dimension in the order of the first result, so that the innermost loop writes contiguously, in
tiles if an array is read across that order (`movement/tiles.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial

from hloc.codegen.builder.index import Index, loop_order
from hloc.codegen.builder.ir_array import IrArray
from hloc.codegen.builder.lane_builder import LaneBuilder
from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.cpu.cpu_plan import LOOP_SCHEDULES, CpuPlan, LoopSchedule
from hloc.codegen.cpu.emitters import repeated_rows
from hloc.codegen.cpu.emitters.movement.gathered_rows import GatheredRows
from hloc.codegen.cpu.emitters.movement.tiles import read_across, tiled_loops
from hloc.codegen.cpu.emitters.narrow_rows import interleaves, plan_in_lanes
from hloc.codegen.cpu.emitters.reduction.side_by_side import reads_rows_apart
from hloc.codegen.cpu.emitters.repeated_rows import RepeatedRows
from hloc.codegen.cpu.emitters.shared_values import compute_shared
from hloc.codegen.cpu.emitters.streaming import end_streaming, stream, streaming_lanes
from hloc.codegen.kernels.boundaries import Box, boundaries, boxes
from hloc.codegen.kernels.context import KernelContext, has_functions
from hloc.codegen.kernels.emitter import Emitter, KernelPlan
from hloc.codegen.kernels.lanes import Lanes, each_position, lanes_nest, mark_final
from hloc.codegen.kernels.loop import fits_shape, is_flat, is_generated, member_is_flat
from hloc.codegen.llvm.target import Target
from hloc.ir.instruction import Instruction
from hloc.lazy_dataclass import dataclass
from hloc.shapes import ArrayShape, ShapeIndex, array_leaves, leaves

_FEW_ELEMENTS = 16

_FEW_APART = 4
"""Most elements of a dimension that one iteration writes."""

_MOST_BLENDED = 32
"""Longest rows that a bit of each row chooses without a branch, which a random mask mispredicts.

Time relative to branches, f32, AVX2: rows of 9 to 15 0.53, of 20 0.67, of 64 1.0, of 1,000 1.26.
"""

_MANY_ELEMENTS = 4096
"""Fewest elements for which a loop with elementary functions computes two vectors per iteration.

Their polynomials are chains of multiply-adds that wait for each other. Time relative to one vector,
16,384 elements of f32, AVX2: exp 0.94, log 0.96, logistic 0.93, log1p of exp 0.94, sine 0.90, tanh
and erf 1.01. Four vectors take 1.09 for power, and twice as long to compile. Two without functions:
0.95 to 1.03.
"""


_ELEMENTS_OF_FOUR = 64
"""Elements of which four vectors of 128 bits are a whole number, whatever their type.

Such an iteration of simple operations loads and stores pairs of registers and counts once: 0.56 of
the instructions of an axpy on a Neoverse N1.
"""


@dataclass(frozen=True, slots=True)
class _Loops:
    """The loops of one kernel.

    Attributes:
        groups: numbers of the results with equal sizes, one nest for each group.
        is_flat: all arrays have their elements at the same positions in memory.
        rows: rows of all arrays that can be processed as one row with shared values.
    """

    groups: tuple[tuple[int, ...], ...]
    is_flat: bool
    rows: RepeatedRows | None


def plan(inst: Instruction) -> KernelPlan[KernelContext] | None:
    """Plan a loop over all elements, or over the outermost dimension."""
    if not is_generated(inst):
        return None
    shapes = array_leaves(inst.shape)
    groups: dict[tuple[int, ...], list[int]] = {}
    for number, shape in enumerate(shapes):
        groups.setdefault(shape.dims, []).append(number)
    flat = is_flat(inst)
    rows = None if flat else _repeated(inst)
    loops = _Loops(tuple(map(tuple, groups.values())), flat, rows)
    order = loop_order(shapes[0])
    extent = shapes[0].dims[order[0]] if order else 1
    if flat:
        extent = shapes[0].elements
    elif len(groups) > 1:
        extent = 1
    emit = partial(_emit, loops)
    if flat:
        usual = partial(_loop_schedule, inst, extent)

        def choices(target: Target) -> tuple[LoopSchedule, ...]:
            return tuple(dict.fromkeys((usual(target), *LOOP_SCHEDULES)))

        return CpuPlan(emit, extent, is_one_row=True, choices=choices, usual=usual)
    if order and rows is None and len(groups) == 1 and not read_across(inst, shapes[0], order):
        usual = partial(_nest_schedule, inst, shapes[0].dims[order[-1]])
        return CpuPlan(
            emit,
            extent,
            choices=lambda target: (usual(target),),
            usual=usual,
            rows_in_lanes=partial(plan_in_lanes, inst, order),
        )
    return KernelPlan(emit, extent, is_one_row=rows is not None)


def _loop_schedule(inst: Instruction, elements: int, target: Target) -> LoopSchedule:
    """Return the schedule of a loop over all elements."""
    if has_functions(inst):
        return LoopSchedule(2 if elements >= _MANY_ELEMENTS else 1)
    return _nest_schedule(inst, elements, target)


def _nest_schedule(inst: Instruction, elements: int, target: Target) -> LoopSchedule:
    """Return the schedule of loops whose innermost one runs over some elements."""
    is_short = target.is_aarch64 and not has_functions(inst)
    return LoopSchedule(4 if is_short and elements % _ELEMENTS_OF_FOUR == 0 else 1)


def _emit(loops: _Loops, k: KernelContext) -> None:
    """Write the loops, one nest per group of results with equal sizes."""
    elements = sum(shape.elements for shape in array_leaves(k.inst.shape))
    k.body.keeps_loops = elements > _FEW_ELEMENTS and not k.unrolls  # LLVM is to vectorise them
    lanes = repeated_rows.lanes_for(k, loops.rows) if loops.rows else None
    if loops.rows is not None and lanes is not None:
        repeated_rows.emit(k, loops.rows, lanes)
        mark_final(k)
        return
    shapes = array_leaves(k.inst.shape)
    paths = [path for path, _ in leaves(k.inst.shape)]
    for members in loops.groups:
        leaders = [(paths[i], k.outputs[i]) for i in members]
        shape = shapes[members[0]]
        if loops.is_flat:
            _flat_loop(k, leaders, shape)
        else:
            _nest(k, leaders, shape, whole=len(loops.groups) > 1)
    mark_final(k)


def _flat_loop(
    k: KernelContext, outputs: list[tuple[ShapeIndex, IrArray]], shape: ArrayShape
) -> None:
    """Run one loop over positions in memory, with non-temporal stores if the result is large."""
    compute_shared(k, shape.dims, range(shape.rank))
    k.g.flat = True

    def write(position: IndexValue) -> None:
        index = (position,) if shape.dims else ()
        values = [k.g.element(k.frame, k.root, index, path) for path, _ in outputs]
        for value, (_, output) in zip(values, outputs, strict=True):
            output.flat(shape.elements).store(k.math, (position,), value)

    lanes = streaming_lanes(k, shape, shape.elements)
    if lanes is None:
        each_position(k, shape.elements, k.begin, k.end, write)
        return
    stream(lanes, outputs[0][1].flat(shape.elements), (k.begin,), 0, k.end, write)
    end_streaming(k)


def _nest(
    k: KernelContext,
    outputs: list[tuple[ShapeIndex, IrArray]],
    shape: ArrayShape,
    whole: bool,
) -> None:
    """Run one loop per dimension in the order of the result's memory, the first one over its part.

    Tried in turn: rows of non-temporal stores; a nest per part of a concatenation, without tests
    inside; an interleaving unrolled along the last dimension; tiles, if an array is read across;
    else vectors along the last dimension.
    """
    order = loop_order(shape)
    first_range = (0, shape.dims[order[0]]) if whole and order else (k.begin, k.end)
    if order and not read_across(k.inst, shape, order):
        lanes = streaming_lanes(k, shape, shape.dims[order[-1]])
        if lanes is not None:
            _stream_rows(k, lanes, outputs[0], shape, order)
            return

    write: Callable[[Index], None] = partial(_write, k, outputs)
    parts, slow = ([], order) if whole or not order else _parts(k.inst, shape.dims, order)
    if parts:
        k.is_final = False
        if len(slow) < len(order):
            write = partial(_write_all, write, order[-1], shape.dims[order[-1]])
        _split_nest(k, parts, slow, first_range, write)
        return
    if interleaves(k.inst, shape, order):
        k.is_final, k.body.keeps_loops = False, True
        *slow, last = order
        with k.body.nest(shape.dims, slow, first_range) as at:
            _write_all(write, last, shape.dims[last], tuple(at))
        return
    if isinstance(k.b, LaneBuilder):
        k.b.reads_apart = reads_rows_apart(k.inst)
        k.b.blends = bool(order) and shape.dims[order[-1]] <= _MOST_BLENDED
    across = read_across(k.inst, shape, order)
    loops = tiled_loops(k, shape, order, first_range, across) if across else None
    rows = GatheredRows(k, shape.dims, order)
    compute_shared(k, shape.dims, range(shape.rank))

    def start(index: Sequence[IndexValue]) -> None:
        rows.start(index)
        compute_shared(k, shape.dims, order[-1:], index)

    with loops or lanes_nest(k, shape.dims, order, first_range, start) as at:
        write(tuple(at))
        rows.prefetch(at)


def _write(k: KernelContext, outputs: list[tuple[ShapeIndex, IrArray]], index: Index) -> None:
    """Compute the elements at `index` of all results, and then store them."""
    values = [k.g.element(k.frame, k.root, index, path) for path, _ in outputs]
    for value, (_, output) in zip(values, outputs, strict=True):
        output.store(k.math, index, value)


# ---------------------------------------------------------------- loops between boundaries


def _parts(
    inst: Instruction, dims: Sequence[int], order: Sequence[int]
) -> tuple[list[Box], Sequence[int]]:
    """Return the parts of the result that have loops of their own, and the dimensions of the loops.

    No parts if the result has no boundaries. A fastest dimension of few elements with boundaries,
    such as the coordinates of points that were stacked, has no loop: all its elements are written
    by one iteration, which LLVM vectorises with shuffles.
    """
    *slow, last = order
    if slow and dims[last] <= _FEW_APART and boundaries(inst, last):
        return boxes(inst, slow), slow
    found = boxes(inst, order)
    return found if len(found) > 1 else [], order


def _split_nest(
    k: KernelContext,
    parts: Sequence[Box],
    order: Sequence[int],
    first_range: tuple[IndexValue, IndexValue],
    write: Callable[[Index], None],
) -> None:
    """Emit the loops of each part of the result over the dimensions of `order`.

    Loops down a column are not unrolled: vectors are gathered element by element, which is much
    code for few elements.
    """
    for box in parts:
        k.body.unrolls = len(box[order[-1]]) > 1
        index: list[IndexValue] = [0] * len(box)
        with ExitStack() as stack:
            for number, dim in enumerate(order):
                start: IndexValue = box[dim].start
                stop: IndexValue = box[dim].stop
                if number == 0:
                    start = k.math.maximum(start, first_range[0])
                    stop = k.math.minimum(stop, first_range[1])
                index[dim] = stack.enter_context(k.body.loop(start, stop))
                k.math.bound(index[dim], box[dim])
            write(tuple(index))
    k.body.unrolls = True


def _write_all(write: Callable[[Index], None], dim: int, size: int, index: Index) -> None:
    """Write the elements at all `size` positions of a dimension."""
    for position in range(size):
        write((*index[:dim], position, *index[dim + 1 :]))


def _stream_rows(
    k: KernelContext,
    lanes: Lanes,
    result: tuple[ShapeIndex, IrArray],
    shape: ArrayShape,
    order: Sequence[int],
) -> None:
    """Write each row with non-temporal stores; the part is that of the first dimension."""
    path, output = result
    *slow, last = order
    rows = GatheredRows(k, shape.dims, order)
    with k.body.nest(shape.dims, slow, (k.begin, k.end)) as index:
        rows.start(index)
        compute_shared(k, shape.dims, (last,), index)
        start, stop = (0, shape.dims[last]) if slow else (k.begin, k.end)

        def write(position: IndexValue) -> None:
            at = (*index[:last], position, *index[last + 1 :])
            output.store(k.math, at, k.g.element(k.frame, k.root, at, path))
            rows.prefetch(at)

        first = (*index[:last], start, *index[last + 1 :])
        stream(lanes, output, first, last, stop, write)
    end_streaming(k)


def _repeated(inst: Instruction) -> RepeatedRows | None:
    """Return the rows of `inst` that can be processed as one row with shared values."""
    rows = repeated_rows.repeated_rows(inst)
    if rows is None or any(not fits_shape(leaf, rows.shape) for leaf in array_leaves(inst.shape)):
        return None
    known = {*rows.shared, *repeated_rows.only_for_shared(rows)}
    others = (member for member in inst.called[0].instructions if member not in known)
    return rows if all(member_is_flat(member, rows.shape) for member in others) else None


EMITTER = Emitter("loop", plan)
