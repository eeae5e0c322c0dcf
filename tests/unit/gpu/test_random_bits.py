"""rng-bit-generator on GPUs: both algorithms, all widths and shapes, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

from hloc.codegen.gpu.emitters import random_bits
from tests.unit.gpu.simulate import check_bits, compiled, entry


def module(algorithm: str, state: int, bits: str) -> str:
    root = f"(u64[{state}], {bits}) rng-bit-generator(p0), algorithm={algorithm}"
    return entry(f"u64[{state}]", root)


@pytest.mark.parametrize(
    ("algorithm", "state", "bits"),
    [
        ("rng_philox", 2, "u32[1030]"),  # the last counter makes more than there is room for
        ("rng_philox", 3, "u64[3,5]"),
        ("rng_philox", 3, "u8[7]"),
        ("rng_default", 3, "f32[0]"),
        ("rng_three_fry", 2, "u32[5,300]"),  # split along the fastest dimension
        ("rng_three_fry", 2, "u32[6,45]"),  # and along the slowest
        ("rng_three_fry", 2, "u16[7,9]"),  # of odd size
        ("rng_three_fry", 2, "u64[33]"),
        ("rng_three_fry", 2, "u32[]"),
        ("rng_three_fry", 2, "u32[0]"),
    ],
)
def test_bits_and_state_are_those_of_the_evaluator(algorithm: str, state: int, bits: str) -> None:
    """The counter begins right before its low word overflows."""
    text = module(algorithm, state, bits)
    key = np.array([0x0123456789ABCDEF, 2**64 - 2, 7], np.uint64)[:state]
    check_bits(text, [key], random_bits.EMITTER)


def test_a_row_of_threefry_is_spread_over_threads() -> None:
    """[1, n] has one outermost element: what the processor would split is one part."""
    (kernel,) = compiled(module("rng_three_fry", 2, "u32[1,4096]")).kernels
    (function,) = kernel.functions
    assert function.grid[0] * function.threads == 2048
