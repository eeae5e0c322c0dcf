"""Convert scatters of one window at constant indices to dynamic-update-slice."""

from __future__ import annotations

from collections.abc import Sequence

from hloc.dtypes import S64
from hloc.ir.instruction import Instruction
from hloc.ops.builder import Builder
from hloc.opt.expander import Expander, is_static
from hloc.opt.scalar_body import applied, is_elementwise_body


class KnownScatterRewriter(Expander):
    """Replace a scatter of one index vector, a constant, by an update of that part.

    JAX's `x.at[0].add(1)` is such a scatter. The part is combined with the update, and written
    back in place; a part that reaches out of bounds is left as it is. The combiner must be
    elementwise steps of the operands' types. Cost: O(1) instructions each. Source: XLA's
    scatter_expander, for the scatters that it calls simple.
    """

    acts_on = frozenset({"scatter"})

    def when(self, inst: Instruction) -> bool:
        if len(inst.operands) != 3 or not is_static(inst) or inst.attributes.input_batching_dims:
            return False
        operand, _, updates = inst.operands
        (body,) = inst.called
        types = [parameter.array.dtype for parameter in body.parameters]
        return (
            _index_vector(inst) is not None
            and updates.array.elements > 0
            and types == [operand.array.dtype, updates.array.dtype]
            and is_elementwise_body(body)
        )

    def expand(self, inst: Instruction) -> Instruction:
        operand, _, updates = inst.operands
        starts, sizes = _starts(inst), _window(inst)
        limits = [start + size for start, size in zip(starts, sizes, strict=True)]
        if min(starts, default=0) < 0 or any(
            limit > size for limit, size in zip(limits, operand.array.dims, strict=True)
        ):
            return operand
        b = Builder(inst.computation)
        part = b.slice(operand, starts, limits)
        (new,) = applied(b, inst.called[0], [part, b.reshape(updates, sizes)])
        return b.dynamic_update_slice(operand, new, [b.constant(start, S64) for start in starts])


def _index_vector(inst: Instruction) -> list[int] | None:
    """Return the only index vector, None if there are several or it is not constant."""
    indices = inst.operands[1]
    size = len(inst.attributes.scatter_dims_to_operand_dims)
    if indices.array.elements != size:
        return None
    source = indices.operands[0] if indices.is_a("broadcast") else indices
    if not source.is_a("constant"):
        return None
    numbers = source.attributes.literal.array.reshape(-1)
    if indices is source:
        return [int(number) for number in numbers]
    return [int(numbers[0])] * size if numbers.size == 1 else None


def _starts(inst: Instruction) -> list[int]:
    """Return the start of the window in each dimension of the operand."""
    starts = [0] * inst.array.rank
    vector = _index_vector(inst)
    assert vector is not None
    for dim, start in zip(inst.attributes.scatter_dims_to_operand_dims, vector, strict=True):
        starts[dim] = start
    return starts


def _window(inst: Instruction) -> Sequence[int]:
    """Return the sizes of the window, with a 1 where the updates have no dimension."""
    attributes, dims = inst.attributes, inst.operands[2].array.dims
    sizes = iter([dims[dim] for dim in attributes.update_window_dims])
    rank = inst.array.rank
    return [1 if dim in attributes.inserted_window_dims else next(sizes) for dim in range(rank)]
