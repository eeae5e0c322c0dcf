"""Areas: the memory that a step of a plan reads or writes."""

from __future__ import annotations

from hloc.codegen.plan.pointer_table import Place
from hloc.ir.instruction import Instruction
from hloc.lazy_dataclass import dataclass
from hloc.shapes import array_leaves


@dataclass(frozen=True, slots=True)
class Area:
    """Memory that a step reads or writes.

    Attributes:
        align: bytes of one element, to which the area is aligned.
    """

    place: Place
    size: int
    align: int = 1

    def overlaps(self, other: Area) -> bool:
        """True if both have a byte in common; different slots count as disjoint."""
        here, there = self.place, other.place
        return (
            here.slot == there.slot
            and here.offset < there.offset + other.size
            and there.offset < here.offset + self.size
        )


def leaves_of(inst: Instruction) -> tuple[list[tuple[int, int]], int]:
    """Return size and element size of the leaves of operands and result; how many are operands."""
    operands = inst.operand_arrays
    arrays = [*operands, *array_leaves(inst.shape)]
    sizes = [(shape.size_bytes, shape.dtype.storage_bytes) for shape in arrays]
    return sizes, len(operands)
