"""Programs that factor matrices and solve systems: small batches, filters, regressions, steps."""

import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
import numpy as np

from benchmarks.suite.program import program


def positive(a):
    """Return symmetric positive definite matrices made of any."""
    return a @ jnp.swapaxes(a, -1, -2) / a.shape[-1] + jnp.eye(a.shape[-1], dtype=a.dtype)


@program((1000, 4, 4))
def inverses_4(a):
    return jnp.linalg.inv(a + 4 * jnp.eye(4))


@program((1000, 6, 6))
def determinants_6(a):
    return jnp.linalg.det(a)


@program((200, 8, 8), (200, 8, 2))
def solves_8(a, b):
    return jnp.linalg.solve(a + 6 * jnp.eye(8), b)


@program((100, 16, 16), (100, 16, 1))
def cholesky_solves_16(a, b):
    return jsl.cho_solve((jnp.linalg.cholesky(positive(a)), True), b)


@program((200, 200))
def slogdet_200(a):
    return jnp.linalg.slogdet(a)


@program((100, 2), (4, 4), (2, 4))
def kalman_filter(observations, noise, model):
    transition = 0.9 * jnp.eye(4) + 0.05 * jnp.eye(4, k=1)
    process, measurement = 0.1 * positive(noise), jnp.eye(2)

    def step(state, observed):
        mean, covariance = state
        mean = transition @ mean
        covariance = transition @ covariance @ transition.T + process
        innovation = model @ covariance @ model.T + measurement
        gain = jnp.linalg.solve(innovation, model @ covariance).T
        mean = mean + gain @ (observed - model @ mean)
        covariance = (jnp.eye(4) - gain @ model) @ covariance
        return (mean, covariance), mean

    return jax.lax.scan(step, (jnp.zeros(4), jnp.eye(4)), observations)[1]


@program((100, 3), (100,), (20, 3))
def gaussian_process(x, y, new):
    def kernel(a, b):
        return jnp.exp(-0.5 * jnp.sum((a[:, None] - b[None]) ** 2, -1))

    factor = jnp.linalg.cholesky(kernel(x, x) + 0.1 * jnp.eye(100))
    across = kernel(x, new)
    spread = jsl.solve_triangular(factor, across, lower=True)
    mean = across.T @ jsl.cho_solve((factor, True), y)
    return mean, 1 - jnp.sum(spread**2, 0), jnp.sum(jnp.log(jnp.diag(factor)))


@program((500, 10), (500,))
def newton_logistic(x, scores):
    y = (scores > 0).astype(x.dtype)

    def step(weights, _):
        p = jax.nn.sigmoid(x @ weights)
        hessian = (x.T * (p * (1 - p))) @ x + jnp.eye(10)
        return weights - jnp.linalg.solve(hessian, x.T @ (p - y) + weights), None

    return jax.lax.scan(step, jnp.zeros(10), None, length=10)[0]


@program((12,))
def stiff_steps(start):
    """Implicit steps of Euler for a stiff reaction and diffusion, solved by Newton's method."""
    rates = jnp.asarray(np.logspace(0, 4, 12), start.dtype)

    def slope(y):
        return -rates * (y - jnp.cos(jnp.roll(y, 1)))

    def step(y, _):
        new = y
        for _ in range(3):
            residual = new - y - 0.01 * slope(new)
            jacobian = jnp.eye(12, dtype=y.dtype) - 0.01 * jax.jacfwd(slope)(new)
            new = new - jnp.linalg.solve(jacobian, residual)
        return new, None

    return jax.lax.scan(step, start, None, length=20)[0]


@program((100, 4, 4))
def eigenvalues_4(a):
    return jnp.linalg.eigvalsh(a)


@program((100, 100))
def eigenvalues_100(a):
    return jnp.linalg.eigvalsh(a)


@program((100, 50))
def singular_values(a):
    return jnp.linalg.svd(a, compute_uv=False)


@program((64, 32))
def qr_64(a):
    return jnp.linalg.qr(a)


@program((50, 10), (50,))
def least_squares(a, b):
    return jnp.linalg.lstsq(a, b)[0]
