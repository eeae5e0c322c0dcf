"""Elementwise operators, with broadcasting and type promotion."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

from hloc.dtypes import F32, PRED, DType
from hloc.ir.instruction import Instruction
from hloc.stablehlo.chlo import expanded
from hloc.torch.graph import OPERATORS, Lowering, implements
from hloc.torch.tensors import dtype_of, torch_dtype

_UNARY = {
    "abs": "abs", "acos": "acos", "acosh": "acosh", "asin": "asin", "asinh": "asinh",
    "atanh": "atanh", "ceil": "ceil", "cos": "cosine", "cosh": "cosh", "erf": "erf",
    "exp": "exponential", "expm1": "exponential-minus-one", "floor": "floor", "log": "log",
    "log1p": "log-plus-one", "neg": "negate", "round": "round-nearest-even", "rsqrt": "rsqrt",
    "sigmoid": "logistic", "sin": "sine", "sinh": "sinh", "sqrt": "sqrt", "tan": "tan",
    "tanh": "tanh", "sign": "sign", "bitwise_not": "not", "real": "real", "imag": "imag",
}  # fmt: skip
_BINARY = {
    "mul": "multiply", "maximum": "maximum", "minimum": "minimum", "atan2": "atan2",
    "bitwise_and": "and", "bitwise_or": "or", "bitwise_xor": "xor",
}  # fmt: skip
_COMPARISONS = {"eq": "EQ", "ne": "NE", "lt": "LT", "le": "LE", "gt": "GT", "ge": "GE"}
_LOGICAL = {"logical_and": "and", "logical_or": "or", "logical_xor": "xor"}
_CHLO = {"erfc": "erfc", "erfinv": "erf_inv", "lgamma": "lgamma", "digamma": "digamma"}


def promoted(x: Any, y: Any) -> DType:
    """Return the type in which PyTorch compares two values; numbers do not widen tensors."""
    import torch

    def meta(value: Any) -> Any:
        if not isinstance(value, Instruction):
            return value
        return torch.empty(value.array.dims and (1,), dtype=torch_dtype(value.array.dtype))

    return dtype_of(torch.result_type(meta(x), meta(y)))


def _register() -> None:
    for name, opcode in _UNARY.items():
        OPERATORS[f"aten.{name}.default"] = partial(_unary, opcode)
    for name, opcode in _BINARY.items():
        for overload in ("Tensor", "Scalar", "default"):
            OPERATORS[f"aten.{name}.{overload}"] = partial(_binary, opcode)
    for name, direction in _COMPARISONS.items():
        for overload in ("Tensor", "Scalar"):
            OPERATORS[f"aten.{name}.{overload}"] = partial(_comparison, direction)
    for name, opcode in _LOGICAL.items():
        OPERATORS[f"aten.{name}.default"] = partial(_logical, opcode)
    for name, function in _CHLO.items():
        OPERATORS[f"aten.{name}.default"] = partial(_chlo, function)


def _unary(opcode: str, g: Lowering, x: Instruction) -> Instruction:
    keeps = opcode in ("real", "imag", "abs") and x.array.dtype.is_complex
    return g.unary(opcode, x if keeps else g.cast(x, g.dtype))


def _binary(opcode: str, g: Lowering, x: Any, y: Any) -> Instruction:
    return g.binary("and" if opcode == "multiply" and g.dtype is PRED else opcode, x, y)


def _comparison(direction: str, g: Lowering, x: Any, y: Any) -> Instruction:
    kind = promoted(x, y)
    left, right = (g.operand(v, kind, g.dims) for v in (x, y))
    return g.build.compare(left, right, direction)


def _logical(opcode: str, g: Lowering, x: Instruction, y: Instruction) -> Instruction:
    return g.binary(opcode, x, y, PRED)


def _chlo(name: str, g: Lowering, x: Instruction) -> Instruction:
    def add(opcode: str, shape: Any, operands: Any = (), **values: Any) -> Instruction:
        return g.build.instruction(opcode, operands, shape=shape, **values)

    found = expanded(name, add, (g.cast(x, g.dtype),))
    assert found is not None
    return found


_register()


# ---------------------------------------------------------------- arithmetic


implements("add.Tensor", "add.Scalar")(
    lambda g, x, y, alpha=1: g.binary("or" if g.dtype is PRED else "add", x, _scaled(g, y, alpha))
)
implements("sub.Tensor", "sub.Scalar")(
    lambda g, x, y, alpha=1: g.binary("subtract", x, _scaled(g, y, alpha))
)
implements("rsub.Scalar", "rsub.Tensor")(
    lambda g, x, y, alpha=1: g.binary("subtract", y, _scaled(g, x, alpha))
)


def _scaled(g: Lowering, x: Any, alpha: Any) -> Any:
    if alpha == 1:
        return x
    return x * alpha if not isinstance(x, Instruction) else g.binary("multiply", x, alpha)


@implements("div.Tensor", "div.Scalar", "div.Tensor_mode", "div.Scalar_mode")
def _divide(g: Lowering, x: Any, y: Any, rounding_mode: str | None = None) -> Instruction:
    if rounding_mode == "floor" and g.dtype.is_integer:
        quotient, rest = g.binary("divide", x, y), g.binary("remainder", x, y)
        divisor = g.operand(y, g.dtype, g.dims)
        zero = g.splat(0, g.dtype, g.dims)
        uneven = g.build.compare(rest, zero, "NE")
        signs = g.build.instruction(
            "xor", (g.build.compare(rest, zero, "LT"), g.build.compare(divisor, zero, "LT"))
        )
        step = g.cast(g.build.instruction("and", (uneven, signs)), g.dtype)
        return g.build.subtract(quotient, step)
    quotient = g.binary("divide", x, y)
    if rounding_mode is None or g.dtype.is_integer:
        return quotient
    return g.unary("floor", quotient) if rounding_mode == "floor" else truncated(g, quotient)


def truncated(g: Lowering, x: Instruction) -> Instruction:
    """Return `x` rounded toward zero."""
    if x.array.dtype.is_integer:
        return x
    size = g.unary("floor", g.unary("abs", x))
    return g.build.multiply(g.unary("sign", x), size)


implements("trunc.default", "fix.default")(truncated)
implements("fmod.Tensor", "fmod.Scalar")(lambda g, x, y: g.binary("remainder", x, y))


@implements("remainder.Tensor", "remainder.Scalar", "remainder.Scalar_Tensor")
def _remainder(g: Lowering, x: Any, y: Any) -> Instruction:
    """Return the remainder with the sign of the divisor."""
    rest, divisor = g.binary("remainder", x, y), g.operand(y, g.dtype, g.dims)
    zero = g.splat(0, g.dtype, g.dims)
    other = g.build.compare(g.unary("sign", rest), g.unary("sign", divisor), "NE")
    wrong = g.build.instruction("and", (g.build.compare(rest, zero, "NE"), other))
    return g.build.select(wrong, g.build.add(rest, divisor), rest)


@implements("pow.Tensor_Tensor", "pow.Tensor_Scalar", "pow.Scalar")
def _power(g: Lowering, x: Any, y: Any) -> Instruction:
    if y == 2:
        return g.binary("multiply", x, x)
    return g.binary("power", x, y)


implements("reciprocal.default")(lambda g, x: g.binary("divide", 1.0, x))
implements("square.default")(lambda g, x: g.binary("multiply", x, x))


def _log(base: float, g: Lowering, x: Instruction) -> Instruction:
    value = g.unary("log", g.cast(x, g.dtype))
    return g.build.multiply(value, g.splat(1 / math.log(base), g.dtype, g.dims))


implements("log2.default")(partial(_log, 2))
implements("log10.default")(partial(_log, 10))
implements("exp2.default")(
    lambda g, x: g.unary("exponential", g.binary("multiply", x, math.log(2)))
)
implements("atan.default")(lambda g, x: g.binary("atan2", x, 1.0))
implements("logical_not.default")(lambda g, x: g.unary("not", g.cast(x, PRED)))
implements("bitwise_left_shift.Tensor", "__lshift__.Scalar", "bitwise_left_shift.Tensor_Scalar")(
    lambda g, x, y: g.binary("shift-left", x, y)
)


@implements("bitwise_right_shift.Tensor", "__rshift__.Scalar", "bitwise_right_shift.Tensor_Scalar")
def _right_shift(g: Lowering, x: Any, y: Any) -> Instruction:
    signed = not g.dtype.is_unsigned
    return g.binary("shift-right-arithmetic" if signed else "shift-right-logical", x, y)


# ---------------------------------------------------------------- choices


@implements("where.self", "where.ScalarOther", "where.ScalarSelf", "where.Scalar")
def _where(g: Lowering, mask: Instruction, x: Any, y: Any) -> Instruction:
    yes, no = g.operand(x, g.dtype, g.dims), g.operand(y, g.dtype, g.dims)
    return g.build.select(g.operand(mask, PRED, g.dims), yes, no)


implements("masked_fill.Scalar", "masked_fill.Tensor")(
    lambda g, x, mask, value: _where(g, mask, value, x)
)


@implements("clamp.default", "clamp.Tensor")
def _clamp(g: Lowering, x: Instruction, min: Any = None, max: Any = None) -> Instruction:
    found = g.operand(x, g.dtype, g.dims)
    for bound, opcode in ((min, "maximum"), (max, "minimum")):
        if bound is not None:
            found = g.binary(opcode, found, bound)
    return found


implements("clamp_min.default")(lambda g, x, bound: g.binary("maximum", x, bound))
implements("clamp_max.default")(lambda g, x, bound: g.binary("minimum", x, bound))
implements("relu.default")(lambda g, x: g.binary("maximum", x, 0))
implements("hardtanh.default")(lambda g, x, low=-1, high=1: _clamp(g, x, low, high))


@implements("leaky_relu.default")
def _leaky_relu(g: Lowering, x: Instruction, slope: float = 0.01) -> Instruction:
    positive = g.build.compare(x, g.splat(0, g.dtype, g.dims), "GT")
    return g.build.select(positive, x, g.binary("multiply", x, slope))


@implements("elu.default")
def _elu(
    g: Lowering, x: Instruction, alpha: float = 1, scale: float = 1, input_scale: float = 1
) -> Instruction:
    curve = g.unary("exponential-minus-one", g.binary("multiply", x, input_scale))
    positive = g.build.compare(x, g.splat(0, g.dtype, g.dims), "GT")
    return g.build.select(
        positive, g.binary("multiply", x, scale), g.binary("multiply", curve, alpha * scale)
    )


@implements("gelu.default")
def _gelu(g: Lowering, x: Instruction, approximate: str = "none") -> Instruction:
    """Return x times the cumulative normal distribution, or its approximation by tanh."""
    wide = F32 if g.dtype.is_narrow_float else g.dtype
    x = g.cast(x, wide)

    def times(a: Instruction, b: Any) -> Instruction:
        return g.binary("multiply", a, b, wide)

    if approximate == "tanh":
        cube = times(times(x, x), x)
        inner = times(g.build.add(x, times(cube, 0.044715)), math.sqrt(2 / math.pi))
        curve = g.unary("tanh", inner)
    else:
        curve = g.unary("erf", times(x, math.sqrt(0.5)))
    half = times(g.binary("add", curve, 1.0, wide), 0.5)
    return g.cast(times(x, half), g.dtype)


implements("silu.default")(lambda g, x: g.build.multiply(x, g.unary("logistic", x)))
implements("isnan.default")(lambda g, x: g.build.compare(x, x, "NE"))


@implements("isinf.default")
def _is_infinite(g: Lowering, x: Instruction) -> Instruction:
    size = g.unary("abs", x)
    return g.build.compare(size, g.splat(math.inf, x.array.dtype, g.dims), "EQ")


# ---------------------------------------------------------------- types and copies


@implements("_to_copy.default", "to.dtype", "prims.convert_element_type.default")
def _to_copy(g: Lowering, x: Instruction, *_: Any, **_options: Any) -> Instruction:
    """Return `x` in the type of the result; floats are truncated to integers, as in HLO."""
    return g.cast(x, g.dtype)


@implements(
    "clone.default", "alias.default", "detach.default", "lift_fresh_copy.default",
    "contiguous.default", "view_as.default",
)  # fmt: skip
def _same(g: Lowering, x: Instruction, **_options: Any) -> Instruction:
    return x


@implements("_assert_tensor_metadata.default", "_assert_async.msg", "_assert_scalar.default")
def _assertion(_g: Lowering, *_: Any, **_options: Any) -> None:
    """Assertions on shapes and types hold: a program is compiled for fixed ones."""


implements("copy.default")(lambda g, x, y, *_: g.operand(y, g.dtype, g.dims))
