"""Laws that combine constants and common factors of sums and products."""

from __future__ import annotations

import numpy as np

from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.opt.make import make
from hloc.opt.pattern import Found, P
from hloc.opt.rule import Build, Rule
from hloc.opt.rules.builders import apply, computed, float_with_sign, wide_integer
from hloc.opt.values import (
    has_one_user,
    is_float,
    is_integer,
    is_splat,
    same_operands,
)

x, y = P(bind="x"), P(bind="y")
c, d = P(bind="c", when=is_splat), P(bind="d", when=is_splat)


def _signed_zero_float(inst: Instruction, _found: Found) -> bool:
    return is_float(inst) and inst.array.dtype.exponent_bits >= 5 and inst.array.dtype.bits >= 16


def _common_factor(found: Found) -> tuple[Instruction, Instruction, Instruction] | None:
    """Return a, b and f if the products are a * f and b * f."""
    left, right = found["l"].operands, found["r"].operands
    for i, j in ((0, 0), (0, 1), (1, 0), (1, 1)):
        if same_operands(left[i], right[j]):
            return left[1 - i], right[1 - j], left[i]
    return None


def _factor_of_integers(inst: Instruction, found: Found) -> bool:
    return is_integer(inst) and _common_factor(found) is not None


def _factor_of_floats(inst: Instruction, found: Found) -> bool:
    return is_float(inst) and _common_factor(found) is not None


def _factored(computation: Computation, inst: Instruction, found: Found) -> Instruction:
    parts = _common_factor(found)
    assert parts is not None
    total = make(computation, inst.opcode.name, inst.shape, parts[0], parts[1])
    return make(computation, "multiply", inst.shape, total, parts[2])


_PRODUCTS = (
    P("multiply", bind="l", when=has_one_user),
    P("multiply", bind="r", when=has_one_user),
)
_SCALED = (
    P("multiply", (x, c), when=has_one_user),
    P("multiply", (y, d), when=has_one_user),
)


def _both(name: str, pattern: P, build: Build) -> tuple[Rule, ...]:
    """Return a law of integers, whose sums wrap, and its form for floats, which is not exact."""
    return (
        Rule(name, pattern, build, when=wide_integer),
        Rule(f"{name}-float", pattern, build, when=float_with_sign, exactness="reassociates"),
    )


_C_MINUS_D = computed("c - d", np.subtract)
_ADD_NEGATIVE = apply("add", "x", computed("-c", np.negative, "c"))

CONSTANTS = (
    Rule("subtract-constant", P("subtract", (x, c)), _ADD_NEGATIVE, when=wide_integer),
    Rule(
        "subtract-float-constant",
        P("subtract", (x, c)),
        _ADD_NEGATIVE,
        when=_signed_zero_float,
    ),
    *_both(
        "add-to-difference",  # (c - x) + d
        P("add", (P("subtract", (c, x), when=has_one_user), d)),
        apply("subtract", computed("c + d", np.add), "x"),
    ),
    *_both(
        "subtract-sum",  # c - (x + d)
        P("subtract", (c, P("add", (x, d), when=has_one_user))),
        apply("subtract", _C_MINUS_D, "x"),
    ),
    *_both(
        "subtract-difference",  # c - (d - x)
        P("subtract", (c, P("subtract", (d, x), when=has_one_user))),
        apply("add", "x", _C_MINUS_D),
    ),
    *_both(
        "multiply-scaled",
        P("multiply", _SCALED),
        apply("multiply", apply("multiply", "x", "y"), computed("c * d", np.multiply)),
    ),
    Rule(
        "common-factor",
        P(("add", "subtract"), _PRODUCTS),
        _factored,
        when=_factor_of_integers,
    ),
    Rule(
        "common-factor-float",
        P(("add", "subtract"), _PRODUCTS),
        _factored,
        when=_factor_of_floats,
        exactness="reassociates",
    ),
)
