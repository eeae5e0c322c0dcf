"""The eight-bit floats e4m3 (no infinity, one NaN) and e5m2.

Source: PTX ISA, "Alternate Floating-Point Data Formats"; Micikevicius et al., "FP8 Formats for
Deep Learning" (2022).
"""

from __future__ import annotations

import numpy as np

from hloc.ptx.value_types import Array


def _table(exponent_bits: int, bias: int) -> Array:
    mantissa_bits = 7 - exponent_bits
    code = np.arange(128)
    exponent, mantissa = code >> mantissa_bits, code & (1 << mantissa_bits) - 1
    fraction = mantissa / 2.0**mantissa_bits
    return np.where(
        exponent == 0,
        fraction * 2.0 ** (1 - bias),
        (1 + fraction) * 2.0 ** (exponent.astype(np.float64) - bias),
    )


def _values(name: str) -> Array:
    """Return the value of each of the 128 codes without a sign."""
    if name == "e4m3":
        found = _table(4, 7)
        found[127] = np.nan
        return found
    found = _table(5, 15)
    found[124], found[125:] = np.inf, np.nan
    return found


_VALUES = {name: _values(name) for name in ("e4m3", "e5m2")}


def from_float8(codes: Array, name: str) -> Array:
    """Return codes as f64."""
    sign = np.where(codes & 0x80, -1.0, 1.0)
    return np.asarray(sign * _VALUES[name][codes & 0x7F])


def to_float8(values: Array, name: str) -> Array:
    """Round f64 to the nearest code, ties to even; saturates to the largest number."""
    table = _VALUES[name]
    finite = table[np.isfinite(table)]
    magnitude = np.minimum(np.abs(values), finite[-1])
    above = np.clip(np.searchsorted(finite, magnitude), 1, len(finite) - 1)
    below = above - 1
    left, right = magnitude - finite[below], finite[above] - magnitude
    choose_above = (left > right) | ((left == right) & (above % 2 == 0))
    code = np.where(choose_above, above, below)
    code = np.where(values != values, 0x7F, code)
    sign = np.where(np.signbit(values) & (values == values), 0x80, 0)
    return (code | sign).astype(np.uint8)
