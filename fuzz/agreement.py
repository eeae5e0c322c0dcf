"""Evaluator and machine code must agree; how closely depends on what the opcode promises.

- exact: bits are equal, signs of zero too; any NaN is as good as another.
- values: equal numbers, where the sign of zero is open (maxima of arrays, in any order).
- ulps: functions of floats, within some units of the last place of the element type.
- complex: functions of complex numbers, within some units of the larger part, infinite and NaN
  numbers as such.
- power N: as complex; the rounding of an angle of up to N is magnified.
- table N: sums of products, within `hloc/report/tolerance.py`; products of up to N may cancel.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import hloc
from hloc.dtypes import DType, component_of, dtype_of_numpy
from hloc.ir.module import Module
from tests.tolerance import difference

Array = np.ndarray[Any, np.dtype[Any]]

LEVELS = (0, 2)
EXACT = "exact"
TABLE = "table"

ULPS = {"f32": 4, "f64": 8}
"""Bounds for functions of floats here, where the evaluator is no perfect oracle; narrower types
have 1, for rounding an f32 that lies near a tie. docs/accuracy.md has the real errors."""

COMPLEX_ULPS = 16

POWER_ROUNDINGS = 7.5
"""What two computations of z^w = e^(w log z) may differ by, in eps |w log z| of |z^w|.

Absolute errors of w log z are relative errors of z^w. Both parts of log z are within 2.5 ulp
(docs/accuracy.md), each of the four products within 1/2, sqrt(1/2) when taken together, and their
sums within 1/2: 3.71 eps |w| |log z|, twice."""


def check(module: Module, arguments: Sequence[Array], how: str) -> None:
    """Run the module as it stands and at every level, and compare."""
    want = hloc.evaluate(module, *arguments)
    for level in LEVELS:
        got = hloc.compile(module, opt_level=level)(*arguments)
        assert len(got) == len(want)
        for number, (g, w) in enumerate(zip(got, want, strict=True)):
            fault = disagreement(np.asarray(g), w, how)
            assert fault is None, f"-O{level} output {number}: {fault}"


def disagreement(got: Array, want: Array, how: str) -> str | None:
    """Return what is wrong with `got`, or None."""
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"got {got.dtype}{list(got.shape)}, expected {want.dtype}{list(want.shape)}"
    how, _, largest = how.partition(" ")
    if how == TABLE:
        return difference(got, want, float(largest or 0))
    dtype = dtype_of_numpy(want.dtype)
    assert dtype is not None
    if how in ("complex", "power"):
        bad = ~_complex_within(got, want, component_of(dtype), float(largest or 0))
    elif not (dtype.is_float or dtype.is_complex):
        bad = got != want
    elif how == "values":
        bad = ~(_same_bits(np.abs(got), np.abs(want), dtype) & ((got == want) | (want != want)))
    elif how == EXACT:
        bad = ~_same_bits(got, want, dtype)
    else:
        bad = ~_within(got, want, dtype, ULPS.get(dtype.name, 1))
    if not bad.any():
        return None
    where = tuple(int(i) for i in np.argwhere(bad)[0])
    return (
        f"{int(bad.sum())} of {bad.size} elements of {dtype} differ ({how}); "
        f"first at {where}: got {got[where]!r}, expected {want[where]!r}"
    )


def _same_bits(got: Array, want: Array, dtype: DType) -> Array:
    if dtype.is_complex:
        part = component_of(dtype)
        return _same_bits(got.real, want.real, part) & _same_bits(got.imag, want.imag, part)
    with np.errstate(all="ignore"):  # a signalling NaN warns when it is converted
        a, b = got.astype(np.float64), want.astype(np.float64)
    same = (a == b) & (np.signbit(a) == np.signbit(b))
    return np.asarray(same | (np.isnan(a) & np.isnan(b)))


def _within(got: Array, want: Array, dtype: DType, ulps: int) -> Array:
    """True where the error of floats is within `ulps`."""
    with np.errstate(all="ignore"):  # a signalling NaN warns when it is converted
        a, b = got.astype(np.float64), want.astype(np.float64)
        close = np.abs(a - b) <= ulps * unit(np.abs(b), dtype)
    both_nan = np.isnan(a) & np.isnan(b)
    return np.asarray(np.where(np.isfinite(a) & np.isfinite(b), close, (a == b) | both_nan))


def largest_angle(z: Array, w: Array) -> float:
    """Return the largest finite |w log z|, for "power N"."""
    with np.errstate(all="ignore"):
        sizes = np.abs(w.astype(np.complex128)) * np.abs(np.log(z.astype(np.complex128)))
    return float(np.max(sizes, initial=0.0, where=np.isfinite(sizes)))


def _complex_within(got: Array, want: Array, part: DType, angle: float) -> Array:
    """True where errors are small beside the number, and the kind of number is the same.

    Small is COMPLEX_ULPS of the larger part, and more after exponentials of up to `angle`. A number
    with an infinite part is infinite, whatever the other part; beside the largest finite number an
    error may make infinity.
    """
    info = np.finfo(part.numpy)
    turned = POWER_ROUNDINGS * angle * float(info.eps) * 2**0.5  # |z| <= sqrt(2) of a part
    with np.errstate(all="ignore"):
        g, w = got.astype(np.complex128), want.astype(np.complex128)
        size = np.maximum(np.abs(w.real), np.abs(w.imag))
        allowed = COMPLEX_ULPS * unit(size, part) + turned * size
        close = (np.abs(g.real - w.real) <= allowed) & (np.abs(g.imag - w.imag) <= allowed)
        edge = float(info.max) * (1 - 2 * COMPLEX_ULPS * float(info.eps) - 2 * turned)
        largest = np.maximum(np.abs(g.real), np.abs(g.imag))
        beyond = (size >= edge) & (largest >= edge)
    infinite, other = np.isinf(w), np.isinf(g)
    lost = np.isnan(w) & ~infinite
    same = np.where(lost, np.isnan(g) & ~other, close)
    return np.asarray(np.where(infinite | other, (infinite & other) | beyond, same))


def unit(size: Array, dtype: DType) -> Array:
    """Return the distance of neighbours of `dtype` at `size`: f32 1.0 -> 2**-23."""
    smallest = 2 - (1 << (dtype.exponent_bits - 1))
    exponent = np.maximum(np.frexp(size)[1] - 1, smallest)
    return np.asarray(np.ldexp(1.0, exponent - dtype.mantissa_bits))
