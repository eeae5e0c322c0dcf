"""Symbolic execution: runs a computation on arrays of terms of the same sizes.

Elementwise opcodes create a term per element; moves follow their index map; reduce and dot are
in `FOLDS`, moves with computed indices in `PLACES`, the rest in `STRUCTURE`. Others are not
supported.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ir.opcode import Opcode
from hloc.ir.traversal import live_order
from hloc.ops.rows.select_compare import comparison_type
from hloc.ops.shape_rules import promote
from hloc.prove.folds import FOLDS
from hloc.prove.moves import PLACES, moved
from hloc.prove.structure import STRUCTURE
from hloc.prove.terms import CannotFollowError, Special, Terms, Value
from hloc.shapes import ArrayShape, Shape, TupleShape

MAX_ELEMENTS = 4096
"""Maximum number of elements of an array."""


class SymbolicRun:
    """Runs computations on terms of one `Terms`."""

    def __init__(self, terms: Terms | None = None) -> None:
        self.terms = terms or Terms()

    def inputs(self, computation: Computation) -> list[Value]:
        """Return parameters whose elements may have any value: symbols (parameter, leaf, index)."""
        return [
            self._symbols(p.shape, (number,)) for number, p in enumerate(computation.parameters)
        ]

    def _symbols(self, shape: Shape, place: tuple[int, ...]) -> Value:
        if isinstance(shape, TupleShape):
            parts = enumerate(shape.elements)
            return tuple(self._symbols(part, (*place, number)) for number, part in parts)
        assert isinstance(shape, ArrayShape)
        array = np.empty(prod(shape.dims), dtype=object)
        for index in range(array.size):
            array[index] = self.terms.symbol(shape.dtype, (*place, index))
        return array.reshape(shape.dims)

    def call(self, computation: Computation, *arguments: Value) -> Value:
        """Return the result of `computation`.

        Raises:
            CannotFollowError: an instruction is not supported, or is too large.
        """
        values: dict[Instruction, Value] = {}
        for inst in live_order(computation):
            if inst.is_a("parameter"):
                values[inst] = arguments[inst.attributes.number]
            else:
                values[inst] = self._value(inst, tuple(values[o] for o in inst.operands))
        return values[computation.root]

    def _value(self, inst: Instruction, operands: tuple[Value, ...]) -> Value:
        _check_size(inst)
        special = SPECIAL.get(inst.opcode.name)
        if special is not None:
            return special(self.terms, inst, operands, self.call)
        if inst.opcode.elementwise:
            return self._elementwise(inst, operands)
        if inst.opcode.data_movement:
            return moved(inst, operands)
        raise CannotFollowError("this opcode is not supported", inst)

    def _elementwise(self, inst: Instruction, operands: tuple[Value, ...]) -> Value:
        name, dtype, dims = inst.opcode.name, inst.array.dtype, inst.array.dims
        detail = _detail(inst)
        whole = [
            np.broadcast_to(self._promoted(inst, number, operand), dims).reshape(-1)
            for number, operand in enumerate(operands)
        ]
        result = np.empty(prod(dims), dtype=object)
        for index in range(result.size):
            args = tuple([array[index] for array in whole])
            result[index] = self.terms.apply(name, dtype, args, detail)
        return result.reshape(dims)

    def _promoted(self, inst: Instruction, number: int, operand: Value) -> Value:
        """Return an operand in the type of the operation: float operands may have two types."""
        own = inst.operands[number].array.dtype
        if not own.is_float or len(operand.reshape(-1)) == 0:
            return operand
        if inst.opcode.name == "compare":
            wanted = promote(*(o.array.dtype for o in inst.operands))
        else:
            wanted = inst.array.dtype if inst.opcode.name != "convert" else own
        if wanted is None or wanted is own or not wanted.is_float:
            return operand
        flat = [self.terms.apply("convert", wanted, (term,)) for term in operand.reshape(-1)]
        return np.array(flat, dtype=object).reshape(operand.shape)


SPECIAL: dict[str, Special] = {**STRUCTURE, **FOLDS, **PLACES}
"""Opcodes that are neither elementwise nor a move along an index map."""


def can_follow(opcode: Opcode) -> bool:
    """True if the opcode is supported."""
    known = opcode.name in SPECIAL or opcode.name == "parameter"
    return known or opcode.elementwise or opcode.data_movement


def _check_size(inst: Instruction) -> None:
    shape = inst.shape
    if isinstance(shape, ArrayShape):
        if shape.dynamic and any(shape.dynamic):
            raise CannotFollowError("its size is not known before it runs", inst)
        if shape.elements > MAX_ELEMENTS:
            raise CannotFollowError(f"it has more than {MAX_ELEMENTS} elements", inst)


def _detail(inst: Instruction) -> Any:
    """Return the attributes of an elementwise instruction that its value depends on."""
    attributes = inst.attributes
    if inst.is_a("compare"):
        dtype = inst.operands[0].array.dtype
        order = attributes.type if dtype.is_float and attributes.type else comparison_type(dtype)
        return attributes.direction, order
    if inst.is_a("reduce-precision"):
        return attributes.exponent_bits, attributes.mantissa_bits
    return None
