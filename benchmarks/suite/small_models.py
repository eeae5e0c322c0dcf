"""Small transformers at batch 1 to 2 and short lengths, and a small residual network."""

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.suite.program import integers, program

_WIDTH, _HEADS, _VOCABULARY = 64, 4, 500


def _weights(*names):
    """Return a maker of the weights of two layers; `names` are blocks of attention."""

    def make(rng):
        def normal(*dims):
            return (rng.standard_normal(dims) * 0.08).astype(np.float32)

        def attention():
            return {part: normal(_WIDTH, _WIDTH) for part in ("q", "k", "v", "out")}

        layers = [
            {name: attention() for name in names}
            | {"up": normal(_WIDTH, 4 * _WIDTH), "down": normal(4 * _WIDTH, _WIDTH)}
            | {"bias": normal(_WIDTH), "wide_bias": normal(4 * _WIDTH)}
            for _ in range(2)
        ]
        return {"embed": normal(_VOCABULARY, _WIDTH), "layers": layers}

    return make


def _norm(x):
    mean = jnp.mean(x, axis=-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(jnp.var(x, axis=-1, keepdims=True) + 1e-5)


def _attend(w, x, source, bias=0.0, turn=lambda t: t):
    def heads(y):
        return y.reshape(*y.shape[:2], _HEADS, -1)

    q, k, v = heads(x @ w["q"]), heads(source @ w["k"]), heads(source @ w["v"])
    scores = jnp.einsum("bqhd,bkhd->bhqk", turn(q), turn(k)) / np.sqrt(_WIDTH / _HEADS) + bias
    mixed = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), v)
    return mixed.reshape(x.shape) @ w["out"]


def _feed(w, x):
    return jax.nn.gelu(x @ w["up"] + w["wide_bias"]) @ w["down"] + w["bias"]


def _causal(length):
    return jnp.where(jnp.tril(jnp.ones((length, length), bool)), 0.0, -1e9)


def _rotate(x):
    """Rotary position embedding."""
    length, half = x.shape[1], x.shape[-1] // 2
    angles = np.arange(length)[:, None] / 10000 ** (np.arange(half) / half)
    cos, sin = jnp.cos(jnp.asarray(angles)), jnp.sin(jnp.asarray(angles))
    cos, sin = (t.astype(x.dtype)[None, :, None] for t in (cos, sin))
    a, b = jnp.split(x, 2, axis=-1)
    return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], -1)


@program(_weights("self"), integers(_VOCABULARY, 1, 12))
def rotary_encoder(weights, tokens):
    x = weights["embed"][tokens]
    for w in weights["layers"]:
        x = _norm(x + _attend(w["self"], x, x, turn=_rotate))
        x = _norm(x + _feed(w, x))
    return x


@program(_weights("self"), integers(_VOCABULARY, 2, 16))
def alibi_decoder(weights, tokens):
    x = weights["embed"][tokens]
    slopes = 2.0 ** -jnp.arange(1, _HEADS + 1)
    places = jnp.arange(tokens.shape[1])
    bias = slopes[:, None, None] * (places[None, None] - places[None, :, None])
    bias = bias + _causal(tokens.shape[1])
    for w in weights["layers"]:
        x = x + _attend(w["self"], _norm(x), _norm(x), bias)
        x = x + _feed(w, _norm(x))
    return _norm(x) @ weights["embed"].T


@program(_weights("self", "cross"), integers(_VOCABULARY, 1, 7), (1, 30, _WIDTH))
def cross_decoder(weights, tokens, audio):
    x = weights["embed"][tokens]
    for w in weights["layers"]:
        x = x + _attend(w["self"], _norm(x), _norm(x), _causal(tokens.shape[1]))
        x = x + _attend(w["cross"], _norm(x), audio)
        x = x + _feed(w, _norm(x))
    return _norm(x) @ weights["embed"].T


@program(_weights("self"), integers(_VOCABULARY, 1, 24), integers(2, 1, 24))
def masked_encoder(weights, tokens, mask):
    x = _norm(weights["embed"][tokens] + jnp.sin(jnp.arange(24.0))[None, :, None])
    bias = jnp.where(mask[:, None, None] > 0, 0.0, -1e9)
    for w in weights["layers"]:
        x = _norm(x + _attend(w["self"], x, x, bias))
        x = _norm(x + _feed(w, x))
    return jnp.tanh(x[:, 0])


def _kernels(rng):
    shapes = [(3, 3, 3, 16), (3, 3, 16, 16), (3, 3, 16, 16), (3, 3, 16, 32), (32, 10)]
    return [(rng.standard_normal(s) * 0.1).astype(np.float32) for s in shapes]


@program(_kernels, (2, 32, 32, 3))
def small_resnet(weights, x):
    def conv(y, w, stride=1):
        return jax.lax.conv_general_dilated(
            y, w, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )

    first, second, third, fourth, last = weights
    x = jax.nn.relu(conv(x, first, 2))
    x = x + conv(jax.nn.relu(conv(x, second)), third)
    x = jax.nn.relu(conv(x, fourth, 2))
    return jnp.mean(x, axis=(1, 2)) @ last
