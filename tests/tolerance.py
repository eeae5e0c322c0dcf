"""How close results must be in tests: no test body holds a bound of its own.

`assert_close` compares whole programs with XLA or the evaluator, within the product's own table,
`hloc/report/tolerance.py`. `bounds` and `bounds_of` name rows for tests of single computations,
which can ask for more. NaN must meet NaN, and an infinity one of the same sign.
"""

from typing import Any, NamedTuple, TypedDict

import ml_dtypes
import numpy as np

from hloc.dtypes import component_of, dtype_of_numpy
from hloc.report.tolerance import tolerance_of

Array = np.ndarray[Any, np.dtype[Any]]


ROUNDED_PRODUCTS = 8
"""Products that one sum may take rounded here and exact there, by half a unit each."""


def difference(got: Array, want: Array, product: float = 0.0) -> str | None:
    """Return what is wrong with `got`, or None if it is close enough to `want`.

    `product` is the largest product on the way to the result: where such products cancel, a
    multiplication and an addition in one instruction give another number than in two.
    """
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"got {got.dtype}{list(got.shape)}, expected {want.dtype}{list(want.shape)}"
    dtype = dtype_of_numpy(want.dtype)
    tolerance = None if dtype is None else tolerance_of(dtype)
    if dtype is None or tolerance is None or want.size == 0:
        return _first(got != want, got, want, "must be equal")
    wide = np.complex128 if want.dtype.kind == "c" else np.float64
    with np.errstate(invalid="ignore"):  # a signalling NaN warns when it is converted
        a, b = got.astype(wide), want.astype(wide)
    finite = np.isfinite(a) & np.isfinite(b)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    if wide is np.complex128:  # a NaN or infinity in either part
        same |= ~np.isfinite(a) & ~np.isfinite(b)
    largest = float(np.abs(b[finite]).max(initial=0.0))
    unit = 2.0 ** -component_of(dtype).mantissa_bits
    cancelled = ROUNDED_PRODUCTS * unit / 2 * product
    with np.errstate(invalid="ignore", over="ignore"):
        allowed = tolerance.rtol * np.abs(b) + tolerance.scale * largest + cancelled
        close = np.abs(a - b) <= allowed
    bounds = f"rtol {tolerance.rtol:g}, scale {tolerance.scale:g} of {largest:g}"
    return _first(~(same | (finite & close)), got, want, bounds)


def _first(bad: Array, got: Array, want: Array, bounds: str) -> str | None:
    count = int(np.count_nonzero(bad))
    if count == 0:
        return None
    where = tuple(int(i) for i in np.argwhere(bad)[0])
    return (
        f"{count} of {want.size} elements differ ({bounds}); "
        f"first at {where}: got {got[where]}, expected {want[where]}"
    )


def assert_close(got: Array, want: Array, label: str = "result") -> None:
    """Fail with the first differing element unless `got` is close enough to `want`."""
    fault = difference(got, want)
    assert fault is None, f"{label}: {fault}"


class Bounds(TypedDict):
    """Keywords of `numpy.testing.assert_allclose`: |got - want| <= atol + rtol * |want|."""

    rtol: float
    atol: float


class Row(NamedTuple):
    """Bounds with the computation that they are for."""

    rtol: float
    atol: float
    why: str


