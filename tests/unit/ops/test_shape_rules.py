"""Shape rules: what they infer (as measured with jaxlib 0.10.2) and the words of their refusals."""

from __future__ import annotations

from typing import Any

import pytest

from hloc.dtypes import DTYPES
from hloc.errors import HloError
from hloc.ir.attributes import PaddingDimension, SliceDimension
from hloc.literal import literal_of
from hloc.shapes import UNBOUNDED, ArrayShape, Layout, Shape, array_shape
from tests.unit.ops.rows import array, infer

COLUMN_MAJOR = Layout((0, 1))


def shape(text: str) -> ArrayShape:
    """Read `f32[4,<=5,?]{0,1}`."""
    dtype, _, rest = text.partition("[")
    sizes, _, layout = rest.partition("]")
    dims, flags = [], []
    for size in filter(None, sizes.split(",")):
        flags.append(size == "?" or size.startswith("<="))
        dims.append(UNBOUNDED if size == "?" else int(size.removeprefix("<=")))
    order = tuple(int(d) for d in layout.strip("{}").split(",")) if layout else None
    return ArrayShape(
        DTYPES[dtype], tuple(dims), None if order is None else Layout(order), tuple(flags)
    )


@pytest.mark.parametrize(
    ("name", "operands", "expected"),
    [
        ("add", ["f32[4,5]{0,1}", "f32[4,5]"], "f32[4,5]{0,1}"),
        ("add", ["f32[4,5]", "f32[4,5]{0,1}"], "f32[4,5]{1,0}"),
        ("add", ["f32[4,1]", "f32[1,5]"], "f32[4,5]{1,0}"),
        ("add", ["f32[]", "f32[4,5]{0,1}"], "f32[4,5]{1,0}"),
        ("add", ["bf16[]", "f32[4]"], "f32[4]{0}"),
        ("add", ["bf16[4]", "f16[4]"], "bf16[4]{0}"),
        ("add", ["f8e4m3fn[4]", "f16[4]"], "f16[4]{0}"),
        ("add", ["f32[<=4]", "f32[4]"], "f32[<=4]{0}"),
        ("add", ["f32[4]", "f32[<=4]"], "f32[<=4]{0}"),
        ("add", ["f32[?]", "f32[4]"], "f32[4]{0}"),
        ("add", ["f32[?]", "f32[<=4]"], "f32[<=4]{0}"),
        ("add", ["f32[?]", "f32[1]"], "f32[?]{0}"),
        ("complex", ["f32[4,5]{0,1}", "f32[4,5]"], "c64[4,5]{0,1}"),
        ("select", ["pred[]", "f32[4,5]{0,1}", "f32[4,5]"], "f32[4,5]{0,1}"),
        ("select", ["pred[4,5]", "f32[4,5]{0,1}", "bf16[4,5]"], "f32[4,5]{1,0}"),
        ("select", ["pred[4]", "bf16[4]", "f32[4]"], "f32[4]{0}"),
        ("select", ["pred[4,5]", "f32[4,5]", "f32[4,<=5]{0,1}"], "f32[4,<=5]{1,0}"),
        ("clamp", ["f32[]", "f32[4,5]{0,1}", "f32[]"], "f32[4,5]{0,1}"),
        ("clamp", ["f32[]", "bf16[4]", "f32[]"], "bf16[4]{0}"),
        ("abs", ["c64[4,5]{0,1}"], "f32[4,5]{0,1}"),
        ("is-finite", ["bf16[4,5]{0,1}"], "pred[4,5]{0,1}"),
        ("real", ["bf16[4]"], "bf16[4]{0}"),
        ("imag", ["c128[4]"], "f64[4]{0}"),
        ("negate", ["u32[4]"], "u32[4]{0}"),
        ("mulhi", ["s32[4]", "s32[4]"], "s32[4]{0}"),
        ("copy", ["pred[4,5]{0,1}"], "pred[4,5]{0,1}"),
    ],
)
def test_inferred_shapes_of_elementwise_operations(
    name: str, operands: list[str], expected: str
) -> None:
    assert str(infer(name, *map(shape, operands))) == expected


