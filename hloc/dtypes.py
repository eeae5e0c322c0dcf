"""The element types of HLO: one row per type, with its width, class and NumPy type.

Source: `xla_data.proto` (PrimitiveType) and the format reference, "Primitive types".
"""

from __future__ import annotations

from dataclasses import field
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

from hloc.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import numpy as np

Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"
"""An array of any element type."""


@dataclass(frozen=True, slots=True, eq=False)
class DType:
    """One element type; compared by identity, since the rows below are the only instances.

    Attributes:
        name: HLO's name, e.g. `bf16`.
        bits: width of a value in bits; 0 for `token` and `opaque`.
        kind: `pred`, `signed`, `unsigned`, `float`, `complex` or `special`.
        exponent_bits, mantissa_bits: layout of a float (mantissa without the hidden bit), else 0.
        numpy: type of the array that stores values, one element per
            `storage_bytes`; NumPy and `ml_dtypes` are imported when they are first needed.
        storage_bytes: bytes of one element in memory; types below a byte take a whole one.
        is_integer: signed or unsigned; `pred` is not an integer.
        is_narrow_float: a float computed in f32: bf16, f16 and narrower.
        has_sign: a float with a sign bit: all except `f8e8m0fnu`.
        is_special: `token` or `opaque`, which have no values.
    """

    name: str
    bits: int
    kind: str
    exponent_bits: int = 0
    mantissa_bits: int = 0
    numpy: np.dtype[Any] = field(init=False)
    # Read very often by code generation, so they are fields and not properties.
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
            "storage_bytes": (self.bits + 7) // 8,
            "is_integer": self.kind in ("signed", "unsigned"),
            "is_narrow_float": is_float and self.bits < 32,
            "has_sign": is_float and self.exponent_bits + self.mantissa_bits < self.bits,
        }
        for kind in ("pred", "signed", "unsigned", "float", "complex", "special"):
            facts[f"is_{kind}"] = self.kind == kind
        for name, value in facts.items():
            object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> Any:
        """Fill the field `numpy` when it is first read."""
        if name != "numpy":
            raise AttributeError(f"an element type has no {name}")
        found = _numpy_type(self.name)
        object.__setattr__(self, "numpy", found)
        return found

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[Any, ...]:
        return dtype_named, (self.name,)

    def __copy__(self) -> DType:
        return self

    def __deepcopy__(self, memo: object) -> DType:
        return self


def _rows() -> list[DType]:
    """Return all types: name, bits, class, and of floats the bits of exponent and mantissa."""
    return [
        DType("pred", 1, "pred"),
        DType("s1", 1, "signed"),
        DType("s2", 2, "signed"),
        DType("s4", 4, "signed"),
        DType("s8", 8, "signed"),
        DType("s16", 16, "signed"),
        DType("s32", 32, "signed"),
        DType("s64", 64, "signed"),
        DType("u1", 1, "unsigned"),
        DType("u2", 2, "unsigned"),
        DType("u4", 4, "unsigned"),
        DType("u8", 8, "unsigned"),
        DType("u16", 16, "unsigned"),
        DType("u32", 32, "unsigned"),
        DType("u64", 64, "unsigned"),
        DType("f16", 16, "float", 5, 10),
        DType("bf16", 16, "float", 8, 7),
        DType("f32", 32, "float", 8, 23),
        DType("f64", 64, "float", 11, 52),
        DType("f8e5m2", 8, "float", 5, 2),
        DType("f8e4m3", 8, "float", 4, 3),
        DType("f8e4m3fn", 8, "float", 4, 3),
        DType("f8e4m3b11fnuz", 8, "float", 4, 3),
        DType("f8e3m4", 8, "float", 3, 4),
        DType("f8e5m2fnuz", 8, "float", 5, 2),
        DType("f8e4m3fnuz", 8, "float", 4, 3),
        DType("f8e8m0fnu", 8, "float", 8, 0),
        DType("f4e2m1fn", 4, "float", 2, 1),
        DType("f6e2m3fn", 6, "float", 2, 3),
        DType("f6e3m2fn", 6, "float", 3, 2),
        DType("c64", 64, "complex"),
        DType("c128", 128, "complex"),
        DType("token", 0, "special"),
        DType("opaque", 0, "special"),
    ]


DTYPES: dict[str, DType] = {dtype.name: dtype for dtype in _rows()}

PRED, S8, S16, S32, S64 = (DTYPES[n] for n in ("pred", "s8", "s16", "s32", "s64"))
U8, U16, U32, U64 = (DTYPES[n] for n in ("u8", "u16", "u32", "u64"))
F16, BF16, F32, F64 = (DTYPES[n] for n in ("f16", "bf16", "f32", "f64"))
C64, C128 = DTYPES["c64"], DTYPES["c128"]
TOKEN = DTYPES["token"]

_PARTS, _COMPLEX = {C64: F32, C128: F64}, {F32: C64, F64: C128}


def dtype_named(name: str) -> DType:
    """Return the row called `name`; raises KeyError when HLO has no such type."""
    return DTYPES[name]


@cache
def dtype_of_numpy(numpy: np.dtype[Any]) -> DType | None:
    """Return the HLO type whose arrays have NumPy type `numpy`, or None."""
    import numpy as np

    rows = [dtype for dtype in DTYPES.values() if not dtype.is_special]
    rows.sort(key=lambda dtype: not hasattr(np, _numpy_name(dtype.name)))
    return next((dtype for dtype in rows if dtype.numpy == numpy), None)


def _numpy_type(name: str) -> np.dtype[Any]:
    """Return the NumPy type of a row; `ml_dtypes` is loaded for those that NumPy lacks."""
    import numpy as np

    called = _numpy_name(name)
    scalar: type[Any] | None = getattr(np, called, None)
    if scalar is None:
        import ml_dtypes

        scalar = getattr(ml_dtypes, called)
    found: np.dtype[Any] = np.dtype(scalar)
    return found


def _numpy_name(name: str) -> str:
    """Return `float32` for `f32` and `float8_e5m2` for `f8e5m2`."""
    special = {"pred": "bool_", "bf16": "bfloat16", "token": "void", "opaque": "void"}
    long = {"s": "int", "u": "uint", "f": "float", "c": "complex"}
    return special.get(name) or long[name[0]] + name[1:].replace("e", "_e")


def component_of(dtype: DType) -> DType:
    """Return the type of the real part: `c64` -> `f32`, `c128` -> `f64`, others themselves."""
    return _PARTS.get(dtype, dtype)


def complex_of(dtype: DType) -> DType | None:
    """Return the complex type with parts of type `dtype`: `f32` -> `c64`, `f64` -> `c128`."""
    return _COMPLEX.get(dtype)
