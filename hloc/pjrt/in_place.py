"""Custom calls with results that alias operands (`output_to_operand_aliasing`).

In hloc, every result has its own memory, so the operand is copied there before the call.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hloc.dtypes import TOKEN, Array
from hloc.ir.instruction import Instruction
from hloc.ir.operand_alias import operand_aliases
from hloc.shapes import ArrayShape, Shape, TupleShape


def result_shapes(inst: Instruction) -> tuple[Shape, ...]:
    """Return the shapes of the results of a custom call, including tokens."""
    return inst.shape.elements if isinstance(inst.shape, TupleShape) else (inst.shape,)


def is_token(shape: Shape) -> bool:
    """True for a token, which has no array."""
    return isinstance(shape, ArrayShape) and shape.dtype is TOKEN


def operands_in_results(
    inst: Instruction, operands: Sequence[Array], results: Sequence[Array]
) -> list[Array]:
    """Return the operands; an operand that a result aliases is copied to the result's array.

    Args:
        inst: the custom call.
        operands: its arrays, without tokens.
        results: the arrays of its results, without tokens.
    """
    given = list(operands)
    aliases = operand_aliases(inst)
    if not aliases:
        return given
    taken = _positions([operand.shape for operand in inst.operands])
    returned = _positions(result_shapes(inst))
    for alias in aliases:
        if alias.index or len(alias.output) > 1:
            continue
        (output,) = alias.output or (0,)
        place, source = returned.get(output), taken.get(alias.operand)
        if place is not None and source is not None:
            np.copyto(results[place], operands[source])
            given[source] = results[place]
    return given


def _positions(shapes: Sequence[Shape]) -> dict[int, int]:
    """Return the index of each array among the arrays, by its index among all shapes."""
    numbers = [i for i, shape in enumerate(shapes) if not is_token(shape)]
    return {number: place for place, number in enumerate(numbers)}
