"""Cvt between all types. Source: PTX ISA, "cvt" and "cvt.pack"."""

from __future__ import annotations

import numpy as np

from hloc.ptx.float8 import from_float8, to_float8
from hloc.ptx.frame import Frame
from hloc.ptx.instructions.floats import canonical_nan, flushed, odd_f32
from hloc.ptx.lanes import Lanes
from hloc.ptx.operation import Decoder, Function, Operation, elementwise, type_named
from hloc.ptx.program import Instruction
from hloc.ptx.rounding import bf16_of_f32, f32_directed, f32_of_bf16, tf32_of_f32
from hloc.ptx.threads import Threads
from hloc.ptx.value_types import TYPES, Array, PtxType

_TO_INTEGER = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}
_TO_FLOAT = ("rn", "rz", "rm", "rp", "rna", "rs")


def decode_cvt(instruction: Instruction, frame: Frame) -> Operation:
    """Cvt, and its two-operand form that packs."""
    result = type_named(instruction.parts[-2], frame)
    of = type_named(instruction.parts[-1], frame)
    if len(instruction.operands) == 3:
        return _packing(instruction, result, of, frame)
    d, a = instruction.operands
    function = conversion(instruction, result, of, frame)
    target = frame.target(d, TYPES["f32"] if result.name == "tf32" else result)
    return elementwise(function, target, frame.source(a, of))


def conversion(instruction: Instruction, result: PtxType, of: PtxType, frame: Frame) -> Function:
    """Return the function from arrays of one type to arrays of the other."""
    if result.name in ("e4m3x2", "e5m2x2") or of.name in ("e4m3x2", "e5m2x2"):
        return _eight_bit(instruction, result, of)
    if result.is_float and of.is_float:
        return _float_to_float(instruction, result, of, frame)
    if result.is_float:
        return _integer_to_float(instruction, result, of, frame)
    if of.is_float:
        return _float_to_integer(instruction, result, of, frame)
    return _integer_to_integer(instruction, result)


def _integer_to_integer(instruction: Instruction, result: PtxType) -> Function:
    dtype = result.dtype
    if not instruction.has("sat"):
        return lambda x: x.astype(dtype)
    limits = np.iinfo(dtype)

    def run(x: Array) -> Array:
        ends = np.iinfo(x.dtype)
        low, high = max(limits.min, ends.min), min(limits.max, ends.max)
        return np.clip(x, x.dtype.type(low), x.dtype.type(high)).astype(dtype)

    return run


def _widened(x: Array, of: PtxType, flush: bool) -> Array:
    if of.name == "bf16":
        return f32_of_bf16(x)
    return flushed(x) if flush and of.name == "f32" else x


def _float_to_integer(
    instruction: Instruction, result: PtxType, of: PtxType, frame: Frame
) -> Function:
    """Round, then clamp to the range. NaN gives 0, or the top bit if either type has 64 bits."""
    mode = next((p for p in instruction.parts if p in _TO_INTEGER), None)
    if mode is None:
        raise frame.fault("cvt from float to integer needs a rounding to integer")
    rounded = _TO_INTEGER[mode]
    limits = np.iinfo(result.dtype)
    wide = of.size == 8 or result.size == 8
    for_nan = result.dtype.type(limits.min if result.kind == "signed" else 1 << result.bits - 1)
    nan_value = for_nan if wide else result.dtype.type(0)
    flush = instruction.has("ftz")

    def run(x: Array) -> Array:
        value = rounded(_widened(x, of, flush).astype(np.float64))
        # Beyond 2**53 the largest integer is not representable: compare, do not clip.
        too_low, too_high = value <= limits.min, value >= limits.max
        inside = np.where(too_low | too_high | (value != value), 0, value).astype(result.dtype)
        clamped = np.where(too_low, result.dtype.type(limits.min), result.dtype.type(limits.max))
        found = np.where(too_low | too_high, clamped, inside)
        return np.where(value != value, nan_value, found)

    return run


def _odd_f64(x: Array) -> Array:
    """Return integers as f64, rounded to odd if they have more than 53 bits."""
    if x.dtype.itemsize < 8:
        return x.astype(np.float64)
    negative = x < 0
    magnitude = np.where(negative, np.uint64(0) - x.view(np.uint64), x.view(np.uint64))
    sticky = (magnitude & np.uint64(2047)) != 0
    cut = (magnitude >> np.uint64(11) | sticky).astype(np.float64) * 2048.0
    value = np.where(magnitude < np.uint64(1 << 53), magnitude.astype(np.float64), cut)
    return np.where(negative, -value, value)


