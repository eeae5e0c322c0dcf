"""DLRM (Naumov et al. 2019) with the layers used for Criteo Kaggle; 26 tables of 100,000 rows."""

import itertools

import jax
import jax.numpy as jnp

from benchmarks.models.layers import dense, descend
from benchmarks.models.model import model

TABLES, ROWS, WIDTH, NUMBERS = 26, 100_000, 16, 13
BOTTOM = (NUMBERS, 512, 256, 64, WIDTH)
PAIRS = (TABLES + 1) * TABLES // 2
TOP = (WIDTH + PAIRS, 512, 256, 1)


def _layers(make, widths):
    return [(make.matrix(a, b), make.near(0, b)) for a, b in itertools.pairwise(widths)]


def _weights(make):
    return {
        "tables": [make.normal(ROWS, WIDTH, scale=1) for _ in range(TABLES)],
        "bottom": _layers(make, BOTTOM),
        "top": _layers(make, TOP),
    }


def _inputs(make, batch):
    return make.normal(batch, NUMBERS, scale=1), make.integers(ROWS, batch, TABLES)


def _apply(weights, numbers, chosen):
    x = numbers
    for layer in weights["bottom"]:
        x = jax.nn.relu(dense(x, *layer))
    found = [table[chosen[:, i]] for i, table in enumerate(weights["tables"])]
    vectors = jnp.stack([x, *found], axis=1)
    products = jnp.einsum("biw,bjw->bij", vectors, vectors)
    below = jnp.tril_indices(TABLES + 1, -1)
    y = jnp.concatenate([x, products[:, below[0], below[1]]], axis=1)
    for layer in weights["top"][:-1]:
        y = jax.nn.relu(dense(y, *layer))
    return dense(y, *weights["top"][-1])[:, 0]


@model(_weights, _inputs, twin="dlrm")
def dlrm(weights, numbers, chosen):
    return jax.nn.sigmoid(_apply(weights, numbers, chosen))


@model(
    _weights,
    lambda make, batch: (*_inputs(make, batch), make.integers(2, batch)),
    batches=(8,),
    carried=0,
    twin="dlrm_train",
)
def dlrm_train(weights, numbers, chosen, labels):
    """A step over all weights; the gradients of the tables are dense, as JAX has them."""

    def loss(w):
        y = _apply(w, numbers, chosen)
        return jnp.mean(jax.nn.softplus(y) - labels * y)

    return descend(loss, weights)
