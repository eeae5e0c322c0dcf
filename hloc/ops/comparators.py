"""Comparators of sort that compare keys: recognised, and evaluated for all rows at once.

The patterns are one comparison of an expression of the left element with the same expression of the
right one, and chains of them in the spellings that JAX and XLA print, where the next key breaks
ties: `select(EQ(c, reversed c), next, c)` and `or(c, and(EQ of the key, next))`.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from hloc.dtypes import Array
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ir.opcode import HostValue
from hloc.ir.traversal import post_order_from
from hloc.lazy_dataclass import dataclass
from hloc.ops.contraction import is_integer
from hloc.ops.folding import works_per_element
from hloc.ops.ordering import total_order_key

_LARGEST = 100
"""Comparators with more instructions are not analysed."""


@dataclass(frozen=True, slots=True)
class Key:
    """An expression of the left element; `total` orders floats by their bits."""

    expression: Instruction
    descending: bool
    total: bool


def order_by_keys(comparator: Computation, columns: tuple[Array, ...]) -> Array | None:
    """Return the stable order of every row of `columns`, None if no keys are recognised.

    A float key with NaN is no key unless it is compared by total order.
    """
    keys = keys_of(comparator)
    if keys is None:
        return None
    arrays = []
    for key in keys:
        values = _evaluated(key.expression, columns)
        if values is None:
            return None
        if not is_integer(values.dtype) and not key.total:
            if values.dtype.kind == "c" or np.isnan(values).any():
                return None
            # Makes -0 and 0 equal.
            values = values + np.zeros((), values.dtype)
        numbers = total_order_key(values)
        arrays.append(~numbers if key.descending else numbers)
    if len(arrays) == 1:
        return np.asarray(np.argsort(arrays[0], axis=1, kind="stable"))
    return np.asarray(np.lexsort(arrays[::-1], axis=1))


def keys_of(comparator: Computation) -> list[Key] | None:
    """Return the keys by which a comparator orders, first one first, or None."""
    if len(comparator) > _LARGEST or any(inst.called for inst in comparator.instructions):
        return None
    root = comparator.root
    keys: list[Key] = []
    while True:
        first, rest = _first_key(root)
        if first is None:
            return None
        keys.append(first)
        if rest is None:
            return keys
        root = rest


def _first_key(root: Instruction) -> tuple[Key | None, Instruction | None]:
    """Return the first key of a comparator, and the comparator of elements equal in it."""
    if root.is_a("compare"):
        return _key_of(root), None
    if root.is_a("select"):
        equal, rest, first = root.operands
        key = _key_of(first)
        if key is not None and equal.is_a("compare") and equal.attributes.direction == "EQ":
            one, other = (_key_of(operand) for operand in equal.operands)
            if one is not None and other is not None and _reversed(one, other):
                is_first = _same_key(key, one) or _same_key(key, other)
                return (key, rest) if is_first else (None, None)
    if root.is_a("or"):
        for first, second in (root.operands, root.operands[::-1]):
            key = _key_of(first)
            if key is None or not second.is_a("and"):
                continue
            for equal, rest in (second.operands, second.operands[::-1]):
                if _compares_equal(equal, key):
                    return key, rest
    return None, None


def _key_of(inst: Instruction) -> Key | None:
    """Return the key of `inst` if it compares one expression of left and right by LT or GT."""
    if not inst.is_a("compare") or inst.attributes.direction not in ("LT", "GT"):
        return None
    kind = inst.attributes.type
    signed = inst.operands[0].array.dtype.is_signed
    if kind in ("SIGNED", "UNSIGNED") and (kind == "SIGNED") != signed:
        return None
    left, right = inst.operands
    descending = inst.attributes.direction == "GT"
    if _matches(left, right, 1):
        return Key(left, descending, kind == "TOTALORDER")
    if _matches(right, left, 1):
        return Key(right, not descending, kind == "TOTALORDER")
    return None


def _same_key(key: Key, other: Key) -> bool:
    same = _matches(key.expression, other.expression, 0)
    return same and key.descending == other.descending and key.total == other.total


def _reversed(key: Key, other: Key) -> bool:
    same = _matches(key.expression, other.expression, 0)
    return same and key.descending != other.descending and key.total == other.total


def _compares_equal(inst: Instruction, key: Key) -> bool:
    if not inst.is_a("compare") or inst.attributes.direction != "EQ":
        return False
    total = inst.attributes.type == "TOTALORDER"
    return total == key.total and any(
        _matches(key.expression, left, 0) and _matches(left, right, 1)
        for left, right in (inst.operands, inst.operands[::-1])
    )


def _matches(left: Instruction, right: Instruction, shift: int) -> bool:
    """True if both are the same expression, parameter 2k of left being 2k + shift of right."""
    stack = [(left, right)]
    seen: set[tuple[int, int]] = set()
    while stack:
        a, b = stack.pop()
        if (a.uid, b.uid) in seen:
            continue
        seen.add((a.uid, b.uid))
        if a.is_a("parameter"):
            number = a.attributes.number
            if not b.is_a("parameter") or number % 2 or b.attributes.number != number + shift:
                return False
            continue
        if a.opcode is not b.opcode or a.shape != b.shape or a.attributes != b.attributes:
            return False
        if not (works_per_element(a) or a.is_a("constant")) or len(a.operands) != len(b.operands):
            return False
        stack.extend(zip(a.operands, b.operands, strict=True))
    return True


def _evaluated(expression: Instruction, columns: tuple[Array, ...]) -> Array | None:
    """Return the expression of the left element for every element of the columns."""
    values: dict[Instruction, HostValue] = {}
    for inst in post_order_from([expression]):
        if inst.is_a("parameter"):
            values[inst] = columns[inst.attributes.number // 2]
        elif inst.is_a("constant"):
            literal = inst.attributes.literal
            if literal.is_elided:
                return None
            values[inst] = literal.array
        else:
            values[inst] = evaluated(inst, values)
    return np.broadcast_to(np.asarray(values[expression]), columns[0].shape)


def evaluated(inst: Instruction, values: Mapping[Instruction, HostValue]) -> HostValue:
    """Return an instruction that calls nothing, of the values of its operands."""
    assert inst.opcode.evaluate is not None
    operands = tuple(values[operand] for operand in inst.operands)
    return inst.opcode.evaluate(inst, operands, _no_call)


def _no_call(*_: HostValue) -> HostValue:
    raise AssertionError("an elementwise instruction calls nothing")
