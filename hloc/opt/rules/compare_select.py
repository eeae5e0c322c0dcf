"""Laws of compare, select, maximum, minimum and clamp."""

from __future__ import annotations

from typing import Any

import numpy as np

from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.opt.make import splat
from hloc.opt.pattern import Found, P
from hloc.opt.rule import Rule
from hloc.opt.rules.builders import answer, apply, computed, filled, first_operand, root
from hloc.opt.values import (
    has_one_user,
    is_float,
    is_integer_or_pred,
    is_pred,
    is_real,
    is_splat,
    is_unsigned,
    is_zero,
    of_splats,
    same_operands,
    splat_of,
    splat_value,
)

x, y, p = P(bind="x"), P(bind="y"), P(bind="p")
c, d = P(bind="c", when=is_splat), P(bind="d", when=is_splat)
true, false = P(when=splat_of(1)), P(when=is_zero)

_REFLEXIVE = ("EQ", "LE", "GE")


def _compare_self(computation: Computation, inst: Instruction, _found: Found) -> Instruction:
    return splat(computation, inst.array, inst.attributes.direction in _REFLEXIVE)


def _direction(*names: str) -> Any:
    """Return the condition that the direction of a compare is one of `names`."""
    return lambda inst: inst.attributes.direction in names


def _full_pred(inst: Instruction, found: Found) -> bool:
    """The root is a pred array, and the condition has the same shape (it may be a scalar)."""
    return is_pred(inst) and found["p"].shape == inst.shape


def _tells_apart(inst: Instruction, found: Found) -> bool:
    """`select(p, c, d) != d`, for two constants that are not equal, is p."""
    return (
        inst.attributes.type != "TOTALORDER"  # in which the two zeros differ
        and bool(splat_value(found["c"]) != splat_value(found["d"]))
        and not _is_nan(found["d"])
    )


def _not_total_order(inst: Instruction, _found: Found) -> bool:
    """In the total order -0 and 0 differ."""
    return bool(inst.attributes.type != "TOTALORDER")


def _floats_in_partial_order(inst: Instruction, found: Found) -> bool:
    """The total order, where NaN may be below 0, is not asked for."""
    return is_float(found["x"]) and _not_total_order(inst, found)


def _is_nan(inst: Instruction) -> bool:
    value = splat_value(inst)
    return bool(value != value)


def _equal_branches(_inst: Instruction, found: Found) -> bool:
    return same_operands(found["x"], found["y"])


@of_splats
def _lowest(inst: Instruction) -> bool:
    return _is_bound(inst, highest=False)


@of_splats
def _highest(inst: Instruction) -> bool:
    return _is_bound(inst, highest=True)


def _is_bound(inst: Instruction, *, highest: bool) -> bool:
    """All elements are the lowest (highest) value of the type, infinity for floats that have it."""
    value = splat_value(inst)
    if value is None:
        return False
    dtype = inst.array.dtype
    if dtype.is_pred:
        return bool(value) is highest
    if dtype.is_integer:
        top = 2 ** (dtype.bits - 1) - 1 if dtype.is_signed else 2**dtype.bits - 1
        bottom = -(2 ** (dtype.bits - 1)) if dtype.is_signed else 0
        return int(value) == (top if highest else bottom)
    if dtype.is_float:
        return float(value) == (np.inf if highest else -np.inf)
    return False


def _ordered_splats(_inst: Instruction, found: Found) -> bool:
    """No NaN, and no pair of zeros whose signs matter."""
    left, right = found["c"], found["d"]
    both_zero = is_zero(left) and is_zero(right) and is_float(left)
    return (
        not left.array.dtype.is_complex and not (_is_nan(left) or _is_nan(right)) and not both_zero
    )


