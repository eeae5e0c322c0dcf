"""The arithmetic of units of k, and the tile of the result that stays in registers."""

from __future__ import annotations

from hloc.codegen.llvm.target import Target
from hloc.dtypes import DType
from hloc.lazy_dataclass import dataclass

MATRIX_UNITS = 16
"""Units of k that one instruction of matrix registers multiplies."""


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """How units are multiplied.

    Attributes:
        name: part of the routine's name.
        total: type of the sums.
        operand: type of the packed elements.
        result: type in which the sums are written; with several blocks of k, that of the sums.
        group: elements of k in a unit, which is as wide as a sum.
        instruction: of matrix registers, "" for vectors.
        bias: added to every element of the rows, for an instruction that takes unsigned bytes.
        parts: number of `operand` that an element is the sum of (`bf16_parts`).
    """

    name: str
    total: DType
    operand: DType
    result: DType
    group: int = 1
    instruction: str = ""
    bias: int = 0
    parts: int = 1

    @property
    def operand_bytes(self) -> int:
        """Bytes of a packed element."""
        return self.parts * self.operand.storage_bytes

    @property
    def is_matrix(self) -> bool:
        """True if tiles are in matrix registers."""
        return bool(self.instruction)

    @property
    def result_name(self) -> str:
        """The part of a routine's name that tells how units are multiplied and sums written."""
        return f"{self.name}_{self.result.name}"

    @property
    def depth_multiple(self) -> int:
        """Elements of k in one step of the micro-kernel."""
        return self.group * (MATRIX_UNITS if self.is_matrix else 1)


@dataclass(frozen=True, slots=True)
class Tile:
    """The part of the result that is in registers: `rows` by `vectors` registers."""

    rows: int
    vectors: int


def lanes(arithmetic: Arithmetic, target: Target) -> int:
    """Return the sums in one register."""
    return target.vector_bits // arithmetic.total.bits
