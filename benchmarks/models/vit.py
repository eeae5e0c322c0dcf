"""ViT-B/16 (Dosovitskiy et al. 2020): 86 M weights, 224x224 images as 196 patches."""

import jax
import jax.numpy as jnp

from benchmarks.models.layers import (
    attention,
    block_weights,
    dense,
    heads,
    layer_norm,
    merge,
    norm_weights,
)
from benchmarks.models.model import model

LAYERS, WIDTH, HEADS, PATCH = 12, 768, 12, 16


def _weights(make):
    return {
        "patches": (make.matrix(PATCH * PATCH * 3, WIDTH), make.near(0, WIDTH)),
        "class": make.normal(1, 1, WIDTH),
        "positions": make.normal(1, (224 // PATCH) ** 2 + 1, WIDTH),
        "blocks": [block_weights(make, WIDTH) for _ in range(LAYERS)],
        "norm": norm_weights(make, WIDTH),
        "head": (make.matrix(WIDTH, 1000), make.near(0, 1000)),
    }


def mix(block, x):
    """Return self-attention of `x`, without the residual sum."""
    q, k, v = jnp.split(dense(x, *block["qkv"]), 3, axis=-1)
    return dense(merge(attention(heads(q, HEADS), heads(k, HEADS), heads(v, HEADS))), *block["out"])


def feed_forward(block, x):
    """Return the two products around the gelu by `erf`."""
    return dense(jax.nn.gelu(dense(x, *block["up"]), approximate=False), *block["down"])


def _patches(x):
    """Return `[batch, patch, numbers of the patch]`."""
    batch, size, _, features = x.shape
    side = size // PATCH
    x = x.reshape(batch, side, PATCH, side, PATCH, features).transpose(0, 1, 3, 2, 4, 5)
    return x.reshape(batch, side * side, -1)


@model(
    _weights,
    lambda make, batch: (make.normal(batch, 224, 224, 3, scale=1),),
    others=((1, "bfloat16"),),
    twin="vit",
)
def vit_b16(weights, x):
    x = dense(_patches(x), *weights["patches"])
    first = jnp.broadcast_to(weights["class"], (x.shape[0], 1, WIDTH))
    x = jnp.concatenate([first, x], axis=1) + weights["positions"]
    for block in weights["blocks"]:
        x = x + mix(block, layer_norm(x, block["norm1"]))
        x = x + feed_forward(block, layer_norm(x, block["norm2"]))
    return dense(layer_norm(x, weights["norm"])[:, 0], *weights["head"])
