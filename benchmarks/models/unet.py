"""The U-Net of DDPM for 32x32 images (Ho et al. 2020): 36 M weights, attention at 16x16."""

import jax
import jax.numpy as jnp

from benchmarks.models.layers import attention, convolution, dense
from benchmarks.models.model import model

BASE, LEVELS, BLOCKS, SIZE, GROUPS = 128, (128, 256, 256, 256), 2, 32, 32
ATTENTION_SIZE = 16


def _norm_weights(make, features):
    return make.near(1, features), make.near(0, features)


def _conv_weights(make, window, inputs, outputs):
    return make.kernel(window, window, inputs, outputs), make.near(0, outputs)


def _block_weights(make, inputs, outputs):
    found = {
        "norm1": _norm_weights(make, inputs),
        "conv1": _conv_weights(make, 3, inputs, outputs),
        "time": (make.matrix(4 * BASE, outputs), make.near(0, outputs)),
        "norm2": _norm_weights(make, outputs),
        "conv2": _conv_weights(make, 3, outputs, outputs),
    }
    if inputs != outputs:
        found["skip"] = (make.matrix(inputs, outputs), make.near(0, outputs))
    return found


def _attention_weights(make, features):
    return {
        "norm": _norm_weights(make, features),
        "qkv": (make.matrix(features, 3 * features), make.near(0, 3 * features)),
        "out": (make.matrix(features, features), make.near(0, features)),
    }


def _level_weights(make, size, inputs, outputs, count):
    """Return pairs of a block and an attention or None."""
    found = []
    for source in inputs:
        mix = _attention_weights(make, outputs) if size == ATTENTION_SIZE else None
        found.append((_block_weights(make, source, outputs), mix))
    assert len(found) == count
    return found


def _weights(make):
    found = {
        "time1": (make.matrix(BASE, 4 * BASE), make.near(0, 4 * BASE)),
        "time2": (make.matrix(4 * BASE, 4 * BASE), make.near(0, 4 * BASE)),
        "stem": _conv_weights(make, 3, 3, BASE),
        "down": [],
        "up": [],
    }
    kept, features, size = [BASE], BASE, SIZE
    for i, width in enumerate(LEVELS):
        blocks = _level_weights(make, size, [features] + [width] * (BLOCKS - 1), width, BLOCKS)
        kept += [width] * BLOCKS
        features = width
        last = i == len(LEVELS) - 1
        found["down"].append((blocks, None if last else _conv_weights(make, 3, width, width)))
        if not last:
            kept.append(width)
            size //= 2
    found["middle"] = (
        _block_weights(make, features, features),
        _attention_weights(make, features),
        _block_weights(make, features, features),
    )
    for i, width in reversed(list(enumerate(LEVELS))):
        inputs = []
        for _ in range(BLOCKS + 1):
            inputs.append(features + kept.pop())
            features = width
        blocks = _level_weights(make, size, inputs, width, BLOCKS + 1)
        found["up"].append((blocks, _conv_weights(make, 3, width, width) if i else None))
        size *= 2
    found["norm"] = _norm_weights(make, features)
    found["head"] = _conv_weights(make, 3, features, 3)
    return found


def _group_norm(x, norm):
    groups = x.reshape(*x.shape[:3], GROUPS, -1)
    mean = jnp.mean(groups, axis=(1, 2, 4), keepdims=True)
    variance = jnp.var(groups, axis=(1, 2, 4), keepdims=True)
    scale, offset = norm
    return ((groups - mean) * jax.lax.rsqrt(variance + 1e-6)).reshape(x.shape) * scale + offset


def _conv(x, layer, stride=1):
    kernel, bias = layer
    return convolution(x, kernel, stride) + bias


def _block(block, x, time):
    h = _conv(jax.nn.silu(_group_norm(x, block["norm1"])), block["conv1"])
    h = h + dense(jax.nn.silu(time), *block["time"])[:, None, None, :]
    h = _conv(jax.nn.silu(_group_norm(h, block["norm2"])), block["conv2"])
    return h + (dense(x, *block["skip"]) if "skip" in block else x)


def _mix(part, x):
    flat = _group_norm(x, part["norm"]).reshape(x.shape[0], -1, 1, x.shape[-1])
    q, k, v = jnp.split(dense(flat, *part["qkv"]), 3, axis=-1)
    return x + dense(attention(q, k, v).reshape(x.shape), *part["out"])


def _level(blocks, x, time, before=lambda x: x, after=lambda x: None):
    for block, mix in blocks:
        x = _block(block, before(x), time)
        x = x if mix is None else _mix(mix, x)
        after(x)
    return x


def _embedding(steps):
    half = BASE // 2
    angles = steps[:, None] * jnp.exp(-jnp.log(10000.0) * jnp.arange(half) / (half - 1))
    return jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], axis=-1)


def _inputs(make, batch):
    return make.normal(batch, SIZE, SIZE, 3, scale=1), make.integers(1000, batch)


@model(_weights, _inputs, twin="unet")
def unet_ddpm(weights, x, steps):
    time = jax.nn.silu(dense(_embedding(steps), *weights["time1"]))
    time = dense(time, *weights["time2"])
    x = _conv(x, weights["stem"])
    kept = [x]
    for blocks, smaller in weights["down"]:
        x = _level(blocks, x, time, after=kept.append)
        if smaller is not None:
            x = _conv(x, smaller, 2)
            kept.append(x)
    first, mix, last = weights["middle"]
    x = _block(last, _mix(mix, _block(first, x, time)), time)
    for blocks, larger in weights["up"]:
        x = _level(blocks, x, time, before=lambda x: jnp.concatenate([x, kept.pop()], axis=-1))
        if larger is not None:
            x = _conv(jnp.repeat(jnp.repeat(x, 2, axis=1), 2, axis=2), larger)
    return _conv(jax.nn.silu(_group_norm(x, weights["norm"])), weights["head"])
