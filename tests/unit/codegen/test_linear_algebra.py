"""fft, triangular-solve, cholesky."""

from __future__ import annotations

import numpy as np
import pytest

from hloc.dtypes import DTYPES
from tests.unit.codegen.harness import check_root, module_text, random_arrays


@pytest.mark.parametrize("n", [1, 2, 3, 4, 6, 8, 15, 17, 31, 64, 127, 360])
def test_fft_of_any_length(n: int) -> None:
    root = f"c64[3,{n}] fft(p0), fft_type=FFT, fft_length={{{n}}}"
    text = module_text([f"c64[3,{n}]"], root)
    check_root(text, random_arrays(text), rtol=1e-4, atol=2e-4)


@pytest.mark.parametrize("n", [9, 16])
def test_real_fft_and_back(n: int) -> None:
    half = n // 2 + 1
    root = f"c64[3,6,{half}] fft(p0), fft_type=RFFT, fft_length={{6,{n}}}"
    text = module_text([f"f32[3,6,{n}]"], root)
    arrays = random_arrays(text)
    check_root(text, arrays, rtol=1e-4, atol=1e-4)
    spectrum = np.fft.rfftn(arrays[0], axes=(1, 2)).astype(np.complex64)
    root = f"f32[3,6,{n}] fft(p0), fft_type=IRFFT, fft_length={{6,{n}}}"
    text = module_text([f"c64[3,6,{half}]"], root)
    (found,) = check_root(text, [spectrum], rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(found, arrays[0], atol=1e-5)


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
    check_root(text, [a + 4 * np.eye(5, dtype=a.dtype), b], rtol=1e-3, atol=1e-3, level=1)


@pytest.mark.parametrize("dtype", ["f32", "f64", "c64"])
@pytest.mark.parametrize("lower", ["true", "false"])
def test_cholesky_is_nan_where_there_is_none(dtype: str, lower: str) -> None:
    text = module_text([f"{dtype}[3,6,6]"], f"{dtype}[3,6,6] cholesky(p0), lower={lower}")
    a = random_arrays(text)[0]
    positive = a @ np.conj(np.swapaxes(a, 1, 2)) + np.eye(6)
    positive[1] *= -1
    arrays = [positive.astype(DTYPES[dtype].numpy)]
    (found,) = check_root(text, arrays, rtol=1e-3, atol=1e-3, level=1)
    assert np.isnan(found[1]).all()
    assert not np.isnan(found[0]).any()
