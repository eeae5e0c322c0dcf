"""Element rules of opcodes that move elements: the same value at another index."""

from __future__ import annotations

from contextlib import ExitStack
from itertools import accumulate

from hloc.codegen.builder.index import Index, physical_order
from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.scalar_builder import LlvmBuilder
from hloc.codegen.builder.values import VARYING, Value
from hloc.codegen.elements.elemental import (
    ElementGenerator,
    Frame,
    Request,
    Rule,
    leaf_rule,
    operand_index,
    rule,
)
from hloc.codegen.elements.lane_positions import load_each
from hloc.codegen.elements.rotation import rotation_of
from hloc.dtypes import C64, C128, DTYPES, F32, F64, U32, U64
from hloc.errors import UnsupportedError
from hloc.ir.instruction import Instruction
from hloc.lazy_dataclass import dataclass
from hloc.ops.rows.convert import memory_bits
from hloc.shapes import ArrayShape, ShapeIndex


@leaf_rule("copy", "opt-barrier", "optimization-barrier", "add-dependency")
def _pass_through(
    g: ElementGenerator, frame: Frame, inst: Instruction, path: ShapeIndex, index: Index
) -> Rule:
    value = yield frame, inst.operands[0], path, index
    return value


@rule("bitcast")
def _bitcast(g: ElementGenerator, frame: Frame, inst: Instruction, index: Index) -> Rule:
    operand = inst.operands[0]
    source, target = operand.array, inst.array
    if source.dtype.storage_bytes != target.dtype.storage_bytes:
        raise UnsupportedError("a fused bitcast keeps the width of the elements", inst.span)
    at = operand_index(operand, index) if g.flat else _bitcast_index(g, source, target, index)
    value = yield frame, operand, (), at
    return g.b.bitcast(value, target.dtype)


