"""Short rows that loops over the results reduce side by side, a row in each lane."""

from __future__ import annotations

from collections.abc import Sequence

from hloc.codegen.elements.reductions import MOST_UNROLLED
from hloc.codegen.kernels.extremum import extremum_of
from hloc.codegen.kernels.reduce_problem import reduce_problem
from hloc.ir.instruction import Instruction

_MOST_COMPARED = 24
"""Most elements of a row whose argmax is found this way; its own loops run over each row twice."""


def most_side_by_side(roots: Sequence[Instruction]) -> int:
    """Return the elements of the longest rows that are reduced side by side."""
    return _MOST_COMPARED if len(roots) == 1 and extremum_of(roots[0]) else MOST_UNROLLED


def reads_rows_apart(inst: Instruction) -> bool:
    """True if `inst` only reduces such rows: elements of its lanes are a row apart."""
    problem = reduce_problem(inst)
    return (
        problem is not None
        and not problem.by_columns
        and problem.addends <= most_side_by_side(problem.roots)
    )
