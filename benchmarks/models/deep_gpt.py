"""A GPT of small width and any number of blocks: much to compile for `bench_large.py`."""

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.models.layers import (
    attention,
    causal,
    cross_entropy,
    dense,
    descend,
    heads,
    layer_norm,
    merge,
    norm_weights,
)
from benchmarks.models.model import Weights

WIDTH, HEADS, LENGTH, BATCH, VOCABULARY = 64, 4, 32, 2, 256


def _block_weights(make):
    def linear(rows, columns):
        return make.matrix(rows, columns), make.near(0, columns)

    return {
        "norm1": norm_weights(make, WIDTH),
        "qkv": linear(WIDTH, 3 * WIDTH),
        "out": linear(WIDTH, WIDTH),
        "norm2": norm_weights(make, WIDTH),
        "up": linear(WIDTH, 4 * WIDTH),
        "down": linear(4 * WIDTH, WIDTH),
    }


def _apply(weights, tokens):
    x = weights["tokens"][tokens]
    for block in weights["blocks"]:
        mixed = dense(layer_norm(x, block["norm1"]), *block["qkv"])
        q, k, v = (heads(part, HEADS) for part in jnp.split(mixed, 3, axis=-1))
        x = x + dense(merge(attention(q, k, v, causal(LENGTH))), *block["out"])
        x = x + dense(
            jax.nn.gelu(dense(layer_norm(x, block["norm2"]), *block["up"])), *block["down"]
        )
    return x @ weights["tokens"].T


def training_step_text(blocks: int) -> str:
    """Return the HLO text of the loss, its gradient, and a step of gradient descent."""
    make = Weights(np.random.default_rng(0), "float32")
    weights = {
        "tokens": make.normal(VOCABULARY, WIDTH),
        "blocks": [_block_weights(make) for _ in range(blocks)],
    }

    def step(w, tokens, labels):
        return descend(lambda w: cross_entropy(_apply(w, tokens), labels), w)

    tokens = make.integers(VOCABULARY, BATCH, LENGTH)
    lowered = jax.jit(step, keep_unused=True).lower(weights, tokens, tokens)
    return str(lowered.as_text("hlo"))
