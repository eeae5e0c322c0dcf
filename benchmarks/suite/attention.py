"""Attention."""

import jax
import jax.numpy as jnp

from benchmarks.suite.program import program


def attend(q, k, v, causal=True):
    """Return attention of `[batch, length, heads, size]` arrays."""
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / q.shape[-1] ** 0.5
    if causal:
        mask = jnp.tril(jnp.ones((q.shape[1], k.shape[1]), bool))
        scores = jnp.where(mask, scores, -1e30)
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), v)


@program(*[(2, 512, 12, 64)] * 3)
def attention_causal(q, k, v):
    return attend(q, k, v)


@program(*[(4, 197, 12, 64)] * 3)
def attention_full(q, k, v):
    return attend(q, k, v, causal=False)


@program((4, 1, 16, 64), (4, 1024, 16, 64), (4, 1024, 16, 64))
def attention_decode(q, k, v):
    return attend(q, k, v, causal=False)
