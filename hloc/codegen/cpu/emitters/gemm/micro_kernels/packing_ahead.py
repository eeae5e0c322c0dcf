"""Packing the next block of columns, while matrix registers multiply the one before.

Splitting elements takes the vector units about as long as multiplying them by a hundred rows takes
the matrix registers, and waiting for memory as long again. So rows of tiles pack the next block
between their products, a few pieces at a time, and the processor does both at once:

    pack(block, pieces)

A piece is one unit of k of a panel. A record in memory tells what is packed, and which pieces are
left. Of the `AHEAD_PARAMETERS` of micro-kernels, `ahead` points to the record and `ahead_rows` is
the number of pieces after each pair of parts.
"""

from __future__ import annotations

from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.values import Value
from hloc.codegen.cpu.emitters.routine_writer import RoutineWriter
from hloc.dtypes import S64

PACK_PARAMETERS = ("ptr %block", "i64 %pieces")

UNIT_OFFSETS, AHEAD_OFFSETS = ("even", "odd"), ("even_ahead", "odd_ahead")
"""Fields with the offsets of the two steps of k of a unit: the next one, and one to prefetch."""

_SOURCE, _SIZES = ("from", "steps"), ("count", "depth")
_PIECE = ("left", "unit", "column", "place", *UNIT_OFFSETS, *AHEAD_OFFSETS)
_FIELDS = ("to", "other", *_SOURCE, *_SIZES, *_PIECE)
_FIELD_BYTES = 8


class BlockRecord:
    """Emits accesses to the record of a block of columns.

    `from`, `steps`, `to`, `count` and `depth` are what packing functions take as `ROW_PARAMETERS`:
    `from` points to the first column, `steps` to the offsets from the first step of k on. `other`
    is the memory of the block before. Of `left` pieces the next one has the numbers `unit` and
    `column`, and is written at the offset `place`.
    """

    def __init__(self, w: RoutineWriter, place: str) -> None:
        self.w, self.place = w, place

    @classmethod
    def new(cls, w: RoutineWriter) -> BlockRecord:
        """Return a record in the function's stack memory."""
        return cls(w, w.fn.allocate("i64", len(_FIELDS)))

    def set_memory(self, to: str, other: str) -> None:
        """Set the memory of the first block and of the second."""
        self._store_pointer("to", to)
        self._store_pointer("other", other)

    def exchange_memory(self) -> str:
        """Return where the block was packed; the next one goes to the other memory."""
        packed, other = self._load_pointer("to"), self._load_pointer("other")
        self.set_memory(other, packed)
        return packed

    def begin(
        self, from_: str, steps: str, count: IndexValue, depth: IndexValue, pieces: IndexValue
    ) -> None:
        """Begin a block of `count` columns and `depth` steps of k, in some pieces."""
        self._store_pointer("from", from_)
        self._store_pointer("steps", steps)
        self.store(count=count, depth=depth, left=pieces, unit=-1, column=count)

    def define_parameters(self) -> None:
        """Give the fields that do not change the names that parameters have."""
        for name in ("to", *_SOURCE, *_SIZES):
            kind = "i64" if name in _SIZES else "ptr"
            self.w.fn.line(f"%{name} = load {kind}, ptr {self._at(name)}")

    def load(self, name: str) -> Value:
        """Return a number of the record."""
        return Value(S64, self.w.fn.value(f"load i64, ptr {self._at(name)}"))

    def store(self, **numbers: IndexValue) -> None:
        """Set numbers of the record."""
        for name, number in numbers.items():
            text = self.w.math.value(number).text
            self.w.fn.line(f"store i64 {text}, ptr {self._at(name)}")

    def _load_pointer(self, name: str) -> str:
        return self.w.fn.value(f"load ptr, ptr {self._at(name)}")

    def _store_pointer(self, name: str, pointer: str) -> None:
        self.w.fn.line(f"store ptr {pointer}, ptr {self._at(name)}")

    def _at(self, name: str) -> str:
        return self.w.math.moved(self.place, _FIELDS.index(name) * _FIELD_BYTES)
