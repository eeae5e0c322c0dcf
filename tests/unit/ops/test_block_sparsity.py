"""Convolutions with sparse operands: places in blocks, both spellings, what does not fit."""

# One line per instruction, however long.
# ruff: noqa: E501

from __future__ import annotations

import numpy as np
import pytest

import hloc
from hloc.errors import HloError

SPARSE = """HloModule m

ENTRY e {
  x = s32[2,8] parameter(0)
  k = s32[2,3] parameter(1)
  p = s32[2,3] parameter(2)
  ROOT y = s32[2,3] convolution(x, k, p), dim_labels=bf_io->bf, sparsity_config={rhs={sparsity=1x4 dimension=0 stride=1 idx=2}}
}
"""
TUPLE = """HloModule m

ENTRY e {
  x = s32[2,8] parameter(0)
  k = s32[2,3] parameter(1)
  p = s32[2,3] parameter(2)
  t = (s32[2,3], s32[2,3]) tuple(k, p)
  ROOT y = s32[2,3] convolution(x, t), dim_labels=bf_io->bf, sparsity_config={rhs={sparsity=1x4 dimension=0 stride=1}}
}
"""
BOTH = """HloModule m

ENTRY e {
  x = f64[1,5,2,2] parameter(0)
  k = f64[2,3,2,6] parameter(1)
  q = u8[1,5,2,2] parameter(2)
  p = s64[2,3,2,6] parameter(3)
  ROOT y = f64[1,4,2,6] convolution(x, k, p, q), window={size=2x3 pad=0_0x0_0}, dim_labels=b01f_01io->b01f, sparsity_config={lhs={sparsity=1x2 dimension=2 stride=1 idx=3} rhs={sparsity=1x1 dimension=0 stride=1 idx=2}}
}
"""


def whole(values: np.ndarray, places: np.ndarray, block: int, dim: int) -> np.ndarray:
    """Write each value at its place."""
    dims = list(values.shape)
    dims[dim] *= block
    found = np.zeros(dims, values.dtype)
    for index in np.ndindex(*values.shape):
        if 0 <= places[index] < block:
            at = list(index)
            at[dim] = at[dim] * block + int(places[index])
            found[tuple(at)] = values[index]
    return found


@pytest.mark.parametrize("text", [SPARSE, TUPLE], ids=["operands", "tuple"])
@pytest.mark.parametrize("level", range(4))
def test_a_value_stands_at_its_place_in_the_block(text: str, level: int) -> None:
    rng = np.random.default_rng(3)
    x = rng.integers(-9, 9, (2, 8), np.int32)
    k = rng.integers(-9, 9, (2, 3), np.int32)
    p = np.array([[1, 0, 3], [2, 2, 4]], np.int32)  # the last is outside of its block
    (found,) = hloc.compile(text, opt_level=level)(x, k, p)
    np.testing.assert_array_equal(found, x @ whole(k, p, 4, 0))
    np.testing.assert_array_equal(hloc.evaluate(text, x, k, p)[0], found)


def test_both_sides_and_blocks_of_one() -> None:
    text = (
        BOTH.replace("convolution(x, k, p, q)", "convolution(x, k, q, p)")
        .replace("dimension=2 stride=1 idx=3", "dimension=2 stride=1 idx=2")
        .replace("stride=1 idx=2}}", "stride=1 idx=3}}")
    )
    rng = np.random.default_rng(4)
    x, k = (rng.integers(-5, 5, s).astype(np.float64) for s in ((1, 5, 2, 2), (2, 3, 2, 6)))
    q = rng.integers(0, 2, x.shape).astype(np.uint8)
    p = np.zeros(k.shape, np.int64)
    dense = whole(x, q, 2, 2)
    expected = np.zeros((1, 4, 2, 6))
    for row in range(4):
        for column in range(2):
            part = dense[0, row : row + 2, column : column + 3]
            expected[0, row, column] = np.einsum("abi,abio->o", part, k)
    for level in (0, 2):
        (found,) = hloc.compile(text, opt_level=level)(x, k, q, p)
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("idx=2", "idx=3", r"operands \[2\] behind the first two do not match"),
        ("idx=2", "idx=1", r"operands \[2\] behind the first two do not match"),
        ("sparsity=1x4", "sparsity=2x4", "one element of each block can be stored"),
        ("stride=1", "stride=2", "with stride 2"),
        ("dimension=0", "dimension=2", "dimension 2 of s32"),
        ("p = s32[2,3]", "p = f32[2,3]", "its places are integers"),
        ("p = s32[2,3]", "p = s32[3,2]", "its places are integers"),
        ("sparsity=1x4", "sparsity=1x999999999999999", "too many elements"),
        ("sparsity=1x4", "sparsity=1x2", "8 input features do not match 4"),
        ("(x, k, p)", "(x, k)", "do not match idx="),
        ("(x, k, p)", "(x)", "expects at least 2 operands, but has 1"),
        (", sparsity_config={rhs={sparsity=1x4 dimension=0 stride=1 idx=2}}", "",
         r"operands \[2\] behind the first two"),
    ],
)  # fmt: skip
def test_places_that_do_not_fit_are_refused(old: str, new: str, message: str) -> None:
    assert old in SPARSE
    with pytest.raises(HloError, match=message):
        hloc.parse(SPARSE.replace(old, new))


def test_the_older_text_is_printed_as_the_newer_one() -> None:
    two = TUPLE.replace("ROOT y", "z")
    again = (
        two.rstrip("}\n")
        + "}}\n  ROOT y = s32[2,3] convolution(x, t), dim_labels=bf_io->bf, sparsity_config={rhs={sparsity=1x4 dimension=0 stride=1}}\n}\n"
    )
    text = hloc.parse(again).to_text("short")
    assert text.count("sparsity_config={rhs={sparsity=1x4 dimension=0 stride=1 idx=2}}") == 2
    assert hloc.parse(text).to_text("short") == text


def test_the_message_of_a_sparse_convolution_holds_its_places() -> None:
    from hloc.formats.from_proto import module_from_bytes
    from hloc.formats.to_proto import module_to_bytes

    pytest.importorskip("google.protobuf")
    module = hloc.parse(SPARSE)
    assert module_from_bytes(module_to_bytes(module)).to_text() == module.to_text()
