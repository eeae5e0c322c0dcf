"""Sizes and places of the attention kernel: blocks of queries, panels, and where they lie."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from hloc.codegen.builder.index import layout_strides
from hloc.codegen.cpu.emitters.gemm.packed_gemm import MAX_DEPTH_MULTIPLE, MAX_ROWS, MAX_TILE
from hloc.codegen.kernels.gemm_problem import Axis
from hloc.dtypes import BF16
from hloc.ir.instruction import Instruction
from hloc.opt.fusion.attention_axes import axis_strides
from hloc.opt.fusion.attention_match import Attention, attention_of
from hloc.opt.fusion.causal_mask import CausalMask, causal_mask

BLOCK_ROWS, MATRIX_BLOCK_ROWS, MIN_BLOCK_ROWS = 48, 64, 16
"""Queries that are taken together, whole tiles of most heights; fewer if there are many keys.

The second is for types that matrix registers multiply.
"""

BLOCK_BYTES = 1 << 19
"""Size of the scores of a block, which stay in the second-level cache."""

DEPTH_BLOCK = 512
"""Keys whose weighted values are summed at a time; longer sums of f32 would lose accuracy."""

ALIGNMENT = 64
"""Panels begin where vectors do."""


@dataclass(frozen=True, eq=False, slots=True)
class AttentionPlan:
    """How the kernel of an attention goes.

    Attributes:
        batch: axes of the batch, slowest first.
        queries: axes of the queries, slowest first; that of a causal mask is the slowest.
        depth: of scores: steps of the contracted dimensions in the keys, as `rhs`.
        key: of keys, with its step in their array as `rhs`.
        value: of what values and result share, with its steps in both as `rhs` and `out`.
        batch_keys, batch_values: per axis its stride in keys and values.
        result: per axis its stride in the result.
        value_key: step of the keys in the values.
    """

    attention: Attention
    mask: CausalMask | None
    batch: tuple[int, ...]
    queries: tuple[int, ...]
    depth: tuple[Axis, ...]
    key: Axis
    value: Axis
    batch_keys: dict[int, int]
    batch_values: dict[int, int]
    result: dict[int, int]
    value_key: int

    @property
    def heads(self) -> int:
        """Batch elements: pairs of keys and values."""
        return prod(self.attention.sizes[axis] for axis in self.batch)

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
        """Elements from one row of scores to the next."""
        return _rounded(self.key.size, 16) + MAX_TILE

    @property
    def result_row(self) -> int:
        """Elements from one row of the block's result to the next."""
        return _rounded(self.value.size, 16) + MAX_TILE

    def layout(self) -> tuple[dict[str, int], int]:
        """Return where everything begins in scratch memory, and the size of all, in bytes.

        There is room for every way to multiply that some machine has, and for alignment: places
        count from the first aligned byte.
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
            total += _rounded(size, ALIGNMENT)
        return places, total + ALIGNMENT


def _rounded(size: int, multiple: int) -> int:
    return -(-size // multiple) * multiple


def attention_plan(inst: Instruction) -> AttentionPlan | None:
    """Return the plan of a fusion that is an attention, None for anything else."""
    if inst.opcode.name != "fusion" or inst.called[0].root.opcode.name != "dot":
        return None
    attention = attention_of(inst.called[0].root)
    if attention is None or not _is_all_of(inst, attention):
        return None
    mask = causal_mask(attention)
    first = () if mask is None else (mask.query,)
    queries = (*first, *(axis for axis in attention.queries if axis not in first))
    strides, value = _result_strides(attention)
    key, depth, batch_keys = _keys(attention)
    values, pairs = attention.values, _value_pairs(attention)
    value_layout = layout_strides(values.array)
    of_values = axis_strides(
        [attention.dims[attention.probabilities][p] for p, _ in pairs],
        [value_layout[v] for _, v in pairs],
        attention.sizes,
    )
    value_step = value_layout[attention.value_dim]
    return AttentionPlan(
        attention,
        mask,
        attention.batch,
        queries,
        depth,
        key,
        Axis(values.array.dims[attention.value_dim], 0, value_step, value),
        batch_keys,
        {axis: of_values.get(axis, 0) for axis in attention.batch},
        strides,
        of_values[attention.key],
    )


def _is_all_of(inst: Instruction, attention: Attention) -> bool:
    """True if the fusion holds nothing else, and the operands of products are in memory."""
    body = inst.called[0]
    inside = set(attention.members)
    arrays = (*attention.scores.operands, attention.values)
    return all(i in inside or i.opcode.name == "parameter" for i in body.instructions) and all(
        operand.opcode.name == "parameter" for operand in arrays
    )


def _value_pairs(attention: Attention) -> list[tuple[int, int]]:
    """Return the dimensions that probabilities and values share, contracted ones last."""
    a = attention.result.attributes
    left = (*a.lhs_batch_dims, *a.lhs_contracting_dims)
    right = (*a.rhs_batch_dims, *a.rhs_contracting_dims)
    sides = (left, right) if attention.place == 0 else (right, left)
    return list(zip(*sides, strict=True))


def _result_strides(attention: Attention) -> tuple[dict[int, int], int]:
    """Return the strides of the axes in the result, and that of the values' own dimension."""
    result, place = attention.result, attention.place
    pairs = _value_pairs(attention)
    count = len(result.attributes.lhs_batch_dims)
    dims = attention.dims[attention.probabilities]
    taken = [p for p, _ in pairs]
    own = [dims[d] for d in range(len(dims)) if d not in taken]
    others = len(result.array.dims) - count - len(own)
    first = count if place == 0 else count + others
    strides = layout_strides(result.array)
    batch = axis_strides([dims[p] for p, _ in pairs[:count]], strides[:count], attention.sizes)
    found = axis_strides(own, strides[first : first + len(own)], attention.sizes)
    start = count + len(own) if place == 0 else count
    (value,) = [d for d in range(start, start + others) if result.array.dims[d] != 1]
    return {**batch, **found}, strides[value]


def _keys(attention: Attention) -> tuple[Axis, tuple[Axis, ...], dict[int, int]]:
    """Return the axes of keys and of depth, and the strides of the batch in the keys."""
    a, place = attention.scores.attributes, attention.key_place
    keys = attention.key_operand
    batch = (a.lhs_batch_dims, a.rhs_batch_dims)[place]
    contracted = (a.lhs_contracting_dims, a.rhs_contracting_dims)[place]
    strides, dims = layout_strides(keys.array), keys.array.dims
    (free,) = [
        d for d in range(len(dims)) if dims[d] != 1 and d not in (*batch, *contracted)
    ]  # fmt: skip
    steps = 1
    depth: list[Axis] = []
    for d in reversed(contracted):
        depth.insert(0, Axis(dims[d], steps, strides[d], 0))
        steps *= dims[d]
    of_batch = {n: strides[d] for n, d in enumerate(batch) if dims[d] != 1}
    return Axis(dims[free], 0, strides[free], 1), tuple(depth), of_batch
