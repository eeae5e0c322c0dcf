"""Errors of elementary functions stay within the bounds of the table in benchmarks/accuracy.py.

Every bf16 and f16 value and dense samples of f32 and f64, machine code against NumPy in a wider
type; docs/accuracy.md is made from the same code with more samples.
"""

import numpy as np
import pytest

from benchmarks.accuracy import (
    FUNCTIONS,
    PAGE,
    Function,
    errors_in_ulp,
    run_hloc,
    samples,
    worst_error,
)
from hloc.dtypes import BF16, F16, F32, F64, DType

QUICK, MANY = 20_000, 1 << 20
TYPES = (F32, BF16, F16)


def check(function: Function, dtype: DType, count: int, opt_level: int) -> None:
    arrays = samples(function, dtype, count)
    worst = worst_error(function, dtype, run_hloc(function, dtype, arrays, opt_level), arrays)
    bound = function.bounds[dtype.name]
    assert worst.ulp <= bound, f"{worst.ulp} ulp at {worst.at}, {bound} are promised"


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.opcode)
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_errors_are_within_the_bounds(function: Function, dtype: DType) -> None:
    check(function, dtype, QUICK, 2)


@pytest.mark.slow
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.opcode)
@pytest.mark.parametrize("dtype", [*TYPES, F64], ids=str)
@pytest.mark.parametrize("opt_level", [0, 2])
def test_errors_of_many_values(function: Function, dtype: DType, opt_level: int) -> None:
    check(function, dtype, MANY, opt_level)


def test_an_error_of_one_unit_is_seen() -> None:
    one = np.ones(1, np.float32)
    next_one = np.nextafter(one, np.float32(2))
    assert errors_in_ulp(next_one, one.astype(np.float64), F32)[0] == 1
    assert errors_in_ulp(one, np.array([np.nan]), F32)[0] == np.inf
    assert errors_in_ulp(np.array([np.inf], np.float32), np.array([-1e39]), F32)[0] > 1e6
    assert errors_in_ulp(np.array([np.inf], np.float32), np.array([1e39]), F32)[0] == 0
    tiny = np.array([2.0**-149], np.float32)
    assert errors_in_ulp(tiny * 0, tiny.astype(np.float64), F32)[0] == 1


def test_the_page_names_every_function() -> None:
    text = PAGE.read_text()
    assert [f.opcode for f in FUNCTIONS if f"| {f.opcode} |" not in text] == []
