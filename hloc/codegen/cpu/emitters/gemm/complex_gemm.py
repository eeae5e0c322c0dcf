"""Gemms of complex numbers, as gemms of their real and imaginary parts.

The left-hand side and the result are read in place, as twice as many numbers per row. Each element
`b` of the right-hand side becomes a block of two rows and two columns of its parts:

    re b    im b
    -im b   re b

The first row meets the real parts of the left-hand side, the second the imaginary ones, so that the
gemm of the parts does the multiplications of complex numbers, with the same routines as any other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from math import prod

from hloc.codegen.builder.index import row_major_strides
from hloc.codegen.builder.ir_array import IrArray
from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.scalar_builder import pointer_value
from hloc.codegen.cpu.emitters.gemm.packed.packed_gemm import PackedGemm
from hloc.codegen.cpu.emitters.gemm.packed.packed_gemm_call import emit_packed
from hloc.codegen.cpu.emitters.gemm.packed.packed_gemm_choice import packed_gemm
from hloc.codegen.cpu.emitters.gemm.unpacked.small_gemm import SmallGemm, emit_small, small_gemm
from hloc.codegen.cpu.emitters.routine_writer import (
    RoutineWriter,
    argument,
    named_parameters,
    routine_unit,
)
from hloc.codegen.cpu.emitters.vector_loads import load_lanes, store_lanes, vector_type
from hloc.codegen.kernels.context import KernelContext
from hloc.codegen.kernels.gemm_problem import Axis, GemmProblem, merged, swapped
from hloc.codegen.llvm.routine import Routines
from hloc.codegen.llvm.target import Target
from hloc.dtypes import F32, F64, DType, component_of
from hloc.lazy_dataclass import dataclass
from hloc.memory.heap import aligned_bytes

_PART_TYPES = (F32, F64)

MAX_BLOCKS_BYTES = 1 << 24
"""Most memory for the blocks of a right-hand side, which take twice its size."""

MIN_ROWS = 24
"""Fewest rows of a packed gemm for which writing the blocks pays.

