"""Arrays of few elements: code for each element, with every index known, instead of a loop.

In a loop over three elements, a concatenation is two branches, and each element makes anew what the
others have made. Where indices are numbers, pieces are chosen while the code is written, and what
several elements need is made once. All elements are made before one is stored, so that LLVM can
keep the state of a loop around the kernel in registers.
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
"""Elements of an array whose neighbours are all made alike: more are better made by vectors."""

_MOST_OPERATIONS = 400
_FUNCTION_OPERATIONS = 20
"""Operations that an elementary function counts as."""


_IN_PIECES = ("concatenate", "pad")
"""Opcodes whose elements are made in different ways, by their position."""


def is_unrolled(shape: ArrayShape, members: Iterable[Instruction]) -> bool:
    """True if `members`, of which an array of `shape` is made, get code for each element."""
    if shape.elements == 1:
        return True
    members = list(members)
    has_pieces = any(member.is_a(*_IN_PIECES) for member in members)
    if not 0 < shape.elements <= (_MOST_ELEMENTS if has_pieces else _MOST_IN_VECTORS):
        return False
    return sum(_operations(member, shape.elements) for member in members) <= _MOST_OPERATIONS


def _operations(member: Instruction, elements: int) -> int:
    """Return about how many operations it takes to make what `elements` elements need."""
    if not isinstance(member.shape, ArrayShape):
        return 0
    each = _FUNCTION_OPERATIONS if member.opcode.transcendental else 1
    return each * min(member.array.elements, elements)


def write_elements(
    shapes: Iterable[ArrayShape],
    make: Callable[[int, Index], Value],
    store: Callable[[int, Index, Value], None],
) -> None:
    """Make every element of the arrays of `shapes`, then store them; arrays are numbered."""
    made = [
        (number, index, make(number, index))
        for number, shape in enumerate(shapes)
        for index in product(*map(range, shape.dims))
    ]
    for number, index, value in made:
        store(number, index, value)
