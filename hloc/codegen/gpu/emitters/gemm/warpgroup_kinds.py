"""Decides which types of gemms warpgroups compute, by which instruction, and in which tiles."""

from __future__ import annotations

from hloc.codegen.gpu.emitters.gemm.gemm_plan import Tile
from hloc.codegen.gpu.emitters.gemm.matrix_problem import MatrixProblem, Side
from hloc.codegen.gpu.helpers import WARPGROUP_THREADS
from hloc.dtypes import BF16, F16, F32, S8, S32, U8, DType, dtype_named
from hloc.lazy_dataclass import dataclass

ROW_BYTES = 128
"""Bytes of a row of a tile in shared memory; along the depth, also the depth of a tile."""

BLOCK_THREADS = 3 * WARPGROUP_THREADS


@dataclass(frozen=True, slots=True)
class WarpgroupKind:
    """One kind of wgmma instruction: 64 rows, up to 256 columns, 32 bytes of depth.

    Attributes:
        name: of the types of both sides, in the names of helpers.
        size_bytes: of an element of either side.
        sums: type of the accumulators.
        tiles: of a block.
        takes_lines: a side may be contiguous along its lines in shared memory.
        promotes: the sums of each tile of depth are added in f32 by the threads, since the sums of
            the instruction have fewer bits.
    """

    name: str
    size_bytes: int
    sums: DType
    tiles: tuple[Tile, ...]
    takes_lines: bool = False
    promotes: bool = False

    @property
    def row_elements(self) -> int:
        """Elements of a row of a tile in shared memory."""
        return ROW_BYTES // self.size_bytes

    def transposes(self, side: Side) -> bool:
        """True if a side must be transposed: rows of its tiles arrive as lines."""
        return not self.takes_lines and side.depth[0] != 1


def _tiles(size_bytes: int, *columns_and_speeds: tuple[int, float]) -> tuple[Tile, ...]:
    """Return tiles of 128 rows.

    Speeds are relative to the best tile of `tensor_core` for the same types, whose instructions
    reach about 5/8 of the throughput of warpgroup instructions; it multiplies f8 as f16, at half
    the rate.
    """
    return tuple(
        Tile(128, columns, ROW_BYTES // size_bytes, BLOCK_THREADS, 1, speed)
        for columns, speed in columns_and_speeds
    )


_HALF = _tiles(2, (256, 1.6), (128, 1.35))
_BYTES = _tiles(1, (256, 1.6), (128, 1.35))
_F8 = _tiles(1, (192, 2.7), (128, 2.4))
_FAST_F8 = _tiles(1, (256, 3.2), (128, 2.7))
_KINDS = {
    BF16: WarpgroupKind("bf16", 2, F32, _HALF, takes_lines=True),
    F16: WarpgroupKind("f16", 2, F32, _HALF, takes_lines=True),
    S8: WarpgroupKind("s8", 1, S32, _BYTES),
    U8: WarpgroupKind("u8", 1, S32, _BYTES),
}
"""By the type of both sides."""

HALF_KINDS = {dtype: kind for dtype, kind in _KINDS.items() if dtype.is_float}
"""The kinds of 16-bit floats."""

_TF32 = WarpgroupKind("tf32", 4, F32, _tiles(4, (256, 1.6), (128, 1.35)))
_F8_NAMES = {dtype_named("f8e4m3fn"): "e4m3", dtype_named("f8e5m2"): "e5m2"}
_PRECISE = ("high", "highest")


def warpgroup_kind_of(p: MatrixProblem) -> WarpgroupKind | None:
    """Return the instruction for the types of `p`, None if there is none that is as accurate."""
    left, right = p.left.dtype, p.right.dtype
    if left in _F8_NAMES and right in _F8_NAMES:
        return _f8_kind(p)
    if left is not right:
        return None
    kind = _KINDS.get(left)
    if left is F32 and p.root.opcode.name == "dot":
        kind = _TF32 if p.root.attributes.algorithm == "dot_tf32_tf32_f32" else None
    return kind if kind is not None and kind.sums is p.sums else None


def _f8_kind(p: MatrixProblem) -> WarpgroupKind | None:
    """Return the kind of a gemm of f8.

    A tensor core adds products of f8 with about 14 bits. That is enough for a gemm of f8 itself,
    but not for one in f32 whose factors were converted, or that requests more precision.
    """
    attributes = p.root.attributes
    is_f8 = all(operand.array.dtype in _F8_NAMES for operand in p.root.operands)
    if p.sums is not F32 or not is_f8 or {*attributes.operand_precision} & {*_PRECISE}:
        return None
    names = [_F8_NAMES[side.dtype] for side in (p.left, p.right)]
    name = "_".join(dict.fromkeys(names))
    match attributes.algorithm:
        case "dot_any_f8_any_f8_f32_fast_accum":
            return WarpgroupKind(name, 1, F32, _FAST_F8)
        case "" | "dot_unset" | "dot_any_f8_any_f8_f32":
            return WarpgroupKind(name, 1, F32, _F8, promotes=True)
    return None
