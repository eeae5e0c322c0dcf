"""From a term to a Z3 expression: selects the semantics of each opcode."""

from __future__ import annotations

from typing import Any

import numpy as np

from hloc.dtypes import DType
from hloc.prove.meanings import floats, integers, predicates
from hloc.prove.meanings.conversions import bitcast, convert, sort_of
from hloc.prove.meanings.floats import FLOATS, IEEE
from hloc.prove.meanings.integers import INTEGERS, Meaning
from hloc.prove.meanings.predicates import PREDICATES
from hloc.prove.terms import CONSTANT, FOLD, SYMBOL, Term

MAX_POWER_BITS = 8
"""Maximum width of integer powers: wider ones are products that no solver decides in time."""


class NoMeaningError(Exception):
    """Z3 has no theory for a term, or hloc does not define its value; the text names the opcode."""


def expression(z: Any, term: Term, args: list[Any]) -> Any:
    """Return `term` as a Z3 expression, from those of its operands.

    Raises:
        NoMeaningError: an elementary function, a sum of unspecified order, a type outside IEEE 754.
    """
    dtype, op = term.dtype, term.op
    check_type(dtype, op)
    if op == SYMBOL:
        return z.Const(f"x{'.'.join(map(str, term.detail))}", sort_of(z, dtype))
    if op == CONSTANT:
        return _literal(z, term)
    if op == FOLD:
        return _folded(z, term, args)
    if op == "compare":
        return _compared(z, term, args)
    if op == "select":
        return z.If(*args)
    if op == "convert":
        check_type(term.args[0].dtype, op)
        return convert(z, term.args[0].dtype, dtype, *args)
    if op == "bitcast-convert" and term.args[0].dtype.is_integer:
        return bitcast(z, dtype, *args)
    if op == "is-finite":
        return floats.is_finite(z, dtype, *args)
    return _meaning(op, dtype)(z, dtype, *args)


def check_type(dtype: DType, op: str) -> None:
    """Raise NoMeaningError unless Z3 has a theory of `dtype`."""
    if not (dtype.is_pred or dtype.is_integer or dtype.name in IEEE):
        raise NoMeaningError(f"{op} of {dtype}")


def _meaning(op: str, dtype: DType) -> Meaning:
    table = PREDICATES if dtype.is_pred else INTEGERS if dtype.is_integer else FLOATS
    if op not in table or (op == "power" and dtype.bits > MAX_POWER_BITS):
        raise NoMeaningError(f"{op} of {dtype}")
    return table[op]


def _literal(z: Any, term: Term) -> Any:
    dtype = term.dtype
    if dtype.is_pred:
        return z.BoolVal(term.detail)
    if dtype.is_integer:
        return z.BitVecVal(term.detail, dtype.bits)
    if term.detail == "nan":
        return z.fpNaN(sort_of(z, dtype))
    bits = int.from_bytes(term.detail, "little" if np.little_endian else "big")
    return z.simplify(z.fpBVToFP(z.BitVecVal(bits, dtype.bits), sort_of(z, dtype)))


def _folded(z: Any, term: Term, args: list[Any]) -> Any:
    if term.dtype.is_float and term.detail not in ("maximum", "minimum"):
        raise NoMeaningError(f"a sum of {term.dtype}, whose order is open")
    meaning, result = _meaning(term.detail, term.dtype), args[0]
    for arg in args[1:]:
        result = meaning(z, term.dtype, result, arg)
    return result


def _compared(z: Any, term: Term, args: list[Any]) -> Any:
    direction, order = term.detail
    dtype = term.args[0].dtype
    check_type(dtype, "compare")
    if dtype.is_pred:
        return predicates.ordered(z, direction, *args)
    if dtype.is_integer:
        return integers.ordered(z, dtype, direction, *args)
    if order == "TOTALORDER":
        raise NoMeaningError(f"compare of {dtype} in the total order")
    return floats.ordered(z, direction, *args)
