"""Laws of and, or, xor, not and shifts, for predicates and integers."""

from __future__ import annotations

from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.opt.make import make, splat
from hloc.opt.pattern import Found, P
from hloc.opt.rule import Rule
from hloc.opt.rules.bounds import CONTRARY
from hloc.opt.rules.builders import answer, apply, filled
from hloc.opt.values import has_one_user, is_all_ones, is_zero

x, y = P(bind="x"), P(bind="y")
none, ones = P(when=is_zero), P(bind="ones", when=is_all_ones)


def _full(computation: Computation, inst: Instruction, _found: Found) -> Instruction:
    dtype = inst.array.dtype
    value = -1 if dtype.is_signed else 2**dtype.bits - 1
    return splat(computation, inst.array, value)


def _invertible(_inst: Instruction, found: Found) -> bool:
    """A NaN makes `not (a < b)` differ from `a >= b`; only EQ and NE are each other's inverse."""
    compare = found["c"]
    total = not compare.operands[0].array.dtype.is_float or compare.attributes.type == "TOTALORDER"
    equality = compare.attributes.direction in ("EQ", "NE")
    return equality or (total and not compare.operands[0].array.dtype.is_complex)


def _inverted(computation: Computation, inst: Instruction, found: Found) -> Instruction:
    compare = found["c"]
    attributes = compare.attributes
    return make(
        computation,
        "compare",
        inst.shape,
        *compare.operands,
        direction=CONTRARY[attributes.direction],
        type=attributes.type,
    )


LOGIC = (
    Rule("and-ones", P("and", (x, ones)), answer("x")),
    Rule("and-zero", P("and", (x, none)), filled(0)),
    Rule("and-self", P("and", (x, x)), answer("x")),
    Rule("and-not-self", P("and", (x, P("not", (x,)))), filled(0)),
    Rule("and-or", P("and", (x, P("or", (x, y)))), answer("x")),
    Rule("and-and", P("and", (x, P("and", (x, y), bind="z"))), answer("z")),
    Rule("or-zero", P("or", (x, none)), answer("x")),
    Rule("or-ones", P("or", (x, ones)), _full),
    Rule("or-self", P("or", (x, x)), answer("x")),
    Rule("or-not-self", P("or", (x, P("not", (x,)))), _full),
    Rule("or-and", P("or", (x, P("and", (x, y)))), answer("x")),
    Rule("or-or", P("or", (x, P("or", (x, y), bind="z"))), answer("z")),
    Rule("xor-zero", P("xor", (x, none)), answer("x")),
    Rule("xor-self", P("xor", (x, x)), filled(0)),
    Rule("xor-ones", P("xor", (x, ones)), apply("not", "x")),
    Rule("xor-xor", P("xor", (x, P("xor", (x, y)))), answer("y")),
    Rule("not-not", P("not", (P("not", (x,)),)), answer("x")),
    Rule(
        "not-compare",
        P("not", (P("compare", bind="c", when=has_one_user),)),
        _inverted,
        when=_invertible,
    ),
    Rule(
        "shift-by-zero",
        P(("shift-left", "shift-right-logical", "shift-right-arithmetic"), (x, none)),
        answer("x"),
    ),
)
