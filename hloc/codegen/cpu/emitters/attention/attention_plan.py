"""Block sizes and scratch memory of the attention kernel: blocks of queries, packed panels."""

from __future__ import annotations

from dataclasses import fields

from hloc.codegen.cpu.emitters.gemm.packed.packed_gemm import MAX_DEPTH_MULTIPLE, MAX_ROWS, MAX_TILE
from hloc.codegen.kernels.attention_loops import AttentionLoops, attention_loops
from hloc.dtypes import BF16
from hloc.ir.instruction import Instruction
from hloc.lazy_dataclass import dataclass
from hloc.memory.heap import CACHE_LINE_BYTES

BLOCK_ROWS, MATRIX_BLOCK_ROWS, MIN_BLOCK_ROWS = 48, 64, 16
"""Queries per block, a multiple of most tile heights; fewer if there are many keys.

The second is for types that matrix registers multiply.
"""

BLOCK_BYTES = 1 << 19
"""Most bytes of the scores of a block, which stay in the L2 cache."""

DEPTH_BLOCK = 512
"""Keys per block of a weighted sum; longer sums of f32 would lose accuracy."""


@dataclass(frozen=True, eq=False, slots=True)
class AttentionPlan(AttentionLoops):
    """The loops of an attention, and how the kernel blocks them."""

    @property
    def block_rows(self) -> int:
        """Queries of a block."""
        most = MATRIX_BLOCK_ROWS if self.attention.key_operand.array.dtype is BF16 else BLOCK_ROWS
        fitting = BLOCK_BYTES // (4 * self.score_row) // MIN_BLOCK_ROWS * MIN_BLOCK_ROWS
        return min(max(min(fitting, most), MIN_BLOCK_ROWS), self.attention.rows)

    @property
    def blocks(self) -> int:
        """Blocks of queries of one batch element."""
        return -(-self.attention.rows // self.block_rows)

    @property
    def score_row(self) -> int:
        """Row stride of the scores, in elements."""
        return _rounded(self.key.size, 16) + MAX_TILE

    @property
    def result_row(self) -> int:
        """Row stride of the block's result, in elements."""
        return _rounded(self.value.size, 16) + MAX_TILE

    def layout(self) -> tuple[dict[str, int], int]:
        """Return the offsets of all parts of scratch memory, and the total size, in bytes.

        The sizes suffice for the gemms of every machine, and for alignment: offsets count from the
        first aligned byte.
        """
        rows = self.block_rows + MAX_ROWS
        keys, depth = self.key.size, self.attention.depth
        steps = _rounded(max(keys, depth), MAX_DEPTH_MULTIPLE)
        is_narrow = self.attention.probabilities.array.dtype is BF16
        sizes = {
            "numbers": 8 * max(keys, depth),
            "key_offsets": 8 * keys,
            "key_steps": 8 * depth,
            "value_offsets": 8 * self.value.size,
            "value_steps": 8 * keys,
            "query_rows": 8 * MAX_ROWS,
            "score_rows": 8 * MAX_ROWS,
            "queries": 4 * rows * depth,
            "scores": 4 * rows * self.score_row,
            "weights": 2 * rows * self.score_row if is_narrow else 0,
            "panel": 2 * MAX_ROWS * steps,
            "result": 4 * rows * self.result_row,
            "keys": 4 * (keys + MAX_TILE) * _rounded(depth, MAX_DEPTH_MULTIPLE),
            "values": 4 * (keys + MAX_DEPTH_MULTIPLE) * (self.value.size + MAX_TILE),
        }
        places, total = {}, 0
        for name, size in sizes.items():
            places[name] = total
            total += _rounded(size, CACHE_LINE_BYTES)
        return places, total + CACHE_LINE_BYTES


def _rounded(size: int, multiple: int) -> int:
    return -(-size // multiple) * multiple


def attention_plan(inst: Instruction) -> AttentionPlan | None:
    """Return the plan of a fusion that is an attention, None for anything else."""
    loops = attention_loops(inst)
    if loops is None:
        return None
    return AttentionPlan(*(getattr(loops, field.name) for field in fields(loops)))
