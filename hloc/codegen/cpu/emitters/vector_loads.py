"""Loads and stores of vectors of contiguous elements, with conversions of floats and integers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.scalar_builder import pointer_value
from hloc.codegen.builder.values import REPRESENTATIONS, Value, suffix_of, vector_of
from hloc.codegen.cpu.emitters.routine_writer import RoutineWriter
from hloc.codegen.llvm.writer import FunctionWriter
from hloc.dtypes import BF16, F16, F32, S32, DType


class _Written(Protocol):
    """A routine or a kernel that is being written."""

    @property
    def fn(self) -> FunctionWriter:
        """The function."""


def vector_type(dtype: DType, lanes: int) -> str:
    """Return LLVM's type of `lanes` elements in memory."""
    return vector_of(REPRESENTATIONS[dtype].memory, lanes)


def first_lanes(w: RoutineWriter, count: IndexValue, lanes: int) -> str:
    """Return a mask of the first `count` of `lanes` lanes; `count` may be any number."""
    fn, kind = w.fn, f"<{lanes} x i64>"
    numbers = ", ".join(f"i64 {lane}" for lane in range(lanes))
    text = w.math.value(count).text
    one = fn.value(f"insertelement {kind} poison, i64 {text}, i64 0")
    order = f"<{lanes} x i32> zeroinitializer"
    limit = fn.value(f"shufflevector {kind} {one}, {kind} poison, {order}")
    return fn.value(f"icmp slt {kind} <{numbers}>, {limit}")


def _suffix(dtype: DType, lanes: int) -> str:
    """Return the suffix of intrinsics for a vector."""
    return f"{suffix_of(REPRESENTATIONS[dtype].memory, lanes)}.p0"


def load_lanes(w: _Written, at: str, dtype: DType, lanes: int, mask: str) -> str:
    """Load contiguous elements; masked-off elements are zero and not accessed."""
    kind, size = vector_type(dtype, lanes), dtype.storage_bytes
    if not mask:
        return w.fn.value(f"load {kind}, ptr {at}, align {size}")
    name, flags = f"@llvm.masked.load.{_suffix(dtype, lanes)}", f"<{lanes} x i1>"
    place = ("ptr", at), ("i32", str(size)), (flags, mask)
    return w.fn.call(kind, name, *place, (kind, "zeroinitializer"))


def store_lanes(w: _Written, at: str, dtype: DType, lanes: int, mask: str, value: str) -> None:
    """Store contiguous elements, except masked-off ones."""
    kind, size = vector_type(dtype, lanes), dtype.storage_bytes
    if not mask:
        w.fn.line(f"store {kind} {value}, ptr {at}, align {size}")
        return
    name, flags = f"@llvm.masked.store.{_suffix(dtype, lanes)}", f"<{lanes} x i1>"
    w.fn.call("void", name, (kind, value), ("ptr", at), ("i32", str(size)), (flags, mask))


def prefetch_ahead(
    w: RoutineWriter,
    pointer: str,
    dtype: DType,
    places: Sequence[IndexValue],
    ahead: IndexValue,
    cache_level: int = 2,
) -> None:
    """Prefetch the cache lines of the elements `ahead` of some offsets."""
    for place in places:
        offset = w.math.mul(w.math.add(place, ahead), dtype.storage_bytes)
        w.b.prefetch_at(w.math.moved(pointer, offset), cache_level)


def load_as(
    w: RoutineWriter,
    pointer: str,
    source: DType,
    wanted: DType,
    lanes: int,
    place: IndexValue,
    mask: str = "",
) -> str:
    """Load `lanes` elements of `source` from `place` on, as elements of `wanted`.

    Floats below f32 become f32; integers are widened to `wanted`, by way of s32 if it is a float.
    """
    fn = w.fn
    at = w.b.address(pointer_value(pointer), source, w.math.value(place))
    kind = vector_type(source, lanes)
    value = load_lanes(w, at, source, lanes, mask)
    if source is wanted:
        return value
    if source is BF16:
        return widened(w, value, lanes)
    if source.is_integer:
        op = "zext" if source.is_unsigned else "sext"
        whole = vector_type(S32 if wanted.is_float else wanted, lanes)
        value = fn.value(f"{op} {kind} {value} to {whole}")
        if not wanted.is_float:
            return value
        return fn.value(f"sitofp {whole} {value} to {vector_type(wanted, lanes)}")
    assert source is F16
    if not w.b.has_half:
        return _by_lanes(w, value, F16, F32, lanes)
    half = fn.value(f"bitcast {kind} {value} to <{lanes} x half>")
    return fn.value(f"fpext <{lanes} x half> {half} to <{lanes} x float>")


