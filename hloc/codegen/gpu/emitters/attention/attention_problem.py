"""Attention as two gemms that share their rows.

scores[batch, query, key] = sum over depth of query[batch, query, depth] * key[batch, key, depth]
result[batch, query, column] = sum over key of weight[batch, query, key] * value[batch, key, column]
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hloc.codegen.builder.index import layout_strides
from hloc.codegen.gpu.emitters.gemm.matrix_problem import MatrixProblem, matrix_problem
from hloc.codegen.kernels.attention_loops import AttentionLoops, attention_loops
from hloc.codegen.kernels.gemm_problem import Axis, GemmProblem, merged
from hloc.ir.instruction import Instruction
from hloc.lazy_dataclass import dataclass

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
    return AttentionProblem(loops, _scores(inst, loops), _result(inst, loops))


def along_one_axis(inst: Instruction, problem: AttentionProblem) -> AttentionProblem:
    """Return the same attention with one axis of queries; the others join the batch.

    The axis is that of the mask, or else the longest. Queries that share keys and values then
    belong to different batch elements, which read the same ones.
    """
    loops = problem.loops
    sizes = loops.attention.sizes
    own = loops.queries[0]
    if loops.mask is None:
        own = max(loops.queries, key=lambda axis: sizes[axis])
    others = tuple(axis for axis in loops.queries if axis != own)
    if not others:
        return problem
    still = dict.fromkeys(others, 0)
    loops = replace(
        loops,
        batch=(*loops.batch, *others),
        queries=(own,),
        batch_keys={**loops.batch_keys, **still},
        batch_values={**loops.batch_values, **still},
    )
    return AttentionProblem(loops, _scores(inst, loops), _result(inst, loops))


def _value_of(constant: Instruction) -> float:
    return float(np.asarray(constant.attributes.literal.array, np.float64))


def _scores(inst: Instruction, loops: AttentionLoops) -> MatrixProblem:
    attention, sizes = loops.attention, loops.attention.sizes
    steps, depth_steps = _query_steps(loops)
    pairs = zip(loops.depth, depth_steps, strict=True)
    axes = GemmProblem(
        tuple(Axis(sizes[axis], steps[axis], loops.batch_keys[axis], 0) for axis in loops.batch),
        tuple(Axis(sizes[axis], steps[axis], 0, 0) for axis in loops.queries),
        (replace(loops.key, out=0),),
        tuple(merged([Axis(axis.size, step, axis.rhs, 0) for axis, step in pairs])),
    )
    operands = (attention.query_operand, attention.key_operand)
    return matrix_problem(inst, attention.scores, attention.scores.array, axes, operands)


def _result(inst: Instruction, loops: AttentionLoops) -> MatrixProblem:
    attention, sizes, out = loops.attention, loops.attention.sizes, loops.result
    axes = GemmProblem(
        tuple(Axis(sizes[a], 0, loops.batch_values[a], out.get(a, 0)) for a in loops.batch),
        tuple(Axis(sizes[a], 0, 0, out.get(a, 0)) for a in loops.queries),
        (loops.value,),
        (Axis(loops.key.size, 0, loops.value_key, 0),),
    )
    operands = (attention.probabilities, attention.values)
    return matrix_problem(inst, attention.result, attention.result.array, axes, operands)


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
