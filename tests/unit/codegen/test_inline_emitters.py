"""Emitters that write loops into the kernel, where a routine usually does the work.

Routines serve nearly every module on a processor with vectors, so the loops beside them would run
in few tests. Here all routines are taken away.
"""

from __future__ import annotations

import pytest

from hloc.codegen.cpu.emitters import table
from hloc.codegen.cpu.emitters.convolution import direct_convolution
from hloc.codegen.cpu.emitters.gemm import dot
from hloc.codegen.cpu.emitters.reduction import reduce, row_region
from tests.tolerance import Bounds, bounds, bounds_of
from tests.unit.codegen.harness import (
    check_root,
    emit,
    module_text,
    parse_text,
    random_arrays,
    reducer,
)

BY_ROUTINES = {
    "attention",
    "dilated-convolution",
    "gemm-epilogue",
    "grouped-epilogue",
    "pool",
    "sort-by-routines",
    "topk-by-routines",
    "windowed-convolution",
    "winograd-convolution",
    "winograd-epilogue",
}
"""Emitters that can do nothing but call routines."""


@pytest.fixture(autouse=True)
def _no_routines(monkeypatch: pytest.MonkeyPatch) -> None:
    left = tuple(emitter for emitter in table.EMITTERS if emitter.name not in BY_ROUTINES)
    assert len(left) == len(table.EMITTERS) - len(BY_ROUTINES)
    monkeypatch.setattr(table, "EMITTERS", left)
    monkeypatch.setattr(dot, "_routine_gemm", lambda inst, p: None)
    complex_gemms = ("small_complex_gemm", "packed_complex_gemm", "complex_inner_gemm")
    for name in ("small_gemm", "_tiny_inner_gemm", *complex_gemms):
        monkeypatch.setattr(dot, name, lambda p, sources, result: None)
    for name in ("group_form", "few_features_form"):
        monkeypatch.setattr(direct_convolution, name, lambda *arguments: None)
    for module in (reduce, row_region):
        monkeypatch.setattr(module, "plain_reduction", lambda inst: None)


def check_inline(text: str, bound: Bounds) -> None:
    """Compile the root without routines, run it and compare with the evaluator."""
    assert not emit(parse_text(text).entry.root).routines
    check_root(text, random_arrays(text), **bound)


@pytest.mark.parametrize(
    ("lhs", "rhs", "result", "dims"),
    [
        ("33,40", "40,50", "33,50", "lhs_contracting_dims={1}, rhs_contracting_dims={0}"),
        ("33,40", "50,40", "33,50", "lhs_contracting_dims={1}, rhs_contracting_dims={1}"),
        ("40,33", "40,50", "33,50", "lhs_contracting_dims={0}, rhs_contracting_dims={0}"),
        ("1,40", "40,50", "1,50", "lhs_contracting_dims={1}, rhs_contracting_dims={0}"),
        ("70", "70", "", "lhs_contracting_dims={0}, rhs_contracting_dims={0}"),
        (
            "3,9,20", "3,20,17", "3,9,17",
            "lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, "
            "rhs_contracting_dims={1}",
        ),
    ],
)  # fmt: skip
@pytest.mark.parametrize("dtype", ["f32", "f64", "s32", "c64"])
def test_products(dtype: str, lhs: str, rhs: str, result: str, dims: str) -> None:
    shapes = [f"{dtype}[{lhs}]", f"{dtype}[{rhs}]"]
    check_inline(
        module_text(shapes, f"{dtype}[{result}] dot(p0, p1), {dims}"), bounds_of("dot", dtype)
    )


@pytest.mark.parametrize(
    ("image", "kernel", "result", "rest"),
    [
        ("2,9,10,4", "3,3,4,5", "2,7,8,5", "window={size=3x3}"),
        ("2,9,10,4", "3,3,4,5", "2,9,10,5", "window={size=3x3 pad=1_1x1_1}"),
        ("1,40,40,16", "3,3,16,32", "1,38,38,32", "window={size=3x3}"),
        ("2,9,10,4", "3,3,4,5", "2,17,19,5", "window={size=3x3 pad=1_1x1_1 lhs_dilate=2x2}"),
        ("2,9,10,4", "3,3,1,8", "2,7,8,8", "window={size=3x3}, feature_group_count=4"),
        ("4,9,10,3", "3,3,3,4", "2,7,8,4", "window={size=3x3}, batch_group_count=2"),
    ],
)
def test_convolutions(image: str, kernel: str, result: str, rest: str) -> None:
    labels = "dim_labels=b01f_01io->b01f"
    root = f"f32[{result}] convolution(p0, p1), {rest}, {labels}"
    check_inline(module_text([f"f32[{image}]", f"f32[{kernel}]"], root), bounds("f32 products"))


@pytest.mark.parametrize("dims", ["0", "1", "2", "0,2", "1,2", "0,1,2"])
@pytest.mark.parametrize(
    ("opcode", "dtype"), [("add", "f32"), ("maximum", "f32"), ("multiply", "f64"), ("add", "s32")]
)
def test_reductions(opcode: str, dtype: str, dims: str) -> None:
    kept = ",".join(str(n) for d, n in enumerate((5, 7, 70)) if str(d) not in dims.split(","))
    root = f"{dtype}[{kept}] reduce(p0, p1), dimensions={{{dims}}}, to_apply=f"
    text = module_text([f"{dtype}[5,7,70]", f"{dtype}[]"], root, reducer("f", opcode, dtype))
    check_inline(text, bounds("f32 sum"))


@pytest.mark.parametrize("opcode", ["add", "maximum"])
@pytest.mark.parametrize(
    ("window", "result"), [("size=1x3x3x1", "2,7,8,5"), ("size=1x2x2x1 stride=1x2x2x1", "2,4,5,5")]
)
def test_pools(opcode: str, window: str, result: str) -> None:
    root = f"f32[{result}] reduce-window(p0, p1), window={{{window}}}, to_apply=f"
    text = module_text(["f32[2,9,10,5]", "f32[]"], root, reducer("f", opcode, "f32"))
    check_inline(text, bounds("f32 short sum"))


@pytest.mark.parametrize("direction", ["LT", "GT"])
@pytest.mark.parametrize("size", [1, 20, 300, 9000])
@pytest.mark.parametrize("others", [[], ["s32"], ["s64", "f64"]])
def test_sorts(others: list[str], size: int, direction: str) -> None:
    """Short rows are merged, long ones sorted by digits: elements, or places if they are large."""
    types = ["f32", *others]
    shapes = [f"{dtype}[2,{size}]" for dtype in types]
    pairs = "\n".join(
        f" x{i} = {dtype}[] parameter({2 * i})\n y{i} = {dtype}[] parameter({2 * i + 1})"
        for i, dtype in enumerate(types)
    )
    less = f"less {{\n{pairs}\n ROOT r = pred[] compare(x0, y0), direction={direction}\n}}"
    result = shapes[0] if len(shapes) == 1 else f"({', '.join(shapes)})"
    names = ", ".join(f"p{i}" for i in range(len(shapes)))
    rest = "dimensions={1}, is_stable=true, to_apply=less"
    check_inline(module_text(shapes, f"{result} sort({names}), {rest}", less), bounds("exact"))


@pytest.mark.parametrize("largest", ["true", "false"])
@pytest.mark.parametrize("dtype", ["f32", "s8", "u4"])
def test_topk(dtype: str, largest: str) -> None:
    root = f"({dtype}[3,7], s32[3,7]) topk(p0), k=7, largest={largest}"
    check_inline(module_text([f"{dtype}[3,100]"], root), bounds("exact"))
