"""LAPACK custom calls: what they return solves the problem, in every type, evaluated and compiled.

Vectors are unique up to a factor only, so products are compared, not factors.
"""

import importlib.util
from itertools import product
from typing import Any

import numpy as np
import pytest

import hloc
from tests.tolerance import bounds

LETTERS = {"s": np.float32, "d": np.float64, "c": np.complex64, "z": np.complex128}
HLO = {"s": "f32", "d": "f64", "c": "c64", "z": "c128"}
REAL = {"s": "f32", "d": "f64", "c": "f32", "z": "f64"}


def matrices(letter: str, *dims: int) -> Any:
    random = np.random.default_rng(3)
    real = random.standard_normal(dims)
    if letter in "cz":
        return (real + 1j * random.standard_normal(dims)).astype(LETTERS[letter])
    return real.astype(LETTERS[letter])


def adjoint(a: Any) -> Any:
    return np.conj(np.swapaxes(a, -1, -2))


def compiled(text: str, *arrays: Any) -> list[Any]:
    return hloc.compile(text, opt_level=0)(*arrays)


WAYS: dict[str, Any] = {"evaluated": hloc.evaluate, "compiled": compiled}
way = "evaluated"


@pytest.fixture(params=WAYS, autouse=True)
def each_way(request: pytest.FixtureRequest) -> None:
    """Run every test in the evaluator and compiled: they have algorithms of their own."""
    global way
    way = request.param


def in_every_type(names: str, *variants: Any) -> pytest.MarkDecorator:
    """Give a test `t` and variants: all pairs evaluated, of those compiled every other one.

    Compiling takes a second; each type and each variant is still compiled.
    """
    cases = [
        (way, letter, *(variant if isinstance(variant, tuple) else (variant,)))
        for way in WAYS
        for i, variant in enumerate(variants)
        for j, letter in enumerate(LETTERS)
        if way == "evaluated" or (i + j) % 2 == 0
    ]
    return pytest.mark.parametrize(f"each_way, t, {names}", cases, indirect=["each_way"])


def run(name: str, results: str, config: str, *arrays: Any) -> list[Any]:
    """Run one target on arrays."""
    dtypes = {np.dtype(np.int32): "s32"} | {np.dtype(t): HLO[c] for c, t in LETTERS.items()}
    shapes = [f"{dtypes[a.dtype]}[{','.join(map(str, a.shape))}]" for a in arrays]
    parameters = "\n".join(f" p{i} = {s} parameter({i})" for i, s in enumerate(shapes))
    names = ", ".join(f"p{i}" for i in range(len(arrays)))
    text = (
        f"HloModule m\nENTRY e {{\n{parameters}\n ROOT r = {results} custom-call({names}), "
        f'custom_call_target="lapack_{name}_ffi", api_version=API_VERSION_TYPED_FFI, '
        f"backend_config={{{config}}}\n}}"
    )
    found: list[Any] = WAYS[way](text, *arrays)
    return found


def near(got: Any, want: Any) -> None:
    single = np.asarray(got).dtype in (np.float32, np.complex64)
    np.testing.assert_allclose(got, want, **bounds("f32 factors" if single else "f64 factors"))


@in_every_type("uplo", "L", "U")
def test_cholesky_keeps_the_other_triangle(t: str, uplo: str) -> None:
    a = matrices(t, 2, 4, 4)
    a = a @ adjoint(a) + 4 * np.eye(4, dtype=a.dtype)
    config = f"uplo = {ord(uplo)} : ui8"
    shapes = f"({HLO[t]}[2,4,4], s32[2])"
    factor, info = run(f"{t}potrf", shapes, config, a)
    keep = np.tril if uplo == "L" else np.triu
    f = keep(factor)
    near(f @ adjoint(f) if uplo == "L" else adjoint(f) @ f, a)
    near(factor - f, a - keep(a))
    assert info.tolist() == [0, 0]
    a[1, 2, 2] = -1
    assert run(f"{t}potrf", shapes, config, a)[1].tolist() == [0, 3]


