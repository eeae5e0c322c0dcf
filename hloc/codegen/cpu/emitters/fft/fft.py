"""Fourier transforms of the last one to three dimensions, along each of them in turn.

Several rows are transformed at once, one per lane of a vector: they are interleaved in scratch
memory, with real and imaginary parts in separate arrays, and run through Stockham's passes, one per
factor of the length. A real row of even length is transformed as a complex row of half the length,
from and to its spectrum.
Lengths with a prime factor above 255 are computed as convolutions by transforms of smoother lengths
(Bluestein); the longest of them, whose passes would be quadratic, are refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from math import prod

from hloc.codegen.builder.index import Index, loop_order
from hloc.codegen.builder.ir_array import IrArray
from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.cpu.emitters.fft.interleaved_rows import Rows
from hloc.codegen.cpu.emitters.fft.row_calls import RowPlace
from hloc.codegen.cpu.emitters.fft.row_passes import RowPasses
from hloc.codegen.cpu.emitters.fft.spectrum_routines import mirror_routine, pairs_spectrum_routine
from hloc.codegen.kernels.context import KernelContext, root_of
from hloc.codegen.kernels.emitter import KernelPlan
from hloc.codegen.kernels.fft_plan import (
    Axis,
    Place,
    axes_of,
    complex_dtype,
    is_convolved,
    is_transform,
    lane_count,
    needs_spectrum,
    row_bytes,
    row_element,
    table_bytes,
    write_element,
)
from hloc.codegen.llvm.routine import FINAL_FORM
from hloc.ir.instruction import Instruction
from hloc.lazy_dataclass import dataclass

_PIECE = 16
"""Rows that one thread transforms at a time: a multiple of the lanes of every machine."""

_BLOCK = 16
"""Elements of a row that are loaded or stored before those of the next row."""

_VECTORS, _COLUMNS, _STRIDED, _ELEMENTS = "vectors", "columns", "strided", "elements"
"""Ways to load and store rows: contiguous ones by blocks of vectors (`row_transfer`), those that
lie side by side by vectors of all rows (`column_transfer`), others whose elements have one stride
by a routine for single elements, what is left by code of this kernel."""


def plan(inst: Instruction) -> KernelPlan[KernelContext] | None:
    """Plan a transform: scratch memory for two sets of rows, a table, perhaps a spectrum.

    Threads share the rows unless more than one dimension is transformed; every part computes the
    table.
    """
    if not is_transform(inst):
        return None
    root = root_of(inst)
    operand, table = root.operands[0].array, table_bytes(root)
    scratch = row_bytes(root, lane_count(root)) + table
    if needs_spectrum(root):
        scratch += operand.elements * complex_dtype(root).storage_bytes
    if operand.elements == 0:
        return KernelPlan(_emit_zeros, 1, scratch, table)
    pieces = 1
    if len(root.attributes.fft_length) == 1 and root.array.elements:
        pieces = -(-operand.elements // operand.dims[-1] // _PIECE)
    return KernelPlan(partial(_emit, pieces > 1), pieces, scratch, table)


def _emit_zeros(k: KernelContext) -> None:
    """Write zeros, the transforms of empty rows."""
    zero = k.b.const_element(k.output.dtype, k.output.dtype.numpy.type(0))
    with k.body.nest(k.output.dims, range(len(k.output.dims))) as at:
        k.output.store(k.math, tuple(at), zero)


def _emit(is_shared: bool, k: KernelContext) -> None:
    """Transform one dimension after another; threads may share the rows of the only one."""
    writer = _Writer(k, is_shared)
    operand = k.root.operands[0]
    arrays: dict[str, Instruction | IrArray] = {"operand": operand, "result": k.output}
    if needs_spectrum(k.root):
        offset = row_bytes(k.root, writer.lanes) + table_bytes(k.root)
        arrays["spectrum"] = k.scratch_array(offset, writer.dtype, operand.array.dims)
    for axis in axes_of(k.root):
        target = arrays[axis.target]
        assert isinstance(target, IrArray)
        writer.along(axis, arrays[axis.source], target)
    if writer.all_vectors:
        k.level = 0 if writer.all_calls else FINAL_FORM


@dataclass(frozen=True, slots=True)
class _RowPlan:
    """How the rows along one dimension are read and written.

    Attributes:
        a: the dimension; `others` are the other ones, slowest first.
        source, target: what is read, and the array that is written.
        array: the source, if it is an array in memory.
        count: number of rows.
        in_order: the elements of a row are neighbours.
        whole: every lane always has a row; some rows are transformed twice.
        halves: pairs of elements of a real row are read as complex numbers.
        joins: a real row is the result of a transform of half its length.
        load, store: `_VECTORS`, `_COLUMNS`, `_STRIDED` or `_ELEMENTS`.
    """

    a: Axis
    others: list[int]
    source: Instruction | IrArray
    target: IrArray
    array: IrArray | None
    count: int
    in_order: bool
    whole: bool
    halves: bool
    joins: bool
    load: str
    store: str

    @property
    def size(self) -> int:
        """Length of the transforms."""
        return self.a.n // 2 if self.halves or self.joins else self.a.n


class _Writer(RowPasses):
    """Writes the transforms of whole arrays.

    Attributes:
        all_vectors: the code so far has nothing that LLVM should vectorise.
    """

    def __init__(self, k: KernelContext, is_shared: bool) -> None:
        super().__init__(k)
        self.dtype, self.is_shared = complex_dtype(k.root), is_shared
        self.all_vectors = True

    def along(self, a: Axis, source: Instruction | IrArray, target: IrArray) -> None:
        """Transform all rows of one dimension; elements outside `target` are not written."""
        p = self._row_plan(a, source, target)
        if p.halves or p.joins or not is_convolved(a.n):
            self.tabulate(a.n)
        self.row_dims = p.others
        self.all_vectors = self.all_vectors and _ELEMENTS not in (p.load, p.store)
        with self._groups(p) as (first, width):

            def place(lane: IndexValue) -> Place:
                return partial(self._index, a, p.others, self.math.add(first, lane))

            if not p.whole and self.lanes > 1:
                self._clear_lanes(a.n, width)
            self._load(p, place, width)
            if p.joins:
                pointers = (*self.parts_of(self.rows[0]), *self.table)
                self.call(pairs_spectrum_routine(self.form), pointers, p.size)
            elif a.dims[a.axis] < a.n and p.load != _ELEMENTS:
                parts = self.parts_of(self.rows[0])
                self.call(mirror_routine(self.form), parts, a.dims[a.axis], a.n)
            done = self.passes(p.size, a.n)
            if p.halves:
                done = self.real_spectrum(done, a.n)
            self._store(p, done, place, width)

    def _row_plan(self, a: Axis, source: Instruction | IrArray, target: IrArray) -> _RowPlan:
        """Return how rows along one axis go from `source` through the passes to `target`.

        `source` is an instruction if its elements are still to be computed or converted.
        """
        dims, axis, n = a.dims, a.axis, a.n
        order, halves = [d for d in range(len(dims)) if dims[d] != 1], False
        if isinstance(source, Instruction):
            order = loop_order(source.array)
            halves = not source.array.dtype.is_complex and n % 2 == 0
        array = source if isinstance(source, IrArray) else self.k.plain_array(source)
        in_place = array is source or any(x is not None for x in self.k.aliased)
        others = [d for d in order if d != axis]
        count = prod(dims[d] for d in others)
        # Some rows are transformed twice rather than fewer at a time.
        whole = count % self.lanes == 0 or (count >= self.lanes and not in_place)
        return _RowPlan(
            a,
            others,
            source,
            target,
            array,
            count,
            in_order=not order or order[-1] == axis,
            whole=whole,
            halves=halves,
            joins=array is not None and self._joins(array, target, axis, n),
            load=self._way(array, (axis, *others), dims[axis], whole),
            store=self._way(target, (axis, *others), target.dims[axis], whole),
        )

    def _way(self, array: IrArray | None, order: Sequence[int], size: int, whole: bool) -> str:
        """Return how rows of `size` elements of an array are loaded or stored.

        `order` is their dimension, then those that tell rows apart.
        """
        axis, *others = order
        if array is None:
            return _ELEMENTS
        if whole and self.has_vectors(array, axis, size):
            return _VECTORS
        if self.has_columns(array, axis, size, others):
            return _COLUMNS
        return _STRIDED if self.is_strided(array, axis, size) else _ELEMENTS

    def _joins(self, array: IrArray, target: IrArray, axis: int, n: int) -> bool:
        """True if a real row of length n is the result of a transform of half the length."""
        is_even = not target.dtype.is_complex and n % 2 == 0
        return (
            is_even
            and self.is_strided(array, axis, n // 2 + 1)
            and self.is_strided(target, axis, n)
        )

    @contextmanager
    def _groups(self, p: _RowPlan) -> Iterator[tuple[IndexValue, IndexValue]]:
        """Run the region for some rows at a time; yields the first one and their number."""
        m = self.math
        rows: tuple[IndexValue, IndexValue] = (0, p.count)
        if self.is_shared:
            rows = m.mul(self.k.begin, _PIECE), m.minimum(m.mul(self.k.end, _PIECE), p.count)
        with self.body.loop(*rows, self.lanes) as first:
            if not p.whole:
                yield first, m.minimum(self.lanes, m.sub(p.count, first))
            elif p.count % self.lanes:
                yield m.minimum(first, p.count - self.lanes), self.lanes
            else:
                yield first, self.lanes

    def _index(self, a: Axis, others: Sequence[int], row: IndexValue, i: IndexValue) -> Index:
        """Return the index of element i of a row along the dimensions `others`."""
        index = self.math.along(row, a.dims, others)
        index[a.axis] = i
        return tuple(index)

    # ---------------------------------------------------------------- rows in and out

    def _clear_lanes(self, n: int, width: IndexValue) -> None:
        """Write zeros to rows of `n` elements if lanes after `width` have no row.

        Memory may hold subnormals, which are slow: 0.06 of the time for 10 rows of 37 of f32.
        """
        with self.body.when(self.math.compare("LT", width, self.lanes)):
            self.clear(self.rows[0], 0, n)

    def _load(self, p: _RowPlan, place: RowPlace, width: IndexValue) -> None:
        """Load `width` rows into scratch memory."""
        if p.load == _ELEMENTS or p.array is None:
            with self._elements(p.size, width, p.in_order) as (i, lane):
                self._load_element(p, place, i, lane)
        elif p.load == _VECTORS:
            self.vectors_in(p.array, place, p.a, p.halves)
        elif p.load == _COLUMNS:
            are_beside = self.are_beside(p.array, place, width)
            with self.body.when(are_beside):
                self.columns_in(p.array, place, p.a.axis)
            with self.body.when(self.b.not_(are_beside)):
                self.gathered(p.array, place, p.a.axis, width, p.halves)
        else:
            self.gathered(p.array, place, p.a.axis, width, p.halves)

    def _store(self, p: _RowPlan, rows: Rows, place: RowPlace, width: IndexValue) -> None:
        """Store `width` rows of results."""
        target, along = p.target, (p.a.axis, p.a.n)
        if p.store == _VECTORS:
            self.vectors_out(rows, target, place, along, p.joins)
        elif p.store == _COLUMNS:
            are_beside = self.are_beside(target, place, width)
            with self.body.when(are_beside):
                self.columns_out(rows, target, place, along)
            with self.body.when(self.b.not_(are_beside)):
                self.scattered(rows, target, place, along, width, p.joins)
        elif p.store == _STRIDED:
            self.scattered(rows, target, place, along, width, p.joins)
        else:
            with self._elements(target.dims[p.a.axis], width, p.in_order) as (i, lane):
                self._store_element(p, rows, place, i, lane)

    @contextmanager
    def _elements(
        self, size: int, width: IndexValue, in_order: bool
    ) -> Iterator[tuple[IndexValue, IndexValue]]:
        """Run the region for every element of the rows; `in_order` if rows are contiguous."""
        body, m = self.body, self.math
        if not in_order:
            with body.loop(0, size) as i, body.loop(0, width) as lane:
                yield i, lane
            return
        with (
            body.loop(0, size, _BLOCK) as first,
            body.loop(0, width) as lane,
            body.loop(first, m.minimum(m.add(first, _BLOCK), size)) as i,
        ):
            yield i, lane

    def _load_element(self, p: _RowPlan, place: RowPlace, i: IndexValue, lane: IndexValue) -> None:
        """Load element i of a row, or elements 2i and 2i + 1 as one complex number."""
        b, m, rows = self.b, self.math, self.rows[0]
        if p.halves:
            at = m.mul(i, 2)
            real = row_element(self.k, p.a, p.source, place(lane), at)
            imag = row_element(self.k, p.a, p.source, place(lane), m.add(at, 1))
            real, imag = b.real(real), b.real(imag)
        else:
            value = row_element(self.k, p.a, p.source, place(lane), i)
            real, imag = b.real(value), b.imag(value)
        b.store(rows.real, m.value(self.at(i, lane)), real)
        b.store(rows.imag, m.value(self.at(i, lane)), imag)

    def _store_element(
        self, p: _RowPlan, rows: Rows, place: RowPlace, i: IndexValue, lane: IndexValue
    ) -> None:
        """Write element i of a row to the result."""
        b, at = self.b, self.math.value(self.at(i, lane))
        value = b.complex(b.load(rows.real, self.part, at), b.load(rows.imag, self.part, at))
        write_element(self.k, p.a.n, p.target, place(lane), i, value)
