"""Accuracy of the f32 functions over all magnitudes, and their special values."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import hloc
from hloc.codegen.cpu.backend import CpuModule
from hloc.codegen.cpu.kernel import Kernel
from hloc.codegen.kernels.context import KernelContext
from hloc.codegen.llvm.target import Target, host_target
from hloc.runtime.executable import Executable
from tests.unit.codegen.harness import Array, Compiled, module_text, parse_text

COUNT = 1 << 18

FUNCTIONS: dict[str, tuple[Callable[..., Any], float]] = {
    "exp": (np.exp, 1.5),
    "expm1": (np.expm1, 2),
    "log": (np.log, 1.5),
    "log1p": (np.log1p, 2),
    "tanh": (np.tanh, 2),
    "sin": (np.sin, 2),
    "cos": (np.cos, 2),
    "tan": (np.tan, 4),
    "erf": (np.vectorize(math.erf), 3),
    "cbrt": (np.cbrt, 1),
    "logistic": (lambda x: np.where(x < 0, np.exp(x), 1) / (1 + np.exp(-np.abs(x))), 3),
    "asin": (np.arcsin, 3),
    "acos": (np.arccos, 2),
    "atan": (np.arctan, 3),
    "sinh": (np.sinh, 2),
    "cosh": (np.cosh, 2),
    "asinh": (np.arcsinh, 3),
    "acosh": (np.arccosh, 3),
    "atanh": (np.arctanh, 3),
}

SPECIAL_TEXT = """
0 -0 inf -inf nan 1 -1 0.5 -0.5 2 2.5 3 -3 1e-45 -1e-45 1e-38
88.7 88.73 89.4 -87.5 -103 -104 3.4e38 -3.4e38
"""
SPECIAL = np.array([float(word) for word in SPECIAL_TEXT.split()], np.float32)


def _without_scaling() -> Target:
    """Return this machine without AVX-512, whose instruction multiplies by powers of two."""
    host = host_target()
    kept = [f for f in host.features.split(",") if not f[1:].startswith(("avx512", "avx10"))]
    features = ",".join([*kept, "-avx512f"])
    return dataclasses.replace(host, features=features, vector_bits=min(256, host.vector_bits))


def _compiled(name: str, arguments: int, target: Target | None = None) -> Compiled:
    """Return a kernel that computes function `name` of one or two arrays."""
    text = module_text([f"f32[{COUNT}]"] * 2, f"f32[{COUNT}] add(p0, p1)")
    k = KernelContext(
        parse_text(text).entry.root, (None,), "kernel", target or host_target(), False
    )
    with k.body.loop(k.begin, k.end) as i:
        values = [array.load(k.math, (i,)) for array in k.inputs[:arguments]]
        k.output.store(k.math, (i,), k.b.math(name, *values))
    kernel = Kernel("kernel", k.fn.finish(), tuple(k.fn.declarations), COUNT, 0)
    return Compiled(kernel, target=target)


def _inputs(seed: int) -> Array:
    """Return values around 0, values up to 100, and values of all magnitudes and signs."""
    rng = np.random.default_rng(seed)
    third = COUNT // 3
    bits = rng.integers(0, 2**32, COUNT - 2 * third, dtype=np.uint64).astype(np.uint32)
    parts = [rng.uniform(-2, 2, third), rng.uniform(-100, 100, third)]
    values = np.concatenate([*(p.astype(np.float32) for p in parts), bits.view(np.float32)])
    values[: len(SPECIAL)] = SPECIAL
    return values


def _check(found: Array, exact: Array, max_ulp: float) -> None:
    rounded = exact.astype(np.float32)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(rounded))
    finite = np.isfinite(rounded) & np.isfinite(found)
    edge = np.abs(exact) > 3.4028e38  # one ulp decides between the largest number and infinity
    np.testing.assert_array_equal(found[~finite & ~edge], rounded[~finite & ~edge])
    unit = np.maximum(np.spacing(np.abs(rounded[finite])).astype(np.float64), 2.0**-149)
    errors = np.abs(found[finite].astype(np.float64) - exact[finite]) / unit
    assert errors.max() <= max_ulp
    zero = finite & (exact == 0)
    np.testing.assert_array_equal(np.signbit(found[zero]), np.signbit(exact[zero]))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_one_argument(name: str) -> None:
    _check_function(name, None)


@pytest.mark.parametrize(("opcode", "name"), [("sine", "sin"), ("cosine", "cos"), ("tan", "tan")])
def test_functions_of_single_values_are_called(opcode: str, name: str) -> None:
    """Those of 4 elements are not: LLVM computes them at once."""
    texts = [
        f"HloModule m\nENTRY e {{ x = f32[{size}] parameter(0)  ROOT y = f32[{size}] {opcode}(x) }}"
        for size in ("", "4")
    ]
    single, several = map(hloc.compile, texts)
    calls = []
    for executable in (single, several):
        assert isinstance(executable, Executable)
        assert isinstance(executable.compiled, CpuModule)
        (kernel,) = executable.compiled.kernels
        calls.append(f"call float @{name}f" in kernel.text)
    assert calls == [host_target().has("fma") or host_target().is_aarch64, False]
    exact, max_ulp = FUNCTIONS[name]
    x = np.concatenate((SPECIAL, _inputs(0)[:: COUNT // 100]))
    found = np.array([single(value)[0] for value in x])
    with np.errstate(all="ignore"):
        _check(found, exact(x.astype(np.float64)), max_ulp)


@pytest.mark.skipif(
    not host_target().triple.startswith("x86_64"), reason="only AVX-512 scales in one instruction"
)
@pytest.mark.parametrize("name", ["exp", "sinh", "cosh", "logistic"])
def test_powers_of_two_by_multiplication(name: str) -> None:
    _check_function(name, _without_scaling())


def _check_function(name: str, target: Target | None) -> None:
    exact, max_ulp = FUNCTIONS[name]
    x = _inputs(0)
    found = np.zeros(COUNT, np.float32)
    compiled = _compiled(name, 1, target)
    assert target is None or "ldexp" not in compiled.kernel.text
    compiled.run([x, x, found])
    with np.errstate(all="ignore"):
        _check(found, np.asarray(exact(x.astype(np.float64))), max_ulp)


@pytest.mark.parametrize(("name", "exact"), [("pow", np.power), ("atan2", np.arctan2)])
def test_two_arguments(name: str, exact: Callable[..., Array]) -> None:
    pairs = np.array(np.meshgrid(SPECIAL, SPECIAL), np.float32).reshape(2, -1)
    x, y = _inputs(1), _inputs(2)
    x[: len(pairs[0])], y[: len(pairs[0])] = pairs
    third = COUNT // 3
    y[third : 2 * third] = np.round(y[third : 2 * third])
    found = np.zeros(COUNT, np.float32)
    _compiled(name, 2).run([x, y, found])
    with np.errstate(all="ignore"):
        _check(found, exact(x.astype(np.float64), y.astype(np.float64)), 2.5)


@pytest.mark.parametrize("name", ["exp", "log", "tanh", "sin", "erf", "pow", "atan2"])
def test_functions_are_widened(name: str) -> None:
    """No branch and no call keeps LLVM from computing several elements at once."""
    module = str(_compiled(name, 2 if name in ("pow", "atan2") else 1).module)
    assert " x float>" in module
    assert "call float @" + name not in module