Run time relative to loops over panels: 0.8 for 64x64x64 of c64, 0.95 for 24x64x64, 1.2 for
16x200x200; 0.94 for 24x100x24 of c128, 1.4 for 13x200x24. Small gemms: 0.96 for 4x32x32 of c64, 1.0
for 8x8x8, 0.6 for 64 products of 12x12x12, 0.8 for 16x16x16 of c128, 1.3 for 1x64x48 of c64 (4.1
us; XLA:CPU takes 24). They compile in a fifth to a third of the time.
"""

_PARAMETERS = named_parameters("from", "to", "rows row_stride count stride distance")


@dataclass(frozen=True, slots=True)
class ComplexGemm:
    """A gemm of complex numbers.

    Attributes:
        problem: in complex numbers, with contiguous columns in the result.
        exchanged: the two sides were exchanged.
        gemm: that of the parts; its right-hand side are the blocks.
        part: type of the parts.
    """

    problem: GemmProblem
    exchanged: bool
    gemm: PackedGemm | SmallGemm
    part: DType

    @property
    def is_by_batch(self) -> bool:
        """True if threads share the first batch axis, so that each makes the blocks it reads."""
        is_shared = isinstance(self.gemm, SmallGemm) or self.gemm.shared == "outer"
        return bool(self.problem.batch) and is_shared

    @property
    def blocks_bytes(self) -> int:
        """Size of all blocks."""
        return aligned_bytes(prod(_block_dims(self.problem)) * self.part.storage_bytes)

    @property
    def shared_blocks_bytes(self) -> int:
        """Bytes of blocks that every thread writes."""
        return 0 if self.is_by_batch else self.blocks_bytes


def packed_complex_gemm(
    p: GemmProblem, sources: tuple[DType, DType], result: DType
) -> ComplexGemm | None:
    """Return a large gemm of complex numbers; None for other types, and if it is not packed."""
    return _complex_gemm(p, sources, result, partial(packed_gemm, fewest_rows=MIN_ROWS))


def small_complex_gemm(
    p: GemmProblem, sources: tuple[DType, DType], result: DType
) -> ComplexGemm | None:
    """Return a small gemm of complex numbers; None for other types and forms."""
    found = _complex_gemm(p, sources, result, small_gemm)
    return None if found is None or found.exchanged else found


def _complex_gemm(
    p: GemmProblem,
    sources: tuple[DType, DType],
    result: DType,
    gemm_of: Callable[[GemmProblem, tuple[DType, DType], DType], PackedGemm | SmallGemm | None],
) -> ComplexGemm | None:
    """Return the gemm of the parts, None if it does not exist or its blocks are too large.

    `gemm_of` chooses the gemm of real numbers. Sides are exchanged if the rows of the result are
    contiguous instead of its columns.
    """
    if not result.is_complex or sources != (result, result):
        return None
    exchanged = not any(axis.out == 1 for axis in p.columns)
    p = swapped(p) if exchanged else p
    if not p.contracted or not any(axis.out == 1 for axis in p.columns):
        return None  # a single step of k is an outer product
    part = component_of(result)
    gemm = gemm_of(_problem_of_parts(p), (part, part), part)
    if gemm is None:
        return None
    found = ComplexGemm(p, exchanged, gemm, part)
    return found if found.blocks_bytes <= MAX_BLOCKS_BYTES else None


def _block_dims(p: GemmProblem) -> list[int]:
    """Return the dimensions of the array of all blocks: batches, k and its part, columns."""
    sizes = [[axis.size for axis in axes] for axes in (p.batch, p.contracted, p.columns)]
    return [*sizes[0], *sizes[1], 2, *sizes[2], 2]


def _problem_of_parts(p: GemmProblem) -> GemmProblem:
    """Return the loops of the gemm of the parts; batches stay apart, since threads share them."""
    strides = iter(row_major_strides(_block_dims(p)))
    batch = [_of_parts(axis, next(strides)) for axis in p.batch]
    contracted = [_of_parts(axis, next(strides)) for axis in p.contracted]
    contracted.append(Axis(2, 1, next(strides), 0))
    columns = [_of_parts(axis, next(strides)) for axis in p.columns]
    columns.append(Axis(2, 0, next(strides), 1))
    rows = [_of_parts(axis, 0) for axis in p.rows]
    return GemmProblem(tuple(batch), merged(rows), merged(columns), merged(contracted))


def _of_parts(axis: Axis, block_stride: int) -> Axis:
    """Return an axis of complex numbers as one of their parts and of the blocks."""
    return Axis(axis.size, 2 * axis.lhs, block_stride, 2 * axis.out)


def emit_complex(
    k: KernelContext,
    p: ComplexGemm,
    lhs: IrArray,
    rhs: IrArray,
    scratch_offset: int,
    *,
    shared: bool = True,
) -> None:
    """Write the blocks and the call of the gemm.

    The kernel's extent is that of a packed gemm's pieces, else of the outermost loop if `shared`.
    """
    if p.exchanged:
        lhs, rhs = rhs, lhs
    blocks = k.scratch_array(scratch_offset, p.part, tuple(_block_dims(p.problem)))
    _write_blocks(k, p, rhs, blocks)
    left, out = parts_of(lhs, p.part), parts_of(k.output, p.part)
    if isinstance(p.gemm, SmallGemm):
        emit_small(k, p.gemm, left, blocks, out, shared=shared)
    else:
        emit_packed(k, p.gemm, left, blocks, scratch_offset + p.blocks_bytes)


def parts_of(array: IrArray, part: DType) -> IrArray:
    """Return an array of complex numbers as one of their parts, the last dimension."""
    strides = (*(2 * stride for stride in array.strides), 1)
    return IrArray(array.pointer, part, (*array.dims, 2), strides)


def _write_blocks(k: KernelContext, p: ComplexGemm, rhs: IrArray, blocks: IrArray) -> None:
    """Write the blocks of all elements, or of the batches of the kernel's part."""
    batch, columns = p.problem.batch, p.problem.columns
    *contracted, depth = p.problem.contracted
    *slow, line = columns
    axes = (*batch, *contracted, *slow)
    before = len(batch) + len(contracted)
    strides = [*blocks.strides[:before], *blocks.strides[before + 2 :]]
    routine = block_routine(p.part, line.rhs == 1, k.target)
    k.use(routine)
    part = (k.begin, k.end) if p.is_by_batch else None
    with k.body.nest([axis.size for axis in axes], range(len(axes)), part) as at:
        source = k.math.linear(at, [axis.rhs for axis in axes])
        target = k.math.linear(at, strides[: len(axes)])
        places = [
            k.b.address(array.pointer, array.dtype, k.math.value(place))
            for array, place in ((rhs, source), (blocks, target))
        ]
        numbers = (depth.size, depth.rhs, line.size, line.rhs, blocks.strides[before + 1])
        k.b.call_routine(routine.name, places, *numbers)


