"""Expand scatters into loops that update one window per iteration."""

from __future__ import annotations

from collections.abc import Sequence

from hloc.dtypes import PRED, S64
from hloc.ir.instruction import Instruction
from hloc.ops.builder import Builder
from hloc.opt.expander import Expander, is_static, tuple_like
from hloc.opt.library.counted_loop import counted_loop, row_of, scalars_of
from hloc.opt.library.indexing.index_vectors import with_expanded
from hloc.opt.library.indexing.scatter_simplifier import is_simple_scatter, simplified_scatter
from hloc.opt.scalar_body import applied, is_elementwise_body
from hloc.shapes import TupleShape


class ScatterExpander(Expander):
    """Replace a scatter by a while loop over the index vectors, in their order.

    A scatter that is not in the form of `scatter-simplifier` is brought into it first. A window of
    which any part is out of bounds changes nothing. The result does not depend on threads or on
    how often an index occurs. A combiner that is not elementwise steps keeps its scatter. Cost:
    O(1) instructions each. Not in -O2: hloc's kernels for scatter have no loop of instructions.
    Source: XLA's pass of this name.
    """

    acts_on = frozenset({"scatter"})

    def when(self, inst: Instruction) -> bool | str:
        if not is_static(inst) or any(0 in x.array.dims for x in inst.operands):
            return False
        if not _is_plain(inst):
            return f"{inst.called[0].name} is not elementwise steps of the operands' types"
        return True

    def expand(self, inst: Instruction) -> Instruction:
        if is_simple_scatter(inst):
            return _looped(inst)
        return with_expanded(simplified_scatter(inst), "scatter", _looped)


def _is_plain(inst: Instruction) -> bool:
    (body,) = inst.called
    count = len(inst.operands) // 2
    given = [x.array.dtype for x in (*inst.operands[:count], *inst.operands[count + 1 :])]
    taken = [parameter.array.dtype for parameter in body.parameters]
    return is_elementwise_body(body) and given == taken


def _looped(inst: Instruction) -> Instruction:
    """Return the result of a scatter in canonical form."""
    b = Builder(inst.computation)
    count = len(inst.operands) // 2
    (body,) = inst.called
    sizes = inst.operands[-1].array.dims[1:]

    def step(d: Builder, counter: Instruction, state: list[Instruction]) -> list[Instruction]:
        operands, vectors, updates = state[:count], state[count], state[count + 1 :]
        # An S64 holds the indices of every signed type.
        indexed = scalars_of(d, d.convert(row_of(d, vectors, counter), S64))
        inside = _inside(d, indexed, operands[0].array.dims, sizes)
        starts = [*indexed, *[d.constant(0, S64)] * (len(sizes) - len(indexed))]
        current = [d.dynamic_slice(x, starts, sizes) for x in operands]
        new = applied(d, body, [*current, *(row_of(d, x, counter) for x in updates)])
        mask = d.broadcast(inside, sizes)
        chosen = [d.select(mask, x, old) for x, old in zip(new, current, strict=True)]
        written = [
            d.dynamic_update_slice(x, part, starts)
            for x, part in zip(operands, chosen, strict=True)
        ]
        return [*written, vectors, *updates]

    rounds = inst.operands[count].array.dims[0]
    found = counted_loop(b, inst.name, rounds, inst.operands, step)[:count]
    if not isinstance(inst.shape, TupleShape):
        return found[0]
    return tuple_like(b, inst, found)


def _inside(
    b: Builder, starts: Sequence[Instruction], dims: Sequence[int], sizes: Sequence[int]
) -> Instruction:
    """Return a pred: the window lies in the array, in the dimensions that have a start."""
    found = b.constant(True, PRED)
    for start, dim, size in zip(starts, dims, sizes, strict=False):
        above = b.compare(start, b.constant(0, S64), "GE")
        below = b.compare(start, b.constant(dim - size, S64), "LE")
        found = b.logical_and(found, b.logical_and(above, below))
    return found
