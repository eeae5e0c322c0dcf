"""Products in loops whose state decays: tiny operands are scaled, and no number is lost."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hloc
from hloc.codegen.cpu.backend import CpuModule
from tests.unit.codegen.processors import PROCESSOR

STEPS = 40
KINDS: dict[str, np.dtype[Any]] = {"f32": np.dtype(np.float32), "f64": np.dtype(np.float64)}
LOST = 4
"""Most times the least number that a result may be off: each of the last steps rounds once."""

Array = np.ndarray[Any, np.dtype[Any]]


def loop(dtype: str, rows: int, size: int, *, transposed: bool = False) -> str:
    """Return a module that multiplies a state by a matrix, `STEPS` times."""
    state = f"{dtype}[{rows},{size}]" if rows else f"{dtype}[{size}]"
    matrix, last = f"{dtype}[{size},{size}]", 1 if rows else 0
    contracted = f"lhs_contracting_dims={{{last}}}, rhs_contracting_dims={{{int(transposed)}}}"
    tuple_ = f"(s32[], {state}, {matrix})"
    return f"""HloModule decay
condition {{
  p = {tuple_} parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant({STEPS})
  ROOT more = pred[] compare(i, n), direction=LT
}}
body {{
  p = {tuple_} parameter(0)
  i = s32[] get-tuple-element(p), index=0
  one = s32[] constant(1)
  next = s32[] add(i, one)
  s = {state} get-tuple-element(p), index=1
  w = {matrix} get-tuple-element(p), index=2
  d = {state} dot(s, w), {contracted}
  ROOT t = {tuple_} tuple(next, d, w)
}}
ENTRY e {{
  s = {state} parameter(0)
  w = {matrix} parameter(1)
  zero = s32[] constant(0)
  t = {tuple_} tuple(zero, s, w)
  l = {tuple_} while(t), condition=condition, body=body
  ROOT r = {state} get-tuple-element(l), index=1
}}"""


def decaying(dtype: np.dtype[Any], rows: int, size: int) -> tuple[Array, Array, Array]:
    """Return a state, a matrix that keeps an eighth of it, and the result with all its digits."""
    rng = np.random.default_rng(size)
    turned, _ = np.linalg.qr(rng.standard_normal((size, size)))
    matrix = (turned / 8).astype(dtype)
    state = rng.standard_normal((rows, size) if rows else size).astype(dtype)
    least = np.finfo(dtype).smallest_subnormal
    # After the last step the largest numbers are a few hundred of the least.
    power = np.floor(np.log2(least)) + 3 * STEPS + 8
    state = np.ldexp(state, int(power)).astype(dtype)
    exact = np.ldexp(state.astype(np.longdouble), int(3 * STEPS - power))
    for _ in range(STEPS):
        exact = exact @ matrix.astype(np.longdouble)
    return state, matrix, np.ldexp(exact, int(power) - 3 * STEPS)


@PROCESSOR
@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize(("rows", "size"), [(0, 40), (0, 129), (1, 512), (5, 72), (17, 96)])
def test_state_that_becomes_subnormal(name: str, rows: int, size: int, cpu: str) -> None:
    state, matrix, exact = decaying(KINDS[name], rows, size)
    text = loop(name, rows, size)
    results = [hloc.compile(text, cpu=cpu, threads=n)(state, matrix)[0] for n in (1, 3)]
    np.testing.assert_array_equal(results[0], results[1])
    normal, least = np.finfo(KINDS[name]).smallest_normal, np.finfo(KINDS[name]).smallest_subnormal
    assert LOST * least < np.abs(exact).max() < normal
    np.testing.assert_allclose(
        results[0], exact.astype(KINDS[name]), rtol=0, atol=LOST * float(least)
    )


@pytest.mark.parametrize("other", [1.0, 1e30, np.inf, np.nan])
def test_large_number_after_a_tiny_one(other: float) -> None:
    """An operand is scaled only if all of its numbers are tiny."""
    state = np.full(40, 1e-40, np.float32)
    state[-1] = other
    expected = state if np.isfinite(other) else np.full(40, np.nan)  # which zeros turn into NaN
    (found,) = hloc.compile(loop("f32", 0, 40), threads=1)(state, np.eye(40, dtype=np.float32))
    np.testing.assert_array_equal(found, expected)


def test_only_products_in_loops_are_scaled() -> None:
    text = loop("f32", 1, 64)
    once = """HloModule once
ENTRY e {
  s = f32[1,64] parameter(0)
  w = f32[64,64] parameter(1)
  ROOT d = f32[1,64] dot(s, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}"""
    for module, count in ((text, 1), (once, 0)):
        compiled = hloc.compile(module).compiled
        assert isinstance(compiled, CpuModule)
        scaled = [kernel.scaled for kernel in compiled.kernels if kernel.scaled]
        assert [(s.operand, s.elements, s.results) for s in scaled] == [(0, 64, 64)] * count
