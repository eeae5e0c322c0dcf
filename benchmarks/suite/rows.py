"""Reductions and what is built on them: norms, softmax, losses."""

import jax
import jax.numpy as jnp

from benchmarks.suite.program import integers, program

_ROWS = (2048, 2048)


@program(_ROWS)
def softmax(x):
    return jax.nn.softmax(x, axis=-1)


@program(_ROWS)
def log_softmax(x):
    return jax.nn.log_softmax(x, axis=-1)


@program(_ROWS, (2048,), (2048,))
def layernorm(x, scale, offset):
    mean = jnp.mean(x, axis=-1, keepdims=True)
    variance = jnp.var(x, axis=-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * scale + offset


@program(_ROWS, (2048,))
def rmsnorm(x, scale):
    return x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-6) * scale


@program((64, 768), (768,), (768,))
def small_layernorm(x, scale, offset):
    return layernorm(x, scale, offset)


@program(_ROWS)
def reduce_rows(x):
    return jnp.sum(x, axis=1)


@program(_ROWS)
def reduce_columns(x):
    return jnp.sum(x, axis=0)


@program((1 << 22,))
def reduce_all(x):
    return jnp.sum(x)


@program(_ROWS)
def reduce_max_columns(x):
    return jnp.max(x, axis=0)


@program((128, 64, 512))
def reduce_middle(x):
    return jnp.sum(x, axis=1)


@program(_ROWS)
def logsumexp(x):
    return jax.scipy.special.logsumexp(x, axis=-1)


@program(_ROWS)
def argmax(x):
    return jnp.argmax(x, axis=-1)


@program(_ROWS)
def argmin_columns(x):
    return jnp.argmin(x, axis=0)


@program((512, 4096), integers(4096, 512))
def cross_entropy(logits, labels):
    log = jax.nn.log_softmax(logits)
    return -jnp.mean(jnp.take_along_axis(log, labels[:, None], axis=1))


@program((64, 56, 56, 32), (32,), (32,))
def batchnorm_train(x, scale, offset):
    mean = jnp.mean(x, axis=(0, 1, 2))
    variance = jnp.mean(x * x, axis=(0, 1, 2)) - mean * mean
    return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * scale + offset
