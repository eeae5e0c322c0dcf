"""Gather, scatter, dynamic slices."""

import jax
import jax.numpy as jnp

from benchmarks.suite.program import integers, program


@program((50257, 256), integers(50257, 4096))
def embedding(table, tokens):
    return table[tokens]


@program((50257, 256), integers(50257, 4096), (4096, 256))
def embedding_gradient(table, tokens, gradient):
    return jnp.zeros_like(table).at[tokens].add(gradient)


@program((1 << 20,), integers(1 << 20, 1 << 20))
def gather_scalars(x, indices):
    return x[indices]


@program(integers(1024, 1 << 18))
def histogram(values):
    return jnp.zeros(1024, jnp.int32).at[values].add(1)


@program(integers(1000, 2048))
def one_hot(labels):
    return jax.nn.one_hot(labels, 1000)


@program((8, 1024, 512), (8, 1, 512), integers(1000, 1))
def cache_update(cache, row, at):
    return jax.lax.dynamic_update_slice(cache, row, (0, at[0], 0)) * 1.0


@program((1024, 1000), integers(1000, 1024))
def take_along_rows(x, labels):
    return jnp.take_along_axis(x, labels[:, None], axis=1)