def widened(w: RoutineWriter, value: str, lanes: int) -> str:
    """Return a vector of bf16, given as bits, as f32."""
    fn, words = w.fn, f"<{lanes} x i32>"
    wide = fn.value(f"zext <{lanes} x i16> {value} to {words}")
    high = fn.value(f"shl {words} {wide}, <{', '.join(['i32 16'] * lanes)}>")
    return fn.value(f"bitcast {words} {high} to <{lanes} x float>")


def rounded(w: RoutineWriter, value: str, source: DType, wanted: DType, lanes: int) -> str:
    """Return a vector of f32 rounded to bits of `wanted`, bf16 or f16; others are unchanged."""
    fn = w.fn
    if source is wanted:
        return value
    has_it = w.b.has_half if wanted is F16 else w.b.target.has("avx512bf16")
    if has_it:
        half = f"<{lanes} x {'half' if wanted is F16 else 'bfloat'}>"
        short = fn.value(f"fptrunc {vector_type(source, lanes)} {value} to {half}")
        return fn.value(f"bitcast {half} {short} to {vector_type(wanted, lanes)}")
    if wanted is F16:
        return _by_lanes(w, value, F32, F16, lanes)
    return _bf16_bits(w, value, lanes)


def _by_lanes(w: RoutineWriter, value: str, source: DType, wanted: DType, lanes: int) -> str:
    """Convert one element after the other, where the machine has no instruction for it."""
    fn, result = w.fn, "poison"
    for lane in range(lanes):
        x = fn.value(f"extractelement {vector_type(source, lanes)} {value}, i64 {lane}")
        y = w.b.convert(Value(source, x), wanted).text
        kind = REPRESENTATIONS[wanted].memory
        result = fn.value(
            f"insertelement {vector_type(wanted, lanes)} {result}, {kind} {y}, i64 {lane}"
        )
    return result


def _bf16_bits(w: RoutineWriter, value: str, lanes: int) -> str:
    """Round f32 to the nearest bf16, ties to even, by integer arithmetic; NaN stays NaN."""
    fn, words, shorts = w.fn, f"<{lanes} x i32>", f"<{lanes} x i16>"

    def constant(number: int) -> str:
        return f"<{', '.join([f'i32 {number}'] * lanes)}>"

    bits = fn.value(f"bitcast <{lanes} x float> {value} to {words}")
    high = fn.value(f"lshr {words} {bits}, {constant(16)}")
    odd = fn.value(f"and {words} {high}, {constant(1)}")
    half = fn.value(f"add {words} {bits}, {constant(0x7FFF)}")
    sum_ = fn.value(f"add {words} {half}, {odd}")
    nearest = fn.value(f"lshr {words} {sum_}, {constant(16)}")
    quiet = fn.value(f"or {words} {high}, {constant(0x40)}")
    is_nan = fn.value(f"fcmp uno <{lanes} x float> {value}, {value}")
    chosen = fn.value(f"select <{lanes} x i1> {is_nan}, {words} {quiet}, {words} {nearest}")
    return fn.value(f"trunc {words} {chosen} to {shorts}")


def store_as(
    w: RoutineWriter,
    pointer: str,
    source: DType,
    wanted: DType,
    lanes: int,
    place: IndexValue,
    value: str,
) -> None:
    """Store a vector of `source` as elements of `wanted` from `place` on."""
    at = w.b.address(pointer_value(pointer), wanted, w.math.value(place))
    text = rounded(w, value, source, wanted, lanes)
    w.fn.line(f"store {vector_type(wanted, lanes)} {text}, ptr {at}, align {wanted.storage_bytes}")
