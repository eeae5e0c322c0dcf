"""triangular-solve and cholesky on GPUs: sides, transposes, batches, sizes beyond one block."""

from __future__ import annotations

import numpy as np
import pytest

from hloc import evaluate
from hloc.codegen.gpu.emitters import triangular
from hloc.runtime.gpu.executable import GpuExecutable
from hloc.runtime.gpu.simulated import SimulatedDevice
from tests.tolerance import bounds
from tests.unit.codegen.emitters import gpu_emitter_for
from tests.unit.gpu.simulate import Array, compiled, entry


def _agree(text: str, *arrays: Array) -> None:
    module = compiled(text)
    (request,) = module.plan.kernels
    assert gpu_emitter_for(request.inst) in (triangular.SOLVE, triangular.CHOLESKY)
    (found,) = GpuExecutable(module, SimulatedDevice())(*arrays)
    (wanted,) = evaluate(text, *arrays)
    np.testing.assert_allclose(found, wanted, **bounds("f32 tiled solution"))


def _matrices(shape: tuple[int, ...], dtype: str) -> Array:
    """Return matrices that are well conditioned, and so are their triangles."""
    rng = np.random.default_rng(5)
    found = rng.uniform(-0.3, 0.3, shape)
    if dtype == "complex64":
        found = found + 1j * rng.uniform(-0.3, 0.3, shape)
    return (found + 4 * np.eye(shape[-1])).astype(dtype)


@pytest.mark.parametrize("side", ["left_side=true", "left_side=false"])
@pytest.mark.parametrize("lower", ["lower=true", "lower=false"])
@pytest.mark.parametrize("form", ["NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"])
def test_triangles(side: str, lower: str, form: str) -> None:
    text = entry(
        "c64[2,9,9];c64[2,9,9]",
        f"c64[2,9,9] triangular-solve(p0, p1), {side}, {lower}, transpose_a={form}",
    )
    _agree(text, _matrices((2, 9, 9), "complex64"), _matrices((2, 9, 9), "complex64"))


def test_more_right_hand_sides_than_a_block_has() -> None:
    text = entry(
        "f32[20,20];f32[20,70]",
        "f32[20,70] triangular-solve(p0, p1), left_side=true, lower=true, "
        "unit_diagonal=true, transpose_a=NO_TRANSPOSE",
    )
    rng = np.random.default_rng(3)
    _agree(text, _matrices((20, 20), "float32") * np.float32(0.1), rng.random((20, 70), np.float32))


@pytest.mark.parametrize("lower", ["true", "false"])
@pytest.mark.parametrize("dtype", ["f32", "c64"])
def test_factors(lower: str, dtype: str) -> None:
    text = entry(f"{dtype}[2,35,35]", f"{dtype}[2,35,35] cholesky(p0), lower={lower}")
    a = _matrices((2, 35, 35), "complex64" if dtype == "c64" else "float32")
    _agree(text, a @ np.conj(np.swapaxes(a, 1, 2)))


def test_a_matrix_without_a_factor_is_not_a_number() -> None:
    """Only that matrix of the batch."""
    text = entry("f32[2,3,3]", "f32[2,3,3] cholesky(p0), lower=true")
    a = np.stack([np.eye(3), -np.eye(3)]).astype(np.float32)
    _agree(text, a)
