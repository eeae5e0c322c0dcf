"""Prefix sums and their kin."""

import jax
import jax.numpy as jnp

from benchmarks.suite.program import program


@program((512, 2048))
def cumsum_rows(x):
    return jnp.cumsum(x, axis=1)


@program((2048, 512))
def cumsum_columns(x):
    return jnp.cumsum(x, axis=0)


@program((1 << 20,))
def cumsum_long(x):
    return jnp.cumsum(x)


@program((512, 2048))
def cummax_rows(x):
    return jax.lax.cummax(x, axis=1)


@program((512, 2048))
def cumlogsumexp_rows(x):
    return jax.lax.cumlogsumexp(x, axis=1)
