"""Shared by conditional passes: branches leaf by leaf, and `select` between values."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hloc.analysis.dataflow import Position
from hloc.analysis.leaf_source import leaf_source
from hloc.dtypes import PRED
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.lazy_dataclass import dataclass
from hloc.opt.make import constant, make
from hloc.shapes import ArrayShape, Shape, ShapeIndex, leaves


@dataclass(frozen=True, slots=True)
class Branches:
    """A conditional, leaf by leaf.

    Attributes:
        conditional: the instruction.
        indices: index of each leaf of the result.
        shapes: shape of each leaf of the result.
        sources: for each branch and leaf of its result, its source, a position in the branch.
    """

    conditional: Instruction
    indices: tuple[ShapeIndex, ...]
    shapes: tuple[ArrayShape, ...]
    sources: tuple[tuple[Position, ...], ...]

    @property
    def predicate(self) -> Instruction:
        return self.conditional.operands[0]

    def outside(self, branch: int, at: Position) -> Position | None:
        """Return the position outside the conditional that `at` forwards, None if there is none."""
        inst, index = at
        if not inst.is_a("parameter"):
            return None
        return leaf_source(self.conditional.operands[1 + branch], index)


def branches_of(conditional: Instruction) -> Branches | None:
    """Return the branches, None if a leaf is dynamic, a buffer, or differs in layout."""
    for branch, operand in zip(conditional.called, conditional.operands[1:], strict=True):
        (parameter,) = branch.parameters
        if parameter.shape != operand.shape or branch.root.shape != conditional.shape:
            return None
        if not _is_plain(operand.shape) or any(inst.opcode.nop for inst in branch.controlled):
            return None
    if not _is_plain(conditional.shape):
        return None
    found = list(leaves(conditional.shape))
    indices = tuple(index for index, _ in found)
    return Branches(
        conditional,
        indices,
        tuple(shape for _, shape in found if isinstance(shape, ArrayShape)),
        tuple(
            tuple(leaf_source(branch.root, index) for index in indices)
            for branch in conditional.called
        ),
    )


def _is_plain(shape: Shape) -> bool:
    return all(isinstance(leaf, ArrayShape) and not any(leaf.dynamic) for _, leaf in leaves(shape))


def selected(
    computation: Computation, predicate: Instruction, values: Sequence[Instruction]
) -> Instruction:
    """Select one of `values` by `predicate`, a `pred[]` or `s32[]`.

    True selects the first of two; an index out of range selects the last.
    """
    shape = values[0].array
    *others, found = values
    for branch, value in reversed(list(enumerate(others))):
        if value is not found:
            picks = _picks(computation, predicate, branch, shape)
            found = make(computation, "select", shape, picks, value, found)
    return found


def _picks(
    computation: Computation, predicate: Instruction, branch: int, shape: ArrayShape
) -> Instruction:
    picks = predicate
    if not predicate.array.dtype.is_pred:
        number = constant(computation, np.int32(branch))
        scalar = predicate.array.with_dtype(PRED)
        picks = make(computation, "compare", scalar, predicate, number, direction="EQ")
    if not shape.dims:
        return picks
    return make(computation, "broadcast", shape.with_dtype(PRED), picks, dimensions=())
