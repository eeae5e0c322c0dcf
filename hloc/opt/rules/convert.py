"""Laws of convert, bitcast-convert and reduce-precision: lossless detours."""

from __future__ import annotations

from hloc.dtypes import DType
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ops import names_of
from hloc.opt.make import make
from hloc.opt.pattern import Found, P
from hloc.opt.rule import Rule
from hloc.opt.rules.builders import answer, apply
from hloc.opt.values import has_one_user, is_integer

x, y = P(bind="x"), P(bind="y")


def holds_all_of(wide: DType, narrow: DType) -> bool:
    """True if `wide` represents every value of `narrow`, NaN and infinity included."""
    if wide is narrow:
        return not wide.is_special
    if wide.is_float and not wide.has_sign:
        return False  # f8e8m0fnu has no zero
    if narrow.is_pred:
        return not wide.is_special and not (wide.is_signed and wide.bits == 1)
    if narrow.is_integer and wide.is_integer:
        if narrow.is_signed:
            return wide.is_signed and wide.bits >= narrow.bits
        return wide.bits >= narrow.bits + wide.is_signed
    if narrow.is_integer and wide.is_float:
        magnitude = narrow.bits - narrow.is_signed
        return wide.mantissa_bits + 1 >= magnitude and 2 ** (wide.exponent_bits - 1) > magnitude
    if narrow.is_float and wide.is_float:
        # Types below f16 differ in which specials they have; f32 and f64 hold them all.
        return wide.name in ("f32", "f64") and wide.bits > narrow.bits
    return False


def _same_type(inst: Instruction, found: Found) -> bool:
    return inst.array.dtype is found["x"].array.dtype


def _lossless_detour(inst: Instruction, found: Found) -> bool:
    """convert(convert(x)) is convert(x) if the type between holds all values of x.

    An integer (or true) converted through a float saturates where a direct convert would wrap.
    """
    start, between = found["x"].array.dtype, found["y"].array.dtype
    if not holds_all_of(between, start):
        return False
    end = inst.array.dtype
    saturates = between.is_float and end.is_integer and (start.is_integer or start.is_pred)
    return not saturates or holds_all_of(end, start)


def _shortcut(computation: Computation, inst: Instruction, found: Found) -> Instruction | None:
    """X itself, or the last of the two steps alone."""
    start = found["x"]
    if inst.array.dtype is start.array.dtype:
        return start if start.shape == inst.shape else None
    return make(computation, inst.opcode.name, inst.shape, start)


def _counts_alike(inst: Instruction, found: Found) -> bool:
    """No value of the iota wraps in its type or is rounded by the convert."""
    iota = found["y"]
    dtype, last = iota.array.dtype, iota.array.dims[iota.attributes.iota_dimension] - 1
    end = inst.array.dtype
    if not dtype.is_integer or not (end.is_integer or end.is_float):
        return False
    return bool(max(last, 0).bit_length() <= dtype.bits - dtype.is_signed)


def _same_dimension(_inst: Instruction, found: Found) -> int:
    return int(found["y"].attributes.iota_dimension)


def _same_bits(inst: Instruction, found: Found) -> bool:
    """All three types have one width, so that no dimension is added or removed."""
    width = inst.array.dtype.bits
    return width == found["y"].array.dtype.bits == found["x"].array.dtype.bits


def _keeps_precision(inst: Instruction, _found: Found) -> bool:
    dtype, attributes = inst.array.dtype, inst.attributes
    return (
        dtype.name in ("f16", "bf16", "f32", "f64")
        and attributes.exponent_bits >= dtype.exponent_bits
        and attributes.mantissa_bits >= dtype.mantissa_bits
    )


def _same_precision(inst: Instruction, found: Found) -> bool:
    return bool(inst.attributes == found["y"].attributes)


def _narrow_enough(inst: Instruction, found: Found) -> bool:
    """The low bits of a wrapping operation depend on the low bits of its operands only."""
    kinds = {found[name].array.dtype for name in ("x", "y")} | {inst.array.dtype}
    wide = found["w"].array.dtype
    return (
        len(kinds) == 1
        and is_integer(inst)
        and wide.is_integer
        and wide.bits > inst.array.dtype.bits >= 8
    )


def _narrow_operation(computation: Computation, inst: Instruction, found: Found) -> Instruction:
    return make(computation, found["w"].opcode.name, inst.shape, found["x"], found["y"])


CONVERT = (
    Rule("convert-same-type", P("convert", (x,)), answer("x"), when=_same_type),
    Rule(
        "convert-convert",
        P("convert", (P("convert", (x,), bind="y"),)),
        _shortcut,
        when=_lossless_detour,
    ),
    Rule(
        "convert-wide-operation",
        P(
            "convert",
            (
                P(
                    tuple(sorted(names_of(lambda row: row.modular and row.arity == 2))),
                    (P("convert", (x,)), P("convert", (y,))),
                    bind="w",
                    when=has_one_user,
                ),
            ),
        ),
        _narrow_operation,
        when=_narrow_enough,
    ),
    Rule(
        "convert-iota",
        P("convert", (P("iota", bind="y"),)),
        apply("iota", iota_dimension=_same_dimension),
        when=_counts_alike,
    ),
    Rule("bitcast-convert-same-type", P("bitcast-convert", (x,)), answer("x"), when=_same_type),
    Rule(
        "bitcast-convert-chain",
        P("bitcast-convert", (P("bitcast-convert", (x,), bind="y"),)),
        _shortcut,
        when=_same_bits,
    ),
    Rule(
        "reduce-precision-to-own",
        P("reduce-precision", (x,)),
        answer("x"),
        when=_keeps_precision,
    ),
    Rule(
        "reduce-precision-twice",
        P("reduce-precision", (P("reduce-precision", (x,), bind="y"),)),
        answer("y"),
        when=_same_precision,
    ),
    Rule("real-of-real", P("real", (x,)), answer("x"), when=_same_type),
    Rule("copy-copy", P("copy", (P("copy", (x,)),)), apply("copy", "x")),
    Rule("copy-same-layout", P("copy", (x,)), answer("x")),
)
