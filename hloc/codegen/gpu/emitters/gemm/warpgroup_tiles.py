"""Tiles that are copied to shared memory whole and multiplied from there by warpgroups.

A tile consists of rows of 128 bytes. Where the depth is contiguous in memory, a row is a part of
the depth of one line. Where lines are contiguous, it is some lines at one depth, and a tile is
split into columns of such rows, which are squares. In both cases 8 rows form 1 KiB, in which
16-byte pieces are swizzled by row. Where instructions take rows of the depth only, squares are
transposed in place (`warpgroup_transposer`).
"""

from __future__ import annotations

from collections.abc import Sequence

from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.values import Value
from hloc.codegen.gpu.context import GpuContext
from hloc.codegen.gpu.emitters.gemm.matrix_problem import MatrixProblem, Side
from hloc.codegen.gpu.emitters.gemm.tensor_core_loader import moved
from hloc.codegen.gpu.emitters.gemm.warpgroup_kinds import ROW_BYTES, WarpgroupKind
from hloc.codegen.gpu.helpers import HELPERS, WARPGROUP_THREADS
from hloc.codegen.gpu.tensor_map import MOST_DIMS, STEP_BYTES
from hloc.dtypes import F32, S32, S64, DType
from hloc.lazy_dataclass import dataclass

STEP_ROW_BYTES = 32
"""Depth of one instruction in bytes."""

_ATOM_BYTES = 8 * ROW_BYTES
_ADDRESS_BYTES = 1 << 18
"""Size of the address range of matrix descriptors."""

_SWIZZLE_128 = 1 << 62
"""Field of a matrix descriptor; source: PTX ISA, "Matrix Descriptor Format" of wgmma."""


@dataclass(frozen=True, slots=True)
class _Loop:
    """A loop over a side: its size, its stride in elements, and its size in a tile."""

    role: str
    size: int
    step: int
    box: int


def can_be_tiles(p: MatrixProblem) -> bool:
    """True if both sides have layouts that tensor map copies support."""
    return can_be_tile(p, p.left) and can_be_tile(p, p.right)


def can_be_tile(p: MatrixProblem, side: Side) -> bool:
    """True if a side has a layout that tensor map copies support."""
    lines = p.rows if side is p.left else p.columns
    if not side.in_memory or side.reaches:
        return False
    batch = [step for step in side.batch if step]
    if len(lines.sizes) != 1 or len(p.depth.sizes) != 1 or len(batch) > MOST_DIMS - 2:
        return False
    steps = sorted((*batch, *side.line, *side.depth))
    unit = STEP_BYTES // side.dtype.storage_bytes
    is_wide = all(step > 0 and step % unit == 0 for step in steps[1:])
    return is_wide and side.batch.count(1) == 0 and steps[0] == 1


