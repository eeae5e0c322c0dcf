"""Outputs are used again only when nobody can see it."""

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import hloc
from hloc.runtime.recycling import Recycler

DOUBLE = """
HloModule m
ENTRY e {
  x = f32[1000] parameter(0)
  ROOT y = f32[1000] add(x, x)
}
"""

TRANSPOSED = """
HloModule m
ENTRY e {
  x = f32[3,5] parameter(0)
  ROOT y = f32[3,5]{0,1} add(x, x)
}
"""


def test_a_dropped_array_comes_back() -> None:
    recycler = Recycler((8,), np.dtype("f4"))
    array, address = recycler.take()
    del array
    _array, again = recycler.take()
    assert again == address


def test_held_arrays_are_never_handed_out_again() -> None:
    recycler = Recycler((8,), np.dtype("f4"))
    held = [recycler.take() for _ in range(5)]
    assert len({address for _, address in held}) == 5


@pytest.mark.parametrize("dims", [(257,), (3, 1000), (64, 64)])
def test_larger_arrays_begin_at_a_cache_line(dims: tuple[int, ...]) -> None:
    recycler = Recycler(dims, np.dtype("f4"))
    held = [recycler.take() for _ in range(4)]
    assert all(address % 64 == 0 == array.ctypes.data % 64 for array, address in held)
    assert all(array.shape == dims and array.flags.c_contiguous for array, _ in held)


@pytest.mark.parametrize(
    "hold",
    [
        lambda y: y,
        lambda y: y[3:5],
        lambda y: y.T,
        memoryview,
        lambda y: y.view(np.int32),
        lambda y: (y.__array_interface__, y),
        lambda y: np.from_dlpack(y),
    ],
    ids=["itself", "slice", "transpose", "memoryview", "view", "interface", "dlpack"],
)
@pytest.mark.parametrize("text", [DOUBLE, TRANSPOSED, TRANSPOSED.replace("3,5", "30,50")])
def test_a_result_does_not_change_while_somebody_holds_it(
    text: str, hold: Callable[[Any], Any]
) -> None:
    executable = hloc.compile(text)
    shape = executable.parameters[0].dims
    (y,) = executable(np.ones(shape, np.float32))
    held = hold(y)
    del y
    before = np.array(held[1] if isinstance(held, tuple) else held).copy()
    for i in range(4):
        executable(np.full(shape, float(i), np.float32))
    after = np.array(held[1] if isinstance(held, tuple) else held)
    assert np.array_equal(before, after)


def test_a_chain_of_calls_reads_what_the_last_call_wrote() -> None:
    executable = hloc.compile(DOUBLE)
    x = np.ones(1000, np.float32)
    for _ in range(10):
        (x,) = executable(x)
    assert np.array_equal(x, np.full(1000, 1024.0, np.float32))


@pytest.mark.skipif(not getattr(sys, "_is_gil_enabled", lambda: True)(), reason="nothing is kept")
def test_results_that_are_dropped_use_the_same_memory() -> None:
    executable = hloc.compile(DOUBLE)
    x = np.ones(1000, np.float32)
    addresses = {executable(x)[0].ctypes.data for _ in range(20)}
    assert len(addresses) <= 2