@pytest.mark.parametrize("t", LETTERS)
@pytest.mark.parametrize(("m", "n"), [(4, 3), (3, 4), (1, 1)])
def test_lu(t: str, m: int, n: int) -> None:
    a, k = matrices(t, 2, m, n), min(m, n)
    shapes = f"({HLO[t]}[2,{m},{n}], s32[2,{k}], s32[2])"
    lu, pivots, info = run(f"{t}getrf", shapes, "", a)
    for got, matrix, rows in zip(lu, a, pivots, strict=True):
        lower = np.tril(got[:, :k], -1) + np.eye(m, k, dtype=a.dtype)
        moved = matrix.copy()
        for i, pivot in enumerate(rows):
            moved[[i, pivot - 1]] = moved[[pivot - 1, i]]
        near(lower @ np.triu(got[:k]), moved)
    assert info.tolist() == [0, 0]
    assert run(f"{t}getrf", shapes, "", np.zeros_like(a))[2].tolist() == [1, 1]


@pytest.mark.parametrize("t", LETTERS)
def test_qr_and_the_product_of_its_reflectors(t: str) -> None:
    a = matrices(t, 2, 5, 3)
    qr, tau = run(f"{t}geqrf", f"({HLO[t]}[2,5,3], {HLO[t]}[2,3])", "", a)
    letters = "org" if t in "sd" else "ung"
    (q,) = run(f"{t}{letters}qr", f"{HLO[t]}[2,5,3]", "", qr, tau)
    near(q @ np.triu(qr)[:, :3], a)
    near(adjoint(q) @ q, np.broadcast_to(np.eye(3), (2, 3, 3)))


def reflections(packed: Any, tau: Any) -> Any:
    """Return `H_0 H_1 ...` with `H = I - tau v v^H`, as LAPACK defines it."""
    q = np.eye(len(packed), dtype=packed.dtype)
    for k, factor in enumerate(tau):
        v = np.concatenate([np.zeros(k), [1], packed[k + 1 :, k]]).astype(packed.dtype)
        q = q @ (np.eye(len(v), dtype=v.dtype) - factor * np.outer(v, np.conj(v)))
    return q


@in_every_type("left, transpose", *product(("false", "true"), repeat=2))
def test_products_with_q(t: str, left: str, transpose: str) -> None:
    a = matrices(t, 2, 6, 4)
    c = matrices(t, 2, 6, 3) if left == "true" else matrices(t, 2, 3, 6)
    packed, tau = run(f"{t}geqrf", f"({HLO[t]}[2,6,4], {HLO[t]}[2,4])", "", a)
    letters = "or" if t in "sd" else "un"
    shape = f"{HLO[t]}[{','.join(map(str, c.shape))}]"
    config = f"left = {left}, transpose = {transpose}"
    (found,) = run(f"{t}{letters}mqr", shape, config, packed, tau, c)
    q = np.stack([reflections(m, scalars) for m, scalars in zip(packed, tau, strict=True)])
    near(q @ np.triu(packed), a)
    factor = adjoint(q) if transpose == "true" else q
    near(found, factor @ c if left == "true" else c @ factor)


@pytest.mark.parametrize("t", LETTERS)
def test_least_squares_of_60_equations(t: str) -> None:
    a, b = matrices(t, 60, 15), matrices(t, 60, 1)
    packed, tau = run(f"{t}geqrf", f"({HLO[t]}[60,15], {HLO[t]}[15])", "", a)
    letters = "or" if t in "sd" else "un"
    shape = f"{HLO[t]}[60,1]"
    (qb,) = run(f"{t}{letters}mqr", shape, "left = true, transpose = true", packed, tau, b)
    x = np.linalg.solve(np.triu(packed[:15]), qb[:15])
    near(adjoint(a) @ (a @ x - b), np.zeros((15, 1)))
    near(x, np.linalg.lstsq(a, b, rcond=None)[0])


@pytest.mark.parametrize("t", LETTERS)
def test_pivoted_qr(t: str) -> None:
    a = matrices(t, 5, 3)
    shapes = f"({HLO[t]}[5,3], s32[3], {HLO[t]}[3])"
    qr, order, tau = run(f"{t}geqp3", shapes, "", a, np.zeros(3, np.int32))
    letters = "org" if t in "sd" else "ung"
    (q,) = run(f"{t}{letters}qr", f"{HLO[t]}[5,3]", "", qr, tau)
    near(q @ np.triu(qr)[:3], a[:, order - 1])
    diagonal = np.abs(np.diag(qr))
    assert (diagonal[:-1] >= diagonal[1:]).all()


