"""hloc's own factorisations and solutions: what they return solves the problem, in every form.

Residuals are taken with NumPy in f64 or c128, whatever the types of the matrices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, TypeAlias

import numpy as np
import pytest

import hloc
from hloc import driver
from hloc.cache_directory import cache_directory
from hloc.codegen.cpu.backend import CpuBackend, CpuModule
from hloc.ir import registered_targets
from hloc.options import CompileOptions
from hloc.runtime.executable import Executable
from tests.tolerance import bounds

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Way: TypeAlias = Callable[..., list[Array]]

TYPES = {"s": "f32", "d": "f64", "c": "c64", "z": "c128"}
NUMPY: dict[str, Any] = {"s": np.float32, "d": np.float64, "c": np.complex64, "z": np.complex128}

CASES: tuple[tuple[str, tuple[int, ...], int], ...] = (
    *(("cpu", (), n) for n in (0, 1, 2, 5, 17, 64, 150)),
    *(("cpu", (2, 20), n) for n in (1, 3, 8)),
    ("cpu", (20,), 18),
    ("cpu", (3,), 33),
    ("gpu", (3,), 3),
)
"""Where, how many and how large: alone, in lanes with some left over, one after another."""


@cache
def executable_of(text: str) -> Executable:
    """Compile for the processor; nothing may call Python."""
    executable = hloc.compile(text)
    assert isinstance(executable, Executable)
    module = executable.compiled
    assert isinstance(module, CpuModule)
    assert not module.plan.host_functions
    return executable


def compiled(text: str, *arrays: Array) -> list[Array]:
    """Run on the processor without calling Python."""
    return executable_of(text)(*arrays)


def simulated(text: str, *arrays: Array) -> list[Array]:
    """Run on the simulated GPU."""
    return hloc.compile(text, target="nvptx64", simulate=True)(*arrays)


def column_major(rank: int) -> str:
    """Return the layout that JAX gives operands and results."""
    return "{" + ",".join(map(str, [rank - 2, rank - 1, *reversed(range(rank - 2))])) + "}"


def shape(t: str, *dims: int, plain: bool = False) -> str:
    """Return a shape in column-major order, or in that of dimensions."""
    layout = "" if plain or len(dims) < 2 else column_major(len(dims))
    return f"{t}[{','.join(map(str, dims))}]{layout}"


def call(name: str, config: str, results: list[str], *arrays: Array) -> str:
    """Return a module that calls one LAPACK target."""
    names = {np.dtype(NUMPY[letter]): kind for letter, kind in TYPES.items()}
    names[np.dtype(np.int32)] = "s32"
    shapes = [shape(names[a.dtype], *a.shape, plain=True) for a in arrays]
    parameters = "\n".join(f" p{i} = {s} parameter({i})" for i, s in enumerate(shapes))
    operands = ", ".join(f"p{i}" for i in range(len(arrays)))
    whole = results[0] if len(results) == 1 else f"({', '.join(results)})"
    return (
        f"HloModule m\nENTRY e {{\n{parameters}\n ROOT r = {whole} custom-call({operands}), "
        f'custom_call_target="lapack_{name}_ffi", api_version=API_VERSION_TYPED_FFI, '
        f"backend_config={{{config}}}\n}}"
    )


def matrices(letter: str, *dims: int, seed: int = 0) -> Array:
    random = np.random.default_rng(seed)
    found = random.standard_normal(dims)
    if letter in "cz":
        found = found + 1j * random.standard_normal(dims)
    return np.asarray(found.astype(NUMPY[letter]))


def adjoint(a: Array) -> Array:
    return np.conj(np.swapaxes(a, -1, -2))


def wide(a: Array) -> Array:
    """Return an array in f64 or c128, so that residuals are not rounded."""
    return a.astype(np.complex128 if a.dtype.kind == "c" else np.float64)


def near(got: Array, wanted: Array, letter: str, size: int) -> None:
    """Assert that a residual is of the size of rounding: a few eps per operation and element."""
    if not got.size:
        return
    bound = 8 * max(size, 4) * np.finfo(NUMPY[letter]).eps * max(1.0, float(np.abs(wanted).max()))
    assert float(np.abs(got - wanted).max()) <= bound


@pytest.fixture(scope="module", autouse=True)
def _kept_objects(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep objects while these tests run: a routine is compiled once, and not for every size."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HLOC_CACHE_DIR", str(tmp_path_factory.mktemp("objects")))
        cache_directory.cache_clear()
        yield
    cache_directory.cache_clear()


@pytest.fixture(autouse=True)
def without_scipy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hloc.codegen.lower.linear_algebra.has_lapack", lambda: False)


WAYS: dict[str, Way] = {"cpu": compiled, "gpu": simulated}


@pytest.fixture(params=TYPES)
def letter(request: pytest.FixtureRequest) -> str:
    return str(request.param)


SHORT = (("cpu", (), 5), ("cpu", (2, 20), 3))
"""Cases of every type: one matrix, and matrices in lanes with some left over."""


def _marks(letter: str, case: tuple[str, tuple[int, ...], int]) -> list[pytest.MarkDecorator]:
    # f64 and c64 are written by the same lines as f32 and c128, with another type in them.
    return [pytest.mark.slow] if letter in "dc" and case not in SHORT else []


def _each(*cases: tuple[str, tuple[int, ...], int]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        ("letter", "way", "batch", "n"),
        [pytest.param(t, *case, marks=_marks(t, case)) for t in TYPES for case in cases],
    )


EACH = _each(*CASES)
ALSO_LARGE = _each(*CASES, ("cpu", (), 270))
"""With a matrix of more columns than the products of one block have."""


@ALSO_LARGE
def test_lu_is_the_matrix_with_rows_exchanged(
    letter: str, way: str, batch: tuple[int, ...], n: int
) -> None:
    for m, columns in ((n, n), (n, n // 2 + 1), (n // 2 + 1, n)):
        a, r = matrices(letter, *batch, m, columns), min(m, columns)
        results = [
            shape(TYPES[letter], *a.shape),
            shape("s32", *batch, r, plain=True),
            shape("s32", *batch, plain=True),
        ]
        lu, pivots, info = WAYS[way](call(f"{letter}getrf", "", results, a), a)
        assert (info == 0).all()
        lower = np.tril(wide(lu), -1)[..., :, :r] + np.eye(m, r)
        assert (np.abs(lower) <= 1.5).all()  # partial pivoting; by |real| + |imaginary| if complex
        moved = wide(a)
        for at in np.ndindex(*batch):
            for i, pivot in enumerate(pivots[at]):
                moved[at][[i, pivot - 1]] = moved[at][[pivot - 1, i]]
        near(lower @ np.triu(wide(lu))[..., :r, :], moved, letter, n)


@ALSO_LARGE
@pytest.mark.parametrize("uplo", "LU")
def test_cholesky_of_one_triangle(
    letter: str, uplo: str, way: str, batch: tuple[int, ...], n: int
) -> None:
    a = matrices(letter, *batch, n, n)
    a = (wide(a) @ adjoint(wide(a)) + n * np.eye(n)).astype(a.dtype)
    keep, other = (np.tril, np.triu) if uplo == "L" else (np.triu, np.tril)
    given = keep(a) + other(matrices(letter, *batch, n, n, seed=1), 1 if uplo == "L" else -1)
    results = [shape(TYPES[letter], *a.shape), shape("s32", *batch, plain=True)]
    text = call(f"{letter}potrf", f"uplo = {ord(uplo)} : ui8", results, given)
    factor, info = WAYS[way](text, given)
    assert (info == 0).all()
    f = wide(keep(factor))
    near(f @ adjoint(f) if uplo == "L" else adjoint(f) @ f, wide(a), letter, n)
    np.testing.assert_array_equal(factor - keep(factor), given - keep(given))


@ALSO_LARGE
def test_reflectors_and_their_product(
    letter: str, way: str, batch: tuple[int, ...], n: int
) -> None:
    t, run = TYPES[letter], WAYS[way]
    for m, columns in ((n, n), (n + 3, n), (n // 2 + 1, n)):
        a, k = matrices(letter, *batch, m, columns), min(m, columns)
        tau = shape(t, *batch, k, plain=True)
        qr, tau_ = run(call(f"{letter}geqrf", "", [shape(t, *a.shape), tau], a), a)
        given = np.concatenate([qr[..., :k], np.zeros((*batch, m, m - k), a.dtype)], axis=-1)
        product = "orgqr" if letter in "sd" else "ungqr"
        (q,) = run(call(letter + product, "", [shape(t, *given.shape)], given, tau_), given, tau_)
        near(wide(q) @ adjoint(wide(q)), np.broadcast_to(np.eye(m), q.shape), letter, m)
        near(wide(q)[..., :k] @ np.triu(wide(qr))[..., :k, :], wide(a), letter, m)
        for side, trans in ("LN", "LC", "RN", "RC") if m > n else ():
            rows, count = (m, 2) if side == "L" else (2, m)
            c = matrices(letter, *batch, rows, count, seed=2)
            apply = "ormqr" if letter in "sd" else "unmqr"
            config = f"left = {str(side == 'L').lower()}, transpose = {str(trans == 'C').lower()}"
            reflectors = np.ascontiguousarray(qr[..., :k])
            text = call(letter + apply, config, [shape(t, *c.shape)], reflectors, tau_, c)
            (found,) = run(text, reflectors, tau_, c)
            factor = wide(q) if trans == "N" else adjoint(wide(q))
            wanted = factor @ wide(c) if side == "L" else wide(c) @ factor
            near(wide(found), wanted, letter, m)


@ALSO_LARGE
def test_triangular_systems(letter: str, way: str, batch: tuple[int, ...], n: int) -> None:
    for side, uplo, trans, diag in ("LLNN", "LUNN", "LLCN", "RLNN", "RUCN", "RUTU"):
        a = (matrices(letter, *batch, n, n) / (4 * max(n, 1))).astype(NUMPY[letter])
        a = (a + 2 * np.eye(n, dtype=a.dtype)).astype(a.dtype)
        right = matrices(letter, *batch, *((n, 3) if side == "L" else (3, n)), seed=1)
        config = ", ".join(
            f"{key} = {ord(value)} : ui8"
            for key, value in (("diag", diag), ("side", side), ("trans_x", trans), ("uplo", uplo))
        )
        results = [shape(TYPES[letter], *right.shape)]
        (x,) = WAYS[way](call(f"{letter}trsm", config, results, a, right), a, right)
        used = (np.tril if uplo == "L" else np.triu)(wide(a))
        if diag == "U":
            used = used - used * np.eye(n) + np.eye(n)
        used = {"N": used, "T": np.swapaxes(used, -1, -2), "C": adjoint(used)}[trans]
        near(used @ wide(x) if side == "L" else wide(x) @ used, wide(right), letter, n)


@ALSO_LARGE
def test_tridiagonal_systems(letter: str, way: str, batch: tuple[int, ...], n: int) -> None:
    """Rows are exchanged where pivots are small; elements outside the matrix are not used."""
    t = TYPES[letter]
    below, diagonal, above = (matrices(letter, *batch, n, 1, seed=k)[..., 0] for k in range(3))
    inside = np.zeros((*batch, n, n), wide(diagonal).dtype)
    for i in range(n):
        inside[..., i, i] = diagonal[..., i]
        if i + 1 < n:
            inside[..., i + 1, i], inside[..., i, i + 1] = below[..., i + 1], above[..., i]
    below[..., :1], above[..., n - 1 :] = np.nan, np.nan
    for columns in (1, 3):
        right = matrices(letter, *batch, n, columns, seed=3)
        arrays = below, diagonal, above, right
        results = [shape(t, *diagonal.shape, plain=True)] * 3 + [shape(t, *right.shape)]
        results.append(shape("s32", *batch, plain=True))
        *same, x, info = WAYS[way](call(f"{letter}gtsv", "", results, *arrays), *arrays)
        for found, given in zip(same, arrays, strict=False):
            np.testing.assert_array_equal(found, given)
        assert not info.any()
        growth = max(1.0, float(np.abs(x).max(initial=0)))
        near(inside @ wide(x) / growth, wide(right) / growth, letter, n)


@pytest.mark.parametrize("count", [1, 20])
def test_only_singular_tridiagonal_systems_are_nan(letter: str, count: int) -> None:
    t, above = TYPES[letter], np.ones((count, 4), NUMPY[letter])
    below, diagonal = above.copy(), 3 * above
    diagonal[0, :2], below[0, 2] = 1, 0
    arrays = below, diagonal, above, above[..., None]
    results = [shape(t, count, 4, plain=True)] * 3 + [shape(t, count, 4, 1), shape("s32", count)]
    *_, x, info = compiled(call(f"{letter}gtsv", "", results, *arrays), *arrays)
    assert info.tolist() == [2] + [0] * (count - 1)
    assert np.isnan(x[0]).all()
    assert np.isfinite(x[1:]).all()


@pytest.mark.parametrize("batch", [(), (20,)])
def test_matrices_without_a_factor_say_where(letter: str, batch: tuple[int, ...]) -> None:
    """The first pivot that is zero, or not positive; NaN is not positive."""
    n, t = 5, TYPES[letter]
    singular = matrices(letter, *batch, n, n)
    singular[..., :, 3] = 0
    results = [shape(t, *batch, n, n), shape("s32", *batch, n), shape("s32", *batch)]
    lu, _, info = compiled(call(f"{letter}getrf", "", results, singular), singular)
    assert (info == 4).all()
    assert np.isfinite(lu).all()
    for bad in (-1.0, 0.0, np.nan):
        a = np.broadcast_to(np.eye(n), (*batch, n, n)).astype(NUMPY[letter]).copy()
        a[..., 2, 2] = bad
        results = [shape(t, *a.shape), shape("s32", *batch)]
        config = f"uplo = {ord('L')} : ui8"
        _, info = compiled(call(f"{letter}potrf", config, results, a), a)
        assert (info == 3).all()


def test_lengths_beyond_the_range_of_squares(letter: str) -> None:
    """A column of numbers whose squares overflow, or vanish, has a reflector all the same."""
    real = np.finfo(NUMPY[letter])
    for scale in (float(real.max) ** 0.75, float(real.tiny) ** 0.75):
        a = (matrices(letter, 6, 4) * scale).astype(NUMPY[letter])
        results = [shape(TYPES[letter], 6, 4), shape(TYPES[letter], 4)]
        qr, tau = compiled(call(f"{letter}geqrf", "", results, a), a)
        assert np.isfinite(qr).all()
        assert np.isfinite(tau).all()
        column = np.linalg.norm(wide(a)[:, 0] / scale)
        np.testing.assert_allclose(abs(wide(qr)[0, 0]) / scale, column, **bounds("f32 one sign"))


def test_a_registered_target_comes_before_an_own_algorithm() -> None:
    a = matrices("s", 3, 3)
    results = [shape("f32", 3, 3), shape("s32", 3), shape("s32")]
    text = call("sgetrf", "", results, a)

    hloc.register_custom_call(
        "lapack_sgetrf_ffi", lambda x: (x, np.zeros(3, np.int32), np.int32(7))
    )
    try:
        assert hloc.compile(text)(a)[2] == 7
    finally:
        del registered_targets._REGISTERED["lapack_sgetrf_ffi"]
    assert compiled(text, a)[2] == 0


def test_any_number_of_threads_gives_the_same_bits() -> None:
    a = matrices("s", 5000, 6, 6)
    results = [shape("f32", *a.shape), shape("s32", 5000, 6), shape("s32", 5000)]
    text = call("sgetrf", "", results, a)
    found = [hloc.compile(text, threads=count)(a) for count in (1, 2, 3)]
    for other in found[1:]:
        for x, y in zip(found[0], other, strict=True):
            np.testing.assert_array_equal(x, y)


# ---------------------------------------------------------------- eigenvalues, singular values

REAL = {"s": "f32", "d": "f64", "c": "f32", "z": "f64"}


def scales(letter: str) -> tuple[float, ...]:
    """Return factors; squares of matrices times the last two overflow or vanish."""
    limits = np.finfo(NUMPY[letter])
    return 1.0, float(limits.max) ** 0.75, float(limits.tiny) ** 0.75


@EACH
def test_eigenvectors_of_one_triangle(
    letter: str, way: str, batch: tuple[int, ...], n: int
) -> None:
    if n == 64 and letter in "cz":
        return  # 33 is as good
    a = matrices(letter, *batch, n, n)
    a = (a + adjoint(a)).astype(a.dtype)
    name = f"{letter}{'sy' if letter in 'sd' else 'he'}evd"
    results = [shape(TYPES[letter], *a.shape), shape(REAL[letter], *batch, n, plain=True)]
    results.append(shape("s32", *batch, plain=True))
    cases = list(zip("LUL", scales(letter), strict=True))
    for uplo, scale in cases if n == 5 else cases[:1]:
        other = np.triu if uplo == "L" else np.tril
        given = a + other(np.full_like(a, 9), 1 if uplo == "L" else -1)
        given = (given * scale).astype(a.dtype)
        config = f"mode = {ord('V')} : ui8, uplo = {ord(uplo)} : ui8"
        v, w, info = WAYS[way](call(name, config, results, given), given)
        assert (info == 0).all()
        assert (np.diff(w) >= 0).all()
        near(wide(v) @ adjoint(wide(v)), np.broadcast_to(np.eye(n), v.shape), letter, n)
        w = wide(w) / scale
        near((wide(v) * w[..., None, :]) @ adjoint(wide(v)), wide(a), letter, n)


@pytest.mark.parametrize(
    ("letter", "way", "batch", "n", "kind"),
    [
        pytest.param(t, *case, kind, marks=_marks(t, case))
        for t in TYPES
        for case, kind in (
            *((("cpu", (), n), "full") for n in (0, 1, 5, 17)),
            *((("cpu", (), 5), kind) for kind in ("rank 1", "zero")),
            *((("cpu", (2, 20), 3), kind) for kind in ("full", "rank 1", "zero")),
            (("gpu", (3,), 2), "full"),
        )
    ],
)
def test_singular_values_and_orthogonal_vectors(
    letter: str, kind: str, way: str, batch: tuple[int, ...], n: int
) -> None:
    """Vectors are orthogonal also where their singular values are 0."""
    t = TYPES[letter]
    for m, columns, mode in ((n + 3, n, "A"), (n + 2, n, "S"), (n, n + 4, "A")):
        a, r = matrices(letter, *batch, m, columns), min(m, columns)
        if kind == "rank 1":
            a = a[..., :, :1] * a[..., :1, :]
        if kind == "zero" or not a.size:
            a = np.zeros_like(a)
        rows, height = (m, columns) if mode == "A" else (r, r)
        results = [
            shape(t, *a.shape),
            shape(REAL[letter], *batch, r, plain=True),
            shape(t, *batch, m, rows),
            shape(t, *batch, height, columns),
            shape("s32", *batch, plain=True),
        ]
        name = "gesdd" if mode == "A" else "gesvd"
        text = call(letter + name, f"mode = {ord(mode)} : ui8", results, a)
        _, s, u, vt, info = WAYS[way](text, a)
        assert (info == 0).all()
        assert (np.diff(s) <= 0).all()
        u, vt = wide(u), wide(vt)
        near(adjoint(u) @ u, np.broadcast_to(np.eye(rows), (*batch, rows, rows)), letter, m)
        wanted = np.broadcast_to(np.eye(height), (*batch, height, height))
        near(vt @ adjoint(vt), wanted, letter, columns)
        near((u[..., :r] * s[..., None, :]) @ vt[..., :r, :], wide(a), letter, max(m, columns))


@pytest.mark.parametrize("dims", [(20, 8, 5), (20, 5, 8), (3, 20, 18)])
@pytest.mark.parametrize("letter", TYPES)
def test_singular_values_alone(letter: str, dims: tuple[int, ...]) -> None:
    """They are NumPy's, and the vectors that nobody asked for are 0."""
    a, (*batch, m, n) = matrices(letter, *dims), dims
    t, r = TYPES[letter], min(m, n)
    results = [
        shape(t, *dims),
        shape(REAL[letter], *batch, r, plain=True),
        shape(t, *batch, m, m),
        shape(t, *batch, n, n),
        shape("s32", *batch, plain=True),
    ]
    text = call(f"{letter}gesdd", f"mode = {ord('N')} : ui8", results, a)
    _, s, u, vt, info = compiled(text, a)
    near(s, np.linalg.svd(wide(a), compute_uv=False), letter, max(m, n))
    assert not any(x.any() for x in (u, vt, info))


