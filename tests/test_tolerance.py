"""The comparison itself: a table that accepts everything would make every other test blind."""

import ml_dtypes
import numpy as np
import pytest

from hloc.dtypes import DTYPES
from hloc.report.tolerance import TOLERANCES
from tests.tolerance import Array, assert_close, difference

NAN, INF = float("nan"), float("inf")


def f32(values: list[float]) -> Array:
    return np.array(values, np.float32)


def c64(value: complex) -> Array:
    return np.array([value], np.complex64)


def test_every_inexact_element_type_has_a_row() -> None:
    rows = {d.name for d in DTYPES.values() if d.is_float or d.is_complex}
    assert rows == set(TOLERANCES)


@pytest.mark.parametrize(
    ("got", "want"),
    [
        ([1.0], [1.001]),
        ([NAN], [1.0]),
        ([1.0], [NAN]),
        ([INF], [-INF]),
        ([INF], [3e38]),
        ([0.0, 1.0], [1e-4, 1.0]),
    ],
)
def test_different_floats_differ(got: list[float], want: list[float]) -> None:
    assert difference(f32(got), f32(want)) is not None


@pytest.mark.parametrize(
    ("got", "want"),
    [([1.000001], [1.0]), ([NAN], [NAN]), ([INF], [INF]), ([1e-4, 1e3], [0.0, 1e3]), ([], [])],
)
def test_close_floats_agree(got: list[float], want: list[float]) -> None:
    assert_close(f32(got), f32(want))


def test_integers_and_predicates_are_exact() -> None:
    assert difference(np.array([1, 2]), np.array([1, 3])) == (
        "1 of 2 elements differ (must be equal); first at (1,): got 2, expected 3"
    )
    assert difference(np.array([True]), np.array([False])) is not None
    assert difference(np.array([2**62 + 1]), np.array([2**62])) is not None


def test_type_and_shape_must_agree() -> None:
    assert difference(np.zeros(2, np.float32), np.zeros(2)) == "got float32[2], expected float64[2]"
    assert difference(np.zeros((2, 1)), np.zeros((1, 2))) is not None


def test_small_floats_are_compared_as_values() -> None:
    bf16 = ml_dtypes.bfloat16
    assert_close(np.array([1.0], bf16), np.array([1.0078125], bf16))
    assert difference(np.array([1.0], bf16), np.array([1.0625], bf16)) is not None


def test_complex_parts() -> None:
    assert_close(c64(1 + 2j), c64(1 + 2.00001j))
    assert difference(c64(1 + 2j), c64(1 - 2j)) is not None
