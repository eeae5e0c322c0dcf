"""fmod in lanes: exact for all pairs, also where the quotient has more digits than a float."""

from __future__ import annotations

import numpy as np
import pytest

import hloc
from tests.unit.codegen.processors import PROCESSOR

SIZE = 5003


@PROCESSOR
@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("spread", [3, 40, 120, 1000])
def test_remainders(dtype: str, spread: int, cpu: str) -> None:
    kind, most = (np.float32, 126) if dtype == "f32" else (np.float64, 1022)
    rng = np.random.default_rng(spread)
    power = min(spread, most)
    x, y = (
        (rng.standard_normal(SIZE) * 2.0 ** rng.integers(-power, power, SIZE)).astype(kind)
        for _ in range(2)
    )
    x[: SIZE // 4] = np.round(x[: SIZE // 4])  # whole quotients
    y[: SIZE // 4] = np.sign(y[: SIZE // 4]) * np.maximum(1, np.round(np.abs(y[: SIZE // 4])))
    least = np.finfo(kind).smallest_subnormal
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, least, np.finfo(kind).max, 1.0, -3.0])
    x[-81:], y[-81:] = np.repeat(special, 9), np.tile(special, 9)
    text = f"""HloModule m
ENTRY e {{
  x = {dtype}[{SIZE}] parameter(0)
  y = {dtype}[{SIZE}] parameter(1)
  ROOT r = {dtype}[{SIZE}] remainder(x, y)
}}"""
    (found,) = hloc.compile(text, cpu=cpu)(x, y)
    with np.errstate(all="ignore"):
        expected = np.fmod(x, y)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(
        np.signbit(found[~np.isnan(found)]), np.signbit(expected[~np.isnan(found)])
    )
