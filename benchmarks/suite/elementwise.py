"""Programs that do the same to each element."""

import jax
import jax.numpy as jnp

from benchmarks.suite.program import program

_LARGE = (1 << 22,)


@program((8,), (8,))
def tiny_add(x, y):
    return x + y


@program((1024,), (1024,))
def small_axpy(x, y):
    return 2.5 * x + y


@program(_LARGE, _LARGE)
def axpy(x, y):
    return 2.5 * x + 1.5 * y


@program(_LARGE)
def transcendental_chain(x):
    return jnp.tanh(x) * jnp.exp(-jnp.abs(x)) + jnp.log1p(jnp.abs(x))


@program(_LARGE)
def gelu_tanh(x):
    return jax.nn.gelu(x, approximate=True)


@program(_LARGE)
def gelu_erf(x):
    return jax.nn.gelu(x, approximate=False)


@program(_LARGE)
def sine(x):
    return jnp.sin(x)


@program(_LARGE)
def power_rsqrt(x):
    y = jnp.abs(x) + 1.0
    return jnp.power(y, 1.7) * jax.lax.rsqrt(y)


@program(_LARGE)
def logistic(x):
    return jax.nn.sigmoid(x)


@program(_LARGE, dtype="bfloat16")
def gelu_bf16(x):
    return jax.nn.gelu(x) * 2 + 1


@program(_LARGE, dtype="int32")
def integer_hash(x):
    x = (x ^ (x >> 16)) * 0x45D9F3B
    x = (x ^ (x >> 16)) * 0x45D9F3B
    return x ^ (x >> 16)


@program((512, 2048), (2048,), (512, 1))
def broadcast_mix(x, row, column):
    return jnp.where(x > 0, x * row + column, jnp.minimum(x, column))
