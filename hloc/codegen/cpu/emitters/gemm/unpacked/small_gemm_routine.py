"""The routine of small gemms: both sides are read in place, and sums stay in registers.

    small(lhs, rhs, out, batches, rows, columns, depth, lhs_batch, rhs_batch, out_batch,
          lhs_row, lhs_step, rhs_step, out_row)

Strides are in elements; columns are contiguous in the right-hand side and in the result.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.scalar_builder import pointer_value
from hloc.codegen.builder.values import REPRESENTATIONS, Value
from hloc.codegen.cpu.emitters.carried_loop import CarriedLoop
from hloc.codegen.cpu.emitters.routine_writer import (
    RoutineWriter,
    argument,
    named_parameters,
    routine_unit,
)
from hloc.codegen.cpu.emitters.vector_loads import (
    first_lanes,
    load_lanes,
    store_lanes,
    vector_type,
)
from hloc.codegen.llvm.routine import Routines
from hloc.codegen.llvm.target import Target
from hloc.dtypes import F32, F64, S32, S64, DType

TYPES = (F32, F64, S32)
"""Element types of both sides and the result."""

_TILES = (8, 4, 2, 1)
"""Rows that share a pass over k: sums of as many as fit into registers hide the latency of one."""

_VECTORS_OF_MANY, _SUMS_OF_MANY = 4, 16
"""Vectors of columns that share a pass with 32 short registers, and their sums for all rows: 0.5 of
the instructions of one vector, for 100 products of 16x16x16 on a Neoverse N1."""

_NUMBERS = (
    "batches rows columns depth lhs_batch rhs_batch out_batch lhs_row lhs_step rhs_step out_row"
)
_PARAMETERS = named_parameters("lhs rhs", "out", _NUMBERS)


@cache
def small_routine(dtype: DType, target: Target) -> Routines:
    """Return the function for one element type."""
    return routine_unit(
        f"small_gemm_{dtype.name}", _PARAMETERS, lambda w: _Small(w, dtype, target).write(), target
    )


def listed_routines(target: Target) -> Iterator[Routines]:
    """Yield the routines of all element types."""
    for dtype in TYPES:
        yield small_routine(dtype, target)


class _Small:
    """Writes the routine."""

    def __init__(self, w: RoutineWriter, dtype: DType, target: Target) -> None:
        self.w, self.fn, self.math, self.dtype = w, w.fn, w.math, dtype
        self.lanes = target.vector_bits // dtype.bits
        self.widest = self.lanes * (_VECTORS_OF_MANY if target.is_aarch64 else 1)
        self.has_masks = target.has("avx512bw")

    def write(self) -> None:
        """Emit the loops over batches, vectors of columns and tiles of rows."""
        with self.w.body.loop(0, argument("%batches")) as batch:
            lhs, rhs, out = (
                self._moved(f"%{side}", self.math.mul(argument(f"%{side}_batch"), batch))
                for side in ("lhs", "rhs", "out")
            )
            for column, lanes, mask in self._vectors():
                right, to = self._moved(rhs, column), self._moved(out, column)
                for row, rows in self._tiles(lanes // self.lanes):
                    self._tile(lhs, right, to, (row, rows), (lanes, mask))

    def _vectors(self) -> Iterator[tuple[IndexValue, int, str]]:
        """Yield the first column, lanes and mask of each loop over vectors of columns."""
        columns = argument("%columns")
        if self.has_masks:
            with self.w.body.loop(0, columns, self.lanes) as column:
                left = self.math.sub(columns, column)
                yield column, self.lanes, first_lanes(self.w, left, self.lanes)
            return
        start, lanes = 0, self.widest
        first: IndexValue = start
        while lanes:
            end = self.math.mul(self.math.div(columns, lanes), lanes)
            with self.w.body.loop(first, end, lanes) as column:
                yield column, lanes, ""
            first, lanes = end, lanes // 2

    def _tiles(self, vectors: int) -> Iterator[tuple[IndexValue, int]]:
        """Yield the first row and the number of rows of each loop over tiles of some vectors."""
        rows = argument("%rows")
        first: IndexValue = 0
        most = _SUMS_OF_MANY // vectors if vectors > 1 else max(_TILES)
        for tile in (tile for tile in _TILES if tile <= most):
            end = self.math.mul(self.math.div(rows, tile), tile)
            with self.w.body.loop(first, end, tile) as row:
                yield row, tile
            first = end

    def _tile(
        self, lhs: str, rhs: str, out: str, tile: tuple[IndexValue, int], vector: tuple[int, str]
    ) -> None:
        """Multiply and write some rows of one vector of columns."""
        fn, math = self.fn, self.math
        (row, rows), (lanes, mask) = tile, vector
        kind = vector_type(self.dtype, lanes)
        lefts = [math.mul(argument("%lhs_row"), math.add(row, i)) for i in range(rows)]
        loop = CarriedLoop(self.w, [("i64", "0"), *[(kind, "zeroinitializer")] * rows])
        step, *sums = loop.values
        k = Value(S64, step)
        place = math.mul(argument("%rhs_step"), k)
        y = load_lanes(self.w, self._moved(rhs, place), self.dtype, lanes, mask)
        multiply, add = (
            ("mul", "add") if self.dtype.is_integer else ("fmul contract", "fadd contract")
        )
        along = math.mul(argument("%lhs_step"), k)
        new = []
        for left, total in zip(lefts, sums, strict=True):
            x = self._splat(lhs, math.add(left, along), lanes)
            product = fn.value(f"{multiply} {kind} {x}, {y}")
            new.append(fn.value(f"{add} {kind} {total}, {product}"))
        following = fn.value(f"add i64 {step}, 1")
        again = fn.value(f"icmp slt i64 {following}, %depth")
        loop.close([following, *new], again)
        for i, total in enumerate(new):
            place = math.mul(argument("%out_row"), math.add(row, i))
            store_lanes(self.w, self._moved(out, place), self.dtype, lanes, mask, total)

    def _splat(self, lhs: str, place: IndexValue, lanes: int) -> str:
        """Return an element of the left-hand side in all lanes."""
        kind = vector_type(self.dtype, lanes)
        x = self.w.b.load(pointer_value(lhs), self.dtype, self.math.value(place))
        element = f"{REPRESENTATIONS[self.dtype].memory} {x.text}"
        first = self.fn.value(f"insertelement {kind} poison, {element}, i64 0")
        order = f"<{lanes} x i32> zeroinitializer"
        return self.fn.value(f"shufflevector {kind} {first}, {kind} poison, {order}")

    def _moved(self, pointer: str, elements: IndexValue) -> str:
        return self.math.moved(pointer, self.math.mul(elements, self.dtype.storage_bytes))
