"""Fuse slices into the products that read them: a pointer into the array, and no copy."""

from __future__ import annotations

from collections.abc import Collection
from typing import ClassVar

from hloc.analysis.stored_operand import contiguous_slice
from hloc.ir.instruction import Instruction
from hloc.lazy_dataclass import dataclass
from hloc.opt.fusion.operand_readers import (
    Reader,
    ReaderFusion,
    is_overwritten,
    readers_of,
)

_MIN_BYTES = 1 << 14


@dataclass(frozen=True)
class DynamicSliceFusionRewriter(ReaderFusion):
    """Fuse contiguous slices into the dots that read them, which then read the array in place.

    A loop over the layers of a model takes the weights of each from an array of all,
    `f32[12,768,3072]`; so do functions that take `w[3]`. The layer lies there as the product needs
    it. A slice is fused if nothing but dots reads it, and no other instruction changes the array in
    place. Measured: 8 layers of 768x3072 and 3072x768 by one vector take 0.47 of the time. Expects
    the fusions of `output-fusion`; leaves `fusion` instructions of kind kOutput. Cost:
    O(instructions).
    """

    name: ClassVar[str] = "dynamic-slice-fusion-rewriter"
    acts_on = frozenset({"dynamic-slice", "slice"})

    min_bytes: int = _MIN_BYTES

    def readers(self, inst: Instruction, pinned: Collection[Instruction]) -> tuple[Reader, ...]:
        """Return the dots that can read the slice where it lies; none if others read it too."""
        return dots_in_place(inst, pinned, self.min_bytes)


def dots_in_place(
    inst: Instruction, pinned: Collection[Instruction], min_bytes: int = _MIN_BYTES
) -> tuple[Reader, ...]:
    """Return the dots that can read the slice `inst` where it lies; none if others read it too.

    Args:
        inst: any instruction.
        pinned: instructions that stay as they are.
        min_bytes: a smaller slice is copied.
    """
    if not inst.is_a("dynamic-slice", "slice") or inst in pinned or inst.is_root:
        return ()
    is_large = inst.array.size_bytes >= min_bytes and not inst.control_predecessors
    if not is_large or contiguous_slice(inst) is None:
        return ()
    readers = readers_of(inst, pinned)
    is_read_by_dots = all(reader.kernel.product.is_a("dot") for reader in readers)
    return readers if readers and is_read_by_dots and not is_overwritten(inst) else ()
