"""A `ScalarBuilder` over the LLVM writer: instructions on f32, f64, integers and `pred`.

`element_builder` composes them. `contract` lets LLVM form fused multiply-adds; no other
reassociation is allowed unless an emitter sets `float_flags` for a sum whose order does not matter.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from hloc.codegen.builder.element_builder import ElementBuilder
from hloc.codegen.builder.math import emit_math, emit_narrow_math
from hloc.codegen.builder.reciprocal import reciprocal_parts
from hloc.codegen.builder.values import REPRESENTATIONS, Lanes, Value, suffix_of, vector_of
from hloc.codegen.llvm.target import Target
from hloc.codegen.llvm.writer import FunctionWriter
from hloc.dtypes import F16, F32, F64, PRED, S32, S64, U8, U32, DType

_DIRECTIONS = ("EQ", "NE", "LT", "LE", "GT", "GE")
_FLOAT = ("fcmp oeq", "fcmp une", "fcmp olt", "fcmp ole", "fcmp ogt", "fcmp oge")
_SIGNED = ("icmp eq", "icmp ne", "icmp slt", "icmp sle", "icmp sgt", "icmp sge")
_UNSIGNED = ("icmp eq", "icmp ne", "icmp ult", "icmp ule", "icmp ugt", "icmp uge")
COMPARISONS = {
    d: dict(
        zip(
            _DIRECTIONS,
            _FLOAT if d.is_float else _SIGNED if d.is_signed else _UNSIGNED,
            strict=True,
        )
    )
    for d in REPRESENTATIONS
}
"""LLVM's comparisons of each element type, by the names HLO gives them."""
EXTREMA = ("minimum", "maximum")
_REGISTER = {dtype: r.register for dtype, r in REPRESENTATIONS.items()}
_HALF = (
    "sqrt", "fabs", "copysign", "minimum", "maximum", "floor", "ceil", "trunc", "roundeven"
)  # fmt: skip
"""Intrinsics that machines with f16 arithmetic support on f16."""
_LEAST_DIVISOR = 2.0**-64
_ORDERED_EXTREMA = ("x86_64", "i686")
"""Machines whose minimum and maximum depend on the order of operands."""
_WITHOUT_FMA = ("x86_64", "i686", "wasm32")
"""Machines that have no fused multiply-add without a feature."""
WITHOUT_SATURATION = ("x86_64", "i686")
"""Machines whose conversions to integers do not saturate."""


def register_of(dtype: DType, lanes: int) -> str:
    """Return LLVM's type of a value of `dtype`, or of a vector of `lanes` of them."""
    return vector_of(_REGISTER[dtype], lanes)


def float_text(dtype: DType, value: float) -> str:
    """Return an f32 or f64 constant in LLVM's spelling; NaN becomes the quiet one."""
    number = float(np.float32(value)) if dtype is F32 else float(value)
    if number != number:
        return "0x7FF8000000000000"
    return "0x" + struct.pack(">d", number).hex().upper()


