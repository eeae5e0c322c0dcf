"""Convolutions, forward and backward."""

import jax
import jax.numpy as jnp

from benchmarks.suite.program import program

_NHWC = ("NHWC", "HWIO", "NHWC")


def _conv(x, w, stride=1, groups=1, layout=_NHWC):
    return jax.lax.conv_general_dilated(
        x, w, (stride, stride), "SAME", dimension_numbers=layout, feature_group_count=groups
    )


@program((8, 56, 56, 64), (3, 3, 64, 64))
def conv_3x3_wide(x, w):
    return _conv(x, w)


@program((8, 28, 28, 128), (3, 3, 128, 128))
def conv_3x3(x, w):
    return _conv(x, w)


@program((8, 7, 7, 512), (3, 3, 512, 512))
def conv_3x3_deep(x, w):
    return _conv(x, w)


@program((8, 56, 56, 256), (1, 1, 256, 64))
def conv_1x1(x, w):
    return _conv(x, w)


@program((4, 224, 224, 3), (7, 7, 3, 64))
def conv_7x7_stride_2(x, w):
    return _conv(x, w, stride=2)


@program((8, 64, 28, 28), (64, 64, 3, 3))
def conv_channels_first(x, w):
    return _conv(x, w, layout=("NCHW", "OIHW", "NCHW"))


@program((8, 56, 56, 128), (3, 3, 1, 128))
def conv_depthwise(x, w):
    return _conv(x, w, groups=128)


@program((8, 28, 28, 128), (3, 3, 4, 128))
def conv_grouped(x, w):
    return _conv(x, w, groups=32)


@program((8, 28, 28, 128), (3, 3, 128, 128))
def conv_weight_gradient(x, w):
    return jax.grad(lambda v: jnp.sum(_conv(x, v) ** 2))(w)


@program((8, 28, 28, 128), (3, 3, 128, 128))
def conv_input_gradient(x, w):
    return jax.grad(lambda v: jnp.sum(_conv(v, w) ** 2))(x)


@program((8, 28, 28, 128), (3, 3, 128, 128), (128,))
def conv_bias_relu(x, w, bias):
    return jax.nn.relu(_conv(x, w) + bias)
