"""Pooling."""

import jax
import jax.numpy as jnp

from benchmarks.suite.program import program


def _max_pool(x):
    return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")


@program((8, 112, 112, 32))
def max_pool(x):
    return _max_pool(x)


@program((8, 56, 56, 64))
def average_pool(x):
    sums = jax.lax.reduce_window(x, 0.0, jax.lax.add, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    return sums / 4.0


@program((4, 112, 112, 16))
def max_pool_gradient(x):
    return jax.grad(lambda y: jnp.sum(_max_pool(y) ** 2))(x)
