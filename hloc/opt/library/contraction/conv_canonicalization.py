"""Canonical dimension order of convolutions: batch, spatial, features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hloc.ir.instruction import Instruction
from hloc.ops.builder import Builder
from hloc.opt.contraction.convolution_numbers import Places, places_of
from hloc.opt.expander import Expander, is_static
from hloc.shapes import ArrayShape


class ConvCanonicalization(Expander):
    """Transpose operands and result so that `b01f_01io->b01f` are the labels.

    Features become the minor dimension, for the inner loops. Exact. Cost: O(instructions), and
    the transposes copy. Not in -O2: hloc's kernels take any labels. Source: XLA's pass of this
    name.
    """

    acts_on = frozenset({"convolution"})

    def when(self, inst: Instruction) -> bool:
        return (
            len(inst.operands) == 2
            and is_static(inst)
            and places_of(inst) != _places(inst.array.rank)
        )

    def expand(self, inst: Instruction) -> Instruction:
        b = Builder(inst.computation)
        old, new = places_of(inst), _places(inst.array.rank)
        lhs, rhs = inst.operands
        operands = (_moved(b, lhs, old.input, new.input), _moved(b, rhs, old.kernel, new.kernel))
        dims = [0] * inst.array.rank
        for before, after in zip(old.output, new.output, strict=True):
            dims[after] = inst.array.dims[before]
        result = inst.computation.add(
            inst.opcode,
            ArrayShape(inst.array.dtype, tuple(dims)),
            operands,
            replace(inst.attributes, dim_labels=new.labels),
            common=inst.common,
        )
        return _moved(b, result, new.output, old.output)


def _places(rank: int) -> Places:
    spatial = range(rank - 2)
    outer = (0, rank - 1, *(dim + 1 for dim in spatial))
    return Places(outer, (rank - 2, rank - 1, *spatial), outer)


def _moved(b: Builder, x: Instruction, old: Sequence[int], new: Sequence[int]) -> Instruction:
    """Return `x` transposed so that dimension `old[i]` becomes `new[i]`."""
    if tuple(old) == tuple(new):
        return x
    source = dict(zip(new, old, strict=True))
    return b.transpose(x, [source[dim] for dim in range(len(source))])
