"""Comparison of results with expected ones, element by element, with the worst element named.

Errors of floats are told in ulp: units in the last place of the wanted element, or of a thousandth
of the largest one of its output if that is larger, since units of an element that almost vanishes
because terms cancel would mean nothing. Errors that are compared with what rounding explains are
counted in steps: units in the last place of the wanted element itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from hloc.dtypes import Array, DType, component_of, dtype_of_numpy
from hloc.lazy_dataclass import dataclass
from hloc.report.tolerance import Tolerance, tolerance_of


@dataclass(frozen=True, slots=True)
class Bounds:
    """Bounds set by the user; None takes those of the table."""

    rtol: float | None = None
    atol: float | None = None

    def allowed(self, want: Array, tolerance: Tolerance) -> Array:
        """Return the allowed absolute error of each element of `want`."""
        size = np.abs(want)
        if self.rtol is None and self.atol is None:
            finite = size[np.isfinite(size)]
            return tolerance.rtol * size + tolerance.scale * float(finite.max(initial=0.0))
        return (self.rtol or 0.0) * size + (self.atol or 0.0)


@dataclass(frozen=True, slots=True)
class Difference:
    """An element of an output that has one value and should have another."""

    output: int
    index: tuple[int, ...]
    got: str
    want: str

    @property
    def place(self) -> str:
        """Return `out0[3,5]`."""
        index = ",".join(map(str, self.index))
        return f"out{self.output}" + (f"[{index}]" if index else "")


@dataclass(frozen=True, slots=True)
class Comparison:
    """The result of a comparison of all outputs.

    Attributes:
        bad: number of elements outside the bounds.
        nan_mismatches: NaN in one of the two only.
        nans: NaN in both.
        max_ulp: largest error in ulp, over finite floats.
        max_error: largest absolute error, over finite floats.
        worst: the element that exceeds its bound most, None if none does.
    """

    elements: int
    bad: int
    nan_mismatches: int
    nans: int
    max_ulp: int
    max_error: float
    worst: Difference | None

    @property
    def ok(self) -> bool:
        return self.bad == 0


@dataclass(frozen=True, slots=True)
class Distance(Difference):
    """The element of one output of floats where two results are furthest apart.

    Attributes:
        ulp, steps: how far; infinity if only one of the two is a number, or they are different
            infinities.
    """

    ulp: float
    steps: float


@dataclass(frozen=True, slots=True)
class _Output:
    """The comparison of one array; `excess` is the error of the worst element above its bound."""

    bad: int
    nan_mismatches: int
    nans: int
    max_ulp: int
    max_error: float
    excess: float
    index: tuple[int, ...]


def compare(got: Sequence[Array], want: Sequence[Array], bounds: Bounds) -> Comparison:
    """Compare two lists of arrays of the same types and shapes; NaN equals NaN."""
    outputs = [_compare_array(g, w, bounds) for g, w in zip(got, want, strict=True)]
    worst = None
    if any(o.bad for o in outputs):
        number = max(range(len(outputs)), key=lambda i: (outputs[i].bad > 0, outputs[i].excess))
        index = outputs[number].index
        worst = Difference(number, index, str(got[number][index]), str(want[number][index]))
    return Comparison(
        elements=sum(w.size for w in want),
        bad=sum(o.bad for o in outputs),
        nan_mismatches=sum(o.nan_mismatches for o in outputs),
        nans=sum(o.nans for o in outputs),
        max_ulp=max((o.max_ulp for o in outputs), default=0),
        max_error=max((o.max_error for o in outputs), default=0.0),
        worst=worst,
    )


def distance_at(number: int, pair: tuple[Array, Array], flat: int) -> Distance:
    """Return element `flat`, in row-major order, of the two results of output `number`."""
    got, want = pair
    index = tuple(int(i) for i in np.unravel_index(flat, want.shape))
    ulp, steps = float(ulps_apart(got, want)[index]), float(steps_apart(got, want)[index])
    return Distance(number, index, str(got[index]), str(want[index]), ulp, steps)


def ulps_apart(got: Array, want: Array) -> Array:
    """Return the distance of the elements in ulp, in f64."""
    return _apart(got, want, _ulp_sizes)


def steps_apart(got: Array, want: Array) -> Array:
    """Return the distance of the elements in steps, in f64."""
    return _apart(got, want, lambda sizes: sizes)


def _apart(got: Array, want: Array, sizes_of: Callable[[Array], Array]) -> Array:
    """Return the distance in units in the last place of `sizes_of` the finite wanted elements."""
    got, want = np.asarray(got), np.asarray(want)
    dtype = dtype_of_numpy(want.dtype)
    assert dtype is not None
    if dtype.is_complex:
        parts = (_apart(got.real, want.real, sizes_of), _apart(got.imag, want.imag, sizes_of))
        return np.asarray(np.maximum(*parts))
    a, b = got.astype(np.float64), want.astype(np.float64)
    finite = np.isfinite(a) & np.isfinite(b)
    with np.errstate(invalid="ignore", over="ignore"):
        error = np.where(finite, np.abs(a - b), 0.0)
    units = _in_units(error, sizes_of(np.where(finite, np.abs(b), 0.0)), dtype)
    same = finite | (a == b) | (np.isnan(a) & np.isnan(b))
    return np.where(same, units, np.inf)


def _compare_array(got: Array, want: Array, bounds: Bounds) -> _Output:
    dtype = dtype_of_numpy(want.dtype)
    assert dtype is not None
    assert got.dtype == want.dtype
    assert got.shape == want.shape
    if dtype.is_complex:
        return _merge(
            _compare_floats(got.real, want.real, dtype, bounds),
            _compare_floats(got.imag, want.imag, dtype, bounds),
        )
    if dtype.is_float:
        return _compare_floats(got, want, dtype, bounds)
    return _compare_exact(got, want)


def _merge(real: _Output, imag: _Output) -> _Output:
    worse = max(real, imag, key=lambda o: (o.bad > 0, o.excess))
    return _Output(
        real.bad + imag.bad,
        real.nan_mismatches + imag.nan_mismatches,
        real.nans + imag.nans,
        max(real.max_ulp, imag.max_ulp),
        max(real.max_error, imag.max_error),
        worse.excess,
        worse.index,
    )


def _compare_exact(got: Array, want: Array) -> _Output:
    wrong = got != want
    bad = int(np.count_nonzero(wrong))
    index = tuple(int(i) for i in np.argwhere(wrong)[0]) if bad else ()
    return _Output(bad, 0, 0, 0, 0.0, float(bad), index)


def _compare_floats(got: Array, want: Array, dtype: DType, bounds: Bounds) -> _Output:
    """Compare real numbers, or parts of complex ones if `dtype` is complex."""
    if want.size == 0:
        return _Output(0, 0, 0, 0, 0.0, 0.0, ())
    a, b = got.astype(np.float64), want.astype(np.float64)
    tolerance = tolerance_of(dtype)
    assert tolerance is not None, f"no tolerance for {dtype}"
    nan_differs = np.isnan(a) != np.isnan(b)
    finite = np.isfinite(a) & np.isfinite(b)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    with np.errstate(invalid="ignore", over="ignore"):
        error = np.where(finite, np.abs(a - b), 0.0)
        allowed = np.where(finite, bounds.allowed(b, tolerance), 0.0)
    excess = np.where(finite, error - allowed, np.inf)
    excess[same] = -np.inf
    wrong = ~same & (~finite | (error > allowed))
    where = np.unravel_index(int(np.argmax(excess)), excess.shape)
    return _Output(
        int(np.count_nonzero(wrong)),
        int(np.count_nonzero(nan_differs)),
        int(np.count_nonzero(np.isnan(a) & np.isnan(b))),
        _max_ulp(error, np.where(finite, np.abs(b), 0.0), component_of(dtype)),
        float(error.max()),
        float(excess.max()),
        tuple(int(i) for i in where),
    )


def _max_ulp(error: Array, size: Array, dtype: DType) -> int:
    """Return the largest of `error` in ulp of elements of `size`."""
    ulps = _in_units(error, _ulp_sizes(size), dtype)
    return math.ceil(min(float(ulps.max(initial=0.0)), 1e18))


def _ulp_sizes(size: Array) -> Array:
    """Return the sizes of which an ulp of elements of `size` is a unit in the last place."""
    return np.asarray(np.maximum(size, size.max(initial=0.0) / 1024))


def _in_units(error: Array, size: Array, dtype: DType) -> Array:
    """Return `error` in units in the last place of numbers of `size`."""
    smallest_exponent = 2 - (1 << (dtype.exponent_bits - 1))
    exponent = np.maximum(np.frexp(size)[1] - 1, smallest_exponent)
    with np.errstate(over="ignore"):
        return np.asarray(np.ldexp(error, dtype.mantissa_bits - exponent))
