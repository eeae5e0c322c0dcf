"""Cases of elementwise opcodes: every element type that the row allows, all special values."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import hloc.ops  # noqa: F401  fills the table
from fuzz.agreement import largest_angle
from fuzz.draft import ARRAY_TYPES, FLOATS, INTEGERS, Draft
from hloc.dtypes import DTYPES, F32, F64, PRED, DType
from hloc.errors import HloError
from hloc.ir.opcode import ShapeRequest, opcode_row
from hloc.ops import OPCODES
from hloc.shapes import ArrayShape

FUNCTIONS = frozenset(
    """
    acos acosh asin asinh atan2 atanh cbrt cosh cosine erf exponential exponential-minus-one log
    log-plus-one logistic power rsqrt sine sinh sqrt tan tanh
    """.split()  # noqa: SIM905
)
"""Opcodes whose floats are right within some ulp; all others are exact on real types."""

INEXACT_COMPLEX = frozenset(["abs", "divide", "multiply", "sign"])
"""Opcodes that are exact but for complex types, where results are rounded more than once."""

RESTRICTED = {
    # Sums of squares that cancel, or of products that overflow, depend on fused steps.
    "atan2": ("moderate_array", "moderate_array"),
    "multiply": ("half_range_array", "half_range_array"),
    "power": ("any_array", "moderate_array"),
}
"""Complex operands that are not just any."""

DIRECTIONS = ("EQ", "NE", "GE", "GT", "LE", "LT")
INSTANCES = 6


@cache
def allowed_types(name: str) -> tuple[DType, ...]:
    """Return the element types that operands of an elementwise opcode may all have."""
    row = opcode_row(name)
    found = []
    for dtype in ARRAY_TYPES:
        shapes = tuple(ArrayShape(dtype, (2,)) for _ in range(row.arity or 1))
        try:
            result = row.infer(ShapeRequest(shapes, None))
            row.infer(ShapeRequest(shapes, None, (), result))
        except HloError:
            continue
        found.append(dtype)
    return tuple(found)


PLAIN = tuple(
    name
    for name, row in sorted(OPCODES.items())
    if row.elementwise
    and row.attributes is None
    and name not in ("select", "clamp", "convert", "stochastic-convert")
)


def is_inexact(name: str, dtype: DType) -> bool:
    """True if results of `name` on `dtype` are compared by ulps."""
    if dtype.is_complex:
        return name in FUNCTIONS or name in INEXACT_COMPLEX
    return dtype.is_float and name in FUNCTIONS


def plain(name: str) -> Callable[[Draft], str]:
    """Return the drawer of an opcode without attributes whose operands have one type."""

    def draw(d: Draft) -> str:
        types = allowed_types(name)
        kind = d.pick(sorted({(is_inexact(name, dtype), dtype.is_complex) for dtype in types}))
        fitting = [t for t in types if (is_inexact(name, t), t.is_complex) == kind]
        how = "ulps" if is_inexact(name, fitting[0]) else "exact"
        if how == "ulps" and fitting[0].is_complex:
            how = "table" if name == "atan2" else "complex"
        is_power, angle = name == "power" and fitting[0].is_complex, 0.0
        dims = d.dims(limit=200)
        for dtype in d.some_types(fitting, INSTANCES):
            arrays = [d.any_array] * (opcode_row(name).arity or 0)
            if dtype.is_complex and name in RESTRICTED:
                arrays = [getattr(d, array) for array in RESTRICTED[name]]
            d.add(name, [array(dtype, dims) for array in arrays])
            if is_power:
                angle = max(angle, largest_angle(*d.arguments[-2:]))
        return f"power {angle}" if is_power else how

    return draw


def select(d: Draft) -> str:
    dims = d.dims(limit=200)
    for dtype in d.some_types(ARRAY_TYPES, INSTANCES):
        pred = d.any_array(PRED, () if d.flag() else dims)
        d.add("select", [pred, d.any_array(dtype, dims), d.any_array(dtype, dims)])
    return "exact"


def clamp(d: Draft) -> str:
    dims = d.dims(limit=200)
    types = [dtype for dtype in ARRAY_TYPES if not dtype.is_complex and not dtype.is_pred]
    for dtype in d.some_types(types, INSTANCES):
        low, high = (d.any_array(dtype, () if d.flag() else dims) for _ in range(2))
        d.add("clamp", [low, d.any_array(dtype, dims), high])
    return "exact"


def compare(d: Draft) -> str:
    dims = d.dims(limit=200)
    for dtype in d.some_types(ARRAY_TYPES, INSTANCES):
        direction = d.pick(DIRECTIONS[:2] if dtype.is_complex else DIRECTIONS)
        kind = d.pick(("", "TOTALORDER")) if dtype.is_float else ""
        operands = [d.any_array(dtype, dims), d.any_array(dtype, dims)]
        d.add("compare", operands, direction=direction, type=kind)
    return "exact"


def convert(d: Draft) -> str:
    dims = d.dims(limit=200)
    source = d.pick(ARRAY_TYPES)
    x = d.any_array(source, dims)
    for target in d.some_types(ARRAY_TYPES, INSTANCES):
        if target.is_complex or not source.is_complex:
            d.add("convert", [x], shape=ArrayShape(target, dims))
    return d.or_copy(x)


def bitcast_convert(d: Draft) -> str:
    source = d.pick([t for t in ARRAY_TYPES if not t.is_pred])
    same_class = [t for t in ARRAY_TYPES if not t.is_pred and t.is_complex == source.is_complex]
    dims = d.dims(limit=100)
    for target in d.some_types(same_class, INSTANCES):
        big, small = max(source.bits, target.bits), min(source.bits, target.bits)
        if big % small or (big != small and 6 in (big, small)):
            continue
        ratio = big // small
        if ratio == 1:
            operand, result = dims, dims
        elif source.bits > target.bits:
            operand, result = dims, (*dims, ratio)
        else:
            operand, result = (*dims, ratio), dims
        d.add("bitcast-convert", [d.any_array(source, operand)], shape=ArrayShape(target, result))
    return d.or_copy(d.any_array(source, dims))


def reduce_precision(d: Draft) -> str:
    dims = d.dims(limit=200)
    for dtype in d.some_types(FLOATS, INSTANCES):
        x = d.any_array(dtype, dims)
        d.add(
            "reduce-precision",
            [x],
            shape=ArrayShape(dtype, dims),
            exponent_bits=d.integer(2, 12),
            mantissa_bits=d.integer(0, 53),
        )
    return "exact"


def stochastic_convert(d: Draft) -> str:
    dims = d.dims(limit=200)
    for dtype in d.some_types([t for t in FLOATS if t.bits in (16, 32, 64)], INSTANCES):
        operands = [d.any_array(dtype, dims), d.any_array(DTYPES[f"u{dtype.bits}"], dims)]
        d.add("stochastic-convert", operands, shape=ArrayShape(d.pick(INTEGERS), dims))
    return "exact"


def complex_(d: Draft) -> str:
    dims = d.dims(limit=200)
    for dtype in d.some_types((F32, F64), 2):
        d.add("complex", [d.any_array(dtype, dims), d.any_array(dtype, dims)])
    return "exact"


CASES: dict[str, Callable[[Draft], str]] = {
    **{name: plain(name) for name in PLAIN if name != "complex"},
    "bitcast-convert": bitcast_convert,
    "clamp": clamp,
    "compare": compare,
    "complex": complex_,
    "convert": convert,
    "reduce-precision": reduce_precision,
    "select": select,
    "stochastic-convert": stochastic_convert,
}
