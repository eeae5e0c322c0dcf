"""Operations on HLO's element types in terms of machine types; independent of any language.

A complex number is a pair. Narrow floats are held as bits, computed in f32 and rounded after every
operation (`narrow_float`). The remaining types are native; a subclass emits their operations, as
LLVM IR (`scalar_builder`) or in another language.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

from hloc.codegen.builder import narrow_float
from hloc.codegen.builder.values import Value
from hloc.dtypes import F32, F64, PRED, U8, U32, U64, DType, complex_of, component_of

_EXACT = ("minimum", "maximum", "fabs", "copysign", "floor", "ceil", "trunc", "roundeven", "round")
"""Intrinsics whose exact result is representable in the operands' type, however narrow."""


class ElementBuilder(ABC):
    """Writes operations on elements; the protocol in `hloc.ir.opcode` has the semantics.

    Abstract methods get values of f32, f64, integers and `pred` only.

    Attributes:
        float_flags: LLVM's fast-math flags of float additions and multiplications; other languages
            may ignore them.
        has_fma: fused multiply-add is one instruction on the target.
        has_half: conversions of f16 are one instruction on the target.
        keeps_nan: NaNs that arithmetic produces, or propagates from operands whose low bits are
            zero, have low bits that are zero.
        has_scaling: multiplying by a power of two with any exponent is one instruction.
        has_single_values: no array that the code computes has more than one element, so that
            nothing can be vectorised.
        has_masks: arithmetic on some lanes of a vector is one instruction.
    """

    float_flags = "contract"
    has_fma = False
    has_half = False
    keeps_nan = False
    has_scaling = False
    has_single_values = False
    has_masks = False

    # ---- to be implemented by subclasses

    @abstractmethod
    def number(self, dtype: DType, value: Any) -> Value:
        """Return a constant; narrow floats are given as their bits."""

    @abstractmethod
    def float_operation(self, op: str, x: Value, y: Value) -> Value:
        """Write `fadd`, `fsub`, `fmul` or `fdiv`."""

    @abstractmethod
    def negated(self, x: Value) -> Value:
        """Write the negation of a float."""

    @abstractmethod
    def integer_operation(self, op: str, x: Value, y: Value) -> Value:
        """Write `add sub mul sdiv udiv srem urem and or xor shl lshr ashr`."""

    @abstractmethod
    def comparison(self, direction: str, x: Value, y: Value) -> Value:
        """Write `EQ NE LT LE GT GE`; of comparisons with NaN only `NE` holds."""

    @abstractmethod
    def choice(self, pred: Value, on_true: Value, on_false: Value) -> Value: ...

    @abstractmethod
    def cast(self, x: Value, dtype: DType) -> Value:
        """Write a conversion of numbers: integers wrap, floats round to nearest even."""

    @abstractmethod
    def truncation(self, x: Value, dtype: DType) -> Value:
        """Write a conversion of a float to an integer: truncated, saturated, 0 for NaN."""

    @abstractmethod
    def reinterpretation(self, x: Value, dtype: DType) -> Value:
        """Write a bitcast of `x` to a type of the same width."""

    @abstractmethod
    def narrow_bits(self, x: Value) -> Value:
        """Return the bits of a float below f32 as u32."""

    @abstractmethod
    def from_narrow_bits(self, bits: Value, dtype: DType) -> Value:
        """Return the float below f32 whose bits are the low ones of a u32."""

    @abstractmethod
    def instruction(self, name: str, *args: Value) -> Value:
        """Write an `intrinsic`."""

    @abstractmethod
    def function(self, name: str, *args: Value) -> Value:
        """Write a function of `math` on f32 or f64."""

    def narrow_function(self, name: str, *args: Value) -> Value:
        """Write a function of `math` on f32 whose result is rounded to f16 or narrower."""
        return self.function(name, *args)

    @abstractmethod
    def load_number(self, pointer: Value, dtype: DType, index: Value | int) -> Value:
        """Write the load of element `index`; narrow floats are loaded as their bits."""

    @abstractmethod
    def store_number(self, pointer: Value, index: Value | int, value: Value) -> None: ...

    @abstractmethod
    def complex_index(self, index: Value | int) -> tuple[Value | int, Value | int]:
        """Return the indices of the two parts of complex number `index`, counted in parts."""

    @abstractmethod
    def address(self, pointer: Value, dtype: DType, index: Value | int) -> str:
        """Return the text of the address of element `index`, which lies inside the array."""

    @abstractmethod
    def allocate(self, dtype: DType, count: int = 1) -> Value:
        """Return a pointer to uninitialised stack memory for `count` elements."""

    @abstractmethod
    def offset_pointer(self, pointer: Value, bytes_: int) -> Value:
        """Return `pointer` moved by a constant number of bytes."""

    def prefetch(self, pointer: Value, dtype: DType, index: Value) -> None:
        """Prefetch the cache line of element `index`, which may lie outside the array.

        A hint: languages without a prefetch write nothing.
        """
        return

    def half_to_float(self, x: Value) -> Value:
        """Write the conversion of f16 to f32; called only with `has_half`."""
        raise NotImplementedError

    def float_to_half(self, x: Value) -> Value:
        """Write the conversion of f32 to f16; called only with `has_half`."""
        raise NotImplementedError

    def scaled(self, x: Value, exponent: Value, n: Value, is_zero: Value | None = None) -> Value:
        """Write x * 2**exponent, rounded once; only with `has_scaling`.

        Args:
            x: f32 or f64.
            exponent: s32, or s64 for f64.
            n: the exponent as a float like x.
            is_zero: where it holds, the result is 0 and x is not scaled.
        """
        raise NotImplementedError

    # ---- constants

    def const(self, dtype: DType, value: Any) -> Value:
        """Return a constant: a Python or NumPy number, rounded to `dtype`."""
        if dtype.is_complex:
            part, z = component_of(dtype), complex(value)
            return self.complex(self.number(part, z.real), self.number(part, z.imag))
        if dtype.is_narrow_float:
            number = np.asarray(value, np.float64).astype(dtype.numpy)
            return self.number(dtype, int.from_bytes(number.tobytes(), "little"))
        return self.number(dtype, value)

    def const_element(self, dtype: DType, element: Any) -> Value:
        """Return a constant with exactly the bits of NumPy scalar `element`."""
        if dtype.is_float and element != element:
            bits = int.from_bytes(element.tobytes(), "little")
            if dtype.is_narrow_float:
                return self.number(dtype, bits)
            return self.bitcast(self.number(U32 if dtype is F32 else U64, bits), dtype)
        if dtype.is_complex:
            part = component_of(dtype)
            return self.complex(
                self.const_element(part, element.real), self.const_element(part, element.imag)
            )
        return self.const(dtype, element)

    # ---- floats

    def _float(self, op: str, x: Value, y: Value) -> Value:
        if x.dtype.is_narrow_float:
            return self.narrow_operation(op, x, y)
        return self.float_operation(op, x, y)

    def narrow_operation(self, op: str, x: Value, y: Value) -> Value:
        """Return `op` of two floats below f32, computed in f32 and rounded."""
        value = self.float_operation(op, self._wide(x), self._wide(y))
        return narrow_float.encode(self, value, x.dtype, plain_nan=self.keeps_nan)

    def _wide(self, x: Value) -> Value:
        return self.convert(x, F32) if x.dtype.is_narrow_float else x

    def _parts(self, op: Callable[..., Any], x: Value, y: Value) -> Value:
        real = op(self.real(x), self.real(y))
        return self.complex(real, op(self.imag(x), self.imag(y)))

    def fadd(self, x: Value, y: Value) -> Value:
        if x.dtype.is_complex:
            return self._parts(self.fadd, x, y)
        return self._float("fadd", x, y)

    def fsub(self, x: Value, y: Value) -> Value:
        if x.dtype.is_complex:
            return self._parts(self.fsub, x, y)
        return self._float("fsub", x, y)

    def fmul(self, x: Value, y: Value) -> Value:
        if not x.dtype.is_complex:
            return self._float("fmul", x, y)
        a, b, c, d = self.real(x), self.imag(x), self.real(y), self.imag(y)
        real = self.fsub(self.fmul(a, c), self.fmul(b, d))
        return self.complex(real, self.fadd(self.fmul(a, d), self.fmul(b, c)))

    def fdiv(self, x: Value, y: Value) -> Value:
        if not x.dtype.is_complex:
            return self._float("fdiv", x, y)
        a, b, c, d = self.real(x), self.imag(x), self.real(y), self.imag(y)
        below = self.fadd(self.fmul(c, c), self.fmul(d, d))
        real = self.fadd(self.fmul(a, c), self.fmul(b, d))
        imag = self.fsub(self.fmul(b, c), self.fmul(a, d))
        return self.complex(self.fdiv(real, below), self.fdiv(imag, below))

    def fneg(self, x: Value) -> Value:
        dtype = x.dtype
        if dtype.is_complex:
            return self.complex(self.fneg(self.real(x)), self.fneg(self.imag(x)))
        return self.narrow_negation(x) if dtype.is_narrow_float else self.negated(x)

    def narrow_negation(self, x: Value) -> Value:
        """Return the negation of a float below f32."""
        return narrow_float.encode_exact(self, self.negated(self._wide(x)), x.dtype)

    def multiply_add(self, x: Value, y: Value, total: Value) -> Value:
        """Return total + x * y in the arithmetic of the type; for pred, total | (x & y)."""
        dtype = total.dtype
        if dtype.is_float or dtype.is_complex:
            return self.fadd(total, self.fmul(x, y))
        if dtype.is_pred:
            return self.or_(total, self.and_(x, y))
        return self.iadd(total, self.imul(x, y))

    # ---- integers

    def iadd(self, x: Value, y: Value) -> Value:
        return self.integer_operation("add", x, y)

    def isub(self, x: Value, y: Value) -> Value:
        return self.integer_operation("sub", x, y)

    def imul(self, x: Value, y: Value) -> Value:
        return self.integer_operation("mul", x, y)

    def idiv(self, x: Value, y: Value) -> Value:
        return self.integer_operation("sdiv" if x.dtype.is_signed else "udiv", x, y)

    def irem(self, x: Value, y: Value) -> Value:
        return self.integer_operation("srem" if x.dtype.is_signed else "urem", x, y)

    def integer_constant(self, x: Value) -> int | None:
        return None

    def and_(self, x: Value, y: Value) -> Value:
        return self.integer_operation("and", x, y)

    def or_(self, x: Value, y: Value) -> Value:
        return self.integer_operation("or", x, y)

    def xor(self, x: Value, y: Value) -> Value:
        return self.integer_operation("xor", x, y)

    def not_(self, x: Value) -> Value:
        """Return the negation of a `pred`."""
        return self.xor(x, self.const(PRED, True))

    def shl(self, x: Value, y: Value) -> Value:
        return self.integer_operation("shl", x, y)

    def lshr(self, x: Value, y: Value) -> Value:
        return self.integer_operation("lshr", x, y)

    def ashr(self, x: Value, y: Value) -> Value:
        return self.integer_operation("ashr", x, y)

    # ---- all types

    def compare(self, direction: str, x: Value, y: Value) -> Value:
        if x.dtype.is_complex:
            real = self.compare(direction, self.real(x), self.real(y))
            imag = self.compare(direction, self.imag(x), self.imag(y))
            return self.and_(real, imag) if direction == "EQ" else self.or_(real, imag)
        if x.dtype.is_narrow_float:
            return self.narrow_comparison(direction, x, y)
        return self.comparison(direction, x, y)

    def narrow_comparison(self, direction: str, x: Value, y: Value) -> Value:
        """Return a comparison of two floats below f32."""
        return self.comparison(direction, self._wide(x), self._wide(y))

    def is_nan(self, x: Value) -> Value:
        """True where a float is NaN."""
        return self.compare("NE", x, x)

    def select(self, pred: Value, on_true: Value, on_false: Value) -> Value:
        if on_true.dtype.is_complex:
            real = self.select(pred, self.real(on_true), self.real(on_false))
            return self.complex(real, self.select(pred, self.imag(on_true), self.imag(on_false)))
        return self.choice(pred, on_true, on_false)

    def convert(self, x: Value, dtype: DType) -> Value:
        source = x.dtype
        if source is dtype:
            return x
        if source.is_complex:
            return self._convert_complex(x, dtype)
        if dtype.is_complex:
            part = component_of(dtype)
            return self.complex(self.convert(x, part), self.const(part, 0))
        if dtype.is_pred:
            x = self._wide(x)
            return self.compare("NE", x, self.const(x.dtype, 0))
        if dtype.is_float:
            return self._convert_to_float(x, dtype)
        if source.is_float:
            return self.truncation(self._wide(x), dtype)
        return self.cast(x, dtype)

    def _convert_complex(self, x: Value, dtype: DType) -> Value:
        real = self.convert(self.real(x), component_of(dtype))
        if not dtype.is_complex:
            return real
        return self.complex(real, self.convert(self.imag(x), component_of(dtype)))

    def _convert_to_float(self, x: Value, dtype: DType) -> Value:
        source = x.dtype
        if source.is_pred:
            return self.select(x, self.const(dtype, 1), self.const(dtype, 0))
        if dtype.is_narrow_float:
            if source is F64 or (source.is_integer and source.bits >= 32):
                wide = self.convert(x, F64)
                return narrow_float.encode(self, narrow_float.round_to_odd(self, wide), dtype)
            return narrow_float.encode(self, self.convert(x, F32), dtype)
        if source.is_narrow_float:
            return self.convert(narrow_float.decode(self, x), dtype)
        return self.cast(x, dtype)

    def bitcast(self, x: Value, dtype: DType) -> Value:
        if x.dtype.is_pred == dtype.is_pred:
            return x if x.dtype is dtype else self.reinterpretation(x, dtype)
        if x.dtype.is_pred:  # a byte that is 0 or 1
            return self.bitcast(self.convert(x, U8), dtype)
        return self.convert(self.bitcast(x, U8), PRED)

    # ---- complex

    def complex(self, real: Value, imag: Value) -> Value:
        dtype = complex_of(real.dtype)
        assert dtype is not None
        return Value(dtype, real.text, imag.text)

    def real(self, z: Value) -> Value:
        return Value(component_of(z.dtype), z.text)

    def imag(self, z: Value) -> Value:
        return Value(component_of(z.dtype), z.imag)

    # ---- calls

    def intrinsic(self, name: str, *args: Value) -> Value:
        if name == "fma" and not self.has_fma:
            return self.fadd(self.fmul(args[0], args[1]), args[2])
        if args[0].dtype.is_narrow_float:
            return self.narrow_intrinsic(name, *args)
        return self.instruction(name, *args)

    def narrow_intrinsic(self, name: str, *args: Value) -> Value:
        """Return an intrinsic of floats below f32, computed in f32 and rounded."""
        value, dtype = self.intrinsic(name, *(self._wide(x) for x in args)), args[0].dtype
        if name in _EXACT:
            return narrow_float.encode_exact(self, value, dtype)
        return self.convert(value, dtype)

    def math(self, name: str, *args: Value) -> Value:
        dtype = args[0].dtype
        if not dtype.is_narrow_float:
            return self.function(name, *args)
        value = self.narrow_function(name, *(self._wide(x) for x in args))
        # A function of one operand passes its NaN on, or makes the one that arithmetic makes.
        plain_nan = self.keeps_nan and len(args) == 1
        return narrow_float.encode(self, value, dtype, plain_nan=plain_nan)

    # ---- memory

    def load(self, pointer: Value, dtype: DType, index: Value | int) -> Value:
        """Return element `index` of the array of `dtype` at `pointer`."""
        if not dtype.is_complex:
            return self.load_number(pointer, dtype, index)
        part = component_of(dtype)
        real, imag = self.complex_index(index)
        return self.complex(self.load(pointer, part, real), self.load(pointer, part, imag))

    def store(self, pointer: Value, index: Value | int, value: Value) -> None:
        """Write `value` to element `index` of the array at `pointer`."""
        if not value.dtype.is_complex:
            self.store_number(pointer, index, value)
            return
        real, imag = self.complex_index(index)
        self.store(pointer, real, self.real(value))
        self.store(pointer, imag, self.imag(value))
