"""LAPACK called from machine code: eigenvalues and singular values without Python in the run."""

from __future__ import annotations

import numpy as np
import pytest

import hloc
from hloc import driver, scipy_routines
from hloc.codegen.lower.linear_algebra import own_linear_algebra
from hloc.errors import UnsupportedError
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
@pytest.mark.parametrize(("m", "n", "name"), [(3, 3, "gesdd"), (7, 4, "gesvd"), (4, 40, "gesdd")])
@BATCHES
def test_singular_values(
    letter: str, mode: str, m: int, n: int, name: str, batch: tuple[int, ...]
) -> None:
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
    text = call(letter + name, f"mode = {ord(mode)} : ui8", results, a)
    _, s, u, vt, info = direct(text, a)
    assert (info == 0).all()
    near(s, np.linalg.svd(wide(a), compute_uv=False), letter, 4 * max(m, n))
    if mode == "N":
        assert not u.any()
        assert not vt.any()
        return
    found = (wide(u)[..., :r] * s[..., None, :]) @ wide(vt)[..., :r, :]
    near(found, wide(a), letter, 4 * max(m, n))


@pytest.mark.parametrize("letter", TYPES)
@pytest.mark.parametrize(("jobs", "n"), [("VV", 7), ("NV", 1), ("VN", 4), ("NN", 6)])
@BATCHES
def test_eigenvectors_of_general_matrices(
    letter: str, jobs: str, n: int, batch: tuple[int, ...]
) -> None:
    """Real matrices have pairs of complex values, whose vectors LAPACK keeps in two columns."""
    a = matrices(letter, *batch, n, n)
    real, paired = TYPES[letter], {"s": "c64", "d": "c128"}.get(letter, TYPES[letter])
    parts = 2 if letter in "sd" else 1
    results = [shape(real, *batch, n, plain=True)] * parts + [shape(paired, *a.shape)] * 2
    results.append(shape("s32", *batch, plain=True))
    left, right = (ord(job) for job in jobs)
    config = f"compute_left = {left} : ui8, compute_right = {right} : ui8"
    *values, u, v, info = direct(call(f"{letter}geev", config, results, a), a)
    assert (info == 0).all()
    w = wide(values[0]) + 1j * wide(values[1]) if parts == 2 else wide(values[0])
    near(w.sum(-1), np.trace(wide(a), axis1=-2, axis2=-1), letter, 4 * n)
    for job, x, matrix, factor in (("V", v, wide(a), w), ("V", u, adjoint(wide(a)), np.conj(w))):
        if job != jobs[x is v]:
            assert not x.any()
            continue
        x = wide(x)
        near(np.linalg.norm(x, axis=-2), np.ones_like(w, float), letter, n)
        near(matrix @ x, x * factor[..., None, :], letter, 16 * n)


def test_eigenvalues_of_a_matrix_with_nan_are_nan() -> None:
    a = matrices("s", 3, 4, 4)
    a[1, 2, 3] = np.inf
    vectors = shape("c64", 3, 4, 4)
    results = [shape("f32", 3, 4, plain=True)] * 2 + [vectors, vectors, shape("s32", 3)]
    config = f"compute_left = {ord('N')} : ui8, compute_right = {ord('V')} : ui8"
    real, imag, _, v, info = direct(call("sgeev", config, results, a), a)
    np.testing.assert_array_equal(info, [0, 1, 0])
    for found in (real, imag, v):
        np.testing.assert_array_equal(np.isnan(found).reshape(3, -1).all(1), [False, True, False])


