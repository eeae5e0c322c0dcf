"""Micro-kernels in matrix registers for f32 in parts of bf16 (`bf16_parts`).

A step of k is a block for each part, one after the other. The sums of a tile are moved to the
result by a function,

    put(a, panel, copy, out, steps, columns, rows, row_bytes, adds)

while the registers multiply the first step of the next tile. Sums that are not finite may belong to
elements that have no parts: all sums of the tile are computed anew, in f32, from the panels. The
finite ones stay, so that the size of a tile changes no bit.
"""

from __future__ import annotations

from functools import cache

from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.scalar_builder import pointer_value
from hloc.codegen.builder.values import Value
from hloc.codegen.cpu.emitters.carried_loop import CarriedLoop
from hloc.codegen.cpu.emitters.gemm.micro_kernels.bf16_parts import (
    PAIRS,
    PART_STEPS,
    PARTS,
    element_of,
    steps_of,
)
from hloc.codegen.cpu.emitters.gemm.micro_kernels.matrix_kernel import (
    REGISTER_BYTES,
    ROW_BYTES,
    SIDE,
    MatrixTiles,
)
from hloc.codegen.cpu.emitters.gemm.micro_kernels.packing_ahead import PACK_PARAMETERS
from hloc.codegen.cpu.emitters.gemm.micro_kernels.tile_arithmetic import (
    MATRIX_UNITS,
    Arithmetic,
    Tile,
)
from hloc.codegen.cpu.emitters.gemm.micro_kernels.tile_copy import TileCopy
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
_STEPS = PART_STEPS // SIDE
"""Steps of k of a unit, each a vector of f32 for a line of one part."""

_ROWS_TOGETHER = 8
"""Rows whose sums are computed anew together: a divisor of the rows of all tiles."""

_ROWS_CHECKED = 4
"""Rows whose sums are checked together, in chains that do not wait for each other."""

_SUMS, _WORDS, _FLAGS = f"<{SIDE} x float>", f"<{SIDE} x i32>", f"<{SIDE} x i1>"


