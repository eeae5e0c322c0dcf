"""Lookups and updates where the table, the indices or both are split."""

import jax
import jax.numpy as jnp
from jax import lax

from benchmarks.sharded.program import array, program, split

_TOKENS = array(8, 6, by="x", dtype="int32", high=64)


@program("x=8", array(64, 16, by="x"), array(8, 6, dtype="int32", high=64))
def embedding_vocabulary_split(table, tokens):
    return table[tokens]


@program("x=4,y=2", array(64, 16, by=("x", "y")), array(8, 6, by="x", dtype="int32", high=64))
def embedding_both_split(table, tokens):
    return split(table[tokens], "x", None, "y")


@program("x=8", array(64, 16, by="x"), _TOKENS)
def embedding_gradient(table, tokens):
    return jax.grad(lambda t: jnp.sum(jnp.tanh(t[tokens]) ** 2))(table)


@program("x=4", array(16, 12, by="x"), array(16, 3, by="x", dtype="int32", high=12))
def along_an_axis(x, places):
    return jnp.take_along_axis(x, places, 1), jnp.take_along_axis(x, x.argsort(0), 0)


@program("x=4", array(32, 5, by="x"), array(32, by="x", dtype="int32", high=9))
def segment_sums(x, ids):
    return jax.ops.segment_sum(x, ids, 9), jax.ops.segment_max(x, ids, 9)


@program("x=8", array(32, 4, by="x"), array(10, dtype="int32", high=32), array(10, 4))
def scatter_into_split(x, rows, fresh):
    return x.at[rows].add(fresh), x.at[rows].min(fresh), x.at[rows[:3], 1].multiply(2.0)


@program("x=4,y=2", array(12, 16, by=("x", "y")), array(2, dtype="int32", high=8))
def dynamic_slices(x, at):
    taken = lax.dynamic_slice(x, (at[0], at[1]), (5, 16))
    column = lax.dynamic_slice(x, (0, at[1]), (12, 1))
    return taken, column, lax.dynamic_update_slice(x, taken * 2, (at[1], 0))


@program("x=4", array(6, 16, 8, by=(None, "x")), array(6, dtype="int32", high=16))
def cache_update(cache, places):
    """One row per sequence is written at a place of its own, in a dimension that is split."""
    fresh = jnp.ones((6, 8)) * jnp.arange(8)
    return jax.vmap(lambda c, p: c.at[p].set(fresh[0]))(cache, places)


@program("x=4", array(10, 8, by=(None, "x")), array(5, 2, dtype="int32", high=8))
def gather_points(x, points):
    return x[points[:, 0], points[:, 1]], x[:, points[:, 0]], x[points[0, 0]]


@program("x=8", array(48, by="x"), array(10))
def search(sorted_or_not, wanted):
    ordered = jnp.sort(sorted_or_not)
    return jnp.searchsorted(ordered, wanted), jnp.histogram(sorted_or_not, 6, (-2, 2))[0]


@program("x=4", array(16, by="x", dtype="int32", high=5), array(16, 7, by="x"))
def one_hot_select(ids, x):
    return (
        jax.nn.one_hot(ids, 5).T @ x,
        jnp.where(ids[:, None] > 2, x, 0.0),
        jnp.nonzero(ids, size=9),
    )
