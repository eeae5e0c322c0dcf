"""Micro-kernels in matrix registers for f32 in parts of bf16 (`bf16_parts`).

A step of k is a block for each part, one after the other. The sums of a tile are moved to the
result by a function,

    put(a, panel, copy, out, steps, columns, rows, row_bytes, adds)

while the registers multiply the first step of the next tile. Sums that are not finite may belong to
elements that have no parts: they are computed anew, in f32, from the panels; the others stay, so
that the size of a tile changes no bit.
"""

from __future__ import annotations

from functools import cache

from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.values import Value
from hloc.codegen.cpu.emitters.carried_loop import CarriedLoop
from hloc.codegen.cpu.emitters.gemm.bf16_parts import PAIRS, PARTS, element_of, steps_of
from hloc.codegen.cpu.emitters.gemm.matrix_kernel import (
    REGISTER_BYTES,
    ROW_BYTES,
    SIDE,
    MatrixTiles,
)
from hloc.codegen.cpu.emitters.gemm.tile_arithmetic import MATRIX_UNITS, Arithmetic, Tile
from hloc.codegen.cpu.emitters.gemm.tile_copy import TileCopy
from hloc.codegen.cpu.emitters.routine_writer import (
    RoutineWriter,
    argument,
    declaration,
    named_parameters,
    routine_unit,
)
from hloc.codegen.cpu.emitters.vector_loads import first_lanes, load_lanes
from hloc.codegen.llvm.routine import Routines
from hloc.codegen.llvm.target import Target
from hloc.dtypes import F32, PRED, S64

_PUT_PARAMETERS = (
    *named_parameters("a panel", "copy out", "steps columns rows row_bytes"),
    "i1 %adds",
)
_SUMS, _WORDS, _FLAGS = f"<{SIDE} x float>", f"<{SIDE} x i32>", f"<{SIDE} x i1>"


class PartTiles(MatrixTiles):
    """Emits the micro-kernel of a row of tiles; `put` is the name of the function for sums."""

    def __init__(self, w: RoutineWriter, arithmetic: Arithmetic, tile: Tile, put: str) -> None:
        super().__init__(w, arithmetic, tile)
        self.put = put
        self.left_bytes = self.down * REGISTER_BYTES
        self.right_bytes = tile.vectors * REGISTER_BYTES

    def write(self) -> None:
        """Write the loop over the panels; sums are put after the first step of the next tile."""
        math, steps, width = self.math, argument("%steps"), self.width
        self.configure()
        with self.body.loop(0, argument("%columns"), width) as first:
            panel = self._panel(first)
            self.clear()
            self._multiply(panel, 0)
            with self.body.when(math.compare("GT", first, 0)):
                self._put(math.sub(first, width), width)
            with self.body.loop(1, steps) as step:
                self._multiply(panel, step)
            self.transfer("tilestored64", self.copy.pointer, str(self.copy.row_bytes))
        last = math.mul(math.div(math.sub(argument("%columns"), 1), width), width)
        self._put(last, math.sub(argument("%columns"), last))
        self.call("tilerelease", "")
        self.fn.declare(declaration(self.put, _PUT_PARAMETERS))

    def _panel(self, first: IndexValue) -> str:
        """Return the address of the panel that begins with a column."""
        math = self.math
        panel_bytes = math.mul(argument("%steps"), PARTS * self.right_bytes)
        return math.moved("%panels", math.mul(math.div(first, self.width), panel_bytes))

    def _multiply(self, panel: str, step: IndexValue) -> None:
        """Add the products of all pairs of parts in a step of k."""
        math = self.math
        a = math.moved("%a", math.mul(step, PARTS * self.left_bytes))
        b = math.moved(panel, math.mul(step, PARTS * self.right_bytes))
        loaded = (-1, -1)
        for left, right in PAIRS:
            if left != loaded[0]:
                self.load_left(math.moved(a, left * self.left_bytes))
            is_new = right != loaded[1]
            self.add_products(math.moved(b, right * self.right_bytes) if is_new else "")
            loaded = left, right

    def _put(self, first: IndexValue, columns: IndexValue) -> None:
        """Call the function that moves the sums of the columns from `first` on."""
        math = self.math
        out = math.moved("%out", math.mul(first, F32.storage_bytes))
        pointers = ", ".join(f"ptr {x}" for x in ("%a", self._panel(first), self.copy.pointer, out))
        numbers = f"i64 %steps, i64 {math.value(columns).text}, i64 %rows, i64 %row_bytes"
        self.fn.line(f"call void @{self.put}({pointers}, {numbers}, i1 %adds)")


@cache
def put_routine(name: str, tile: Tile, target: Target) -> Routines:
    """Return the function that moves the sums of a tile of some size to the result."""
    return routine_unit(name, _PUT_PARAMETERS, lambda w: _Sums(w, tile).write(), target)


