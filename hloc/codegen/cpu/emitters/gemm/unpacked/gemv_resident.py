"""Gemms of few rows with a small right-hand side: accumulators stay in registers over all of k.

The function has the parameters of `stream_routines`. Several vectors of columns are computed at a
time; later ones read their rows of the right-hand side from the L2 cache.
"""

from __future__ import annotations

from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.scalar_builder import pointer_value
from hloc.codegen.builder.values import REPRESENTATIONS, Value
from hloc.codegen.cpu.emitters.carried_loop import CarriedLoop, rows_of
from hloc.codegen.cpu.emitters.routine_writer import RoutineWriter, argument
from hloc.codegen.cpu.emitters.vector_loads import load_as, prefetch_ahead, store_as, vector_type
from hloc.codegen.llvm.target import Target
from hloc.dtypes import F32, F64, S64, DType

MAX_BYTES = 1 << 19
"""Most bytes of the right-hand side, which should stay in the L2 cache, of any size."""

MAX_SHARE = 0.5
"""The same as a share of the L2 cache.

Time relative to streaming, f32, AVX-512, cache of 2 MB: 0.65 to 1.03 for 1x512x512, 0.78 for
2x1024x256, 0.76 for 4x512x512 in a loop, 0.8 to 0.9 for 8 rows.
"""

PREFETCHED_STEPS = 8
"""Vectors of 512 bits multiply a row of the L2 cache while it prefetches the one this far behind.

Time relative to hardware prefetching: 0.7 to 0.8 for 4x512x512 and 16x512x512, 0.75 to 1.0 for
others of 512 KB and more, 0.95 to 1.0 for 256 KB. With vectors of 256 bits 0.98.
"""

MAX_SUMS, MAX_VECTORS = 24, 8
"""Most accumulator registers, and vectors of columns at a time."""

NARROW_ROWS = 6
"""Most rows at a time on machines with half as many registers; more rows are divided evenly.

Time relative to four rows at a time, f32, AVX2: 0.78 for 6x256x256 and 60x256x256 (groups of 6),
0.75 for 5x256x256 and 25x256x128, 0.9 for 11x256x256, 0.93 to 0.98 for 7 to 10 rows.
"""


def tile_of(rows: int, target: Target) -> tuple[int, int]:
    """Return the rows and the vectors of columns that are computed at a time."""
    has_many = target.vector_bits == 512 or target.is_aarch64  # registers: 32
    most, passes = (MAX_SUMS, 1) if has_many else (MAX_SUMS // 2, -(-rows // NARROW_ROWS))
    height = -(-rows // passes)
    return height, max(min(most // height, MAX_VECTORS), 1)


def write_resident(
    w: RoutineWriter, rows: int, sources: tuple[DType, DType], result: DType, target: Target
) -> None:
    """Emit the loops over columns: as many vectors at a time as fit, half as many, ... one."""
    kernel = _Resident(w, sources, result, target)
    height, vectors = tile_of(rows, target)
    math, columns = w.math, argument("%columns")
    done: IndexValue = 0
    while vectors:
        width = vectors * kernel.lanes
        whole = math.mul(math.div(math.sub(columns, done), width), width)
        stop = math.add(done, whole)
        with w.body.loop(done, stop, width) as first:
            for top in range(0, rows, height):
                kernel.tile(range(top, min(top + height, rows)), first, vectors)
        done, vectors = stop, vectors // 2


class _Resident:
    """Writes the sums of some columns."""

    def __init__(
        self,
        w: RoutineWriter,
        sources: tuple[DType, DType],
        result: DType,
        target: Target,
    ) -> None:
        self.w, self.fn, self.b, self.math = w, w.fn, w.b, w.math
        self.sources, self.result = sources, result
        self.total = F64 if result is F64 else F32
        self.lanes = target.vector_bits // self.total.bits
        self.vector = vector_type(self.total, self.lanes)
        self.prefetches = target.vector_bits == 512

    def tile(self, rows: range, first: IndexValue, vectors: int) -> None:
        """Run over k for some rows and `vectors` vectors of columns; write the sums."""
        math = self.math
        sums = self._sums(rows, first, vectors)
        for row, totals in zip(rows, sums, strict=True):
            offset = math.mul(argument("%out_row_bytes"), row)
            out = math.moved("%out", offset)
            for j, total in enumerate(totals):
                place = math.add(first, j * self.lanes)
                store_as(self.w, out, self.total, self.result, self.lanes, place, total)

    def _sums(self, rows: range, first: IndexValue, vectors: int) -> list[list[str]]:
        """Write the loop over k; return the sums of each row, one vector of columns each.

        The sums are values that the loop carries: LLVM keeps them in registers.
        """
        fn, math = self.fn, self.math
        zeros = [(self.vector, "zeroinitializer")] * (len(rows) * vectors)
        loop = CarriedLoop(self.w, [("i64", "0"), *zeros])
        step, *sums = loop.values
        k = Value(S64, step)
        start = math.add(math.mul(k, argument("%rhs_step")), first)
        ys = [self._load(math.add(start, j * self.lanes)) for j in range(vectors)]
        if self.prefetches and len(rows) > 1:
            ahead = math.mul(argument("%rhs_step"), PREFETCHED_STEPS)
            places = [math.add(start, j * self.lanes) for j in range(vectors)]
            prefetch_ahead(self.w, "%rhs", self.sources[1], places, ahead, cache_level=1)
        new = []
        for row, totals in zip(rows, rows_of(sums, vectors), strict=True):
            x = splat(self.w, row, k, self.sources[0], self.total, self.lanes)
            products = [fn.value(f"fmul contract {self.vector} {x}, {y}") for y in ys]
            new.append(
                [
                    fn.value(f"fadd contract {self.vector} {total}, {product}")
                    for total, product in zip(totals, products, strict=True)
                ]
            )
        following = fn.value(f"add i64 {step}, 1")
        again = fn.value(f"icmp slt i64 {following}, %depth")
        loop.close([following, *(total for row in new for total in row)], again)
        return new

    def _load(self, place: IndexValue) -> str:
        return load_as(self.w, "%rhs", self.sources[1], self.total, self.lanes, place)


def splat(
    w: RoutineWriter, row: int, step: IndexValue, source: DType, total: DType, lanes: int
) -> str:
    """Return an element of the left-hand side, as one of `total`, in all lanes."""
    math, fn = w.math, w.fn
    place = math.mul(argument("%lhs_row"), row)
    place = math.add(place, math.mul(step, argument("%lhs_step")))
    x = w.b.load(pointer_value("%lhs"), source, math.value(place))
    x = w.b.convert(x, total)
    vector, kind = vector_type(total, lanes), REPRESENTATIONS[total].memory
    first = fn.value(f"insertelement {vector} poison, {kind} {x.text}, i64 0")
    mask = f"<{lanes} x i32> zeroinitializer"
    return fn.value(f"shufflevector {vector} {first}, {vector} poison, {mask}")