def _integer_to_float(
    instruction: Instruction, result: PtxType, of: PtxType, frame: Frame
) -> Function:
    mode = next((p for p in instruction.parts if p in _TO_FLOAT), "rn")
    if result.name == "f64":
        if mode != "rn" and of.size == 8:
            raise frame.fault("directed rounding from 64-bit integers to f64 is not supported")
        return lambda x: x.astype(np.float64)
    if result.name == "f32" and mode == "rn":
        return lambda x: x.astype(np.float32)
    narrow = _narrowing(result, mode, frame)
    return lambda x: narrow(_odd_f64(x))


def _narrowing(result: PtxType, mode: str, frame: Frame) -> Function:
    """Return the rounding of f64 (exact, or rounded to odd) to a narrower type."""
    name = result.name.removesuffix("x2")
    if name == "f32":
        if mode == "rn":
            return lambda x: x.astype(np.float32)
        return lambda x: f32_directed(x, mode)
    if name == "bf16" and mode == "rn":
        return lambda x: bf16_of_f32(odd_f32(x))
    if name == "bf16" and mode == "rz":

        def cut(x: Array) -> Array:
            bits = (f32_directed(x, "rz").view(np.uint32) >> np.uint32(16)).astype(np.uint16)
            return np.where(x != x, np.uint16(0x7FFF), bits)

        return cut
    if name == "f16" and mode == "rn":
        return lambda x: x.astype(np.float16)
    if name == "f16" and mode == "rz":

        def toward_zero(x: Array) -> Array:
            nearest = x.astype(np.float16)
            over = np.abs(nearest.astype(np.float64)) > np.abs(x)
            return (nearest.view(np.uint16) - over.astype(np.uint16)).view(np.float16)

        return toward_zero
    if name == "tf32":
        return _tf32(mode, frame)
    raise frame.fault(f"rounding .{mode} to .{result.name} is not supported")


def _tf32(mode: str, frame: Frame) -> Function:
    if mode not in ("rna", "rn", "rz"):
        raise frame.fault(f"rounding .{mode} to tf32 is not supported")
    return lambda x: tf32_of_f32(x.astype(np.float32), mode)


def _float_to_float(
    instruction: Instruction, result: PtxType, of: PtxType, frame: Frame
) -> Function:
    """Return the function that widens to f64, rounds or clamps as asked, and narrows."""
    flush, saturate, relu = (instruction.has(q) for q in ("ftz", "sat", "relu"))
    integral = next((_TO_INTEGER[p] for p in instruction.parts if p in _TO_INTEGER), None)
    mode = next((p for p in instruction.parts if p in _TO_FLOAT), "rn")
    order = ("f16", "bf16", "tf32", "f32", "f64")
    narrower = order.index(result.name.removesuffix("x2")) < order.index(of.name)
    exact = {"f16": np.float16, "f32": np.float32, "f64": np.float64}
    if narrower or result.name == "bf16" != of.name:
        narrow = _narrowing(result, mode, frame)
    elif result.name == "bf16":
        narrow = lambda x: bf16_of_f32(x.astype(np.float32))  # noqa: E731
    else:
        dtype = exact[result.name]
        narrow = lambda x: x.astype(dtype)  # noqa: E731

    def run(x: Array) -> Array:
        value = _widened(x, of, flush)
        if integral is not None:
            value = integral(value)
        if saturate:
            value = np.where(value == value, np.clip(value, 0, 1), 0).astype(value.dtype)
        if relu:
            value = np.where(value < 0, value.dtype.type(0), value)
        found = narrow(value.astype(np.float64))
        if flush and found.dtype == np.float32:
            found = flushed(found)
        return canonical_nan(found) if found.dtype.kind == "f" else found

    return run


def _eight_bit(instruction: Instruction, result: PtxType, of: PtxType) -> Function:
    relu = instruction.has("relu")
    if of.name in ("e4m3x2", "e5m2x2"):
        name = of.name.removesuffix("x2")
        return lambda x: from_float8(x, name).astype(np.float16)
    name = result.name.removesuffix("x2")

    def run(x: Array) -> Array:
        value = x.astype(np.float64)
        return to_float8(np.where(value < 0, 0, value) if relu else value, name)

    return run


def _packing(instruction: Instruction, result: PtxType, of: PtxType, frame: Frame) -> Operation:
    """The first source becomes the high half, the second the low half."""
    d, high, low = instruction.operands
    function = conversion(instruction, result, of, frame)
    target = frame.target(d, result)
    rows = frame.source(low, of), frame.source(high, of)

    def run(threads: Threads, lanes: Lanes) -> None:
        values = [function(threads.rows[row][lanes]) for row in rows]
        threads.rows[target][lanes] = np.stack(values, axis=1)

    return run


DECODERS: dict[str, Decoder] = {"cvt": decode_cvt}
