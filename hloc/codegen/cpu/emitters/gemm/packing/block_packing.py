"""Packing for matrix registers: blocks of 16 units of k, padded with zeros at the end of k.

A unit is four bytes: one or several elements of k. A panel is a sequence of blocks. In a block of
rows, the units of each row are contiguous; in a block of columns, the columns of each unit are.
Memory is read in lines of 64 bytes, along k or along rows or columns; where the panel needs the
other order, 16 lines are transposed in registers. An f32 is packed as bf16 parts: a block for each.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property

from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.scalar_builder import pointer_value
from hloc.codegen.builder.values import REPRESENTATIONS, Value
from hloc.codegen.cpu.emitters.gemm.micro_kernels.bf16_parts import (
    PARTS,
    line_words,
    parts_of,
    unit_words,
)
from hloc.codegen.cpu.emitters.gemm.micro_kernels.matrix_kernel import ROW_BYTES, SIDE
from hloc.codegen.cpu.emitters.gemm.micro_kernels.packing_ahead import (
    AHEAD_OFFSETS,
    UNIT_OFFSETS,
    BlockRecord,
)
from hloc.codegen.cpu.emitters.gemm.micro_kernels.tile_arithmetic import MATRIX_UNITS
from hloc.codegen.cpu.emitters.gemm.packing.gather_runs import GatherRuns, find_gather_runs
from hloc.codegen.cpu.emitters.gemm.packing.packing import (
    Packing,
    interleaved,
    transposed,
)
from hloc.codegen.cpu.emitters.routine_writer import RoutineWriter, argument
from hloc.codegen.cpu.emitters.vector_loads import first_lanes, load_as
from hloc.dtypes import BF16, F32

_LINE = f"<{SIDE} x i32>"

_UNITS_AHEAD = 8
"""Units of k between columns that are packed and columns that are prefetched.

