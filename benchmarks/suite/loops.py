"""Loops of many short steps."""

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.suite.program import program


@program(())
def while_scalar(x):
    return jax.lax.fori_loop(0, 100_000, lambda i, y: y * 0.999 + 1.0, x)


@program((64,))
def while_vector(x):
    return jax.lax.fori_loop(0, 10_000, lambda i, y: y * 0.5 + 1.0, x)


@program((128,), lambda rng: (rng.standard_normal((128, 128)) * 0.05).astype(np.float32))
def recurrent_tanh(state, w):
    return jax.lax.fori_loop(0, 1000, lambda i, s: jnp.tanh(s @ w), state)


@program((256,), (1000, 256))
def scan_sum(state, xs):
    return jax.lax.scan(lambda s, x: (s * 0.9 + x, jnp.max(s)), state, xs)


@program((64, 64))
def newton_schulz(x):
    x = x / jnp.linalg.norm(x)
    return jax.lax.fori_loop(0, 20, lambda i, y: 1.5 * y - 0.5 * y @ y.T @ y, x)
