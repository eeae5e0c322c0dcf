"""Reductions that share their loops: operands and dimensions, for every target."""

from __future__ import annotations

from math import prod

from hloc.codegen.builder.index import loop_order
from hloc.ir.instruction import Instruction
from hloc.lazy_dataclass import dataclass
from hloc.opt.fusion.columns import reduces_of


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
