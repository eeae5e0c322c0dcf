"""Micro-kernels: a tile of the result stays in registers over the loop along k in packed panels.

    tiles(a, panels, out, steps, row_bytes, rows, columns, adds, ahead ...)

`a` has one unit per row and step, each panel several vectors per step; a unit is one element of k,
or the few that one instruction multiplies and sums. Tile after tile along a row of panels is added
to `out`, or stored if `adds` is false; edge tiles write only `rows` and `columns`.

    direct_tiles(lhs, rows_at, lhs_steps, panels, out, ...)

reads rows in place, at the sum of two table entries, which is faster than packing for few columns.
Contiguous steps of k share a table entry. Both prefetch what `columns_ahead` describes.
"""

from __future__ import annotations

from collections.abc import Sequence

from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.scalar_builder import pointer_value
from hloc.codegen.builder.values import REPRESENTATIONS, Value
from hloc.codegen.cpu.emitters.carried_loop import CarriedLoop, rows_of
from hloc.codegen.cpu.emitters.gemm.micro_kernels.columns_ahead import (
    AHEAD_PARAMETERS,
    ColumnsAhead,
)
from hloc.codegen.cpu.emitters.gemm.micro_kernels.multiply_accumulate import (
    excess_units,
    multiply_units,
)
from hloc.codegen.cpu.emitters.gemm.micro_kernels.tile_arithmetic import Arithmetic, Tile, lanes
from hloc.codegen.cpu.emitters.gemm.micro_kernels.tile_copy import EDGE_PARAMETERS
from hloc.codegen.cpu.emitters.routine_writer import (
    RoutineWriter,
    argument,
    declaration,
    named_parameters,
)
from hloc.codegen.cpu.emitters.vector_loads import first_lanes, load_lanes, rounded, store_lanes
from hloc.codegen.llvm.target import Target
from hloc.dtypes import S64

_OTHERS = ("out", "steps row_bytes rows columns")
TILE_PARAMETERS = (*named_parameters("a panels", *_OTHERS), "i1 %adds")
PACKED_PARAMETERS = (*TILE_PARAMETERS, *AHEAD_PARAMETERS)
DIRECT_PARAMETERS = (
    *named_parameters("lhs rows_at lhs_steps panels", *_OTHERS),
    "i1 %adds",
    *AHEAD_PARAMETERS,
)

RUN_STEPS = 4
"""Steps of k per iteration if all of k consists of such runs."""

PACKED_STEPS = 4
"""Steps of k of packed rows per iteration in narrow vectors.

A tile of 12 multiplications and 8 loads leaves little room for the 5 instructions of the loop where
two threads share a core. Time relative to one step, AVX2, both in use: 0.87 for
512x512x512 of f16, 0.92 to 0.99 of bf16, 0.93 to 0.96 of f32 with a transposed left-hand side.
"""

MAX_PARTIAL_SUMS = 24
"""With at most this many accumulators, even and odd steps have separate ones, to hide latency."""


def accumulator_sets(tile: Tile, unroll: int, target: Target) -> int:
    """Return how many accumulators an element of the result has: the order of its sum."""
    has_partial_sums = unroll > 1 and 2 * tile.rows * tile.vectors <= MAX_PARTIAL_SUMS
    return 2 if has_partial_sums and target.vector_bits == 512 else 1


