"""Micro-kernels in matrix registers: AMX multiplies 16 rows by 16 columns, 64 bytes of k at once.

    tiles(a, panels, out, steps, row_bytes, rows, columns, adds, ahead ...)

as in `micro_kernel`, but a step is `MATRIX_UNITS` units of k, which `block_packing` pads with zeros
at the end. Registers are configured on entry and released on return, so that the rest of the
process is not affected. The next columns are not prefetched: with that 128x768x3072 of bf16 takes
1.0 to 1.05 of the time.
"""

from __future__ import annotations

from hloc.codegen.builder.values import REPRESENTATIONS, Value
from hloc.codegen.cpu.emitters.gemm.micro_kernels.tile_arithmetic import Arithmetic, Tile
from hloc.codegen.cpu.emitters.gemm.micro_kernels.tile_copy import TileCopy
from hloc.codegen.cpu.emitters.routine_writer import RoutineWriter, argument
from hloc.dtypes import PRED

SIDE = 16
"""Rows of a register, and 32-bit elements of a row."""

ROW_BYTES = 64
"""Size of a row of a register."""

_REGISTERS = 8
REGISTER_BYTES = SIDE * ROW_BYTES
"""Size of a register."""


class MatrixTiles:
    """Emits one micro-kernel: a row of tiles, with packed rows."""

    def __init__(self, w: RoutineWriter, arithmetic: Arithmetic, tile: Tile) -> None:
        self.w, self.fn, self.body, self.math = w, w.fn, w.body, w.math
        self.arithmetic, self.tile = arithmetic, tile
        self.width = tile.vectors * SIDE
        total, result = arithmetic.total, arithmetic.result
        copy = w.fn.allocate(REPRESENTATIONS[total].memory, tile.rows * self.width)
        self.copy = TileCopy(w, total, result, SIDE, tile.vectors, copy)
        self.down = tile.rows // SIDE
        sums = self.down * tile.vectors
        self.sums = [[i * tile.vectors + j for j in range(tile.vectors)] for i in range(self.down)]
        self.left = [sums + i for i in range(self.down)]
        self.right = [sums + self.down + j for j in range(tile.vectors)]
        assert sums + self.down + tile.vectors <= _REGISTERS

    def write(self) -> None:
        """Write the loop over the panels."""
        math = self.math
        self.configure()
        panel_bytes = math.mul(argument("%steps"), self.width * ROW_BYTES)
        with self.body.loop(0, argument("%columns"), self.width) as first:
            panel = math.mul(math.div(first, self.width), panel_bytes)
            b = math.moved("%panels", panel)
            start = math.mul(first, self.arithmetic.result.storage_bytes)
            out = math.moved("%out", start)
            columns = math.minimum(math.sub(argument("%columns"), first), self.width)
            self._write_tile(b, out, math.value(columns))
        self.call("tilerelease", "")

    def configure(self) -> None:
        """Configure the registers."""
        self.call("ldtilecfg", "ptr", self.fn.global_constant("[64 x i8]", _configuration()))

    def _write_tile(self, b: str, out: str, columns: Value) -> None:
        """Compute one tile and store it, directly into the result if whole and of its type."""
        fn = self.fn
        full_rows = fn.value(f"icmp eq i64 %rows, {self.tile.rows}")
        full = fn.value(f"icmp eq i64 {columns.text}, {self.width}")
        whole = Value(PRED, fn.value(f"and i1 {full_rows}, {full}"))
        if self.arithmetic.result is not self.arithmetic.total:
            whole = Value(PRED, "false")
        adds = fn.value(f"and i1 {whole.text}, %adds")
        clears = fn.value(f"xor i1 {adds}, true")
        with self.body.when(Value(PRED, adds)):
            self.transfer("tileloadd64", out, "%row_bytes")
        with self.body.when(Value(PRED, clears)):
            self.clear()
        self.multiply(b)
        apart = self.w.b.not_(whole)
        with self.body.when(whole):
            self.transfer("tilestored64", out, "%row_bytes")
        with self.body.when(apart):
            self.transfer("tilestored64", self.copy.pointer, str(self.copy.row_bytes))
            self.copy.move(out, columns)

    def clear(self) -> None:
        """Let all sums be zero."""
        for number in (number for row in self.sums for number in row):
            self.call("tilezero", "i8", str(number))

    def transfer(self, name: str, pointer: str, row_bytes: str) -> None:
        """Load or store all sums, with row stride `row_bytes`."""
        fn = self.fn
        for i, row in enumerate(self.sums):
            if i:
                step = fn.value(f"mul i64 {row_bytes}, {SIDE}")
                pointer = fn.value(f"getelementptr i8, ptr {pointer}, i64 {step}")
            for j, number in enumerate(row):
                at = fn.value(f"getelementptr i8, ptr {pointer}, i64 {j * ROW_BYTES}")
                self.call(name, "i8, ptr, i64", str(number), at, row_bytes)

    def multiply(self, panel: str) -> None:
        """Run over the blocks of k."""
        left_bytes, right_bytes = self.down * REGISTER_BYTES, self.width * ROW_BYTES
        with self.body.loop(0, argument("%steps")) as step:
            a = self.math.moved("%a", self.math.mul(step, left_bytes))
            b = self.math.moved(panel, self.math.mul(step, right_bytes))
            self.multiply_block(a, str(ROW_BYTES), b)

    def multiply_block(self, a: str, row_bytes: str, b: str) -> None:
        """Add the products of one block of k; the left-hand side has row stride `row_bytes`."""
        self.load_left(a, row_bytes)
        self.add_products(b)

    def load_left(self, a: str, row_bytes: str = str(ROW_BYTES)) -> None:
        """Load a block of the rows."""
        for i, number in enumerate(self.left):
            if i:
                step = self.fn.value(f"mul i64 {row_bytes}, {SIDE}")
                a = self.fn.value(f"getelementptr i8, ptr {a}, i64 {step}")
            self._load(number, a, row_bytes)

    def add_products(self, b: str) -> None:
        """Add the products of the rows with a block of the columns; "" if that is loaded."""
        for j, number in enumerate(self.right):
            if b:
                self._load(number, self.math.moved(b, j * REGISTER_BYTES), str(ROW_BYTES))
            for sums, left in zip(self.sums, self.left, strict=True):
                numbers = (str(x) for x in (sums[j], left, number))
                self.call(self.arithmetic.instruction, "i8, i8, i8", *numbers)

    def _load(self, number: int, pointer: str, row_bytes: str) -> None:
        self.call("tileloadd64", "i8, ptr, i64", str(number), pointer, row_bytes)

    def call(self, name: str, types: str, *arguments: str) -> None:
        """Emit an AMX instruction, an intrinsic call."""
        kinds = types.split(", ") if types else []
        self.fn.call("void", f"@llvm.x86.{name}", *zip(kinds, arguments, strict=True))


def _configuration() -> str:
    """Return the tile configuration: all registers have their full size."""
    data = bytearray(64)
    data[0] = 1  # the palette
    for register in range(_REGISTERS):
        data[16 + 2 * register] = ROW_BYTES
        data[48 + register] = SIDE
    return "[" + ", ".join(f"i8 {byte}" for byte in data) + "]"
