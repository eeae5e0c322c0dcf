"""Attention as two gemms that share their rows.

scores[batch, query, key] = sum over depth of query[batch, query, depth] * key[batch, key, depth]
result[batch, query, column] = sum over key of weight[batch, query, key] * value[batch, key, column]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hloc.codegen.builder.index import layout_strides
from hloc.codegen.gpu.emitters.gemm.matrix_problem import MatrixProblem, Side, Space
from hloc.codegen.kernels.attention_loops import AttentionLoops, attention_loops
from hloc.codegen.kernels.gemm_problem import Axis, merged
from hloc.dtypes import F32
from hloc.ir.instruction import Instruction

_MOST_DEPTH = 256
"""Maximum depth of a score, and columns of the values: a thread holds their sums in registers."""

_LOWEST_START = -1e30
"""Initial largest logits: they must not be larger than masked logits."""


@dataclass(frozen=True, eq=False, slots=True)
class AttentionProblem:
    """Both gemms.

    Attributes:
        loops: axes and steps.
        scores: the first gemm; its output layout does not matter.
        result: the second gemm; its left side, the weights, is never in memory.
    """

    loops: AttentionLoops
    scores: MatrixProblem
    result: MatrixProblem


def attention_problem(inst: Instruction) -> AttentionProblem | None:
    """Return the gemms of a fusion that the attention kernel supports, None for others."""
    loops = attention_loops(inst)
    if loops is None or max(loops.attention.depth, loops.value.size) > _MOST_DEPTH:
        return None
    start = loops.attention.maximum.operands[1]
    if start.opcode.name != "constant" or not _value_of(start) <= _LOWEST_START:
        return None
    return AttentionProblem(loops, _scores(loops), _result(loops))


def _value_of(constant: Instruction) -> float:
    return float(np.asarray(constant.attributes.literal.array, np.float64))


def _scores(loops: AttentionLoops) -> MatrixProblem:
    attention = loops.attention
    steps, depth_steps = _query_steps(loops)
    pairs = zip(loops.depth, depth_steps, strict=True)
    depth = merged([Axis(axis.size, step, axis.rhs, 0) for axis, step in pairs])
    queries = Side(
        attention.query_operand,
        True,
        tuple(steps[axis] for axis in loops.batch),
        tuple(steps[axis] for axis in loops.queries),
        tuple(axis.lhs for axis in depth),
    )
    keys = Side(
        attention.key_operand,
        True,
        tuple(loops.batch_keys[axis] for axis in loops.batch),
        (loops.key.rhs,),
        tuple(axis.rhs for axis in depth),
    )
    return MatrixProblem(
        attention.scores,
        attention.scores.array,
        _space(loops, loops.batch),
        _space(loops, loops.queries),
        Space((loops.key.size,)),
        Space(tuple(axis.size for axis in depth)),
        queries,
        keys,
        (0,) * len(loops.batch),
        (0,) * len(loops.queries),
        (0,),
        F32,
    )


def _result(loops: AttentionLoops) -> MatrixProblem:
    attention = loops.attention
    values = Side(
        attention.values,
        True,
        tuple(loops.batch_values[axis] for axis in loops.batch),
        (loops.value.rhs,),
        (loops.value_key,),
    )
    return MatrixProblem(
        attention.result,
        attention.result.array,
        _space(loops, loops.batch),
        _space(loops, loops.queries),
        Space((loops.value.size,)),
        Space((loops.key.size,)),
        Side(attention.probabilities, False, (), (), ()),
        values,
        tuple(loops.result.get(axis, 0) for axis in loops.batch),
        tuple(loops.result.get(axis, 0) for axis in loops.queries),
        (loops.value.out,),
        F32,
    )


def _space(loops: AttentionLoops, axes: Sequence[int]) -> Space:
    return Space(tuple(loops.attention.sizes[axis] for axis in axes))


def _query_steps(loops: AttentionLoops) -> tuple[dict[int, int], tuple[int, ...]]:
    """Return the strides of batch and query axes in the queries, and of the contracted axes."""
    attention = loops.attention
    a, place = attention.scores.attributes, 1 - attention.key_place
    shape = attention.query_operand.array
    batch = (a.lhs_batch_dims, a.rhs_batch_dims)[place]
    contracted = (a.lhs_contracting_dims, a.rhs_contracting_dims)[place]
    steps = layout_strides(shape)
    free = [d for d in range(shape.rank) if d not in (*batch, *contracted)]
    first = len(batch) if place == 0 else attention.scores.array.rank - len(free)
    axes = {n: steps[d] for n, d in enumerate(batch)}
    axes |= {first + n: steps[d] for n, d in enumerate(free)}
    return axes, tuple(steps[d] for d in contracted)
