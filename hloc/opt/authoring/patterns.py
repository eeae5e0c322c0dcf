"""Patterns as trees of opcodes: `o.transpose(o.transpose(any_("x")), name="outer")`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import fields
from typing import Any, TypeAlias

import numpy as np

from hloc.dtypes import DTYPES
from hloc.errors import HloError
from hloc.ir.instruction import Instruction
from hloc.near_names import near_name_notes
from hloc.ops import OPCODES
from hloc.ops.builder import opcode_spelled
from hloc.opt.authoring.found import Value
from hloc.opt.pattern import P
from hloc.opt.values import splat_value
from hloc.shapes import ArrayShape

DTypes: TypeAlias = str | Iterable[str]
"""Names of element types; the groups below can be joined: `INT | PRED`."""

Condition: TypeAlias = Callable[[Value], bool]

INT = frozenset(name for name, dtype in DTYPES.items() if dtype.is_integer)
FLOAT = frozenset(name for name, dtype in DTYPES.items() if dtype.is_float)
COMPLEX = frozenset(name for name, dtype in DTYPES.items() if dtype.is_complex)
PRED = frozenset({"pred"})


def any_(name: str = "", *, dtypes: DTypes = (), when: Condition | None = None) -> P:
    """Return a pattern for any instruction; a name used twice must match the same instruction."""
    return P(bind=name, when=_all_of(of_dtypes(dtypes), _on_value(when)))


def const(value: Any = None, *, name: str = "", dtypes: DTypes = ()) -> P:
    """Return a pattern for a scalar or splat constant, or a broadcast of one.

    Args:
        value: None for any. A whole number matches by value, zeros of either sign; a float matches
            bit for bit: `0.0` does not match -0.0.
        name: bound to the matched instruction (the broadcast, if there is one).
        dtypes: element types.
    """
    return P(bind=name, when=_all_of(of_dtypes(dtypes), _has_value(value)))


class Opcodes:
    """`ops`: every opcode is a method that takes patterns of the operands.

    Dashes are written as underscores, Python keywords with one at the end: `o.get_tuple_element`,
    `o.not_`. Without operands any operands match. Keywords: `name=`, `when=` a condition on
    the instruction, and required values of attributes: `o.compare(x, y, direction="EQ")`.
    """

    def __getattr__(self, name: str) -> Callable[..., P]:
        if name.startswith("_"):
            raise AttributeError(name)
        opcode = opcode_of(name)

        def pattern(
            *operands: P, name: str = "", when: Condition | None = None, **attributes: Any
        ) -> P:
            condition = _all_of(_has_attributes(opcode, attributes), _on_value(when))
            return P(opcode, operands or None, bind=name, when=condition)

        return pattern


ops = Opcodes()


def opcode_of(name: str) -> str:
    """Return the opcode that `name` spells in Python: `reduce_window`, `and_`.

    Raises:
        HloError: there is none.
    """
    opcode = opcode_spelled(name)
    if opcode not in OPCODES:
        raise HloError(f"there is no opcode {opcode!r}", notes=near_name_notes(opcode, OPCODES))
    return opcode


def of_dtypes(dtypes: DTypes) -> Callable[[Instruction], bool] | None:
    """Return a condition: an array of one of these element types; None for all."""
    names = frozenset([dtypes] if isinstance(dtypes, str) else dtypes)
    for name in sorted(names):
        if name not in DTYPES:
            raise HloError(
                f"there is no element type {name!r}", notes=near_name_notes(name, DTYPES)
            )
    if not names:
        return None
    return lambda inst: isinstance(inst.shape, ArrayShape) and inst.shape.dtype.name in names


def _on_value(when: Condition | None) -> Callable[[Instruction], bool] | None:
    return None if when is None else lambda inst: bool(when(Value(inst)))


def _has_value(value: Any) -> Callable[[Instruction], bool]:
    def condition(inst: Instruction) -> bool:
        found = splat_value(inst)
        if found is None or value is None:
            return found is not None
        with np.errstate(all="ignore"):
            wanted = np.asarray(value).astype(found.dtype)[()]
        if isinstance(value, float):
            return bool(wanted.tobytes() == found.tobytes())
        return bool(wanted == found) and bool(wanted == value)

    return condition


def _has_attributes(opcode: str, wanted: dict[str, Any]) -> Callable[[Instruction], bool] | None:
    row = OPCODES[opcode]
    known = [field.name for field in fields(row.attributes)] if row.attributes else []
    for name in wanted:
        if name not in known:
            has = f"it has {', '.join(known)}" if known else "it has none"
            raise HloError(f"{opcode} has no attribute {name!r}; {has}")
    if not wanted:
        return None
    values = {k: tuple(v) if isinstance(v, list) else v for k, v in wanted.items()}
    return lambda inst: all(getattr(inst.attributes, k) == v for k, v in values.items())


def _all_of(
    *conditions: Callable[[Instruction], bool] | None,
) -> Callable[[Instruction], bool] | None:
    found = [condition for condition in conditions if condition is not None]
    if not found:
        return None
    return lambda inst: all(condition(inst) for condition in found)
