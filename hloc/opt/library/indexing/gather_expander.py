"""Expand gathers into dynamic slices, in a loop if there is more than one."""

from __future__ import annotations

from hloc.dtypes import S32
from hloc.ir.instruction import Instruction
from hloc.lazy_dataclass import dataclass
from hloc.ops.builder import Builder
from hloc.opt.expander import Expander, is_static
from hloc.opt.library.counted_loop import counted_loop, row_of, scalars_of
from hloc.opt.library.indexing.gather_simplifier import (
    has_whole_windows,
    is_simple_gather,
    simplified_gather,
)
from hloc.opt.library.indexing.index_vectors import with_expanded


@dataclass(frozen=True)
class GatherExpander(Expander):
    """Replace a gather by a dynamic-slice per index vector, in a while loop.

    A gather that is not in the form of `gather-simplifier` is brought into it first. Start indices
    are clamped by both opcodes alike. With `only_trivial` gathers of one window are replaced, which
    need no loop. Cost: O(1) instructions each. Not in -O2: hloc's kernels for gather have no loop
    of instructions. Source: XLA's pass of this name.
    """

    acts_on = frozenset({"gather"})
    only_trivial: bool = False

    def when(self, inst: Instruction) -> bool:
        if not is_static(inst) or inst.array.elements == 0 or not has_whole_windows(inst):
            return False
        return not self.only_trivial or _windows(inst) == 1

    def expand(self, inst: Instruction) -> Instruction:
        if is_simple_gather(inst):
            return _sliced(inst)
        return with_expanded(simplified_gather(inst), "gather", _sliced)


def _windows(inst: Instruction) -> int:
    count = 1
    for dim, size in enumerate(inst.array.dims):
        if dim not in inst.attributes.offset_dims:
            count *= size
    return count


def _sliced(inst: Instruction) -> Instruction:
    """Return the result of a gather in canonical form."""
    b = Builder(inst.computation)
    operand, indices = inst.operands
    sizes = inst.attributes.slice_sizes
    if inst.array.dims[0] == 1:
        vector = b.reshape(indices, indices.array.dims[1:])
        return b.reshape(_slice_at(b, operand, vector, sizes), inst.array.dims)

    def step(d: Builder, counter: Instruction, state: list[Instruction]) -> list[Instruction]:
        source, vectors, rows = state
        part = _slice_at(d, source, row_of(d, vectors, counter), sizes)
        zero = d.constant(0, S32)
        update = d.reshape(part, (1, *sizes))
        written = d.dynamic_update_slice(rows, update, [counter, *[zero] * len(sizes)])
        return [source, vectors, written]

    empty = b.broadcast(b.constant(0, inst.array.dtype), inst.array.dims)
    return counted_loop(b, inst.name, inst.array.dims[0], [operand, indices, empty], step)[2]


def _slice_at(
    b: Builder, operand: Instruction, vector: Instruction, sizes: tuple[int, ...]
) -> Instruction:
    starts = scalars_of(b, vector)
    zero = b.constant(0, vector.array.dtype)
    return b.dynamic_slice(operand, [*starts, *[zero] * (len(sizes) - len(starts))], sizes)