def test_a_matrix_with_nan_has_no_values(letter: str) -> None:
    a = matrices(letter, 20, 4, 4)
    a[3, 2, 1] = np.nan
    t, real = TYPES[letter], REAL[letter]
    name = f"{letter}{'sy' if letter in 'sd' else 'he'}evd"
    results = [shape(t, *a.shape), shape(real, 20, 4), shape("s32", 20)]
    v, w, _ = compiled(call(name, f"uplo = {ord('L')} : ui8", results, a), a)
    results = [shape(t, *a.shape), shape(real, 20, 4), shape(t, *a.shape), shape(t, *a.shape)]
    results.append(shape("s32", 20))
    _, s, u, _, _ = compiled(call(f"{letter}gesdd", f"mode = {ord('A')} : ui8", results, a), a)
    for found in (v, w, s, u):
        assert np.isnan(found[3]).all()
        assert np.isfinite(np.delete(found, 3, axis=0)).all()


def test_objects_for_other_programs_call_no_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hloc.codegen.lower.linear_algebra.has_lapack", lambda: True)
    a = matrices("s", 3, 3)
    results = [shape("f32", 3, 3), shape("f32", 3), shape("s32")]
    text = call("ssyevd", f"uplo = {ord('L')} : ui8", results, a)
    module = driver.parse_text(text)
    compiled_module = CpuBackend().compile(module, CompileOptions(standalone=True))
    assert not compiled_module.plan.host_functions
