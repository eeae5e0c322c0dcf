"""Shapes compare by meaning and print as XLA prints them."""

from __future__ import annotations

import pytest

from hloc.dtypes import DTYPES, F32, S32, U32
from hloc.shapes import (
    UNBOUNDED,
    ArrayShape,
    BufferShape,
    Layout,
    TupleShape,
    array_shape,
    compatible,
    leaves,
    row_major,
    same_layouts,
    shape_at,
)


def test_a_written_row_major_layout_is_the_missing_layout() -> None:
    assert ArrayShape(F32, (2, 3), Layout((1, 0))) == array_shape("f32", 2, 3)
    assert ArrayShape(F32, (2, 3), Layout((0, 1))) != array_shape("f32", 2, 3)
    assert ArrayShape(F32, (), Layout((), memory_space=5)) != array_shape("f32")


@pytest.mark.parametrize(
    ("shape", "text"),
    [
        (array_shape("f32"), "f32[]"),
        (array_shape("bf16", 2, 3), "bf16[2,3]{1,0}"),
        (ArrayShape(F32, (2, 3), Layout((0, 1))), "f32[2,3]{0,1}"),
        (ArrayShape(F32, (4, 3), None, (True, False)), "f32[<=4,3]{1,0}"),
        (ArrayShape(F32, (UNBOUNDED,), None, (True,)), "f32[?]{0}"),
        (array_shape("token"), "token[]"),
        (ArrayShape(F32, (), Layout((), tiles=((128,),))), "f32[]{:T(128)}"),
        (
            ArrayShape(
                F32,
                (2, 3),
                Layout((1, 0), ((8, 128), (None, 1)), 2, U32, None, 4, 1, ((1, (2,)),), 7),
            ),
            "f32[2,3]{1,0:T(8,128)(*,1)L(2)#(u32)E(4)S(1)SC(1:2)M(7)}",
        ),
        (TupleShape(), "()"),
        (TupleShape((array_shape("f32", 2), TupleShape())), "(f32[2]{0}, ())"),
        (
            TupleShape((array_shape("f32"),) * 6),
            "(f32[], f32[], f32[], f32[], f32[], /*index=5*/f32[])",
        ),
        (BufferShape(array_shape("f32", 2)), "b(f32[2]{0})"),
    ],
)
def test_text_is_xlas(shape: ArrayShape | TupleShape | BufferShape, text: str) -> None:
    assert str(shape) == text


def test_leaves_are_depth_first_with_their_index() -> None:
    a, b, c = array_shape("f32"), array_shape("s32", 2), array_shape("pred")
    nested = TupleShape((TupleShape((a, b)), TupleShape(), c))
    assert list(leaves(nested)) == [((0, 0), a), ((0, 1), b), ((2,), c)]
    assert shape_at(nested, (0, 1)) is b
    with pytest.raises(IndexError):
        shape_at(nested, (2, 0))


def test_compatible_ignores_layout_and_knows_unbounded_sizes() -> None:
    column_major = ArrayShape(F32, (2, 3), Layout((0, 1)))
    assert compatible(column_major, array_shape("f32", 2, 3))
    assert not same_layouts(column_major, array_shape("f32", 2, 3))
    assert compatible(ArrayShape(F32, (UNBOUNDED, 3), None, (True, False)), column_major)
    assert not compatible(array_shape("f32", 2), array_shape("s32", 2))
    assert not compatible(array_shape("f32", 2), array_shape("f32", 2, 1))
    assert not compatible(array_shape("f32", 2), TupleShape((array_shape("f32", 2),)))


def test_sizes_count_whole_bytes_per_element() -> None:
    assert array_shape("s4", 3, 5).size_bytes == 15
    assert array_shape("c128", 2).size_bytes == 32
    assert array_shape("token").size_bytes == 0
    assert TupleShape((array_shape("f32", 2), array_shape("f16", 3))).size_bytes == 14


def test_every_type_has_a_numpy_array() -> None:
    for name, dtype in DTYPES.items():
        if not dtype.is_special:
            assert array_shape(name, 3).size_bytes == 3 * dtype.numpy.itemsize
    assert row_major(20).minor_to_major == tuple(range(19, -1, -1))
    assert S32.is_integer
    assert not DTYPES["pred"].is_integer
