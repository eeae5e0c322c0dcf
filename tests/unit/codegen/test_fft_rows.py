"""Transforms of one row and of few, of rows that lie apart, and of long rows."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest

import hloc
from hloc.codegen.cpu.emitters.fft.first_pass import has_first_pass
from hloc.codegen.cpu.emitters.fft.interleaved_rows import RowForm, form_of_rows
from hloc.codegen.kernels.fft_plan import part_bytes
from hloc.codegen.llvm.target import host_target
from hloc.dtypes import F32
from tests.unit.codegen.test_convolved_fft import transformed

BOUNDS = {np.complex64: 4e-7, np.complex128: 2e-15}
"""Largest error over the largest element: the passes round a few times each, as XLA's do."""


def _random(*dims: int) -> np.ndarray:
    rng = np.random.default_rng(prod(dims))
    return rng.standard_normal(dims) + 1j * rng.standard_normal(dims)


def _error(found: np.ndarray, wanted: np.ndarray) -> float:
    return float(np.abs(found - wanted).max() / np.abs(wanted).max())


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
@pytest.mark.parametrize("rows", [1, 2, 3, 5, 9])
@pytest.mark.parametrize("n", [4, 8, 24, 40, 77, 128, 1001, 1020])
def test_few_rows(n: int, rows: int, dtype: type) -> None:
    x: np.ndarray = _random(rows, n).astype(dtype)
    assert _error(transformed(x, "FFT", n), np.fft.fft(x)) < BOUNDS[dtype]
    assert _error(transformed(x, "IFFT", n), np.fft.ifft(x)) < BOUNDS[dtype]
    if dtype is np.complex64:
        real = np.ascontiguousarray(x.real)
        assert _error(transformed(real, "RFFT", n), np.fft.rfft(real)) < BOUNDS[dtype]
        half = np.fft.rfft(x.real).astype(dtype)
        assert _error(transformed(half, "IRFFT", n), np.fft.irfft(half, n)) < BOUNDS[dtype]


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
@pytest.mark.parametrize("rows", [1, 3, 17])
@pytest.mark.parametrize("n", [2, 4, 6, 46, 62, 100, 194, 1024, 20000])
def test_real_rows_from_any_half_spectrum(n: int, rows: int, dtype: type) -> None:
    """Imaginary parts of the first and last element are ignored."""
    x: np.ndarray = _random(rows, n // 2 + 1).astype(dtype)
    assert _error(transformed(x, "IRFFT", n), np.fft.irfft(x, n)) < BOUNDS[dtype]


def test_real_rows_that_lie_apart() -> None:
    text = """HloModule m
ENTRY e {
  x = c64[3,9,5]{0,1,2} parameter(0)
  ROOT r = f32[3,9,8]{1,2,0} fft(x), fft_type=IRFFT, fft_length={8}
}"""
    x = _random(3, 9, 5).astype(np.complex64)
    (found,) = hloc.compile(text)(x)
    assert _error(np.asarray(found), np.fft.irfft(x, 8)) < BOUNDS[np.complex64]


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
@pytest.mark.parametrize("n", [8193, 16384, 20020])
def test_long_rows_make_their_table(n: int, dtype: type) -> None:
    x: np.ndarray = _random(2, n).astype(dtype)
    assert _error(transformed(x, "FFT", n), np.fft.fft(x)) < BOUNDS[dtype]
    assert _error(transformed(x, "IFFT", n), np.fft.ifft(x)) < BOUNDS[dtype]


@pytest.mark.parametrize(
    ("dims", "layout"), [((5, 12, 20), "{2,1,0}"), ((3, 7, 22), "{1,2,0}"), ((2, 8, 9), "{0,1,2}")]
)
def test_two_dimensions(dims: tuple[int, ...], layout: str) -> None:
    shape = f"c64[{','.join(map(str, dims))}]"
    text = (
        f"HloModule m, entry_computation_layout={{({shape}{layout})->{shape}{layout}}}\n"
        f"ENTRY e {{ x = {shape}{layout} parameter(0)\n ROOT r = {shape}{layout} fft(x), "
        f"fft_type=FFT, fft_length={{{dims[1]},{dims[2]}}} }}"
    )
    x = _random(*dims).astype(np.complex64)
    (found,) = hloc.compile(text)(x)
    assert _error(np.asarray(found), np.fft.fft2(x)) < BOUNDS[np.complex64]


def test_vectors_hold_neighbours_of_few_rows() -> None:
    target = host_target()
    most = target.vector_bytes // 4
    assert RowForm(F32, 1, target).widened(8).lanes == min(8, most)
    assert RowForm(F32, 2, target).widened(3).lanes == 2
    assert RowForm(F32, most, target).widened(5).lanes == most
    assert has_first_pass(F32, 8, 16, target)
    assert not has_first_pass(F32, 8, 1, target)
    assert not has_first_pass(F32, 5, 100, target)


def test_parts_of_an_element_share_a_cache_line() -> None:
    """Addresses of a pass over a power of 2 share a set of the cache, which holds few."""
    target = host_target()
    most = target.vector_bytes // 4
    whole, few = form_of_rows(F32, most, target), form_of_rows(F32, most // 2, target)
    assert whole.imaginary_offset(1 << 14) == target.vector_bytes
    assert whole.step == 2 * most
    assert few.imaginary_offset(1 << 14) == 1 << 14
    assert few.step == most // 2
    text = """HloModule m
ENTRY e {
  x = c64[4096] parameter(0)
  ROOT r = c64[4096] fft(x), fft_type=FFT, fft_length={4096}
}"""
    root = hloc.parse(text).entry.root
    assert part_bytes(root, 1) % 4096 != 0
