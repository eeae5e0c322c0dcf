"""Laws of quotients, powers, roots and exponentials, nearly all for fast_math only.

XLA applies these even without fast math; they round differently from the
written steps, and overflow elsewhere (docs/numerics.md).
"""

from __future__ import annotations

from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.opt.make import like, make, splat
from hloc.opt.pattern import Found, P
from hloc.opt.rule import Build, Rule
from hloc.opt.rules.builders import answer, apply, assumes_finite, filled, reassociates
from hloc.opt.values import (
    has_one_user,
    is_above_zero,
    is_float,
    makes_no_nan,
    splat_of,
    splat_value,
)

x, y, z, w = P(bind="x"), P(bind="y"), P(bind="z"), P(bind="w")
one = P(when=splat_of(1))


def _exp_of(opcode: str) -> Build:
    """Return a builder of exp(opcode(x, y)) with the accuracy of the matched exponential."""

    def build(computation: Computation, inst: Instruction, found: Found) -> Instruction:
        argument = make(computation, opcode, inst.shape, found["x"], found["y"])
        return like(computation, found["e"], argument, shape=inst.shape)

    return build


def _times_negated(computation: Computation, inst: Instruction, found: Found) -> Instruction:
    """X / exp(y) -> x * exp(-y) and x / pow(z, y) -> x * pow(z, -y)."""
    inner = found["e"]
    negated = make(computation, "negate", inst.shape, found["y"])
    factor = like(computation, inner, *inner.operands[:-1], negated, shape=inst.shape)
    return make(computation, "multiply", inst.shape, found["x"], factor)


def _spreads_float(inst: Instruction, found: Found) -> bool:
    small = found["b"].operands[0]
    return is_float(inst) and 1 < small.array.elements < inst.array.elements


def _times_reciprocal(computation: Computation, inst: Instruction, found: Found) -> Instruction:
    broadcast = found["b"]
    small = broadcast.operands[0]
    numerator = splat(computation, small.array, 1)
    reciprocal = make(computation, "divide", small.shape, numerator, small)
    spread = like(computation, broadcast, reciprocal, shape=inst.shape)
    return make(computation, "multiply", inst.shape, found["x"], spread)


def _has_real_log(inst: Instruction, found: Found) -> bool:
    """Log(-2 ** 3) is NaN and log(0 ** 0) is 0: y * log(abs(x)) gives neither.

    An even power other than 0 has the same logarithm for x and -x, NaN if x is NaN.
    """
    exponent = splat_value(found["y"])
    if not is_float(inst):
        return False
    if exponent is not None and exponent != 0 and float(exponent) % 2 == 0:
        return True
    return is_above_zero(found["x"]) and makes_no_nan(found["x"])


def _before_bound(computation: Computation, inst: Instruction, found: Found) -> Instruction:
    """max(f(x), f(y)) -> f(max(x, y)), for a monotonically increasing f."""
    bound = make(computation, inst.opcode.name, inst.shape, found["x"], found["y"])
    return like(computation, found["f"], bound, shape=inst.shape)


def _same_function(inst: Instruction, found: Found) -> bool:
    f, g = found["f"], found["g"]
    return (
        is_float(inst)
        and f.opcode is g.opcode
        and f.common.result_accuracy == g.common.result_accuracy
    )


_RISING = ("tanh", "logistic", "exponential", "log", "sqrt", "cbrt")
_exp_y = P(("exponential",), (y,), bind="e", when=has_one_user)
_pow_y = P("power", (z, y), bind="e", when=has_one_user)

QUOTIENTS = (
    reassociates(
        "divide-exponentials",
        P("divide", (P("exponential", (x,), when=has_one_user), _exp_y)),
        _exp_of("subtract"),
    ),
    reassociates("divide-by-exponential", P("divide", (x, _exp_y)), _times_negated),
    reassociates("divide-by-power", P("divide", (x, _pow_y)), _times_negated),
    reassociates(
        "divide-by-rsqrt",
        P("divide", (x, P("rsqrt", (y,), when=has_one_user))),
        apply("multiply", "x", apply("sqrt", "y")),
    ),
    reassociates(
        "divide-quotients",  # (x / y) / (z / w)
        P(
            "divide",
            (P("divide", (x, y), when=has_one_user), P("divide", (z, w), when=has_one_user)),
        ),
        apply("divide", apply("multiply", "x", "w"), apply("multiply", "y", "z")),
    ),
    reassociates(
        "divide-quotient",  # (x / y) / z
        P("divide", (P("divide", (x, y), when=has_one_user), z)),
        apply("divide", "x", apply("multiply", "y", "z")),
    ),
    reassociates(
        "divide-by-quotient",  # x / (y / z)
        P("divide", (x, P("divide", (y, z), when=has_one_user))),
        apply("divide", apply("multiply", "x", "z"), "y"),
    ),
    Rule(
        "divide-by-broadcast",
        P("divide", (x, P("broadcast", bind="b", when=has_one_user))),
        _times_reciprocal,
        when=_spreads_float,
        exactness="reassociates",
    ),
)

POWERS = (
    Rule(
        "log-power",
        P("log", (P("power", (x, y), when=has_one_user),)),
        apply("multiply", "y", apply("log", apply("abs", "x"))),
        when=_has_real_log,
        exactness="assumes-finite",
    ),
    assumes_finite(
        "power-half",  # differs for -0 and -infinity
        P("power", (x, P(when=splat_of(0.5)))),
        apply("sqrt", "x"),
    ),
    assumes_finite(
        "power-of-exponential",
        P("power", (P("exponential", (x,), bind="e", when=has_one_user), y)),
        _exp_of("multiply"),
    ),
    assumes_finite(
        "sqrt-squared",  # for numbers from 0 up
        P("multiply", (P("sqrt", (x,), bind="y"), y)),
        answer("x"),
    ),
    assumes_finite(
        "rsqrt-squared",
        P("multiply", (P("rsqrt", (x,), bind="y"), y)),
        apply("divide", filled(1), "x"),
    ),
    assumes_finite("sqrt-of-square", P("sqrt", (P("multiply", (x, x)),)), apply("abs", "x")),
    assumes_finite(
        "rsqrt-of-inverse-square",
        P("rsqrt", (P("power", (x, P(when=splat_of(-2)))),)),
        apply("abs", "x"),
    ),
    assumes_finite("rsqrt-of-reciprocal", P("rsqrt", (P("divide", (one, x)),)), apply("sqrt", "x")),
    Rule(
        "bound-of-rising",
        P(
            ("maximum", "minimum"),
            (
                P(_RISING, (x,), bind="f", when=has_one_user),
                P(_RISING, (y,), bind="g", when=has_one_user),
            ),
        ),
        _before_bound,
        when=_same_function,
        exactness="reassociates",
    ),
)
