"""Accuracy of the f64 functions that stand in for the C library, and their special values."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import hloc
from hloc.codegen.builder.math.double import log_table
from hloc.codegen.builder.math.double.parts import F64_FUNCTIONS
from hloc.codegen.builder.math.remainder import remainder
from hloc.codegen.cpu.kernel import Kernel
from hloc.codegen.kernels.context import KernelContext
from hloc.codegen.llvm.target import host_target
from tests.tolerance import bounds
from tests.unit.codegen.harness import Array, Compiled, module_text, parse_text
from tests.unit.codegen.processors import PROCESSOR

COUNT = 1 << 14

# NumPy's long double has 11 bits more, so that its own errors do not count.
REFERENCE: dict[str, tuple[Callable[..., Any], float]] = {
    "exp": (np.exp, 1),
    "expm1": (np.expm1, 2),
    "tanh": (np.tanh, 2.5),
    "sinh": (np.sinh, 2),
    "cosh": (np.cosh, 2),
    "log": (np.log, 1),
    "log1p": (np.log1p, 1),
    "sin": (np.sin, 1),
    "cos": (np.cos, 1),
    "tan": (np.tan, 2),
    "atan": (np.arctan, 2),
    "asin": (np.arcsin, 1.5),
    "acos": (np.arccos, 1.5),
    "asinh": (np.arcsinh, 2),
    "acosh": (np.arccosh, 2),
    "atanh": (np.arctanh, 2),
    "cbrt": (np.cbrt, 1),
}
SPECIAL = np.array(
    [0.0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 2, -3, 0.5, 5e-324, -5e-324, 1e-310, 1e308, -1e308]
)

needs_long_double = pytest.mark.skipif(
    np.finfo(np.longdouble).nmant < 63, reason="long double is no longer than f64 here"
)


def _compiled(name: str, arguments: int, kind: str = "f64") -> Compiled:
    """Return a kernel that computes function `name` of one or two arrays."""
    text = module_text([f"{kind}[{COUNT}]"] * 2, f"{kind}[{COUNT}] add(p0, p1)")
    target = host_target()
    k = KernelContext(parse_text(text).entry.root, (None,), "kernel", target, False)
    with k.body.loop(k.begin, k.end) as i:
        values = [array.load(k.math, (i,)) for array in k.inputs[:arguments]]
        function = remainder if name == "fmod" else F64_FUNCTIONS[name]
        k.output.store(k.math, (i,), function(k.b, *values))
    return Compiled(Kernel("kernel", k.fn.finish(), tuple(k.fn.declarations), COUNT, 0))


def _run(name: str, *arrays: Array) -> Array:
    padded = [np.resize(array.astype(np.float64), COUNT) for array in (*arrays, arrays[0])[:2]]
    result = np.zeros(COUNT)
    _compiled(name, len(arrays)).run([*padded, result])
    return result[: arrays[0].size]


def _inputs(seed: int) -> Array:
    """Return values around 0, values up to 700, and values of all magnitudes, with both signs."""
    rng = np.random.default_rng(seed)
    third = COUNT // 3
    spread = np.exp(rng.uniform(-600, 600, COUNT - 2 * third))
    parts = [rng.uniform(-1.5, 1.5, third), rng.uniform(-700, 700, third), spread]
    values: Array = np.concatenate(parts) * rng.choice([-1.0, 1.0], COUNT)
    return values


def _max_ulp(found: Array, exact: Array) -> float:
    """Return the largest error in units of the last place; other special values are infinite."""
    with np.errstate(over="ignore", under="ignore"):
        rounded = exact.astype(np.float64)
    special = ~np.isfinite(rounded) | ~np.isfinite(found)
    if not np.array_equal(found[special], rounded[special], equal_nan=True):
        return np.inf
    with np.errstate(all="ignore"):
        error = np.abs(found.astype(np.longdouble) - exact) / np.spacing(np.abs(rounded))
    return float(error[~special].max())


@needs_long_double
@pytest.mark.parametrize("name", REFERENCE)
def test_error_is_within_the_bound(name: str) -> None:
    function, bound = REFERENCE[name]
    x = _inputs(1)
    with np.errstate(all="ignore"):
        exact = function(x.astype(np.longdouble))
    assert _max_ulp(_run(name, x), exact) <= bound


@needs_long_double
def test_large_angles_are_reduced_exactly() -> None:
    """The worst known argument lies within 2**-61 of a multiple of pi/2."""
    x = np.array([6381956970095103.0 * 2.0**797, 2.0**1023, 1e22, 1e300])
    with np.errstate(all="ignore"):
        exact = np.sin(x.astype(np.longdouble))
    exact[0] = np.longdouble("1.0")  # its cosine is 4.7e-19
    exact[2] = np.longdouble("-0.8522008497671888017727058937530294")
    found = _run("sin", x)
    assert abs(found[0] - 1) < 1e-15
    assert found[2] == np.float64(exact[2])
    assert _run("cos", x)[0] == pytest.approx(-4.68716592425462761112e-19, rel=1e-14)


@needs_long_double
def test_power_is_within_an_ulp() -> None:
    rng = np.random.default_rng(2)
    x = np.exp(rng.uniform(-5, 5, COUNT))
    y = rng.uniform(-100, 100, COUNT)
    x[: COUNT // 4] = 1 + rng.uniform(-1e-3, 1e-3, COUNT // 4)
    y[: COUNT // 4] *= 5e3
    # |y log x| is below 512, so that the reference is off by 2**-54 at most.
    exact = np.power(x.astype(np.longdouble), y.astype(np.longdouble))
    assert _max_ulp(_run("pow", x, y), exact) <= 1.2


@needs_long_double
def test_angles_of_points_are_within_two_ulp() -> None:
    rng = np.random.default_rng(3)
    y = rng.uniform(-1, 1, COUNT) * 10.0 ** rng.uniform(-300, 300, COUNT)
    x = y * 10.0 ** rng.uniform(-3, 3, COUNT) * rng.choice([-1.0, 1.0], COUNT)
    exact = np.arctan2(y.astype(np.longdouble), x.astype(np.longdouble))
    assert _max_ulp(_run("atan2", y, x), exact) <= 2


@pytest.mark.parametrize("name", REFERENCE)
def test_special_values_are_those_of_c(name: str) -> None:
    with np.errstate(all="ignore"):
        expected = REFERENCE[name][0](SPECIAL)
    found = _run(name, SPECIAL)
    np.testing.assert_allclose(found, expected, **bounds("f64 special"))
    zeros = found == 0
    assert np.array_equal(np.signbit(found[zeros]), np.signbit(expected[zeros]))


@pytest.mark.parametrize(("name", "function"), [("pow", np.power), ("atan2", np.arctan2)])
def test_special_pairs_are_those_of_c(name: str, function: Callable[..., Any]) -> None:
    x, y = (grid.ravel() for grid in np.meshgrid(SPECIAL, SPECIAL))
    with np.errstate(all="ignore"):
        expected = function(x, y)
    found = _run(name, x, y)
    np.testing.assert_allclose(found, expected, **bounds("f64 special"))
    zeros = found == 0
    assert np.array_equal(np.signbit(found[zeros]), np.signbit(expected[zeros]))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_remainders_are_exact(dtype: type[np.floating[Any]]) -> None:
    rng = np.random.default_rng(4)
    largest = 38 if dtype is np.float32 else 307
    exponents = rng.uniform(-largest - 5, largest, (2, COUNT))
    x, y = (rng.uniform(-1, 1, (2, COUNT)) * 10.0**exponents).astype(dtype)
    y[::3] = x[::3] * dtype(0.37)
    with np.errstate(over="ignore", under="ignore"):
        special = SPECIAL.astype(dtype)
    pairs = np.array(np.meshgrid(special, special)).reshape(2, -1)
    x[: len(pairs[0])], y[: len(pairs[0])] = pairs
    found = np.zeros(COUNT, dtype)
    _compiled("fmod", 2, "f32" if dtype is np.float32 else "f64").run([x, y, found])
    with np.errstate(all="ignore"):
        expected = np.fmod(x, y)
    np.testing.assert_array_equal(found, expected)
    zeros = found == 0
    assert np.array_equal(np.signbit(found[zeros]), np.signbit(expected[zeros]))


def test_functions_are_used_where_there_is_no_c_library() -> None:
    """The sine is a call where there is one; what is short is written out everywhere."""
    text = module_text(["f64[4]"], "f64[4] sine(p0)")
    root = parse_text(text).entry.root
    texts: dict[str, list[str]] = {"sin": [], "exp": []}
    for target in (host_target(), replace(host_target(), triple="nvptx64-nvidia-cuda")):
        for name, found in texts.items():
            k = KernelContext(root, (None,), "kernel", target, False)
            k.b.math(name, k.inputs[0].load(k.math, (0,)))
            found.append(k.fn.finish())
    assert ["@sin(" in one for one in texts["sin"]] == [True, False]
    assert "@exp(" not in texts["exp"][1]
    assert ("@exp(" in texts["exp"][0]) == (not host_target().has("fma"))


def test_remainders_of_the_logarithm_are_exact() -> None:
    """The table's inverses have few bits, so that z / c - 1 is a float for every z."""
    rows, _ = log_table._numbers()
    width = 1 << log_table._INTERVAL_BITS
    for number, (inverse, *_) in enumerate(rows):
        first = log_table._FIRST_BITS + number * width
        for bits in (first, first + 1, first + width // 3, first + width - 1):
            (z,) = struct.unpack("<d", struct.pack("<q", bits))
            exact = Fraction(z) * Fraction(inverse) - 1
            assert Fraction(float(exact)) == exact
            assert abs(exact) < 2**-7
    assert rows[log_table._AROUND_ONE] == (1.0, 0.0, 0.0)


# ---------------------------------------------------------------- sines beside the C library


def _of_program(name: str, x: Array, cpu: str) -> Array:
    """Return opcode `name` of `x`, as a program of its own computes it."""
    shape = f"f64[{x.size}]"
    text = f"HloModule m\nENTRY e {{ x = {shape} parameter(0)\n ROOT r = {shape} {name}(x) }}"
    (found,) = hloc.compile(text, cpu=cpu)(x)
    return found


@PROCESSOR
@pytest.mark.parametrize("name", ["sine", "cosine", "tan"])
@pytest.mark.parametrize("large", [0, 0.01, 1])
def test_bits_do_not_depend_on_neighbours(name: str, large: float, cpu: str) -> None:
    """Vectors with and without large numbers, and the single numbers at the end, agree."""
    rng = np.random.default_rng(1)
    x = rng.uniform(-50, 50, 1030)
    x = np.where(rng.random(x.size) < large, x * 1e9, x)
    x[:40:2] = np.resize([*SPECIAL, 2.0**20, -(2.0**20), 2.0**20 - 0.5], 20)
    whole = _of_program(name, x, cpu)
    for start, stop in ((3, 1030), (0, 1), (5, 6), (0, 45)):
        found = _of_program(name, x[start:stop].copy(), cpu)
        np.testing.assert_array_equal(found.view(np.int64), whole[start:stop].view(np.int64))


@needs_long_double
@PROCESSOR
@pytest.mark.parametrize(("name", "ulps"), [("sine", 1), ("cosine", 1), ("tan", 2)])
def test_sines_of_programs(name: str, ulps: float, cpu: str) -> None:
    x = _inputs(2)
    function = {"sine": np.sin, "cosine": np.cos, "tan": np.tan}[name]
    wanted = function(x.astype(np.longdouble))
    spacing = np.spacing(np.abs(wanted.astype(np.float64)))
    assert (np.abs(_of_program(name, x, cpu) - wanted) / spacing).max() <= ulps
