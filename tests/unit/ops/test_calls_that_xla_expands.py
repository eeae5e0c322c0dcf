"""Custom calls that XLA expands itself: residuals in f64, and XLA's results where jaxlib is there.

`Qr`, `ProductOfElementaryHouseholderReflectors` and `Eigh` are expanded by XLA's passes of these
names; `LuDecomposition` has no expansion outside of TPUs, so only its definition is checked.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import hloc
from hloc.dtypes import dtype_of_numpy
from hloc.errors import HloError
from tests.tolerance import assert_factored

TYPES = (np.float32, np.float64, np.complex64, np.complex128, ml_dtypes.bfloat16, np.float16)
SHAPES = ((4, 4), (7, 3), (3, 7), (2, 5, 4), (2, 2, 1, 1), (40, 33))
LEVELS = (0, 2)


def matrices(shape: tuple[int, ...], dtype: Any) -> Any:
    rng = np.random.default_rng(7)
    values = rng.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        values = values + 1j * rng.standard_normal(shape)
    return values.astype(dtype)


def name_of(dtype: Any) -> str:
    found = dtype_of_numpy(np.dtype(dtype))
    assert found is not None
    return found.name


def text_of(shape: tuple[int, ...], dtype: Any, results: str, call: str) -> str:
    name, dims = name_of(dtype), ",".join(map(str, shape))
    return (
        f"HloModule m\n\nENTRY e {{\n  a = {name}[{dims}] parameter(0)\n"
        f"  ROOT c = {results} custom-call(a), {call}\n}}\n"
    )


def run(text: str, *arrays: Any) -> list[Any]:
    """Return what the evaluator gives, after a comparison with machine code at two levels."""
    expected = hloc.evaluate(text, *arrays)
    for level in LEVELS:
        found = hloc.compile(text, opt_level=level)(*arrays)
        for one, other in zip(found, expected, strict=True):
            if one.dtype.kind == "i":
                np.testing.assert_array_equal(one, other)
            else:
                wide = np.complex128 if one.dtype.kind == "c" else np.float64
                assert_factored(
                    one.astype(wide), other.astype(wide), one.dtype.type, max(one.shape)
                )
    return expected


def wide(array: Any) -> Any:
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


@pytest.mark.parametrize("dtype", TYPES, ids=lambda t: np.dtype(t).name)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_qr_and_the_product_of_its_reflectors(shape: tuple[int, ...], dtype: Any) -> None:
    *batch, m, n = shape
    k, name = min(m, n), name_of(dtype)
    packed = f"{name}[{','.join(map(str, shape))}]"
    taus = f"{name}[{','.join(map(str, (*batch, k)))}]"
    q = f"{name}[{','.join(map(str, (*batch, m, k)))}]"
    limits = ", ".join(f"[0:{size}]" for size in (*batch, m, k))
    text = (
        f"HloModule m\n\nENTRY e {{\n  a = {packed} parameter(0)\n"
        f'  c = ({packed}, {taus}) custom-call(a), custom_call_target="Qr"\n'
        f"  p = {q} slice(c#0), slice={{{limits}}}\n"
        f"  q = {q} custom-call(p, c#1), "
        'custom_call_target="ProductOfElementaryHouseholderReflectors"\n'
        f"  ROOT t = ({packed}, {taus}, {q}) tuple(c#0, c#1, q)\n}}\n"
    )
    a = matrices(shape, dtype)
    found, _, vectors = map(wide, run(text, a))
    r = np.triu(found)[..., :k, :]
    assert_factored(vectors @ r, wide(a), dtype, max(shape))
    identity = np.conj(np.swapaxes(vectors, -1, -2)) @ vectors
    assert_factored(identity, np.broadcast_to(np.eye(k), identity.shape), dtype, max(shape))


@pytest.mark.parametrize("lower", [0, 1])
@pytest.mark.parametrize("dtype", TYPES[:5], ids=lambda t: np.dtype(t).name)
@pytest.mark.parametrize("shape", [(4, 4), (1, 1), (3, 9, 9)], ids=str)
def test_eigenvalues_of_the_triangle_that_is_named(
    shape: tuple[int, ...], dtype: Any, lower: int
) -> None:
    name = name_of(dtype)
    part = {"c64": "f32", "c128": "f64"}.get(name, name)
    dims = ",".join(map(str, shape))
    results = f"({name}[{dims}], {part}[{','.join(map(str, shape[:-1]))}])"
    call = f'custom_call_target="Eigh", backend_config="{lower},1,100,1e-6"'
    a = matrices(shape, dtype)
    text = text_of(shape, dtype, results, call)
    vectors, values = (wide(x) for x in hloc.evaluate(text, a))
    for found, expected in zip(hloc.compile(text)(a), (vectors, values), strict=True):
        assert_factored(np.abs(wide(found)), np.abs(expected), dtype, max(shape))
    triangle = wide(np.tril(a) if lower else np.triu(a))
    adjoint = np.conj(np.swapaxes(triangle, -1, -2))
    diagonal = np.eye(shape[-1]) * triangle
    symmetric = triangle + adjoint - (diagonal if np.dtype(dtype).kind != "c" else diagonal.conj())
    if np.dtype(dtype).kind == "c":
        symmetric = symmetric - 1j * np.eye(shape[-1]) * np.imag(symmetric)
    assert_factored(symmetric @ vectors, vectors * values[..., None, :], dtype, max(shape))
    assert np.all(np.diff(values.real) >= 0)


@pytest.mark.parametrize("shape", [(4, 4), (6, 3), (3, 6), (2, 5, 5)], ids=str)
def test_lu_with_pivots_from_zero_and_the_permutation(shape: tuple[int, ...]) -> None:
    *batch, m, n = shape
    k, dims = min(m, n), ",".join(map(str, shape))
    pivots, rows = (",".join(map(str, (*batch, size))) for size in (k, m))
    results = f"(f32[{dims}], s32[{pivots}], s32[{rows}])"
    a = matrices(shape, np.float32)
    lu, pivot, order = run(
        text_of(shape, np.float32, results, 'custom_call_target="LuDecomposition"'), a
    )
    lower = np.tril(lu, -1)[..., :k] + np.eye(m, k)
    upper = np.triu(lu)[..., :k, :]
    permuted = np.take_along_axis(a, order[..., None], axis=-2)
    assert_factored(wide(lower) @ wide(upper), wide(permuted), np.float32, max(shape))
    for place in np.ndindex(*batch):
        swapped = np.arange(m)
        for i, j in enumerate(pivot[place]):
            swapped[[i, j]] = swapped[[j, i]]
        np.testing.assert_array_equal(swapped, order[place])


def test_an_eigh_without_its_list_is_refused() -> None:
    text = text_of((2, 2), np.float32, "(f32[2,2], f32[2])", 'custom_call_target="Eigh"')
    with pytest.raises(HloError, match='backend_config such as "1,1,100,1e-6"'):
        hloc.evaluate(text, matrices((2, 2), np.float32))


@pytest.mark.jax
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_qr_is_that_of_xla(shape: tuple[int, ...]) -> None:
    from hloc.jax.xla_program import is_installed, run_by_xla

    if not is_installed():
        pytest.skip("needs jaxlib")
    *batch, m, n = shape
    dims = ",".join(map(str, shape))
    results = f"(f32[{dims}], f32[{','.join(map(str, (*batch, min(m, n))))}])"
    a = matrices(shape, np.float32)
    text = text_of(shape, np.float32, results, 'custom_call_target="Qr"')
    for found, expected in zip(run(text, a), run_by_xla(text, [a])[0], strict=True):
        assert_factored(wide(found), wide(expected), np.float32, max(shape))
