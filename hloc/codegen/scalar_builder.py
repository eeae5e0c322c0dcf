"""`ScalarBuilder` over the LLVM writer: typed instructions on values of HLO element types.

Narrow floats are held as bits, computed in f32 and rounded after every operation
(`narrow_float`). `contract` lets LLVM form fused multiply-adds; no other freedom is taken unless
an emitter sets `float_flags` for a sum whose order does not matter.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from hloc.codegen import narrow_float
from hloc.codegen.llvm_text import FunctionWriter
from hloc.codegen.math import emit_math
from hloc.codegen.target import Target
from hloc.codegen.values import REPRESENTATIONS, Value, is_narrow_float
from hloc.dtypes import F32, F64, PRED, S64, U8, U32, U64, DType, complex_of, component_of

_SIGNED = {"EQ": "eq", "NE": "ne", "LT": "slt", "LE": "sle", "GT": "sgt", "GE": "sge"}
_UNSIGNED = {"EQ": "eq", "NE": "ne", "LT": "ult", "LE": "ule", "GT": "ugt", "GE": "uge"}
_FLOAT = {"EQ": "oeq", "NE": "une", "LT": "olt", "LE": "ole", "GT": "ogt", "GE": "oge"}
_REGISTER = {dtype: r.register for dtype, r in REPRESENTATIONS.items()}
_INTEGER_INTRINSICS = ("smin", "smax", "umin", "umax")


def float_text(dtype: DType, value: float) -> str:
    """Return an f32 or f64 constant in LLVM's spelling; NaN becomes the quiet one."""
    number = float(np.float32(value)) if dtype is F32 else float(value)
    if number != number:
        return "0x7FF8000000000000"
    return "0x" + struct.pack(">d", number).hex().upper()


