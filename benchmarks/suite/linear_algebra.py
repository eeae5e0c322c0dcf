"""Transforms and factorisations."""

import jax
import jax.numpy as jnp

from benchmarks.suite.program import program


@program((64, 4096))
def fft_rows(x):
    return jnp.fft.rfft(x)


@program((256, 1000))
def fft_thousand(x):
    return jnp.abs(jnp.fft.fft(x))


@program((256, 256), (256, 64))
def triangular_solve(a, b):
    lower = jnp.tril(a) + 20.0 * jnp.eye(256)
    return jax.scipy.linalg.solve_triangular(lower, b, lower=True)
