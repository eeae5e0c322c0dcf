"""Equations solved step by step."""

import jax
import jax.numpy as jnp
from jax import lax

from benchmarks.jax_programs.program import normal, program, uniform


@program(uniform(500), uniform(500), normal(500))
def tridiagonal(below, above, right):
    """Thomas's algorithm: one scan down, one up."""

    def down(carry, row):
        c, d = carry
        low, high, r = row
        scale = 1.0 / (4.0 - low * c)
        return (high * scale, (r - low * d) * scale), (high * scale, (r - low * d) * scale)

    _, (c, d) = lax.scan(down, (0.0, 0.0), (below, above, right))

    def up(x, row):
        x = row[1] - row[0] * x
        return x, x

    return lax.scan(up, 0.0, (c, d), reverse=True)[1]


@program(uniform(4, low=0.5, high=1.5, dtype="float64"))
def newton(start):
    """Newton's method on four equations, with the Jacobian of JAX."""

    def f(x):
        return jnp.array([
            x[0] ** 2 + x[1] - 2.0, x[1] * x[2] - 1.0, jnp.exp(x[2] - 1.0) - x[3], x[3] + x[0] - 2.0
        ])  # fmt: skip

    def step(state):
        x, _, count = state
        change = jnp.linalg.solve(jax.jacfwd(f)(x), f(x))
        return x - change, jnp.max(jnp.abs(change)), count + 1

    state = (start, jnp.float64(1.0), 0)
    return lax.while_loop(lambda s: (s[1] > 1e-12) & (s[2] < 40), step, state)[0]


@program(uniform(256, low=1.0, high=100.0, dtype="float64"))
def newton_roots(numbers):
    """Cube roots of many numbers, each with steps of its own."""

    def root(a):
        def step(state):
            x, _ = state
            fresh = x - (x**3 - a) / (3.0 * x**2)
            return fresh, jnp.abs(fresh - x)

        return lax.while_loop(lambda s: s[1] > 1e-12, step, (a, a * 0.0 + 1.0))[0]

    return jax.vmap(root)(numbers)


@program(normal(32, 32, scale=0.2, dtype="float64"), normal(32, dtype="float64"))
def conjugate_gradients(base, right):
    matrix = base @ base.T + jnp.eye(32)

    def step(state):
        x, r, p, square, count = state
        ap = matrix @ p
        alpha = square / jnp.dot(p, ap)
        x, r = x + alpha * p, r - alpha * ap
        fresh = jnp.dot(r, r)
        return x, r, r + fresh / square * p, fresh, count + 1

    first = (jnp.zeros(32), right, right, jnp.dot(right, right), 0)
    return lax.while_loop(lambda s: (s[3] > 1e-16) & (s[4] < 200), step, first)[0]


@program(normal(24, 24, scale=0.2))
def power_iteration(base):
    matrix = base @ base.T + jnp.eye(24)

    def step(_, v):
        v = matrix @ v
        return v / jnp.sqrt(jnp.sum(v**2))

    v = lax.fori_loop(0, 300, step, jnp.ones(24))
    return v @ matrix @ v


@program(normal(500, 4, 4, scale=0.2), normal(500, 4), source="jax#36799")
def small_solves(matrices, rights):
    """500 systems of four equations."""
    matrices = matrices @ jnp.swapaxes(matrices, 1, 2) + jnp.eye(4)
    return jax.vmap(jnp.linalg.solve)(matrices, rights)


@program(normal(32, 2), normal(32, 2))
def sinkhorn(sources, targets):
    cost = jnp.sum((sources[:, None] - targets[None]) ** 2, -1)

    def step(_, state):
        f, g = state
        f = -jax.nn.logsumexp(g[None] - cost, axis=1) - jnp.log(32.0)
        return f, -jax.nn.logsumexp(f[:, None] - cost, axis=0) - jnp.log(32.0)

    f, g = lax.fori_loop(0, 100, step, (jnp.zeros(32), jnp.zeros(32)))
    return jnp.sum(jnp.exp(f[:, None] + g[None] - cost) * cost)
