"""A graph convolutional network (Kipf and Welling 2016) on a graph of PubMed's size.

19,717 nodes with 500 features, 88,648 directed edges at random, 128 hidden features, 3 classes. A
batch is one graph.
"""

import jax
import jax.numpy as jnp

from benchmarks.models.layers import cross_entropy, dense, descend
from benchmarks.models.model import model

NODES, FEATURES, EDGES, HIDDEN, CLASSES = 19717, 500, 88648, 128, 3


def _weights(make):
    return [
        (make.matrix(FEATURES, HIDDEN), make.near(0, HIDDEN)),
        (make.matrix(HIDDEN, HIDDEN), make.near(0, HIDDEN)),
        (make.matrix(HIDDEN, CLASSES), make.near(0, CLASSES)),
    ]


def _graph(make, batch):
    assert batch == 1
    return make.normal(NODES, FEATURES, scale=1), make.integers(NODES, 2, EDGES)


def _apply(weights, x, edges):
    source, target = edges
    ones = jnp.ones(EDGES, x.dtype)
    degree = 1 + jax.ops.segment_sum(ones, target, NODES)
    share = jax.lax.rsqrt(degree)
    for i, layer in enumerate(weights):
        x = dense(x, *layer) * share[:, None]
        x = (x + jax.ops.segment_sum(x[source], target, NODES)) * share[:, None]
        x = jax.nn.relu(x) if i < len(weights) - 1 else x
    return x


@model(_weights, _graph, batches=(1,), twin="gcn")
def gcn(weights, x, edges):
    return _apply(weights, x, edges)


@model(
    _weights,
    lambda make, batch: (*_graph(make, batch), make.integers(CLASSES, NODES)),
    batches=(1,),
    carried=0,
    twin="gcn_train",
)
def gcn_train(weights, x, edges, labels):
    return descend(lambda w: cross_entropy(_apply(w, x, edges), labels), weights)