@pytest.mark.parametrize(
    ("name", "operands", "attributes", "expected"),
    [
        ("compare", ["f32[4,5]{0,1}", "f32[4,5]"], {"direction": "LT"}, "pred[4,5]{0,1}"),
        ("transpose", ["f32[2,3]{0,1}"], {"dimensions": (1, 0)}, "f32[3,2]{1,0}"),
        ("transpose", ["f32[2,<=3]"], {"dimensions": (1, 0)}, "f32[<=3,2]{0,1}"),
        ("transpose", ["f32[2,3,4]"], {"dimensions": (1, 2, 0)}, "f32[3,4,2]{1,0,2}"),
        ("reverse", ["f32[2,3]{0,1}"], {"dimensions": (1, 0)}, "f32[2,3]{0,1}"),
        ("concatenate", ["f32[2,3]{0,1}", "f32[2,3]"], {"dimensions": (1,)}, "f32[2,6]{1,0}"),
        ("concatenate", ["f32[2,<=3]", "f32[2,3]"], {"dimensions": (1,)}, "f32[2,<=6]{1,0}"),
        ("concatenate", ["f32[2,3]", "f32[2,<=3]"], {"dimensions": (0,)}, "f32[4,<=3]{1,0}"),
        ("concatenate", ["f32[2,?]", "f32[2,3]"], {"dimensions": (1,)}, "f32[2,?]{1,0}"),
        ("concatenate", ["f32[2,?]", "f32[2,3]"], {"dimensions": (0,)}, "f32[4,3]{1,0}"),
        ("concatenate", ["f32[2]", "bf16[2]"], {"dimensions": (0,)}, "f32[4]{0}"),
        ("broadcast", ["f32[4]"], {"dimensions": (1,)}, "f32[1,4]{1,0}"),
        ("broadcast", ["f32[<=4]"], {"dimensions": (1,)}, "f32[1,<=4]{1,0}"),
        ("broadcast", ["f32[]"], {}, "f32[]"),
        ("get-dimension-size", ["f32[4,5]{0,1}"], {"dimensions": (1,)}, "s32[]"),
        (
            "set-dimension-size",
            ["f32[4,5]{0,1}", "s32[]"],
            {"dimensions": (1,)},
            "f32[4,<=5]{0,1}",
        ),
        (
            "slice",
            ["f32[10,4]"],
            {"slice": (SliceDimension(1, 10, 4), SliceDimension(4, 4))},
            "f32[3,0]{1,0}",
        ),
        (
            "pad",
            ["f32[2,<=3]{0,1}", "f32[]"],
            {"padding": (PaddingDimension(0, 1), PaddingDimension(1, 2, 1))},
            "f32[3,<=8]{1,0}",
        ),
        ("pad", ["f32[?]", "f32[]"], {"padding": (PaddingDimension(0, 1),)}, "f32[?]{0}"),
        (
            "dynamic-slice",
            ["f32[4,4]", "s32[]", "s32[]"],
            {"dynamic_slice_sizes": (2, 0)},
            "f32[2,0]{1,0}",
        ),
    ],
)
def test_inferred_shapes_with_attributes(
    name: str, operands: list[str], attributes: dict[str, Any], expected: str
) -> None:
    assert str(infer(name, *map(shape, operands), **attributes)) == expected


def test_transpose_keeps_tiles_and_memory_space() -> None:
    tiled = ArrayShape(DTYPES["f32"], (2, 3), Layout((0, 1), tiles=((8, 128),), memory_space=1))
    assert str(infer("transpose", tiled, dimensions=(1, 0))) == "f32[3,2]{1,0:T(8,128)S(1)}"


