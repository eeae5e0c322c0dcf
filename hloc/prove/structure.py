"""Opcodes for constants, tuples and calls, on arrays of terms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hloc.ir.instruction import Instruction
from hloc.prove.terms import CannotFollowError, Special, Terms, Value, array_of
from hloc.shapes import ArrayShape

Operands = tuple[Value, ...]
Call = Callable[..., Value]


def _literals(terms: Terms, values: Any, shape: ArrayShape) -> Value:
    return array_of([terms.literal(value, shape.dtype) for value in values.reshape(-1)], shape.dims)


def constant(terms: Terms, inst: Instruction, _operands: Operands, _call: Call) -> Value:
    literal = inst.attributes.literal
    if literal.is_elided or not isinstance(inst.shape, ArrayShape):
        raise CannotFollowError("its value is not an array that the text holds", inst)
    return _literals(terms, literal.array, inst.array)


def iota(terms: Terms, inst: Instruction, _operands: Operands, call: Call) -> Value:
    evaluate = inst.opcode.evaluate
    assert evaluate is not None
    return _literals(terms, evaluate(inst, (), call), inst.array)


def group(_terms: Terms, _inst: Instruction, operands: Operands, _call: Call) -> Value:
    return operands


def element(_terms: Terms, inst: Instruction, operands: Operands, _call: Call) -> Value:
    return operands[0][inst.attributes.index]


def same(_terms: Terms, _inst: Instruction, operands: Operands, _call: Call) -> Value:
    return operands[0]


def called(_terms: Terms, inst: Instruction, operands: Operands, call: Call) -> Value:
    return call(inst.called[0], *operands)


def mapped(_terms: Terms, inst: Instruction, operands: Operands, call: Call) -> Value:
    results = []
    for index in np.ndindex(inst.array.dims):
        scalars = [array_of([operand[index]], ()) for operand in operands]
        results.append(call(inst.called[0], *scalars)[()])
    return array_of(results, inst.array.dims)


def size(terms: Terms, inst: Instruction, _operands: Operands, _call: Call) -> Value:
    (dim,) = inst.attributes.dimensions
    known = inst.operands[0].array.dims[dim]
    return array_of([terms.literal(known, inst.array.dtype)], ())


def conditional(terms: Terms, inst: Instruction, operands: Operands, call: Call) -> Value:
    """Run both branches and select; a branch has no effect other than its result."""
    chosen = operands[0][()]
    if not chosen.dtype.is_pred:
        raise CannotFollowError("only a branch by a predicate is supported", inst)
    yes, no = (call(b, o) for b, o in zip(inst.called, operands[1:], strict=True))
    return _selected(terms, chosen, yes, no)


def _selected(terms: Terms, chosen: Any, yes: Value, no: Value) -> Value:
    if isinstance(yes, tuple):
        return tuple(_selected(terms, chosen, a, b) for a, b in zip(yes, no, strict=True))
    pairs = zip(yes.reshape(-1), no.reshape(-1), strict=True)
    return array_of([terms.apply("select", a.dtype, (chosen, a, b)) for a, b in pairs], yes.shape)


STRUCTURE: dict[str, Special] = {
    "constant": constant,
    "iota": iota,
    "tuple": group,
    "get-tuple-element": element,
    "opt-barrier": same,
    "call": called,
    "fusion": called,
    "map": mapped,
    "conditional": conditional,
    "get-dimension-size": size,
}
