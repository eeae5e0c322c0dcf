"""Update only the rows of a table that the scatter of a gradient touches."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from hloc.dtypes import S32, DType
from hloc.evaluator import evaluate_computation
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ops.builder import Builder
from hloc.opt.expander import is_static
from hloc.opt.indexing.rows import gather_rows, running, scatter_rows
from hloc.opt.pass_base import PassContext, RewritingPass
from hloc.opt.scalar_body import is_elementwise_body
from hloc.opt.values import default_layout, has_one_user, is_real, splat_value
from hloc.opt.walk import each_instruction
from hloc.shapes import ArrayShape


class SparseUpdateRewriter(RewritingPass):
    """Rewrite `table - rate * scatter(zeros, rows, updates)` to a scatter of new rows.

    That is a step of gradient descent on a table of embeddings: the gradient is zero but for the
    rows that were looked up, and still as large as the table. Updates of one row are brought
    together by a stable sort and summed in their order; then each such row is read, changed and
    written once, in place if the table may be overwritten. The bits are the same.

    Expects between scatter and sum elementwise steps with constants only, which must make a zero
    that leaves every number as it is: `x - 0` and `x + -0`, not `x - -0`. Whole rows, at most half
    as many as the table has. Cost: O(instructions).
    """

    acts_on = frozenset({"scatter"})

    def rewrite(self, module: Module, context: PassContext) -> None:
        """Rewrite in every computation."""
        for scatter in each_instruction(module, context, "scatter"):
            steps = _steps(scatter) if _is_sparse(scatter) else []
            if steps and _leaves_other_rows(scatter, steps):
                with context.rewriting(module, self.name):
                    scatter.computation.replace(steps[-1], _sparse_update(scatter, steps))


def _is_sparse(scatter: Instruction) -> bool:
    """True if whole rows are scattered into a splat, few beside its size."""
    if not is_static(scatter) or len(scatter.operands) != 3 or not default_layout(scatter):
        return False
    operand, indices, updates = scatter.operands
    attributes, dims = scatter.attributes, updates.array.dims
    row = operand.array.dims[1:]
    batch = len(dims) - len(row)
    return (
        splat_value(operand) is not None
        and attributes.scatter_dims_to_operand_dims == (0,) == attributes.inserted_window_dims
        and attributes.update_window_dims == tuple(range(batch, len(dims)))
        and dims[batch:] == row
        and 0 < 2 * math.prod(dims[:batch]) <= operand.array.dims[0]
        and default_layout(indices, updates)
        and is_elementwise_body(scatter.called[0])
    )


def _steps(scatter: Instruction) -> list[Instruction]:
    """Return the elementwise steps after the scatter, of which the last reads the table too.

    Empty if there is no such chain.
    """
    steps, at = [], scatter
    while has_one_user(at) and not at.is_root:
        (user,) = at.users
        if not user.opcode.elementwise or not is_static(user):
            return []
        if not is_real(user) or not default_layout(user, *user.operands):
            return []
        steps.append(user)
        others = [operand for operand in user.operands if operand is not at]
        if any(splat_value(other) is None for other in others):
            adds = user.is_a("add") or (user.is_a("subtract") and user.operands[1] is at)
            return steps if adds else []
        at = user
    return []


def _leaves_other_rows(scatter: Instruction, steps: Sequence[Instruction]) -> bool:
    """True if what the steps make of the scatter's operand changes no number of the table."""
    value = np.asarray(splat_value(scatter.operands[0]))
    at = scatter
    for step in steps[:-1]:
        operands = tuple(value if o is at else np.asarray(splat_value(o)) for o in step.operands)
        assert step.opcode.evaluate is not None
        value = np.asarray(step.opcode.evaluate(step, operands, evaluate_computation))
        at = step
    wanted = steps[-1].is_a("add") and steps[-1].array.dtype.is_float
    return not value and bool(np.signbit(value.astype(np.float64))) == wanted


def _sparse_update(scatter: Instruction, steps: Sequence[Instruction]) -> Instruction:
    """Add the sorted sums, the new rows and their scatter."""
    b = Builder(scatter.computation)
    last = steps[-1]
    before_last = steps[-2] if len(steps) > 1 else scatter
    (table,) = (operand for operand in last.operands if operand is not before_last)
    rows, sums = _sums_of_rows(b, scatter)
    old = gather_rows(b, table, rows)
    at, value = scatter, sums
    for step in steps:
        operands = [
            value if o is at else old if o is table else _splat_like(b, o, value)
            for o in step.operands
        ]
        value = b.instruction(step.opcode.name, operands, step.attributes)
        at = step
    second = _second(b, last.array.dtype)
    return scatter_rows(b, table, rows, value, second, unique_indices=True)


def _sums_of_rows(b: Builder, scatter: Instruction) -> tuple[Instruction, Instruction]:
    """Return the numbers of the rows that are scattered to, each once, and what is scattered.

    Both have as many elements as there are updates; numbers beyond the table fill the first.
    """
    operand, indices, updates = scatter.operands
    row = operand.array.dims[1:]
    count = updates.array.elements // math.prod(row)
    keys = b.reshape(indices, (count,))
    dtype = keys.array.dtype if keys.array.dtype.bits >= S32.bits else S32
    keys = b.convert(keys, dtype)
    by_row = b.sort(
        keys,
        b.iota(S32, (count,)),
        dimensions=(0,),
        is_stable=True,
        called=(_less(b, dtype),),
    )
    keys, order = (b.get_tuple_element(by_row, number) for number in range(2))
    updates = gather_rows(b, b.reshape(updates, (count, *row)), order)
    largest = b.constant(np.iinfo(dtype.numpy).max, dtype)
    starts = b.compare(b.pad(keys, largest, [1], [-1]), keys, "NE")
    begun = running(b, "add", b.convert(starts, S32), b.constant(0, S32))
    places = b.subtract(begun, b.splat(1, order.array))
    empty = b.splat(splat_value(operand), updates.array)
    beyond = b.splat(operand.array.dims[0], keys.array)
    second, combiner = _second(b, dtype), scatter.called[0]
    rows = scatter_rows(b, beyond, places, keys, second, indices_are_sorted=True)
    return rows, scatter_rows(b, empty, places, updates, combiner, indices_are_sorted=True)


def _splat_like(b: Builder, splat: Instruction, rows: Instruction) -> Instruction:
    return b.splat(splat_value(splat), rows.array.with_dtype(splat.array.dtype))


def _second(b: Builder, dtype: DType) -> Computation:
    """Add the combiner that returns the update."""
    inner = Builder(b.computation.module.add_computation("second"))
    _, update = (inner.parameter(number, ArrayShape(dtype)) for number in range(2))
    inner.computation.set_root(update)
    return inner.computation


def _less(b: Builder, dtype: DType) -> Computation:
    """Add the comparator that orders two arrays by the first."""
    inner = Builder(b.computation.module.add_computation("less"))
    shapes = (dtype, dtype, S32, S32)
    x, y, *_ = (inner.parameter(n, ArrayShape(shape)) for n, shape in enumerate(shapes))
    inner.computation.set_root(inner.compare(x, y, "LT"))
    return inner.computation