@pytest.mark.parametrize(
    ("name", "operands", "attributes", "declared", "message"),
    [
        (
            "add",
            ["f32[4]", "f32[3]"],
            {},
            None,
            r"operand 1 has shape f32\[3\], but operand 0 has shape f32\[4\]",
        ),
        ("add", ["f32[4]", "s32[4]"], {}, None, r"operand 1 has shape s32\[4\], but"),
        ("add", ["f32[4,5]", "f32[5]"], {}, None, r"operand 1 has shape f32\[5\]"),
        # Inference takes a scalar with an array; a written shape is checked strictly.
        ("add", ["f32[4]", "f32[]"], {}, "f32[4]", r"operand 1 has shape f32\[\]"),
        ("add", ["f32[4,1]", "f32[4,5]"], {}, "f32[4,5]", r"operand 1 has shape f32\[4,5\]"),
        ("subtract", ["pred[4]", "pred[4]"], {}, None, "must be an integer, float or complex type"),
        ("divide", ["pred[]", "pred[]"], {}, None, "must be an integer, float or complex type"),
        ("atan2", ["s32[]", "s32[]"], {}, None, "must be a float or complex type"),
        ("and", ["f32[]", "f32[]"], {}, None, "must be pred or an integer type"),
        ("shift-left", ["f32[]", "f32[]"], {}, "f32[]", "must be an integer type"),
        ("mulhi", ["f32[]", "f32[]"], {}, "f32[]", "must be an integer type"),
        ("maximum", ["c64[]", "c64[]"], {}, "c64[]", "must be a pred, integer or float type"),
        ("remainder", ["c64[]", "c64[]"], {}, "c64[]", "must be an integer or float type"),
        ("abs", ["u32[]"], {}, None, "must be a signed integer, float or complex type"),
        ("cbrt", ["c64[]"], {}, None, "must be a float type"),
        ("not", ["f32[]"], {}, None, "must be pred or an integer type"),
        ("popcnt", ["pred[]"], {}, None, "must be an integer type"),
        ("negate", ["token[]"], {}, None, "an array is needed"),
        ("complex", ["bf16[]", "bf16[]"], {}, None, "both must be f32 or f64"),
        ("complex", ["f32[]", "f64[]"], {}, None, "both must be f32 or f64"),
        (
            "compare",
            ["c64[]", "c64[]"],
            {"direction": "LT"},
            "pred[]",
            "complex numbers have only EQ and NE",
        ),
        (
            "compare",
            ["s32[]", "s32[]"],
            {"direction": "LT", "type": "FLOAT"},
            "pred[]",
            "operands of type s32 compare as SIGNED",
        ),
        ("select", ["s32[]", "f32[]", "f32[]"], {}, None, "pred is needed"),
        (
            "select",
            ["pred[4]", "f32[4,5]", "f32[4,5]"],
            {},
            None,
            r"operand 0 has shape pred\[4\], but operand 1",
        ),
        (
            "select",
            ["pred[4]", "f32[4]", "f32[]"],
            {},
            None,
            r"operand 2 has shape f32\[\], but operand 1",
        ),
        ("clamp", ["f32[1]", "f32[4]", "f32[]"], {}, None, r"operand 0 has shape f32\[1\]"),
        (
            "clamp",
            ["f32[]", "s32[4]", "f32[]"],
            {},
            None,
            "element types must be equal|operand 0 has shape",
        ),
        (
            "convert",
            ["f32[4]"],
            {},
            "s32[5]",
            r"operand 0 has shape f32\[4\], but the result has shape s32\[5\]",
        ),
        ("convert", ["c64[4]"], {}, "f32[4]", "the imaginary part would be lost"),
        ("convert", ["f32[4]"], {}, None, "must be written"),
        (
            "bitcast-convert",
            ["f32[4]"],
            {},
            "s64[2]",
            "the last dimension must hold 64/32 elements",
        ),
        ("bitcast-convert", ["f32[4]"], {}, "u8[4,3]", r"but u8\[4,4\] is needed"),
        (
            "reduce-precision",
            ["f32[]"],
            {"exponent_bits": 0, "mantissa_bits": 3},
            None,
            "exponent_bits is 0",
        ),
        (
            "reduce-precision",
            ["s32[]"],
            {"exponent_bits": 5, "mantissa_bits": 3},
            None,
            "must be a float type",
        ),
        ("stochastic-convert", ["f32[2]", "u16[2]"], {}, "s32[2]", "u32 is needed beside f32"),
        (
            "iota",
            [],
            {"iota_dimension": 1},
            "f32[4]",
            "iota_dimension is 1, but the result has rank 1",
        ),
        ("iota", [], {"iota_dimension": 0}, "pred[4]", "a number is needed"),
        ("broadcast", ["f32[4]"], {"dimensions": ()}, "f32[4]", "dimensions has 0 entries"),
        (
            "broadcast",
            ["f32[4]"],
            {"dimensions": (2,)},
            "f32[4,4]",
            "dimension 2, but the result has rank 2",
        ),
        (
            "broadcast",
            ["f32[4]"],
            {"dimensions": (0,)},
            "f32[5]",
            "dimension 0 of the operand has size 4",
        ),
        ("broadcast", ["f32[2,2]"], {"dimensions": (0, 0)}, "f32[2,2]", "names a dimension twice"),
        ("broadcast", ["f32[4]"], {"dimensions": (10**12,)}, None, "dimension 1000000000000"),
        ("reshape", ["f32[4]"], {}, "f32[5]", r"has 4 elements, but result f32\[5\] has 5"),
        ("transpose", ["f32[4]"], {"dimensions": (1,)}, None, "not a permutation"),
        ("reverse", ["f32[4]"], {"dimensions": (0, 0)}, None, "names a dimension twice"),
        (
            "reverse",
            ["f32[4]"],
            {"dimensions": (3,)},
            None,
            "dimension 3, but the operand has rank 1",
        ),
        (
            "slice",
            ["f32[4]"],
            {"slice": (SliceDimension(3, 2),)},
            None,
            r"slice \[3:2:1\] of dimension 0 does not fit",
        ),
        ("slice", ["f32[4]"], {"slice": (SliceDimension(0, 4, 0),)}, None, "stride >= 1"),
        ("slice", ["f32[4]"], {"slice": ()}, None, "slice has 0 ranges"),
        ("concatenate", [], {"dimensions": (0,)}, None, "at least one operand"),
        (
            "concatenate",
            ["f32[2,3]", "f32[3,3]"],
            {"dimensions": (1,)},
            None,
            r"operand 1 has shape f32\[3,3\]",
        ),
        ("concatenate", ["f32[2]"], {"dimensions": (1,)}, None, "must name one dimension"),
        (
            "pad",
            ["f32[2]", "s32[]"],
            {"padding": (PaddingDimension(0, 0),)},
            None,
            r"must be f32\[\]",
        ),
        ("pad", ["f32[2]", "f32[]"], {"padding": (PaddingDimension(-3, 0),)}, None, "negative: -1"),
        (
            "pad",
            ["f32[2]", "f32[]"],
            {"padding": (PaddingDimension(0, 0, -1),)},
            None,
            "interior padding",
        ),
        ("bitcast", ["f32[4]"], {}, "f32[5]", "16 bytes"),
        (
            "dynamic-slice",
            ["f32[4]", "f32[]"],
            {"dynamic_slice_sizes": (2,)},
            None,
            "must be integers",
        ),
        (
            "dynamic-slice",
            ["f32[4]"],
            {"dynamic_slice_sizes": (2,)},
            None,
            "0 start indices given, but 1 are needed",
        ),
        (
            "dynamic-slice",
            ["f32[4]", "s32[]"],
            {"dynamic_slice_sizes": (5,)},
            None,
            r"dynamic_slice_sizes\[0\] is 5",
        ),
        (
            "dynamic-slice",
            ["f32[4]", "s32[2]"],
            {"dynamic_slice_sizes": (2,)},
            None,
            "but 1 start indices are needed",
        ),
        (
            "dynamic-update-slice",
            ["f32[4]", "f32[5]", "s32[]"],
            {},
            None,
            r"operand 1 has shape f32\[5\]",
        ),
        (
            "set-dimension-size",
            ["f32[4]", "s64[]"],
            {"dimensions": (0,)},
            None,
            r"the size must be s32\[\]",
        ),
        (
            "dynamic-reshape",
            ["f32[4]", "s32[]"],
            {},
            "f32[2,2]",
            "1 sizes given, but the result has rank 2",
        ),
        ("parameter", [], {"number": -1}, "f32[]", "parameter number -1 is negative"),
        (
            "constant",
            [],
            {"literal": literal_of(array("f32", [1, 2]))},
            "f32[3]",
            r"its literal has shape f32\[2\]",
        ),
    ],
)
def test_refusals_name_the_rule_and_the_shapes(
    name: str, operands: list[str], attributes: dict[str, Any], declared: str | None, message: str
) -> None:
    shapes: list[Shape] = [shape(text) for text in operands]
    with pytest.raises(HloError, match=message):
        infer(name, *shapes, declared=None if declared is None else shape(declared), **attributes)


def test_a_written_shape_is_returned_where_the_text_decides_it() -> None:
    column_major = ArrayShape(DTYPES["f32"], (2, 2), COLUMN_MAJOR)
    assert infer("reshape", array_shape("f32", 4), declared=column_major) == column_major
    assert infer("iota", declared=column_major, iota_dimension=0) == column_major
    assert infer("parameter", declared=column_major, number=0) == column_major
