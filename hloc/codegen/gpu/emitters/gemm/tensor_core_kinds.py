"""Decides which gemms run on tensor cores, and the type of their factors."""

from __future__ import annotations

from hloc.codegen.gpu.emitters.gemm.matrix_problem import MatrixProblem
from hloc.codegen.gpu.nvptx.chips import chip_of
from hloc.codegen.llvm.target import Target
from hloc.dtypes import BF16, F16, F32, S8, S32, U8, DType, dtype_named
from hloc.lazy_dataclass import dataclass

_FEWEST = 16
"""For fewer rows, columns or depth, most of a tile would be empty."""

_S4, _U4 = dtype_named("s4"), dtype_named("u4")
_SCALES = dtype_named("f8e8m0fnu")
"""The only 8-bit float whose numbers are not all representable in f16."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of mma instruction: 16 rows, 8 columns, 32 bytes of depth.

    Attributes:
        helper: of the prelude.
        factors: type of both sides in shared memory.
        sums: type of the accumulators.
    """

    helper: str
    factors: DType
    sums: DType


_BF16 = Kind("multiply_tiles.bf16", BF16, F32)
_F16 = Kind("multiply_tiles.f16", F16, F32)
_TF32 = Kind("multiply_tiles.tf32", F32, F32)
_S8 = Kind("multiply_tiles.s8", S8, S32)
_U8 = Kind("multiply_tiles.u8", U8, S32)


def has_tensor_cores(target: Target) -> bool:
    """True if a chip has mma instructions and asynchronous copies."""
    return target.triple.startswith("nvptx") and chip_of(target).has_tensor_cores


def kind_of(p: MatrixProblem) -> Kind | None:
    """Return the instruction for `p` that is as accurate as its type or algorithm requires."""
    if min(p.rows.count, p.columns.count, p.depth.count) < _FEWEST:
        return None
    return kind_of_factors(p)


def kind_of_factors(p: MatrixProblem) -> Kind | None:
    """Return the instruction for `p` regardless of its size."""
    left, right = p.left.dtype, p.right.dtype
    if p.sums is S32:
        return _integers(left, right)
    if p.sums is not F32:
        return None
    if left is right is BF16:
        return _BF16
    if left is right is F16 or (_is_tiny(left) and _is_tiny(right)):
        return _F16
    if left is right is F32 and p.root.opcode.name == "dot":
        algorithm: str = p.root.attributes.algorithm
        return {"dot_tf32_tf32_f32": _TF32, "dot_bf16_bf16_f32": _BF16}.get(algorithm)
    return None


def _integers(left: DType, right: DType) -> Kind | None:
    if {left, right} <= {S8, _S4}:
        return _S8
    return _U8 if {left, right} <= {U8, _U4} else None


def _is_tiny(dtype: DType) -> bool:
    """True for floats whose numbers are all representable in f16."""
    return dtype.is_float and dtype.bits <= 8 and dtype is not _SCALES
