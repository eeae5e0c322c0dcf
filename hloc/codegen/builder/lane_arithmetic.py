"""Arithmetic on vectors, one element per lane, for the builder that loads and stores them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from hloc.codegen.builder import narrow_float
from hloc.codegen.builder.divisor import Divisor, divisor_of, quotient
from hloc.codegen.builder.scalar_builder import LlvmBuilder
from hloc.codegen.builder.values import (
    REPRESENTATIONS,
    VARYING,
    LaneIndex,
    Lanes,
    NeedsScalars,
    Value,
    suffix_of,
    vector_of,
)
from hloc.codegen.llvm.target import Target
from hloc.codegen.llvm.writer import FunctionWriter
from hloc.dtypes import F32, F64, PRED, S32, DType

_IN_FUNCTION = "%"
_WITH_MEMORY_OPERANDS = ("fadd", "fsub", "fmul")
_SCALED_BITS = 512
"""Width of the vectors for which LLVM has an intrinsic that scales by powers of two."""


class LaneArithmetic(LlvmBuilder):
    """Writes operations on vectors of `lanes` elements, where an operand is one.

    Attributes:
        lanes: 0 if there are no vectors.
        blends: lanes that one bit chooses are computed without a branch.
    """

    def __init__(self, fn: FunctionWriter, target: Target, lanes: int = 0) -> None:
        super().__init__(fn, target)
        self.lanes = lanes
        self.blends = False
        self._divisors: dict[str, Divisor] = {}

    @contextmanager
    def with_lanes(self, lanes: int) -> Iterator[None]:
        """A region in which vectors have another length, 0 for scalars."""
        before, self.lanes = self.lanes, lanes
        try:
            yield
        finally:
            self.lanes = before

    # ---- vectors of values

    def vector_type(self, element: str) -> str:
        return vector_of(element, self.lanes)

    def kind(self, dtype: DType) -> str:
        """Return LLVM's type of lanes of `dtype` in a register."""
        return self.vector_type(REPRESENTATIONS[dtype].register)

    def vector(self, x: Value) -> str:
        """Return the text of a vector: lanes, positions, or the same value in all lanes."""
        if isinstance(x, Lanes):
            return x.text
        if isinstance(x, LaneIndex):
            steps = ", ".join(f"i64 {lane * x.stride}" for lane in range(self.lanes))
            first = self._splat("i64", x.text)
            return self.fn.value(f"add {self.vector_type('i64')} {first}, <{steps}>")
        return self._splat(REPRESENTATIONS[x.dtype].register, x.text)

    def as_lanes(self, x: Value) -> Lanes:
        """Return `x` as one value per lane."""
        return x if isinstance(x, Lanes) else Lanes(x.dtype, self.vector(x))

    def _splat(self, element: str, text: str) -> str:
        if not text.startswith(_IN_FUNCTION):
            return f"splat ({element} {text})"
        kind = self.vector_type(element)
        one = self.fn.value(f"insertelement {kind} poison, {element} {text}, i64 0")
        order = f"{self.vector_type('i32')} zeroinitializer"
        return self.fn.value(f"shufflevector {kind} {one}, {kind} poison, {order}")

    def lanes_of(self, *args: Value) -> int:
        for x in args:
            if isinstance(x, VARYING):
                return self.lanes
        return 0

    def operand(self, x: Value, lanes: int) -> str:
        return self.vector(x) if lanes else x.text

    def intrinsic(self, name: str, *args: Value) -> Value:
        if name == "fma" and self.is_avx2:
            args = self._constants_in_memory(args)
        return super().intrinsic(name, *args)

    def operation(self, dtype: DType, op: str, *args: Value) -> Value:
        if op.startswith(_WITH_MEMORY_OPERANDS) and self.is_avx2:
            args = self._constants_in_memory(args)
        return super().operation(dtype, op, *args)

    def _constants_in_memory(self, args: tuple[Value, ...]) -> tuple[Value, ...]:
        return tuple([self._in_memory(x) for x in args]) if self.lanes_of(*args) else args

    def _in_memory(self, x: Value) -> Value:
        """Return a constant, such as a coefficient, as an operand in memory.

        With 16 registers, LLVM broadcasts each coefficient of a long polynomial in every iteration;
        AVX2 multiplies by whole vectors in memory without another instruction. GELU: 0.81 of the
        time.
        """
        if isinstance(x, VARYING) or x.text.startswith(_IN_FUNCTION) or x.dtype not in (F32, F64):
            return x
        kind = self.kind(x.dtype)
        place = self.fn.vector_constant(kind, self.vector(x))
        return Lanes(x.dtype, self.fn.value(f"load {kind}, ptr {place}"))

    def _picked(self, kind: str, first: str, second: str, places: Iterable[int]) -> str:
        """Return a shuffle of two vectors; `places` count through both."""
        mask = [f"i32 {place}" for place in places]
        order = f"<{len(mask)} x i32> <{', '.join(mask)}>"
        return self.fn.value(f"shufflevector {kind} {first}, {kind} {second}, {order}")

    def choice(self, pred: Value, on_true: Value, on_false: Value) -> Value:
        if self.blends and self.lanes_of(on_true, on_false):
            pred = self.as_lanes(pred)
        return super().choice(pred, on_true, on_false)

    # ---- divisions by a number that all lanes share

    def expect_divisions(self, x: Value) -> None:
        """Divide lanes by the float `x` through its reciprocal from here on."""
        if self.lanes and self.has_fma and not x.dtype.is_complex:
            self._divisors[x.text] = divisor_of(self, self._wide(x))

    def fdiv(self, x: Value, y: Value) -> Value:
        divisor = None
        if isinstance(x, Lanes) and self.reciprocal_of(y) is None:
            divisor = self._divisors.get(y.text) or self._constant_divisor(y)
        if divisor is None:
            return super().fdiv(x, y)
        value = quotient(self, self._wide(x), divisor)
        if value.dtype is x.dtype:
            return value
        return narrow_float.encode(self, value, x.dtype, plain_nan=self.keeps_nan)

    def _constant_divisor(self, x: Value) -> Divisor | None:
        """Return a constant as a divisor; None if `x` is not constant or very large."""
        number = self.divisor_number(x)
        return Divisor(None, x, self.const(x.dtype, 1 / number)) if number else None

    def differs(self, x: Value, y: Value) -> Value:
        """Return where `x` and `y` are ordered and not equal."""
        return self.operation(PRED, "fcmp one", x, y)

    # ---- divisions of integers, which no processor has for vectors

    def idiv(self, x: Value, y: Value) -> Value:
        found = self._integer_quotient(x, y)
        return super().idiv(x, y) if found is None else found

    def irem(self, x: Value, y: Value) -> Value:
        found = self._integer_quotient(x, y)
        return super().irem(x, y) if found is None else self.isub(x, self.imul(found, y))

    def _integer_quotient(self, x: Value, y: Value) -> Value | None:
        """Return x / y by way of floats that hold both exactly, None if LLVM knows better.

        A quotient that is no integer is less than the next one by 1 / x of itself or more, many
        times what roundings change. One divisor for all lanes has a reciprocal a little too large,
        so that products which are integers are not below these.
        """
        dtype, varies = x.dtype, isinstance(y, VARYING)
        if not (varies or isinstance(x, VARYING)) or dtype.bits not in (8, 16, 32):
            return None
        if not self.target.has("avx2") or self.integer_constant(y) is not None:
            return None
        wide, slack = (F64, 2.0**-49) if dtype.bits == 32 else (F32, 2.0**-21)
        above, below = self.convert(x, wide), self.convert(y, wide)
        if varies:
            found = self.fdiv(above, below)
        else:
            inverse = self.fdiv(self.const(wide, 1.0), below)
            found = self.fmul(above, self.fmul(inverse, self.const(wide, 1 + slack)))
        return self.cast(self._cut(found, dtype if dtype.bits == 32 else S32), dtype)

    # ---- conversions

    def scaled(self, x: Value, exponent: Value, n: Value, is_zero: Value | None = None) -> Value:
        is_varying = isinstance(x, VARYING) or isinstance(exponent, VARYING)
        if not is_varying or self.lanes * x.dtype.bits != _SCALED_BITS:
            return super().scaled(x, exponent, n, is_zero)
        # LLVM's own instruction takes integers, which it converts to floats first.
        kind, letter, mask = self.kind(x.dtype), "s" if x.dtype is F32 else "d", f"i{self.lanes}"
        symbol = f"@llvm.x86.avx512.mask.scalef.p{letter}.{_SCALED_BITS}"
        kept = "-1"
        if is_zero is not None:
            scales = self.not_(is_zero)
            kept = self.fn.value(f"bitcast {self.kind(PRED)} {self.vector(scales)} to {mask}")
        operands = (kind, self.vector(x)), (kind, self.vector(n)), (kind, "zeroinitializer")
        return Lanes(x.dtype, self.fn.call(kind, symbol, *operands, (mask, kept), ("i32", "4")))

    # ---- calls

    def libm(self, name: str, *args: Value) -> Value:
        if any(isinstance(x, VARYING) for x in args):
            raise NeedsScalars(name)
        return super().libm(name, *args)

    def folded(self, name: str, x: Value) -> Value:
        """Return all lanes of `x` combined by the reducer of that opcode, in any order."""
        short = {"multiply": "mul", "maximum": "fmaximum", "minimum": "fminimum"}.get(name, name)
        dtype, flags = x.dtype, ""
        if dtype.is_pred and name == "add":
            short = "or"
        elif dtype.is_float:
            short = {"add": "fadd", "mul": "fmul"}.get(short, short)
        elif name in ("maximum", "minimum"):
            short = ("s" if dtype.is_signed else "u") + name[:3]
        if short in ("fmaximum", "fminimum"):
            return self._extreme(short.removesuffix("imum"), x)
        kind, vector = REPRESENTATIONS[dtype].register, self.kind(dtype)
        symbol = f"@llvm.vector.reduce.{short}.{self._suffix(dtype)}"
        operands = [(vector, self.vector(x))]
        if short in ("fadd", "fmul"):
            operands.insert(0, (kind, "-0.0" if short == "fadd" else "1.0"))
            flags = "reassoc "
        return Value(dtype, self.fn.call(kind, symbol, *operands, flags=flags))

    def any_lane(self, pred: Value) -> Value:
        """Return whether `pred` holds in any lane."""
        bits = self.fn.value(f"bitcast {self.kind(PRED)} {self.vector(pred)} to i{self.lanes}")
        return Value(PRED, self.fn.value(f"icmp ne i{self.lanes} {bits}, 0"))

    def _extreme(self, short: str, x: Value) -> Value:
        """Return the `fmax` or `fmin` of all lanes, NaN if one is.

        NaN is checked separately: LLVM's reduction that propagates NaN takes three times as long.
        """
        dtype, vector = x.dtype, self.kind(x.dtype)
        kind = REPRESENTATIONS[dtype].register
        symbol = f"@llvm.vector.reduce.{short}.{self._suffix(dtype)}"
        operand = vector, self.vector(x)
        result = self.fn.call(kind, symbol, operand, flags="nnan nsz reassoc ")
        return self.select(
            self.any_lane(self.is_nan(x)), self.const(dtype, float("nan")), Value(dtype, result)
        )

    def _suffix(self, dtype: DType) -> str:
        """Return the suffix of intrinsics for lanes of `dtype`."""
        return suffix_of(REPRESENTATIONS[dtype].register, self.lanes)