@rule("bitcast-convert")
def _bitcast_convert(g: ElementGenerator, frame: Frame, inst: Instruction, index: Index) -> Rule:
    """Reinterpret bits; where widths differ, the last dimension of one side numbers the parts."""
    operand = inst.operands[0]
    source, target = operand.array.dtype, inst.array.dtype
    old, new = memory_bits(source), memory_bits(target)
    if old == new:
        value = yield frame, operand, (), operand_index(operand, index)
        return g.b.bitcast(value, target)
    if 6 in (old, new):
        raise UnsupportedError(
            f"bitcast-convert from {source} to {target} splits bytes into elements of 6 bits, "
            "which is not supported on cpu",
            inst.span,
        )
    if source is C128:
        value = yield frame, operand, (), index[:-1]
        first = g.math.compare("EQ", index[-1], 0)
        bits = g.b.bitcast(g.b.select(first, g.b.real(value), g.b.imag(value)), U64)
        return g.b.complex(_half(g.b, bits, 0), _half(g.b, bits, 32))
    if source is C64:
        first = yield frame, operand, (), (*index, 0)
        second = yield frame, operand, (), (*index, 1)
        return g.b.complex(_joined_halves(g.b, first), _joined_halves(g.b, second))
    if old > new:
        value = yield frame, operand, (), index[:-1]
        wide = DTYPES[f"u{old}"]
        shift = g.b.convert(g.math.value(g.math.mul(index[-1], new)), wide)
        bits = g.b.lshr(g.b.bitcast(value, wide), shift)
        return g.b.bitcast(g.b.convert(bits, DTYPES[f"u{new}"]), target)
    wide = DTYPES[f"u{new}"]
    total = g.b.const(wide, 0)
    for i in range(new // old):
        value = yield frame, operand, (), (*index, i)
        bits = g.b.convert(g.b.bitcast(value, DTYPES[f"u{old}"]), wide)
        total = g.b.or_(total, g.b.shl(bits, g.b.const(wide, i * old)))
    return g.b.bitcast(total, target)


def _half(b: LlvmBuilder, bits: Value, shift: int) -> Value:
    """Return the f32 at bit `shift` of a u64."""
    return b.bitcast(b.convert(b.lshr(bits, b.const(U64, shift)), U32), F32)


def _joined_halves(b: LlvmBuilder, z: Value) -> Value:
    """Return the f64 whose low half is the real and whose high half the imaginary part."""
    low, high = (b.convert(b.bitcast(x, U32), U64) for x in (b.real(z), b.imag(z)))
    return b.bitcast(b.or_(low, b.shl(high, b.const(U64, 32))), F64)


def _bitcast_index(
    g: ElementGenerator, source: ArrayShape, target: ArrayShape, index: Index
) -> Index:
    """Return the index in `source` of the element that has the address of `index` of `target`."""
    if 0 in target.dims:
        return (0,) * source.rank
    new_order, old_order = physical_order(target), physical_order(source)
    physical = g.math.reshape(
        tuple(index[d] for d in new_order),
        [target.dims[d] for d in new_order],
        [source.dims[d] for d in old_order],
    )
    result: list[IndexValue] = [0] * source.rank
    for dim, position in zip(old_order, physical, strict=True):
        result[dim] = position
    return tuple(result)


@rule("reshape", "dynamic-reshape")
def _reshape(g: ElementGenerator, frame: Frame, inst: Instruction, index: Index) -> Rule:
    operand = inst.operands[0]
    if g.flat:
        at = operand_index(operand, index)
    else:
        at = g.math.reshape(index, inst.array.dims, operand.array.dims)
    value = yield frame, operand, (), at
    return value


@rule("broadcast")
def _broadcast(g: ElementGenerator, frame: Frame, inst: Instruction, index: Index) -> Rule:
    operand = inst.operands[0]
    at: Index = ()
    if operand.array.dims:
        at = tuple(
            0 if operand.array.dims[i] == 1 else index[dim]
            for i, dim in enumerate(inst.attributes.dimensions)
        )
    value = yield frame, operand, (), at
    return value


@rule("transpose")
def _transpose(g: ElementGenerator, frame: Frame, inst: Instruction, index: Index) -> Rule:
    at: list[IndexValue] = [0] * len(index)
    for dim, source in enumerate(inst.attributes.dimensions):
        at[source] = index[dim]
    value = yield frame, inst.operands[0], (), tuple(at)
    return value


@rule("slice")
def _slice(g: ElementGenerator, frame: Frame, inst: Instruction, index: Index) -> Rule:
    at = tuple(
        g.math.add(g.math.mul(i, d.stride), d.start)
        for i, d in zip(index, inst.attributes.slice, strict=True)
    )
    value = yield frame, inst.operands[0], (), at
    return value


@rule("reverse")
def _reverse(g: ElementGenerator, frame: Frame, inst: Instruction, index: Index) -> Rule:
    at = list(index)
    for dim in inst.attributes.dimensions:
        at[dim] = g.math.sub(inst.array.dims[dim] - 1, index[dim])
    value = yield frame, inst.operands[0], (), tuple(at)
    return value


@rule("iota")
def _iota(g: ElementGenerator, frame: Frame, inst: Instruction, index: Index) -> Rule:
    position = 0 if not index else index[inst.attributes.iota_dimension]
    return g.b.convert(g.math.value(position), inst.array.dtype)
    yield


@rule("get-dimension-size")
def _get_dimension_size(g: ElementGenerator, frame: Frame, inst: Instruction, index: Index) -> Rule:
    size = inst.operands[0].array.dims[inst.attributes.dimensions[0]]
    return g.b.const(inst.array.dtype, size)
    yield


# ---------------------------------------------------------------- pieces put together


@rule("pad")
def _pad(g: ElementGenerator, frame: Frame, inst: Instruction, index: Index) -> Rule:
    """Take the operand where the index is on one of its elements, else the padding value."""
    operand, padding = inst.operands
    conditions: list[Value] = []
    at: list[IndexValue] = []
    for i, d, size in zip(index, inst.attributes.padding, operand.array.dims, strict=True):
        position = g.math.sub(i, d.low)
        if d.low > 0:
            conditions.append(g.math.compare("GE", position, 0))
        if d.high > 0 or not size:
            last = (size - 1) * (d.interior + 1)
            conditions.append(g.math.compare("LE", position, last))
        if d.interior:
            # A position below zero is already ruled out; its remainder does not matter.
            hit = g.math.compare("EQ", g.math.rem(position, d.interior + 1), 0)
            conditions.append(hit)
            position = g.math.div(position, d.interior + 1)
        at.append(position)
    # Emitted before the branch, so that no lane of a vectorised loop has to load it.
    yield frame, padding, (), ()
    value = yield from g.choose(
        g.body.all_of(conditions), (frame, operand, (), tuple(at)), (frame, padding, (), ())
    )
    return value


@dataclass(frozen=True, slots=True)
class _Part:
    """An operand of a concatenation: its number, and the position at which its elements begin."""

    number: int
    first: int


def _parts_at(
    g: ElementGenerator, inst: Instruction, position: IndexValue
) -> list[tuple[_Part, Value | None]]:
    """Return the operands that may hold `position`, each with the test for it; the last has none.

    A test holds if all tests before it do not.
    """
    dim = inst.attributes.dimensions[0]
    ends = accumulate(operand.array.dims[dim] for operand in inst.operands)
    first = 0
    tests: list[tuple[_Part, Value | None]] = []
    for number, end in enumerate(ends):
        part, first = _Part(number, first), end
        if part.first == end:
            continue
        inside = None if end == inst.array.dims[dim] else g.math.compare("LT", position, end)
        if inside is None or inside.text == "true":
            return [*tests, (part, None)]
        if inside.text != "false":
            tests.append((part, inside))
    return tests


@rule("concatenate")
def _concatenate(g: ElementGenerator, frame: Frame, inst: Instruction, index: Index) -> Rule:
    """Branch to the operand that holds the index; only the element of that one is computed.

    Where the operands are slices of one array, the position in that array is chosen instead.
    """
    dim = inst.attributes.dimensions[0]
    tests = _parts_at(g, inst, index[dim])
    rotation = rotation_of(inst, frame.sources) if len(tests) > 1 else None
    if rotation is not None and not isinstance(index[dim], VARYING):
        distances = [rotation.starts[part.number] - part.first for part, _ in tests]
        distance: IndexValue = distances[-1]
        for (_, inside), chosen in zip(tests[-2::-1], distances[-2::-1], strict=True):
            assert inside is not None
            distance = g.math.select(inside, chosen, distance)
        place = [g.math.add(i, start) for i, start in zip(index, rotation.others, strict=True)]
        place[dim] = g.math.add(index[dim], distance)
        g.math.bound(place[dim], range(rotation.operand.array.dims[dim]))
        value = yield frame, rotation.operand, (), tuple(place)
        return value

    def request(part: _Part) -> Request:
        at = (*index[:dim], g.math.sub(index[dim], part.first), *index[dim + 1 :])
        return frame, inst.operands[part.number], (), at

    if len(tests) == 1:
        value = yield request(tests[0][0])
        return value
    fn, after = g.body.fn, g.body.fn.new_block()
    incoming = []
    with ExitStack() as stack:
        for part, inside in tests:
            if inside is not None:
                here, beyond = fn.new_block(), fn.new_block()
                fn.branch(inside.text, here, beyond)
                fn.start_block(here)
            with g.body.scope():
                value = yield request(part)
            incoming.append((value, fn.block))
            fn.jump(after)
            if inside is not None:
                fn.start_block(beyond)
                # Values of this block do not dominate the block in which the branches merge.
                stack.enter_context(g.body.scope())
    fn.start_block(after)
    return g.body.merge(incoming)


# ---------------------------------------------------------------- indices known at run time


def start_operands(inst: Instruction, first: int) -> list[tuple[Instruction, Index]]:
    """Return, per dimension, operand and index of the start index of a dynamic slice or update.

    These are scalar operands from number `first`, one per dimension, or one vector in older texts.
    """
    starts = inst.operands[first:]
    if len(starts) == 1 and starts[0].array.dims:
        return [(starts[0], (dim,)) for dim in range(starts[0].array.dims[0])]
    return [(start, ()) for start in starts]


@rule("dynamic-slice")
def _dynamic_slice(g: ElementGenerator, frame: Frame, inst: Instruction, index: Index) -> Rule:
    operand = inst.operands[0]
    at = []
    for dim, (start, place) in enumerate(start_operands(inst, 1)):
        highest = operand.array.dims[dim] - inst.array.dims[dim]
        first: IndexValue = 0
        if highest:
            value = yield frame, start, (), place
            first = g.math.start_index(value, highest)
        at.append(g.math.add(index[dim], first))
    value = yield frame, operand, (), tuple(at)
    return value


@rule("dynamic-update-slice")
def _dynamic_update_slice(
    g: ElementGenerator, frame: Frame, inst: Instruction, index: Index
) -> Rule:
    """Take the update where the index is inside of it, else the operand.

    Starts are clamped, so that the update lies inside of the operand. In dimensions that the
    update covers there is nothing to compare.
    """
    operand, update = inst.operands[:2]
    conditions: list[Value] = []
    at: list[IndexValue] = []
    for dim, (start, place) in enumerate(start_operands(inst, 2)):
        size, count = operand.array.dims[dim], update.array.dims[dim]
        first: IndexValue = 0
        if size > count:
            value = yield frame, start, (), place
            first = g.math.start_index(value, size - count)
            position = g.math.sub(index[dim], first)
            conditions.append(g.math.compare("GE", position, 0))
            conditions.append(g.math.compare("LT", position, count))
            at.append(position)
        else:
            at.append(index[dim])
    value = yield from g.choose(
        g.body.all_of(conditions), (frame, update, (), tuple(at)), (frame, operand, (), index)
    )
    return value


@rule("gather")
def _gather(g: ElementGenerator, frame: Frame, inst: Instruction, index: Index) -> Rule:
    """Take the operand's element at window offset plus start index.

    The start vector is read from `indices` at the batch position; each component is clamped, so
    that the window lies inside of the operand. Source: XLA operation semantics, "Gather".
    """
    operand, indices = inst.operands
    if not operand.array.elements:
        # Empty windows may have a result that is not empty; in XLA, its elements are zero.
        return g.b.const(inst.array.dtype, 0)
    at = gather_window(inst, index)
    by_lane = []
    for dim, highest, place in gather_starts(inst, index):
        value = yield frame, indices, (), place
        if isinstance(value, VARYING):
            by_lane.append((dim, highest, value))
        else:
            at[dim] = g.math.add(at[dim], g.math.start_index(value, highest))
    if by_lane:
        return load_each(g, frame, operand, at, by_lane)
    value = yield frame, operand, (), tuple(at)
    return value


def gather_window(inst: Instruction, index: Index) -> list[IndexValue]:
    """Return the position in the operand of a gather of element `index`, without start indices."""
    a = inst.attributes
    batch = _gather_batch(inst, index)
    skipped = {*a.collapsed_slice_dims, *a.operand_batching_dims}
    window = iter(a.offset_dims)
    at: list[IndexValue] = [
        0 if dim in skipped else index[next(window)] for dim in range(inst.operands[0].array.rank)
    ]
    for dim, indices_dim in zip(
        a.operand_batching_dims, a.start_indices_batching_dims, strict=True
    ):
        at[dim] = batch[indices_dim - (indices_dim > a.index_vector_dim)]
    return at


def gather_starts(inst: Instruction, index: Index) -> list[tuple[int, int, Index]]:
    """Return the start indices of the window that has element `index` of a gather.

    Each is the dimension of the operand, the largest start index, and where it is in `indices`.
    Dimensions that windows fill are left out.
    """
    operand, indices = inst.operands
    a, batch = inst.attributes, _gather_batch(inst, index)
    return [
        (dim, highest, index_vector(indices, a.index_vector_dim, batch, component))
        for component, dim in enumerate(a.start_index_map)
        if (highest := operand.array.dims[dim] - a.slice_sizes[dim])
    ]


def _gather_batch(inst: Instruction, index: Index) -> list[IndexValue]:
    """Return the part of `index` that chooses a window."""
    return [index[d] for d in range(len(index)) if d not in inst.attributes.offset_dims]


def index_vector(
    indices: Instruction, index_vector_dim: int, batch: list[IndexValue], component: int
) -> Index:
    """Return the index in `indices` of component `component` of the index vector of `batch`."""
    if index_vector_dim == indices.array.rank:
        return tuple(batch)
    return (*batch[:index_vector_dim], component, *batch[index_vector_dim:])
