"""Reductions that share their loops: operands and dimensions, for every target."""

from __future__ import annotations

from math import prod

from hloc.codegen.builder.index import loop_order
from hloc.codegen.kernels.context import root_of
from hloc.ir.instruction import Instruction
from hloc.ir.traversal import post_order
from hloc.lazy_dataclass import dataclass
from hloc.opt.fusion.columns import shared_reduces
from hloc.shapes import ArrayShape


@dataclass(frozen=True, slots=True)
class ReduceProblem:
    """One reduction, or several of inputs with the same sizes.

    Attributes:
        roots: the reductions.
        dims: sizes of all inputs.
        kept, reduced: dimensions of the inputs that are larger than 1, slowest first.
        by_columns: the fastest dimension is kept, and others are reduced.
    """

    roots: tuple[Instruction, ...]
    dims: tuple[int, ...]
    kept: tuple[int, ...]
    reduced: tuple[int, ...]
    by_columns: bool

    @property
    def rows(self) -> int:
        """Elements of each result."""
        return prod(self.dims[d] for d in self.kept)

    @property
    def addends(self) -> int:
        """Elements that are reduced to one element of a result."""
        return prod(self.dims[d] for d in self.reduced)


def reduce_problem(inst: Instruction) -> ReduceProblem | None:
    """Return the reductions of `inst`; None if its results are not those of reductions."""
    roots = reduces_of(inst)
    if not roots:
        return None
    shape, reduced = roots[0].operands[0].array, roots[0].attributes.dimensions
    order = loop_order(shape)
    kept = tuple(d for d in order if d not in reduced)
    summed = tuple(d for d in order if d in reduced)
    by_columns = bool(kept) and bool(summed) and order[-1] == kept[-1]
    return ReduceProblem(roots, shape.dims, kept, summed, by_columns)


def reduces_of(inst: Instruction) -> tuple[Instruction, ...]:
    """Return the reductions whose loops the kernel of `inst` has, () if there are none."""
    root = root_of(inst)
    if root.opcode.name == "reduce":
        return (root,)
    if inst.opcode.name != "fusion":
        return ()
    outputs = root.operands if root.opcode.name == "tuple" else (root,)
    if not outputs or not all(isinstance(output.shape, ArrayShape) for output in outputs):
        return ()
    if not any(member.opcode.name == "reduce" for member in inst.called[0].instructions):
        return ()
    order = [member for member in post_order(inst.called[0]) if member.opcode.name != "tuple"]
    return shared_reduces(order, outputs)
