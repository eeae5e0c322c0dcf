"""Laws of add, subtract, multiply, divide, remainder, power, negate, abs and complex parts."""

from __future__ import annotations

import numpy as np

from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.opt.make import like, make
from hloc.opt.pattern import Found, P
from hloc.opt.rule import Rule
from hloc.opt.rules.builders import (
    answer,
    apply,
    assumes_finite,
    computed,
    filled,
    float_with_sign,
    reassociates,
    root,
    wide_integer,
)
from hloc.opt.values import (
    has_one_user,
    is_float,
    is_integer,
    is_negative_zero,
    is_positive_zero,
    is_pred,
    is_splat,
    is_unsigned,
    is_zero,
    makes_no_nan,
    power_of_two,
    splat_of,
    splat_value,
)

x, y = P(bind="x"), P(bind="y")
c, d = P(bind="c", when=is_splat), P(bind="d", when=is_splat)
one, minus_one, zero = P(when=splat_of(1)), P(when=splat_of(-1)), P(when=is_zero)


def _signed_or_float(inst: Instruction, _found: Found) -> bool:
    dtype = inst.array.dtype
    return dtype.is_signed or (dtype.is_float and dtype.has_sign)


def _has_negatives(inst: Instruction, _found: Found) -> bool:
    """The negative of a float without a sign bit is NaN."""
    return not is_float(inst) or inst.array.dtype.has_sign


def _finite(inst: Instruction, found: Found) -> bool:
    """0 / 0 and log(-1) are NaN although all inputs are finite, and NaN * 0 is NaN."""
    return is_float(inst) and makes_no_nan(found["x"])


def _not_complex(inst: Instruction, _found: Found) -> bool:
    """(inf + bi) * 1 has a NaN part."""
    return not inst.array.dtype.is_complex


def _exact_reciprocal(inst: Instruction, found: Found) -> bool:
    """The divisor is a power of two whose reciprocal is a normal number of the type."""
    k = power_of_two(found["c"])
    if k is None or not is_float(inst) or inst.array.dtype.exponent_bits < 5:
        return False
    return bool(abs(k) < 2 ** (inst.array.dtype.exponent_bits - 1) - 2)


def _finite_divisor(inst: Instruction, found: Found) -> bool:
    if not is_float(inst):
        return False
    value = np.float64(splat_value(found["c"]))
    return bool(np.isfinite(value) and value != 0 and np.isfinite(1.0 / value))


def _unsigned_power_of_two(inst: Instruction, found: Found) -> bool:
    return is_unsigned(inst) and power_of_two(found["c"]) is not None


def _exp_of_sum(computation: Computation, inst: Instruction, found: Found) -> Instruction:
    total = make(computation, "add", inst.shape, found["x"], found["y"])
    return like(computation, found["e"], total, shape=inst.shape)


_C_PLUS_D = computed("c + d", np.add)
_C_TIMES_D = computed("c * d", np.multiply)
_C_MINUS_1 = computed("c - 1", lambda c: np.array([int(c[0]) - 1]), "c")
_LOG2_OF_C = computed("log2(c)", lambda c: np.array([int(c[0]).bit_length() - 1]), "c")
_ONE_BY_C = computed("1 / c", lambda c: 1.0 / c.astype(np.float64), "c")