@in_every_type("uplo", "L", "U")
def test_eigenvectors_of_one_triangle(t: str, uplo: str) -> None:
    a = matrices(t, 2, 4, 4)
    a = a + adjoint(a)
    junk = a + (np.triu if uplo == "L" else np.tril)(np.full_like(a, 9), 1 if uplo == "L" else -1)
    name = f"{t}{'sy' if t in 'sd' else 'he'}evd"
    shapes = f"({HLO[t]}[2,4,4], {REAL[t]}[2,4], s32[2])"
    v, w, info = run(name, shapes, f"mode = 86 : ui8, uplo = {ord(uplo)} : ui8", junk)
    near((v * w[:, None, :]) @ adjoint(v), a)
    assert info.tolist() == [0, 0]


@in_every_type("mode, u, vt", ("S", 3, 3), ("A", 5, 3))
def test_singular_values(t: str, mode: str, u: int, vt: int) -> None:
    a = matrices(t, 2, 5, 3)
    shapes = f"({HLO[t]}[2,5,3], {REAL[t]}[2,3], {HLO[t]}[2,5,{u}], {HLO[t]}[2,{vt},3], s32[2])"
    _, s, left, right, _ = run(f"{t}gesdd", shapes, f"mode = {ord(mode)} : ui8", a)
    near((left[:, :, :3] * s[:, None, :]) @ right[:, :3], a)


@pytest.mark.parametrize("t", LETTERS)
def test_left_and_right_eigenvectors(t: str) -> None:
    a = matrices(t, 2, 4, 4)
    wide = "c64" if t in "sc" else "c128"
    values = f"{REAL[t]}[2,4], {REAL[t]}[2,4]" if t in "sd" else f"{wide}[2,4]"
    config = "compute_left = 86 : ui8, compute_right = 86 : ui8"
    shapes = f"({values}, {wide}[2,4,4], {wide}[2,4,4], s32[2])"
    *w, left, right, _ = run(f"{t}geev", shapes, config, a)
    w = w[0] + 1j * w[1] if len(w) == 2 else w[0]
    near(a @ right, right * w[:, None, :])
    near(adjoint(left) @ a, w[:, :, None] * adjoint(left))
    near(np.linalg.norm(left, axis=1), 1)


@pytest.mark.parametrize("t", LETTERS)
def test_hessenberg_and_tridiagonal_forms_keep_eigenvalues(t: str) -> None:
    a = matrices(t, 4, 4)
    shapes = f"({HLO[t]}[4,4], {HLO[t]}[3], s32[])"
    h, _, _ = run(f"{t}gehrd", shapes, "high = 4 : i32, low = 1 : i32", a)
    near(np.poly(np.triu(h, -1)), np.poly(a))
    a = a + adjoint(a)
    name = f"{t}{'sy' if t in 'sd' else 'he'}trd"
    for uplo in "LU":
        shapes = f"({HLO[t]}[4,4], {REAL[t]}[4], {REAL[t]}[3], {HLO[t]}[3], s32[])"
        _, d, e, _, _ = run(name, shapes, f"uplo = {ord(uplo)} : ui8", a)
        tridiagonal = np.diag(d) + np.diag(e, 1) + np.diag(e, -1)
        near(np.linalg.eigvalsh(tridiagonal), np.linalg.eigvalsh(a))


@in_every_type("side, trans", *product("LR", "NTC"))
def test_triangular_systems(t: str, side: str, trans: str) -> None:
    a, b = matrices(t, 3, 3) + 4 * np.eye(3, dtype=LETTERS[t]), matrices(t, 3, 3)
    letters = {"diag": "N", "side": side, "trans_x": trans, "uplo": "U"}
    config = ", ".join(f"{name} = {ord(letter)} : ui8" for name, letter in letters.items())
    (x,) = run(f"{t}trsm", f"{HLO[t]}[3,3]", config, a, b)
    u = np.triu(a)
    op = {"N": u, "T": u.T, "C": np.conj(u.T)}[trans]
    near(op @ x if side == "L" else x @ op, b)


@pytest.mark.parametrize("t", LETTERS)
def test_tridiagonal_system(t: str) -> None:
    below, d, above, b = (matrices(t, *s) for s in ((4,), (4,), (4,), (4, 2)))
    d = d + 4
    v = f"{HLO[t]}[4]"
    shapes = f"({v}, {v}, {v}, {HLO[t]}[4,2], s32[])"
    x = run(f"{t}gtsv", shapes, "", below, d, above, b)[3]
    a = np.diag(d) + np.diag(below[1:], -1) + np.diag(above[:3], 1)
    near(a @ x, b)


