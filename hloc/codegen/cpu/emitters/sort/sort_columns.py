"""The rows to sort; strided rows are copied in groups.

Adjacent columns share cache lines: reading a single column loads every line for one element. So a
group of columns is copied into scratch memory, sorted, and copied back.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, partial
from math import prod

from hloc.codegen.builder.index import loop_order, same_physical_order
from hloc.codegen.builder.ir_array import IrArray
from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.cpu.emitters.routine_writer import RoutineWriter, argument
from hloc.codegen.kernels.context import KernelContext
from hloc.codegen.llvm.routine import Routines
from hloc.codegen.llvm.target import Target
from hloc.ir.instruction import Instruction
from hloc.lazy_dataclass import dataclass
from hloc.memory.heap import CACHE_LINE_BYTES
from hloc.shapes import array_leaves

_SHORT = 512
"""Most elements of a column whose lines stay in the L1 cache."""

_WAYS = ("in", "out")

_MOST_BYTES = 1 << 20
"""Most scratch memory for a group of columns."""


@dataclass(frozen=True, slots=True)
class Row:
    """A row in memory: address, stride in elements, bytes of an element."""

    pointer: str
    step: int
    element_bytes: int

    @staticmethod
    def of(k: KernelContext, array: IrArray, at: list[IndexValue], dim: int) -> Row:
        """Return the row along `dim` whose other indices are `at`."""
        first = k.math.value(k.math.linear(at, array.strides))
        pointer = k.b.address(array.pointer, array.dtype, first)
        return Row(pointer, array.strides[dim], array.dtype.storage_bytes)

    @property
    def arguments(self) -> str:
        return f"ptr {self.pointer}, i64 {self.step}"


def outer_dims(root: Instruction) -> list[int]:
    """Return the dimensions that enumerate the rows, outermost first."""
    dim = root.attributes.dimensions[0]
    return [d for d in loop_order(root.operands[0].array) if d != dim]


@dataclass(frozen=True, slots=True)
class Groups:
    """The groups of rows: `width` columns each, or single rows if that is 1.

    Attributes:
        outer: sizes of the dimensions that enumerate the rows, outermost first.
        pitches: bytes from one column to the next in scratch memory, for every operand.
    """

    outer: tuple[int, ...]
    width: int
    pitches: tuple[int, ...]

    @property
    def counted(self) -> tuple[int, ...]:
        """The sizes of the dimensions that enumerate the groups."""
        if self.width == 1:
            return self.outer
        return (*self.outer[:-1], -(-self.outer[-1] // self.width))

    @property
    def extent(self) -> int:
        """Number of groups."""
        return prod(self.counted)

    @property
    def scratch_bytes(self) -> int:
        """Bytes for a group of every operand and of every result."""
        return 2 * self.width * sum(self.pitches) if self.width > 1 else 0


def groups_of(root: Instruction) -> Groups:
    """Return the groups of the rows of a sort."""
    first, *others = (operand.array for operand in root.operands)
    dim = root.attributes.dimensions[0]
    outer = tuple(first.dims[d] for d in outer_dims(root))
    alone = Groups(outer, 1, ())
    shapes = [first, *others, *array_leaves(root.shape)]
    order = loop_order(first)
    if not outer or order[-1] == dim or first.dims[dim] < _SHORT:
        return alone
    if not all(same_physical_order(first, shape) for shape in shapes):
        return alone
    sizes = [operand.array.dtype.storage_bytes for operand in root.operands]
    # One extra cache line, so that the columns do not all map to the same cache sets.
    pitches = tuple((first.dims[dim] * n // CACHE_LINE_BYTES + 2) * CACHE_LINE_BYTES for n in sizes)
    width = min(max(CACHE_LINE_BYTES // max(sizes), 1), outer[-1])
    found = Groups(outer, width, pitches)
    return found if width > 1 and found.scratch_bytes <= _MOST_BYTES else alone


@contextmanager
def rows_to_sort(
    k: KernelContext, groups: Groups, sources: list[IrArray], scratch_offset: int
) -> Iterator[tuple[list[Row], list[Row]]]:
    """Run the region for every row; yields its rows of the operands and of the results.

    Args:
        k: the kernel.
        groups: the groups of rows; the part of the kernel is a range of groups.
        sources: arrays of the operands.
        scratch_offset: offset of the memory for groups.
    """
    dim, m = k.root.attributes.dimensions[0], k.math
    with k.body.loop(k.begin, k.end) as group:
        at: list[IndexValue] = [0] * len(k.root.operands[0].array.dims)
        order = outer_dims(k.root)
        for d, position in zip(order, m.delinear(group, groups.counted), strict=True):
            at[d] = position
        if groups.width == 1:
            here, there = (
                [Row.of(k, array, at, dim) for array in part] for part in (sources, k.outputs)
            )
            yield here, there
            return
        at[order[-1]] = first = m.mul(at[order[-1]], groups.width)
        count = m.minimum(groups.width, m.sub(groups.outer[-1], first))
        parts = _parts(k, groups, scratch_offset)
        half = len(sources)
        for array, part in zip(sources, parts[:half], strict=True):
            _copy(k, "in", Row.of(k, array, at, dim), part, count)
        with k.body.loop(0, count) as column:
            found = [_column(k, part, column) for part in parts]
            yield found[:half], found[half:]
        for array, part in zip(k.outputs, parts[half:], strict=True):
            _copy(k, "out", Row.of(k, array, at, dim), part, count)


@dataclass(frozen=True, slots=True)
class _Part:
    """Columns of one array in scratch memory."""

    pointer: str
    pitch: int
    element_bytes: int
    size: int


def _parts(k: KernelContext, groups: Groups, offset: int) -> list[_Part]:
    """Return the memory of a group: of all operands, then of all results."""
    found = []
    size = k.root.operands[0].array.dims[k.root.attributes.dimensions[0]]
    for _ in range(2):
        for operand, pitch in zip(k.root.operands, groups.pitches, strict=True):
            pointer = k.b.offset_pointer(k.scratch, offset).text
            found.append(_Part(pointer, pitch, operand.array.dtype.storage_bytes, size))
            offset += groups.width * pitch
    return found


def _column(k: KernelContext, part: _Part, column: IndexValue) -> Row:
    offset = k.math.value(k.math.mul(column, part.pitch)).text
    pointer = k.fn.value(f"getelementptr i8, ptr {part.pointer}, i64 {offset}")
    return Row(pointer, 1, part.element_bytes)


def _copy(k: KernelContext, way: str, row: Row, part: _Part, count: IndexValue) -> None:
    """Copy columns between an array and scratch memory."""
    routines = column_routines(row.element_bytes, k.target)
    k.use(routines)
    columns = k.math.value(count).text
    pitch = part.pitch // part.element_bytes
    sizes = f"ptr {part.pointer}, i64 {pitch}, i64 {columns}, i64 {part.size}"
    k.fn.line(f"call void @{routines.name}_{way}({row.arguments}, {sizes})")


def column_routines(element_bytes: int, target: Target) -> Routines:
    """Return the functions that copy adjacent columns from an array to lines, and back.

    in(array, array_step, lines, lines_step, columns, size), and out with the same parameters
    """
    name = f"sort_columns_{element_bytes}"
    declarations = tuple(
        f"declare void @{name}_{way}(ptr, i64, ptr, i64, i64, i64)" for way in _WAYS
    )
    return Routines(name, declarations, partial(_column_text, name, element_bytes, target))


@cache
def _column_text(name: str, element_bytes: int, target: Target) -> str:
    """Return the text of the two routines that copy columns into scratch memory, and back."""
    kind = f"i{8 * element_bytes}"
    align = min(element_bytes, 8)
    parameters = (
        *("ptr noalias %array", "i64 %array_step", "ptr noalias %lines", "i64 %lines_step"),
        *("i64 %columns", "i64 %size"),
    )
    texts = []
    for way in _WAYS:
        w = RoutineWriter(f"{name}_{way}", parameters, target)
        m = w.math
        with w.body.loop(0, argument("%size")) as i:
            first = m.mul(i, argument("%array_step"))
            with w.body.loop(0, argument("%columns")) as column:
                there = m.value(m.add(first, column)).text
                here = m.value(m.add(m.mul(column, argument("%lines_step")), i)).text
                ends = [
                    w.fn.value(f"getelementptr {kind}, ptr %array, i64 {there}"),
                    w.fn.value(f"getelementptr {kind}, ptr %lines, i64 {here}"),
                ]
                source, result = ends if way == "in" else ends[::-1]
                value = w.fn.value(f"load {kind}, ptr {source}, align {align}")
                w.fn.line(f"store {kind} {value}, ptr {result}, align {align}")
        texts.append(w.text())
    return "\n".join(texts)


def listed_routines(target: Target) -> Iterator[Routines]:
    """Yield the routines for elements of all sizes but the largest."""
    for element_bytes in (1, 2, 4, 8):
        yield column_routines(element_bytes, target)
