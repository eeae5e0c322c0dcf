"""Fuse converts of narrow matrices into the dots of few rows that read them."""

from __future__ import annotations

from collections.abc import Collection
from math import prod
from typing import ClassVar

from hloc.analysis.dataflow import is_row_major
from hloc.analysis.stored_operand import is_widening
from hloc.ir.instruction import Instruction
from hloc.lazy_dataclass import dataclass
from hloc.opt.contraction.dot_numbers import sides
from hloc.opt.fusion.operand_readers import (
    Reader,
    ReaderFusion,
    is_overwritten,
    readers_of,
)


@dataclass(frozen=True)
class ConvertOperandFusion(ReaderFusion):
    """Fuse converts of narrow matrices into the dots of few rows that read them.

    Weights in s8, or in bf16 with activations in f32: `dot(x, convert(w))`. Such a product takes as
    long as reading the matrix, which the convert would read narrow and write wide, and the dot read
    again. The kernels of dots of up to `max_rows` rows widen elements as they read them. A convert
    is fused if nothing but such dots reads it. Measured: a row by s8[2048,8192] takes 0.25 of the
    time. Exact. Leaves `fusion` instructions of kind kOutput. Cost: O(instructions).
    """

    name: ClassVar[str] = "convert-operand-fusion"
    acts_on = frozenset({"convert"})

    min_bytes: int = 1 << 16
    max_rows: int = 8

    def readers(self, inst: Instruction, pinned: Collection[Instruction]) -> tuple[Reader, ...]:
        """Return the dots that can widen the operand of `inst`; none if others read it too."""
        is_large = is_widening(inst) and inst.operands[0].array.size_bytes >= self.min_bytes
        found = readers_of(inst, pinned) if is_large else ()
        can_widen = found and all(self._can_widen(reader) for reader in found)
        return found if can_widen and not is_overwritten(inst) else ()

    def _can_widen(self, reader: Reader) -> bool:
        """True if a dot multiplies few rows by a matrix whose rows or columns are in order."""
        dot = reader.kernel.inst
        if not dot.is_a("dot") or len(reader.views) != 1 or not is_row_major(dot.array):
            return False
        (number,) = reader.views
        both = sides(dot)
        matrix, rows = both[number], both[1 - number]
        height, batches = prod(rows.sizes(rows.free)), len(matrix.batch)
        return (
            len(matrix.contracting) == 1
            and matrix.batch == tuple(range(batches))
            and matrix.contracting[0] in (batches, matrix.operand.array.rank - 1)
            and is_row_major(matrix.operand.array)
            and height <= (self.max_rows if number else 1)
        )
