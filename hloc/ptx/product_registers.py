"""The registers of wgmma products, and which other instructions access them.

A product reads and writes them until a wait for it, so no other instruction may access them in that
time. An access before the product must be ordered by `wgmma.fence`. Source: PTX ISA,
"wgmma.mma_async" and "wgmma.fence".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hloc.lazy_dataclass import dataclass
from hloc.ptx.frame import named_registers
from hloc.ptx.program import Instruction, Operand, PtxFunction, Vector

Accesses = tuple[tuple[int, frozenset[str]], ...]
"""Positions of instructions in a block, and the registers of products that each accesses."""


@dataclass(frozen=True, slots=True)
class ProductRegisters:
    """The registers of one product, by their storages.

    Attributes:
        sums: the accumulators.
        left: those of A, if it is in registers.
    """

    sums: frozenset[str]
    left: frozenset[str]

    @property
    def all(self) -> frozenset[str]:
        """All registers."""
        return self.sums | self.left


def registers_of_product(instruction: Instruction, function: str) -> ProductRegisters:
    """Return the registers of a wgmma.mma_async in a function."""
    sums, left = instruction.operands[:2]
    held = [left] if isinstance(left, Vector) else []
    return ProductRegisters(_names([sums], function), _names(held, function))


def registers_of_products(function: PtxFunction) -> frozenset[str]:
    """Return the registers of all products of a function."""
    found = [
        registers_of_product(instruction, function.name).all
        for instruction in function.instructions
        if is_product(instruction)
    ]
    return frozenset().union(*found)


def is_product(instruction: Instruction) -> bool:
    """Whether an instruction is a wgmma product."""
    return instruction.parts[:2] == ("wgmma", "mma_async")


def accesses_of(
    instructions: Sequence[Instruction], watched: frozenset[str], function: str
) -> Accesses:
    """Return the accesses to `watched` registers by instructions that are no products."""
    if not watched:
        return ()
    found = []
    for position, instruction in enumerate(instructions):
        names = watched & _names(instruction.operands, function)
        if names and not is_product(instruction):
            found.append((position, names))
    return tuple(found)


def _names(operands: Iterable[Operand], function: str) -> frozenset[str]:
    found: set[str] = set()
    named_registers(operands, found)
    return frozenset(f"{function}:{name}" for name in found)
