"""Small models whole: several kinds of parallelism at once, forward and backward."""

import jax
import jax.numpy as jnp
from jax import lax

from benchmarks.sharded.program import array, program, split

_BLOCK = (
    array(4, 8, 16, by="data"), array(16, 48, by=(None, "model")), array(16, 16, by="model"),
    array(16, 64, by=(None, "model")), array(64, 16, by="model"),
)  # fmt: skip


def _norm(x):
    return x * lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-5)


def _block(x, qkv, output, up, down):
    q, k, v = jnp.split((_norm(x) @ qkv).reshape(4, 8, 12, 4), 3, 2)
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / 2
    mask = jnp.tril(jnp.ones((8, 8), bool))
    weights = jax.nn.softmax(jnp.where(mask, scores, -1e9))
    x = x + jnp.einsum("bhqk,bkhd->bqhd", weights, v).reshape(4, 8, 16) @ output
    return x + jax.nn.gelu(_norm(x) @ up) @ down


@program("data=4,model=2", *_BLOCK)
def transformer_block(x, qkv, output, up, down):
    return split(_block(x, qkv, output, up, down), "data")


@program("data=2,model=4", *_BLOCK)
def transformer_gradient(x, *weights):
    return jax.grad(lambda w: jnp.mean(_block(x, *w) ** 2))(weights)


@program(
    "replica=2,fsdp=2,model=2",
    array(8, 16, by=(("replica", "fsdp"),)),
    array(16, 32, by=("fsdp", "model")),
    array(32, 16, by=("model", "fsdp")),
)
def three_way_step(x, first, second):
    """Replicas, split parameters, split products: a step of training."""

    def loss(weights):
        hidden = split(jax.nn.gelu(x @ weights[0]), ("replica", "fsdp"), "model")
        return jnp.mean((hidden @ weights[1] - x) ** 2)

    value, (a, b) = jax.value_and_grad(loss)((first, second))
    return value, split(first - 0.1 * a, "fsdp", "model"), split(second - 0.1 * b, "model", "fsdp")


@program(
    "data=2,space=4",
    array(4, 16, 16, 3, by=("data", "space")),
    array(3, 3, 3, 8),
    array(3, 3, 8, 8),
    array(8, 5),
)
def image_network(x, first, second, last):
    def layer(x, kernel, stride):
        return jax.nn.relu(
            lax.conv_general_dilated(
                x, kernel, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
            )
        )

    x = layer(x, first, 2)
    x = x + layer(x, second, 1)
    pooled = lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    return pooled.mean((1, 2)) @ last


@program(
    "data=4,model=2",
    array(8, 12, by="data", dtype="int32", high=32),
    array(32, 16, by="model"),
    array(32, 64, by=(None, "model")),
    array(16, 32, by=(None, "model")),
)
def recurrent_language_model(tokens, table, cell, head):
    x = table[tokens]

    def step(state, row):
        h, c = state
        gates = jnp.concatenate([row, h], -1) @ cell
        i, f, g, o = jnp.split(gates, 4, -1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    start = (jnp.zeros((8, 16)), jnp.zeros((8, 16)))
    _, states = lax.scan(step, start, x.transpose(1, 0, 2))
    logits = jax.nn.log_softmax(states[:-1] @ head)
    chosen = jnp.take_along_axis(logits, tokens.T[1:, :, None], -1)
    return -jnp.mean(chosen)


@program("data=8", array(64, 6, by="data"), array(5, 6))
def clusters(points, centres):
    """Four turns of k-means."""

    def step(_, centres):
        distance = jnp.sum((points[:, None] - centres) ** 2, -1)
        member = jax.nn.one_hot(jnp.argmin(distance, 1), 5)
        return (member.T @ points) / jnp.maximum(member.sum(0), 1)[:, None]

    return lax.fori_loop(0, 4, step, centres)


@program("x=4,y=2", array(16, 3, by="x"), array(16, 3, by="y"))
def bodies(here, there):
    """Forces of all on all: rows by one axis, columns by the other."""
    apart = here[:, None] - there[None]
    return jnp.sum(apart / (jnp.sum(apart**2, -1, keepdims=True) + 0.1) ** 1.5, 1)


@program("x=8", array(16, 16, by="x"), array(16, by="x"))
def conjugate_gradients(m, b):
    a = m @ m.T + 16 * jnp.eye(16)

    def step(_, state):
        x, r, p = state
        ap = a @ p
        alpha = (r @ r) / (p @ ap)
        fresh = r - alpha * ap
        return x + alpha * p, fresh, fresh + (fresh @ fresh) / (r @ r) * p

    return lax.fori_loop(0, 6, step, (jnp.zeros(16), b, b))[0]
