"""Random numbers as JAX makes them."""

import jax
import numpy as np

from benchmarks.suite.program import program

_COUNT = (1 << 21,)


def _key(_rng):
    return np.array([1, 2], np.uint32)


@program(_key)
def threefry_bits(key):
    return jax.random.bits(jax.random.wrap_key_data(key), _COUNT)


@program(_key)
def random_uniform(key):
    return jax.random.uniform(jax.random.wrap_key_data(key), _COUNT)


@program(_key)
def random_normal(key):
    return jax.random.normal(jax.random.wrap_key_data(key), _COUNT)


@program((2048, 1024), _key)
def dropout(x, key):
    keep = jax.random.bernoulli(jax.random.wrap_key_data(key), 0.9, x.shape)
    return x * keep / 0.9
