"""A transformer block whose weights are split: heads and hidden features over the axis `model`.

The batch is split over `data`. Each half of the block multiplies by a matrix split by columns,
then by one split by rows, so a device needs one all-reduce per half, over the devices of `model`.
"""

import jax
import jax.numpy as jnp
import jax_sharded_dump
from jax.sharding import PartitionSpec as P

BATCH, LENGTH, FEATURES, HEADS, HIDDEN = 4, 8, 16, 4, 64


def norm(x: jax.Array) -> jax.Array:
    """Return the rows of x with a mean square of 1."""
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-5)


def attention(x: jax.Array, query: jax.Array, key: jax.Array, value: jax.Array) -> jax.Array:
    """Return causal attention of x f32[4,8,16], head by head, before the output matrix."""
    heads = (BATCH, LENGTH, HEADS, FEATURES // HEADS)
    q, k, v = (jnp.reshape(x @ w, heads) for w in (query, key, value))
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / jnp.sqrt(heads[-1])
    seen = jnp.tril(jnp.ones((LENGTH, LENGTH), bool))
    weights = jax.nn.softmax(jnp.where(seen, scores, -1e9))
    return jnp.einsum("bhqk,bkhd->bqhd", weights, v).reshape(x.shape)


def block(
    x: jax.Array,
    query: jax.Array,
    key: jax.Array,
    value: jax.Array,
    output: jax.Array,
    up: jax.Array,
    down: jax.Array,
) -> jax.Array:
    """Return attention and a two-layer network, each with a residual connection."""
    x = x + attention(norm(x), query, key, value) @ output
    x = x + jax.nn.gelu(norm(x) @ up) @ down
    return jax.lax.with_sharding_constraint(x, P("data"))


if __name__ == "__main__":
    keys = jax.random.split(jax.random.key(0), 7)
    columns, rows = P(None, "model"), P("model")
    sizes = [(FEATURES, FEATURES)] * 4 + [(FEATURES, HIDDEN), (HIDDEN, FEATURES)]
    splits = [columns, columns, columns, rows, columns, rows]
    weights = [
        (jax.random.normal(k, size) / jnp.sqrt(size[0]), split)
        for k, size, split in zip(keys[1:], sizes, splits, strict=True)
    ]
    x = jax.random.normal(keys[0], (BATCH, LENGTH, FEATURES))
    jax_sharded_dump.dump(
        "tensor_parallel_block", {"data": 2, "model": 4}, block, (x, P("data")), *weights
    )
