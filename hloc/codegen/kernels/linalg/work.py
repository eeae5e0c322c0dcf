"""Workspace of a factorisation, and the loops over it: one matrix, or one per lane.

An algorithm is written once. With `lanes`, the elements (i, j) of that many matrices of the batch
are contiguous, every value is a vector of them, and data-dependent branches are selects. Without,
the workspace holds one matrix, and `strip` loads vectors of contiguous elements of a column.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

import numpy as np

from hloc.codegen.builder.index import IndexMath
from hloc.codegen.builder.lane_builder import LaneBuilder
from hloc.codegen.builder.loops import Body, IndexValue, WhileRegion
from hloc.codegen.builder.scalar_builder import LlvmBuilder, pointer_value
from hloc.codegen.builder.values import VARYING, LaneIndex, Value
from hloc.dtypes import S32, S64, DType, component_of
from hloc.lazy_dataclass import dataclass

ELEMENT, REAL, NUMBER = "element", "real", "number"
"""Element type of a region: that of the matrix, its real type, or s32."""


class Writer(Protocol):
    """A kernel or a routine that is being emitted."""

    @property
    def body(self) -> Body: ...
    @property
    def b(self) -> LlvmBuilder: ...
    @property
    def math(self) -> IndexMath: ...


@dataclass(frozen=True, slots=True)
class Region:
    """A column-major array of the workspace; its sizes are given by name."""

    rows: str = "one"
    columns: str = "one"
    kind: str = ELEMENT


@dataclass(frozen=True, slots=True)
class Matrix:
    """One region, column-major; `stride` is the distance of columns in elements."""

    work: Work
    pointer: Value
    dtype: DType
    rows: IndexValue
    stride: IndexValue

    def load(self, row: IndexValue, column: IndexValue = 0) -> Value:
        """Return an element, of all lanes."""
        return self.work.b.load(self.pointer, self.dtype, self._index(row, column))

    def store(self, row: IndexValue, column: IndexValue, value: Value) -> None:
        """Write an element, of all lanes."""
        self.work.b.store(self.pointer, self._index(row, column), value)

    def update(self, row: IndexValue, column: IndexValue, change: Callable[[Value], Value]) -> None:
        """Replace an element by the result of `change`."""
        self.store(row, column, change(self.load(row, column)))

    def place(self, row: IndexValue, column: IndexValue) -> IndexValue:
        """Return the index of an element's first lane."""
        m = self.work.math
        return m.mul(m.add(row, m.mul(column, self.stride)), self.work.width)

    def _index(self, row: IndexValue, column: IndexValue) -> Value | int:
        place = self.place(row, column)
        return self.work.math.add(place, self.work.lane) if self.work.lanes else place


