"""Large transposes, which are written in tiles, move every element to its place."""

from typing import Any

import numpy as np
import pytest

import hloc

TYPES = {"f32": np.float32, "u8": np.uint8, "c64": np.complex64, "s64": np.int64}


def module(dtype: str, dims: tuple[int, ...], order: tuple[int, ...], then: str) -> str:
    sizes = ",".join(str(dims[dim]) for dim in order)
    return f"""HloModule m

ENTRY e {{
  x = {dtype}[{",".join(map(str, dims))}] parameter(0)
  t = {dtype}[{sizes}] transpose(x), dimensions={{{",".join(map(str, order))}}}
  ROOT r = {dtype}[{sizes}] {then}
}}
"""


@pytest.mark.parametrize("dtype", sorted(TYPES))
@pytest.mark.parametrize(
    ("dims", "order"),
    [
        ((64, 64), (1, 0)),
        ((1030, 1100), (1, 0)),
        ((97, 130), (1, 0)),
        ((3, 70, 65), (0, 2, 1)),
        ((70, 3, 65), (2, 1, 0)),
        ((65, 2, 71), (2, 0, 1)),
        ((66, 2, 3, 67), (1, 3, 2, 0)),
    ],
)
def test_each_element_moves_to_its_place(
    dtype: str, dims: tuple[int, ...], order: tuple[int, ...]
) -> None:
    x: np.ndarray[Any, Any] = np.arange(np.prod(dims)).reshape(dims).astype(TYPES[dtype])
    for then in ("copy(t)", "add(t, t)"):
        (got,) = hloc.compile(module(dtype, dims, order, then))(x)
        want = x.transpose(order)
        np.testing.assert_array_equal(got, want if then == "copy(t)" else want + want)
