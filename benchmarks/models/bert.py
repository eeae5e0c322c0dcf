"""BERT-base (Devlin et al. 2018): 110 M weights, 128 tokens; hidden states and pooled output."""

import jax.numpy as jnp

from benchmarks.models.layers import block_weights, dense, layer_norm, norm_weights
from benchmarks.models.model import model
from benchmarks.models.vit import LAYERS, WIDTH, feed_forward, mix

LENGTH, VOCABULARY = 128, 30522


def _weights(make):
    return {
        "tokens": make.normal(VOCABULARY, WIDTH),
        "positions": make.normal(512, WIDTH),
        "segments": make.normal(2, WIDTH),
        "norm": norm_weights(make, WIDTH),
        "blocks": [block_weights(make, WIDTH) for _ in range(LAYERS)],
        "pool": (make.matrix(WIDTH, WIDTH), make.near(0, WIDTH)),
    }


def _inputs(make, batch):
    return make.integers(VOCABULARY, batch, LENGTH), make.integers(2, batch, LENGTH)


@model(_weights, _inputs, others=((1, "bfloat16"), (1, "int8")), twin="bert")
def bert_base(weights, tokens, segments):
    x = weights["tokens"][tokens] + weights["positions"][:LENGTH] + weights["segments"][segments]
    x = layer_norm(x, weights["norm"])
    for block in weights["blocks"]:
        x = layer_norm(x + mix(block, x), block["norm1"])
        x = layer_norm(x + feed_forward(block, x), block["norm2"])
    return x, jnp.tanh(dense(x[:, 0], *weights["pool"]))
