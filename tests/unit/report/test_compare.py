"""A comparison finds every wrong element, forgives roundings, and names the worst place."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from hloc.dtypes import DTYPES
from hloc.report.compare import Bounds, compare
from hloc.report.tolerance import TOLERANCES

TABLE = Bounds()


def f32(*values: float) -> np.ndarray[Any, Any]:
    return np.array(values, np.float32)


def test_equal_results_are_zero_ulp_apart() -> None:
    found = compare([f32(1, -0.0, np.inf)], [f32(1, 0.0, np.inf)], TABLE)
    assert found.ok
    assert (found.max_ulp, found.max_error, found.elements, found.worst) == (0, 0.0, 3, None)


def test_ulps_are_counted_across_zero() -> None:
    tiny = np.nextafter(np.float32(0), np.float32(1))
    assert compare([f32(tiny)], [f32(-tiny)], TABLE).max_ulp == 2
    one = np.nextafter(np.float32(1), np.float32(2))
    assert compare([f32(one)], [f32(1)], TABLE).max_ulp == 1


def test_the_worst_element_is_named() -> None:
    want = np.zeros((3, 4), np.float32)
    want[0, 0] = 100
    got = want.copy()
    got[1, 2], got[2, 3] = 0.5, 7.0
    found = compare([f32(1), got], [f32(1), want], TABLE)
    assert not found.ok
    assert found.bad == 2
    assert found.worst is not None
    assert (found.worst.output, found.worst.index) == (1, (2, 3))
    assert (found.worst.got, found.worst.want) == ("7.0", "0.0")


def test_nan_equals_nan_and_nothing_else() -> None:
    assert compare([f32(np.nan)], [f32(np.nan)], TABLE).ok
    found = compare([f32(np.nan, 1, 2)], [f32(1, np.nan, 2)], TABLE)
    assert (found.bad, found.nan_mismatches) == (2, 2)


def test_infinities_must_have_the_same_sign() -> None:
    assert not compare([f32(np.inf)], [f32(-np.inf)], TABLE).ok
    assert not compare([f32(3e38)], [f32(np.inf)], TABLE).ok


def test_a_sum_may_be_off_by_the_size_of_its_terms() -> None:
    assert compare([f32(1000, 1e-4)], [f32(1000, 0)], TABLE).ok
    assert not compare([f32(1, 1e-4)], [f32(1, 0)], TABLE).ok


def test_bounds_of_the_user_replace_the_table() -> None:
    got, want = [f32(1.01)], [f32(1.0)]
    assert not compare(got, want, TABLE).ok
    assert compare(got, want, Bounds(rtol=0.02)).ok
    assert compare(got, want, Bounds(atol=0.02)).ok
    assert not compare([f32(1.0000001)], [f32(1)], Bounds(rtol=0.0)).ok


@pytest.mark.parametrize("dtype", [np.int32, np.uint8, np.bool_, ml_dtypes.int4])
def test_integers_and_predicates_are_exact(dtype: Any) -> None:
    want = np.array([0, 1, 1], dtype)
    got = np.array([0, 1, 0], dtype)
    assert compare([want], [want], TABLE).ok
    found = compare([got], [want], TABLE)
    assert found.bad == 1
    assert found.worst is not None
    assert found.worst.index == (2,)


def test_complex_parts_are_compared_apart() -> None:
    want = np.array([1 + 1e6j], np.complex64)
    assert compare([want], [want], TABLE).ok
    assert not compare([np.array([1.1 + 1e6j], np.complex64)], [want], TABLE).ok


def test_scalars_and_empty_arrays_can_be_compared() -> None:
    assert compare([np.array(1.0)], [np.array(1.0)], TABLE).ok
    assert compare([np.zeros((0, 3), np.float32)], [np.zeros((0, 3), np.float32)], TABLE).ok
    assert compare([], [], TABLE).ok


def test_every_float_type_has_a_tolerance_with_a_reason() -> None:
    wanted = {name for name, dtype in DTYPES.items() if dtype.is_float or dtype.is_complex}
    assert set(TOLERANCES) == wanted
    assert all(row.why for row in TOLERANCES.values())


@pytest.mark.parametrize("name", [n for n, d in DTYPES.items() if d.is_float])
def test_all_float_types_are_compared(name: str) -> None:
    """A wrong sign is found in every type, and equal values are equal."""
    dtype = DTYPES[name].numpy
    want = np.array([1.0, 2.0], np.float32).astype(dtype)
    assert compare([want], [want], TABLE).ok
    assert not compare([want[::-1].copy()], [want], TABLE).ok
