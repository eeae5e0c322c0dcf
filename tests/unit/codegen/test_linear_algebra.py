"""fft, triangular-solve, cholesky."""

from __future__ import annotations

import numpy as np
import pytest

from hloc import driver
from hloc.codegen.cpu.backend import CpuModule
from hloc.codegen.llvm.target import target_for
from hloc.dtypes import DTYPES
from hloc.runtime.executable import Executable
from tests.tolerance import bounds
from tests.unit.codegen.harness import check_root, emit, module_text, parse_text, random_arrays


@pytest.mark.parametrize("n", [1, 2, 3, 4, 6, 8, 15, 17, 31, 64, 127, 360])
def test_fft_of_any_length(n: int) -> None:
    root = f"c64[3,{n}] fft(p0), fft_type=FFT, fft_length={{{n}}}"
    text = module_text([f"c64[3,{n}]"], root)
    check_root(text, random_arrays(text), **bounds("f32 transform"))


@pytest.mark.parametrize("n", [9, 16])
def test_real_fft_and_back(n: int) -> None:
    half = n // 2 + 1
    root = f"c64[3,6,{half}] fft(p0), fft_type=RFFT, fft_length={{6,{n}}}"
    text = module_text([f"f32[3,6,{n}]"], root)
    arrays = random_arrays(text)
    check_root(text, arrays, **bounds("f32 sum"))
    spectrum = np.fft.rfftn(arrays[0], axes=(1, 2)).astype(np.complex64)
    root = f"f32[3,6,{n}] fft(p0), fft_type=IRFFT, fft_length={{6,{n}}}"
    text = module_text([f"c64[3,6,{half}]"], root)
    (found,) = check_root(text, [spectrum], **bounds("f32 sum"))
    np.testing.assert_allclose(found, arrays[0], **bounds("f32 there and back"))


@pytest.mark.parametrize(("part", "whole"), [("f32", "c64"), ("f64", "c128")])
@pytest.mark.parametrize("rows", [1, 16, 33])
@pytest.mark.parametrize("n", [20, 121])
def test_rows_side_by_side(part: str, whole: str, rows: int, n: int) -> None:
    """As many rows as lanes, fewer, and some left over; squares of floats that fit, and do not."""
    half = n // 2 + 1
    for kind, source, result in (
        ("FFT", f"{whole}[{rows},{n}]", f"{whole}[{rows},{n}]"),
        ("IFFT", f"{whole}[{rows},{n}]", f"{whole}[{rows},{n}]"),
        ("RFFT", f"{part}[{rows},{n}]", f"{whole}[{rows},{half}]"),
    ):
        root = f"{result} fft(p0), fft_type={kind}, fft_length={{{n}}}"
        text = module_text([source], root)
        check_root(text, random_arrays(text), **bounds("f32 sum"), level=1)


@pytest.mark.parametrize("kind", ["FFT", "IFFT"])
@pytest.mark.parametrize("dtype", ["c64", "c128"])
@pytest.mark.parametrize(
    ("dims", "lengths", "beside"),
    [
        ("12,40", "12,40", True),
        ("15,21", "15,21", True),  # some columns are left over
        ("3,9,16", "9,16", True),
        ("3,9,17", "9,17", True),  # some columns of one vector lie in two matrices
        ("5,6,32", "5,6,32", True),
        ("20,3", "20,3", False),  # fewer columns than lanes
    ],
)
def test_columns_side_by_side(
    dims: str, lengths: str, dtype: str, kind: str, *, beside: bool
) -> None:
    root = f"{dtype}[{dims}] fft(p0), fft_type={kind}, fft_length={{{lengths}}}"
    text = module_text([f"{dtype}[{dims}]"], root)
    if dtype == "c64":
        kernel = emit(parse_text(text).entry.root, target=target_for("x86_64", "haswell"))
        names = {routine.name for routine in kernel.routines}
        assert any(name.endswith("columns_in") for name in names) == beside
        assert any(name.endswith("columns_out") for name in names) == beside
    check_root(text, random_arrays(text), **bounds("f32 sum"))
    check_root(text, random_arrays(text), aliased=(0,), **bounds("f32 sum"))


@pytest.mark.parametrize("rows", [64, 1])
def test_transforms_of_vectors_need_no_passes_of_llvm(rows: int) -> None:
    """Guards compile time: LLVM's passes take as long as its code generator and win nothing.

    A row alone is transformed in vectors too, by routines of the installation.
    """
    root = f"c64[{rows},256] fft(p0), fft_type=FFT, fft_length={{256}}"
    text = module_text([f"c64[{rows},256]"], root)
    executable = driver.compile_module(text)
    assert isinstance(executable, Executable)
    compiled = executable.compiled
    assert isinstance(compiled, CpuModule)
    assert all(unit.level <= 0 for unit in compiled.units)
    (x,) = random_arrays(text)
    (found,) = executable(x)
    np.testing.assert_allclose(found, np.fft.fft(x), **bounds("f32 products"))


def test_fft_in_place() -> None:
    """Rows that are left over are not transformed twice where that would read results."""
    root = "c64[19,32] fft(p0), fft_type=FFT, fft_length={32}"
    text = module_text(["c64[19,32]"], root)
    check_root(text, random_arrays(text), **bounds("f32 sum"), aliased=(0,))


@pytest.mark.parametrize("layout", ["", "{0,1}"])
@pytest.mark.parametrize(("size", "count"), [(37, 1), (64, 70), (9, 300)])
def test_triangular_solve_in_tiles(size: int, count: int, layout: str) -> None:
    right = f"f32[{size},{count}]{layout}"
    root = f"{right} triangular-solve(p0, p1), left_side=true, transpose_a=NO_TRANSPOSE"
    for unit in ("true", "false"):
        text = module_text(
            [f"f32[{size},{size}]", right], f"{root}, lower={unit}, unit_diagonal={unit}"
        )
        a, b = random_arrays(text)
        a = a / size + 4 * np.eye(size, dtype=np.float32)
        check_root(text, [a, b], **bounds("f32 sum"))


@pytest.mark.parametrize("dtype", ["f32", "c64"])
@pytest.mark.parametrize("left", ["true", "false"])
@pytest.mark.parametrize("lower", ["true", "false"])
@pytest.mark.parametrize("transpose", ["NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"])
def test_triangular_solve(dtype: str, left: str, lower: str, transpose: str) -> None:
    right = f"{dtype}[2,5,3]" if left == "true" else f"{dtype}[2,3,5]"
    root = (
        f"{right} triangular-solve(p0, p1), left_side={left}, lower={lower}, "
        f"unit_diagonal=false, transpose_a={transpose}"
    )
    text = module_text([f"{dtype}[2,5,5]", right], root)
    a, b = random_arrays(text)
    check_root(text, [a + 4 * np.eye(5, dtype=a.dtype), b], **bounds("f32 solution"), level=1)


@pytest.mark.parametrize("dtype", ["f32", "f64", "c64"])
@pytest.mark.parametrize("lower", ["true", "false"])
def test_cholesky_is_nan_where_there_is_none(dtype: str, lower: str) -> None:
    text = module_text([f"{dtype}[3,6,6]"], f"{dtype}[3,6,6] cholesky(p0), lower={lower}")
    a = random_arrays(text)[0]
    positive = a @ np.conj(np.swapaxes(a, 1, 2)) + np.eye(6)
    positive[1] *= -1
    arrays = [positive.astype(DTYPES[dtype].numpy)]
    (found,) = check_root(text, arrays, **bounds("f32 solution"), level=1)
    assert np.isnan(found[1]).all()
    assert not np.isnan(found[0]).any()
