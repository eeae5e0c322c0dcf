"""Value ranges of the integers of a loop body, from the range of its induction variable."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from hloc.analysis.leaf_source import leaf_source
from hloc.analysis.trip_count import TripCount
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ir.traversal import post_order
from hloc.shapes import ArrayShape

Range: TypeAlias = tuple[int, int]
"""Smallest and largest value."""


def body_ranges(body: Computation, trips: TripCount) -> dict[Instruction, Range]:
    """Return the ranges of scalar integers of `body`, a loop body with trip count `trips`.

    Sums, products and the like of known ranges have known ranges if no value wraps around.
    """
    if trips.variable is None or trips.count < 1:
        return {}
    counter = (body.parameters[0], trips.variable)
    ranges: dict[Instruction, Range] = {}
    for inst in post_order(body):
        shape = inst.shape
        if not isinstance(shape, ArrayShape) or not shape.is_scalar or not shape.dtype.is_integer:
            continue
        found = trips.range if leaf_source(inst) == counter else _range(inst, ranges)
        if found is not None and _fits(found, shape):
            ranges[inst] = found
    return ranges


def _fits(found: Range, shape: ArrayShape) -> bool:
    half = 1 << (shape.dtype.bits - 1)
    low, high = (-half, half - 1) if shape.dtype.is_signed else (0, 2 * half - 1)
    return low <= found[0] and found[1] <= high


def _range(inst: Instruction, ranges: dict[Instruction, Range]) -> Range | None:
    """Return the lowest and highest value of a scalar from those of its operands, None if unknown.

    The bounds are those of exact integers; the caller drops them if they do not fit the type.
    """
    name = inst.opcode.name
    if name == "constant":
        literal = inst.attributes.literal
        return None if literal.is_elided else (int(literal.array), int(literal.array))
    operands = inst.operands[1:] if name == "select" else inst.operands
    if not operands or not all(operand in ranges for operand in operands):
        return None
    (low, high), *others = (ranges[operand] for operand in operands)
    if name in ("copy", "convert"):
        return low, high
    if name == "negate":
        return -high, -low
    if len(others) != 1:
        return None
    ((other_low, other_high),) = others
    if name == "add":
        return low + other_low, high + other_high
    if name == "subtract":
        return low - other_high, high - other_low
    if name == "multiply":
        return _hull(a * b for a in (low, high) for b in (other_low, other_high))
    if name == "maximum":
        return max(low, other_low), max(high, other_high)
    if name == "minimum":
        return min(low, other_low), min(high, other_high)
    if name == "select":
        return min(low, other_low), max(high, other_high)
    return None


def _hull(values: Iterable[int]) -> Range:
    found = sorted(values)
    return found[0], found[-1]


def decided(direction: str, left: Range, right: Range) -> bool | None:
    """Return what `left direction right` is for all values in the ranges, None if it varies."""
    (low, high), (other_low, other_high) = left, right
    if direction in ("GT", "GE", "NE"):
        opposite = {"GT": "LE", "GE": "LT", "NE": "EQ"}[direction]
        found = decided(opposite, left, right)
        return None if found is None else not found
    if direction == "EQ":
        if low == high == other_low == other_high:
            return True
        return False if high < other_low or other_high < low else None
    strict = direction == "LT"
    if high < other_low or (not strict and high == other_low):
        return True
    if low > other_high or (strict and low == other_high):
        return False
    return None
