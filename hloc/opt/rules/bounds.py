"""Laws of nested bounds, of comparisons that decide them, and of conjunctions of comparisons."""

from __future__ import annotations

from typing import Any

from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.opt.make import make, splat
from hloc.opt.pattern import Found, P
from hloc.opt.rule import Build, Rule
from hloc.opt.rules.builders import answer, apply, filled, first_operand, root
from hloc.opt.values import (
    has_one_user,
    is_float,
    is_integer_or_pred,
    is_real,
    is_splat,
    is_zero,
    splat_value,
)

x, y = P(bind="x"), P(bind="y")
c, d = P(bind="c", when=is_splat), P(bind="d", when=is_splat)


def _has_nan(*insts: Instruction) -> bool:
    return any(bool(splat_value(i) != splat_value(i)) for i in insts)


def _ordered(inst: Instruction, found: Found) -> bool:
    """C <= d, no NaN, and no zeros whose signs matter."""
    low, high = found["c"], found["d"]
    if not is_real(inst) or _has_nan(low, high):
        return False
    zeros = is_float(inst) and (is_zero(low) or is_zero(high))
    return not zeros and bool(splat_value(low) <= splat_value(high))


def _clamp(computation: Computation, inst: Instruction, found: Found) -> Instruction:
    """min(max(x, c), d) and max(min(x, d), c) are clamp(c, x, d) if c <= d."""
    bounds = [_scalar(computation, found[name]) for name in ("c", "d")]
    return make(computation, "clamp", inst.shape, bounds[0], found["x"], bounds[1])


def _scalar(computation: Computation, bound: Instruction) -> Instruction:
    return splat(computation, bound.array.with_layout(None), splat_value(bound))


def _known_bounds(inst: Instruction, found: Found) -> bool:
    bounds = [found[name] for name in ("a", "b", "c", "d")]
    if not is_real(inst) or _has_nan(*bounds) or not all(i.array.is_scalar for i in bounds):
        return False
    if is_float(inst) and any(is_zero(i) for i in bounds):
        return False
    a, b, c, d = (splat_value(i) for i in bounds)
    return bool(a <= b and c <= d)


def _merged_clamp(computation: Computation, inst: Instruction, found: Found) -> Instruction:
    a, b, c, d = (splat_value(found[name]) for name in ("a", "b", "c", "d"))
    low, high = (min(max(value, c), d) for value in (a, b))
    shape = found["a"].array
    return make(
        computation,
        "clamp",
        inst.shape,
        splat(computation, shape, low),
        found["x"],
        splat(computation, shape, high),
    )


_CLAMPS = P(
    "clamp",
    (
        c,
        P(
            "clamp",
            (P(bind="a", when=is_splat), x, P(bind="b", when=is_splat)),
            when=has_one_user,
        ),
        d,
    ),
)

BOUNDS = (
    Rule(
        "maximum-of-minimum",
        P("maximum", (x, P("minimum", (x, P())))),
        answer("x"),
        root(is_integer_or_pred),
    ),
    Rule(
        "minimum-of-maximum",
        P("minimum", (x, P("maximum", (x, P())))),
        answer("x"),
        root(is_integer_or_pred),
    ),
    Rule(
        "minimum-maximum-as-clamp",
        P("minimum", (P("maximum", (x, c), when=has_one_user), d)),
        _clamp,
        when=_ordered,
    ),
    Rule(
        "maximum-minimum-as-clamp",
        P("maximum", (P("minimum", (x, d), when=has_one_user), c)),
        _clamp,
        when=_ordered,
    ),
    Rule("clamp-constants", _CLAMPS, _merged_clamp, when=_known_bounds),
)


# ---------------------------------------------------------------- comparisons with a bound


def _direction(*names: str) -> Any:
    return lambda inst: inst.attributes.direction in names and inst.attributes.type != "TOTALORDER"


def _compare(direction: str, *names: str) -> Build:
    """Return a builder of a comparison of the instructions bound to `names`."""

    def build(computation: Computation, inst: Instruction, found: Found) -> Instruction:
        operands = [found[name] for name in names]
        attributes = {"direction": direction, "type": inst.attributes.type}
        return make(computation, "compare", inst.shape, *operands, **attributes)

    return build


