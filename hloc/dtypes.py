"""The element types of HLO: one row per type, with its width, class and NumPy type.

Source: `xla_data.proto` (PrimitiveType) and the format reference, "Primitive types".
"""

from __future__ import annotations

from dataclasses import field
from typing import Any

import ml_dtypes
import numpy as np

from hloc.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class DType:
    """One element type; compared by identity, since the rows below are the only instances.

    Attributes:
        name: HLO's name, e.g. `bf16`.
        bits: width of a value in bits; 0 for `token` and `opaque`.
        kind: `pred`, `signed`, `unsigned`, `float`, `complex` or `special`.
        numpy: type of the array that holds values, one element per `storage_bytes`.
        exponent_bits, mantissa_bits: layout of a float (mantissa without the hidden bit), else 0.
        storage_bytes: bytes of one element in memory; types below a byte take a whole one.
        is_integer: signed or unsigned; `pred` is not an integer.
        is_narrow_float: computed in f32: bf16, f16 and below.
        has_sign: a float with a sign bit: all but `f8e8m0fnu`.
        is_special: `token` or `opaque`, which have no array of values.
    """

    name: str
    bits: int
    kind: str
    numpy: np.dtype[Any]
    exponent_bits: int = 0
    mantissa_bits: int = 0
    # Read for every element of generated code, so they are fields and not properties.
    storage_bytes: int = field(init=False)
    is_pred: bool = field(init=False)
    is_signed: bool = field(init=False)
    is_unsigned: bool = field(init=False)
    is_integer: bool = field(init=False)
    is_float: bool = field(init=False)
    is_narrow_float: bool = field(init=False)
    has_sign: bool = field(init=False)
    is_complex: bool = field(init=False)
    is_special: bool = field(init=False)

    def __post_init__(self) -> None:
        is_float = self.kind == "float"
        facts = {
            "storage_bytes": int(self.numpy.itemsize),
            "is_integer": self.kind in ("signed", "unsigned"),
            "is_narrow_float": is_float and self.bits < 32,
            "has_sign": is_float and self.exponent_bits + self.mantissa_bits < self.bits,
        }
        for kind in ("pred", "signed", "unsigned", "float", "complex", "special"):
            facts[f"is_{kind}"] = self.kind == kind
        for name, value in facts.items():
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[Any, ...]:
        return dtype_named, (self.name,)

    def __copy__(self) -> DType:
        return self

    def __deepcopy__(self, memo: object) -> DType:
        return self


def _rows() -> list[DType]:
    m = ml_dtypes

    def row(
        name: str, bits: int, kind: str, numpy: Any, exponent: int = 0, mantissa: int = 0
    ) -> DType:
        return DType(name, bits, kind, np.dtype(numpy), exponent, mantissa)

    return [
        row("pred", 1, "pred", np.bool_),
        row("s1", 1, "signed", m.int1),
        row("s2", 2, "signed", m.int2),
        row("s4", 4, "signed", m.int4),
        row("s8", 8, "signed", np.int8),
        row("s16", 16, "signed", np.int16),
        row("s32", 32, "signed", np.int32),
        row("s64", 64, "signed", np.int64),
        row("u1", 1, "unsigned", m.uint1),
        row("u2", 2, "unsigned", m.uint2),
        row("u4", 4, "unsigned", m.uint4),
        row("u8", 8, "unsigned", np.uint8),
        row("u16", 16, "unsigned", np.uint16),
        row("u32", 32, "unsigned", np.uint32),
        row("u64", 64, "unsigned", np.uint64),
        row("f16", 16, "float", np.float16, 5, 10),
        row("bf16", 16, "float", m.bfloat16, 8, 7),
        row("f32", 32, "float", np.float32, 8, 23),
        row("f64", 64, "float", np.float64, 11, 52),
        row("f8e5m2", 8, "float", m.float8_e5m2, 5, 2),
        row("f8e4m3", 8, "float", m.float8_e4m3, 4, 3),
        row("f8e4m3fn", 8, "float", m.float8_e4m3fn, 4, 3),
        row("f8e4m3b11fnuz", 8, "float", m.float8_e4m3b11fnuz, 4, 3),
        row("f8e3m4", 8, "float", m.float8_e3m4, 3, 4),
        row("f8e5m2fnuz", 8, "float", m.float8_e5m2fnuz, 5, 2),
        row("f8e4m3fnuz", 8, "float", m.float8_e4m3fnuz, 4, 3),
        row("f8e8m0fnu", 8, "float", m.float8_e8m0fnu, 8, 0),
        row("f4e2m1fn", 4, "float", m.float4_e2m1fn, 2, 1),
        row("f6e2m3fn", 6, "float", m.float6_e2m3fn, 2, 3),
        row("f6e3m2fn", 6, "float", m.float6_e3m2fn, 3, 2),
        row("c64", 64, "complex", np.complex64),
        row("c128", 128, "complex", np.complex128),
        row("token", 0, "special", np.void),
        row("opaque", 0, "special", np.void),
    ]


DTYPES: dict[str, DType] = {dtype.name: dtype for dtype in _rows()}

PRED, S8, S16, S32, S64 = (DTYPES[n] for n in ("pred", "s8", "s16", "s32", "s64"))
U8, U16, U32, U64 = (DTYPES[n] for n in ("u8", "u16", "u32", "u64"))
F16, BF16, F32, F64 = (DTYPES[n] for n in ("f16", "bf16", "f32", "f64"))
C64, C128 = DTYPES["c64"], DTYPES["c128"]
TOKEN, OPAQUE = DTYPES["token"], DTYPES["opaque"]

_PARTS, _COMPLEX = {C64: F32, C128: F64}, {F32: C64, F64: C128}
_BY_NUMPY: dict[np.dtype[Any], DType] = {d.numpy: d for d in DTYPES.values() if not d.is_special}


def dtype_named(name: str) -> DType:
    """Return the row called `name`; raises KeyError when HLO has no such type."""
    return DTYPES[name]


def dtype_of_numpy(numpy: np.dtype[Any]) -> DType | None:
    """Return the HLO type whose arrays have NumPy type `numpy`, or None."""
    return _BY_NUMPY.get(numpy)


def component_of(dtype: DType) -> DType:
    """Return the type of the real part: `c64` -> `f32`, `c128` -> `f64`, others themselves."""
    return _PARTS.get(dtype, dtype)


def complex_of(dtype: DType) -> DType | None:
    """Return the complex type with parts of type `dtype`: `f32` -> `c64`, `f64` -> `c128`."""
    return _COMPLEX.get(dtype)
