"""Replace products of sparse matrices by a gather and a scatter."""

from __future__ import annotations

from hloc.dtypes import S32, S64
from hloc.ir.instruction import Instruction
from hloc.ir.registered_targets import registered_targets
from hloc.ops.builder import Builder
from hloc.ops.custom_calls.sparse import CSR_TIMES_DENSE, fits_csr_times_dense
from hloc.opt.expander import Expander, is_static
from hloc.opt.indexing.rows import gather_rows, running, scatter_rows
from hloc.shapes import ArrayShape


class SparseProductRewriter(Expander):
    """Replace the custom call of a CSR matrix times a vector or matrix.

    The row of each value is a running count of the rows that have begun. Values that are outside
    all rows, or in a column that does not exist, belong to row -1, and are not scattered. The sums
    have the order of the values, as those of the call have. A custom call goes through the host,
    which copies all operands. Cost: O(instructions).
    """

    acts_on = frozenset({"custom-call"})

    def when(self, inst: Instruction) -> bool:
        return (
            inst.attributes.custom_call_target == CSR_TIMES_DENSE
            and CSR_TIMES_DENSE not in registered_targets()
            and fits_csr_times_dense(inst)
            and is_static(inst)
            and min(operand.array.elements for operand in inst.operands) > 0
        )

    def expand(self, inst: Instruction) -> Instruction:
        b = Builder(inst.computation)
        values, starts, columns, right = inst.operands
        rows = _rows_of_values(b, starts, values.array.dims[0])
        columns = b.convert(columns, S64)
        zero = b.splat(0, columns.array)
        exists = b.logical_and(
            b.compare(columns, zero, "GE"),
            b.compare(columns, b.splat(right.array.dims[0], columns.array), "LT"),
        )
        rows = b.select(exists, rows, b.splat(-1, rows.array))
        found = gather_rows(b, right, columns)
        products = b.multiply(b.broadcast(values, found.array.dims, (0,)), found)
        dtype = inst.array.dtype
        nothing = b.splat(0, inst.array.with_layout(None))
        return scatter_rows(b, nothing, rows, products, b.scalar_function("add", dtype))


def _rows_of_values(b: Builder, starts: Instruction, count: int) -> Instruction:
    """Return the row of each of `count` values: -1 before the first row, the number after all."""
    starts = b.convert(starts, S64)
    first, last = (b.splat(place, starts.array) for place in (0, count))
    starts = running(b, "maximum", b.clamp(first, starts, last), b.constant(0, S64))
    begun = scatter_rows(
        b,
        b.splat(0, ArrayShape(S32, (count,))),
        starts,
        b.splat(1, starts.array.with_dtype(S32)),
        b.scalar_function("add", S32),
        indices_are_sorted=True,
    )
    counted = running(b, "add", begun, b.constant(0, S32))
    return b.subtract(counted, b.splat(1, counted.array))
