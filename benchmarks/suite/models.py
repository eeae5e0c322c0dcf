"""Whole models in small: GPT, ResNet, U-Net block, LSTM."""

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.suite.attention import attend
from benchmarks.suite.program import integers, program

_LAYERS, _WIDTH, _HEADS, _VOCABULARY = 2, 256, 4, 2048


def _small(*dims):
    """Return a maker of weights that keep activations of order one."""
    return lambda rng: (rng.standard_normal(dims) * 0.05).astype(np.float32)


def _gpt_weights(rng):
    def normal(*dims):
        return _small(*dims)(rng)

    blocks = [
        {
            "norm1": np.ones(_WIDTH, np.float32),
            "norm2": np.ones(_WIDTH, np.float32),
            "qkv": normal(_WIDTH, 3 * _WIDTH),
            "out": normal(_WIDTH, _WIDTH),
            "up": normal(_WIDTH, 4 * _WIDTH),
            "down": normal(4 * _WIDTH, _WIDTH),
        }
        for _ in range(_LAYERS)
    ]
    return {"embed": normal(_VOCABULARY, _WIDTH), "blocks": blocks}


def _norm(x, scale):
    mean = jnp.mean(x, axis=-1, keepdims=True)
    centred = x - mean
    return centred * jax.lax.rsqrt(jnp.mean(centred**2, axis=-1, keepdims=True) + 1e-5) * scale


def _gpt(weights, tokens):
    x = weights["embed"][tokens]
    batch, length, width = x.shape
    for block in weights["blocks"]:
        qkv = (_norm(x, block["norm1"]) @ block["qkv"]).reshape(batch, length, 3, _HEADS, -1)
        mixed = attend(qkv[:, :, 0], qkv[:, :, 1], qkv[:, :, 2])
        x = x + mixed.reshape(batch, length, width) @ block["out"]
        x = x + jax.nn.gelu(_norm(x, block["norm2"]) @ block["up"]) @ block["down"]
    return x @ weights["embed"].T


@program(_gpt_weights, integers(_VOCABULARY, 2, 128))
def gpt_forward(weights, tokens):
    return _gpt(weights, tokens)


@program(_gpt_weights, integers(_VOCABULARY, 2, 128))
def gpt_train_step(weights, tokens):
    def loss(w):
        log = jax.nn.log_softmax(_gpt(w, tokens[:, :-1]))
        return -jnp.mean(jnp.take_along_axis(log, tokens[:, 1:, None], axis=-1))

    value, gradients = jax.value_and_grad(loss)(weights)
    return value, jax.tree.map(lambda w, g: w - 1e-3 * g, weights, gradients)


def _caches(rng):
    shape = (_LAYERS, 2, 1, 512, _HEADS, _WIDTH // _HEADS)
    return rng.standard_normal(shape).astype(np.float32)


@program(_gpt_weights, _caches, integers(_VOCABULARY, 1, 1), integers(500, 1))
def gpt_decode(weights, caches, token, at):
    x = weights["embed"][token]
    updated = []
    for block, cache in zip(weights["blocks"], caches, strict=True):
        qkv = (_norm(x, block["norm1"]) @ block["qkv"]).reshape(1, 1, 3, _HEADS, -1)
        keys = jax.lax.dynamic_update_slice(cache[0], qkv[:, :, 1], (0, at[0], 0, 0))
        values = jax.lax.dynamic_update_slice(cache[1], qkv[:, :, 2], (0, at[0], 0, 0))
        updated.append(jnp.stack([keys, values]))
        x = x + attend(qkv[:, :, 0], keys, values, causal=False).reshape(1, 1, -1) @ block["out"]
        x = x + jax.nn.gelu(_norm(x, block["norm2"]) @ block["up"]) @ block["down"]
    return x @ weights["embed"].T, jnp.stack(updated)


def _conv(x, w, stride=1):
    return jax.lax.conv_general_dilated(
        x, w, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )


def _batch_norm(x):
    mean = jnp.mean(x, axis=(0, 1, 2))
    variance = jnp.var(x, axis=(0, 1, 2))
    return (x - mean) * jax.lax.rsqrt(variance + 1e-5)


def _resnet(weights, x):
    w_in, w1, w2, w3, w_out = weights
    x = jax.nn.relu(_batch_norm(_conv(x, w_in, 2)))
    y = jax.nn.relu(_batch_norm(_conv(x, w1)))
    x = jax.nn.relu(x + _batch_norm(_conv(y, w2)))
    x = jax.nn.relu(_batch_norm(_conv(x, w3, 2)))
    return jnp.mean(x, axis=(1, 2)) @ w_out


def _resnet_weights(rng):
    shapes = [(3, 3, 3, 64), (3, 3, 64, 64), (3, 3, 64, 64), (3, 3, 64, 128), (128, 100)]
    return [_small(*dims)(rng) for dims in shapes]


@program(_resnet_weights, (4, 64, 64, 3))
def resnet_forward(weights, x):
    return _resnet(weights, x)


@program(_resnet_weights, (4, 64, 64, 3), integers(100, 4))
def resnet_train_step(weights, x, labels):
    def loss(w):
        log = jax.nn.log_softmax(_resnet(w, x))
        return -jnp.mean(jnp.take_along_axis(log, labels[:, None], axis=1))

    value, gradients = jax.value_and_grad(loss)(weights)
    return value, [w - 1e-3 * g for w, g in zip(weights, gradients, strict=True)]


@program(
    (2, 32, 32, 64),
    _small(3, 3, 64, 64),
    _small(3, 3, 64, 64),
    _small(64, 192),
    _small(64, 64),
    (128, 64),
)
def unet_block(x, w1, w2, qkv, out, time):
    def group_norm(y):
        groups = y.reshape(*y.shape[:3], 8, -1)
        mean = jnp.mean(groups, axis=(1, 2, 4), keepdims=True)
        variance = jnp.var(groups, axis=(1, 2, 4), keepdims=True)
        return ((groups - mean) * jax.lax.rsqrt(variance + 1e-5)).reshape(y.shape)

    h = _conv(jax.nn.silu(group_norm(x)), w1) + jnp.mean(time, axis=0)
    x = x + _conv(jax.nn.silu(group_norm(h)), w2)
    flat = group_norm(x).reshape(x.shape[0], -1, 64)
    parts = (flat @ qkv).reshape(x.shape[0], -1, 3, 2, 32)
    mixed = attend(parts[:, :, 0], parts[:, :, 1], parts[:, :, 2], causal=False)
    return x + (mixed.reshape(flat.shape) @ out).reshape(x.shape)


@program((64, 32, 128), _small(128, 512), _small(128, 512), (512,))
def lstm(xs, w_input, w_state, bias):
    def step(carry, x):
        state, cell = carry
        gates = x @ w_input + state @ w_state + bias
        i, f, g, o = jnp.split(gates, 4, axis=-1)
        cell = jax.nn.sigmoid(f) * cell + jax.nn.sigmoid(i) * jnp.tanh(g)
        state = jax.nn.sigmoid(o) * jnp.tanh(cell)
        return (state, cell), state

    start = jnp.zeros((32, 128)), jnp.zeros((32, 128))
    return jax.lax.scan(step, start, xs)
