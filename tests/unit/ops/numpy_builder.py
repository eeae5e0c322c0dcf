"""A `ScalarBuilder` that computes at once on NumPy arrays, to run elemental emitters without code.

It is strict where the protocol is: operands of one type, amounts below the width, divisors that are
not 0. So an emitter that breaks a condition fails here and not only on some machine.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from hloc.dtypes import F32, PRED, DType, complex_of, component_of
from hloc.ops.rows.convert import converted

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class NumpyValue:
    """One value per element of an array, all of one type."""

    dtype: DType
    value: Array


def _wide(x: NumpyValue) -> Array:
    if x.dtype.is_float and x.dtype.bits < 32:
        return x.value.astype(np.float32)
    if x.dtype.is_integer and x.dtype.bits < 8:
        return x.value.astype(np.int8 if x.dtype.is_signed else np.uint8)
    return np.asarray(x.value)


def _wrap(dtype: DType, value: Any) -> NumpyValue:
    """Return integers (of any width) as `dtype`, in two's complement."""
    source = np.asarray(value)
    if dtype.bits < 8:
        low = source.astype(np.int64) & ((1 << dtype.bits) - 1)
        if dtype.is_signed:
            low = np.where(low >= 1 << (dtype.bits - 1), low - (1 << dtype.bits), low)
        source = low
    return NumpyValue(dtype, source.astype(dtype.numpy))


def _float(dtype: DType, value: Any) -> NumpyValue:
    return NumpyValue(dtype, np.asarray(value).astype(dtype.numpy))


