"""Cumulative sums and the like on GPUs: rows, columns, chunks, both directions, all folds."""

from __future__ import annotations

import pytest

from hloc.codegen.gpu.emitters.reduction import cumulative
from tests.unit.codegen.emitters import gpu_emitter_for
from tests.unit.gpu.simulate import check, compiled, entry


def _scan(shape: str, window: str, fold: str = "add") -> str:
    dtype = shape.partition("[")[0]
    fold_text = (
        f"fold {{\n  x = {dtype}[] parameter(0)\n  y = {dtype}[] parameter(1)\n"
        f"  ROOT r = {dtype}[] {fold}(x, y)\n}}\n"
    )
    root = f"{shape} reduce-window(p0, p1), window={{{window}}}, to_apply=fold"
    return entry(f"{shape};{dtype}[]", root, fold_text)


@pytest.mark.parametrize(
    ("shape", "window"),
    [
        ("f32[7]", "size=7 pad=6_0"),  # part of a warp
        ("f32[100]", "size=100 pad=99_0"),  # a warp, whose threads have several each
        ("f32[9,130]", "size=1x130 pad=0_0x129_0"),  # a block, and a tail
        ("f32[5000]", "size=5000 pad=4999_0"),  # chunks
        ("f32[5,40]", "size=5x1 pad=4_0x0_0"),  # columns
        ("f32[300,40]", "size=300x1 pad=299_0x0_0"),  # columns in chunks
    ],
)
def test_scans_of_any_length(shape: str, window: str) -> None:
    text = _scan(shape, window)
    (request,) = compiled(text).plan.kernels
    assert gpu_emitter_for(request.inst) is cumulative.EMITTER
    check(text)


@pytest.mark.parametrize("size", [33, 2100])
def test_from_the_end(size: int) -> None:
    check(_scan(f"s32[{size}]", f"size={size} pad=0_{size - 1}"))


@pytest.mark.parametrize("pad", ["33_-1", "-1_33"])
def test_what_comes_before_an_element(pad: str) -> None:
    """Exclusive scans: the first result is of no elements."""
    check(_scan("f32[33]", f"size=33 pad={pad}"))


@pytest.mark.parametrize(
    ("dtype", "fold"),
    [("bf16", "add"), ("f64", "multiply"), ("s8", "maximum"), ("u16", "xor"), ("pred", "or")],
)
def test_types_and_folds(dtype: str, fold: str) -> None:
    check(_scan(f"{dtype}[2,300]", "size=1x300 pad=0_0x299_0", fold))


def test_a_long_scan_takes_many_blocks() -> None:
    """Three launches, the first and the last of them wide; so no thread has a whole row."""
    module = compiled(_scan("f32[262144]", "size=262144 pad=262143_0"))
    (kernel,) = module.kernels
    assert [function.grid[0] for function in kernel.functions] == [127, 1, 128]
