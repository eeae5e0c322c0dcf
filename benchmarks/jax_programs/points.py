"""Points in the plane, and models fitted to them."""

import jax
import jax.numpy as jnp
from jax import lax

from benchmarks.jax_programs.program import integers, normal, program, uniform


@program(normal(200, 2), integers(200, 6))
def k_means(points, seeds):
    def step(_, centres):
        gaps = jnp.sum((points[:, None] - centres[None]) ** 2, -1)
        one_hot = jax.nn.one_hot(jnp.argmin(gaps, 1), 6)
        return (one_hot.T @ points) / jnp.maximum(one_hot.sum(0)[:, None], 1.0)

    return lax.fori_loop(0, 100, step, points[seeds])


@program(uniform(50, 2, high=10.0), normal(50, 2, scale=0.1))
def flock(places, speeds):
    """Fifty birds that keep apart and together, 100 steps."""

    def step(state, _):
        x, v = state
        gap = x[None] - x[:, None]
        near = (jnp.sum(gap**2, -1) < 4.0).astype(x.dtype)
        count = jnp.sum(near, 1, keepdims=True)
        middle = near @ x / count - x
        apart = -jnp.sum(gap * jnp.exp(-jnp.sum(gap**2, -1))[..., None], 1)
        v = 0.95 * v + 0.01 * middle + 0.02 * apart + 0.02 * (near @ v / count - v)
        return (x + 0.1 * v, v), jnp.mean(v)

    return lax.scan(step, (places, speeds), None, length=100)


@program(normal(64, 8), normal(64), normal(8, 16, scale=0.3), normal(16, scale=0.3))
def adam_training(features, targets, inner, outer):
    """A small network trained by Adam, 100 steps."""

    def loss(w):
        return jnp.mean((jnp.tanh(features @ w[0]) @ w[1] - targets) ** 2)

    def step(state, t):
        w, m, v = state
        error, slope = jax.value_and_grad(loss)(w)
        m = jax.tree.map(lambda a, g: 0.9 * a + 0.1 * g, m, slope)
        v = jax.tree.map(lambda a, g: 0.999 * a + 0.001 * g * g, v, slope)
        scale = jnp.sqrt(1.0 - 0.999**t) / (1.0 - 0.9**t)
        w = jax.tree.map(lambda a, b, c: a - 0.01 * scale * b / (jnp.sqrt(c) + 1e-6), w, m, v)
        return (w, m, v), error

    w = (inner, outer)
    zero = jax.tree.map(jnp.zeros_like, w)
    return lax.scan(step, (w, zero, zero), jnp.arange(1.0, 101.0))


@program(normal(100, 3), uniform(100))
def online_regression(rows, targets):
    """Recursive least squares, one row at a time."""

    def step(state, sample):
        w, p = state
        x, y = sample
        gain = p @ x / (1.0 + x @ p @ x)
        w = w + gain * (y - w @ x)
        return (w, p - jnp.outer(gain, x @ p)), w

    return lax.scan(step, (jnp.zeros(3), 10.0 * jnp.eye(3)), (rows, targets))