ROWS: dict[str, Row] = {
    "exact": Row(0, 0, "values are moved, chosen or sorted"),
    "f64 function": Row(2e-15, 1e-323, "nine ulp of f64; the last subnormals may be off by one"),
    "f64 special": Row(1e-14, 0, "f64 functions and sums of four terms, 45 ulp"),
    "f64 sum": Row(1e-12, 0, "sums of some ten terms in another order; terms may cancel"),
    "f64 factors": Row(0, 1e-11, "factors of matrices near 1, in LAPACK's and in our order"),
    "f32 one rounding": Row(1e-7, 0, "a sum that is taken in f64 and rounded once, 6e-8"),
    "f32 few roundings": Row(1e-6, 0, "at most sixteen roundings of f32, 6e-8 each"),
    "f32 elsewhere": Row(2e-6, 1e-30, "another machine fuses other multiplications and additions"),
    "f32 one sign": Row(1e-5, 0, "nothing cancels: each of a hundred roundings counts once"),
    "f32 short sum": Row(1e-5, 1e-6, "sums of some ten terms near 1 in another order"),
    "f32 function": Row(1e-5, 1e-5, "functions and transforms of up to seventy values near 1"),
    "f32 prefix sum": Row(1e-5, 1e-4, "sums of a hundred terms, partial sums up to a hundred"),
    "f32 long sum": Row(3e-5, 0, "50,000 equal terms in parts, each part in sequence"),
    "f32 program": Row(1e-4, 1e-5, "products and functions one after the other"),
    "f32 sum": Row(1e-4, 1e-4, "some hundred normal terms that cancel: error of the partial sums"),
    "f32 sum near 1": Row(1e-7, 1e-4, "the same, for a few results of which none is large"),
    "f32 transform": Row(1e-4, 2e-4, "Fourier transforms of up to 360 values near 1"),
    "f32 there and back": Row(1e-7, 1e-5, "a transform and its inverse, values near 1"),
    "f32 products": Row(1e-4, 1e-3, "a thousand products that cancel, partial sums up to 100"),
    "complex part": Row(0, 1e-6, "a part that should be 0, beside one near 1"),
    "f32 solution": Row(1e-3, 1e-3, "the condition of a matrix, up to 1,000, times one rounding"),
    "f32 factors": Row(0, 2e-4, "factors of matrices near 1, in LAPACK's and in our order"),
    "f32 tiled solution": Row(2e-4, 1e-5, "matrices with a strong diagonal"),
    "f32 residual": Row(1e-3, 1e-4, "a solution multiplied by its matrix again"),
    "f32 gamma": Row(2.4e-5, 2.4e-5, "series of gamma and erfc cancel near zeros: 200 ulp of 1"),
    "f64 gamma": Row(5e-14, 5e-14, "series of gamma and erfc cancel near zeros: 200 ulp of 1"),
    "PyTorch": Row(2e-4, 2e-5, "sums of some hundred terms in another order, values near 1"),
    "PyTorch training": Row(1e-3, 1e-4, "the same after three steps, each with its gradient"),
    "numeric derivative": Row(1e-3, 1e-4, "the step of the difference, not the computation"),
    "bf16 one rounding": Row(2.0**-8, 0, "half an ulp of bf16"),
    "bf16 exact products": Row(1e-5, 1e-4, "products of bf16 are exact in f32; then f32 sums"),
    "bf16 result": Row(1e-2, 1e-2, "one ulp of bf16, 8e-3"),
    "bf16 convolution": Row(1e-2, 5e-2, "one ulp of bf16 of a sum of 360 terms"),
    "narrow sum": Row(1e-2, 1e-1, "one ulp of bf16 of a sum of some hundred terms"),
    "narrow products": Row(2e-2, 0.2, "two ulp of bf16 of a sum of up to a thousand products"),
}
"""By computation. A row says where its numbers come from; none is widened to make a test pass."""


def bounds(name: str) -> Bounds:
    """Return the bounds of a row of `ROWS`."""
    row = ROWS[name]
    return {"rtol": row.rtol, "atol": row.atol}


class ByType(NamedTuple):
    """One number per element type, for both bounds; `others` for types without one."""

    numbers: dict[str, float]
    others: float
    why: str


BY_TYPE: dict[str, ByType] = {
    "elementwise": ByType(
        {"f32": 1e-4, "f64": 1e-9, "bf16": 0.02, "f16": 0.005, "c64": 1e-3, "f8e4m3fn": 0.15},
        1e-5,
        "functions near their poles and zeros, where one ulp of the argument is many of the result",
    ),
    "softmax": ByType(
        {"f32": 1e-6, "f64": 1e-14, "bf16": 1e-2, "f16": 2e-3},
        0,
        "a sum of at most 65 positive terms, an exponential and a division",
    ),
    "repeated rows": ByType(
        {"f32": 1e-6, "f64": 1e-14, "bf16": 0.0}, 0, "few roundings; bf16 in the same places"
    ),
    "dot": ByType(
        {"bf16": 0.05, "f16": 0.02, "f8e4m3fn": 0.3, "f32": 1e-4, "f64": 1e-12, "c64": 1e-4},
        0,
        "33 products that cancel, narrow types rounded to the type at the end",
    ),
    "convolution": ByType(
        {"bf16": 0.1, "f64": 1e-12}, 1e-3, "products that cancel, partial sums up to a hundred"
    ),
}
"""By computation and element type; integers are compared exactly in any case."""


def bounds_of(name: str, dtype: str) -> Bounds:
    """Return the bounds of a row of `BY_TYPE` for an element type."""
    row = BY_TYPE[name]
    number = row.numbers.get(dtype, row.others)
    return {"rtol": number, "atol": number}


_ROUNDINGS = 8
"""Roundings per element of a row that a factorisation by reflections or eliminations may cost."""


def assert_factored(got: Array, want: Array, dtype: Any, size: int) -> None:
    """Fail unless `got`, made of factors of matrices of `size` in `dtype`, is close to `want`.

    The bound of a backward stable factorisation: a few roundings times the size, of the largest
    element, and of 1 at least.
    """
    known = dtype_of_numpy(np.dtype(dtype))
    assert known is not None
    epsilon = float(ml_dtypes.finfo(known.numpy).eps)  # type: ignore[no-untyped-call]
    scale = max(1.0, float(np.max(np.abs(want), initial=0.0)))
    error = float(np.max(np.abs(got - want), initial=0.0))
    assert error <= _ROUNDINGS * size * epsilon * scale, f"{error:g} of {scale:g}"
