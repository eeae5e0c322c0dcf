"""Copies of arrays to where their elements have other strides, as routines.

    padded(to, from, numbers, outer)

`numbers` are: the elements per line and their stride; then, slowest dimension first, the size and
the strides in array and copy of every dimension that counts lines. `outer` is the size of the
slowest of them.

    turned(to, from, numbers, outer)

Where another dimension is the fastest one in the copy, blocks of `SIDE` x `SIDE` elements are
transposed in registers; the last ones overlap others. `numbers` are the elements along the fastest
dimension of the array and their stride in the copy, those along the fastest dimension of the copy
and their stride in the array, then the other dimensions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from itertools import product

from hloc.codegen.builder.ir_array import IrArray
from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.scalar_builder import pointer_value
from hloc.codegen.builder.values import Value
from hloc.codegen.cpu.emitters.gemm.micro_kernels.bf16_parts import PART_STEPS, line_words, parts_of
from hloc.codegen.cpu.emitters.gemm.packed.packed_gemm import SPLIT_BYTES
from hloc.codegen.cpu.emitters.gemm.packed.packed_gemm_call import number_table
from hloc.codegen.cpu.emitters.gemm.packing.packing import transposed
from hloc.codegen.cpu.emitters.routine_writer import RoutineWriter, argument, routine_unit
from hloc.codegen.cpu.emitters.vector_loads import load_as, store_as, vector_type
from hloc.codegen.kernels.context import KernelContext
from hloc.codegen.kernels.gemm_problem import Axis, joined
from hloc.codegen.llvm.routine import Routines
from hloc.codegen.llvm.target import Target
from hloc.dtypes import BF16, F16, F32, U8, U16, U32, U64, DType
from hloc.lazy_dataclass import dataclass

_LISTED_LOOPS = 5
"""Most loops of the listed routines; few programs need more."""

_ELEMENTS: dict[int, DType] = {1: U8, 2: U16, 4: U32, 8: U64}
_HEAD, _TURNED_HEAD, _BLOCK_BYTES = 2, 4, 64

SIDE = 8
"""Rows and columns of a block; fewer elements along either dimension are copied one by one."""

_PARAMETERS = ("ptr noalias %to", "ptr noalias readonly %from", "ptr %numbers", "i64 %outer")


@dataclass(frozen=True, slots=True)
class Lines:
    """A copy of an array as lines of `count` elements with stride `distance`, by `axes`.

    Where it is `turned`, these are the elements along the fastest dimension of the copy, and their
    stride in the array.
    """

    count: int
    distance: int
    axes: tuple[Axis, ...]
    turned: tuple[int, int] | None = None

    @property
    def numbers(self) -> list[int]:
        """The integer arguments of the routine."""
        rest = [x for axis in self.axes for x in (axis.size, axis.lhs, axis.out)]
        return [self.count, self.distance, *(self.turned or ()), *rest]


def lines_of(
    dims: Sequence[int], source: Sequence[int], target: Sequence[int], apart: int = 0
) -> Lines:
    """Return the longest lines of an array, given its strides in source and target.

    Lines do not run along the `apart` slowest dimensions of the copy of more than one element,
    which come first.
    """
    sizes = zip(dims, source, target, strict=True)
    axes = [Axis(size, lhs, 0, out) for size, lhs, out in sizes if size != 1]
    axes.sort(key=lambda axis: -axis.out)
    shared, inner = axes[:apart], list(joined(axes[apart:]))
    inner.sort(key=lambda axis: -axis.lhs)
    line = next((axis for axis in inner if axis.lhs == 1), Axis(1, 1, 0, 1))
    of_copy = next((axis for axis in inner if axis.out == 1), line)
    turned = of_copy is not line and min(line.size, of_copy.size) >= SIDE
    within = (line, of_copy) if turned else (line,)
    return Lines(
        line.size,
        line.out,
        (*shared, *(axis for axis in inner if axis not in within)),
        (of_copy.size, of_copy.lhs) if turned else None,
    )


def copy_lines(
    k: KernelContext,
    source: IrArray,
    target: IrArray,
    *,
    outer: IndexValue | None = None,
    splits: bool = False,
) -> None:
    """Copy `source` into `target`.

    Args:
        k: the kernel.
        source: in memory.
        target: its strides are those of the copied elements, which are of its type: that of the
            source, or f32 for a narrower one.
        outer: how much of the slowest dimension of more than one element is copied; None for all.
        splits: the copy holds f32 in parts of bf16: `PART_STEPS` of each part, one after the other.
            Lines are multiples of `PART_STEPS`, and those of the array.
    """
    lines = lines_of(source.dims, source.strides, target.strides, apart=0 if outer is None else 1)
    loops = len(lines.axes)
    if lines.turned:
        assert not splits
        routine = turning_routine(source.dtype, target.dtype, loops, k.target)
    elif splits:
        routine = splitting_routine(loops, k.target)
    elif source.dtype is not target.dtype:
        routine = widening_routine(source.dtype, loops, k.target)
    else:
        routine = padding_routine(source.dtype.storage_bytes, loops, k.target)
    k.use(routine)
    if outer is None:
        outer = lines.axes[0].size if lines.axes else 1
    table = number_table(k, lines.numbers)
    arrays = target.pointer, source.pointer, table
    k.b.call_routine(routine.name, arrays, k.math.value(outer))


@cache
def padding_routine(element_bytes: int, loops: int, target: Target) -> Routines:
    """Return the routine for elements of 1, 2, 4 or 8 bytes, with `loops` loops over lines."""
    name = f"padded_{element_bytes}_{loops}"
    return routine_unit(name, _PARAMETERS, lambda w: _write(w, element_bytes, loops), target)


@cache
def splitting_routine(loops: int, target: Target) -> Routines:
    """Return the same for f32 that are split into parts of bf16."""
    return routine_unit(f"padded_parts_{loops}", _PARAMETERS, lambda w: _split(w, loops), target)


@cache
def widening_routine(source: DType, loops: int, target: Target) -> Routines:
    """Return the same for bf16 or f16 that become f32."""
    name = f"padded_{source.name}_{loops}"
    return routine_unit(name, _PARAMETERS, lambda w: _widen(w, source, loops), target)


def turning_routine(source: DType, wanted: DType, loops: int, target: Target) -> Routines:
    """Return the routine that transposes blocks of `source`, which may become `wanted`, f32."""
    if source is wanted:
        source = wanted = _ELEMENTS[source.storage_bytes]
    return _turning_routine(source, wanted, loops, target)


@cache
def _turning_routine(source: DType, wanted: DType, loops: int, target: Target) -> Routines:
    name = f"turned_{source.name}_{wanted.name}_{loops}"
    return routine_unit(name, _PARAMETERS, lambda w: _turn(w, source, wanted, loops), target)


def _write(w: RoutineWriter, element_bytes: int, loops: int) -> None:
    math, dtype = w.math, _ELEMENTS[element_bytes]
    count, distance = (w.offset("%numbers", i) for i in range(_HEAD))
    is_run = math.compare("EQ", distance, 1)
    with _all_lines(w, loops) as (source, place):
        line = pointer_value(w.b.address(pointer_value("%from"), dtype, math.value(source)))
        to = pointer_value(w.b.address(pointer_value("%to"), dtype, math.value(place)))
        with w.body.when(is_run):
            _copy_run(w, to, line, math.mul(count, element_bytes))
        is_apart = w.b.not_(is_run)
        with w.body.when(is_apart), w.body.loop(0, count) as i:
            w.b.store(to, math.mul(i, distance), w.b.load(line, dtype, i))


def _turn(w: RoutineWriter, source: DType, wanted: DType, loops: int) -> None:
    """Write the copy of blocks that are transposed."""
    math, kind = w.math, vector_type(wanted, SIDE)
    count, distance, width, apart = (w.offset("%numbers", i) for i in range(_TURNED_HEAD))
    with (
        _all_lines(w, loops, _TURNED_HEAD) as (first, place),
        w.body.loop(0, width, SIDE) as column,
        w.body.loop(0, count, SIDE) as row,
    ):
        column = math.minimum(column, math.sub(width, SIDE))
        row = math.minimum(row, math.sub(count, SIDE))
        begin = math.add(first, row)
        lines = [
            load_as(w, "%from", source, wanted, SIDE, math.add(begin, math.mul(apart, place)))
            for place in (math.add(column, i) for i in range(SIDE))
        ]
        begin = math.add(place, column)
        for i, line in enumerate(transposed(w, lines, kind)):
            at = math.add(begin, math.mul(distance, math.add(row, i)))
            store_as(w, "%to", wanted, wanted, SIDE, at, line)


@contextmanager
def _all_lines(
    w: RoutineWriter, loops: int, head: int = _HEAD
) -> Iterator[tuple[IndexValue, IndexValue]]:
    """Run the region for all lines; yields the first element of each in the array and the copy.

    The routine has `head` numbers before those of the loops.
    """
    math = w.math
    source: IndexValue = 0
    place: IndexValue = 0
    with ExitStack() as stack:
        for number in range(loops):
            length, step, apart = (
                w.offset("%numbers", head + 3 * number + part) for part in range(3)
            )
            i = stack.enter_context(w.body.loop(0, length if number else argument("%outer")))
            source = math.add(source, math.mul(i, step))
            place = math.add(place, math.mul(i, apart))
        yield source, place


def _split(w: RoutineWriter, loops: int) -> None:
    """Write the copy of lines whose elements are split into parts."""
    math, fn = w.math, w.fn
    count, kind = w.offset("%numbers", 0), f"<{PART_STEPS} x i32>"
    with _all_lines(w, loops) as (source, place), w.body.loop(0, count, PART_STEPS) as first:
        at = math.moved("%from", math.mul(math.add(source, first), F32.storage_bytes))
        elements = fn.value(f"load {kind}, ptr {at}, align {F32.storage_bytes}")
        to = math.moved("%to", math.mul(math.add(place, first), SPLIT_BYTES))
        for number, part in enumerate(parts_of(w, elements, PART_STEPS)):
            words = line_words(w, part, PART_STEPS)
            line = math.moved(to, number * _BLOCK_BYTES)
            fn.line(f"store <{PART_STEPS // 2} x i32> {words}, ptr {line}, align {_BLOCK_BYTES}")


def _widen(w: RoutineWriter, source: DType, loops: int) -> None:
    """Write the copy of lines whose elements are widened, in vectors if they are contiguous."""
    math, lanes = w.math, w.b.target.vector_bits // F32.bits
    count, distance = (w.offset("%numbers", i) for i in range(_HEAD))
    whole = math.mul(math.div(count, lanes), lanes)
    run = w.b.select(math.compare("EQ", distance, 1), math.value(whole), math.value(0))
    with _all_lines(w, loops) as (first, place):
        with w.body.loop(0, run, lanes) as i:
            vector = load_as(w, "%from", source, F32, lanes, math.add(first, i))
            store_as(w, "%to", F32, F32, lanes, math.add(place, i), vector)
        with w.body.loop(run, count) as i:
            element = w.b.load(pointer_value("%from"), source, math.add(first, i))
            at = math.add(place, math.mul(i, distance))
            w.b.store(pointer_value("%to"), at, w.b.convert(element, F32))


def _copy_run(w: RoutineWriter, to: Value, line: Value, size: IndexValue) -> None:
    """Copy contiguous bytes: blocks without a call, which takes as long as one of them."""
    math = w.math

    def copy(place: IndexValue, size_text: str) -> None:
        target, source = (w.b.address(x, U8, math.value(place)) for x in (to, line))
        w.b.copy(pointer_value(target), pointer_value(source), size_text)

    whole = math.mul(math.div(size, _BLOCK_BYTES), _BLOCK_BYTES)
    with w.body.loop(0, whole, _BLOCK_BYTES) as place:
        copy(place, str(_BLOCK_BYTES))
    rest = math.sub(size, whole)
    with w.body.when(math.compare("NE", rest, 0)):
        copy(whole, math.value(rest).text)


def listed_routines(target: Target) -> Iterator[Routines]:
    """Yield the routines that programs are likely to call."""
    for element_bytes in _ELEMENTS:
        for loops in range(_LISTED_LOOPS):
            yield padding_routine(element_bytes, loops, target)
            dtype = _ELEMENTS[element_bytes]
            yield turning_routine(dtype, dtype, loops, target)
    for source, loops in product((BF16, F16), range(_LISTED_LOOPS)):
        yield widening_routine(source, loops, target)
        yield turning_routine(source, F32, loops, target)
    if target.has("amx-bf16"):
        for loops in range(_LISTED_LOOPS):
            yield splitting_routine(loops, target)