SELECT = (
    Rule("select-true", P("select", (true, x, P())), answer("x")),
    Rule("select-false", P("select", (false, P(), x)), answer("x")),
    Rule("select-same", P("select", (P(), x, y)), answer("x"), when=_equal_branches),
    Rule("select-not", P("select", (P("not", (p,)), x, y)), apply("select", "p", "y", "x")),
    Rule(
        "select-select-true",
        P("select", (p, P("select", (p, x, P())), y)),
        apply("select", "p", "x", "y"),
    ),
    Rule(
        "select-select-false",
        P("select", (p, x, P("select", (p, P(), y)))),
        apply("select", "p", "x", "y"),
    ),
    Rule("select-true-false", P("select", (p, true, false)), answer("p"), when=_full_pred),
    Rule("select-false-true", P("select", (p, false, true)), apply("not", "p"), when=_full_pred),
    Rule("select-true-or", P("select", (p, true, x)), apply("or", "p", "x"), when=_full_pred),
    Rule("select-and-false", P("select", (p, x, false)), apply("and", "p", "x"), when=_full_pred),
)

COMPARE = (
    Rule(
        "compare-self", P("compare", (x, x)), _compare_self, when=first_operand(is_integer_or_pred)
    ),
    *(
        Rule(
            name,
            P("compare", operands, when=_direction(direction)),
            filled(value),
            when=first_operand(is_unsigned),
        )
        for name, operands, direction, value in (
            ("compare-below-zero", (x, false), "LT", 0),
            ("compare-not-below-zero", (x, false), "GE", 1),
            ("compare-zero-above", (false, x), "GT", 0),
            ("compare-zero-not-above", (false, x), "LE", 1),
        )
    ),
    Rule(
        "compare-magnitude-below-zero",  # the lowest integer is its own magnitude
        P("compare", (P("abs", (x,)), false), when=_direction("LT")),
        filled(0),
        when=_floats_in_partial_order,
    ),
    *(
        Rule(
            name,
            P("compare", (x, constant), when=_direction(direction)),
            build,
            when=first_operand(is_pred),
        )
        for name, constant, direction, build in (
            ("compare-equal-true", true, "EQ", answer("x")),
            ("compare-not-equal-false", false, "NE", answer("x")),
            ("compare-equal-false", false, "EQ", apply("not", "x")),
            ("compare-not-equal-true", true, "NE", apply("not", "x")),
        )
    ),
    Rule(
        "compare-converted-pred",
        P(
            "compare",
            (P("convert", (P(bind="p", when=is_pred),)), false),
            when=_direction("NE"),
        ),
        answer("p"),
        when=_not_total_order,
    ),
    Rule(
        "compare-selected",
        P("compare", (P("select", (p, c, d)), d), when=_direction("NE")),
        answer("p"),
        when=_tells_apart,
    ),
)

BOUNDS = (
    Rule("maximum-self", P("maximum", (x, x)), answer("x")),
    Rule("minimum-self", P("minimum", (x, x)), answer("x")),
    Rule("maximum-lowest", P("maximum", (x, P(when=_lowest))), answer("x")),
    Rule("minimum-highest", P("minimum", (x, P(when=_highest))), answer("x")),
    Rule(
        "maximum-highest",  # NaN for a NaN
        P("maximum", (P(), P(bind="c", when=_highest))),
        answer("c"),
        when=root(is_integer_or_pred),
    ),
    Rule(
        "minimum-lowest",
        P("minimum", (P(), P(bind="c", when=_lowest))),
        answer("c"),
        when=root(is_integer_or_pred),
    ),
    Rule("maximum-maximum", P("maximum", (y, P("maximum", (x, y), bind="z"))), answer("z")),
    Rule("minimum-minimum", P("minimum", (y, P("minimum", (x, y), bind="z"))), answer("z")),
    Rule(
        "maximum-constants",
        P("maximum", (P("maximum", (x, c), when=has_one_user), d)),
        apply("maximum", "x", computed("maximum(c, d)", max)),
        when=_ordered_splats,
    ),
    Rule(
        "minimum-constants",
        P("minimum", (P("minimum", (x, c), when=has_one_user), d)),
        apply("minimum", "x", computed("minimum(c, d)", min)),
        when=_ordered_splats,
    ),
    Rule("clamp-clamp", P("clamp", (x, P("clamp", (x, P(), y), bind="z"), y)), answer("z")),
    Rule(
        "clamp-to-everything",
        P("clamp", (P(when=_lowest), x, P(when=_highest))),
        answer("x"),
        when=root(is_real),
    ),
)

COMPARE_SELECT = (*SELECT, *COMPARE, *BOUNDS)
