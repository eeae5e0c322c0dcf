"""Sixty small JAX programs, of every kind that lowers to different HLO."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


@dataclass(frozen=True)
class JaxProgram:
    """A function and the arguments that it is called with."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]


PROGRAMS: dict[str, JaxProgram] = {}


def _program(*arguments: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register the function below; a tuple of sizes stands for seeded normal numbers."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        random = np.random.default_rng(len(PROGRAMS))
        made = tuple(
            random.standard_normal(a).astype(np.float32) if isinstance(a, tuple) else a
            for a in arguments
        )
        PROGRAMS[function.__name__] = JaxProgram(function, made)
        return function

    return register


def _ints(*dims: int, high: int = 100) -> np.ndarray[Any, Any]:
    return np.random.default_rng(7).integers(0, high, dims).astype(np.int32)


# ---------------------------------------------------------------- element by element


@_program((4, 8), (4, 8))
def arithmetic(x, y):
    return (x + 0.0) * 1.0 - y * y / (jnp.abs(x) + 1)


@_program((33,))
def transcendentals(x):
    return jnp.sin(x), jnp.exp(-x), jnp.log1p(jnp.abs(x)), jnp.tanh(x), jnp.arctan2(x, 2.0)


@_program((7, 3))
def roundings(x):
    return jnp.floor(x * 10), jnp.ceil(x), jnp.round(x * 4), jnp.sign(x), jnp.trunc(x)


@_program((16,))
def selects(x):
    return jnp.where(x > 0, x, jnp.where(x < -1, -x, 0.0)), jnp.clip(x, -0.5, 0.5)


@_program(_ints(12), _ints(12, high=31))
def bits(x, y):
    return x & y, x | 5, x ^ y, x << (y & 7), x >> 2, ~x, lax.population_count(x), lax.clz(x)


@_program(_ints(12), _ints(12) + 1)
def integer_division(x, y):
    return x // y, x % y, lax.rem(x, y), lax.div(x, 8), x * 8


@_program(_ints(9))
def unsigned(x):
    u = x.astype(jnp.uint32)
    return u // 3, u % 16, u * jnp.uint32(2654435761), (u >> 1) + (u & 1)


@_program((8, 2))
def complex_numbers(x):
    z = lax.complex(x[:, 0], x[:, 1])
    return jnp.real(z * jnp.conj(z)), jnp.abs(z), jnp.exp(z), z / (z + 1)


@_program((6, 5))
def narrow_types(x):
    half = x.astype(jnp.bfloat16)
    return (half * half + 1).astype(jnp.float32), x.astype(jnp.float16) + 1, half.sum()


@_program((8,))
def special_values(x):
    return x / -0.0, jnp.array([0.0, -0.0, jnp.inf, -jnp.inf, jnp.nan]) * x[0], jnp.isnan(x / 0)


@_program(_ints(10, high=2).astype(bool), _ints(10, high=2).astype(bool))
def logic(x, y):
    return x & y, x | y, ~x, x ^ True, jnp.any(x), jnp.all(x | y), x.astype(jnp.int32).sum()


@_program((5,))
def conversions(x):
    return (
        x.astype(jnp.int32),
        x.astype(jnp.int8),
        (x > 0).astype(jnp.float32),
        lax.bitcast_convert_type(x, jnp.int32),
    )


# ---------------------------------------------------------------- movement


@_program((2, 3, 4))
def transposes(x):
    return x.transpose(2, 0, 1), x.transpose(0, 2, 1).reshape(2, 12), x.T.T


@_program((4, 6))
def reshapes(x):
    return x.reshape(2, 12).reshape(24), x[None, :, None], jnp.squeeze(x[:, None])


@_program((5, 4), (3, 4))
def concatenations(x, y):
    return jnp.concatenate([x, y]), jnp.stack([x[:3], y]), jnp.concatenate([x[:2], x[2:]])


@_program((6, 7))
def slices(x):
    return x[1:4, ::2], x[::-1], x[:, -1], jnp.flip(x, 1), x[0:6][1:3]


@_program((4, 4))
def pads(x):
    return (
        jnp.pad(x, ((1, 2), (0, 3))),
        jnp.pad(x, 1, mode="reflect"),
        lax.pad(x, 0.0, ((1, 1, 1), (-1, 0, 0))),
    )


@_program((8, 3), _ints(5, high=8))
def gathers(x, i):
    return x[i], jnp.take(x, i, axis=0, mode="clip"), jnp.take_along_axis(x, i[:3][None] % 8, 0)


@_program((8, 3), _ints(4, high=8), (4, 3))
def scatters(x, i, u):
    return x.at[i].add(u), x.at[0].set(1.0), x.at[i].max(u)


@_program((10,), 3)
def dynamic_slices(x, i):
    return lax.dynamic_slice(x, (i,), (4,)), lax.dynamic_update_slice(x, x[:2] * 2, (i,))


@_program((3, 4))
def broadcasts(x):
    return jnp.broadcast_to(x[:, None], (3, 2, 4)) + 1, jnp.tile(x, (2, 2)), jnp.repeat(x, 2, 0)


@_program((4, 5))
def triangles(x):
    return jnp.tril(x), jnp.triu(x, 1), jnp.eye(4) + x[:, :4], jnp.diag(x[:, 0])


@_program(3)
def counters(n):
    return jnp.arange(10) * n, jnp.linspace(0.0, 1.0, 7), lax.broadcasted_iota(jnp.int32, (2, 3), 1)


# ---------------------------------------------------------------- reductions and order


@_program((5, 9))
def reductions(x):
    return x.sum(0), x.max(1), x.min(), jnp.prod(x[:2, :3], 1), x.mean(), x.std(1), x.var(0)


@_program((6, 8))
def arg_reductions(x):
    return jnp.argmax(x, 1), jnp.argmin(x), jnp.median(x, axis=0)


@_program((4, 16))
def prefix_sums(x):
    return jnp.cumsum(x, 1), jnp.cumprod(x[:, :4], 1), lax.cummax(x, 0), jnp.diff(x)


@_program((7, 11))
def sorts(x):
    return jnp.sort(x, 1), jnp.argsort(x, 0), lax.top_k(x, 3), jnp.partition(x, 2, axis=1)[:, 2]


@_program((1, 8, 8, 2))
def pools(x):
    window = (1, 2, 2, 1)
    return (
        lax.reduce_window(x, -jnp.inf, lax.max, window, window, "VALID"),
        lax.reduce_window(x, 0.0, lax.add, window, (1, 1, 1, 1), "SAME"),
    )


@_program((32,))
def histogram(x):
    return jnp.histogram(x, bins=5, range=(-2, 2))[0], jnp.bincount(
        (x > 0).astype(jnp.int32), length=2
    )


@_program((6, 10))
def log_sum_exp(x):
    return jax.nn.logsumexp(x, 1), jax.nn.softmax(x, 1), jax.nn.log_softmax(x, 0)


@_program(_ints(6, high=3), (6, 4))
def segments(i, x):
    return jax.ops.segment_sum(x, i, 3), jax.nn.one_hot(i, 4)


@_program((20,), (5,))
def searches(x, y):
    return (
        jnp.searchsorted(jnp.sort(x), y),
        jnp.interp(y, jnp.sort(x), x),
        jnp.digitize(x, jnp.sort(y)),
    )


# ---------------------------------------------------------------- linear algebra


@_program((4, 6), (6, 5))
def matrix_product(x, y):
    return x @ y, x.T @ x, (x @ y).T


@_program((2, 3, 4), (2, 4, 5))
def batched_product(x, y):
    return jnp.einsum("bij,bjk->bik", x, y), jnp.einsum("bij,bjk->kib", x, y)


@_program((8,), (8,))
def vector_products(x, y):
    return jnp.dot(x, y), jnp.outer(x, y), jnp.cross(x[:3], y[:3]), jnp.convolve(x, y[:3])


@_program((5, 5))
def factorisations(x):
    a = x @ x.T + 5 * jnp.eye(5)
    return jnp.linalg.cholesky(a), jnp.linalg.solve(a, x), jnp.linalg.det(a)


@_program((4, 4))
def triangular(x):
    return jax.scipy.linalg.solve_triangular(jnp.tril(x) + 4 * jnp.eye(4), x, lower=True)


@_program((5, 3))
def least_squares(x):
    return jnp.linalg.qr(x)[1] ** 2, jnp.linalg.svd(x, compute_uv=False), jnp.linalg.norm(x)


@_program((1, 8, 8, 3), (3, 3, 3, 4))
def convolution(x, w):
    numbers = ("NHWC", "HWIO", "NHWC")
    return lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=numbers)


