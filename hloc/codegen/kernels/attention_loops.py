"""The loops of an attention: axes of batch, queries, keys and values, and their strides."""

from __future__ import annotations

from math import prod

from hloc.codegen.builder.index import layout_strides
from hloc.codegen.kernels.gemm_problem import Axis
from hloc.ir.instruction import Instruction
from hloc.lazy_dataclass import dataclass
from hloc.opt.fusion.attention_axes import axis_strides
from hloc.opt.fusion.attention_match import Attention, attention_of
from hloc.opt.fusion.causal_mask import CausalMask, causal_mask


@dataclass(frozen=True, eq=False, slots=True)
class AttentionLoops:
    """The loops of an attention, and their strides in its arrays.

    Attributes:
        batch: axes of the batch, slowest first.
        queries: axes of the queries, slowest first; that of a causal mask is the slowest.
        depth: axes that the scores contract; `rhs` is the stride in the keys.
        key: axis of the keys; `rhs` is its stride in their array.
        value: axis that values and result share; `rhs` and `out` are its strides in them.
        batch_keys, batch_values: stride of each axis in keys and values.
        result: stride of each axis in the result.
        value_key: stride of the key axis in the values.
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


def attention_loops(inst: Instruction) -> AttentionLoops | None:
    """Return the loops of a fusion that is an attention, None for anything else."""
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
    return AttentionLoops(
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
    """True if the fusion contains nothing else, and the operands of both gemms are in memory."""
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
