"""Convolutions of bf16 and f16 whose input is widened to f32 once, in its padded copy."""

from __future__ import annotations

import pytest

from hloc.codegen.llvm.target import target_for
from tests.unit.codegen.harness import check_root, emit, module_text, parse_text, random_arrays
from tests.unit.codegen.processors import PROCESSOR
from tests.unit.codegen.test_products import tolerances, without_matrices


def convolution(dtype: str, lhs: str, rhs: str, result: str, window: str, groups: int = 1) -> str:
    root = (
        f"{dtype}[{result}] convolution(p0, p1), window={{{window}}}, dim_labels=b01f_01io->b01f, "
        f"feature_group_count={groups}"
    )
    return module_text([f"{dtype}[{lhs}]", f"{dtype}[{rhs}]"], root)


FORMS = {
    "padded": ("2,9,11,5", "3,3,5,17", "2,9,11,17", "size=3x3 pad=1_1x1_1"),
    "strides": ("1,17,15,20", "3,3,20,16", "1,9,8,16", "size=3x3 stride=2x2 pad=1_1x1_1"),
    "whole": ("2,12,10,8", "3,2,8,20", "2,10,9,20", "size=3x2"),
    "few features": ("1,30,30,3", "7,7,3,24", "1,15,15,24", "size=7x7 stride=2x2 pad=3_3x3_3"),
    "dilation": ("1,14,13,7", "3,3,7,16", "1,14,13,16", "size=3x3 pad=2_2x2_2 rhs_dilate=2x2"),
}  # fmt: skip


def routine_names(text: str, cpu: str) -> list[str]:
    kernel = emit(parse_text(text).entry.root, target=target_for("x86_64", cpu))
    return [routines.name for routines in kernel.routines]


@pytest.mark.parametrize("bits", [128, 256, 512])
@pytest.mark.parametrize("dtype", ["bf16", "f16"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("pieces", [1, 3])
def test_forms(bits: int, dtype: str, form: str, pieces: int) -> None:
    """Lines of whole vectors and of others; with one machine or another, and in parts."""
    text = convolution(dtype, *FORMS[form])
    machine = without_matrices(bits)
    check_root(text, random_arrays(text), target=machine, pieces=pieces, **tolerances(dtype))


@PROCESSOR
def test_groups(cpu: str) -> None:
    """The copy has the features of each group apart: lines are as short as a group."""
    text = convolution("bf16", "1,9,9,20", "3,3,10,32", "1,9,9,32", "size=3x3 pad=1_1x1_1", 2)
    machine = target_for(cpu=cpu)
    check_root(text, random_arrays(text), target=machine, **tolerances("bf16"))


@pytest.mark.parametrize("form", FORMS)
def test_elements_are_widened_once(form: str) -> None:
    """Machines that multiply bf16 do not widen them."""
    text = convolution("bf16", *FORMS[form])
    for cpu in ("haswell", "skylake-avx512"):
        names = routine_names(text, cpu)
        assert [name for name in names if name.startswith("padded_bf16")]
    for cpu in ("cooperlake", "sapphirerapids"):
        names = routine_names(text, cpu)
        assert not [name for name in names if name.startswith("padded_bf16")]