class PartTiles(MatrixTiles):
    """Emits the micro-kernel of a row of tiles.

    It calls two functions: `put` for sums, and `pack` for the block of columns that is next.
    """

    def __init__(
        self, w: RoutineWriter, arithmetic: Arithmetic, tile: Tile, put: str, pack: str
    ) -> None:
        super().__init__(w, arithmetic, tile)
        self.put, self.pack = put, pack
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
        self.fn.declare(declaration(self.pack, PACK_PARAMETERS))

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
            self._pack_ahead()

    def _pack_ahead(self) -> None:
        """Pack some pieces of the block of columns that is next."""
        with self.body.when(self.math.compare("GT", argument("%ahead_rows"), 0)):
            self.fn.line(f"call void @{self.pack}(ptr %ahead, i64 %ahead_rows)")

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
        lefts = (self.math.sub(argument("%columns"), j * SIDE) for j in range(tile.vectors))
        self.masks = [first_lanes(w, left, SIDE) for left in lefts]
        self.totals = self.fn.allocate(_SUMS, tile.rows * tile.vectors)
        self.left = self.fn.allocate(_SUMS, tile.rows * _STEPS)
        self.right = self.fn.allocate(_SUMS, MATRIX_UNITS * _STEPS)

    def write(self) -> None:
        """Compute sums anew if some are not finite, then move all."""
        with self.body.when(self._is_any_lost()):
            self._compute()
            with self.body.loop(0, argument("%rows")) as row:
                for vector in range(self.tile.vectors):
                    self._renew(row, vector)
        copy = TileCopy(self.w, F32, F32, SIDE, self.tile.vectors, "%copy")
        copy.move("%out", argument("%columns"))

    def _is_any_lost(self) -> Value:
        """Return whether some sum is not finite: the total of all is not, either."""
        fn, math = self.fn, self.math
        last = math.sub(argument("%rows"), 1)
        chains = [(_SUMS, "zeroinitializer")] * (_ROWS_CHECKED * self.tile.vectors)
        loop = CarriedLoop(self.w, [("i64", "0"), *chains])
        first, *totals = loop.values
        for i in range(_ROWS_CHECKED):
            row = math.minimum(math.add(Value(S64, first), i), last)
            for vector in range(self.tile.vectors):
                number = i * self.tile.vectors + vector
                _, sums = self._load(row, vector)
                totals[number] = fn.value(f"fadd {_SUMS} {totals[number]}, {sums}")
        later = fn.value(f"add i64 {first}, {_ROWS_CHECKED}")
        loop.close([later, *totals], fn.value(f"icmp slt i64 {later}, %rows"))
        total = totals[0]
        for other in totals[1:]:
            total = fn.value(f"fadd {_SUMS} {total}, {other}")
        difference = fn.value(f"fsub {_SUMS} {total}, {total}")
        return self._is_any(fn.value(f"fcmp uno {_SUMS} {difference}, {difference}"))

    def _load(self, row: IndexValue, vector: int) -> tuple[str, str]:
        """Load sums of the tile; returns their address, too."""
        place = self.math.add(self.math.mul(row, self.width), vector * SIDE)
        at = self.math.moved("%copy", self.math.mul(place, F32.storage_bytes))
        return at, load_lanes(self.w, at, F32, SIDE, self.masks[vector])

    def _is_any(self, flags: str) -> Value:
        bits = self.fn.value(f"bitcast {_FLAGS} {flags} to i{SIDE}")
        return Value(PRED, self.fn.value(f"icmp ne i{SIDE} {bits}, 0"))

    def _renew(self, row: IndexValue, vector: int) -> None:
        """Replace those sums of a row and a vector of columns that are not finite."""
        fn = self.fn
        at, sums = self._load(row, vector)
        difference = fn.value(f"fsub {_SUMS} {sums}, {sums}")
        is_lost = fn.value(f"fcmp uno {_SUMS} {difference}, {difference}")
        anew = self._vector_at(self.totals, self._place(row, vector))
        kept = fn.value(f"select {_FLAGS} {is_lost}, {_SUMS} {anew}, {_SUMS} {sums}")
        fn.line(f"store {_SUMS} {kept}, ptr {at}, align {ROW_BYTES}")

    def _compute(self) -> None:
        """Compute all sums of the tile in f32."""
        math, rows, vectors = self.math, self.tile.rows, self.tile.vectors
        size = str(rows * vectors * ROW_BYTES)
        self.w.b.clear(pointer_value(self.totals), size)
        with self.body.loop(0, argument("%steps")) as step:
            block = math.mul(step, PARTS)
            with self.body.loop(0, argument("%rows")) as row:
                self._join("%a", (block, rows, row), (self.left, row))
            for vector in range(vectors):
                with self.body.loop(0, MATRIX_UNITS) as unit:
                    line = math.add(unit, vector * SIDE)
                    self._join("%panel", (block, self.width, line), (self.right, unit))
                with self.body.loop(0, argument("%rows"), _ROWS_TOGETHER) as row:
                    self._add_products(row, vector)

    def _join(
        self, panel: str, source: tuple[IndexValue, int, IndexValue], to: tuple[str, IndexValue]
    ) -> None:
        """Store the elements of a line of units as two vectors: of their even and odd steps.

        Args:
            panel: of rows or columns.
            source: number of its first block, lines of a block, and number of the line.
            to: the buffer, and the number of the pair of vectors in it.
        """
        fn, math = self.fn, self.math
        first, lines, line = source
        words: list[tuple[str, str]] = []
        for part in range(PARTS):
            place = math.add(math.mul(math.add(first, part), lines), line)
            at = math.moved(panel, math.mul(place, ROW_BYTES))
            word = fn.value(f"load {_WORDS}, ptr {at}, align 4")
            words.append(steps_of(self.w, word, SIDE))
        for number, parts in enumerate(zip(*words, strict=True)):
            element = element_of(self.w, list(parts), SIDE)
            place = math.add(math.mul(to[1], _STEPS), number)
            at = math.moved(to[0], math.mul(place, ROW_BYTES))
            fn.line(f"store {_SUMS} {element}, ptr {at}, align {ROW_BYTES}")

    def _add_products(self, first: IndexValue, vector: int) -> None:
        """Add the products of a step of k to the sums of some rows and a vector of columns."""
        fn, math = self.fn, self.math
        rows = [math.add(first, i) for i in range(_ROWS_TOGETHER)]
        places = [self._place(row, vector) for row in rows]
        carried = [(_SUMS, self._vector_at(self.totals, place)) for place in places]
        loop = CarriedLoop(self.w, [("i64", "0"), *carried])
        unit, *totals = loop.values
        for number in range(_STEPS):
            place = math.add(math.mul(Value(S64, unit), _STEPS), number)
            right = self._vector_at(self.right, place)
            for i, row in enumerate(rows):
                line = math.mul(math.add(math.mul(row, _STEPS), number), SIDE)
                left = self._element_at(math.add(line, Value(S64, unit)))
                operands = (_SUMS, left), (_SUMS, right), (_SUMS, totals[i])
                totals[i] = fn.call(_SUMS, f"@llvm.fma.v{SIDE}f32", *operands)
        later = fn.value(f"add i64 {unit}, 1")
        loop.close([later, *totals], fn.value(f"icmp slt i64 {later}, {MATRIX_UNITS}"))
        for place, total in zip(places, totals, strict=True):
            at = math.moved(self.totals, math.mul(place, ROW_BYTES))
            fn.line(f"store {_SUMS} {total}, ptr {at}, align {ROW_BYTES}")

    def _place(self, row: IndexValue, vector: int) -> IndexValue:
        return self.math.add(self.math.mul(row, self.tile.vectors), vector)

    def _vector_at(self, buffer: str, place: IndexValue) -> str:
        at = self.math.moved(buffer, self.math.mul(place, ROW_BYTES))
        return self.fn.value(f"load {_SUMS}, ptr {at}, align {ROW_BYTES}")

    def _element_at(self, place: IndexValue) -> str:
        """Return an element of the rows in all lanes."""
        at = self.math.moved(self.left, self.math.mul(place, F32.storage_bytes))
        element = self.fn.value(f"load float, ptr {at}, align {F32.storage_bytes}")
        one = self.fn.value(f"insertelement {_SUMS} poison, float {element}, i64 0")
        order = f"<{SIDE} x i32> zeroinitializer"
        return self.fn.value(f"shufflevector {_SUMS} {one}, {_SUMS} poison, {order}")
