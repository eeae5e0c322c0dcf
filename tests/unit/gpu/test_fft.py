"""Fourier transforms on GPUs: all kinds, short rows, odd factors, and rows beyond shared memory."""

from __future__ import annotations

import pytest

from hloc.codegen.gpu.emitters.fft import fft
from tests.unit.codegen.emitters import gpu_emitter_for
from tests.unit.gpu.simulate import check, compiled, entry


def _fft(kind: str, operand: str, result: str, *length: int) -> str:
    sizes = ",".join(map(str, length))
    return entry(operand, f"{result} fft(p0), fft_type={kind}, fft_length={{{sizes}}}")


@pytest.mark.parametrize("n", [1, 2, 6, 16, 35, 47, 360])
def test_rows_in_shared_memory(n: int) -> None:
    """Several rows per block, the last block not full; 47 is a factor too large to write out."""
    text = _fft("FFT", f"c64[5,{n}]", f"c64[5,{n}]", n)
    (request,) = compiled(text).plan.kernels
    assert gpu_emitter_for(request.inst) is fft.EMITTER
    check(text)


@pytest.mark.parametrize(
    ("kind", "operand", "result", "length"),
    [
        ("IFFT", "c128[3,10]", "c128[3,10]", (10,)),
        ("RFFT", "f32[3,10]", "c64[3,6]", (10,)),
        ("RFFT", "f64[2,6,9]", "c128[2,6,5]", (6, 9)),
        ("IRFFT", "c64[3,6]", "f32[3,10]", (10,)),
        ("IRFFT", "c64[4,6,3]", "f32[4,6,4]", (6, 4)),
        ("FFT", "c64[4,6,8]", "c64[4,6,8]", (4, 6, 8)),
    ],
)
def test_kinds_and_dimensions(
    kind: str, operand: str, result: str, length: tuple[int, ...]
) -> None:
    check(_fft(kind, operand, result, *length))


@pytest.mark.parametrize(
    ("kind", "operand", "result"),
    [("FFT", "c64[2,2176]", "c64[2,2176]"), ("IRFFT", "c64[2049]", "f32[4096]")],
)
def test_rows_beyond_shared_memory(kind: str, operand: str, result: str) -> None:
    """A launch per pass; 2176 has the factor 17."""
    n = 2176 if kind == "FFT" else 4096
    check(_fft(kind, operand, result, n))


@pytest.mark.parametrize(("rows", "n"), [(5, 16), (7, 360), (6, 47), (2, 2176)])
def test_rows_over_their_operands(rows: int, n: int) -> None:
    """A block reads its rows before it writes them; long rows go through scratch memory."""
    array = f"c64[{rows},{n}]"
    text = (
        f"HloModule m\nENTRY e {{\n  p0 = {array} parameter(0)\n"
        f"  a = {array} fft(p0), fft_type=FFT, fft_length={{{n}}}\n"
        f"  ROOT r = {array} fft(a), fft_type=IFFT, fft_length={{{n}}}\n}}"
    )
    assert [kernel.aliased for kernel in compiled(text).plan.kernels] == [(None,), (0,)]
    check(text)
