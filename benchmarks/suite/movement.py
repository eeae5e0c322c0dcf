"""Programs that only move data."""

import jax.numpy as jnp

from benchmarks.suite.program import program


@program((2048, 2048))
def transpose(x):
    return x.T * 2.0


@program((8, 512, 16, 128))
def transpose_heads(x):
    return jnp.transpose(x, (0, 2, 1, 3)) * 2.0


@program((64, 3, 128, 128))
def transpose_channels_last(x):
    return jnp.transpose(x, (0, 2, 3, 1)) * 2.0


@program((1024, 1024), (1024, 512), (1024, 512))
def concatenate(x, y, z):
    return jnp.concatenate([x, y, z], axis=1)


@program((64, 112, 112, 16))
def pad(x):
    return jnp.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))


@program((2048, 2048))
def roll(x):
    return jnp.roll(x, (5, 300), axis=(0, 1))


@program((2048, 2048))
def reverse(x):
    return x[:, ::-1] * 2.0


@program((4096, 1024))
def strided_slice(x):
    return x[::2, ::3] + 1.0
