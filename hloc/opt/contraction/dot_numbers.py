"""Dimension numbers of a dot, operand by operand, for passes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hloc.ir.instruction import Instruction
from hloc.lazy_dataclass import dataclass
from hloc.ops.builder import Builder
from hloc.ops.contraction import free_dims
from hloc.shapes import ArrayShape


@dataclass(frozen=True, slots=True)
class Side:
    """One operand of a dot and the roles of its dimensions."""

    operand: Instruction
    batch: tuple[int, ...]
    contracting: tuple[int, ...]

    @property
    def free(self) -> tuple[int, ...]:
        return free_dims(self.operand.array.rank, self.batch, self.contracting)

    def sizes(self, dims: tuple[int, ...]) -> list[int]:
        """Return the sizes of `dims`."""
        return [self.operand.array.dims[dim] for dim in dims]


def sides(inst: Instruction) -> tuple[Side, Side]:
    """Return the operands of a dot, lhs first."""
    a = inst.attributes
    return (
        Side(inst.operands[0], a.lhs_batch_dims, a.lhs_contracting_dims),
        Side(inst.operands[1], a.rhs_batch_dims, a.rhs_contracting_dims),
    )


def numbered(attributes: Any, lhs: Side, rhs: Side) -> Any:
    """Return `attributes` of a dot with the dimension numbers of `lhs` and `rhs`."""
    return replace(
        attributes,
        lhs_batch_dims=lhs.batch,
        lhs_contracting_dims=lhs.contracting,
        rhs_batch_dims=rhs.batch,
        rhs_contracting_dims=rhs.contracting,
    )


def dot_of(b: Builder, inst: Instruction, lhs: Side, rhs: Side) -> Instruction:
    """Add a dot of other operands, with the element type and precision of `inst`."""
    dims = (*lhs.sizes(lhs.batch), *lhs.sizes(lhs.free), *rhs.sizes(rhs.free))
    shape = ArrayShape(inst.array.dtype, tuple(dims))
    return b.instruction(
        "dot", (lhs.operand, rhs.operand), numbered(inst.attributes, lhs, rhs), shape=shape
    )


def resized(b: Builder, x: Instruction, dims: Sequence[int]) -> Instruction:
    """Return `x` reshaped; `x` itself if it has those sizes."""
    return x if x.array.dims == tuple(dims) else b.reshape(x, dims)