ARITHMETIC = (
    # ---- add and subtract
    Rule("add-zero", P("add", (x, P(when=is_zero))), answer("x"), when=root(is_integer)),
    Rule("add-negative-zero", P("add", (x, P(when=is_negative_zero))), answer("x")),
    Rule(
        "add-positive-zero",  # -0 + 0 is 0
        P("add", (x, P(when=is_positive_zero))),
        answer("x"),
        exactness="ignores-zero-sign",
    ),
    Rule("subtract-zero", P("subtract", (x, zero)), answer("x"), when=root(is_integer)),
    Rule("subtract-positive-zero", P("subtract", (x, P(when=is_positive_zero))), answer("x")),
    Rule(
        "subtract-self", P("subtract", (x, x)), filled(0), when=root(is_integer)
    ),  # inf - inf is NaN
    Rule(
        "add-negate",
        P("add", (x, P("negate", (y,)))),
        apply("subtract", "x", "y"),
        when=_has_negatives,
    ),
    Rule(
        "subtract-negate",
        P("subtract", (x, P("negate", (y,)))),
        apply("add", "x", "y"),
        when=_has_negatives,
    ),
    Rule(
        "add-constants",
        P("add", (P("add", (x, c)), d)),
        apply("add", "x", _C_PLUS_D),
        when=wide_integer,
    ),
    reassociates(
        "add-float-constants", P("add", (P("add", (x, c)), d)), apply("add", "x", _C_PLUS_D)
    ),
    # ---- multiply
    Rule("multiply-one", P("multiply", (x, one)), answer("x"), when=_not_complex),
    Rule(
        "multiply-zero", P("multiply", (x, zero)), filled(0), when=root(is_integer)
    ),  # inf * 0 is NaN
    Rule(
        "multiply-float-zero",
        P("multiply", (x, zero)),
        filled(0),
        when=_finite,
        exactness="assumes-finite",
    ),
    Rule(
        "multiply-minus-one",
        P("multiply", (x, minus_one)),
        apply("negate", "x"),
        when=_signed_or_float,
    ),
    Rule(
        "multiply-negates",
        P("multiply", (P("negate", (x,)), P("negate", (y,)))),
        apply("multiply", "x", "y"),
        when=_has_negatives,
    ),
    Rule(
        "multiply-constants",
        P("multiply", (P("multiply", (x, c)), d)),
        apply("multiply", "x", _C_TIMES_D),
        when=wide_integer,
    ),
    reassociates(
        "multiply-float-constants",
        P("multiply", (P("multiply", (x, c)), d)),
        apply("multiply", "x", _C_TIMES_D),
    ),
    Rule(
        "multiply-by-pred",  # 0 * inf is NaN, so integers only
        P("multiply", (P("convert", (P(bind="p", when=is_pred),)), y)),
        apply("select", "p", "y", filled(0)),
        when=root(is_integer),
    ),
    Rule(
        "multiply-exponentials",
        P(
            "multiply",
            (
                P("exponential", (x,), bind="e", when=has_one_user),
                P("exponential", (y,), when=has_one_user),
            ),
        ),
        _exp_of_sum,
        exactness="reassociates",
    ),
    # ---- divide and remainder
    Rule("divide-one", P("divide", (x, one)), answer("x"), when=_not_complex),
    Rule(
        "divide-minus-one", P("divide", (x, minus_one)), apply("negate", "x"), when=_signed_or_float
    ),
    Rule(
        "divide-negates",
        P("divide", (P("negate", (x,)), P("negate", (y,)))),
        apply("divide", "x", "y"),
        when=float_with_sign,
    ),
    Rule(
        "divide-power-of-two",
        P("divide", (x, c)),
        apply("multiply", "x", _ONE_BY_C),
        when=_exact_reciprocal,
    ),
    Rule(
        "divide-unsigned-power-of-two",
        P("divide", (x, c)),
        apply("shift-right-logical", "x", _LOG2_OF_C),
        when=_unsigned_power_of_two,
    ),
    Rule(
        "divide-constant",
        P("divide", (x, c)),
        apply("multiply", "x", _ONE_BY_C),
        when=_finite_divisor,
        exactness="reassociates",
    ),
    reassociates(
        "divide-square-root",
        P("divide", (x, P("sqrt", (y,), when=has_one_user))),
        apply("multiply", "x", apply("rsqrt", "y")),
    ),
    Rule("remainder-one", P("remainder", (x, one)), filled(0), when=root(is_integer)),
    Rule(
        "remainder-unsigned-power-of-two",
        P("remainder", (x, c)),
        apply("and", "x", _C_MINUS_1),
        when=_unsigned_power_of_two,
    ),
    # ---- power and logarithm
    Rule("power-zero", P("power", (x, zero)), filled(1), when=root(is_float)),  # for NaN too
    Rule("power-one", P("power", (x, one)), answer("x"), when=root(is_float)),
    Rule(
        "power-two",
        P("power", (x, P(when=splat_of(2)))),
        apply("multiply", "x", "x"),
        when=root(is_float),
    ),
    Rule(
        "power-minus-one",
        P("power", (x, minus_one)),
        apply("divide", filled(1), "x"),
        when=root(is_float),
    ),
    reassociates(
        "power-three",
        P("power", (x, P(when=splat_of(3)))),
        apply("multiply", apply("multiply", "x", "x"), "x"),
    ),
    assumes_finite("log-exponential", P("log", (P("exponential", (x,)),)), answer("x")),
    # ---- sign
    Rule("negate-negate", P("negate", (P("negate", (x,)),)), answer("x"), when=_has_negatives),
    Rule("abs-abs", P("abs", (P("abs", (x,), bind="y"),)), answer("y"), when=_signed_or_float),
    Rule("abs-negate", P("abs", (P("negate", (x,)),)), apply("abs", "x"), when=_signed_or_float),
    # ---- complex parts
    Rule("real-of-complex", P("real", (P("complex", (x, y)),)), answer("x")),
    Rule("imag-of-complex", P("imag", (P("complex", (x, y)),)), answer("y")),
    Rule("complex-of-parts", P("complex", (P("real", (x,)), P("imag", (x,)))), answer("x")),
)
