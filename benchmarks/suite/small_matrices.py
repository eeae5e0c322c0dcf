"""Programs of many small factorisations, of other element types, and of LAPACK's rarer routines."""

import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
import jax.scipy.sparse.linalg as jsp
import numpy as np
from jax.experimental.sparse.linalg import lobpcg_standard

from benchmarks.suite.factorisations import positive
from benchmarks.suite.program import program


def signless(*vectors):
    """Return sizes of the elements of vectors, whose signs are free."""
    return tuple(jnp.abs(x) for x in vectors)


def symmetric(a):
    """Return symmetric matrices made of any."""
    return a + jnp.swapaxes(a, -1, -2)


@program((100, 8, 8))
def eigen_batch_8(a):
    return signless(*jnp.linalg.eigh(symmetric(a)))


@program((32, 16, 16))
def eigen_batch_16(a):
    return signless(*jnp.linalg.eigh(symmetric(a)))


@program((16, 32, 32))
def eigen_batch_32(a):
    values, vectors = jnp.linalg.eigh(symmetric(a))
    return values, (vectors * values[:, None]) @ jnp.swapaxes(vectors, 1, 2)


@program((32, 16, 16))
def eigenvalues_batch_16(a):
    return jnp.linalg.eigvalsh(symmetric(a))


@program((200, 3, 3))
def singular_batch_3(a):
    return signless(*jnp.linalg.svd(a))


@program((32, 16, 8))
def singular_batch_16(a):
    return signless(*jnp.linalg.svd(a, full_matrices=False))


@program((32, 16, 16))
def singular_values_batch_16(a):
    return jnp.linalg.svd(a, compute_uv=False)


@program((100, 8, 4))
def qr_batch_8(a):
    return jnp.linalg.qr(a)


@program((32, 16, 16), dtype="complex64")
def eigen_batch_complex(a):
    return signless(*jnp.linalg.eigh(a + jnp.conj(jnp.swapaxes(a, -1, -2))))


@program((200, 6, 6), dtype="complex64")
def inverses_complex(a):
    return jnp.linalg.inv(a + 6 * jnp.eye(6))


@program((100, 16, 16), (100, 16, 1), dtype="float64")
def cholesky_solves_f64(a, b):
    return jsl.cho_solve((jnp.linalg.cholesky(positive(a)), True), b)


@program((20, 20))
def eigen_general(a):
    return jnp.linalg.eig(a)


@program((50, 6, 6))
def eigen_general_batch(a):
    return jnp.linalg.eigvals(a)


@program((20, 20))
def schur_form(a):
    return jsl.schur(a)


@program((40, 20))
def qr_pivoted(a):
    return jsl.qr(a, mode="economic", pivoting=True)


@program((30, 30))
def hessenberg_form(a):
    return jsl.hessenberg(a, calc_q=True)


@program((30, 30))
def tridiagonal_form(a):
    return jax.lax.linalg.tridiagonal(symmetric(a), lower=True)


@program((40, 20), (40,))
def svd_qr_least_squares(a, b):
    q, r = jnp.linalg.qr(a)
    u, s, vt = jnp.linalg.svd(a, full_matrices=False)
    by_svd = vt.T @ ((u.T @ b) / s)
    return jsl.solve_triangular(r, q.T @ b), by_svd, jnp.linalg.lstsq(a, b)[0], s


@program((60, 3), (60,), (3, 3))
def extended_kalman(angles, observations, noise):
    process = 0.01 * positive(noise)

    def moved(state):
        x, _y, heading = state
        step = jnp.stack([jnp.cos(heading), jnp.sin(heading), 0.1 * jnp.tanh(x)])
        return state + 0.1 * step

    def seen(state):
        return jnp.stack([jnp.sqrt(state[0] ** 2 + state[1] ** 2 + 1), jnp.sin(state[2])])

    def step(carry, measured):
        state, covariance = carry
        f = jax.jacfwd(moved)(state)
        state, covariance = moved(state), f @ covariance @ f.T + process
        h = jax.jacfwd(seen)(state)
        innovation = h @ covariance @ h.T + 0.1 * jnp.eye(2)
        gain = jnp.linalg.solve(innovation, h @ covariance).T
        state = state + gain @ (measured - seen(state))
        return (state, (jnp.eye(3) - gain @ h) @ covariance), state

    measured = jnp.stack([jnp.abs(observations) + 1, jnp.sin(angles[:, 0])], 1)
    return jax.lax.scan(step, (jnp.ones(3), jnp.eye(3)), measured)[1]


@program((50, 2), (3, 3), (2, 3))
def kalman_em(observations, noise, model):
    """Filter, smoother and one re-estimate of the noises, the process's to scale, five times."""
    transition = 0.9 * jnp.eye(3)

    def forwards(process, measurement):
        def step(state, observed):
            mean, covariance = state
            ahead = transition @ mean
            spread = transition @ covariance @ transition.T + process
            innovation = model @ spread @ model.T + measurement
            gain = jsl.solve(innovation, model @ spread, assume_a="pos").T
            mean = ahead + gain @ (observed - model @ ahead)
            covariance = spread - gain @ model @ spread
            return (mean, covariance), (mean, covariance, ahead, spread)

        return jax.lax.scan(step, (jnp.zeros(3), jnp.eye(3)), observations)[1]

    def backwards(means, covariances, aheads, spreads):
        def step(later, now):
            mean, covariance, ahead, spread = now
            gain = jsl.solve(spread, transition @ covariance, assume_a="pos").T
            mean = mean + gain @ (later[0] - ahead)
            covariance = covariance + gain @ (later[1] - spread) @ gain.T
            return (mean, covariance), (mean, covariance)

        start = (means[-1], covariances[-1])
        rest = (means[:-1], covariances[:-1], aheads[1:], spreads[1:])
        return jax.lax.scan(step, start, rest, reverse=True)[1]

    def round_(noises, _):
        means, covariances = backwards(*forwards(*noises))
        moves = means[1:] - means[:-1] @ transition.T
        errors = observations[:-1] - means @ model.T
        process = moves.T @ moves / 49 + jnp.mean(covariances, 0) + 0.01 * jnp.eye(3)
        measurement = errors.T @ errors / 49 + 0.01 * jnp.eye(2)
        return (process / jnp.trace(process), measurement), jnp.trace(process)

    start = (0.1 * positive(noise), jnp.eye(2))
    return jax.lax.scan(round_, start, None, length=5)