class WarpgroupTile:
    """The tiles of one side.

    Attributes:
        stage_bytes: shared memory of a tile.
        squares: number of squares that must be transposed.
        by_depth: rows are multiplied as parts of the depth; else as lines.
    """

    def __init__(
        self, k: GpuContext, p: MatrixProblem, side: Side, lines: int, kind: WarpgroupKind
    ) -> None:
        """Describe the array in memory (a tensor map), and the box that one copy takes of it.

        Dimensions are in the order of memory, the contiguous one first, as tensor maps need them.
        """
        self.k, self.p, self.kind = k, p, kind
        space = p.rows if side is p.left else p.columns
        self.stage_bytes = lines * ROW_BYTES
        arrives_by_depth = side.depth[0] == 1
        self.by_depth = arrives_by_depth or kind.transposes(side)
        self.squares = lines // kind.row_elements if kind.transposes(side) else 0
        box = {"line": lines if arrives_by_depth else kind.row_elements, "depth": kind.row_elements}
        loops = [
            _Loop("line", space.sizes[0], side.line[0], box["line"]),
            _Loop("depth", p.depth.sizes[0], side.depth[0], box["depth"]),
            *(
                _Loop(f"batch{i}", size, step, 1)
                for i, (size, step) in enumerate(zip(p.batch.sizes, side.batch, strict=True))
                if step
            ),
        ]
        self._loops = sorted(loops, key=lambda loop: loop.step)
        self._columns = range(0, lines, box["line"])
        array = k.plain_array(side.operand)
        assert array is not None
        size = side.dtype.storage_bytes
        self._tiled = k.tiles_of(
            array,
            [loop.size for loop in self._loops],
            [loop.step * size for loop in self._loops[1:]],
            [loop.box for loop in self._loops],
            to_tf32=side.dtype is F32,
        )

    def prepare(self) -> None:
        """Prefetch the tensor map before the first copy."""
        self.k.call("copy_tile.prepare", self.k.tile_map(self._tiled))

    def copy(
        self,
        target: Value,
        barrier: Value,
        batches: Sequence[IndexValue],
        line: IndexValue,
        depth: IndexValue,
    ) -> None:
        """Begin the copy of a tile, with completion at `barrier`; elements outside are zero."""
        k, m = self.k, self.k.math
        for column in self._columns:
            first = {"line": m.add(line, column), "depth": depth}
            first |= {f"batch{i}": number for i, number in enumerate(batches)}
            corner = [word_of(k, first[loop.role]) for loop in self._loops]
            at = moved(k, target, column * ROW_BYTES)
            tile_map = k.tile_map(self._tiled)
            k.call(f"copy_tile.{len(corner)}", at, barrier, tile_map, *corner)

    def descriptor(self, address: IndexValue) -> IndexValue:
        """Return the matrix descriptor of a tile, given its address / 16 in shared memory.

        The stride is that to the next 8 rows; if rows are lines, the leading offset is that to the
        next column of such rows.
        """
        leading = STEP_BYTES if self.by_depth else self.kind.row_elements * ROW_BYTES
        fields = _SWIZZLE_128 | (_ATOM_BYTES // 16) << 32 | (leading // 16) << 16
        return self.k.math.add(address, fields)

    def step(self, number: int) -> int:
        """Return the descriptor offset of `number` instructions along the depth."""
        depth = STEP_ROW_BYTES // self.kind.size_bytes
        return number * (STEP_ROW_BYTES if self.by_depth else depth * ROW_BYTES) // 16


def own_group(k: GpuContext) -> Value:
    """Return the number of this thread's warpgroup.

    All threads of a warp have the same value, which the assembler infers from a shuffle only.
    """
    number = word_of(k, k.math.div(k.thread("x"), WARPGROUP_THREADS))
    same = k.call("shuffle.index.i32", number, k.b.const(S32, 0))
    return k.b.convert(same, S64)


def units_of(k: GpuContext, pointer: Value) -> IndexValue:
    """Return the address / 16 of a pointer into shared memory, as in matrix descriptors."""
    base = Value(S64, k.fn.value(f"ptrtoint ptr addrspace(3) {pointer.text} to i64"))
    return k.math.rem(k.math.div(base, 16), _ADDRESS_BYTES // 16)


def through(
    k: GpuContext, slots: Value, columns: int, helper: str, *others: Value, dtype: DType = F32
) -> None:
    """Call a helper that returns all accumulators of 64 rows, which are in slots.

    It takes them behind `others`, unless it initialises them.
    """
    row = HELPERS[helper]
    taken = len(row.arguments) - len(others)
    sums = [k.b.load(slots, dtype, number) for number in range(taken)]
    result = k.call(helper, *others, *sums)
    for number in range(columns // 2):
        text = k.fn.value(f"extractvalue {row.result} {result.text}, {number}")
        k.b.store(slots, number, Value(dtype, text))


def word_of(k: GpuContext, index: IndexValue) -> Value:
    """Return a position as an s32."""
    return k.b.convert(k.math.value(index), S32)
