"""The routine of many tiny gemms: one in each lane of a vector.

    lane_gemm(lhs, rhs, out, scratch, batches, rows, columns, depth, lhs_size, rhs_size, out_size,
              lhs_batch, rhs_batch, out_batch, lhs_row, lhs_step, rhs_column, rhs_step,
              out_row, out_column)

Matrices are contiguous, of `_size` elements and `_batch` apart; strides are in elements. There are
at least as many batches as lanes. Scratch memory has a tile for each side and the result, which has
a vector for each element of a matrix.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.values import REPRESENTATIONS, Value
from hloc.codegen.cpu.emitters.carried_loop import CarriedLoop
from hloc.codegen.cpu.emitters.gemm.packing.packing import transposed
from hloc.codegen.cpu.emitters.routine_writer import (
    RoutineWriter,
    argument,
    named_parameters,
    routine_unit,
)
from hloc.codegen.cpu.emitters.vector_loads import load_lanes, store_lanes, vector_type
from hloc.codegen.llvm.routine import Routines
from hloc.codegen.llvm.target import Target
from hloc.dtypes import F32, F64, S64, DType

TYPES = (F32, F64)
"""Element types of both sides and the result."""

MOST_BITS = 256
"""Widest vectors: matrices of 3x3 do not fill a square of wider ones, which moves whole lines."""

_COLUMNS = (4, 2, 1)
"""Columns whose sums are computed side by side, which hides the latency of additions.

