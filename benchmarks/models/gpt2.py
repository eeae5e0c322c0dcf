"""GPT-2 124M (Radford et al. 2019): 12 blocks of width 768, 12 heads, 1,024 positions."""

from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.models.layers import (
    attention,
    block_weights,
    causal,
    cross_entropy,
    dense,
    descend,
    heads,
    layer_norm,
    merge,
    norm_weights,
)
from benchmarks.models.model import model

WIDTH, HEADS, POSITIONS, VOCABULARY = 768, 12, 1024, 50257


def _weights(blocks):
    return lambda make: {
        "tokens": make.normal(VOCABULARY, WIDTH),
        "positions": make.normal(POSITIONS, WIDTH),
        "blocks": [block_weights(make, WIDTH) for _ in range(blocks)],
        "norm": norm_weights(make, WIDTH),
    }


def _block(block, x, attend):
    """Return the output of a block; `attend` gets query, key and value."""
    q, k, v = jnp.split(dense(layer_norm(x, block["norm1"]), *block["qkv"]), 3, axis=-1)
    x = x + dense(merge(attend(heads(q, HEADS), heads(k, HEADS), heads(v, HEADS))), *block["out"])
    hidden = jax.nn.gelu(dense(layer_norm(x, block["norm2"]), *block["up"]))
    return x + dense(hidden, *block["down"])


def _apply(weights, tokens):
    """Return the last hidden state, and keys and values of every block."""
    length = tokens.shape[1]
    x = weights["tokens"][tokens] + weights["positions"][:length]
    caches = []

    def attend(q, k, v):
        caches.append((k, v))
        return attention(q, k, v, causal(length))

    for block in weights["blocks"]:
        x = _block(block, x, attend)
    return layer_norm(x, weights["norm"]), caches


def _tokens(length):
    return lambda make, batch: (make.integers(VOCABULARY, batch, length),)


def _prefill(weights, tokens):
    hidden, caches = _apply(weights, tokens)
    return hidden[:, -1] @ weights["tokens"].T, caches


@model(_weights(12), _tokens(128), others=((1, "bfloat16"), (1, "int8")), twin="gpt2_prefill")
def gpt2_prefill_128(weights, tokens):
    return _prefill(weights, tokens)


@model(_weights(12), _tokens(1024), batches=(1,), twin="gpt2_prefill")
def gpt2_prefill_1024(weights, tokens):
    return _prefill(weights, tokens)


def _decoding(make, batch):
    """Return a token per sequence, its position, and the caches of 12 blocks."""
    shape = (batch, POSITIONS, HEADS, WIDTH // HEADS)
    caches = [tuple(make.normal(*shape, scale=1) for _ in range(2)) for _ in range(12)]
    return make.integers(VOCABULARY, batch, 1), make.integers(1, 1)[0] + 1000, caches


@model(
    _weights(12),
    _decoding,
    others=((1, "bfloat16"), (1, "int8")),
    carried=3,
    twin="gpt2_decode",
)
def gpt2_decode(weights, token, at, caches):
    """One token with 1,000 before it; the new key and value are written into the caches."""
    x = weights["tokens"][token] + weights["positions"][at]
    updated: list[Any] = []

    def attend(q, k, v):
        old_keys, old_values = caches[len(updated)]
        keys = jax.lax.dynamic_update_slice(old_keys, k, (0, at, 0, 0))
        values = jax.lax.dynamic_update_slice(old_values, v, (0, at, 0, 0))
        updated.append((keys, values))
        return attention(q, keys, values, jnp.arange(POSITIONS) <= at)

    for block in weights["blocks"]:
        x = _block(block, x, attend)
    return layer_norm(x, weights["norm"])[:, -1] @ weights["tokens"].T, updated


@model(_weights(4), _tokens(64), batches=(8,), carried=0, twin="gpt2_4_blocks_train")
def gpt2_4_blocks_train(weights, tokens):
    """4 of 12 blocks and 64 tokens: the whole model takes half a minute a step on one core."""

    def loss(w):
        hidden, _ = _apply(w, tokens[:, :-1])
        return cross_entropy(hidden @ w["tokens"].T, tokens[:, 1:])

    return descend(loss, weights)