class NumpyBuilder:
    """Every method checks what the protocol promises and computes."""

    def const(self, dtype: DType, value: float | int | bool | complex) -> NumpyValue:
        if dtype.is_integer:
            low = -(1 << (dtype.bits - 1)) if dtype.is_signed else 0
            assert isinstance(value, int)
            assert low <= value < low + (1 << dtype.bits), f"{value} is no {dtype}"
        return NumpyValue(dtype, np.asarray(value, dtype=dtype.numpy))

    def _floats(self, *values: NumpyValue) -> tuple[DType, list[Array]]:
        dtype = values[0].dtype
        assert dtype.is_float, dtype
        assert all(v.dtype is dtype for v in values), [v.dtype for v in values]
        return dtype, [_wide(v) for v in values]

    def _integers(self, *values: NumpyValue, pred: bool = False) -> tuple[DType, list[Array]]:
        dtype = values[0].dtype
        assert dtype.is_integer or (pred and dtype.is_pred), dtype
        assert all(v.dtype is dtype for v in values), [v.dtype for v in values]
        return dtype, [_wide(v) for v in values]

    def fadd(self, x: NumpyValue, y: NumpyValue) -> NumpyValue:
        dtype, (a, c) = self._floats(x, y)
        return _float(dtype, a + c)

    def fsub(self, x: NumpyValue, y: NumpyValue) -> NumpyValue:
        dtype, (a, c) = self._floats(x, y)
        return _float(dtype, a - c)

    def fmul(self, x: NumpyValue, y: NumpyValue) -> NumpyValue:
        dtype, (a, c) = self._floats(x, y)
        return _float(dtype, a * c)

    def fdiv(self, x: NumpyValue, y: NumpyValue) -> NumpyValue:
        dtype, (a, c) = self._floats(x, y)
        return _float(dtype, a / c)

    def fneg(self, x: NumpyValue) -> NumpyValue:
        dtype, (a,) = self._floats(x)
        return _float(dtype, -a)

    def iadd(self, x: NumpyValue, y: NumpyValue) -> NumpyValue:
        dtype, (a, c) = self._integers(x, y)
        return _wrap(dtype, a + c)

    def isub(self, x: NumpyValue, y: NumpyValue) -> NumpyValue:
        dtype, (a, c) = self._integers(x, y)
        return _wrap(dtype, a - c)

    def imul(self, x: NumpyValue, y: NumpyValue) -> NumpyValue:
        dtype, (a, c) = self._integers(x, y)
        return _wrap(dtype, a * c)

    def _check_quotient(self, dtype: DType, a: Array, c: Array) -> None:
        assert (c != 0).all(), "division by zero"
        if dtype.is_signed:
            lowest = -(1 << (dtype.bits - 1))
            assert not ((a == lowest) & (c == -1)).any(), "the quotient overflows"

    def idiv(self, x: NumpyValue, y: NumpyValue) -> NumpyValue:
        dtype, (a, c) = self._integers(x, y)
        self._check_quotient(dtype, a, c)
        exact = np.frompyfunc(
            lambda p, q: abs(p) // abs(q) * (-1 if (p < 0) != (q < 0) else 1), 2, 1
        )
        return _wrap(dtype, np.asarray(exact(a.astype(object), c.astype(object))))

    def irem(self, x: NumpyValue, y: NumpyValue) -> NumpyValue:
        dtype, (a, c) = self._integers(x, y)
        self._check_quotient(dtype, a, c)
        exact = np.frompyfunc(lambda p, q: abs(p) % abs(q) * (-1 if p < 0 else 1), 2, 1)
        return _wrap(dtype, np.asarray(exact(a.astype(object), c.astype(object))))

    def integer_constant(self, x: NumpyValue) -> int | None:
        return None  # arrays stand for numbers that only the run knows

    def and_(self, x: NumpyValue, y: NumpyValue) -> NumpyValue:
        dtype, (a, c) = self._integers(x, y, pred=True)
        return NumpyValue(dtype, (a & c).astype(dtype.numpy))

    def or_(self, x: NumpyValue, y: NumpyValue) -> NumpyValue:
        dtype, (a, c) = self._integers(x, y, pred=True)
        return NumpyValue(dtype, (a | c).astype(dtype.numpy))

    def xor(self, x: NumpyValue, y: NumpyValue) -> NumpyValue:
        dtype, (a, c) = self._integers(x, y, pred=True)
        return NumpyValue(dtype, (a ^ c).astype(dtype.numpy))

    def _shift(self, x: NumpyValue, y: NumpyValue) -> tuple[DType, Array, Array]:
        dtype, (a, c) = self._integers(x, y)
        assert ((c >= 0) & (c < dtype.bits)).all(), "the amount is not below the width"
        return dtype, a.astype(object), c.astype(object)

    def shl(self, x: NumpyValue, y: NumpyValue) -> NumpyValue:
        dtype, a, c = self._shift(x, y)
        return self._low_bits(dtype, np.left_shift(a, c))

    def lshr(self, x: NumpyValue, y: NumpyValue) -> NumpyValue:
        dtype, a, c = self._shift(x, y)
        return self._low_bits(dtype, np.right_shift(a & ((1 << dtype.bits) - 1), c))

    def ashr(self, x: NumpyValue, y: NumpyValue) -> NumpyValue:
        dtype, a, c = self._shift(x, y)
        assert dtype.is_signed, "an arithmetic shift of an unsigned value"
        return self._low_bits(dtype, np.right_shift(a, c))

    def _low_bits(self, dtype: DType, value: Any) -> NumpyValue:
        def wrapped(exact: int) -> int:
            low = int(exact) & ((1 << dtype.bits) - 1)
            return low - (1 << dtype.bits) if dtype.is_signed and low >> (dtype.bits - 1) else low

        low = np.asarray(np.frompyfunc(wrapped, 1, 1)(value), dtype=object)
        wide = low.astype(np.int64 if dtype.is_signed else np.uint64)
        if dtype.bits < 8:
            wide = wide.astype(np.int8)
        return NumpyValue(dtype, wide.astype(dtype.numpy))

    def compare(self, direction: str, x: NumpyValue, y: NumpyValue) -> NumpyValue:
        assert x.dtype is y.dtype, (x.dtype, y.dtype)
        assert not x.dtype.is_complex
        function = {
            "EQ": np.equal,
            "NE": np.not_equal,
            "LT": np.less,
            "LE": np.less_equal,
            "GT": np.greater,
            "GE": np.greater_equal,
        }[direction]
        return NumpyValue(PRED, np.asarray(function(_wide(x), _wide(y))))

    def select(self, pred: NumpyValue, on_true: NumpyValue, on_false: NumpyValue) -> NumpyValue:
        assert pred.dtype.is_pred
        assert on_true.dtype is on_false.dtype
        assert not on_true.dtype.is_complex
        return NumpyValue(on_true.dtype, np.where(pred.value, on_true.value, on_false.value))

    def convert(self, x: NumpyValue, dtype: DType) -> NumpyValue:
        return NumpyValue(dtype, converted(np.asarray(x.value), x.dtype, dtype))

    def bitcast(self, x: NumpyValue, dtype: DType) -> NumpyValue:
        assert x.dtype.bits == dtype.bits, (x.dtype, dtype)
        value = np.ascontiguousarray(x.value)
        if dtype.bits < 8:
            bits = value.astype(np.int8) if x.dtype.is_integer else value.view(np.uint8)
            bits = bits.reshape(np.shape(x.value))
            if dtype.is_integer:
                return _wrap(dtype, bits)
            return NumpyValue(dtype, bits.view(dtype.numpy))
        return NumpyValue(dtype, value.view(dtype.numpy).reshape(np.shape(x.value)))

    def complex(self, real: NumpyValue, imag: NumpyValue) -> NumpyValue:
        dtype = complex_of(real.dtype)
        assert dtype is not None
        assert imag.dtype is real.dtype
        a, c = np.broadcast_arrays(real.value, imag.value)
        value = np.empty(a.shape, dtype.numpy)
        value.real, value.imag = a, c
        return NumpyValue(dtype, value)

    def real(self, z: NumpyValue) -> NumpyValue:
        assert z.dtype.is_complex
        return NumpyValue(component_of(z.dtype), np.real(z.value))

    def imag(self, z: NumpyValue) -> NumpyValue:
        assert z.dtype.is_complex
        return NumpyValue(component_of(z.dtype), np.imag(z.value))

    def intrinsic(self, name: str, *args: NumpyValue) -> NumpyValue:
        if name in ("ctpop", "ctlz"):
            dtype, (a,) = self._integers(*args)
            assert dtype.bits >= 8
            bits = a.astype(object) & ((1 << dtype.bits) - 1)
            count = (
                (lambda v: v.bit_count())
                if name == "ctpop"
                else (lambda v: dtype.bits - v.bit_length())
            )
            return _wrap(dtype, np.asarray(np.frompyfunc(count, 1, 1)(bits)).astype(np.int64))
        dtype, values = self._floats(*args)
        assert dtype.bits >= 32, "narrow floats are computed in f32"
        if name in ("minimum", "maximum"):
            return _float(dtype, self._extremum(name, *values))
        function: Any = {"fabs": np.fabs, "copysign": np.copysign, "sqrt": np.sqrt}.get(
            name
        ) or getattr(np, name)
        return _float(dtype, function(*values))

    def _extremum(self, name: str, a: Array, c: Array) -> Array:
        # -0 is below +0: compare by the sign bit where both are zero.
        first_less = (a < c) | ((a == c) & np.signbit(a))
        smaller = np.where(first_less, a, c)
        larger = np.where(first_less, c, a)
        chosen = smaller if name == "minimum" else larger
        return np.where(np.isnan(a), a, np.where(np.isnan(c), c, chosen))

    def math(self, name: str, *args: NumpyValue) -> NumpyValue:
        dtype, values = self._floats(*args)
        if dtype.bits < F32.bits:
            return self.convert(self.math(name, *(self.convert(x, F32) for x in args)), dtype)
        named: dict[str, Any] = {
            "erf": lambda x: np.vectorize(math.erf, otypes=[np.float64])(x),
            "logistic": lambda x: 1 / (1 + np.exp(-x)),
            "pow": np.power,
            "atan2": np.arctan2,
            "asin": np.arcsin,
            "acos": np.arccos,
            "atan": np.arctan,
            "asinh": np.arcsinh,
            "acosh": np.arccosh,
            "atanh": np.arctanh,
        }
        function = named.get(name) or getattr(np, name)
        return _float(dtype, function(*(v.astype(np.float64) for v in values)))
