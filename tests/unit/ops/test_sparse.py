"""Sparse custom calls: the products are those of the dense matrices, evaluated and compiled."""

from typing import Any

import numpy as np
import pytest

import hloc
from hloc.errors import HloError

TYPES = {"f32": np.float32, "f64": np.float64, "s32": np.int32, "c64": np.complex64}


def program(t: str, rows: int, size: int, right: str, result: str) -> str:
    return f"""HloModule m
ENTRY e {{
  values = {t}[{size}] parameter(0)
  starts = s32[{rows + 1}] parameter(1)
  columns = s32[{size}] parameter(2)
  right = {t}[{right}] parameter(3)
  ROOT y = {t}[{result}] custom-call(values, starts, columns, right),
    custom_call_target="cpu_csr_sparse_dense_ffi", api_version=API_VERSION_TYPED_FFI
}}"""


def both_ways(text: str, *arrays: Any) -> list[Any]:
    (evaluated,), (compiled,) = hloc.evaluate(text, *arrays), hloc.compile(text)(*arrays)
    np.testing.assert_array_equal(evaluated, compiled)
    return [evaluated]


@pytest.mark.parametrize("t", TYPES)
@pytest.mark.parametrize("k", [(), (4,)])
def test_products_are_those_of_the_dense_matrix(t: str, k: tuple[int, ...]) -> None:
    random = np.random.default_rng(0)
    dense = np.where(random.random((7, 5)) < 0.4, random.integers(-9, 9, (7, 5)), 0)
    dense[2] = 0  # an empty row
    dense = dense.astype(TYPES[t])
    rows, columns = np.nonzero(dense)
    starts = np.searchsorted(rows, np.arange(8)).astype(np.int32)
    values = np.append(dense[rows, columns], dense[:1, 0])  # one of padding at the end
    right = random.integers(-9, 9, (5, *k)).astype(TYPES[t])
    text = program(t, 7, len(values), ",".join(map(str, (5, *k))), ",".join(map(str, (7, *k))))
    places = np.append(columns, 0).astype(np.int32)
    (found,) = both_ways(text, values, starts, places, right)
    np.testing.assert_array_equal(found, dense @ right)  # of small integers, so exact


def test_columns_and_ends_that_do_not_exist_are_not_read() -> None:
    values, right = np.ones(3, np.float32), np.ones(2, np.float32)
    columns, starts = np.array([0, 9, -1], np.int32), np.array([0, 2, 99], np.int32)
    (found,) = both_ways(program("f32", 2, 3, "2", "2"), values, starts, columns, right)
    np.testing.assert_array_equal(found, [1, 0])


def test_other_shapes_are_refused() -> None:
    with pytest.raises(HloError, match="not known with these shapes"):
        hloc.compile(program("f32", 2, 3, "2", "3"))
