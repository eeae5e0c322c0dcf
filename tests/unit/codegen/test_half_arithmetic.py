"""f16: the same bits where the machine computes with it and where it goes by way of f32."""

from __future__ import annotations

import numpy as np
import pytest

import hloc
from hloc.codegen.llvm.target import host_target

PROCESSORS = ("", "x86-64-v3")
PROCESSOR = pytest.mark.parametrize(
    "cpu", PROCESSORS if host_target().triple.startswith("x86_64") else ("",)
)
SIZE = 4099
BINARY = ("add", "subtract", "multiply", "divide", "minimum", "maximum")
UNARY = ("sqrt", "abs", "negate", "floor", "ceil", "round-nearest-even", "sign")


def operands() -> tuple[np.ndarray, np.ndarray]:
    """Return numbers of all exponents, and pairs of all special ones."""
    rng = np.random.default_rng(0)
    x, y = (rng.integers(0, 1 << 16, SIZE).astype(np.uint16).view(np.float16) for _ in range(2))
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 6e-8, -6e-8, 65504, 1, -1], np.float16)
    x[: special.size**2] = np.repeat(special, special.size)
    y[: special.size**2] = np.tile(special, special.size)
    return x, y


def check(root: str, cpu: str, before: str = "") -> None:
    """Compare the bits of `root`, made of the arrays x and y, with those of the evaluator."""
    x, y = operands()
    text = (
        f"HloModule m\nENTRY e {{ x = f16[{SIZE}] parameter(0)\n y = f16[{SIZE}] parameter(1)\n"
        f" {before}\n ROOT r = {root} }}"
    )
    (found,) = hloc.compile(text, cpu=cpu)(x, y)
    with np.errstate(all="ignore"):
        (expected,) = hloc.evaluate(text, x, y)
    if found.dtype == np.bool_:
        np.testing.assert_array_equal(found, expected)
        return
    lost = np.isnan(expected)
    np.testing.assert_array_equal(np.isnan(found), lost)
    np.testing.assert_array_equal(found[~lost].view(np.uint16), expected[~lost].view(np.uint16))


@PROCESSOR
@pytest.mark.parametrize("opcode", BINARY)
def test_two_operands(opcode: str, cpu: str) -> None:
    check(f"f16[{SIZE}] {opcode}(x, y)", cpu)


@PROCESSOR
@pytest.mark.parametrize("opcode", UNARY)
def test_one_operand(opcode: str, cpu: str) -> None:
    check(f"f16[{SIZE}] {opcode}(x)", cpu)


@PROCESSOR
@pytest.mark.parametrize("direction", ["EQ", "NE", "LT", "GE"])
def test_comparisons(direction: str, cpu: str) -> None:
    check(f"pred[{SIZE}] compare(x, y), direction={direction}", cpu)


@PROCESSOR
def test_nothing_is_left_out_between_two_operations(cpu: str) -> None:
    """A product that is added to is rounded first."""
    product = f"p = f16[{SIZE}] multiply(x, y)"
    check(f"f16[{SIZE}] subtract(p, y)", cpu, product)