Each divides the one before, so that a loop begins where the one before ended.
"""

_NUMBERS = (
    "batches rows columns depth lhs_size rhs_size out_size lhs_batch rhs_batch out_batch "
    "lhs_row lhs_step rhs_column rhs_step out_row out_column"
)
_PARAMETERS = named_parameters("lhs rhs", "out scratch", _NUMBERS)


@cache
def lane_gemm_routine(dtype: DType, target: Target) -> Routines:
    """Return the function for one element type."""
    name = f"lane_gemm_{dtype.name}"
    return routine_unit(name, _PARAMETERS, lambda w: _Writer(w, dtype, target).write(), target)


def listed_routines(target: Target) -> Iterator[Routines]:
    """Yield the routines of all element types."""
    for dtype in TYPES:
        yield lane_gemm_routine(dtype, target)


class _Writer:
    """Writes the routine."""

    def __init__(self, w: RoutineWriter, dtype: DType, target: Target) -> None:
        self.w, self.fn, self.math, self.dtype = w, w.fn, w.math, dtype
        self.lanes = min(target.vector_bits, MOST_BITS) // dtype.bits
        self.kind = vector_type(dtype, self.lanes)

    def write(self) -> None:
        """Write the loop over vectors of batches; the last one overlaps the one before."""
        math, sizes = self.math, [argument(f"%{side}_size") for side in ("lhs", "rhs")]
        lhs, rhs = "%scratch", self._moved("%scratch", math.mul(sizes[0], self.lanes))
        out = self._moved(rhs, math.mul(sizes[1], self.lanes))
        batches = argument("%batches")
        with self.w.body.loop(0, batches, self.lanes) as first:
            first = math.minimum(first, math.sub(batches, self.lanes))
            for side, tile in (("lhs", lhs), ("rhs", rhs)):
                self._fill(tile, *self._matrices(side, first))
            self._multiply(lhs, rhs, out)
            self._empty(out, *self._matrices("out", first))

    def _matrices(self, side: str, first: IndexValue) -> tuple[str, Value, Value]:
        """Return where the matrices of a vector begin, their size and their distance."""
        step = argument(f"%{side}_batch")
        begin = self._moved(f"%{side}", self.math.mul(first, step))
        return begin, argument(f"%{side}_size"), step

    # ---- between matrices and tiles

    def _fill(self, tile: str, matrices: str, size: Value, step: Value) -> None:
        """Write the elements of all matrices to a tile, squares at a time or one by one."""
        with self._squares(size) as first:
            lines = [
                self._load(self._line(matrices, lane, step, first)) for lane in range(self.lanes)
            ]
            for i, line in enumerate(transposed(self.w, lines, self.kind)):
                self._store(tile, self.math.add(first, i), line)
        with self._few(size) as element:
            text, kind = "poison", REPRESENTATIONS[self.dtype].memory
            for lane in range(self.lanes):
                x = self.fn.value(f"load {kind}, ptr {self._line(matrices, lane, step, element)}")
                text = self.fn.value(f"insertelement {self.kind} {text}, {kind} {x}, i64 {lane}")
            self._store(tile, element, text)

    def _empty(self, tile: str, matrices: str, size: Value, step: Value) -> None:
        """Write the elements in a tile to the matrices."""
        with self._squares(size) as first:
            places = [self.math.add(first, i) for i in range(self.lanes)]
            lines = [self._load(self._vector(tile, place)) for place in places]
            for lane, line in enumerate(transposed(self.w, lines, self.kind)):
                at = self._line(matrices, lane, step, first)
                store_lanes(self.w, at, self.dtype, self.lanes, "", line)
        with self._few(size) as element:
            vector = self._load(self._vector(tile, element))
            kind = REPRESENTATIONS[self.dtype].memory
            for lane in range(self.lanes):
                x = self.fn.value(f"extractelement {self.kind} {vector}, i64 {lane}")
                at = self._line(matrices, lane, step, element)
                self.fn.line(f"store {kind} {x}, ptr {at}")

    @contextmanager
    def _squares(self, size: Value) -> Iterator[IndexValue]:
        """Run a region for the first element of each square, of which the last one may overlap."""
        with self.w.body.loop(0, self._in_squares(size), self.lanes) as first:
            yield self.math.minimum(first, self.math.sub(size, self.lanes))

    @contextmanager
    def _few(self, size: Value) -> Iterator[IndexValue]:
        """Run a region for each element that is in no square."""
        with self.w.body.loop(self._in_squares(size), size) as element:
            yield element

    def _in_squares(self, size: Value) -> IndexValue:
        """Return where squares end: up to half a vector of elements are moved one by one."""
        squares = self.math.div(self.math.add(size, self.lanes // 2 - 1), self.lanes)
        end = self.math.value(self.math.mul(squares, self.lanes)).text
        is_few = self.fn.value(f"icmp slt i64 {size.text}, {self.lanes}")
        return Value(S64, self.fn.value(f"select i1 {is_few}, i64 0, i64 {end}"))

    def _line(self, matrices: str, lane: int, step: Value, element: IndexValue) -> str:
        return self._moved(matrices, self.math.add(self.math.mul(step, lane), element))

    # ---- products

    def _multiply(self, lhs: str, rhs: str, out: str) -> None:
        """Multiply what is in the tiles."""
        columns = argument("%columns")
        with self.w.body.loop(0, argument("%rows")) as row:
            left = self._vector(lhs, self._along("lhs_row", row))
            result = self._vector(out, self._along("out_row", row))
            first: IndexValue = 0
            for count in _COLUMNS:
                end = self.math.mul(self.math.div(columns, count), count)
                with self.w.body.loop(first, end, count) as column:
                    places = [self.math.add(column, i) for i in range(count)]
                    rights = [self._vector(rhs, self._along("rhs_column", x)) for x in places]
                    for place, total in zip(places, self._sums(left, rights), strict=True):
                        at = self._vector(result, self._along("out_column", place))
                        store_lanes(self.w, at, self.dtype, self.lanes, "", total)
                first = end

    def _sums(self, left: str, rights: list[str]) -> list[str]:
        """Return the products of a row with some columns, of which all begin at pointers."""
        fn = self.fn
        vector_bytes = self.lanes * self.dtype.storage_bytes
        steps = [1, *(self._along(f"{side}_step", vector_bytes) for side in ("lhs", "rhs"))]
        sums = [(self.kind, "zeroinitializer")] * len(rights)
        loop = CarriedLoop(self.w, [*[("i64", "0")] * len(steps), *sums])
        k, x_at, y_at, *totals = loop.values
        x = self._load(self.math.moved(left, Value(S64, x_at)))
        new = []
        for right, total in zip(rights, totals, strict=True):
            y = self._load(self.math.moved(right, Value(S64, y_at)))
            product = fn.value(f"fmul contract {self.kind} {x}, {y}")
            new.append(fn.value(f"fadd contract {self.kind} {total}, {product}"))
        following = [
            fn.value(f"add i64 {place}, {self.math.value(step).text}")
            for place, step in zip((k, x_at, y_at), steps, strict=True)
        ]
        again = fn.value(f"icmp slt i64 {following[0]}, %depth")
        loop.close([*following, *new], again)
        return new

    def _along(self, stride: str, position: IndexValue) -> IndexValue:
        return self.math.mul(argument(f"%{stride}"), position)

    # ---- memory

    def _vector(self, tile: str, number: IndexValue) -> str:
        """Return the address of a vector of a tile."""
        return self._moved(tile, self.math.mul(number, self.lanes))

    def _load(self, at: str) -> str:
        return load_lanes(self.w, at, self.dtype, self.lanes, "")

    def _store(self, tile: str, number: IndexValue, vector: str) -> None:
        store_lanes(self.w, self._vector(tile, number), self.dtype, self.lanes, "", vector)

    def _moved(self, pointer: str, elements: IndexValue) -> str:
        return self.math.moved(pointer, self.math.mul(elements, self.dtype.storage_bytes))
