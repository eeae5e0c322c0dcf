"""Small arrays: unrolled code with constant indices instead of a loop.

In a loop over three elements, a concatenation is two branches, and each element recomputes what
others have computed. With constant indices, operands are chosen at compile time, and shared values
are computed once. All elements are computed before the first store, so that LLVM can keep the state
of a loop around the kernel in registers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import product

from hloc.codegen.builder.index import Index
from hloc.codegen.builder.values import Value
from hloc.ir.instruction import Instruction
from hloc.shapes import ArrayShape

_MOST_ELEMENTS = 8
_MOST_IN_VECTORS = 4
"""Most elements if all are computed alike: more are better computed in vectors."""

_MOST_OPERATIONS = 400
_FUNCTION_OPERATIONS = 20
"""Operations that an elementary function counts as."""


_IN_PIECES = ("concatenate", "pad")
"""Opcodes whose elements are computed in different ways, by their position."""


def is_unrolled(shape: ArrayShape, members: Iterable[Instruction]) -> bool:
    """True if a result of `shape`, computed by `members`, is unrolled."""
    if shape.elements == 1:
        return True
    members = list(members)
    has_pieces = any(member.is_a(*_IN_PIECES) for member in members)
    if not 0 < shape.elements <= (_MOST_ELEMENTS if has_pieces else _MOST_IN_VECTORS):
        return False
    return sum(_operations(member, shape.elements) for member in members) <= _MOST_OPERATIONS


def _operations(member: Instruction, elements: int) -> int:
    """Estimate the operations of `member` for `elements` elements of the result."""
    if not isinstance(member.shape, ArrayShape):
        return 0
    each = _FUNCTION_OPERATIONS if member.opcode.transcendental else 1
    return each * min(member.array.elements, elements)


def write_elements(
    shapes: Iterable[ArrayShape],
    make: Callable[[int, Index], Value],
    store: Callable[[int, Index, Value], None],
) -> None:
    """Compute every element of the arrays of `shapes`, then store them; arrays are numbered."""
    elements = [
        (number, index, make(number, index))
        for number, shape in enumerate(shapes)
        for index in product(*map(range, shape.dims))
    ]
    for number, index, value in elements:
        store(number, index, value)
