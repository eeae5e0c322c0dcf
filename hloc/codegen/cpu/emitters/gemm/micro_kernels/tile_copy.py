"""Copies a tile to the result: edge tiles, accumulating tiles, narrow results."""

from __future__ import annotations

from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.values import Value
from hloc.codegen.cpu.emitters.routine_writer import RoutineWriter, argument, named_parameters
from hloc.codegen.cpu.emitters.vector_loads import (
    first_lanes,
    load_lanes,
    rounded,
    store_lanes,
    vector_type,
)
from hloc.dtypes import PRED, DType

EDGE_PARAMETERS = (*named_parameters("copy", "out", "columns rows row_bytes"), "i1 %adds")
"""Parameters of the function that moves a copy of a tile into the result.

It is separate from the tiles: few tiles need it, so its code may be compact.
"""


class TileCopy:
    """Memory for one tile of sums at `pointer`, and the code that moves it into the result.

    The function has the parameters `%rows` (of the tile), `%row_bytes` (of the result) and `%adds`,
    true to add to the result.
    """

    def __init__(
        self,
        w: RoutineWriter,
        total: DType,
        result: DType,
        lanes: int,
        vectors: int,
        pointer: str,
    ) -> None:
        self.w, self.fn, self.b, self.body, self.math = w, w.fn, w.b, w.body, w.math
        self.total, self.result = total, result
        self.lanes, self.vectors = lanes, vectors
        self.width = lanes * vectors
        self.row_bytes = self.width * total.storage_bytes
        self.pointer = pointer

    def move(self, out: str, columns: Value) -> None:
        """Move the valid rows and columns to `out`, the address of the tile in the result."""
        if self.result is not self.total:
            self._move_rows(out, columns, adds=False)
            return
        adds = Value(PRED, "%adds")
        with self.body.when(adds):
            self._move_rows(out, columns, adds=True)
        with self.body.when(self.b.not_(adds)):
            self._move_rows(out, columns, adds=False)

    def _move_rows(self, out: str, columns: Value, *, adds: bool) -> None:
        """Add the valid rows and columns to the result, or store them."""
        everything, some = (
            [""] * self.vectors,
            [
                first_lanes(self.w, self.math.sub(columns, j * self.lanes), self.lanes)
                for j in range(self.vectors)
            ],
        )
        if self.w.b.target.has("avx512f"):  # masks are free there; separate code for rows is not
            self._move_lanes(out, some, adds=adds)
            return
        is_whole = self.math.compare("EQ", columns, self.width)
        with self.body.when(is_whole):
            self._move_lanes(out, everything, adds=adds)
        with self.body.when(self.b.not_(is_whole)):
            self._move_lanes(out, some, adds=adds)

    def _move_lanes(self, out: str, masks: list[str], *, adds: bool) -> None:
        """Add or store the lanes of all rows that are in the masks of their vectors."""
        with self.body.loop(0, argument("%rows")) as row:
            source, target = self._row(out, row)
            for j, mask in enumerate(masks):
                self._move(source, target, j * self.lanes, mask, adds=adds)

    def rounded(self, value: str) -> str:
        """Return a vector of sums in the type of the result."""
        return rounded(self.w, value, self.total, self.result, self.lanes)

    def _row(self, out: str, row: IndexValue) -> tuple[str, str]:
        """Return the addresses of a row in the copy and in the result."""
        math, fn = self.math, self.fn
        start = math.value(math.mul(row, self.row_bytes)).text
        offset = math.value(math.mul(row, argument("%row_bytes"))).text
        source = fn.value(f"getelementptr i8, ptr {self.pointer}, i64 {start}")
        return source, fn.value(f"getelementptr i8, ptr {out}, i64 {offset}")

    def _move(self, source: str, target: str, column: int, mask: str, *, adds: bool) -> None:
        """Add a part of a row to the result, or store it; with a mask some of its lanes."""
        fn, total, result = self.fn, self.total, self.result
        from_ = fn.value(f"getelementptr i8, ptr {source}, i64 {column * total.storage_bytes}")
        to = fn.value(f"getelementptr i8, ptr {target}, i64 {column * result.storage_bytes}")
        kind = vector_type(total, self.lanes)
        value = fn.value(f"load {kind}, ptr {from_}, align {total.storage_bytes}")
        if adds:
            before = load_lanes(self.w, to, result, self.lanes, mask)
            op = "fadd" if total.is_float else "add"
            value = fn.value(f"{op} {kind} {before}, {value}")
        store_lanes(self.w, to, result, self.lanes, mask, self.rounded(value))
