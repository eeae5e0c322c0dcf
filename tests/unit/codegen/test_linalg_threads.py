"""Batches of factorisations that threads share: same bits in any number of parts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hloc
from hloc import driver
from hloc.codegen.cpu.backend import CpuModule
from hloc.codegen.cpu.emitters.linalg.linalg import CUBE_NANOSECONDS
from hloc.codegen.kernels.linalg.algorithm import ALGORITHMS
from hloc.runtime.executable import Executable
from tests.unit.codegen.harness import module_text, random_arrays, run_instruction
from tests.unit.codegen.harness import parse_text as parsed

Array = np.ndarray[Any, Any]


def _eigen(dtype: str, batch: int, n: int) -> str:
    real = {"c64": "f32", "c128": "f64"}.get(dtype, dtype)
    results = f"({dtype}[{batch},{n},{n}], {real}[{batch},{n}], s32[{batch}])"
    call = f'{results} custom-call(p0), custom_call_target="hloc_linalg_eigen-lower__n_n_n_n"'
    return module_text([f"{dtype}[{batch},{n},{n}]"], call)


def _singular(dtype: str, batch: int, m: int, n: int) -> str:
    results = (
        f"({dtype}[{batch},{m},{n}], {dtype}[{batch},{n}], {dtype}[{batch},{m},{n}], "
        f"{dtype}[{batch},{n},{n}], s32[{batch}])"
    )
    call = f'{results} custom-call(p0), custom_call_target="hloc_linalg_singular-tall__n_n_n_n_n_n"'
    return module_text([f"{dtype}[{batch},{m},{n}]"], call)


def _cholesky(dtype: str, batch: int, n: int) -> str:
    shape = f"{dtype}[{batch},{n},{n}]"
    return module_text([shape], f"{shape} cholesky(p0), lower=true")


def _symmetric(text: str) -> list[Array]:
    (x,) = random_arrays(text)
    n = x.shape[-1]
    if x.shape[-2] != n:
        return [x]
    product = x @ x.conj().swapaxes(-1, -2) + n * np.eye(n, dtype=x.dtype)
    return [product.astype(x.dtype)]


@pytest.mark.parametrize(
    "text",
    [
        _eigen("f32", 37, 8),
        _eigen("f64", 21, 6),
        _eigen("c64", 33, 5),
        _singular("f32", 40, 7, 4),
        _cholesky("f32", 100, 16),
        _cholesky("f64", 3, 40),
    ],
)
@pytest.mark.parametrize("pieces", [2, 3])
def test_parts_have_the_bits_of_the_whole(text: str, pieces: int) -> None:
    root, arrays = parsed(text).entry.root, _symmetric(text)
    whole = run_instruction(root, arrays)
    parts = run_instruction(root, arrays, pieces=pieces)
    for x, y in zip(whole, parts, strict=True):
        np.testing.assert_array_equal(x, y)


def test_threads_share_batches_that_take_long() -> None:
    text = _eigen("f32", 100, 8)
    assert _threads_share(text)
    assert not _threads_share(_eigen("f32", 20, 4))
    assert _threads_share(module_text(["f32[64,4096]"], FFT))
    arrays = _symmetric(text)
    results = [hloc.compile(text, threads=threads)(*arrays) for threads in (1, 2, 3, 7)]
    for other in results[1:]:
        for x, y in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(np.asarray(x), np.asarray(y))


def test_the_time_of_every_algorithm_is_estimated() -> None:
    assert {name.partition("-")[0] for name in ALGORITHMS} == set(CUBE_NANOSECONDS)


FFT = "c64[64,2049] fft(p0), fft_type=RFFT, fft_length={4096}"


@pytest.mark.parametrize("kind", ["FFT", "RFFT"])
def test_threads_share_transforms_along_two_dimensions(kind: str) -> None:
    source, columns = ("c64", 500) if kind == "FFT" else ("f32", 251)
    root = f"c64[200,{columns}] fft(p0), fft_type={kind}, fft_length={{200,500}}"
    text = module_text([f"{source}[200,500]"], root)
    assert _threads_share(text)
    arrays = random_arrays(text)
    whole = hloc.compile(text, disabled_passes=("split-fft-rewriter",))
    results = [np.asarray(whole(*arrays)[0])]
    results += [np.asarray(hloc.compile(text, threads=n)(*arrays)[0]) for n in (1, 2, 3)]
    for other in results[1:]:
        np.testing.assert_array_equal(other, results[0])


def _threads_share(text: str) -> bool:
    executable = driver.compile_module(text, driver.make_options(2, "cpu", {"threads": 2}))
    assert isinstance(executable, Executable)
    assert isinstance(executable.compiled, CpuModule)
    return any(kernel.split is not None for kernel in executable.compiled.kernels)