@cache
def block_routine(
    part: DType, contiguous: bool, target: Target, conjugates: bool = False
) -> Routines:
    """Return the routine that writes the blocks of some rows of `count` elements each.

    `conjugates`: the blocks are those of the conjugate elements.

        complex_blocks(from, to, rows, row_stride, count, stride, distance)

    Strides are those of the elements; `distance` is that of rows of blocks, in parts.
    """
    name = f"complex_blocks_{part}{'_contiguous' * contiguous}{'_conjugate' * conjugates}"
    lanes = target.vector_bytes // part.storage_bytes
    return routine_unit(
        name,
        _PARAMETERS,
        lambda w: _write_rows(w, part, lanes if contiguous else 0, conjugates),
        target,
    )


def _write_rows(w: RoutineWriter, part: DType, lanes: int, conjugates: bool) -> None:
    """Write the blocks of `lanes // 2` contiguous elements at a time, the others one by one."""
    count, m = argument("%count"), w.math
    distance = m.mul(argument("%distance"), part.storage_bytes)
    whole = m.sub(count, m.rem(count, lanes // 2)) if lanes else 0
    with w.body.loop(0, argument("%rows")) as row:
        bytes_ = 2 * part.storage_bytes
        source = m.moved("%from", m.mul(m.mul(row, argument("%row_stride")), bytes_))
        upper = m.moved("%to", m.mul(m.mul(row, 2), distance))
        lower = m.moved(upper, distance)
        if lanes:
            with w.body.loop(0, whole, lanes // 2) as first:
                places = (source, upper, lower)
                _write_vector(w, part, lanes, places, m.mul(first, bytes_), conjugates)
        with w.body.loop(whole, count) as number:
            place = m.mul(m.mul(number, argument("%stride")), 2)
            start = m.mul(number, 2)
            real, imaginary = (
                w.b.load(pointer_value(source), part, m.add(place, i)) for i in range(2)
            )
            if conjugates:
                imaginary = w.b.fneg(imaginary)
            turned = (w.b.fneg(imaginary), real)
            for to, pair in ((upper, (real, imaginary)), (lower, turned)):
                for i, value in enumerate(pair):
                    w.b.store(pointer_value(to), m.add(start, i), value)


def _write_vector(
    w: RoutineWriter,
    part: DType,
    lanes: int,
    rows: tuple[str, str, str],
    offset: IndexValue,
    conjugates: bool,
) -> None:
    """Write both rows of blocks of one vector; `rows` begin with that of the elements."""
    kind = vector_type(part, lanes)
    source, *targets = (w.math.moved(row, offset) for row in rows)
    value = load_lanes(w, source, part, lanes, "")

    def picked(x: str, order: Iterable[int]) -> str:
        """Return lanes of `x`, then of its negative."""
        negated = w.fn.value(f"fneg {kind} {x}")
        mask = ", ".join(f"i32 {number}" for number in order)
        text = f"shufflevector {kind} {x}, {kind} {negated}, <{lanes} x i32> <{mask}>"
        return w.fn.value(text)

    if conjugates:
        value = picked(value, (lane + lanes * (lane % 2) for lane in range(lanes)))
    turned = picked(value, (lane - 1 if lane % 2 else lanes + lane + 1 for lane in range(lanes)))
    for target, result in zip(targets, (value, turned), strict=True):
        store_lanes(w, target, part, lanes, "", result)


def listed_routines(target: Target) -> Iterator[Routines]:
    """Yield the routines for both types of parts."""
    for part in _PART_TYPES:
        for contiguous in (False, True):
            yield block_routine(part, contiguous, target)
        yield block_routine(part, True, target, conjugates=True)