class MicroKernel:
    """Emits the function of a row of tiles.

    Edge tiles go through a copy and the function `edge`.
    """

    def __init__(
        self,
        w: RoutineWriter,
        edge: str,
        arithmetic: Arithmetic,
        tile: Tile,
        *,
        direct: bool,
        unroll: int,
    ) -> None:
        """Begin.

        Args:
            w: the function.
            edge: name of the function for edge tiles.
            arithmetic: how units are multiplied.
            tile: size of the tile in registers.
            direct: rows are not packed.
            unroll: steps of k per iteration; if `direct`, all of k consists of runs of that many
                contiguous steps.
        """
        target = w.b.target
        self.w, self.edge = w, edge
        self.fn, self.b, self.body, self.math = w.fn, w.b, w.body, w.math
        self.arithmetic, self.tile, self.unroll = arithmetic, tile, unroll
        self.sets = accumulator_sets(tile, unroll, target)
        self.lanes = lanes(arithmetic, target)
        self.has_masks = target.vector_bits == 512
        self.element = REPRESENTATIONS[arithmetic.total].memory
        self.vector = f"<{self.lanes} x {self.element}>"
        self.is_biased = bool(arithmetic.bias)  # one more row sums the bias
        # Units of several elements are moved as integers.
        self.unit = self.element if arithmetic.group == 1 else "i32"
        self.bits = f"<{self.lanes} x {self.unit}>"
        self.bytes = arithmetic.total.storage_bytes
        self.width = tile.vectors * self.lanes
        self.copy = self.fn.allocate(self.element, tile.rows * self.width)
        self.rows_at = self._row_pointers() if direct else []
        self.takes_lanes = target.is_aarch64  # one load serves several multiplications
        self.may_have_rest = unroll > 1 and not direct
        self.ahead = ColumnsAhead(w, self.width, arithmetic.operand)
        self.stop = self.fn.allocate("i64")

    def _row_pointers(self) -> list[str]:
        """Return the addresses of the tile's rows; rows beyond the last repeat the last."""
        last = self.math.sub(argument("%rows"), 1)
        pointers = []
        for i in range(self.tile.rows):
            place = self.w.offset("%rows_at", self.math.minimum(last, i))
            pointers.append(self.b.address(pointer_value("%lhs"), self.arithmetic.total, place))
        return pointers

    def write(self) -> None:
        """Write the loop over the panels."""
        math = self.math
        panel_bytes = math.mul(argument("%steps"), self.width * self.bytes)
        with self.body.loop(0, argument("%columns"), self.width) as first:
            panel = math.mul(math.div(first, self.width), panel_bytes)
            b = math.moved("%panels", panel)
            start = math.mul(first, self.arithmetic.result.storage_bytes)
            out = math.moved("%out", start)
            self.ahead.start(first)
            columns = math.minimum(math.sub(argument("%columns"), first), self.width)
            self._write_tiles(b, out, math.value(columns))

    def _write_tiles(self, b: str, out: str, columns: Value) -> None:
        """Emit a tile for every number of vectors that `columns` may fill."""
        math, vectors = self.math, self.tile.vectors
        for count in range(vectors, 0, -1):
            least, most = (count - 1) * self.lanes, count * self.lanes
            fits = [math.compare("GT", columns, least)] if count > 1 else []
            fits += [math.compare("LE", columns, most)] if count < vectors else []
            with self.body.when(self.body.all_of(fits)):
                self._write_tile(b, out, columns, count)

    def _write_tile(self, b: str, out: str, columns: Value, count: int) -> None:
        """Emit the loop over k for some vectors, then the store of the tile.

        A tile with all its rows goes directly into the result: its last vectors masked, or, on a
        machine without masks, if they are whole.
        """
        sums = self._loop(b, count)
        is_whole = self.math.compare("EQ", argument("%rows"), self.tile.rows)
        mask = ""
        if self.has_masks:
            left = self.math.sub(columns, (count - 1) * self.lanes)
            mask = first_lanes(self.w, left, self.lanes)
        else:
            is_filled = self.math.compare("EQ", columns, count * self.lanes)
            is_whole = self.b.and_(is_whole, is_filled)
        self._put_tile(sums, out, columns, is_whole.text, mask)

    def _put_tile(
        self, sums: list[list[str]], out: str, columns: Value, is_whole: str, last_mask: str = ""
    ) -> None:
        """Store a tile into the result, or add it to that: directly if it is whole.

        Narrow results are never added to.
        """
        fn = self.fn
        whole, stored, through, after = (fn.new_block() for _ in range(4))
        fn.branch(is_whole, whole, through)
        fn.start_block(whole)
        if self.arithmetic.result is self.arithmetic.total:
            added = fn.new_block()
            fn.branch("%adds", added, stored)
            fn.start_block(added)
            self._store_tile(sums, out, "%row_bytes", last_mask, adds=True)
            fn.jump(after)
        else:
            fn.jump(stored)
        fn.start_block(stored)
        self._store_tile(sums, out, "%row_bytes", last_mask)
        fn.jump(after)
        fn.start_block(through)
        self._keep_tile(sums, self.copy)
        self._move_edge(out, columns)
        fn.jump(after)
        fn.start_block(after)

    def _move_edge(self, out: str, columns: Value) -> None:
        """Call the function that moves the copy into the result."""
        fn = self.fn
        fn.declare(declaration(self.edge, EDGE_PARAMETERS))
        fn.line(
            f"call void @{self.edge}(ptr {self.copy}, ptr {out}, i64 {columns.text}, i64 %rows, "
            "i64 %row_bytes, i1 %adds)"
        )

    def _store_tile(
        self,
        sums: list[list[str]],
        target: str,
        step: str,
        last_mask: str = "",
        *,
        adds: bool = False,
    ) -> None:
        """Store a tile, or add it, as elements of the result, with row stride `step` in bytes."""
        fn, result = self.fn, self.arithmetic.result
        for row in sums:
            for j, total in enumerate(row):
                offset = j * self.lanes * result.storage_bytes
                at = fn.value(f"getelementptr i8, ptr {target}, i64 {offset}")
                mask = last_mask if j == len(row) - 1 else ""
                if adds:
                    before = load_lanes(self.w, at, result, self.lanes, mask)
                    total = self._sum(before, total)
                value = rounded(self.w, total, self.arithmetic.total, result, self.lanes)
                store_lanes(self.w, at, result, self.lanes, mask, value)
            target = fn.value(f"getelementptr i8, ptr {target}, i64 {step}")

    def _sum(self, x: str, y: str) -> str:
        plus = "fadd" if self.arithmetic.total.is_float else "add"
        return self.fn.value(f"{plus} {self.vector} {x}, {y}")

    def _keep_tile(self, sums: list[list[str]], copy: str) -> None:
        """Store a tile of sums into the copy."""
        for i, row in enumerate(sums):
            for j, total in enumerate(row):
                place = self.fn.value(f"getelementptr i8, ptr {copy}, i64 {self._offset(i, j)}")
                self.fn.line(f"store {self.vector} {total}, ptr {place}, align 16")

    def _offset(self, i: int, j: int) -> int:
        return (i * self.width + j * self.lanes) * self.bytes

    # ---- k

    def _loop(self, panel: str, vectors: int) -> list[list[str]]:
        """Run over the steps; return the sums of the first `vectors` of each row.

        The inner loop multiplies a stretch of steps. It keeps its limit in memory: with one more
        register in use, LLVM's scheduler spills the operands of half of a tile.
        """
        fn, math, tile = self.fn, self.math, self.tile
        rows = (tile.rows + self.is_biased) * self.sets
        rows_start = "null" if self.rows_at else "%a"
        kinds = ["i64", "ptr", "ptr", *[self.vector] * (rows * vectors)]
        initial = ["0", rows_start, panel, *["zeroinitializer"] * (rows * vectors)]
        whole: IndexValue = argument("%steps")
        enters = ""
        if self.may_have_rest:
            whole = math.sub(whole, math.rem(whole, self.unroll))
            enters = math.compare("GT", whole, 0).text
        limit = math.value(whole).text
        stretches = CarriedLoop(self.w, list(zip(kinds, initial, strict=True)), enters)
        stop = math.minimum(math.add(argument(stretches.values[0]), self.ahead.stretch()), whole)
        fn.line(f"store i64 {math.value(stop).text}, ptr {self.stop}")
        loop = CarriedLoop(self.w, list(zip(kinds, stretches.values, strict=True)))
        later = self._iteration(loop.values, self.unroll, vectors)
        stop_here = fn.value(f"load i64, ptr {self.stop}")
        loop.close(later, fn.value(f"icmp slt i64 {later[0]}, {stop_here}"))
        self.ahead.prefetch()
        last = stretches.close(later, fn.value(f"icmp slt i64 {later[0]}, {limit}"))
        if self.may_have_rest:
            enters = fn.value(f"icmp slt i64 {last[0]}, %steps")
            rest = CarriedLoop(self.w, list(zip(kinds, last, strict=True)), enters)
            later = self._iteration(rest.values, 1, vectors)
            last = rest.close(later, fn.value(f"icmp slt i64 {later[0]}, %steps"))
        return self._totals(rows_of(last[3:], vectors))

    def _iteration(self, carried: Sequence[str], number: int, vectors: int) -> list[str]:
        """Multiply `number` steps of k; return what is carried on: step, rows, panel and sums."""
        fn, (step, a, b, *sums) = self.fn, carried
        offset = self.w.offset("%lhs_steps", Value(S64, step)).text if self.rows_at else ""
        new = rows_of(sums, vectors)
        runs = self._row_runs(offset) if self.takes_lanes and number > 1 else []
        height = len(new) // self.sets
        for u in range(number):
            first = u % self.sets * height
            part = slice(first, first + height)
            new[part] = self._step(new[part], self._left(a, offset, u, runs), b, u)
        next_step = fn.value(f"add i64 {step}, {number}")
        a_step = number * self.tile.rows * self.bytes
        next_a = fn.value(f"getelementptr i8, ptr {a}, i64 {a_step}")
        panel_step = number * self.width * self.bytes
        next_b = fn.value(f"getelementptr i8, ptr {b}, i64 {panel_step}")
        return [next_step, next_a, next_b, *(total for row in new for total in row)]

    def _totals(self, sums: list[list[str]]) -> list[list[str]]:
        """Return the sums of the rows: both sets added, the products with the bias taken off."""
        fn = self.fn
        if self.sets == 2:
            half = len(sums) // 2
            sums = [
                [self._sum(x, y) for x, y in zip(even, odd, strict=True)]
                for even, odd in zip(sums[:half], sums[half:], strict=True)
            ]
        for row in sums[:-1] if self.is_biased else ():
            for j, excess in enumerate(sums[-1]):
                row[j] = fn.value(f"sub {self.vector} {row[j]}, {excess}")
        return sums[: self.tile.rows]

    def _step(self, sums: list[list[str]], left: list[str], b: str, number: int) -> list[list[str]]:
        """Add the products of step `number` of an iteration."""
        tile = self.tile
        right = [self._load_panel(b, number * tile.vectors + j) for j in range(len(sums[0]))]
        return [
            [
                multiply_units(self.w, self.arithmetic, self.lanes, x, y, total)
                for y, total in zip(right, totals, strict=True)
            ]
            for x, totals in zip(left, sums, strict=True)
        ]

    def _left(self, a: str, offset: str, number: int, runs: list[str]) -> list[str]:
        """Return the units of the rows in step `number` of an iteration, each in all lanes."""
        if runs:
            return [self._splat(run, RUN_STEPS, number) for run in runs]
        if self.rows_at:
            places = [
                self.fn.value(f"getelementptr {self.unit}, ptr {row}, i64 {offset}")
                for row in self.rows_at
            ]
            found = [self._broadcast(place, number) for place in places]
        elif self.takes_lanes:
            found = self._lanes_of(a)
        else:
            first = number * self.tile.rows
            found = [self._broadcast(a, first + i) for i in range(self.tile.rows)]
        return [*found, excess_units(self.lanes)] if self.is_biased else found

    def _row_runs(self, offset: str) -> list[str]:
        """Load a run of steps of each row."""
        fn = self.fn
        return [
            self._load_units(
                fn.value(f"getelementptr {self.unit}, ptr {row}, i64 {offset}"), RUN_STEPS
            )
            for row in self.rows_at
        ]

    def _lanes_of(self, a: str) -> list[str]:
        """Load the units of all packed rows as few vectors."""
        found, first = [], 0
        while first < self.tile.rows:
            count = min(self.lanes, 1 << (self.tile.rows - first).bit_length() - 1)
            place = self.fn.value(f"getelementptr {self.unit}, ptr {a}, i64 {first}")
            units = self._load_units(place, count)
            found += [self._splat(units, count, i) for i in range(count)]
            first += count
        return found

    def _load_units(self, place: str, count: int) -> str:
        """Load neighbouring units into a vector."""
        return self.fn.value(f"load <{count} x {self.unit}>, ptr {place}, align {self.bytes}")

    def _splat(self, units: str, count: int, lane: int) -> str:
        """Return a lane of a vector of `count` units in all lanes of one."""
        kind = f"<{count} x {self.unit}>"
        mask = ", ".join([f"i32 {lane}"] * self.lanes)
        return self.fn.value(
            f"shufflevector {kind} {units}, {kind} poison, <{self.lanes} x i32> <{mask}>"
        )

    def _load_panel(self, pointer: str, j: int) -> str:
        """Load a vector of a panel, which is aligned to an element if it is an operand."""
        place = self.fn.value(f"getelementptr {self.vector}, ptr {pointer}, i64 {j}")
        return self.fn.value(f"load {self.bits}, ptr {place}, align {self.bytes}")

    def _broadcast(self, pointer: str, i: int) -> str:
        fn = self.fn
        place = fn.value(f"getelementptr {self.unit}, ptr {pointer}, i64 {i}")
        unit = fn.value(f"load {self.unit}, ptr {place}, align {self.bytes}")
        first = fn.value(f"insertelement {self.bits} poison, {self.unit} {unit}, i64 0")
        mask = f"<{self.lanes} x i32> zeroinitializer"
        return fn.value(f"shufflevector {self.bits} {first}, {self.bits} poison, {mask}")
