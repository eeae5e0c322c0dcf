"""Transforms of lengths with a large odd factor: passes of any factor, and convolutions."""

from __future__ import annotations

import numpy as np
import pytest

import hloc
from hloc.codegen.kernels.fft_plan import convolved_length, factors, is_convolved


def transformed(x: np.ndarray, kind: str, n: int) -> np.ndarray:
    shape = {np.dtype(np.complex64): "c64", np.dtype(np.float32): "f32"}.get(x.dtype, "c128")
    dims = [*x.shape[:-1], n // 2 + 1 if kind == "RFFT" else n]
    result = "c128" if shape == "c128" else "c64"
    if kind == "IRFFT":
        result = "f64" if shape == "c128" else "f32"
    text = (
        f"HloModule m\nENTRY e {{ x = {shape}[{','.join(map(str, x.shape))}] parameter(0)\n"
        f" ROOT r = {result}[{','.join(map(str, dims))}] fft(x), fft_type={kind}, "
        f"fft_length={{{n}}} }}"
    )
    (found,) = hloc.compile(text)(x)
    return np.asarray(found)


def _marks(n: int, rows: int) -> list[pytest.MarkDecorator]:
    # How many rows there are and what their length is are decided apart.
    return [] if rows == 5 or n in (23, 341, 2018) else [pytest.mark.slow]


@pytest.mark.parametrize(
    ("n", "rows"),
    [
        pytest.param(n, rows, marks=_marks(n, rows))
        for n in (17, 23, 46, 97, 127, 254, 289, 341, 713, 1004, 251, 1009, 2018)
        for rows in (1, 5, 20)
    ],
)
def test_all_kinds(n: int, rows: int) -> None:
    assert is_convolved(n) == (n in (251, 1009, 2018))
    rng = np.random.default_rng(n)
    x = rng.standard_normal((rows, n)) + 1j * rng.standard_normal((rows, n))
    bound = 1e-6 * np.abs(np.fft.fft(x)).max()
    narrow = x.astype(np.complex64)
    assert np.abs(transformed(narrow, "FFT", n) - np.fft.fft(x)).max() < bound
    assert np.abs(transformed(narrow, "IFFT", n) - np.fft.ifft(x)).max() < bound / n
    real = x.real.astype(np.float32)
    spectrum = np.fft.rfft(x.real)
    assert np.abs(transformed(real, "RFFT", n) - spectrum).max() < bound
    assert np.abs(transformed(spectrum.astype(np.complex64), "IRFFT", n) - real).max() < 1e-5
    assert np.abs(transformed(x, "FFT", n) - np.fft.fft(x)).max() < 1e-14 * bound / 1e-6


@pytest.mark.parametrize("n", [20011, 26778])
def test_long_rows_with_a_large_prime_factor(n: int) -> None:
    rng = np.random.default_rng(n)
    x = rng.standard_normal((2, n)) + 1j * rng.standard_normal((2, n))
    wanted = np.fft.fft(x)
    found = transformed(x.astype(np.complex64), "FFT", n)
    assert np.abs(found - wanted).max() < 1e-6 * np.abs(wanted).max()


@pytest.mark.parametrize("n", [251, 1009, 10007])
def test_length_of_the_convolution(n: int) -> None:
    length = convolved_length(n)
    assert 2 * n - 1 <= length < 4 * n
    assert max(factors(length)) <= 8
