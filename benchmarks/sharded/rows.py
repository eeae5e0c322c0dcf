"""Reductions, sorts and scans along the dimension that is split."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from benchmarks.sharded.program import array, program, split

_COLUMNS = array(6, 32, by=(None, "x"))


@program("x=8", _COLUMNS)
def softmax_split(x):
    return jax.nn.softmax(x), jax.nn.logsumexp(x, 1)


@program("x=4", _COLUMNS, array(32, by="x"), array(32, by="x"))
def layer_norm_split(x, scale, shift):
    mean, variance = jnp.mean(x, -1, keepdims=True), jnp.var(x, -1, keepdims=True)
    return (x - mean) * lax.rsqrt(variance + 1e-5) * scale + shift


@program("x=4", _COLUMNS, array(32, by="x"))
def layer_norm_gradient(x, scale):
    def norm(x, scale):
        y = x * lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-5) * scale
        return jnp.sum(jnp.sin(y))

    return jax.grad(norm, (0, 1))(x, scale)


@program("x=8", _COLUMNS)
def best_places(x):
    return jnp.argmax(x, 1), jnp.argmin(x, 1), jnp.argmax(x), jnp.max(x, 1)


@program("x=4", _COLUMNS)
def running_sums(x):
    return jnp.cumsum(x, 1), lax.cumlogsumexp(x, 1, reverse=True)


def _running_products_answer(x):
    """XLA's partitioner fills the windows with zeros, whatever the operation."""
    return np.cumprod(x, 1), np.maximum.accumulate(x, 1)


@program("x=4", _COLUMNS, answer=_running_products_answer)
def running_products(x):
    return jnp.cumprod(x, 1), lax.cummax(x, 1)


@program("x=8", _COLUMNS)
def sorts(x):
    keys, places = lax.sort_key_val(x, lax.broadcasted_iota(jnp.int32, x.shape, 1))
    return keys, places, jnp.sort(x, 0), jnp.median(x, 1)


@program("x=8", _COLUMNS)
def largest(x):
    return lax.top_k(x, 3), lax.top_k(x.T, 2)


@program("x=4,y=2", array(16, 8, 6, by=("x", "y")))
def reductions(x):
    return x.sum(), x.max((0, 2)), x.min(1), x.prod(2), jnp.linalg.norm(x, axis=(0, 1)), x.std(0)


@program("x=2,y=2,z=2", array(8, 12, 16, by=("x", "y", "z")))
def reductions_scattered(x):
    return split(x.sum(0), "x"), split(x.max(1), ("x", "y")), split(x.mean(2), "z", "x")


@program("x=8", array(32, by="x"), array(32, by="x", dtype="int32"))
def reduce_pairs(x, ids):
    def larger(a, b):
        first = (a[0] > b[0]) | ((a[0] == b[0]) & (a[1] < b[1]))
        return jnp.where(first, a[0], b[0]), jnp.where(first, a[1], b[1])

    return lax.reduce((x, ids), (jnp.float32(-jnp.inf), jnp.int32(0)), larger, (0,))


@program("x=4", array(8, 16, by="x", dtype="complex64"))
def fourier(x):
    """Along whole rows, then along the dimension that is split."""
    return jnp.fft.fft(x, axis=1), jnp.fft.ifft(x, axis=0), jnp.fft.rfft(x.real, axis=1)