@pytest.mark.parametrize("letter", TYPES)
@BATCHES
def test_schur_form_and_its_vectors(letter: str, batch: tuple[int, ...]) -> None:
    n, t = 6, TYPES[letter]
    a = matrices(letter, *batch, n, n)
    number = shape("s32", *batch, plain=True)
    values = [shape(t, *batch, n, plain=True)] * (2 if letter in "sd" else 1)
    results = [*[shape(t, *a.shape)] * 2, *values, number, number]
    config = f"mode = {ord('V')} : ui8, sort = {ord('N')} : ui8"
    form, v, *found, selected, info = direct(call(f"{letter}gees", config, results, a), a)
    assert not selected.any()
    assert not info.any()
    near(wide(v) @ wide(form) @ adjoint(wide(v)), wide(a), letter, 4 * n)
    near(adjoint(wide(v)) @ wide(v), np.broadcast_to(np.eye(n), a.shape), letter, n)
    near(found[0].sum(-1), np.trace(wide(form), axis1=-2, axis2=-1), letter, n)
    assert not np.tril(form, -2).any()


@pytest.mark.parametrize("letter", TYPES)
@pytest.mark.parametrize("n", [1, 6])
@BATCHES
def test_hessenberg_and_tridiagonal_forms(letter: str, n: int, batch: tuple[int, ...]) -> None:
    """Both keep trace and length, which an orthogonal change of coordinates leaves as they are."""
    t, a = TYPES[letter], matrices(letter, *batch, n, n)
    number = shape("s32", *batch, plain=True)
    results = [shape(t, *a.shape), shape(t, *batch, n - 1, plain=True), number]
    config = f"high = {n} : i32, low = 1 : i32"
    h, _, info = direct(call(f"{letter}gehrd", config, results, a), a)
    assert not info.any()
    h = np.triu(wide(h), -1)
    near(np.trace(h, axis1=-2, axis2=-1), np.trace(wide(a), axis1=-2, axis2=-1), letter, n)
    near(np.linalg.norm(h, axis=(-2, -1)), np.linalg.norm(wide(a), axis=(-2, -1)), letter, n)
    a = (a + adjoint(a)).astype(a.dtype)
    beside = shape(REAL[letter], *batch, n - 1, plain=True)
    results[1:1] = [shape(REAL[letter], *batch, n, plain=True), beside]
    name = f"{letter}{'sy' if letter in 'sd' else 'he'}trd"
    _, d, e, _, info = direct(call(name, f"uplo = {ord('L')} : ui8", results, a), a)
    assert not info.any()
    near(wide(d).sum(-1), np.trace(wide(a), axis1=-2, axis2=-1).real, letter, n)
    length = np.sqrt((wide(d) ** 2).sum(-1) + 2 * (wide(e) ** 2).sum(-1))
    near(length, np.linalg.norm(wide(a), axis=(-2, -1)), letter, n)


@pytest.mark.parametrize("letter", TYPES)
@pytest.mark.parametrize(("m", "n"), [(7, 4), (3, 5)])
@BATCHES
def test_pivoted_qr_takes_the_longest_column_first(
    letter: str, m: int, n: int, batch: tuple[int, ...]
) -> None:
    """R has the lengths of the columns in their new order; those that are fixed come first."""
    t, a = TYPES[letter], matrices(letter, *batch, m, n)
    fixed = np.zeros((*batch, n), np.int32)
    fixed[..., 2] = 1
    results = [shape(t, *a.shape), shape("s32", *batch, n, plain=True)]
    results.append(shape(t, *batch, min(m, n), plain=True))
    text = call(f"{letter}geqp3", "", results, a, fixed)
    r, order, _ = direct(text, a, fixed)
    assert (order[..., 0] == 3).all()
    assert (np.sort(order, -1) == np.arange(1, n + 1)).all()
    moved = np.take_along_axis(wide(a), order[..., None, :] - 1, axis=-1)
    r = np.triu(wide(r))
    near(adjoint(r) @ r, adjoint(moved) @ moved, letter, m)
    sizes = np.abs(np.diagonal(r, axis1=-2, axis2=-1))[..., 1:]
    near(np.maximum(np.diff(sizes), 0), np.zeros_like(sizes[..., 1:]), letter, m)


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr("importlib.import_module", missing)
    scipy_routines.routine_address.cache_clear()
    with pytest.raises(UnsupportedError, match=r"hloc\[lapack\]"):
        scipy_routines.routine_address("lapack", "ssyevd")


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
