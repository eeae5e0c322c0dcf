"""Data movement: values against plain NumPy or measured facts, at the edges of every attribute."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hloc.ops  # noqa: F401
from hloc.dtypes import S32
from hloc.errors import HloError
from hloc.ir.attributes import PaddingDimension, SliceDimension
from hloc.ir.instruction import Instruction
from hloc.literal import Literal, literal_of
from hloc.shapes import ArrayShape, Layout, array_shape
from tests.unit.ops.rows import array, evaluate, instruction


def row_value(inst: Instruction, operands: tuple[Any, ...]) -> Any:
    """Return what the row of `inst` makes of operands that are not those of its shape."""
    assert inst.opcode.evaluate is not None
    return inst.opcode.evaluate(inst, operands, _no_call)


def _no_call(*values: Any) -> Any:
    raise AssertionError("a row of data movement calls nothing")


def counted(*dims: int) -> np.ndarray:
    """Return s32 0, 1, 2 ... of sizes `dims`."""
    return np.arange(np.prod(dims, dtype=int), dtype=np.int32).reshape(dims)


def test_iota_wraps_and_rounds_as_convert_from_s64_does() -> None:
    found = evaluate("iota", shape=array_shape("u8", 300), iota_dimension=0)
    assert found[[255, 256, 257]].tolist() == [255, 0, 1]
    found = evaluate("iota", shape=array_shape("bf16", 300), iota_dimension=0)
    assert found[[256, 257, 258]].astype(float).tolist() == [256, 256, 258]
    found = evaluate("iota", shape=array_shape("s4", 10), iota_dimension=0)
    assert found.astype(int).tolist() == [0, 1, 2, 3, 4, 5, 6, 7, -8, -7]


def test_iota_counts_along_its_dimension() -> None:
    found = evaluate("iota", shape=array_shape("s32", 2, 3), iota_dimension=1)
    assert found.tolist() == [[0, 1, 2], [0, 1, 2]]


def test_constant_is_its_literal_and_an_elided_one_is_an_error() -> None:
    literal = literal_of(np.array([1.5, -0.0], np.float32))
    assert evaluate("constant", shape=literal.shape, literal=literal).tobytes() == (
        literal.array.tobytes()
    )
    with pytest.raises(HloError, match="left out"):
        evaluate("constant", shape=literal.shape, literal=Literal(literal.shape, None))


def test_broadcast_puts_operand_dimensions_where_the_attribute_says() -> None:
    x = counted(2, 3)
    found = evaluate("broadcast", x, shape=array_shape("s32", 3, 4, 2), dimensions=(2, 0))
    np.testing.assert_array_equal(found, np.broadcast_to(x.T[:, None, :], (3, 4, 2)))


def test_broadcast_of_a_scalar_takes_arrays_when_a_reducer_is_vectorised() -> None:
    inst = instruction("broadcast", [array_shape("s32")], {"dimensions": ()}, array_shape("s32"))
    many = counted(5)
    assert row_value(inst, (many,)) is many


def test_transpose_reshape_reverse() -> None:
    x = counted(2, 3, 4)
    found = evaluate("transpose", x, shape=array_shape("s32", 4, 2, 3), dimensions=(2, 0, 1))
    np.testing.assert_array_equal(found, x.transpose(2, 0, 1))
    found = evaluate("reshape", x.transpose(2, 0, 1), shape=array_shape("s32", 24))
    np.testing.assert_array_equal(found, x.transpose(2, 0, 1).ravel())
    np.testing.assert_array_equal(evaluate("reverse", x, dimensions=(0, 2)), x[::-1, :, ::-1])


def test_concatenate() -> None:
    x, y = counted(2, 3), counted(2, 1)
    found = evaluate("concatenate", x, y, x, dimensions=(1,))
    np.testing.assert_array_equal(found, np.concatenate([x, y, x], axis=1))


def test_bitcast_reads_the_memory_in_the_layouts_of_both_sides() -> None:
    x = counted(2, 3)
    column_major = ArrayShape(S32, (3, 2), Layout((0, 1)))
    found = evaluate("bitcast", x, shape=column_major)
    np.testing.assert_array_equal(found, x.T)
    found = evaluate("bitcast", np.array([1.0], np.float32), shape=array_shape("s32", 1))
    assert found.tolist() == [0x3F800000]


@given(
    size=st.integers(0, 9),
    start=st.integers(0, 9),
    length=st.integers(0, 9),
    stride=st.integers(1, 4),
)
def test_slice_is_numpys_slice(size: int, start: int, length: int, stride: int) -> None:
    start = min(start, size)
    limit = min(start + length, size)
    x = counted(size)
    found = evaluate("slice", x, slice=(SliceDimension(start, limit, stride),))
    np.testing.assert_array_equal(found, x[start:limit:stride])


def slow_pad(x: list[int], value: int, pad: PaddingDimension) -> list[int]:
    """Interior first, then the edges; a negative edge removes."""
    out: list[int] = []
    for i, element in enumerate(x):
        out += [value] * (pad.interior if i else 0) + [element]
    out = [value] * pad.low + out if pad.low >= 0 else out[-pad.low :]
    return out + [value] * pad.high if pad.high >= 0 else out[: pad.high]


@given(
    size=st.integers(0, 5),
    low=st.integers(-6, 4),
    high=st.integers(-6, 4),
    interior=st.integers(0, 3),
)
def test_pad_is_interior_then_edges(size: int, low: int, high: int, interior: int) -> None:
    pad = PaddingDimension(low, high, interior)
    x = counted(size)
    if low + high + size + max(size - 1, 0) * interior < 0:
        with pytest.raises(HloError, match="negative"):
            evaluate("pad", x, np.array(9, np.int32), padding=(pad,))
        return
    found = evaluate("pad", x, np.array(9, np.int32), padding=(pad,))
    if low < 0 and high < 0 and -low - high > size + max(size - 1, 0) * interior:
        return
    whole = size + max(size - 1, 0) * interior
    if -low > whole or -high > whole:  # trims what the other edge adds
        assert found.size == low + high + whole
        return
    assert found.tolist() == slow_pad(x.tolist(), 9, pad)


def test_pad_as_measured() -> None:
    pad = (PaddingDimension(-1, -1, 1),)
    found = evaluate("pad", array("f32", [1, 2, 3]), array("f32", 9), padding=pad)
    assert found.tolist() == [9, 2, 9]


@pytest.mark.parametrize(
    ("dtype", "start", "expected"),
    [
        ("s32", -5, [0, 1, 2]),
        ("s32", 9, [7, 8, 9]),
        ("u32", 2**32 - 1, [7, 8, 9]),
        ("u8", 250, [7, 8, 9]),
        ("s64", 4, [4, 5, 6]),
    ],
)
def test_dynamic_slice_clamps_its_start(dtype: str, start: int, expected: list[int]) -> None:
    x = counted(10)
    found = evaluate("dynamic-slice", x, array(dtype, start), dynamic_slice_sizes=(3,))
    assert found.tolist() == expected
    found = evaluate("dynamic-slice", x, array(dtype, [start]), dynamic_slice_sizes=(3,))
    assert found.tolist() == expected


def test_dynamic_update_slice_clamps_and_leaves_its_operand_alone() -> None:
    x = counted(10)
    update = np.full(3, -1, np.int32)
    found = evaluate("dynamic-update-slice", x, update, array("s32", 9))
    assert found.tolist() == [0, 1, 2, 3, 4, 5, 6, -1, -1, -1]
    assert x.tolist() == list(range(10))


def test_sizes_as_values() -> None:
    x = counted(4, 5)
    assert evaluate("get-dimension-size", x, dimensions=(1,)) == 5
    inst = instruction(
        "set-dimension-size", [array_shape("s32", 4, 5), array_shape("s32")], {"dimensions": (1,)}
    )
    assert str(inst.shape) == "s32[4,<=5]{1,0}"
    cut = row_value(inst, (x, np.array(3, np.int32)))
    np.testing.assert_array_equal(cut, x[:, :3])
    clamped = row_value(inst, (x, np.array(6, np.int32)))
    np.testing.assert_array_equal(clamped, x)
    found = evaluate(
        "dynamic-reshape",
        x,
        array("s32", 10),
        array("s32", 2),
        shape=array_shape("s32", 10, 2),
    )
    np.testing.assert_array_equal(found, x.reshape(10, 2))
