"""Laws that follow from the range of integers."""

from __future__ import annotations

from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.opt.integer_range import Range, integer_range
from hloc.opt.make import make, splat
from hloc.opt.pattern import Found, P
from hloc.opt.rule import Rule
from hloc.opt.rules.builders import answer, filled
from hloc.opt.values import is_integer, is_integer_or_pred, is_splat, splat_value

x, c = P(bind="x"), P(bind="c", when=is_splat)


def _decided(direction: str, left: Range, right: Range) -> bool | None:
    """Return the result of comparing any left with any right value, None if it varies."""
    below, not_above = left[1] < right[0], left[1] <= right[0]
    above, not_below = left[0] > right[1], left[0] >= right[1]
    apart, equal = below or above, left == right and left[0] == left[1]
    yes, no = {
        "LT": (below, not_below),
        "LE": (not_above, above),
        "GT": (above, not_above),
        "GE": (not_below, below),
        "EQ": (equal, apart),
        "NE": (apart, equal),
    }[direction]
    return True if yes else False if no else None


def _outcome(inst: Instruction) -> bool | None:
    left, right = inst.operands
    if not is_integer_or_pred(left) or not is_integer_or_pred(right):
        return None
    return _decided(inst.attributes.direction, integer_range(left), integer_range(right))


def _is_decided(inst: Instruction, _found: Found) -> bool:
    return _outcome(inst) is not None


def _decision(computation: Computation, inst: Instruction, _found: Found) -> Instruction:
    return splat(computation, inst.array, _outcome(inst))


def _below_divisor(inst: Instruction, found: Found) -> bool:
    if not is_integer(inst):
        return False
    low, high = integer_range(found["x"])
    return low >= 0 and high < int(splat_value(found["c"]))


def _adds_divisor(inst: Instruction, found: Found) -> bool:
    """(x + c) % c for x from 0 up, if the sum does not wrap."""
    if not is_integer(inst) or splat_value(found["d"]) != splat_value(found["c"]):
        return False
    divisor, dtype = int(splat_value(found["c"])), inst.array.dtype
    low, high = integer_range(found["x"])
    return low >= 0 < divisor and high + divisor < 2 ** (dtype.bits - dtype.is_signed)


def _remainder(computation: Computation, inst: Instruction, found: Found) -> Instruction:
    return make(computation, "remainder", inst.shape, found["x"], found["c"])


def _not_below(inst: Instruction, found: Found) -> bool:
    return is_integer(inst) and integer_range(found["x"])[0] >= int(splat_value(found["c"]))


def _not_above(inst: Instruction, found: Found) -> bool:
    return is_integer(inst) and integer_range(found["x"])[1] <= int(splat_value(found["c"]))


def _inside(inst: Instruction, found: Found) -> bool:
    if not is_integer(inst):
        return False
    low, high = integer_range(found["x"])
    return int(splat_value(found["c"])) <= low and high <= int(splat_value(found["d"]))


def _never_negative(inst: Instruction, found: Found) -> bool:
    return is_integer(inst) and integer_range(found["x"])[0] >= 0


RANGES = (
    Rule("compare-decided", P("compare"), _decision, when=_is_decided),
    Rule("divide-smaller", P("divide", (x, c)), filled(0), when=_below_divisor),
    Rule("remainder-smaller", P("remainder", (x, c)), answer("x"), when=_below_divisor),
    Rule(
        "remainder-of-sum",
        P("remainder", (P("add", (x, P(bind="d", when=is_splat))), c)),
        _remainder,
        when=_adds_divisor,
    ),
    Rule("maximum-with-smaller", P("maximum", (x, c)), answer("x"), when=_not_below),
    Rule("minimum-with-larger", P("minimum", (x, c)), answer("x"), when=_not_above),
    Rule(
        "clamp-inside",
        P("clamp", (c, x, P(bind="d", when=is_splat))),
        answer("x"),
        when=_inside,
    ),
    Rule("abs-not-negative", P("abs", (x,)), answer("x"), when=_never_negative),
)
