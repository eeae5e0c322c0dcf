"""The comparison itself: a table that accepts everything would make every other test blind."""

import ast
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from hloc.dtypes import DTYPES
from hloc.report.tolerance import TOLERANCES
from tests.tolerance import BY_TYPE, ROWS, Array, assert_close, difference

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


TESTS = Path(__file__).parent
OWN = {"tolerance.py", "test_compare.py"}  # the table, and the test of the comparison itself


def test_no_test_body_holds_a_bound_of_its_own() -> None:
    """Rows have names and reasons, so that nobody widens a number where it is used."""
    found = []
    for file in sorted(TESTS.rglob("*.py")):
        if file.name in OWN or not any(word in file.read_text() for word in ("rtol", "atol")):
            continue
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.keyword) and node.arg in ("rtol", "atol"):
                numbers = (n for n in ast.walk(node.value) if isinstance(n, ast.Constant))
                if any(isinstance(n.value, float) for n in numbers):
                    found.append(f"{file.relative_to(TESTS)}:{node.value.lineno}")
    assert not found, f"a bound belongs in tests/tolerance.py: {', '.join(found)}"


def test_every_row_is_used() -> None:
    texts = [file.read_text() for file in TESTS.rglob("*.py") if file.name not in OWN]
    unused = [name for name in (*ROWS, *BY_TYPE) if not any(f'"{name}"' in t for t in texts)]
    assert not unused
