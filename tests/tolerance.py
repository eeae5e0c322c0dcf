"""Comparison with XLA or the evaluator in tests, by the bounds of `hloc/report/tolerance.py`.

NaN must meet NaN, and an infinity one of the same sign.
"""

from typing import Any

import numpy as np

from hloc.dtypes import dtype_of_numpy
from hloc.report.tolerance import tolerance_of

Array = np.ndarray[Any, np.dtype[Any]]


def difference(got: Array, want: Array) -> str | None:
    """Return what is wrong with `got`, or None if it is close enough to `want`."""
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"got {got.dtype}{list(got.shape)}, expected {want.dtype}{list(want.shape)}"
    dtype = dtype_of_numpy(want.dtype)
    tolerance = None if dtype is None else tolerance_of(dtype)
    if tolerance is None or want.size == 0:
        return _first(got != want, got, want, "must be equal")
    wide = np.complex128 if want.dtype.kind == "c" else np.float64
    a, b = got.astype(wide), want.astype(wide)
    finite = np.isfinite(a) & np.isfinite(b)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    if wide is np.complex128:  # a NaN or infinity in either part
        same |= ~np.isfinite(a) & ~np.isfinite(b)
    largest = float(np.abs(b[finite]).max(initial=0.0))
    with np.errstate(invalid="ignore", over="ignore"):
        close = np.abs(a - b) <= tolerance.rtol * np.abs(b) + tolerance.scale * largest
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
