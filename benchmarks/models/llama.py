"""Two of the 16 blocks of Llama 3.2 1B: GQA of 32 query and 8 key heads, RoPE, SwiGLU.

121 M weights; all 16 blocks would take 3.9 GB in f32 for each engine.
"""

from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.models.layers import attention, causal, dense, heads, merge, rms_norm
from benchmarks.models.model import model

BLOCKS, WIDTH, HEADS, GROUPS, SIZE, INNER, CACHE = 2, 2048, 32, 8, 64, 8192, 1024


def _weights(make):
    return [
        {
            "norm1": make.near(1, WIDTH),
            "q": make.matrix(WIDTH, HEADS * SIZE),
            "k": make.matrix(WIDTH, GROUPS * SIZE),
            "v": make.matrix(WIDTH, GROUPS * SIZE),
            "out": make.matrix(HEADS * SIZE, WIDTH),
            "norm2": make.near(1, WIDTH),
            "gate": make.matrix(WIDTH, INNER),
            "up": make.matrix(WIDTH, INNER),
            "down": make.matrix(INNER, WIDTH),
        }
        for _ in range(BLOCKS)
    ]


def rotate(x, positions):
    """Return RoPE of `[batch, length, heads, size]` at `[length]` positions."""
    half = x.shape[-1] // 2
    angles = positions[:, None] * 500000.0 ** (-jnp.arange(half) / half)
    cosine, sine = (f(angles)[:, None, :].astype(x.dtype) for f in (jnp.cos, jnp.sin))
    low, high = x[..., :half], x[..., half:]
    return jnp.concatenate([low * cosine - high * sine, high * cosine + low * sine], axis=-1)


def _repeat(x):
    """Return each key head once per query head of its group."""
    return jnp.repeat(x, HEADS // GROUPS, axis=2)


def _block(block, x, positions, attend):
    y = rms_norm(x, block["norm1"])
    q = rotate(heads(dense(y, block["q"]), HEADS), positions)
    k = rotate(heads(dense(y, block["k"]), GROUPS), positions)
    x = x + dense(merge(attend(q, k, heads(dense(y, block["v"]), GROUPS))), block["out"])
    y = rms_norm(x, block["norm2"])
    return x + dense(jax.nn.silu(dense(y, block["gate"])) * dense(y, block["up"]), block["down"])


@model(
    _weights,
    lambda make, batch: (make.normal(batch, 128, WIDTH, scale=1),),
    batches=(1,),
    others=((1, "bfloat16"),),
    twin="llama_prefill",
)
def llama_2_blocks_prefill(weights, x):
    length = x.shape[1]
    for block in weights:
        x = _block(
            block,
            x,
            jnp.arange(length),
            lambda q, k, v: attention(q, _repeat(k), _repeat(v), causal(length)),
        )
    return x


def _decoding(make, batch):
    shape = (batch, CACHE, GROUPS, SIZE)
    caches = [tuple(make.normal(*shape, scale=1) for _ in range(2)) for _ in range(BLOCKS)]
    return make.normal(batch, 1, WIDTH, scale=1), make.integers(1, 1)[0] + 1000, caches


@model(
    _weights,
    _decoding,
    others=((1, "bfloat16"), (1, "int8"), (8, "int8")),
    carried=3,
    twin="llama_decode",
)
def llama_2_blocks_decode(weights, x, at, caches):
    """One token with 1,000 before it; the new key and value are written into the caches."""
    updated: list[Any] = []

    def attend(q, k, v):
        old_keys, old_values = caches[len(updated)]
        keys = jax.lax.dynamic_update_slice(old_keys, k, (0, at, 0, 0))
        values = jax.lax.dynamic_update_slice(old_values, v, (0, at, 0, 0))
        updated.append((keys, values))
        return attention(q, _repeat(keys), _repeat(values), jnp.arange(CACHE) <= at)

    for block in weights:
        x = _block(block, x, at[None], attend)
    return x, updated
