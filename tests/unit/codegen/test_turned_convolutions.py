"""Convolutions of narrow elements, channels first: the copy of the input has features together."""

from __future__ import annotations

from itertools import product as product_of

import numpy as np
import pytest

from hloc.codegen.cpu.emitters.convolution.padding_routine import Lines, lines_of
from hloc.codegen.kernels.gemm_problem import Axis
from hloc.codegen.llvm.target import host_target
from tests.tolerance import Bounds
from tests.unit.codegen.harness import check_root, emit, module_text, parse_text, random_arrays
from tests.unit.codegen.test_products import narrower, tolerances

# features, height, width of the input; output features; window; height, width of the result
FORMS = {
    "padded": (20, 9, 11, 17, "size=3x3 pad=1_1x1_1", 9, 11),
    "strides": (16, 17, 15, 24, "size=3x3 stride=2x2 pad=1_1x1_1", 9, 8),
    "whole": (8, 12, 10, 20, "size=3x2", 10, 9),
    "few features": (3, 30, 29, 24, "size=7x7 stride=2x2 pad=3_3x3_3", 15, 15),
    "short lines": (24, 14, 5, 16, "size=3x3 pad=1_1x1_1", 14, 5),
    "windows apart": (9, 14, 13, 16, "size=3x3 pad=2_2x2_2 rhs_dilate=2x2", 14, 13),
    "holes": (10, 8, 9, 16, "size=3x3 pad=1_2x1_2 lhs_dilate=2x2", 16, 18),
}
EXACT: Bounds = {"rtol": 0, "atol": 0}
LABELS = {
    "channels first": "bf01_oi01->bf01",
    "features last in the result": "bf01_oi01->b01f",
    "kernel by output features": "bf01_01io->bf01",
}


def convolution(dtype: str, form: str, labels: str, images: int = 2, groups: int = 1) -> str:
    features, height, width, outputs, window, rows, columns = FORMS[form]
    sizes = [part.partition("=")[2].split("x") for part in window.split() if "size" in part]
    (window_dims,) = ((int(a), int(b)) for a, b in sizes)
    kernel = (
        (outputs, features // groups, *window_dims)
        if "_oi" in labels
        else (*window_dims, features // groups, outputs)
    )
    last = labels.endswith("b01f")
    result = (images, rows, columns, outputs) if last else (images, outputs, rows, columns)
    total = "s32" if dtype == "s8" else dtype

    def shape(name: str, dims: tuple[int, ...]) -> str:
        return f"{name}[{','.join(map(str, dims))}]"

    root = (
        f"{shape(total, result)} convolution(p0, p1), window={{{window}}}, dim_labels={labels}, "
        f"feature_group_count={groups}"
    )
    operands = shape(dtype, (images, features, height, width)), shape(dtype, kernel)
    return module_text(operands, root)


@pytest.mark.parametrize("bits", [pytest.param(128, marks=pytest.mark.slow), 256, 512])
@pytest.mark.parametrize("dtype", ["bf16", "f16", "s8"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("labels", LABELS)
def test_forms(bits: int, dtype: str, form: str, labels: str) -> None:
    """Blocks that fill lines and that do not; in one part and in several."""
    text = convolution(dtype, form, LABELS[labels])
    limits = tolerances(dtype) if dtype != "s8" else EXACT
    arrays, machine = random_arrays(text), narrower(bits)
    (whole,) = check_root(text, arrays, target=machine, **limits)
    (parts,) = check_root(text, arrays, target=machine, pieces=2, **limits)
    np.testing.assert_array_equal(parts, whole)


@pytest.mark.parametrize("dtype", ["bf16", "s8"])
@pytest.mark.parametrize("form", ["padded", "strides"])
def test_rows_of_one_image(dtype: str, form: str) -> None:
    """Every part copies the rows that it reads: they are not slowest in the input."""
    text = convolution(dtype, form, "bf01_oi01->b01f", images=1)
    limits = tolerances(dtype) if dtype != "s8" else EXACT
    arrays, most = random_arrays(text), emit(parse_text(text).entry.root).extent
    (whole,) = check_root(text, arrays, **limits)
    for pieces in {2, 3, most}:
        (parts,) = check_root(text, arrays, pieces=min(pieces, most), **limits)
        np.testing.assert_array_equal(parts, whole)


def test_groups() -> None:
    for dtype, labels in product_of(("bf16", "f16"), ("bf01_oi01->bf01", "bf01_oi01->b01f")):
        text = convolution(dtype, "strides", labels, groups=2)
        check_root(text, random_arrays(text), **tolerances(dtype))


def test_copies_are_made_in_blocks() -> None:
    text = convolution("bf16", "strides", "bf01_oi01->bf01")
    names = {r.name for r in emit(parse_text(text).entry.root, target=host_target()).routines}
    assert {name for name in names if name.startswith("turned_")}
    text = text.replace("bf16", "f32")
    names = {r.name for r in emit(parse_text(text).entry.root, target=host_target()).routines}
    assert not {name for name in names if name.startswith("turned_")}


def test_lines() -> None:
    """Strides of an array of 2x16x9x9 and of its copies."""
    dims, source = (2, 16, 9, 9), (1296, 81, 9, 1)
    whole = Axis(2, 1296, 0, 1296)
    assert lines_of(dims, source, source) == Lines(2592, 1, ())
    padded = lines_of(dims, source, (16 * 121, 121, 11, 1))
    assert padded == Lines(9, 1, (Axis(32, 81, 0, 121), Axis(9, 9, 0, 11)))
    assert lines_of(dims, source, (1296, 1, 144, 16)) == Lines(81, 16, (whole,), (16, 81))
    narrow = lines_of((2, 3, 9, 9), (243, 81, 9, 1), (243, 1, 27, 3))
    assert narrow == Lines(81, 3, (Axis(2, 243, 0, 243), Axis(3, 81, 0, 1)))


def test_the_slowest_dimension_of_the_copy_comes_first() -> None:
    dims, source, target = (16, 9, 10), (90, 10, 1), (1, 176, 16)
    assert lines_of(dims, source, target, apart=1) == Lines(
        10, 16, (Axis(9, 10, 0, 176),), (16, 90)
    )
    dims, source, target = (3, 9, 10), (90, 10, 1), (1, 33, 3)
    lines = lines_of(dims, source, target, apart=1)
    assert lines == Lines(10, 3, (Axis(9, 10, 0, 33), Axis(3, 90, 0, 1)))
