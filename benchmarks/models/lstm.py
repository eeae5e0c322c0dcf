"""The medium LSTM of Zaremba et al. 2014 for words: two layers of 650, 10,000 words, 35 steps."""

import jax
import jax.numpy as jnp

from benchmarks.models.layers import cross_entropy, dense, descend
from benchmarks.models.model import model

LAYERS, WIDTH, VOCABULARY, LENGTH = 2, 650, 10000, 35


def _weights(make):
    return {
        "words": make.normal(VOCABULARY, WIDTH),
        "layers": [
            {
                "input": make.matrix(WIDTH, 4 * WIDTH),
                "state": make.matrix(WIDTH, 4 * WIDTH),
                "bias": make.near(0, 4 * WIDTH),
            }
            for _ in range(LAYERS)
        ],
        "head": (make.matrix(WIDTH, VOCABULARY), make.near(0, VOCABULARY)),
    }


def _layer(layer, xs):
    def step(carry, x):
        state, cell = carry
        gates = x + dense(state, layer["state"])
        i, f, g, o = jnp.split(gates, 4, axis=-1)
        cell = jax.nn.sigmoid(f) * cell + jax.nn.sigmoid(i) * jnp.tanh(g)
        state = jax.nn.sigmoid(o) * jnp.tanh(cell)
        return (state, cell), state

    start = jnp.zeros((xs.shape[1], WIDTH), xs.dtype)
    return jax.lax.scan(step, (start, start), dense(xs, layer["input"], layer["bias"]))[1]


def _apply(weights, words):
    xs = weights["words"][words.T]
    for layer in weights["layers"]:
        xs = _layer(layer, xs)
    return dense(xs, *weights["head"])


def _words(make, batch):
    return (make.integers(VOCABULARY, batch, LENGTH),)


@model(_weights, _words, twin="lstm_words")
def lstm_words(weights, words):
    return _apply(weights, words)


@model(_weights, _words, batches=(8,), carried=0, twin="lstm_words_train")
def lstm_words_train(weights, words):
    return descend(lambda w: cross_entropy(_apply(w, words)[:-1], words.T[1:]), weights)
