"""Sorting and selecting."""

import jax
import jax.numpy as jnp

from benchmarks.suite.program import program


@program((1 << 20,))
def sort_long(x):
    return jnp.sort(x)


@program((512, 1024))
def sort_rows(x):
    return jnp.sort(x, axis=1)


@program((1 << 18,), dtype="int32")
def sort_integers(x):
    return jnp.sort(x * 7919)


@program((1 << 18,))
def argsort(x):
    return jnp.argsort(x)


@program((512, 1024))
def top_k(x):
    return jax.lax.top_k(x, 50)


@program((1 << 16,), (1 << 12,))
def searchsorted(x, y):
    return jnp.searchsorted(jnp.sort(x), y)