@program((300, 8), (300,))
def reweighted_least_squares(x, scores):
    """Poisson regression by iteratively reweighted least squares."""
    y = jnp.floor(jnp.exp(jnp.clip(scores, -1, 1)))

    def step(weights, _):
        linear = jnp.clip(0.3 * x @ weights, -3, 3)
        mean = jnp.exp(linear)
        target = linear + (y - mean) / mean
        normal = (x.T * mean) @ x + 0.1 * jnp.eye(8)
        return jsl.solve(normal, x.T @ (mean * target), assume_a="pos"), None

    return jax.lax.scan(step, jnp.zeros(8), None, length=8)[0]


@program((100, 10), (10, 4))
def lobpcg_like(a, start):
    """The largest eigenvalues of a symmetric matrix by subspace iteration with Rayleigh-Ritz."""
    matrix = a.T @ a / 100

    def step(x, _):
        q, _ = jnp.linalg.qr(matrix @ x)
        values, vectors = jnp.linalg.eigh(q.T @ matrix @ q)
        return q @ vectors, values

    return jax.lax.scan(step, start, None, length=10)[1]


@program((60, 60), (60, 3))
def lobpcg(a, start):
    matrix = positive(a)
    values, vectors, _ = lobpcg_standard(matrix, start, m=10)
    return values, jnp.abs(jnp.sum(vectors * (matrix @ vectors), 0))


@program((100, 100), (100,))
def gmres(a, b):
    return jsp.gmres(lambda x: x + 0.02 * (a @ x), b, restart=20, maxiter=2)[0]


@program((100, 100), (100,))
def conjugate_gradients(a, b):
    return jsp.cg(positive(a), b, maxiter=30)[0]


@program((3,), dtype="float64")
def adaptive_stiff_steps(start):
    """Robertson's reaction by TR-BDF2, whose step follows an estimate of the error.

    Source: Hosea and Shampine, Analysis and implementation of TR-BDF2, 1996.
    """
    gamma, end = 2 - np.sqrt(2), 10.0
    weight, last = np.sqrt(2) / 4, gamma / 2

    def slope(y):
        slow, fast, square = 0.04 * y[0], 1e4 * y[1] * y[2], 3e7 * y[1] ** 2
        return jnp.stack([fast - slow, slow - fast - square, square])

    def step(state):
        time, h, y = state
        factors = jsl.lu_factor(jnp.eye(3) - h * last * jax.jacfwd(slope)(y))

        def stage(known, guess):
            for _ in range(4):
                residual = guess - known - h * last * slope(guess)
                guess = guess - jsl.lu_solve(factors, residual)
            return guess

        first = slope(y)
        middle = stage(y + h * last * first, y)
        second = slope(middle)
        new = stage(y + h * weight * (first + second), middle)
        third = slope(new)
        shares = (1 - 4 * weight) / 3, 1 / 3, -2 * last / 3
        wrong = h * (shares[0] * first + shares[1] * second + shares[2] * third)
        error = jnp.max(jnp.abs(jsl.lu_solve(factors, wrong)) / (1e-8 + 1e-5 * jnp.abs(y)))
        accepted = error < 1
        factor = jnp.clip(0.8 * jnp.maximum(error, 1e-6) ** (-1 / 3), 0.2, 4)
        time = jnp.where(accepted, time + h, time)
        return time, jnp.minimum(h * factor, end - time), jnp.where(accepted, new, y)

    concentrations = jnp.stack([1 - 1e-3 * jnp.abs(start[0]), 1e-6, 1e-3 * jnp.abs(start[0])])
    begin = (jnp.zeros((), start.dtype), jnp.full((), 1e-4, start.dtype), concentrations)
    return jax.lax.while_loop(lambda state: state[0] < end, step, begin)[2]


@program((8,), dtype="float64")
def implicit_runge_kutta(start):
    """Two-stage diagonally implicit steps for a stiff system, one LU for both stages."""
    gamma = 1 - 1 / np.sqrt(2)
    rates = jnp.asarray(np.logspace(0, 4, 8), start.dtype)

    def slope(y):
        return -rates * (y - jnp.sin(jnp.roll(y, 1)))

    def step(y, _):
        h = 0.01
        factors = jsl.lu_factor(jnp.eye(8) - h * gamma * jax.jacfwd(slope)(y))

        def stage(known, guess):
            for _ in range(3):
                residual = guess - slope(known + h * gamma * guess)
                guess = guess - jsl.lu_solve(factors, residual)
            return guess

        first = stage(y, slope(y))
        second = stage(y + h * (1 - gamma) * first, first)
        return y + h * ((1 - gamma) * first + gamma * second), None

    return jax.lax.scan(step, start, None, length=20)[0]