@_program((2, 4, 9), (4, 1, 3))
def depthwise_convolution(x, w):
    return lax.conv_general_dilated(x, w, (2,), [(1, 1)], feature_group_count=4, lhs_dilation=(2,))


@_program((16,))
def fourier(x):
    return jnp.abs(jnp.fft.fft(x)), jnp.fft.irfft(jnp.fft.rfft(x))


# ---------------------------------------------------------------- control flow


@_program((4,))
def scan(x):
    return lax.scan(lambda c, i: (jnp.sin(c) * 2 + i, c.sum()), x, jnp.arange(5.0))


@_program((3,))
def while_loop(x):
    return lax.while_loop(lambda s: s[1] < 10, lambda s: (s[0] * 0.5 + 1, s[1] + 1), (x, 0))


@_program((3,), 7)
def fori_loop(x, n):
    return lax.fori_loop(0, n, lambda i, v: v * 0.9 + i, x)


@_program((4,), True)
def conditional(x, p):
    return lax.cond(p, lambda v: v * 2, lambda v: v - 1, x)


@_program((4,), 2)
def switch(x, i):
    return lax.switch(i, [lambda v: v, lambda v: v + 1, lambda v: -v, lambda v: v * v], x)


@_program((6, 3))
def mapped(x):
    return lax.map(lambda row: row / (1 + jnp.sum(row * row)), x)


