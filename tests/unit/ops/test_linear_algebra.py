"""cholesky, triangular-solve, fft, batch norms against NumPy and vectors measured with XLA."""

from itertools import product
from typing import Any

import numpy as np
import pytest

from hloc.errors import HloError
from tests.tolerance import bounds
from tests.unit.ops.programs import f32, run

RNG = np.random.default_rng(2)


@pytest.mark.parametrize(
    ("a", "lower", "expected"),
    [
        ([[4, 99], [2, 3]], "true", [[2, 0], [1, np.sqrt(2)]]),
        ([[4, 2], [99, 3]], "false", [[2, 1], [0, np.sqrt(2)]]),
        ([[4, 99], [2, 3]], "false", [[np.nan, np.nan], [np.nan, np.nan]]),
        ([[1, 2], [2, 1]], "true", [[np.nan, np.nan], [np.nan, np.nan]]),
    ],
)
def test_cholesky_reads_one_triangle_and_clears_the_other(
    a: Any, lower: str, expected: Any
) -> None:
    entry = f"a = f32[1,2,2] parameter(0) ROOT c = cholesky(a), lower={lower}"
    (result,) = run(entry, f32([a]))
    np.testing.assert_allclose(result, f32([expected]), **bounds("f32 few roundings"))


SIDES = list(product(["true", "false"], repeat=3))


@pytest.mark.parametrize(("left", "lower", "unit"), SIDES)
@pytest.mark.parametrize("transpose", ["NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"])
def test_triangular_solve_solves(left: str, lower: str, unit: str, transpose: str) -> None:
    a = (RNG.standard_normal((2, 3, 3)) + 1j * RNG.standard_normal((2, 3, 3))).astype("c8")
    a += 3 * np.eye(3, dtype="c8")
    dims = (2, 3, 2) if left == "true" else (2, 2, 3)
    b = RNG.standard_normal(dims).astype("c8")
    (x,) = run(
        f"a = c64[2,3,3] parameter(0) b = c64[{','.join(map(str, dims))}] parameter(1) "
        f"ROOT x = triangular-solve(a, b), left_side={left}, lower={lower}, "
        f"unit_diagonal={unit}, transpose_a={transpose}",
        a,
        b,
    )
    matrix = np.tril(a) if lower == "true" else np.triu(a)
    if unit == "true":
        matrix[:, range(3), range(3)] = 1
    if transpose != "NO_TRANSPOSE":
        matrix = np.swapaxes(matrix, 1, 2)
    if transpose == "ADJOINT":
        matrix = matrix.conj()
    back = matrix @ x if left == "true" else x @ matrix
    np.testing.assert_allclose(back, b, **bounds("f32 residual"))


def test_fft_goes_there_and_back() -> None:
    x = RNG.standard_normal((2, 5)).astype(np.float32)
    entry = (
        "x = f32[2,5] parameter(0) f = c64[2,3] fft(x), fft_type=RFFT, fft_length={5} "
        "g = f32[2,5] fft(f), fft_type=IRFFT, fft_length={5} ROOT t = tuple(f, g)"
    )
    forward, back = run(entry, x)
    np.testing.assert_allclose(forward, np.fft.rfft(x), **bounds("f32 function"))
    np.testing.assert_allclose(back, x, **bounds("f32 short sum"))


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("r = fft(x), fft_type=FFT, fft_length={4}", "FFT needs a complex type"),
        ("r = fft(x), fft_type=RFFT, fft_length={5}", r"needs last dimensions \[5\]"),
        ("r = cholesky(x)", "must hold square matrices"),
        ("r = triangular-solve(s, x), left_side=true, transpose_a=TRANSPOSE", "do not fit"),
        ("r = triangular-solve(s, s)", "transpose_a must be one of"),
    ],
)
def test_what_does_not_fit_is_refused(entry: str, message: str) -> None:
    with pytest.raises(HloError, match=message):
        run(f"x = f32[3,4] parameter(0) s = f32[4,4] parameter(1) ROOT {entry}")


def test_batch_norm_training_uses_the_biased_variance() -> None:
    normalised, mean, variance = run(
        "x = f32[4,1] parameter(0) s = f32[1] constant({1}) o = f32[1] constant({0}) ROOT r = "
        "batch-norm-training(x, s, o), epsilon=0.001, feature_index=1",
        f32([[1], [2], [3], [4]]),
    )
    assert mean == 2.5
    assert variance == 1.25
    np.testing.assert_allclose(
        normalised[:, 0], (np.arange(1, 5) - 2.5) / np.sqrt(1.251), **bounds("f32 few roundings")
    )


def test_batch_norm_gradient_agrees_with_differences() -> None:
    x, grad = RNG.standard_normal((2, 6, 3))
    scale, epsilon = RNG.standard_normal(3), 0.01

    def loss(x: Any) -> Any:
        normalised = (x - x.mean(0)) / np.sqrt(x.var(0) + epsilon) * scale
        return (normalised * grad).sum()

    step = 1e-6
    numeric = np.zeros((6, 3))
    for index in np.ndindex(6, 3):
        moved = x.copy()
        moved[index] += step
        numeric[index] = (loss(moved) - loss(x)) / step
    (found, *_) = run(
        "x = f64[6,3] parameter(0) s = f64[3] parameter(1) m = f64[3] parameter(2) "
        "v = f64[3] parameter(3) g = f64[6,3] parameter(4) ROOT r = "
        f"batch-norm-grad(x, s, m, v, g), epsilon={epsilon}, feature_index=1",
        x,
        scale,
        x.mean(0),
        x.var(0),
        grad,
    )
    np.testing.assert_allclose(found, numeric, **bounds("numeric derivative"))
