"""A stack like WaveNet (van den Oord et al. 2016): 30 dilated convolutions over 4,096 samples.

64 features in the residual path, 128 to the output, 256 classes.
"""

import jax
import jax.numpy as jnp

from benchmarks.models.layers import dense
from benchmarks.models.model import model

WIDTH, SKIP, CLASSES, LENGTH = 64, 128, 256, 4096
DILATIONS = tuple(2**i for _ in range(3) for i in range(10))


def _weights(make):
    return {
        "classes": make.normal(CLASSES, WIDTH, scale=1),
        "layers": [
            {
                "window": make.kernel(2, WIDTH, 2 * WIDTH),
                "bias": make.near(0, 2 * WIDTH),
                "out": (make.matrix(WIDTH, WIDTH), make.near(0, WIDTH)),
                "skip": (make.matrix(WIDTH, SKIP), make.near(0, SKIP)),
            }
            for _ in DILATIONS
        ],
        "hidden": (make.matrix(SKIP, SKIP), make.near(0, SKIP)),
        "head": (make.matrix(SKIP, CLASSES), make.near(0, CLASSES)),
    }


@model(_weights, lambda make, batch: (make.integers(CLASSES, batch, LENGTH),), twin="wavenet")
def wavenet(weights, samples):
    x = weights["classes"][samples]
    total = 0.0
    for layer, dilation in zip(weights["layers"], DILATIONS, strict=True):
        both = jax.lax.conv_general_dilated(
            x,
            layer["window"],
            (1,),
            [(dilation, 0)],
            rhs_dilation=(dilation,),
            dimension_numbers=("NWC", "WIO", "NWC"),
        )
        left, right = jnp.split(both + layer["bias"], 2, axis=-1)
        y = jnp.tanh(left) * jax.nn.sigmoid(right)
        total = total + dense(y, *layer["skip"])
        x = x + dense(y, *layer["out"])
    hidden = jax.nn.relu(dense(jax.nn.relu(total), *weights["hidden"]))
    return dense(hidden, *weights["head"])