BOUND_COMPARISONS = (
    Rule(
        "maximum-greater",  # max(x, y) > x
        P("compare", (P("maximum", (x, y)), x), when=_direction("GT")),
        _compare("GT", "y", "x"),
        when=first_operand(is_real),
    ),
    Rule(
        "less-than-maximum",
        P("compare", (x, P("maximum", (x, y))), when=_direction("LT")),
        _compare("LT", "x", "y"),
        when=first_operand(is_real),
    ),
    Rule(
        "minimum-less",
        P("compare", (P("minimum", (x, y)), x), when=_direction("LT")),
        _compare("LT", "y", "x"),
        when=first_operand(is_real),
    ),
    Rule(
        "greater-than-minimum",
        P("compare", (x, P("minimum", (x, y))), when=_direction("GT")),
        _compare("GT", "x", "y"),
        when=first_operand(is_real),
    ),
)


# ---------------------------------------------------------------- and, or of comparisons

CONTRARY = {"EQ": "NE", "NE": "EQ", "LT": "GE", "GE": "LT", "GT": "LE", "LE": "GT"}
_left, _right = P("compare", bind="l"), P("compare", bind="r")


def _contrary(_inst: Instruction, found: Found) -> bool:
    """One comparison is true exactly where the other is false."""
    left, right = found["l"], found["r"]
    one, other = left.attributes, right.attributes
    if left.operands != right.operands or one.type != other.type:
        return False
    if CONTRARY[one.direction] != other.direction:
        return False
    exact = is_integer_or_pred(left.operands[0]) or one.type == "TOTALORDER"
    return exact or one.direction in ("EQ", "NE")


def _same_direction(_inst: Instruction, found: Found) -> bool:
    """Both compare one array with a constant, in one direction, and neither constant is NaN."""
    left, right = found["l"], found["r"]
    bounds = left.operands[1], right.operands[1]
    return (
        left.operands[0] is right.operands[0]
        and left.attributes == right.attributes
        and left.attributes.type != "TOTALORDER"
        and left.attributes.direction in ("LT", "LE", "GT", "GE")
        and is_real(left.operands[0])
        and all(is_splat(bound) for bound in bounds)
        and not _has_nan(*bounds)
    )


def _narrower(_computation: Computation, inst: Instruction, found: Found) -> Instruction:
    """Return the stricter comparison for `and`, the laxer one for `or`."""
    left, right = found["l"], found["r"]
    below = left.attributes.direction in ("LT", "LE")
    smaller = bool(splat_value(left.operands[1]) <= splat_value(right.operands[1]))
    return left if smaller == (below == (inst.opcode.name == "and")) else right


CONJUNCTIONS = (
    Rule("and-contrary", P("and", (_left, _right)), filled(0), when=_contrary),
    Rule("or-contrary", P("or", (_left, _right)), filled(1), when=_contrary),
    Rule("and-or-bounds", P(("and", "or"), (_left, _right)), _narrower, when=_same_direction),
)


# ---------------------------------------------------------------- selects that compare


def _chosen(*names: str) -> P:
    return P("compare", (x, y), when=lambda inst: inst.attributes.direction in names)


def _is_pred_select(inst: Instruction, found: Found) -> bool:
    return inst.array.dtype.is_pred and found["p"].shape == inst.shape


SELECTS = (
    *(
        Rule(name, P("select", (_chosen(*directions), x, y)), build, root(is_integer_or_pred))
        for name, directions, build in (
            ("select-equal", ("EQ",), answer("y")),
            ("select-not-equal", ("NE",), answer("x")),
            ("select-as-maximum", ("GT", "GE"), apply("maximum", "x", "y")),
            ("select-as-minimum", ("LT", "LE"), apply("minimum", "x", "y")),
        )
    ),
    Rule(
        "select-self-or",
        P("select", (P(bind="p"), P(bind="p"), x)),
        apply("or", "p", "x"),
        _is_pred_select,
    ),
    Rule(
        "select-self-and",
        P("select", (P(bind="p"), x, P(bind="p"))),
        apply("and", "p", "x"),
        _is_pred_select,
    ),
)
