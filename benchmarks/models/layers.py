"""Layers that several models share. Images are `[batch, height, width, features]`."""

import jax
import jax.numpy as jnp

from benchmarks.models.model import Quantised


def dense(x, weight, bias=None):
    """Return `x @ weight + bias`; a quantised weight is scaled after the product."""
    if isinstance(weight, Quantised):
        y = (x @ weight.numbers.astype(x.dtype)) * weight.scale[..., 0, :]
    else:
        y = x @ weight
    return y if bias is None else y + bias


def layer_norm(x, norm, epsilon=1e-5):
    """Return layer normalisation over the last dimension, computed in f32."""
    wide = x.astype(jnp.float32)
    centred = wide - jnp.mean(wide, axis=-1, keepdims=True)
    variance = jnp.mean(centred**2, axis=-1, keepdims=True)
    scale, offset = norm
    return (centred * jax.lax.rsqrt(variance + epsilon)).astype(x.dtype) * scale + offset


def rms_norm(x, scale, epsilon=1e-5):
    """Return `x` over the root of its mean square, computed in f32."""
    wide = x.astype(jnp.float32)
    mean = jnp.mean(wide**2, axis=-1, keepdims=True)
    return (wide * jax.lax.rsqrt(mean + epsilon)).astype(x.dtype) * scale


def attention(q, k, v, mask=None):
    """Return attention of `[batch, length, heads, size]` arrays; softmax is computed in f32.

    `mask` is true where a query may see a key, and broadcasts to `[batch, heads, query, key]`.
    """
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k).astype(jnp.float32) / q.shape[-1] ** 0.5
    if mask is not None:
        scores = jnp.where(mask, scores, -1e30)
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores).astype(q.dtype), v)


def causal(length):
    """Return the mask of a decoder."""
    return jnp.tril(jnp.ones((length, length), bool))


def heads(x, count):
    """Split the last dimension into heads."""
    return x.reshape(*x.shape[:-1], count, -1)


def merge(x):
    """Join heads again."""
    return x.reshape(*x.shape[:-2], -1)


def convolution(x, kernel, stride=1, groups=1, padding="SAME"):
    """Return a convolution of images with a `[height, width, in, out]` kernel."""
    return jax.lax.conv_general_dilated(
        x,
        kernel,
        (stride, stride),
        padding,
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
        feature_group_count=groups,
    )


def cross_entropy(logits, labels):
    """Return the mean of the negative log-likelihood of `labels`."""
    found = jax.nn.log_softmax(logits.astype(jnp.float32))
    return -jnp.mean(jnp.take_along_axis(found, labels[..., None], axis=-1))


def descend(loss, weights, rate=1e-3):
    """Return the loss, and the weights after a step down its gradient."""
    value, gradients = jax.value_and_grad(loss)(weights)
    return value, jax.tree.map(lambda w, g: w - rate * g, weights, gradients)


def norm_weights(make, width):
    """Return scale and offset of a layer normalisation."""
    return make.near(1, width), make.near(0, width)


def block_weights(make, width):
    """Return the weights of one block of a transformer."""
    return {
        "norm1": norm_weights(make, width),
        "qkv": (make.matrix(width, 3 * width), make.near(0, 3 * width)),
        "out": (make.matrix(width, width), make.near(0, width)),
        "norm2": norm_weights(make, width),
        "up": (make.matrix(width, 4 * width), make.near(0, 4 * width)),
        "down": (make.matrix(4 * width, width), make.near(0, width)),
    }