@pytest.mark.parametrize("t", LETTERS)
def test_tridiagonal_system_exchanges_rows(t: str) -> None:
    below, d, above, b = (matrices(t, *s) for s in ((30,), (30,), (30,), (30, 2)))
    d[4] = d[20] = 0
    v = f"{HLO[t]}[30]"
    shapes = f"({v}, {v}, {v}, {HLO[t]}[30,2], s32[])"
    *_, x, info = run(f"{t}gtsv", shapes, "", below, d, above, b)
    a = np.diag(d) + np.diag(below[1:], -1) + np.diag(above[:29], 1)
    near(x, np.linalg.solve(a.astype(np.complex128), b))
    assert info == 0


def test_singular_tridiagonal_system_is_nan() -> None:
    ones = np.ones((2, 2), np.float32)
    shapes = "(f32[2,2], f32[2,2], f32[2,2], f32[2,2,1], s32[2])"
    d = np.array([[1, 1], [1, 2]], np.float32)
    *_, x, info = run("sgtsv", shapes, "", ones, d, ones, ones[..., None])
    assert np.isnan(x[0]).all()
    near(x[1], np.array([[1], [0]]))
    assert info.tolist() == [2, 0]


def perturbed(t: str, *arrays: Any) -> Any:
    """Run jaxlib's solver of tridiagonal systems that may be singular, on a batch."""
    n, k = arrays[3].shape[1:]
    parameters = "".join(f" p{i} = {HLO[t]}[2,{n}] parameter({i})\n" for i in range(3))
    (x,) = WAYS[way](
        f"HloModule m\nENTRY e {{\n{parameters} p3 = {HLO[t]}[2,{n},{k}] parameter(3)\n"
        f" ROOT r = {HLO[t]}[2,{n},{k}] custom-call(p0, p1, p2, p3), "
        'custom_call_target="tridiagonal_solve_perturbed_ffi", '
        "api_version=API_VERSION_TYPED_FFI\n}",
        *arrays,
    )
    return x


@pytest.mark.parametrize("t", LETTERS)
@pytest.mark.parametrize("n", [1, 2, 9])
def test_perturbed_tridiagonal_system_is_solved(t: str, n: int) -> None:
    below, d, above = (matrices(t, 2, n) for _ in range(3))
    b = matrices(t, 2, n, 3)
    d = d + 4
    x = perturbed(t, below, d, above, b)
    for i in range(2):
        a = np.diag(d[i]) + np.diag(below[i, 1:], -1) + np.diag(above[i, :-1], 1)
        near(a @ x[i], b[i])


@pytest.mark.parametrize("t", LETTERS)
def test_singular_perturbed_tridiagonal_system_is_large_not_nan(t: str) -> None:
    ones = np.ones((2, 2), LETTERS[t])
    d = np.stack([ones[0], 0 * ones[0]])
    x = perturbed(t, d, d, d, (ones * [1, 2])[..., None].astype(LETTERS[t]))
    assert np.isfinite(x).all()
    assert (abs(x) > 1e6).all()


def test_perturbed_tridiagonal_system_of_denormals() -> None:
    d, b = np.full((2, 1), 1e-40, np.float32), np.full((2, 1, 1), 3e-40, np.float32)
    near(perturbed("s", d, d, d, b), np.full((2, 1, 1), 3, np.float32))


@pytest.mark.parametrize("t", LETTERS)
def test_schur_form_needs_scipy(t: str) -> None:
    a = matrices(t, 4, 4)
    values = f"{REAL[t]}[4], {REAL[t]}[4]" if t in "sd" else f"{HLO[t]}[4]"
    shapes = f"({HLO[t]}[4,4], {HLO[t]}[4,4], {values}, s32[], s32[])"
    config = "mode = 86 : ui8, sort = 78 : ui8"
    if importlib.util.find_spec("scipy") is None:
        with pytest.raises(hloc.HloError, match="lapack"):
            run(f"{t}gees", shapes, config, a)
        return
    form, v, *_ = run(f"{t}gees", shapes, config, a)
    near(v @ form @ adjoint(v), a)