class LlvmBuilder:
    """Writes instructions to `fn`; see the protocol in `hloc.ir.opcode` for the semantics.

    Attributes:
        float_flags: flags of float additions and multiplications.
        has_fma: fused multiply-add is one instruction on the target.
    """

    def __init__(self, fn: FunctionWriter, target: Target) -> None:
        self.fn = fn
        self.target = target
        self.float_flags = "contract"
        self.has_fma = target.has("fma") or not target.triple.startswith(("x86_64", "i686"))
        self.has_half = target.has("f16c") or target.triple.startswith("aarch64")

    # ---- constants

    def const(self, dtype: DType, value: Any) -> Value:
        """Return a constant: a Python or NumPy number, rounded to `dtype`."""
        if dtype is F32 or dtype is F64:
            return Value(dtype, float_text(dtype, value))
        if dtype.is_pred:
            return Value(dtype, "true" if value else "false")
        if dtype.is_integer:
            return Value(dtype, str(int(value)))
        if dtype.is_complex:
            part = component_of(dtype)
            z = complex(value)
            return Value(dtype, float_text(part, z.real), float_text(part, z.imag))
        number = np.asarray(value, np.float64).astype(dtype.numpy)
        return Value(dtype, str(int.from_bytes(number.tobytes(), "little")))

    def const_element(self, dtype: DType, element: Any) -> Value:
        """Return a constant with exactly the bits of NumPy scalar `element`."""
        if dtype.is_float and element != element:
            bits = int.from_bytes(element.tobytes(), "little")
            if is_narrow_float(dtype):
                return Value(dtype, str(bits))
            return self.bitcast(Value(U32 if dtype is F32 else U64, str(bits)), dtype)
        if dtype.is_complex:
            part = component_of(dtype)
            return self.complex(
                self.const_element(part, element.real), self.const_element(part, element.imag)
            )
        return self.const(dtype, element)

    # ---- floats

    def _float(self, op: str, x: Value, y: Value) -> Value:
        dtype = x.dtype
        if is_narrow_float(dtype):
            return self.convert(self._float(op, self._wide(x), self._wide(y)), dtype)
        text = f"{op} {self.float_flags} {_REGISTER[dtype]} {x.text}, {y.text}"
        return Value(dtype, self.fn.value(text))

    def _wide(self, x: Value) -> Value:
        return self.convert(x, F32) if is_narrow_float(x.dtype) else x

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
        if is_narrow_float(dtype):
            return self.convert(self.fneg(self._wide(x)), dtype)
        return Value(dtype, self.fn.value(f"fneg {_REGISTER[dtype]} {x.text}"))

    # ---- integers

    def _integer(self, op: str, x: Value, y: Value) -> Value:
        text = f"{op} {_REGISTER[x.dtype]} {x.text}, {y.text}"
        return Value(x.dtype, self.fn.value(text))

    def iadd(self, x: Value, y: Value) -> Value:
        return self._integer("add", x, y)

    def isub(self, x: Value, y: Value) -> Value:
        return self._integer("sub", x, y)

    def imul(self, x: Value, y: Value) -> Value:
        return self._integer("mul", x, y)

    def idiv(self, x: Value, y: Value) -> Value:
        return self._integer("sdiv" if x.dtype.is_signed else "udiv", x, y)

    def irem(self, x: Value, y: Value) -> Value:
        return self._integer("srem" if x.dtype.is_signed else "urem", x, y)

    def and_(self, x: Value, y: Value) -> Value:
        return self._integer("and", x, y)

    def or_(self, x: Value, y: Value) -> Value:
        return self._integer("or", x, y)

    def xor(self, x: Value, y: Value) -> Value:
        return self._integer("xor", x, y)

    def shl(self, x: Value, y: Value) -> Value:
        return self._integer("shl", x, y)

    def lshr(self, x: Value, y: Value) -> Value:
        return self._integer("lshr", x, y)

    def ashr(self, x: Value, y: Value) -> Value:
        return self._integer("ashr", x, y)

    # ---- all types

    def compare(self, direction: str, x: Value, y: Value) -> Value:
        dtype = x.dtype
        if dtype.is_complex:
            real = self.compare(direction, self.real(x), self.real(y))
            imag = self.compare(direction, self.imag(x), self.imag(y))
            return self.and_(real, imag) if direction == "EQ" else self.or_(real, imag)
        if dtype.is_float:
            x, y = self._wide(x), self._wide(y)
            op = "fcmp " + _FLOAT[direction]
        else:
            op = "icmp " + (_SIGNED if dtype.is_signed else _UNSIGNED)[direction]
        return Value(PRED, self.fn.value(f"{op} {_REGISTER[x.dtype]} {x.text}, {y.text}"))

    def is_nan(self, x: Value) -> Value:
        """True where a float is NaN."""
        return self.compare("NE", x, x)

    def select(self, pred: Value, on_true: Value, on_false: Value) -> Value:
        dtype = on_true.dtype
        if dtype.is_complex:
            real = self.select(pred, self.real(on_true), self.real(on_false))
            return self.complex(real, self.select(pred, self.imag(on_true), self.imag(on_false)))
        kind = _REGISTER[dtype]
        text = f"select i1 {pred.text}, {kind} {on_true.text}, {kind} {on_false.text}"
        return Value(dtype, self.fn.value(text))

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
            zero = self.const(source, 0)
            if is_narrow_float(source):
                x, zero = self._wide(x), self.const(F32, 0)
            return self.compare("NE", x, zero)
        if dtype.is_float:
            return self._convert_to_float(x, dtype)
        if source.is_float:
            return self._float_to_integer(self._wide(x), dtype)
        return self._resize(x, dtype)

    def _convert_complex(self, x: Value, dtype: DType) -> Value:
        real = self.convert(self.real(x), component_of(dtype))
        if not dtype.is_complex:
            return real
        return self.complex(real, self.convert(self.imag(x), component_of(dtype)))

    def _convert_to_float(self, x: Value, dtype: DType) -> Value:
        source = x.dtype
        if is_narrow_float(dtype):
            if source is F64 or (source.is_integer and source.bits >= 32):
                wide = self.convert(x, F64)
                return narrow_float.encode(self, narrow_float.round_to_odd(self, wide), dtype)
            return narrow_float.encode(self, self.convert(x, F32), dtype)
        if is_narrow_float(source):
            return self.convert(narrow_float.decode(self, x), dtype)
        if source.is_float:
            op = "fpext" if dtype is F64 else "fptrunc"
        else:
            op = "sitofp" if source.is_signed else "uitofp"
        return self._cast(op, x, dtype)

    def _cast(self, op: str, x: Value, dtype: DType) -> Value:
        text = f"{op} {_REGISTER[x.dtype]} {x.text} to {_REGISTER[dtype]}"
        return Value(dtype, self.fn.value(text))

    def _float_to_integer(self, x: Value, dtype: DType) -> Value:
        name = "fptosi" if dtype.is_signed else "fptoui"
        kind, source = _REGISTER[dtype], _REGISTER[x.dtype]
        symbol = f"@llvm.{name}.sat.{kind}.{'f32' if x.dtype is F32 else 'f64'}"
        self.fn.declare(f"declare {kind} {symbol}({source})")
        return Value(dtype, self.fn.value(f"call {kind} {symbol}({source} {x.text})"))

    def _resize(self, x: Value, dtype: DType) -> Value:
        if x.dtype.bits == dtype.bits:
            return Value(dtype, x.text)
        if x.dtype.bits > dtype.bits:
            return self._cast("trunc", x, dtype)
        return self._cast("sext" if x.dtype.is_signed else "zext", x, dtype)

    def bitcast(self, x: Value, dtype: DType) -> Value:
        if x.dtype.is_pred != dtype.is_pred:  # pred is a byte that is 0 or 1
            return (
                self.bitcast(self.convert(x, U8), dtype)
                if x.dtype.is_pred
                else self._byte_to_pred(x)
            )
        if _REGISTER[x.dtype] == _REGISTER[dtype]:
            return Value(dtype, x.text, x.imag)
        return self._cast("bitcast", x, dtype)

    def _byte_to_pred(self, x: Value) -> Value:
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
        dtype = args[0].dtype
        if name == "fma" and not self.has_fma:
            return self.fadd(self.fmul(args[0], args[1]), args[2])
        if is_narrow_float(dtype):
            wide = self.intrinsic(name, *(self._wide(x) for x in args))
            return self.convert(wide, dtype)
        if dtype is F32 or dtype is F64:
            suffix = "f32" if dtype is F32 else "f64"
        else:
            suffix = _REGISTER[dtype]
        kind = _REGISTER[dtype]
        extra = ", i1 false" if name == "ctlz" else ""
        operands = ", ".join(f"{kind} {x.text}" for x in args) + extra
        symbol = f"@llvm.{name}.{suffix}"
        types = ", ".join([kind] * len(args)) + (", i1" if extra else "")
        self.fn.declare(f"declare {kind} {symbol}({types})")
        # A maximum in a reduction may start from any lane, and of zeros take any.
        is_folded = name in ("minimum", "maximum") and "reassoc" in self.float_flags
        flags = "reassoc nsz " if is_folded else ""
        return Value(dtype, self.fn.value(f"call {flags}{kind} {symbol}({operands})"))

    def math(self, name: str, *args: Value) -> Value:
        dtype = args[0].dtype
        if is_narrow_float(dtype):
            return self.convert(self.math(name, *(self._wide(x) for x in args)), dtype)
        return emit_math(self, name, args)

    def libm(self, name: str, *args: Value) -> Value:
        """Call a function of the C library, `exp` for f64 and `expf` for f32."""
        dtype = args[0].dtype
        symbol = f"@{name}" + ("f" if dtype is F32 else "")
        kind = _REGISTER[dtype]
        self.fn.declare(f"declare {kind} {symbol}({', '.join([kind] * len(args))}) memory(none)")
        operands = ", ".join(f"{kind} {x.text}" for x in args)
        return Value(dtype, self.fn.value(f"call {kind} {symbol}({operands})"))

    # ---- memory

    def load(self, pointer: Value, dtype: DType, index: Value | int) -> Value:
        """Return element `index` of the array of `dtype` at `pointer`."""
        if dtype.is_complex:
            part = component_of(dtype)
            real, imag = self._complex_index(index)
            return Value(
                dtype, self.load(pointer, part, real).text, self.load(pointer, part, imag).text
            )
        r = REPRESENTATIONS[dtype]
        at = self.address(pointer, dtype, index)
        loaded = self.fn.value(f"load {r.memory}, ptr {at}, align {r.bytes}")
        if not r.is_part:
            return Value(dtype, loaded)
        if dtype.is_pred:
            return Value(dtype, self.fn.value(f"icmp ne i8 {loaded}, 0"))
        return Value(dtype, self.fn.value(f"trunc {r.memory} {loaded} to {r.register}"))

    def store(self, pointer: Value, index: Value | int, value: Value) -> None:
        """Write `value` to element `index` of the array at `pointer`."""
        dtype = value.dtype
        if dtype.is_complex:
            real, imag = self._complex_index(index)
            self.store(pointer, real, self.real(value))
            self.store(pointer, imag, self.imag(value))
            return
        r = REPRESENTATIONS[dtype]
        text = value.text
        if r.is_part:
            text = self.fn.value(f"zext {r.register} {text} to {r.memory}")
        at = self.address(pointer, dtype, index)
        self.fn.line(f"store {r.memory} {text}, ptr {at}, align {r.bytes}")

    def address(self, pointer: Value, dtype: DType, index: Value | int) -> str:
        """Return the address of element `index`; the element lies inside the array."""
        if index == 0:
            return pointer.text
        at = index if isinstance(index, int) else index.text
        kind = REPRESENTATIONS[dtype].memory
        if dtype.is_complex:
            kind = f"[2 x {kind}]"
        return self.fn.value(f"getelementptr inbounds {kind}, ptr {pointer.text}, i64 {at}")

    def _complex_index(self, index: Value | int) -> tuple[Value | int, Value | int]:
        if isinstance(index, int):
            return 2 * index, 2 * index + 1
        real = self.fn.value(f"shl nsw i64 {index.text}, 1")
        return Value(S64, real), Value(S64, self.fn.value(f"or disjoint i64 {real}, 1"))

    def allocate(self, dtype: DType, count: int = 1) -> Value:
        """Return a pointer to uninitialised stack memory for `count` elements."""
        r = REPRESENTATIONS[dtype]
        return pointer_value(self.fn.allocate(r.memory, count * (2 if dtype.is_complex else 1)))

    def offset_pointer(self, pointer: Value, bytes_: int) -> Value:
        """Return `pointer` moved by a constant number of bytes."""
        if not bytes_:
            return pointer
        return pointer_value(
            self.fn.value(f"getelementptr inbounds i8, ptr {pointer.text}, i64 {bytes_}")
        )


def pointer_value(name: str) -> Value:
    """Return a pointer as a value (its dtype says nothing about what it points to)."""
    return Value(U8, name)
