"""Predicates: Z3's Bool, with false < true; add is or, multiply is and."""

from __future__ import annotations

from typing import Any

from hloc.dtypes import DType
from hloc.prove.meanings.integers import Meaning


def and_(z: Any, _dtype: DType, x: Any, y: Any) -> Any:
    return z.And(x, y)


def or_(z: Any, _dtype: DType, x: Any, y: Any) -> Any:
    return z.Or(x, y)


def xor(z: Any, _dtype: DType, x: Any, y: Any) -> Any:
    return z.Xor(x, y)


def not_(z: Any, _dtype: DType, x: Any) -> Any:
    return z.Not(x)


def clamp(z: Any, _dtype: DType, low: Any, x: Any, high: Any) -> Any:
    return z.And(high, z.Or(x, low))


def ordered(z: Any, direction: str, x: Any, y: Any) -> Any:
    """Return a Bool: the comparison of 0 and 1."""
    match direction:
        case "EQ":
            return x == y
        case "NE":
            return x != y
        case "LT":
            return z.And(z.Not(x), y)
        case "LE":
            return z.Or(z.Not(x), y)
        case "GT":
            return z.And(x, z.Not(y))
        case _:
            return z.Or(x, z.Not(y))


PREDICATES: dict[str, Meaning] = {
    "and": and_,
    "multiply": and_,
    "minimum": and_,
    "or": or_,
    "add": or_,
    "maximum": or_,
    "xor": xor,
    "not": not_,
    "clamp": clamp,
}
