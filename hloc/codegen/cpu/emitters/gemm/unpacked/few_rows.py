"""Gemms of few rows: their axes, and how threads share them."""

from __future__ import annotations

from typing import ClassVar

from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.kernels.context import KernelContext
from hloc.codegen.kernels.gemm_problem import Axis
from hloc.dtypes import BF16, F16, F32, F64, S8, S32, U8, DType
from hloc.lazy_dataclass import dataclass

_NARROW, _BYTES = (F32, BF16, F16), (S8, U8)


@dataclass(frozen=True, slots=True)
class FewRows:
    """A product of few rows.

    Attributes:
        outer: loops around it, slowest first.
        row: the axis of rows, of size 1 if there is none.
        depth: the axis k.
        exchanged: the two sides are swapped.
    """

    COLUMN_PIECE: ClassVar[int]
    """Granularity of the columns that threads share."""

    outer: tuple[Axis, ...]
    row: Axis
    column: Axis
    depth: Axis
    exchanged: bool
    sources: tuple[DType, DType]
    result: DType

    @property
    def total(self) -> DType:
        """The type of sums."""
        if self.result.is_integer:
            return S32
        return F64 if self.result is F64 else F32

    @property
    def pieces(self) -> int:
        """Number of pieces that threads share: iterations of the outermost loop, or columns."""
        return self.outer[0].size if self.outer else -(-self.column.size // self.COLUMN_PIECE)

    def part_of_columns(self, k: KernelContext) -> tuple[IndexValue, IndexValue]:
        """Return the first column and the number of columns of the part that a call computes."""
        if self.outer:
            return 0, self.column.size
        first = k.math.mul(k.begin, self.COLUMN_PIECE)
        stop = k.math.minimum(self.column.size, k.math.mul(k.end, self.COLUMN_PIECE))
        return first, k.math.sub(stop, first)

    @property
    def repeated_bytes(self) -> int:
        """Bytes of the side that every thread reads."""
        return self.row.size * self.depth.size * self.sources[0].storage_bytes


def sums_floats(sources: tuple[DType, DType], result: DType) -> bool:
    """True for types that routines of few rows multiply.

    These are all f64; or floats none of which is wider than f32, and bytes on one side.
    """
    if result is F64:
        return sources == (F64, F64)
    are_known = result in _NARROW and all(source in (*_NARROW, *_BYTES) for source in sources)
    return are_known and not all(source in _BYTES for source in sources)
