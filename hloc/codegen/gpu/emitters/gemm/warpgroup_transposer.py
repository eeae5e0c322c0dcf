"""Transposes tiles in shared memory, for instructions that take rows of the depth only.

A tile whose lines are contiguous in memory arrives as squares: as many rows of 128 bytes, each of
lines at one depth, as there are elements in a row. A square is transposed in place, 8 x 8 blocks of
16 bytes by 16 bytes or less: with bytes, the block of column p and row q has 16 rows, with words 4.
Blocks (p, p xor r) of all p change places with one another, for every r. So warps that take
different r work independently, and pieces of 16 bytes, which are swizzled by row, are in different
banks whether they are read or written.
"""

from __future__ import annotations

from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.scalar_builder import pointer_value
from hloc.codegen.builder.values import Value
from hloc.codegen.gpu.context import GpuContext
from hloc.codegen.gpu.emitters.gemm.tensor_core_loader import moved, words_of
from hloc.codegen.gpu.emitters.gemm.warpgroup_kinds import ROW_BYTES, WarpgroupKind
from hloc.codegen.gpu.helpers import WARP_THREADS
from hloc.codegen.gpu.vector_access import load_vector, store_vector
from hloc.dtypes import S32, S64

_PIECE_BYTES = 16
_BLOCKS = ROW_BYTES // _PIECE_BYTES


class Transposer:
    """What one lane of several warps does.

    Args:
        k: the function.
        kind: of the gemm; its elements have 1 or 4 bytes.
        lane: index of the thread in its warp.
    """

    def __init__(self, k: GpuContext, kind: WarpgroupKind, lane: IndexValue) -> None:
        self.k, self.lane = k, lane
        self.square_bytes = kind.row_elements * ROW_BYTES
        self._turn = self._turn_bytes if kind.size_bytes == 1 else self._turn_words
        # A warp exchanges the blocks of one r at a time with bytes, of four with words.
        self._rounds = _BLOCKS if kind.size_bytes == 1 else _BLOCKS // 4

    def run(self, base: Value, squares: int, warp: IndexValue, warps: int) -> None:
        """Transpose the squares that begin at `base`, as the warp `warp` of `warps`."""
        k, m = self.k, self.k.math
        with k.body.loop(warp, squares * self._rounds, warps) as number:
            square, number = m.delinear(number, [squares, self._rounds])
            self._turn(moved(k, base, m.mul(square, self.square_bytes)), number)

    def _xor(self, x: IndexValue, y: IndexValue) -> IndexValue:
        m = self.k.math
        return Value(S64, self.k.b.xor(m.value(x), m.value(y)).text)

    def _piece(self, square: Value, row: IndexValue, piece: IndexValue) -> Value:
        """Return the address of a piece of a row; rows swizzle their pieces."""
        m = self.k.math
        place = self._xor(piece, m.rem(row, _BLOCKS))
        return moved(self.k, square, m.add(m.mul(row, ROW_BYTES), m.mul(place, _PIECE_BYTES)))

    # ---- elements of 4 bytes: every lane has a block of 4 x 4

    def _turn_words(self, square: Value, number: IndexValue) -> None:
        k, m = self.k, self.k.math
        column = m.rem(self.lane, _BLOCKS)
        row = self._xor(column, m.add(m.mul(number, 4), m.div(self.lane, _BLOCKS)))
        block = [
            load_vector(k, self._plain(square, m.add(m.mul(row, 4), i), column), S32, 0, 4)
            for i in range(4)
        ]
        k.call("warp_barrier")
        for i, values in enumerate(zip(*block, strict=True)):
            store_vector(k, self._plain(square, m.add(m.mul(column, 4), i), row), 0, values)

    def _plain(self, square: Value, row: IndexValue, piece: IndexValue) -> Value:
        inside = self._piece(square, row, piece).text
        return pointer_value(self.k.fn.value(f"addrspacecast ptr addrspace(3) {inside} to ptr"))

    # ---- elements of 1 byte: a warp has 8 blocks of 16 x 16, two per instruction

    def _turn_bytes(self, square: Value, number: IndexValue) -> None:
        """Transpose 8 blocks.

        `load_matrix` takes bytes as pairs of lines and gives lane 4 g + a the pairs g of two rows
        of each of two matrices. Their rows of depth are chosen such that these are the depths 4 a
        to 4 a + 3, which make two words, of line 2 g and the next. The rows of a matrix are in
        different banks, therefore the lanes with a > 1 find the halves of their words in the other
        order, and those with g > 3 store their words in the other order.
        """
        k, m = self.k, self.k.math
        in_matrix, matrix = m.rem(self.lane, 8), m.div(self.lane, 8)
        half, second = m.rem(matrix, 2), m.div(matrix, 2)
        quarter = m.div(in_matrix, 2)
        depth = m.add(m.mul(quarter, 4), m.rem(in_matrix, 2))
        depth = m.add(depth, m.mul(self._xor(half, m.div(quarter, 2)), 2))
        line = m.add(m.mul(in_matrix, 2), self._xor(half, m.div(in_matrix, 4)))
        places = []
        for first in range(0, _BLOCKS, 2):
            column = m.add(second, first)
            places.append((column, self._xor(column, number)))
        words = [
            words_of(
                k,
                k.call(
                    "load_matrix.x4.transposed",
                    self._piece(square, m.add(m.mul(row, 16), depth), column),
                ),
            )
            for column, row in places
        ]
        k.call("warp_barrier")
        chosen = self._chosen_bytes()
        for (column, row), four in zip(places, words, strict=True):
            turned = [
                k.call("permute_bytes", *four[i : i + 2], choice)
                for i in (0, 2)
                for choice in chosen
            ]
            target = self._piece(square, m.add(m.mul(column, 16), line), row)
            k.call("store_matrix.x4", target, *turned)

    def _chosen_bytes(self) -> tuple[Value, Value]:
        """Return which of the bytes of two words make the words that this lane stores."""
        m, b = self.k.math, self.k.b
        is_late = m.compare("GT", m.rem(self.lane, 4), 1)
        even = b.select(is_late, b.const(S32, 0x2064), b.const(S32, 0x6420))
        odd = b.select(is_late, b.const(S32, 0x3175), b.const(S32, 0x7531))
        is_high = m.compare("GE", self.lane, WARP_THREADS // 2)
        return b.select(is_high, odd, even), b.select(is_high, even, odd)