Columns wait for memory: 0.83 of the time for 128x768x768 of bf16, 0.95 for 128x3072x768, both not
in a cache.
"""

_ROWS_AHEAD = 4
"""Rows between those that are packed and those that are prefetched: 0.95 of the time for
1024x3072x768 of f32."""


class BlockPacking:
    """Writes one packing function: `gather`, `runs`, `lines`, `pieces` or `copy_parts`."""

    def __init__(self, w: RoutineWriter, p: Packing, *, by_unit: bool) -> None:
        """Begin.

        Args:
            w: the function.
            p: the form of the panel; elements keep their type, except that f32 becomes parts.
            by_unit: true for columns, whose units are contiguous in the panel.
        """
        self.w, self.fn, self.b, self.body, self.math = w, w.fn, w.b, w.body, w.math
        self.p, self.by_unit = p, by_unit
        self.steps = MATRIX_UNITS * p.group
        self.splits = p.source is F32
        self.parts = PARTS if self.splits else 1
        self.element = "i32" if self.splits else REPRESENTATIONS[p.packed].memory
        self.part_bytes = p.width * ROW_BYTES
        self.block_bytes = self.parts * self.part_bytes
        self.depth, self.count = argument("%depth"), argument("%count")

    @cached_property
    def square(self) -> str:
        """Memory for 16 lines of each part, which are transposed."""
        return self.fn.allocate(_LINE, self.parts * SIDE)

    # ---- from anywhere

    def gather(self) -> None:
        """Pack one panel from anywhere, with `GATHER_PARAMETERS`.

        Contiguous runs are sought along k; for columns, first along the columns.
        """
        math = self.math
        if not self.by_unit:
            with self._all_blocks() as (first, block):
                self._block(0, self.count, first, block)
            return
        with self.body.loop(0, self.count, SIDE) as i:
            last = math.minimum(math.add(i, SIDE), self.count)
            pieces = find_gather_runs(self.w, "%offsets", i, math.sub(last, i), SIDE)
            with self.body.when(pieces.are_few):
                self._pieces_of_columns(i, pieces)
            with self.body.when(pieces.are_many), self._all_blocks() as (first, block):
                self._block(i, last, first, block)

    def runs(self) -> None:
        """Pack rows whose steps of k are contiguous, one row after the other."""
        math = self.math
        with self.body.loop(0, self.count) as i:
            begin = self.w.offset("%steps", 0)
            start = math.add(self.w.offset("%offsets", i), begin)
            later = math.minimum(math.add(i, _ROWS_AHEAD), math.sub(self.count, 1))
            ahead = math.add(self.w.offset("%offsets", later), begin)
            row = math.moved("%to", math.mul(i, ROW_BYTES))
            whole = math.mul(math.div(self.depth, self.steps), self.steps)
            for from_, end in ((0, whole), (whole, self.depth)):
                with self.body.loop(from_, end, self.steps) as first:
                    self._prefetch(math.add(ahead, first), self.steps)
                    left = math.sub(self.depth, first)
                    mask = "" if end is whole else first_lanes(self.w, left, self.steps)
                    line = self._load(math.add(start, first), self.steps, mask)
                    block = math.mul(math.div(first, self.steps), self.block_bytes)
                    self._store_parts(row, block, self._line_words(line))

    def _line_words(self, line: str) -> list[str]:
        """Return a line of steps of k as units, in parts."""
        if self.splits:
            parts = parts_of(self.w, line, self.steps)
            return [line_words(self.w, part, self.steps) for part in parts]
        return [self.fn.value(f"bitcast <{self.steps} x {self.element}> {line} to {_LINE}")]

    def copy_parts(self) -> None:
        """Pack rows whose parts lie in lines."""
        math, fn = self.math, self.fn
        with self._all_blocks() as (first, block):
            step = self.w.offset("%steps", first)
            with self.body.loop(0, self.count) as i:
                element = math.add(self.w.offset("%offsets", i), step)
                source = math.moved("%from", math.mul(element, self.parts * BF16.storage_bytes))
                for part in range(self.parts):
                    at = math.moved(source, part * ROW_BYTES)
                    line = fn.value(f"load {_LINE}, ptr {at}, align {ROW_BYTES}")
                    to = math.moved(block, part * self.part_bytes)
                    self._store(to, math.mul(i, ROW_BYTES), line)

    @contextmanager
    def _all_blocks(self) -> Iterator[tuple[IndexValue, str]]:
        """Run the region for all blocks; yields the first step of k, and the block's address."""
        math = self.math
        with self.body.loop(0, self.depth, self.steps) as first:
            place = math.mul(math.div(first, self.steps), self.block_bytes)
            yield first, self.math.moved("%to", place)

    def _pieces_of_columns(self, i: IndexValue, pieces: GatherRuns) -> None:
        """Pack 16 columns that are contiguous in a few pieces."""
        math = self.math
        with self._all_blocks() as (first, block), self.body.loop(0, MATRIX_UNITS) as unit:
            offsets, valid = self._unit(first, unit)
            vectors = [
                self._combined(pieces, offset, SIDE, exists)
                for offset, exists in zip(offsets, valid, strict=True)
            ]
            place = math.mul(math.add(i, unit), ROW_BYTES)
            self._store_parts(block, place, self._words(vectors, SIDE))

    def _block(self, start: IndexValue, stop: IndexValue, first: IndexValue, block: str) -> None:
        """Pack some rows or columns of a block, with contiguous runs along k where possible."""
        math = self.math
        left = math.minimum(math.sub(self.depth, first), self.steps)
        pieces = find_gather_runs(self.w, "%steps", first, left, self.steps)
        with self.body.when(pieces.is_one):
            self._lines(start, stop, block, pieces.whole)
        with self.body.when(pieces.are_several):
            self._lines(start, stop, block, pieces)
        with self.body.when(pieces.are_many):
            self._elements(start, stop, first, left, block)

    def _lines(self, start: IndexValue, stop: IndexValue, block: str, pieces: GatherRuns) -> None:
        """Pack lines along k; those of columns are transposed."""
        math, fn = self.math, self.fn

        def line(i: IndexValue) -> list[str]:
            offset = self.w.offset("%offsets", i)
            vector = self._combined(pieces, offset, self.steps)
            if self.splits:
                place = math.add(math.add(offset, pieces.parts[0][0]), self.steps)
                self._prefetch(place, self.steps)
            return self._line_words(vector)

        if not self.by_unit:
            with self.body.loop(start, stop) as i:
                self._store_parts(block, math.mul(i, ROW_BYTES), line(i))
            return
        last, square_bytes = math.sub(stop, 1), SIDE * ROW_BYTES
        with self.body.loop(0, SIDE) as r:
            for part, text in enumerate(line(math.minimum(math.add(start, r), last))):
                place = math.add(math.mul(r, ROW_BYTES), part * square_bytes)
                self._store(self.square, place, text)
        for part in range(self.parts):
            square = math.moved(self.square, part * square_bytes)
            rows = (math.moved(square, r * ROW_BYTES) for r in range(SIDE))
            lines = [fn.value(f"load {_LINE}, ptr {row}, align {ROW_BYTES}") for row in rows]
            to = math.moved(block, part * self.part_bytes)
            for unit, vector in enumerate(transposed(self.w, lines, _LINE)):
                self._store(to, math.mul(math.add(start, unit), ROW_BYTES), vector)

    def _prefetch(self, place: IndexValue, count: int) -> None:
        """Prefetch the lines of `count` elements from `place` on."""
        size = self.p.source.storage_bytes
        for start in range(0, count * size, ROW_BYTES):
            at = self.math.add(self.math.mul(place, size), start)
            self.b.prefetch_at(self.math.moved("%from", at), 1)

    def _combined(
        self, pieces: GatherRuns, place: IndexValue, size: int, exists: Value | None = None
    ) -> str:
        """Return the elements from `place` on, gathered piece by piece; zeros if there are none."""
        fn, math = self.fn, self.math
        kind, total = f"<{size} x {self.element}>", ""
        for base, mask in pieces.parts:
            if exists is not None:
                flags = f"<{size} x i1>"
                mask = fn.value(f"select i1 {exists.text}, {flags} {mask}, {flags} zeroinitializer")
            part = self._load(math.add(place, base), size, mask)
            total = fn.value(f"or {kind} {total}, {part}") if total else part
        return total

    def _elements(
        self,
        start: IndexValue,
        stop: IndexValue,
        first: IndexValue,
        left: IndexValue,
        block: str,
    ) -> None:
        """Pack some rows or columns of a block element by element."""
        math, p, b = self.math, self.p, self.b
        last = math.sub(left, 1)
        zero = b.const(p.source, 0)
        with self.body.loop(start, stop) as i, self.body.loop(0, self.steps) as step:
            base = self.w.offset("%offsets", i)
            offset = self.w.offset("%steps", math.add(first, math.minimum(step, last)))
            value = b.load(pointer_value("%from"), p.source, math.add(base, offset))
            value = b.select(math.compare("LT", step, left), value, zero)
            unit, e = math.div(step, p.group), math.rem(step, p.group)
            cell = math.add(math.mul(i, MATRIX_UNITS), unit)
            if self.by_unit:
                register, lane = math.div(i, SIDE), math.rem(i, SIDE)
                cell = math.add(math.mul(math.add(math.mul(register, SIDE), unit), SIDE), lane)
            place = math.add(math.mul(cell, p.group), e)
            for part, element in enumerate(self._elements_of(value)):
                b.store(pointer_value(math.moved(block, part * self.part_bytes)), place, element)

    def _elements_of(self, value: Value) -> list[Value]:
        """Return the packed elements of one element: itself, or its parts."""
        if not self.splits:
            return [value]
        fn = self.fn
        bits = fn.value(f"bitcast float {value.text} to i32")
        bits = fn.value(f"insertelement <1 x i32> poison, i32 {bits}, i64 0")
        found = []
        for part in parts_of(self.w, bits, 1):
            word = fn.value(f"extractelement <1 x i32> {part}, i64 0")
            high = fn.value(f"lshr i32 {word}, 16")
            found.append(Value(BF16, fn.value(f"trunc i32 {high} to i16")))
        return found

    # ---- along the rows or columns

    def lines(self) -> None:
        """Write the loops over blocks, units and panels."""
        math = self.math
        blocks = math.div(math.add(self.depth, self.steps - 1), self.steps)
        panel_bytes = math.mul(blocks, self.block_bytes)
        with self.body.loop(0, blocks) as number:
            first = math.mul(number, self.steps)
            start = math.mul(number, self.block_bytes)
            if self.by_unit:
                self._columns(first, start, panel_bytes)
            else:
                self._rows(first, start, panel_bytes)

    def _columns(self, first: IndexValue, start: IndexValue, panel_bytes: IndexValue) -> None:
        """Pack a block of the columns of all panels; whole lines of whole blocks need no masks."""
        math, size = self.math, self.lines_together * SIDE
        whole = math.mul(math.div(self.count, size), size)
        whole = self.b.select(self._is_whole(first), math.value(whole), math.value(0))
        with self.body.loop(0, MATRIX_UNITS) as unit:
            row = math.add(start, math.mul(unit, ROW_BYTES))
            ahead, _ = self._unit(first, math.add(unit, _UNITS_AHEAD))
            offsets, valid = self._unit(first, unit)
            for begin, end in ((0, whole), (whole, self.count)):
                with self.body.loop(begin, end, size) as i:
                    for offset in ahead:
                        self._prefetch(math.add(offset, i), size)
                    panel = math.mul(math.div(i, self.p.width), panel_bytes)
                    within = math.mul(math.rem(i, self.p.width), ROW_BYTES)
                    place = math.add(math.add(row, panel), within)
                    self._pack_unit(offsets, [] if end is whole else valid, i, place)

    def pieces(self) -> None:
        """Pack the next pieces of a block of columns, with `PACK_PARAMETERS`."""
        math, record, width = self.math, BlockRecord(self.w, "%block"), self.p.width
        record.define_parameters()
        panel_bytes = math.mul(math.ceiling_div(self.depth, self.steps), self.block_bytes)
        whole_units = math.mul(math.div(self.depth, self.steps), MATRIX_UNITS)
        left = record.load("left")
        pieces = math.minimum(left, argument("%pieces"))
        record.store(left=math.sub(left, pieces))
        with self.body.loop(0, pieces):
            is_new = math.compare("GE", record.load("column"), self.count)
            with self.body.when(is_new):
                self._begin_unit(record)
            i, place = record.load("column"), record.load("place")
            for name in AHEAD_OFFSETS:
                self._prefetch(math.add(record.load(name), i), width)
            end, unit = math.add(i, width), record.load("unit")
            is_whole = self.b.and_(
                math.compare("LT", unit, whole_units), math.compare("LE", end, self.count)
            )
            with self.body.when(is_whole):
                self._pack_panel([record.load(name) for name in UNIT_OFFSETS], [], i, place)
            with self.body.when(self.b.not_(is_whole)):
                self._pack_panel(*self._unit(0, unit), i, place)
            record.store(column=end, place=math.add(place, panel_bytes))

    def _begin_unit(self, record: BlockRecord) -> None:
        """Go to the first column of the next unit of k."""
        math = self.math
        unit = math.add(record.load("unit"), 1)
        offsets, _ = self._unit(0, unit)
        ahead, _ = self._unit(0, math.add(unit, _UNITS_AHEAD))
        block = math.mul(math.div(unit, MATRIX_UNITS), self.block_bytes)
        place = math.add(block, math.mul(math.rem(unit, MATRIX_UNITS), ROW_BYTES))
        record.store(unit=unit, column=0, place=place)
        record.store(**dict(zip(UNIT_OFFSETS + AHEAD_OFFSETS, offsets + ahead, strict=True)))

    def _pack_panel(
        self, offsets: list[Value], valid: list[Value], i: IndexValue, place: IndexValue
    ) -> None:
        """Pack one unit of the columns of a panel."""
        for start in range(0, self.p.width, self.lines_together * SIDE):
            to = self.math.add(place, start * ROW_BYTES)
            self._pack_unit(offsets, valid, self.math.add(i, start), to)

    @property
    def lines_together(self) -> int:
        """Lines of columns that are packed as one vector."""
        return 2 if self.p.width % (2 * SIDE) == 0 else 1

    def _is_whole(self, first: IndexValue) -> Value:
        """Return whether all steps of the block that begins with step `first` exist."""
        return self.math.compare("LE", self.math.add(first, self.steps), self.depth)

    def _pack_unit(
        self, offsets: list[Value], valid: list[Value], i: IndexValue, place: IndexValue
    ) -> None:
        """Pack one unit of some lines of columns, from column `i` on."""
        found = self._units(offsets, valid, i, self.lines_together)
        for number, parts in enumerate(found):
            at = self.math.add(place, number * SIDE * ROW_BYTES)
            self._store_parts("%to", at, parts)

    def _rows(self, first: IndexValue, start: IndexValue, panel_bytes: IndexValue) -> None:
        """Pack a block of the rows of all panels."""
        math = self.math
        with self.body.loop(0, self.count, SIDE) as i:
            units = []
            for number in range(MATRIX_UNITS):
                offsets, valid = self._unit(first, number)
                units += self._units(offsets, valid, i, 1)
            panel = math.mul(math.div(i, self.p.width), panel_bytes)
            within = math.mul(math.rem(i, self.p.width), ROW_BYTES)
            place = math.add(math.add(start, panel), within)
            for part in range(self.parts):
                lines = transposed(self.w, [unit[part] for unit in units], _LINE)
                to = math.moved("%to", part * self.part_bytes)
                for r, line in enumerate(lines):
                    self._store(to, math.add(place, r * ROW_BYTES), line)

    def _unit(self, first: IndexValue, unit: IndexValue) -> tuple[list[Value], list[Value]]:
        """Return the addresses of the elements of a unit, and which of them exist."""
        math, group = self.math, self.p.group
        last = math.sub(self.depth, 1)
        steps = [math.add(math.add(first, math.mul(unit, group)), e) for e in range(group)]
        offsets = [self.w.offset("%steps", math.minimum(step, last)) for step in steps]
        return offsets, [math.compare("LE", step, last) for step in steps]

    def _units(
        self, offsets: list[Value], valid: list[Value], i: IndexValue, lines: int
    ) -> list[list[str]]:
        """Return one unit of all rows or columns of some lines, from number `i` on, in parts.

        `valid` tells which elements of the unit exist; if it is empty, all exist in all lines.
        """
        math, fn = self.math, self.fn
        size = lines * SIDE
        masks = [""] * len(offsets)
        if valid:
            mask, kind = first_lanes(self.w, math.sub(self.count, i), size), f"<{size} x i1>"
            masks = [
                fn.value(f"select i1 {exists.text}, {kind} {mask}, {kind} zeroinitializer")
                for exists in valid
            ]
        vectors = [
            self._load(math.add(offset, i), size, mask)
            for offset, mask in zip(offsets, masks, strict=True)
        ]
        joined, words = self._words(vectors, size), f"<{size} x i32>"
        if lines == 1:
            return [joined]
        found = []
        for first in range(0, size, SIDE):
            order = f"<{SIDE} x i32> <{', '.join(f'i32 {first + r}' for r in range(SIDE))}>"
            texts = (f"shufflevector {words} {part}, {words} poison, {order}" for part in joined)
            found.append([fn.value(text) for text in texts])
        return found

    # ---- lines

    def _words(self, vectors: list[str], size: int) -> list[str]:
        """Return units of `size` rows or columns, in parts, given a vector for each element."""
        if self.splits:
            even, odd = (parts_of(self.w, vector, size) for vector in vectors)
            return [unit_words(self.w, x, y, size) for x, y in zip(even, odd, strict=True)]
        joined = interleaved(self.w, vectors, size, self.element)
        kind = f"<{size * self.p.group} x {self.element}>"
        return [self.fn.value(f"bitcast {kind} {joined} to <{size} x i32>")]

    def _load(self, place: IndexValue, size: int, mask: str) -> str:
        source = self.p.source
        vector = load_as(self.w, "%from", source, source, size, place, mask)
        if not self.splits:
            return vector
        return self.fn.value(f"bitcast <{size} x float> {vector} to <{size} x i32>")

    def _store_parts(self, pointer: str, offset: IndexValue, parts: list[str]) -> None:
        """Store a line of each part."""
        for number, line in enumerate(parts):
            self._store(self.math.moved(pointer, number * self.part_bytes), offset, line)

    def _store(self, pointer: str, offset: IndexValue, line: str) -> None:
        at = self.math.moved(pointer, offset)
        self.fn.line(f"store {_LINE} {line}, ptr {at}, align {ROW_BYTES}")
