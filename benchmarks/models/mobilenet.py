"""MobileNetV3-Large (Howard et al. 2019): 5.4 M weights, 224x224 images."""

import jax
import jax.numpy as jnp

from benchmarks.models.layers import convolution, dense
from benchmarks.models.model import model
from benchmarks.models.resnet import batch_norm_weights, fixed_norm

# Window, width inside, features out, squeeze-and-excite, hard swish, stride.
BLOCKS = (
    (3, 16, 16, False, False, 1),
    (3, 64, 24, False, False, 2),
    (3, 72, 24, False, False, 1),
    (5, 72, 40, True, False, 2),
    (5, 120, 40, True, False, 1),
    (5, 120, 40, True, False, 1),
    (3, 240, 80, False, True, 2),
    (3, 200, 80, False, True, 1),
    (3, 184, 80, False, True, 1),
    (3, 184, 80, False, True, 1),
    (3, 480, 112, True, True, 1),
    (3, 672, 112, True, True, 1),
    (5, 672, 160, True, True, 2),
    (5, 960, 160, True, True, 1),
    (5, 960, 160, True, True, 1),
)


def _layer(make, *dims):
    return {"kernel": make.kernel(*dims), "norm": batch_norm_weights(make, dims[-1])}


def _weights(make):
    found = {"stem": _layer(make, 3, 3, 3, 16), "blocks": []}
    features = 16
    for window, inner, out, squeezed, _, _ in BLOCKS:
        block = {
            "expand": _layer(make, 1, 1, features, inner),
            "window": _layer(make, window, window, 1, inner),
            "project": _layer(make, 1, 1, inner, out),
        }
        if squeezed:
            low = (inner // 4 + 4) // 8 * 8
            block["squeeze"] = make.matrix(inner, low), make.near(0, low)
            block["excite"] = make.matrix(low, inner), make.near(0, inner)
        found["blocks"].append(block)
        features = out
    found["last"] = _layer(make, 1, 1, features, 960)
    found["hidden"] = make.matrix(960, 1280), make.near(0, 1280)
    found["head"] = make.matrix(1280, 1000), make.near(0, 1000)
    return found


@model(_weights, lambda make, batch: (make.normal(batch, 224, 224, 3, scale=1),), twin="mobilenet")
def mobilenet_v3(weights, x):
    def layer(x, part, stride=1, groups=1):
        return fixed_norm(convolution(x, part["kernel"], stride, groups), part["norm"])

    x = jax.nn.hard_swish(layer(x, weights["stem"], 2))
    for block, (_, inner, out, squeezed, swish, stride) in zip(
        weights["blocks"], BLOCKS, strict=True
    ):
        activation = jax.nn.hard_swish if swish else jax.nn.relu
        y = activation(layer(x, block["expand"]))
        y = activation(layer(y, block["window"], stride, inner))
        if squeezed:
            mean = jnp.mean(y, axis=(1, 2), keepdims=True)
            hidden = jax.nn.relu(dense(mean, *block["squeeze"]))
            y = y * jax.nn.hard_sigmoid(dense(hidden, *block["excite"]))
        y = layer(y, block["project"])
        x = x + y if stride == 1 and x.shape[-1] == out else y
    x = jnp.mean(jax.nn.hard_swish(layer(x, weights["last"])), axis=(1, 2))
    return dense(jax.nn.hard_swish(dense(x, *weights["hidden"])), *weights["head"])