class LlvmBuilder(ElementBuilder):
    """Writes instructions to `fn`; see the protocol in `hloc.ir.opcode` for the semantics.

    Attributes:
        has_half_arithmetic: the target computes with f16.
        is_avx2: it has AVX2, and no AVX-512.
    """

    def __init__(self, fn: FunctionWriter, target: Target) -> None:
        self.fn = fn
        self.target = target
        self.has_fma = target.has("fma") or not target.triple.startswith(_WITHOUT_FMA)
        self.has_half = target.has("f16c") or target.triple.startswith(("aarch64", "nvptx"))
        self.keeps_nan = target.triple.startswith(("x86_64", "i686", "aarch64"))
        self.has_scaling = self.has_masks = target.has("avx512f")
        self.has_half_arithmetic = target.has("avx512fp16")
        self.is_avx2 = target.has("avx2") and not target.has("avx512vl")
        self._chosen: set[str] = set()

    def number(self, dtype: DType, value: Any) -> Value:
        if dtype is F32 or dtype is F64:
            return Value(dtype, float_text(dtype, value))
        if dtype.is_pred:
            return Value(dtype, "true" if value else "false")
        return Value(dtype, str(int(value)))

    # ---- one instruction, on values or on lanes

    def lanes_of(self, *args: Value) -> int:
        """Return how many lanes an instruction on `args` has, 0 if it takes single values."""
        return 0

    def operand(self, x: Value, lanes: int) -> str:
        """Return the text of `x` as an operand of an instruction on `lanes`."""
        return x.text

    def _assigned(self, dtype: DType, text: str, lanes: int) -> Value:
        name = self.fn.value(text)
        return Lanes(dtype, name) if lanes else Value(dtype, name)

    def operation(self, dtype: DType, op: str, *args: Value) -> Value:
        """Write `op` on operands of one type, whose result is of type `dtype`."""
        lanes = self.lanes_of(*args)
        operands = ", ".join([self.operand(x, lanes) for x in args])
        return self._assigned(dtype, f"{op} {register_of(args[0].dtype, lanes)} {operands}", lanes)

    def _call(
        self, dtype: DType, name: str, lanes: int, *args: Value, last: str = "", flags: str = ""
    ) -> Value:
        """Write a call of intrinsic `name`; `last` is an operand of type i1."""
        operands = [(register_of(x.dtype, lanes), self.operand(x, lanes)) for x in args]
        if last:
            operands.append(("i1", last))
        kind = register_of(dtype, lanes)
        found = self.fn.call(kind, f"@llvm.{name}", *operands, flags=flags)
        return Lanes(dtype, found) if lanes else Value(dtype, found)

    def float_operation(self, op: str, x: Value, y: Value) -> Value:
        return self.operation(x.dtype, f"{op} {self.float_flags}", x, y)

    def fdiv(self, x: Value, y: Value) -> Value:
        parts = self.reciprocal_of(y)
        if parts is None:
            return super().fdiv(x, y)
        high, low = (self.const(x.dtype, part) for part in parts)
        return self.intrinsic("fma", x, high, self.fmul(x, low))

    def reciprocal_of(self, y: Value) -> tuple[float, float] | None:
        """Return the reciprocal of a constant in two parts that give the bits of a division."""
        number = self.divisor_number(y)
        return reciprocal_parts(number, y.dtype) if number else None

    def divisor_number(self, y: Value) -> float:
        """Return a constant whose reciprocal may be used; 0 for everything else."""
        if y.dtype not in (F32, F64) or y.text.startswith("%") or not self.has_fma:
            return 0.0
        number: float = struct.unpack(">d", bytes.fromhex(y.text[2:]))[0]
        return number if _LEAST_DIVISOR < abs(number) < 1 / _LEAST_DIVISOR else 0.0

    def negated(self, x: Value) -> Value:
        return self.operation(x.dtype, "fneg", x)

    def integer_operation(self, op: str, x: Value, y: Value) -> Value:
        if op in ("shl", "lshr") and x.dtype.bits == 64 and self.target.triple.startswith("nvptx"):
            # Without the mask, LLVM removes checks for amounts beyond the width, since PTX's
            # shifts give 0 for them; but those shifts see only the low 32 bits of the amount.
            y = Value(y.dtype, self.fn.value(f"and i64 {y.text}, 63"))
        return self.operation(x.dtype, op, x, y)

    def integer_constant(self, x: Value) -> int | None:
        is_number = type(x) is Value and x.text.removeprefix("-").isdigit()
        return int(x.text) if is_number and x.dtype.is_integer else None

    def comparison(self, direction: str, x: Value, y: Value) -> Value:
        return self.operation(PRED, COMPARISONS[x.dtype][direction], x, y)

    def choice(self, pred: Value, on_true: Value, on_false: Value) -> Value:
        lanes = self.lanes_of(pred, on_true, on_false)
        kind = register_of(on_true.dtype, lanes)
        which = register_of(PRED, self.lanes_of(pred))
        first, second = self.operand(on_true, lanes), self.operand(on_false, lanes)
        text = f"select {which} {pred.text}, {kind} {first}, {kind} {second}"
        found = self._assigned(on_true.dtype, text, lanes)
        if self.is_avx2:
            self._chosen.add(found.text)
        return found

    # ---- native f16 arithmetic: the same bits as by way of f32

    def narrow_operation(self, op: str, x: Value, y: Value) -> Value:
        if x.dtype is F16 and self.has_half_arithmetic:
            return self._of_halves(F16, f"{op} {{kind}} {{0}}, {{1}}", x, y)
        return super().narrow_operation(op, x, y)

    def narrow_negation(self, x: Value) -> Value:
        if x.dtype is F16 and self.has_half_arithmetic:
            return self._of_halves(F16, "fneg {kind} {0}", x)
        return super().narrow_negation(x)

    def narrow_comparison(self, direction: str, x: Value, y: Value) -> Value:
        if x.dtype is F16 and self.has_half_arithmetic:
            name = COMPARISONS[F16][direction]
            return self._of_halves(PRED, f"{name} {{kind}} {{0}}, {{1}}", x, y)
        return super().narrow_comparison(direction, x, y)

    def narrow_intrinsic(self, name: str, *args: Value) -> Value:
        if args[0].dtype is not F16 or not self.has_half_arithmetic or name not in _HALF:
            return super().narrow_intrinsic(name, *args)
        lanes = self.lanes_of(*args)
        kind, symbol = vector_of("half", lanes), f"@llvm.{name}.{suffix_of('half', lanes)}"
        operands = ", ".join(f"{kind} {{{number}}}" for number in range(len(args)))
        flags = self.extremum_flags() if name in EXTREMA else ""
        self.fn.declare(f"declare {kind} {symbol}({', '.join([kind] * len(args))})")
        return self._of_halves(F16, f"call {flags}{kind} {symbol}({operands})", *args)

    def _of_halves(self, dtype: DType, text: str, *args: Value) -> Value:
        """Write an instruction on f16; `text` has places for the type and the operands."""
        lanes = self.lanes_of(*args)
        kind, bits = vector_of("half", lanes), register_of(F16, lanes)
        halves = [self.fn.value(f"bitcast {bits} {self.operand(x, lanes)} to {kind}") for x in args]
        text = text.format(*halves, kind=kind)
        if dtype is F16:
            text = f"bitcast {kind} {self.fn.value(text)} to {bits}"
        return self._assigned(dtype, text, lanes)

    # ---- conversions

    def cast(self, x: Value, dtype: DType) -> Value:
        source = x.dtype
        if dtype.is_float:
            if source.is_float:
                return self._cast("fpext" if dtype is F64 else "fptrunc", x, dtype)
            return self._cast("sitofp" if source.is_signed else "uitofp", x, dtype)
        if source.bits == dtype.bits:
            return self._renamed(x, dtype)
        if source.bits > dtype.bits:
            return self._cast("trunc", x, dtype)
        return self._cast("sext" if source.is_signed else "zext", x, dtype)

    def _cast(self, op: str, x: Value, dtype: DType) -> Value:
        lanes = self.lanes_of(x)
        text = f"{register_of(x.dtype, lanes)} {self.operand(x, lanes)}"
        return self._assigned(dtype, f"{op} {text} to {register_of(dtype, lanes)}", lanes)

    def _renamed(self, x: Value, dtype: DType) -> Value:
        """Return `x` as another type that has the same register."""
        lanes = self.lanes_of(x)
        text = self.operand(x, lanes)
        return Lanes(dtype, text) if lanes else Value(dtype, text, x.imag)

    def truncation(self, x: Value, dtype: DType) -> Value:
        if self._is_bounded(dtype):
            return self._bounded(x, dtype)
        name = "fptosi" if dtype.is_signed else "fptoui"
        lanes = self.lanes_of(x)
        target, source = (suffix_of(_REGISTER[kind], lanes) for kind in (dtype, x.dtype))
        return self._call(dtype, f"{name}.sat.{target}.{source}", lanes, x)

    def _is_bounded(self, dtype: DType) -> bool:
        # LLVM 22 compares the bits of a float with 0 to make one bit of it for NVIDIA's GPUs.
        return self.target.triple.startswith(WITHOUT_SATURATION) or dtype.bits == 1

    def _bounded(self, x: Value, dtype: DType) -> Value:
        """Write a truncation by bounds on x, which LLVM vectorises, unlike its own intrinsic.

        Conversions of 100,000 f32 to s32: 12 us, not 120.
        """
        bits = dtype.bits - dtype.is_signed
        least, most = -(1 << bits) if dtype.is_signed else 0, (1 << bits) - 1
        top = 1 << bits
        while top > most:  # the largest float that is in range
            top -= 1 << max(0, bits - (24 if x.dtype is F32 else 53))
        number = self.select(self.is_nan(x), self.const(x.dtype, 0.0), x)
        low, high = self.const(x.dtype, float(least)), self.const(x.dtype, float(top))
        within = self.select(self.compare("LT", number, low), low, number)
        within = self.select(self.compare("GT", within, high), high, within)
        wide = dtype if bits > 31 or dtype.bits == 32 else S32
        value = self.cast(self._cut(within, wide), dtype)
        if top == most:
            return value
        beyond = self.compare("GT", number, high)
        return self.select(beyond, self.const(dtype, most), value)

    def _cut(self, x: Value, dtype: DType) -> Value:
        """Write a conversion to an integer that holds it."""
        return self._cast("fptosi" if dtype.is_signed else "fptoui", x, dtype)

    def reinterpretation(self, x: Value, dtype: DType) -> Value:
        if _REGISTER[x.dtype] == _REGISTER[dtype]:
            return self._renamed(x, dtype)
        return self._cast("bitcast", x, dtype)

    def narrow_bits(self, x: Value) -> Value:
        return self._cast("zext", x, U32)

    def from_narrow_bits(self, bits: Value, dtype: DType) -> Value:
        return self._cast("trunc", bits, dtype)

    def _convert_to_float(self, x: Value, dtype: DType) -> Value:
        if x.dtype.is_narrow_float and not dtype.is_narrow_float and x.text.isdigit():
            # LLVM would find an extremum of a register, not of a constant.
            bits = np.array(int(x.text), f"u{x.dtype.storage_bytes}")
            return self.const(dtype, float(bits.view(x.dtype.numpy)))
        return super()._convert_to_float(x, dtype)

    def half_to_float(self, x: Value) -> Value:
        lanes = self.lanes_of(x)
        half = vector_of("half", lanes)
        value = self.fn.value(f"bitcast {register_of(F16, lanes)} {x.text} to {half}")
        return self._assigned(F32, f"fpext {half} {value} to {register_of(F32, lanes)}", lanes)

    def float_to_half(self, x: Value) -> Value:
        lanes = self.lanes_of(x)
        half = vector_of("half", lanes)
        value = self.fn.value(f"fptrunc {register_of(F32, lanes)} {x.text} to {half}")
        return self._assigned(F16, f"bitcast {half} {value} to {register_of(F16, lanes)}", lanes)

    def scaled(self, x: Value, exponent: Value, n: Value, is_zero: Value | None = None) -> Value:
        steps = self.convert(exponent, S32)
        if is_zero is None:
            return self._ldexp(x, steps)
        value = self._ldexp(x, self.select(is_zero, self.const(S32, 0), steps))
        return self.select(is_zero, self.const(x.dtype, 0.0), value)

    def _ldexp(self, x: Value, exponent: Value) -> Value:
        lanes = self.lanes_of(x, exponent)
        number, word = (suffix_of(_REGISTER[part.dtype], lanes) for part in (x, exponent))
        return self._call(x.dtype, f"ldexp.{number}.{word}", lanes, x, exponent)

    # ---- calls

    def intrinsic(self, name: str, *args: Value) -> Value:
        if name in EXTREMA and self._is_slow_extremum(*args):
            return self._extremum(name, *args)
        return super().intrinsic(name, *args)

    def _is_slow_extremum(self, x: Value, y: Value) -> bool:
        """True where LLVM would move x and y to integer registers to order zeros and NaN."""
        return (
            x.dtype in (F32, F64)
            and self.target.triple.startswith(_ORDERED_EXTREMA)
            and x.text.startswith("%")
            and y.text.startswith("%")
            and not self.extremum_flags()
        )

    def _extremum(self, name: str, x: Value, y: Value) -> Value:
        """Return the minimum or maximum, NaN if an operand is, by two x86 instructions.

        They return the second operand if an operand is NaN or both are zeros. Where the results for
        the two orders of operands differ, one of them is the NaN, or the zero of the wanted sign.
        """
        direction = "LT" if name == "minimum" else "GT"
        word = S32 if x.dtype is F32 else S64
        first, second = (
            self.bitcast(self.select(self.compare(direction, a, b), a, b), word)
            for a, b in ((x, y), (y, x))
        )
        if name == "minimum":
            return self.bitcast(self.or_(first, second), x.dtype)
        largest = self.bitcast(self.and_(first, second), x.dtype)
        has_nan = self.or_(self.is_nan(x), self.is_nan(y))
        return self.select(has_nan, self.fadd(x, y), largest)

    def instruction(self, name: str, *args: Value) -> Value:
        dtype, lanes = args[0].dtype, self.lanes_of(*args)
        suffix, last = suffix_of(_REGISTER[dtype], lanes), "false" if name == "ctlz" else ""
        flags = self.extremum_flags() if name in EXTREMA else ""
        return self._call(dtype, f"{name}.{suffix}", lanes, *args, last=last, flags=flags)

    def extremum_flags(self) -> str:
        """Return fast-math flags of extrema: a reduction may reassociate and return either zero."""
        return "reassoc nsz " if "reassoc" in self.float_flags else ""

    def function(self, name: str, *args: Value) -> Value:
        return emit_math(self, name, args)

    def narrow_function(self, name: str, *args: Value) -> Value:
        return emit_narrow_math(self, name, args)

    def libm(self, name: str, *args: Value) -> Value:
        """Call a function of the C library, `exp` for f64 and `expf` for f32."""
        dtype = args[0].dtype
        symbol = f"@{name}" + ("f" if dtype is F32 else "")
        kind = _REGISTER[dtype]
        self.fn.declare(f"declare {kind} {symbol}({', '.join([kind] * len(args))}) memory(none)")
        operands = ", ".join(f"{kind} {x.text}" for x in args)
        return Value(dtype, self.fn.value(f"call {kind} {symbol}({operands})"))

    # ---- memory

    def load_number(self, pointer: Value, dtype: DType, index: Value | int) -> Value:
        r = REPRESENTATIONS[dtype]
        at = self.address(pointer, dtype, index)
        loaded = self.fn.value(f"load {r.memory}, ptr {at}, align {r.bytes}")
        if not r.is_part:
            return Value(dtype, loaded)
        if dtype.is_pred:
            return Value(dtype, self.fn.value(f"icmp ne i8 {loaded}, 0"))
        return Value(dtype, self.fn.value(f"trunc {r.memory} {loaded} to {r.register}"))

    def store_number(self, pointer: Value, index: Value | int, value: Value) -> None:
        r = REPRESENTATIONS[value.dtype]
        text = value.text
        if r.is_part:
            text = self.fn.value(f"zext {r.register} {text} to {r.memory}")
        at = self.address(pointer, value.dtype, index)
        text = self.stored(r.memory, text)
        self.fn.line(f"store {r.memory} {text}, ptr {at}, align {r.bytes}")

    def stored(self, kind: str, text: str) -> str:
        """Return `text`, of type `kind`, as an operand of a store.

        Where an element that was chosen comes from the place of the store, LLVM would store the
        other ones alone, with `vmaskmov`, which takes AMD's processors 12 cycles and more: the loop
        of a Mandelbrot set then takes 4.7 times as long.
        """
        if text not in self._chosen:
            return text
        return self.fn.value(f"freeze {kind} {text}")

    def call_routine(
        self, name: str, pointers: Sequence[Value | str], *others: Value | int | str
    ) -> None:
        """Call a routine: pointers first, then numbers (i64), or operands with explicit types."""
        arguments = [f"ptr {_text(x)}" for x in pointers]
        arguments += [x if isinstance(x, str) else f"i64 {_text(x)}" for x in others]
        self.fn.line(f"call void @{name}({', '.join(arguments)})")

    def address(self, pointer: Value, dtype: DType, index: Value | int) -> str:
        if index == 0:
            return pointer.text
        at = index if isinstance(index, int) else index.text
        kind = REPRESENTATIONS[dtype].memory
        if dtype.is_complex:
            kind = f"[2 x {kind}]"
        return self.fn.value(f"getelementptr inbounds {kind}, ptr {pointer.text}, i64 {at}")

    def complex_index(self, index: Value | int) -> tuple[Value | int, Value | int]:
        if isinstance(index, int):
            return 2 * index, 2 * index + 1
        real = self.fn.value(f"shl nsw i64 {index.text}, 1")
        return Value(S64, real), Value(S64, self.fn.value(f"or disjoint i64 {real}, 1"))

    def prefetch(self, pointer: Value, dtype: DType, index: Value) -> None:
        kind = REPRESENTATIONS[dtype].memory
        self.prefetch_at(
            self.fn.value(f"getelementptr {kind}, ptr {pointer.text}, i64 {index.text}")
        )

    def prefetch_at(self, address: str, cache_level: int = 2) -> None:
        """Prefetch a line of memory into the cache of level 1 to 3."""
        hints = ("i32", "0"), ("i32", str(4 - cache_level)), ("i32", "1")
        self.fn.call("void", "@llvm.prefetch.p0", ("ptr", address), *hints)

    def allocate(self, dtype: DType, count: int = 1) -> Value:
        r = REPRESENTATIONS[dtype]
        return pointer_value(self.fn.allocate(r.memory, count * (2 if dtype.is_complex else 1)))

    def moved(self, pointer: Value, dtype: DType, index: Value | int) -> Value:
        """Return the address of element `index`, whose origin is opaque to LLVM.

        For loops with many addresses off one base: loop strength reduction of all of them takes
        most of the compile time of such a loop and gains nothing.
        """
        at = self.address(pointer, dtype, index)
        return pointer_value(self.fn.call("ptr", "@llvm.launder.invariant.group.p0", ("ptr", at)))

    def clear(self, pointer: Value, size_bytes: int | str) -> None:
        """Set memory to zero; the size is a number or the text of an s64."""
        operands = ("ptr", pointer.text), ("i8", "0"), ("i64", str(size_bytes)), ("i1", "false")
        self.fn.call("void", "@llvm.memset.p0.i64", *operands)

    def copy(self, target: Value, source: Value, size_bytes: str) -> None:
        """Copy memory that does not overlap; the size is the text of an s64."""
        ends = ("ptr", target.text), ("ptr", source.text)
        operands = *ends, ("i64", size_bytes), ("i1", "false")
        self.fn.call("void", "@llvm.memcpy.p0.p0.i64", *operands)

    def offset_pointer(self, pointer: Value, bytes_: int) -> Value:
        if not bytes_:
            return pointer
        return pointer_value(
            self.fn.value(f"getelementptr inbounds i8, ptr {pointer.text}, i64 {bytes_}")
        )


def _text(x: Value | int | str) -> str:
    return x.text if isinstance(x, Value) else str(x)


def pointer_value(name: str) -> Value:
    """Return a pointer as a value (its dtype says nothing about what it points to)."""
    return Value(U8, name)
