"""Floats to integers: cut, kept in range, 0 for NaN; in vectors and one by one, on every processor.

Guards run time too: LLVM's own saturating conversions are done element by element on x86.
"""

from __future__ import annotations

import numpy as np
import pytest

import hloc
from hloc.dtypes import DTYPES
from tests.unit.codegen.processors import PROCESSOR

INTEGERS = ("s4", "u4", "s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64")


def numbers(dtype: str) -> np.ndarray:
    """Return values around the ends of all integer types, and an odd number of others."""
    ends = [sign * 2.0**power for power in (3, 4, 7, 8, 15, 16, 31, 32, 63, 64) for sign in (1, -1)]
    near = [np.nextafter(np.float32(x), np.float32(y)) for x in ends for y in (0, 1e30, -1e30)]
    some = [np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 0.5, -0.5, 0.99, -0.99, 1e-40, 1.5, 2.5]
    rest = np.random.default_rng(0).uniform(-300, 300, 26)
    return np.array([*ends, *near, *some, *rest]).astype(DTYPES[dtype].numpy)


@PROCESSOR
@pytest.mark.parametrize("source", ["f32", "f64", "f16", "bf16"])
@pytest.mark.parametrize("target", INTEGERS)
def test_floats_become_integers(source: str, target: str, cpu: str) -> None:
    with np.errstate(over="ignore"):
        x = numbers(source)
    text = (
        f"HloModule m\nENTRY e {{ x = {source}[{x.size}] parameter(0)\n"
        f" ROOT r = {target}[{x.size}] convert(x) }}"
    )
    (found,) = hloc.compile(text, cpu=cpu)(x)
    (expected,) = hloc.evaluate(text, x)
    np.testing.assert_array_equal(found, expected)


def test_single_numbers_become_integers() -> None:
    text = "HloModule m\nENTRY e { x = f32[] parameter(0)\n ROOT r = s32[] convert(x) }"
    compiled = hloc.compile(text)
    for number in numbers("f32"):
        x = np.array(number, np.float32)
        assert compiled(x)[0] == hloc.evaluate(text, x)[0], number
