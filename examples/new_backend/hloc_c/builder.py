"""Operations on elements in C; what complex numbers and narrow floats mean is hloc's part."""

from __future__ import annotations

from typing import Any

import numpy as np

from hloc.codegen.builder.element_builder import ElementBuilder
from hloc.codegen.builder.values import Value
from hloc.dtypes import F32, F64, PRED, U8, U32, DType

from .writer import CWriter, c_type

_COMPARISONS = {"EQ": "==", "NE": "!=", "LT": "<", "LE": "<=", "GT": ">", "GE": ">="}
_EXTREMES = {"smin": "<", "umin": "<", "smax": ">", "umax": ">"}
_FLOATS = {"fadd": "+", "fsub": "-", "fmul": "*", "fdiv": "/"}
_DIVISIONS = {"sdiv": "/", "udiv": "/", "srem": "%", "urem": "%"}
_WRAPPING = {"add": "+", "sub": "-", "mul": "*", "and": "&", "or": "|", "xor": "^", "shl": "<<"}


def _low_bits(x: Value) -> str:
    """Return the bits of an integer as a number without a sign."""
    return f"((uint64_t){x.text} & {hex((1 << x.dtype.bits) - 1)})"


class CBuilder(ElementBuilder):
    """Writes definitions to `fn`."""

    def __init__(self, fn: CWriter) -> None:
        self.fn = fn

    def _define(self, dtype: DType, text: str) -> Value:
        if dtype.is_integer and dtype.bits < 8:  # stay in the range of the type
            mask, sign = (1 << dtype.bits) - 1, 1 << (dtype.bits - 1)
            text = f"(({text}) & {mask})"
            text = f"({text} ^ {sign}) - {sign}" if dtype.is_signed else text
        return Value(dtype, self.fn.define(c_type(dtype), text))

    def number(self, dtype: DType, value: Any) -> Value:
        if dtype.is_pred:
            return Value(dtype, "true" if value else "false")
        if dtype is F32 or dtype is F64:
            number = float(np.float32(value)) if dtype is F32 else float(value)
            special = {"inf": "INFINITY", "-inf": "(-INFINITY)", "nan": "NAN"}.get(str(number))
            return Value(dtype, special or f"({number.hex()}{'f' if dtype is F32 else ''})")
        value = int(value) & ((1 << dtype.bits) - 1)
        if not dtype.is_signed:
            return Value(dtype, f"{value}u" if value < 1 << 32 else f"{value}ull")
        value -= (value >> (dtype.bits - 1)) << dtype.bits
        # The least number of a type has no literal.
        return Value(dtype, str(value) if value >= 0 else f"({value + 1}ll - 1)")

    # ---- operators

    def float_operation(self, op: str, x: Value, y: Value) -> Value:
        return self._define(x.dtype, f"{x.text} {_FLOATS[op]} {y.text}")

    def negated(self, x: Value) -> Value:
        return self._define(x.dtype, f"-{x.text}")

    def integer_operation(self, op: str, x: Value, y: Value) -> Value:
        if op in _WRAPPING:  # in a type whose overflow C defines
            return self._define(x.dtype, f"(uint64_t){x.text} {_WRAPPING[op]} (uint64_t){y.text}")
        if op in _DIVISIONS:
            return self._define(x.dtype, f"{x.text} {_DIVISIONS[op]} {y.text}")
        if op == "lshr":
            return self._define(x.dtype, f"{_low_bits(x)} >> {y.text}")
        above = 64 - x.dtype.bits
        signed = f"(int64_t)((uint64_t){x.text} << {above}) >> {above}"
        return self._define(x.dtype, f"({signed}) >> {y.text}")

    def comparison(self, direction: str, x: Value, y: Value) -> Value:
        return self._define(PRED, f"{x.text} {_COMPARISONS[direction]} {y.text}")

    def choice(self, pred: Value, on_true: Value, on_false: Value) -> Value:
        return self._define(on_true.dtype, f"{pred.text} ? {on_true.text} : {on_false.text}")

    # ---- conversions

    def cast(self, x: Value, dtype: DType) -> Value:
        return self._define(dtype, f"({c_type(dtype)}){x.text}")

    def truncation(self, x: Value, dtype: DType) -> Value:
        least = -(1 << (dtype.bits - 1)) if dtype.is_signed else 0
        beyond = least + (1 << dtype.bits)
        low, high = (self.number(x.dtype, bound).text for bound in (least, beyond))
        first, last = (self.number(dtype, end).text for end in (least, beyond - 1))
        v, inside = x.text, f"({c_type(dtype)}){x.text}"
        text = f"{v} != {v} ? 0 : {v} <= {low} ? {first} : {v} >= {high} ? {last} : {inside}"
        return self._define(dtype, text)

    def reinterpretation(self, x: Value, dtype: DType) -> Value:
        text = x.text
        for part in (F32, F64):
            text = f"bits_of_{part}({text})" if x.dtype is part else text
            text = f"{part}_of_bits({text})" if dtype is part else text
        return self._define(dtype, text)

    def narrow_bits(self, x: Value) -> Value:
        return Value(U32, x.text)

    def from_narrow_bits(self, bits: Value, dtype: DType) -> Value:
        return self._define(dtype, bits.text)

    # ---- calls of the C library and of the prelude

    def instruction(self, name: str, *args: Value) -> Value:
        x, dtype = args[0], args[0].dtype
        if dtype.is_float:
            return self.function(name, *args)
        if name in _EXTREMES:
            text = f"{x.text} {_EXTREMES[name]} {args[1].text} ? {x.text} : {args[1].text}"
            return self._define(dtype, text)
        return self._define(dtype, f"{name}({_low_bits(x)}, {dtype.bits})")

    def function(self, name: str, *args: Value) -> Value:
        suffix = "f" if args[0].dtype is F32 else ""
        operands = ", ".join(x.text for x in args)
        return self._define(args[0].dtype, f"{name}{suffix}({operands})")

    # ---- memory

    def _element(self, pointer: Value, dtype: DType, index: Value | int) -> str:
        at = index if isinstance(index, int) else index.text
        return f"(({c_type(dtype)} *){pointer.text})[{at}]"

    def load_number(self, pointer: Value, dtype: DType, index: Value | int) -> Value:
        return self._define(dtype, self._element(pointer, dtype, index))

    def store_number(self, pointer: Value, index: Value | int, value: Value) -> None:
        dtype = value.dtype
        text = _low_bits(value) if dtype.is_integer and dtype.bits < 8 else value.text
        self.fn.line(f"{self._element(pointer, dtype, index)} = {text};")

    def address(self, pointer: Value, dtype: DType, index: Value | int) -> str:
        return f"(&{self._element(pointer, dtype, index)})"

    def complex_index(self, index: Value | int) -> tuple[Value, Value]:
        at = index if isinstance(index, int) else index.text
        return Value(U8, f"2 * {at}"), Value(U8, f"2 * {at} + 1")

    def allocate(self, dtype: DType, count: int = 1) -> Value:
        elements = count * (2 if dtype.is_complex else 1)
        return Value(U8, self.fn.variable(c_type(dtype), elements))

    def offset_pointer(self, pointer: Value, bytes_: int) -> Value:
        return Value(U8, f"((char *){pointer.text} + {bytes_})")

    def clear(self, pointer: Value, size_bytes: int) -> None:
        self.fn.line(f"memset({pointer.text}, 0, {size_bytes});")
