"""Loads and stores of several contiguous elements by one instruction, of up to 16 bytes."""

from __future__ import annotations

from collections.abc import Sequence

from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.values import REPRESENTATIONS, Value
from hloc.codegen.gpu.context import GpuContext
from hloc.dtypes import DType, component_of


def load_vector(
    k: GpuContext, pointer: Value, dtype: DType, index: IndexValue, count: int
) -> list[Value]:
    """Return `count` elements from `index` on, which is a multiple of `count`, a power of two."""
    if count == 1:
        return [k.b.load(pointer, dtype, index)]
    r = REPRESENTATIONS[dtype]
    parts = count * (2 if dtype.is_complex else 1)
    kind, at = f"<{parts} x {r.memory}>", k.b.address(pointer, dtype, index)
    whole = k.fn.value(f"load {kind}, ptr {at}, align {parts * r.bytes}")
    result = [_part(k, dtype, kind, whole, number) for number in range(parts)]
    if not dtype.is_complex:
        return result
    return [k.b.complex(*result[i : i + 2]) for i in range(0, parts, 2)]


def _part(k: GpuContext, dtype: DType, kind: str, whole: str, number: int) -> Value:
    r, part = REPRESENTATIONS[dtype], component_of(dtype)
    text = k.fn.value(f"extractelement {kind} {whole}, i64 {number}")
    if dtype.is_pred:
        text = k.fn.value(f"icmp ne i8 {text}, 0")
    elif r.is_part:
        text = k.fn.value(f"trunc {r.memory} {text} to {r.register}")
    return Value(part, text)


def store_vector(k: GpuContext, pointer: Value, index: IndexValue, values: Sequence[Value]) -> None:
    """Write elements from `index` on, which is a multiple of their number, a power of two."""
    if len(values) == 1:
        k.b.store(pointer, index, values[0])
        return
    dtype = values[0].dtype
    r = REPRESENTATIONS[dtype]
    texts = [text for v in values for text in ((v.text, v.imag) if dtype.is_complex else (v.text,))]
    kind, whole = f"<{len(texts)} x {r.memory}>", "poison"
    for number, text in enumerate(texts):
        if r.is_part:
            text = k.fn.value(f"zext {r.register} {text} to {r.memory}")
        whole = k.fn.value(f"insertelement {kind} {whole}, {r.memory} {text}, i64 {number}")
    at = k.b.address(pointer, dtype, index)
    k.fn.line(f"store {kind} {whole}, ptr {at}, align {len(texts) * r.bytes}")
