"""LAPACK called from machine code: eigenvalues and singular values without Python in the run."""

from __future__ import annotations

import numpy as np
import pytest

import hloc
from hloc import driver
from hloc.codegen.lower.linear_algebra import own_linear_algebra
from hloc.errors import UnsupportedError
from hloc.ops import lapack_library
from hloc.runtime.executable import Executable
from tests.unit.codegen.test_factorisations import (
    TYPES,
    Array,
    adjoint,
    call,
    matrices,
    near,
    shape,
    wide,
)

REAL = {"s": "f32", "d": "f64", "c": "f32", "z": "f64"}
BATCHES = pytest.mark.parametrize("batch", [(), (3,), (1, 3)])


def direct(text: str, *arrays: Array) -> list[Array]:
    """Run a module of one call, whose kernel must call the library itself."""
    pytest.importorskip("scipy")
    executable = hloc.compile(text)
    assert isinstance(executable, Executable)
    (function,) = executable.compiled.plan.host_functions
    assert function.address
    return executable(*arrays)


@pytest.mark.parametrize("letter", TYPES)
@pytest.mark.parametrize("n", [1, 4, 40])
@BATCHES
def test_eigenvectors_of_one_triangle(letter: str, n: int, batch: tuple[int, ...]) -> None:
    a = matrices(letter, *batch, n, n)
    a = (a + adjoint(a)).astype(a.dtype)
    name = f"{letter}{'sy' if letter in 'sd' else 'he'}evd"
    results = [shape(TYPES[letter], *a.shape), shape(REAL[letter], *batch, n, plain=True)]
    results.append(shape("s32", *batch, plain=True))
    for uplo in "LU":
        other = np.triu if uplo == "L" else np.tril
        given = (a + other(np.full_like(a, 9), 1 if uplo == "L" else -1)).astype(a.dtype)
        config = f"mode = {ord('V')} : ui8, uplo = {ord(uplo)} : ui8"
        v, w, info = direct(call(name, config, results, given), given)
        assert (info == 0).all()
        near((wide(v) * w[..., None, :]) @ adjoint(wide(v)), wide(a), letter, 4 * n)


@pytest.mark.parametrize("letter", TYPES)
@pytest.mark.parametrize("mode", "ASN")
@pytest.mark.parametrize(("m", "n"), [(3, 3), (7, 4), (4, 40)])
@BATCHES
def test_singular_values(letter: str, mode: str, m: int, n: int, batch: tuple[int, ...]) -> None:
    a, r = matrices(letter, *batch, m, n), min(m, n)
    rows, columns = (m, n) if mode != "S" else (r, r)
    t = TYPES[letter]
    results = [
        shape(t, *a.shape),
        shape(REAL[letter], *batch, r, plain=True),
        shape(t, *batch, m, rows),
        shape(t, *batch, columns, n),
        shape("s32", *batch, plain=True),
    ]
    text = call(f"{letter}gesdd", f"mode = {ord(mode)} : ui8", results, a)
    _, s, u, vt, info = direct(text, a)
    assert (info == 0).all()
    near(s, np.linalg.svd(wide(a), compute_uv=False), letter, 4 * max(m, n))
    if mode == "N":
        assert not u.any()
        assert not vt.any()
        return
    found = (wide(u)[..., :r] * s[..., None, :]) @ wide(vt)[..., :r, :]
    near(found, wide(a), letter, 4 * max(m, n))


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr("importlib.import_module", missing)
    lapack_library.lapack_address.cache_clear()
    with pytest.raises(UnsupportedError, match=r"hloc\[lapack\]"):
        lapack_library.lapack_address("ssyevd")


@pytest.mark.parametrize(("batch", "n", "direct"), [(20, 4, 0), (8, 32, 0), (4, 32, 1), (8, 33, 1)])
def test_small_matrices_of_a_batch_need_no_library(batch: int, n: int, direct: int) -> None:
    """They are worked on side by side; few or large ones are LAPACK's."""
    pytest.importorskip("scipy")
    a = matrices("s", batch, n, n)
    results = [shape("f32", batch, n, n), shape("f32", batch, n, plain=True)]
    results.append(shape("s32", batch, plain=True))
    module = driver.parse_text(call("ssyevd", f"uplo = {ord('L')} : ui8", results, a))
    own_linear_algebra(module, with_lapack=True)
    target = module.entry.root.attributes.custom_call_target
    assert target.startswith("hloc_linalg_lapack_ssyevd" if direct else "hloc_linalg_eigen-lower")