class _Sums:
    """Writes the function that moves the sums of a tile."""

    def __init__(self, w: RoutineWriter, tile: Tile) -> None:
        self.w, self.fn, self.body, self.math, self.tile = w, w.fn, w.body, w.math, tile
        self.width = tile.vectors * SIDE
        self.total = self.fn.allocate(_SUMS)
        lefts = (self.math.sub(argument("%columns"), j * SIDE) for j in range(tile.vectors))
        self.masks = [first_lanes(w, left, SIDE) for left in lefts]

    def write(self) -> None:
        """Compute sums anew that are not finite, then move all."""
        with self.body.when(self._is_any_lost()), self.body.loop(0, argument("%rows")) as row:
            for vector in range(self.tile.vectors):
                self._renew(row, vector)
        copy = TileCopy(self.w, F32, F32, SIDE, self.tile.vectors, "%copy")
        copy.move("%out", argument("%columns"))

    def _is_any_lost(self) -> Value:
        """Return whether some sum is not finite: NaN if subtracted from itself."""
        fn = self.fn
        loop = CarriedLoop(self.w, [("i64", "0"), (_WORDS, "zeroinitializer")])
        row, found = loop.values
        for vector in range(self.tile.vectors):
            _, sums = self._load(Value(S64, row), vector)
            difference = fn.value(f"fsub {_SUMS} {sums}, {sums}")
            bits = fn.value(f"bitcast {_SUMS} {difference} to {_WORDS}")
            found = fn.value(f"or {_WORDS} {found}, {bits}")  # faster than a sum
        later = fn.value(f"add i64 {row}, 1")
        loop.close([later, found], fn.value(f"icmp slt i64 {later}, %rows"))
        all_ = fn.value(f"bitcast {_WORDS} {found} to {_SUMS}")
        return self._is_any(fn.value(f"fcmp uno {_SUMS} {all_}, {all_}"))

    def _load(self, row: IndexValue, vector: int) -> tuple[str, str]:
        """Load sums of the tile; returns their address, too."""
        place = self.math.add(self.math.mul(row, self.width), vector * SIDE)
        at = self.math.moved("%copy", self.math.mul(place, F32.storage_bytes))
        return at, load_lanes(self.w, at, F32, SIDE, self.masks[vector])

    def _is_any(self, flags: str) -> Value:
        bits = self.fn.value(f"bitcast {_FLAGS} {flags} to i{SIDE}")
        return Value(PRED, self.fn.value(f"icmp ne i{SIDE} {bits}, 0"))

    def _renew(self, row: IndexValue, vector: int) -> None:
        """Compute those sums of a row and a vector of columns anew that are not finite."""
        fn = self.fn
        at, sums = self._load(row, vector)
        difference = fn.value(f"fsub {_SUMS} {sums}, {sums}")
        is_lost = fn.value(f"fcmp uno {_SUMS} {difference}, {difference}")
        with self.body.when(self._is_any(is_lost)):
            anew = self._sums_of(row, vector)
            kept = fn.value(f"select {_FLAGS} {is_lost}, {_SUMS} {anew}, {_SUMS} {sums}")
            fn.line(f"store {_SUMS} {kept}, ptr {at}, align {ROW_BYTES}")

    def _sums_of(self, row: IndexValue, vector: int) -> str:
        """Return the sums of a row and a vector of columns."""
        fn = self.fn
        fn.line(f"store {_SUMS} zeroinitializer, ptr {self.total}, align {ROW_BYTES}")
        with self.body.loop(0, argument("%steps")) as step, self.body.loop(0, MATRIX_UNITS) as unit:
            words = [self._words(step, part, unit, row, vector) for part in range(PARTS)]
            left, right = (self._elements(side) for side in zip(*words, strict=True))
            total = fn.value(f"load {_SUMS}, ptr {self.total}, align {ROW_BYTES}")
            for x, y in zip(left, right, strict=True):
                operands = (_SUMS, x), (_SUMS, y), (_SUMS, total)
                total = fn.call(_SUMS, f"@llvm.fma.v{SIDE}f32", *operands)
            fn.line(f"store {_SUMS} {total}, ptr {self.total}, align {ROW_BYTES}")
        return fn.value(f"load {_SUMS}, ptr {self.total}, align {ROW_BYTES}")

    def _words(
        self, step: IndexValue, part: int, unit: IndexValue, row: IndexValue, vector: int
    ) -> tuple[str, str]:
        """Return one part of a unit of the row, in all lanes, and of the columns."""
        fn, math = self.fn, self.math
        block = math.add(math.mul(step, PARTS), part)
        line = math.add(math.mul(block, self.tile.rows), row)
        at = math.moved("%a", math.add(math.mul(line, ROW_BYTES), math.mul(unit, 4)))
        word = fn.value(f"load i32, ptr {at}, align 4")
        first = fn.value(f"insertelement {_WORDS} poison, i32 {word}, i64 0")
        zeros = f"<{SIDE} x i32> zeroinitializer"
        of_row = fn.value(f"shufflevector {_WORDS} {first}, {_WORDS} poison, {zeros}")
        line = math.add(math.add(math.mul(block, self.width), vector * SIDE), unit)
        at = math.moved("%panel", math.mul(line, ROW_BYTES))
        return of_row, fn.value(f"load {_WORDS}, ptr {at}, align {ROW_BYTES}")

    def _elements(self, words: tuple[str, ...]) -> list[str]:
        """Return the elements of both steps of units, given the words of their parts."""
        steps = zip(*(steps_of(self.w, word, SIDE) for word in words), strict=True)
        return [element_of(self.w, list(parts), SIDE) for parts in steps]
