"""The contents of a file: a module, and optionally the arguments and result of a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hloc.errors import HloError
from hloc.ir.module import Module
from hloc.lazy_dataclass import dataclass
from hloc.literal import Literal
from hloc.shapes import ArrayShape, compatible


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A module and, if the file has them, the literals of one run of it."""

    module: Module
    arguments: tuple[Literal, ...] = ()
    result: Literal | None = None


def fitting_arrays(
    literals: Sequence[Literal], shapes: Sequence[ArrayShape], what: str
) -> list[np.ndarray[Any, np.dtype[Any]]]:
    """Return one array per leaf of `literals`, tuples flattened depth first.

    Raises:
        HloError: they do not fit `shapes`, or a value is missing; `what` is their name in the
            message.
    """
    leaves: list[Literal] = []
    stack = list(reversed(literals))
    while stack:
        literal = stack.pop()
        if isinstance(literal.value, tuple):
            stack.extend(reversed(literal.value))
        else:
            leaves.append(literal)
    if len(leaves) != len(shapes):
        raise HloError(
            f"the snapshot stores {len(leaves)} arrays as {what}, expected {len(shapes)}"
        )
    for number, (leaf, shape) in enumerate(zip(leaves, shapes, strict=True)):
        if leaf.is_elided or not compatible(leaf.shape, shape):
            raise HloError(
                f"{what} {number} of the snapshot is {leaf.shape.text_without_layout}, "
                f"expected {shape.text_without_layout}"
            )
    return [leaf.array for leaf in leaves]
