"""Functions of the CHLO dialect beside the standard library's, and bit for bit beside XLA's."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import hloc
from hloc.formats import jaxlib_converter
from hloc.formats.read import read_snapshot
from tests.tolerance import bounds
from tests.unit.formats.samples import needs_jaxlib

Array = np.ndarray[Any, Any]
NUMPY: dict[str, Any] = {"f16": np.float16, "f32": np.float32, "f64": np.float64}


def text_of(name: str, dtype: str, operands: int = 1) -> bytes:
    kind = f"tensor<1000x{dtype}>"
    values = ", ".join(["%a", "%b"][:operands])
    kinds = ", ".join([kind] * operands)
    result = "tensor<1000xi1>" if name.startswith("is_") else kind
    return (
        f"module @m {{\n  func.func @main(%a: {kind}, %b: {kind}) -> {result} {{\n"
        f"    %0 = chlo.{name} {values} : {kinds} -> {result}\n    return %0 : {result}\n  }}\n}}\n"
    ).encode()


def arguments(dtype: str, low: float, high: float) -> tuple[Array, Array]:
    rng = np.random.default_rng(3)
    x = rng.uniform(low, high, 1000).astype(NUMPY[dtype])
    x[:7] = [0, -0.0, 1, -1, np.inf, -np.inf, np.nan]
    return x, rng.permutation(x)


FUNCTIONS: list[tuple[str, Callable[[float], float], float, float]] = [
    ("erfc", math.erfc, -6, 9),
    ("lgamma", math.lgamma, 0.1, 40),
    ("square", lambda x: x * x, -10, 10),
]


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize(("name", "function", "low", "high"), FUNCTIONS)
def test_a_function_is_near_the_one_of_the_standard_library(
    name: str, function: Callable[[float], float], low: float, high: float, dtype: str
) -> None:
    x, y = arguments(dtype, low, high)
    x = np.where((x > low) & (x < high), x, NUMPY[dtype](1.5))
    (found,) = hloc.evaluate(read_snapshot(text_of(name, dtype), "m.mlir").module, x, y)
    wanted = np.array([function(float(v)) for v in x])
    row = bounds("f64 gamma") if dtype == "f64" else bounds("f32 gamma")
    np.testing.assert_allclose(found, wanted, **row)


def test_the_inverse_of_erf_is_its_inverse() -> None:
    x, y = arguments("f64", -0.999, 0.999)
    (found,) = hloc.evaluate(read_snapshot(text_of("erf_inv", "f64"), "m.mlir").module, x, y)
    assert list(found[2:4]) == [math.inf, -math.inf]
    inner = np.abs(x) < 1
    back = [math.erf(v) for v in found[inner]]
    np.testing.assert_allclose(back, x[inner], **bounds("f64 special"))


def test_the_next_number_is_numpys() -> None:
    x, y = arguments("f32", -2, 2)
    (found,) = hloc.evaluate(read_snapshot(text_of("next_after", "f32", 2), "m.mlir").module, x, y)
    np.testing.assert_array_equal(found, np.nextafter(x, y))


@pytest.mark.jax
@needs_jaxlib
@pytest.mark.parametrize("dtype", ["f16", "f32", "f64"])
@pytest.mark.parametrize(
    "name", ["erfc", "erf_inv", "lgamma", "digamma", "bessel_i1e", "next_after", "is_inf", "square"]
)
def test_every_bit_is_xlas(name: str, dtype: str) -> None:
    if (name, dtype) == ("bessel_i1e", "f64"):
        pytest.skip("hloc leaves this one to jaxlib")
    text = text_of(name, dtype, 2 if name == "next_after" else 1)
    low, high = (-0.999, 0.999) if name == "erf_inv" else (-9, 12)
    ours = read_snapshot(text, "m.mlir").module
    theirs = hloc.parse(jaxlib_converter.to_hlo(text, "StableHLO text", "m").decode())
    for x, y in zip(
        hloc.evaluate(ours, *arguments(dtype, low, high)),
        hloc.evaluate(theirs, *arguments(dtype, low, high)),
        strict=True,
    ):
        np.testing.assert_array_equal(x, y)
