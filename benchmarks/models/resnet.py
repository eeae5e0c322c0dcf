"""ResNet-50 (He et al. 2015, stride in the 3x3 convolution): 25.6 M weights, 224x224 images."""

import jax
import jax.numpy as jnp

from benchmarks.models.layers import convolution, cross_entropy, dense, descend
from benchmarks.models.model import model

STAGES = ((64, 3), (128, 4), (256, 6), (512, 3))
"""Width inside the blocks of each stage, and how many there are; outside it is 4 times that."""


def batch_norm_weights(make, width):
    """Return scale, offset, mean and variance."""
    return {
        "scale": make.near(1, width),
        "offset": make.near(0, width),
        "mean": make.near(0, width),
        "variance": make.near(1, width),
    }


def fixed_norm(x, norm):
    """Return batch normalisation by the stored mean and variance."""
    return (x - norm["mean"]) * (norm["scale"] * jax.lax.rsqrt(norm["variance"] + 1e-5)) + norm[
        "offset"
    ]


def batch_norm(x, norm):
    """Return batch normalisation by mean and variance of the batch."""
    mean, variance = jnp.mean(x, axis=(0, 1, 2)), jnp.var(x, axis=(0, 1, 2))
    return (x - mean) * (norm["scale"] * jax.lax.rsqrt(variance + 1e-5)) + norm["offset"]


def _layer(make, *dims):
    return {"kernel": make.kernel(*dims), "norm": batch_norm_weights(make, dims[-1])}


def _weights(stages):
    def weights(make):
        found = {"stem": _layer(make, 7, 7, 3, 64), "blocks": []}
        features = 64
        for width, count in stages:
            for i in range(count):
                block = {
                    "reduce": _layer(make, 1, 1, features, width),
                    "window": _layer(make, 3, 3, width, width),
                    "expand": _layer(make, 1, 1, width, 4 * width),
                }
                if i == 0:
                    block["skip"] = _layer(make, 1, 1, features, 4 * width)
                features = 4 * width
                found["blocks"].append(block)
        found["head"] = make.matrix(features, 1000), make.near(0, 1000)
        return found

    return weights


def _apply(weights, x, stages, normalise):
    def layer(x, part, stride=1):
        return normalise(convolution(x, part["kernel"], stride), part["norm"])

    x = jax.nn.relu(layer(x, weights["stem"], 2))
    x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")
    blocks = iter(weights["blocks"])
    for stage, (_, count) in enumerate(stages):
        for i in range(count):
            block = next(blocks)
            stride = 2 if stage > 0 and i == 0 else 1
            y = jax.nn.relu(layer(x, block["reduce"]))
            y = jax.nn.relu(layer(y, block["window"], stride))
            y = layer(y, block["expand"])
            x = jax.nn.relu(y + (layer(x, block["skip"], stride) if i == 0 else x))
    return dense(jnp.mean(x, axis=(1, 2)), *weights["head"])


def _images(make, batch):
    return (make.normal(batch, 224, 224, 3, scale=1),)


@model(_weights(STAGES), _images, others=((1, "bfloat16"),), twin="resnet50")
def resnet50(weights, x):
    return _apply(weights, x, STAGES, fixed_norm)


ONE_EACH = tuple((width, 1) for width, _ in STAGES)


@model(
    _weights(ONE_EACH),
    lambda make, batch: (*_images(make, batch), make.integers(1000, batch)),
    batches=(8,),
    carried=0,
    twin="resnet50_4_blocks_train",
)
def resnet50_4_blocks_train(weights, x, labels):
    """One block of each stage: all 16 take half a minute a step on one core."""
    return descend(lambda w: cross_entropy(_apply(w, x, ONE_EACH, batch_norm), labels), weights)