@_program((8, 2))
def associative_scan(x):
    return lax.associative_scan(lambda a, b: a * 0.5 + b, x)


@_program((3, 3))
def nested_loops(x):
    inner = lambda c, row: (c + row.sum(), c)  # noqa: E731
    return lax.scan(lambda c, row: lax.scan(inner, c, x + row), 0.0, x)


@_program(2.0)
def newton(x):
    step = lambda y: y - (y * y - x) / (2 * y)  # noqa: E731
    return lax.while_loop(lambda y: jnp.abs(y * y - x) > 1e-5, step, jnp.float32(1.0))


# ---------------------------------------------------------------- derivatives and batches


@_program((4, 3), (3,))
def gradient(x, w):
    return jax.grad(lambda v: jnp.sum(jnp.tanh(x @ v) ** 2))(w)


@_program((5,))
def hessian(x):
    return jax.hessian(lambda v: jnp.sum(v**4) + v[0] * v[1])(x)


@_program((4, 3, 3), (4, 3))
def batched(a, b):
    return jax.vmap(lambda m, v: m @ v / jnp.linalg.norm(v))(a, b)


@_program((3,))
def scan_gradient(x):
    return jax.grad(lambda v: lax.scan(lambda c, _: (jnp.cos(c), None), v, None, 4)[0].sum())(x)


@_program((6, 4))
def rematerialised(x):
    return jax.grad(lambda v: jax.checkpoint(lambda u: jnp.sum(jnp.sin(u) ** 3))(v))(x)


# ---------------------------------------------------------------- models and random numbers


@_program((2, 5, 8), (8, 24), (8, 8))
def attention(x, qkv, out):
    q, k, v = jnp.split(x @ qkv, 3, axis=-1)
    scores = jnp.einsum("bqd,bkd->bqk", q, k) / 8**0.5
    mask = jnp.tril(jnp.ones((5, 5), bool))
    return jax.nn.softmax(jnp.where(mask, scores, -1e30)) @ v @ out


@_program((4, 6), (6, 12), (12, 3), _ints(4, high=3))
def train_step(x, w, v, labels):
    def loss(w, v):
        logits = jax.nn.gelu(x @ w) @ v
        return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], 1))

    value, (dw, dv) = jax.value_and_grad(loss, (0, 1))(w, v)
    return value, w - 0.1 * dw, v - 0.1 * dv


@_program((2, 6, 4), (8, 16), (16,))
def lstm(xs, w, b):
    def step(state, x):
        h, c = state
        i, f, g, o = jnp.split(jnp.concatenate([x, h], 1) @ w + b, 4, 1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        return (jax.nn.sigmoid(o) * jnp.tanh(c),) * 2 + (c,), h

    start = jnp.zeros((2, 4))
    return lax.scan(
        lambda s, x: ((step(s, x)[0][0], step(s, x)[0][2]), s[0]),
        (start, start),
        xs.transpose(1, 0, 2),
    )


@_program((3, 8), (8,), (8,))
def layer_norm(x, scale, bias):
    mean = x.mean(-1, keepdims=True)
    return (x - mean) * lax.rsqrt(x.var(-1, keepdims=True) + 1e-5) * scale + bias


@_program(np.uint32(3))
def random_numbers(seed):
    key = jax.random.key(seed)
    a, b = jax.random.split(key)
    return (
        jax.random.normal(a, (8,)),
        jax.random.randint(b, (5,), 0, 10),
        jax.random.permutation(a, 6),
    )
