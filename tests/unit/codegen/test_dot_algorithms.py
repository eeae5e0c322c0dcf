"""Dots of f32 whose algorithm allows bf16: how accurate they are, and where they stay f32."""

from __future__ import annotations

import numpy as np
import pytest

from hloc.codegen.cpu.emitters.gemm.dot import micro_gemm
from hloc.codegen.cpu.emitters.gemm.gemm_tiles import arithmetic_of
from hloc.codegen.cpu.emitters.gemm.packed_gemm import PackedGemm
from hloc.codegen.llvm.target import host_target, target_for
from hloc.dtypes import BF16, F32
from tests.unit.codegen.harness import module_text, parse_text, run_instruction
from tests.unit.codegen.test_products import narrower

X1, X3, X6 = "dot_bf16_bf16_f32", "dot_bf16_bf16_f32_x3", "dot_bf16_bf16_f32_x6"
SAPPHIRE = target_for("x86_64", "sapphirerapids", "")

needs_matrix_registers = pytest.mark.skipif(
    not host_target().has("amx-bf16"), reason="needs matrix registers for bf16"
)


def product_text(sizes: tuple[int, int, int], algorithm: str, left: int = 1, right: int = 0) -> str:
    m, n, k = sizes
    lhs = f"f32[{m},{k}]" if left else f"f32[{k},{m}]"
    rhs = f"f32[{n},{k}]" if right else f"f32[{k},{n}]"
    root = (
        f"f32[{m},{n}] dot(p0, p1), lhs_contracting_dims={{{left}}}, "
        f"rhs_contracting_dims={{{right}}}, algorithm={algorithm}"
    )
    return module_text([lhs, rhs], root)


def error_of(text: str, lhs: np.ndarray, rhs: np.ndarray, left: int, right: int) -> float:
    """Return the largest error relative to the sum of the products' magnitudes."""
    (found,) = run_instruction(parse_text(text).entry.root, [lhs, rhs], pieces=2)
    x, y = (a.astype(np.float64) for a in (lhs if left else lhs.T, rhs.T if right else rhs))
    return float(np.max(np.abs(found - x @ y) / (np.abs(x) @ np.abs(y))))


@needs_matrix_registers
@pytest.mark.parametrize(
    ("sizes", "left", "right"),
    [
        ((33, 47, 71), 0, 0),
        ((33, 47, 71), 1, 1),
        ((80, 129, 640), 0, 1),
        ((100, 200, 1030), 1, 0),
    ],
)
def test_errors_are_those_of_the_algorithm(
    sizes: tuple[int, int, int], left: int, right: int
) -> None:
    """Two bf16 for an f32 have 16 bits; all other sums are in f32."""
    rng = np.random.default_rng(sum(sizes))
    m, n, k = sizes
    lhs = rng.standard_normal((m, k) if left else (k, m)).astype(np.float32)
    rhs = rng.standard_normal((n, k) if right else (k, n)).astype(np.float32)
    errors = {
        name: error_of(product_text(sizes, name, left, right), lhs, rhs, left, right)
        for name in (X1, X3, X6)
    }
    assert errors[X1] == errors[X3]
    assert 2.0**-23 < errors[X3] < 2.0**-15
    assert errors[X6] < 2.0**-20


@needs_matrix_registers
@pytest.mark.parametrize("special", [np.inf, -np.inf, np.nan])
def test_infinity_and_nan_stay_what_they_are(special: float) -> None:
    """What the nearest bf16 of infinity leaves is no NaN."""
    text = product_text((40, 64, 70), X3)
    lhs, rhs = np.ones((40, 70), np.float32), np.ones((70, 64), np.float32)
    lhs[7, 69] = special
    (found,) = run_instruction(parse_text(text).entry.root, [lhs, rhs])
    np.testing.assert_array_equal(found[7], np.float32(special))
    assert (found[np.arange(40) != 7] == 70).all()


@pytest.mark.parametrize("name", [X1, X3])
def test_matrix_registers_multiply_bf16(name: str) -> None:
    found = micro_gemm(parse_text(product_text((80, 64, 64), name)).entry.root)
    assert isinstance(found, PackedGemm)
    assert arithmetic_of(found, SAPPHIRE).operand is BF16


@pytest.mark.parametrize(
    "name", [X6, "dot_bf16_bf16_f32_x9", "dot_tf32_tf32_f32", "dot_f32_f32_f32"]
)
def test_other_algorithms_are_f32(name: str) -> None:
    """Nothing that is faster than f32 would be as accurate."""
    found = micro_gemm(parse_text(product_text((80, 64, 64), name)).entry.root)
    assert isinstance(found, PackedGemm)
    assert arithmetic_of(found, SAPPHIRE).operand is F32


@pytest.mark.parametrize("bits", [128, 256])
def test_processors_without_such_units_use_f32(bits: int) -> None:
    found = micro_gemm(parse_text(product_text((80, 64, 64), X3)).entry.root)
    assert isinstance(found, PackedGemm)
    assert arithmetic_of(found, narrower(bits)).operand is F32
