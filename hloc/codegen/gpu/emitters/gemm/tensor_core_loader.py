"""Loads of tiles for tensor cores into shared memory, and from there into the registers of a warp.

A tile consists of pieces of 16 bytes. If memory is contiguous along lines, 16-bit factors keep that
order and are transposed on the way to registers; otherwise pieces run along the depth. The position
of a piece in its row of shared memory is its number xor bits of the row number (a swizzle), so that
the 8 rows that are read together are in different banks.
"""

from __future__ import annotations

from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.scalar_builder import pointer_value
from hloc.codegen.builder.values import Value
from hloc.codegen.gpu.context import GpuContext
from hloc.codegen.gpu.emitters.gemm.gemm_plan import Tile
from hloc.codegen.gpu.emitters.gemm.gemm_reader import Reader
from hloc.codegen.gpu.emitters.gemm.matrix_problem import MatrixProblem, Side
from hloc.codegen.gpu.emitters.gemm.tensor_core_kinds import Kind
from hloc.codegen.gpu.vector_access import store_vector
from hloc.dtypes import S32, S64

PIECE_BYTES = 16
_LEAST_CHUNK_BYTES = 8
"""A thread joins shorter reads to a piece: fewer addresses matter more than adjacent reads."""


class TileLoader:
    """One side of a product.

    Attributes:
        stage_bytes: shared memory of one tile.
        is_copied: pieces are copied to shared memory asynchronously, not through registers.
        is_plain: the same, and the address of a piece is linear in its indices.
        chunk: elements that a thread reads together, a piece or the part of one that is a read.
    """

    def __init__(self, k: GpuContext, p: MatrixProblem, side: Side, tile: Tile, kind: Kind) -> None:
        """Decide whether pieces are copied asynchronously, and in which order they lie."""
        self.k, self.tile, self.kind = k, tile, kind
        self.is_left = side is p.left
        self.size = PIECE_BYTES // kind.factors.storage_bytes
        self.lines = tile.rows if self.is_left else tile.columns
        self.by_lines = not p.runs(side, self.size).by_depth
        self.keeps_lines = self.by_lines and self.size == 8
        gathers = self.by_lines and not self.keeps_lines
        self.reader = Reader(k, p, side, 1 if gathers else self.size)
        same = side.dtype is kind.factors and self.reader.array is not None
        self.is_copied = same and self.reader.runs.width == self.size
        rows, across = (tile.depth, self.lines) if self.keeps_lines else (self.lines, tile.depth)
        self.rows, self.pieces = rows, across // self.size
        self.stage_bytes = rows * across * kind.factors.storage_bytes
        self.edges = (self.reader.lines.count % self.lines != 0, p.depth.count % tile.depth != 0)
        whole = gathers or self.reader.runs.width * kind.factors.storage_bytes < _LEAST_CHUNK_BYTES
        self.chunk = self.size if whole else self.reader.runs.width
        self.per_piece = self.size // self.chunk
        self.count = rows * self.pieces * self.per_piece // tile.threads
        self.is_plain = self.is_copied and not side.reaches and not any(self.edges)
        if not self.is_copied:
            self.slots = k.b.allocate(kind.factors, self.count * self.chunk)

    # ---- to shared memory

    def _chunks(self) -> list[tuple[IndexValue, IndexValue]]:
        """Return row and chunk of this thread's loads; adjacent threads load adjacent chunks."""
        m, result = self.k.math, []
        by_rows = not self.by_lines or self.keeps_lines
        across = self.pieces * self.per_piece
        for number in range(self.count):
            index = m.add(self.k.thread("x"), number * self.tile.threads)
            if by_rows:
                row, at = m.delinear(index, [self.rows, across])
            else:
                at, row = m.delinear(index, [across, self.rows])
            result.append((row, at))
        return result

    def _logical(self, row: IndexValue, chunk: IndexValue) -> tuple[IndexValue, IndexValue]:
        """Return line and depth, in the tile, of the first element of a chunk."""
        first = self.k.math.mul(chunk, self.chunk)
        return (first, row) if self.keeps_lines else (row, first)

    def address(self, base: Value, row: IndexValue, piece: IndexValue) -> Value:
        """Return the address of a piece in the tile at `base`."""
        k, m = self.k, self.k.math
        key = row if self.pieces >= 8 else m.div(row, 8 // self.pieces)
        key = m.rem(key, min(self.pieces, 8))
        place = k.b.xor(m.value(piece), m.value(key))
        offset = m.mul(m.add(m.mul(row, self.pieces), place), PIECE_BYTES)
        return moved(k, base, offset)

    def copy(
        self, base: Value, batch: IndexValue, first_line: IndexValue, first_depth: IndexValue
    ) -> None:
        """Begin the copies of this thread's pieces of a tile."""
        if self._has_equal_steps:
            self._copy_in_steps(base, batch, first_line, first_depth)
            return
        k, m = self.k, self.k.math
        for row, piece in self._chunks():
            line, depth = self._logical(row, piece)
            position, exists = self.reader.locate(
                batch, m.add(first_line, line), m.add(first_depth, depth), self.edges
            )
            array = self.reader.array
            assert array is not None
            source = k.b.address(array.pointer, array.dtype, m.value(position))
            outside = k.fn.value(f"addrspacecast ptr {source} to ptr addrspace(1)")
            target = self.address(base, row, piece)
            if exists.text == "true":
                k.call("copy_async.16", target, pointer_value(outside))
                continue
            size = k.b.select(exists, k.b.const(S32, PIECE_BYTES), k.b.const(S32, 0))
            k.call("copy_async.16.part", target, pointer_value(outside), size)

    @property
    def _has_equal_steps(self) -> bool:
        """True if the pieces of a thread are a constant apart in both memories."""
        rows = self.reader.p.depth if self.keeps_lines else self.reader.lines
        step, rest = divmod(self.tile.threads, self.pieces)
        if rest:
            return False
        # The swizzle repeats after 8 rows. A smaller step changes it by a constant only if every
        # row has a different key.
        is_even = step % 8 == 0 or (8 % step == 0 and self.pieces >= 8)
        return is_even and not self.reader.side.reaches and len(rows.sizes) == 1

    def _copy_in_steps(
        self, base: Value, batch: IndexValue, first_line: IndexValue, first_depth: IndexValue
    ) -> None:
        """Begin the copies, with few addresses; elements that do not exist are not read."""
        k, m, p, side = self.k, self.k.math, self.reader.p, self.reader.side
        array = self.reader.array
        assert array is not None
        step = self.tile.threads // self.pieces
        row, piece = m.delinear(k.thread("x"), [step, self.pieces])
        line, depth = self._logical(row, piece)
        line, depth = m.add(first_line, line), m.add(first_depth, depth)
        lines, depths = m.delinear(line, self.reader.lines.sizes), m.delinear(depth, p.depth.sizes)
        position, _ = self.reader.locate_at(m.delinear(batch, p.batch.sizes), lines, depths)
        offset = m.value(m.mul(position, array.dtype.storage_bytes)).text
        place = k.fn.value(f"getelementptr i8, ptr {array.pointer.text}, i64 {offset}")
        source = anchored(k, k.fn.value(f"addrspacecast ptr {place} to ptr addrspace(1)"), 1)
        targets: dict[int, Value] = {}  # by the part of the key that depends on the step
        for key in range(0, 8, step):
            keyed = Value(S64, k.b.xor(m.value(piece), k.b.const(S64, key)).text)
            targets[key] = anchored(k, self.address(base, row, keyed).text, 3)
        rows, others = (line, self.reader.lines.count), (depth, p.depth.count)
        stride, edges = side.line, self.edges
        if self.keeps_lines:
            rows, others, stride, edges = others, rows, side.depth, edges[::-1]
        for number in range(self.count):
            at, further = m.add(rows[0], number * step), number * step * stride[0]
            conditions = [m.compare("LT", at, rows[1])] if edges[0] else []
            conditions += [m.compare("LT", *others)] if edges[1] else []
            exists = k.body.all_of(conditions)
            outside = moved(k, source, further * array.dtype.storage_bytes, 1)
            below = number * step * self.pieces * PIECE_BYTES
            inside = moved(k, targets[number * step % 8], below)
            if exists.text == "true":
                k.call("copy_async.16", inside, outside)
                continue
            size = k.b.select(exists, k.b.const(S32, PIECE_BYTES), k.b.const(S32, 0))
            k.call("copy_async.16.part", inside, outside, size)

    def read(self, batch: IndexValue, first_line: IndexValue, first_depth: IndexValue) -> None:
        """Read this thread's chunks into registers; computed factors are computed."""
        k, m, slot, width = self.k, self.k.math, 0, self.reader.runs.width
        for row, chunk in self._chunks():
            for start in range(0, self.chunk, width):
                line, depth = self._logical(row, chunk)
                if self.keeps_lines:
                    line = m.add(line, start)
                else:
                    depth = m.add(depth, start)
                result = self.reader.neighbours(
                    batch, m.add(first_line, line), m.add(first_depth, depth), self.edges
                )
                for value in result:
                    k.b.store(self.slots, slot, k.b.convert(value, self.kind.factors))
                    slot += 1

    def put(self, base: Value) -> None:
        """Store the registers to shared memory."""
        k, m, dtype, size = self.k, self.k.math, self.kind.factors, self.chunk
        for number, (row, chunk) in enumerate(self._chunks()):
            values = [k.b.load(self.slots, dtype, number * size + i) for i in range(size)]
            piece, part = m.delinear(chunk, [self.pieces, self.per_piece])
            target = self.address(base, row, piece)
            target = moved(k, target, m.mul(part, size * dtype.storage_bytes))
            plain = k.fn.value(f"addrspacecast ptr addrspace(3) {target.text} to ptr")
            store_vector(k, pointer_value(plain), 0, values)

    # ---- to registers

    def fragments(
        self,
        base: Value,
        line: IndexValue,
        step: int,
        further: int = 0,
        *,
        interleaved: bool = False,
    ) -> list[Value]:
        """Return 4 words of 16 lines and 32 bytes of depth, spread over the warp.

        Left: the 4 words of one fragment. Right: the words of two fragments of 8 lines.

        Args:
            base: of the tile.
            line: the first one, a multiple of 16.
            step: index of the piece of depth.
            further: constant number of lines after `line`, so that addresses differ by constants;
                a multiple of 16, less than a power of two that divides `line`.
            interleaved: of every 8 lines, 2 i and 2 i + 1 stand for i and i + 4.
        """
        k, m = self.k, self.k.math
        lane = m.rem(k.thread("x"), 32)
        in_matrix, matrix = m.rem(lane, 8), m.div(lane, 8)
        if interleaved:
            in_matrix = m.add(m.div(in_matrix, 2), m.mul(m.rem(in_matrix, 2), 4))
        low, high = m.rem(matrix, 2), m.div(matrix, 2)
        second_lines, second_depth = (low, high) if self.is_left else (high, low)
        if self.keeps_lines:
            row, more_rows = m.add(in_matrix, m.mul(second_depth, 8)), 16 * step
            piece, more_pieces = m.add(m.div(line, 8), second_lines), further // 8
            helper = "load_matrix.x4.transposed"
        else:
            row, more_rows = m.add(m.add(in_matrix, m.mul(second_lines, 8)), line), further
            piece, more_pieces = second_depth, 2 * step
            helper = "load_matrix.x4"
        # The 8 rows of a matrix are swizzled together, so the index in the matrix gives the key.
        key = in_matrix if self.pieces >= 8 else m.div(in_matrix, 8 // self.pieces)
        keyed = more_pieces % min(self.pieces, 8)
        fragments = (self, "fragments", base, line, keyed, interleaved)
        place = k.body.values.get(fragments)
        if place is None:
            swapped = k.b.xor(m.value(piece), m.value(key))
            swapped = k.b.xor(swapped, k.b.const(swapped.dtype, keyed)) if keyed else swapped
            of_lane = m.mul(m.add(m.mul(row, self.pieces), swapped), PIECE_BYTES)
            place = anchored(k, moved(k, base, of_lane).text, 3)
            k.body.keep(fragments, place)
        known = (more_rows * self.pieces + more_pieces - keyed) * PIECE_BYTES
        words = k.call(helper, moved(k, place, known))
        return words_of(k, words)


def moved(k: GpuContext, base: Value, offset: IndexValue, space: int = 3) -> Value:
    """Return a pointer, into shared memory or another space, moved by a number of bytes."""
    if offset == 0:
        return base
    # In global memory, a pointer may leave its array, as long as nothing is read there.
    inside = "inbounds " if space == 3 else ""
    text = k.math.value(offset).text
    return pointer_value(
        k.fn.value(f"getelementptr {inside}i8, ptr addrspace({space}) {base.text}, i64 {text}")
    )


def anchored(k: GpuContext, pointer: str, space: int) -> Value:
    """Return a pointer whose origin is opaque to LLVM.

    Otherwise LLVM folds the known part of each address first, and needs a register for each of many
    addresses that differ by constants.
    """
    kind = f"ptr addrspace({space})"
    name = f"@llvm.launder.invariant.group.p{space}"
    k.fn.declare(f"declare {kind} {name}({kind})")
    return pointer_value(k.fn.value(f"call {kind} {name}({kind} {pointer})"))


def words_of(k: GpuContext, words: Value, kind: str = "i32") -> list[Value]:
    """Return the 4 words of a helper's result."""
    types = f"{{{', '.join([kind] * 4)}}}"
    return [Value(S32, k.fn.value(f"extractvalue {types} {words.text}, {i}")) for i in range(4)]