class Work:
    """The workspace and the loops of one algorithm that is being emitted.

    Attributes:
        dtype, part: type of the elements, and of their real parts.
        sizes: by name; `one` is 1.
        lanes: matrices that are processed at once, 0 for one matrix without lanes.
        has_blocks: matrices are copied to and from lanes by blocks: faster for many rows.
        width: elements in memory for each element of a region.
        strips: lengths of the vectors that `strip` uses, long ones first.
        regions: as the algorithm declares them.
        packed: memory after them, and after what `take` returns, for columns that are packed.
    """

    def __init__(
        self,
        w: Writer,
        dtype: DType,
        sizes: Mapping[str, IndexValue],
        *,
        lanes: int = 0,
        has_blocks: bool = False,
        strips: Sequence[int] = (),
    ) -> None:
        """Take the builders of `w`; regions and memory for packing are set by the caller."""
        self.body, self.b, self.math = w.body, w.b, w.math
        self.dtype, self.part = dtype, component_of(dtype)
        self.sizes: dict[str, IndexValue] = {**sizes, "one": 1}
        self.lanes, self.width = lanes, lanes or 1
        self.has_blocks = has_blocks
        self.strips = () if lanes else tuple(strips)
        self.lane = LaneIndex(S64, "0")
        self.regions: tuple[Matrix, ...] = ()
        self.packed = Value(S64, "null")
        if isinstance(self.b, LaneBuilder):
            self.b.lanes = lanes

    @property
    def vectors(self) -> LaneBuilder:
        """The builder, which has vectors where `lanes` or `strips` are not empty."""
        assert isinstance(self.b, LaneBuilder)
        return self.b

    # ---- memory

    def place_regions(self, regions: Sequence[Region], memory: Value) -> None:
        """Place the regions one after another, starting at `memory`."""
        m, offset, found = self.math, 0, []
        at: IndexValue = offset
        for region in regions:
            pointer = pointer_value(self.b.address(memory, self.dtype, at))
            rows, columns = self.sizes[region.rows], self.sizes[region.columns]
            stride = self._odd(rows) if self.lanes else rows
            found.append(Matrix(self, pointer, self.kind(region.kind), rows, stride))
            at = m.add(at, m.mul(m.mul(stride, columns), self.width))
        self.regions = tuple(found)
        self.packed = pointer_value(self.b.address(memory, self.dtype, at))

    def take(self, rows: IndexValue, columns: IndexValue) -> Matrix:
        """Take a matrix from the memory after the regions."""
        found = Matrix(self, self.packed, self.dtype, rows, rows)
        size = self.math.mul(rows, columns)
        self.packed = pointer_value(self.b.address(self.packed, self.dtype, size))
        return found

    def _odd(self, rows: IndexValue) -> IndexValue:
        """Return an odd stride of columns, against false store-to-load dependencies.

        Processors compare the low 12 bits of addresses (4K aliasing). Cholesky of 32x32 takes 1.6
        times as long with a stride of 2 KiB.
        """
        m = self.math
        return m.add(rows, m.sub(1, m.rem(rows, 2)))

    def kind(self, kind: str) -> DType:
        """Return the element type of a kind of region."""
        return {ELEMENT: self.dtype, REAL: self.part, NUMBER: S32}[kind]

    def variable(self, dtype: DType, value: Value) -> Matrix:
        """Return a variable, of all lanes: a matrix of one element."""
        slot = Matrix(self, self.b.allocate(dtype, self.width), dtype, 1, 1)
        slot.store(0, 0, value)
        return slot

    # ---- loops

    def loop(self, start: IndexValue, stop: IndexValue) -> AbstractContextManager[IndexValue]:
        """Run a region for all numbers from `start` to below `stop`."""
        return self.body.loop(start, stop)

    @contextmanager
    def reversed_loop(self, start: IndexValue, stop: IndexValue) -> Iterator[IndexValue]:
        """Run a region for all numbers from `stop - 1` down to `start`."""
        last = self.math.sub(self.math.add(start, stop), 1)
        with self.body.loop(start, stop) as step:
            yield self.math.sub(last, step)

    def repeat(self) -> AbstractContextManager[WhileRegion]:
        """A loop that ends where `proceed` says so."""
        return self.body.repeat_while()

    def when(self, condition: Value) -> AbstractContextManager[None]:
        """Run a region if a condition holds in any lane."""
        return self.body.when(self.any(condition))

    def any(self, condition: Value) -> Value:
        """Return whether a condition holds in any lane."""
        return self.vectors.any_lane(condition) if isinstance(condition, VARYING) else condition

    def strip(
        self, start: IndexValue, stop: IndexValue, *, twice: bool = False
    ) -> Iterator[IndexValue]:
        """Run a region for all positions from `start` to below `stop` >= `start`; yields them.

        The code of the region is emitted several times: for vectors of positions and for single
        ones, and first for vectors of two registers if `twice`. Iterations must be independent.
        """
        longest = [2 * self.strips[0]] if twice and self.strips else []
        for lanes in (*longest, *self.strips):
            end = self._whole(start, stop, lanes)
            with self.body.loop(start, end, lanes) as at, self.vectors.with_lanes(lanes):
                yield LaneIndex(S64, self.math.value(at).text)
            start = end
        with self.body.loop(start, stop) as at:
            yield at

    def total(
        self, start: IndexValue, stop: IndexValue, term: Callable[[IndexValue], Value]
    ) -> Value:
        """Return the sum of `term` at all positions from `start` to below `stop`."""
        return self._folded("add", start, stop, (term,))[0]

    def totals(
        self, start: IndexValue, stop: IndexValue, *terms: Callable[[IndexValue], Value]
    ) -> list[Value]:
        """Return the sum of each of `terms`, which one loop adds up."""
        return self._folded("add", start, stop, terms)

    def largest(
        self, start: IndexValue, stop: IndexValue, term: Callable[[IndexValue], Value]
    ) -> Value:
        """Return the largest of `term`, which is no less than 0; NaN may be passed over."""
        return self._folded("maximum", start, stop, (term,))[0]

    def first_place(
        self, start: IndexValue, stop: IndexValue, holds: Callable[[IndexValue], Value]
    ) -> Value:
        """Return the first position from `start` to below `stop` where `holds`, `stop` if none."""
        b, m = self.b, self.math
        place = b.allocate(S64)
        b.store(place, 0, m.value(start))
        for lanes in (*self.strips[:1], 0):
            with self.repeat() as region:
                at = b.load(place, S64, 0)
                region.go_on_if(m.compare("LE", m.add(at, lanes or 1), stop))
                with self.vectors.with_lanes(lanes):
                    found = self.any(holds(LaneIndex(S64, at.text) if lanes else at))
                region.go_on_if(b.not_(found))
                b.store(place, 0, m.value(m.add(at, lanes or 1)))
        return b.load(place, S64, 0)

    def _folded(
        self,
        name: str,
        start: IndexValue,
        stop: IndexValue,
        terms: Sequence[Callable[[IndexValue], Value]],
    ) -> list[Value]:
        """Return `terms` folded over `start <= i < stop` by the reducer `name`, in one pass over i.

        First by vectors of each length in `strips`, whose lanes are folded at the end, then the
        remaining elements one by one.
        """
        b, dtype = self.b, self.part if name == "maximum" else self.dtype
        found = [self.variable(dtype, b.const(dtype, 0)) for _ in terms]
        for lanes in self.strips:
            end = self._whole(start, stop, lanes)
            with self.body.when(self.math.compare("LT", start, end)):
                with self.vectors.with_lanes(lanes):
                    parts = [b.allocate(dtype, lanes) for _ in terms]
                    for part in parts:
                        b.store(part, self.lane, b.const(dtype, 0))
                    with self.body.loop(start, end, lanes) as at:
                        position = LaneIndex(S64, self.math.value(at).text)
                        for part, term in zip(parts, terms, strict=True):
                            old = b.load(part, dtype, self.lane)
                            b.store(part, self.lane, self._pair(name, old, term(position)))
                    folded = [
                        self._lanes_folded(name, b.load(part, dtype, self.lane)) for part in parts
                    ]
                for total, part in zip(found, folded, strict=True):
                    total.store(0, 0, self._pair(name, total.load(0), part))
            start = end
        with self.body.loop(start, stop) as at:
            for total, term in zip(found, terms, strict=True):
                total.store(0, 0, self._pair(name, total.load(0), term(at)))
        return [total.load(0) for total in found]

    def _pair(self, name: str, x: Value, y: Value) -> Value:
        if name == "add":
            return self.b.fadd(x, y)
        return self.b.select(self.b.compare("GT", y, x), y, x)

    def _lanes_folded(self, name: str, x: Value) -> Value:
        b = self.vectors
        if x.dtype.is_complex:
            return b.complex(b.folded(name, b.real(x)), b.folded(name, b.imag(x)))
        return b.folded(name, x)

    def _whole(self, start: IndexValue, stop: IndexValue, lanes: int) -> IndexValue:
        m = self.math
        return m.sub(stop, m.rem(m.sub(stop, start), lanes))

    def matrices(self, begin: IndexValue, end: IndexValue) -> AbstractContextManager[IndexValue]:
        """Run a region for all matrices, or for groups of them, by the first of each."""
        return self.body.loop(begin, end, self.width)

    # ---- numbers

    def conjugate(self, x: Value) -> Value:
        """Return the complex conjugate; `x` itself if it is real."""
        b = self.b
        return b.complex(b.real(x), b.fneg(b.imag(x))) if x.dtype.is_complex else x

    def const(self, value: float, dtype: DType | None = None) -> Value:
        """Return a constant, of the matrix's type if no other is given."""
        return self.b.const(dtype or self.dtype, value)

    def number(self, x: IndexValue) -> Value:
        """Return a position as s32."""
        return self.b.const(S32, x) if isinstance(x, int) else self.b.convert(x, S32)

    def squared(self, x: Value) -> Value:
        """Return the square of the absolute value, a real number."""
        b = self.b
        if not x.dtype.is_complex:
            return b.fmul(x, x)
        real, imag = b.real(x), b.imag(x)
        return b.fadd(b.fmul(real, real), b.fmul(imag, imag))

    def magnitude(self, x: Value) -> Value:
        """Return |x|, or |real| + |imaginary|, as LAPACK's `cabs1`."""
        b = self.b
        if not x.dtype.is_complex:
            return b.intrinsic("fabs", x)
        return b.fadd(b.intrinsic("fabs", b.real(x)), b.intrinsic("fabs", b.imag(x)))

    def scaled(self, x: Value, factor: Value) -> Value:
        """Return `x` times a real number."""
        b = self.b
        if not x.dtype.is_complex:
            return b.fmul(x, factor)
        return b.complex(b.fmul(b.real(x), factor), b.fmul(b.imag(x), factor))

    def divider(self, divisor: Value) -> Callable[[Value], Value]:
        """Return a function that divides by `divisor`; a complex one is scaled against overflow."""
        b = self.b
        if not divisor.dtype.is_complex:
            return lambda x: b.fdiv(x, divisor)
        scale = self.not_tiny(self.magnitude(divisor))
        inverse = b.fdiv(self.const(1), self.divided(divisor, scale))
        return lambda x: b.fmul(self.divided(x, scale), inverse)

    def not_tiny(self, x: Value) -> Value:
        """Return `x`, or if `x` is smaller, the smallest number with a finite reciprocal."""
        b = self.b
        least = self.const(float(np.finfo(self.part.numpy).tiny) * 4, self.part)
        return b.select(b.compare("LT", x, least), least, x)

    def divided(self, x: Value, divisor: Value) -> Value:
        """Return `x` over a real number."""
        b = self.b
        if not x.dtype.is_complex:
            return b.fdiv(x, divisor)
        return b.complex(b.fdiv(b.real(x), divisor), b.fdiv(b.imag(x), divisor))
