"""Regions that are manual over some axes only, regions in regions, and `pmap`."""

import functools

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec as P

from benchmarks.sharded.program import array, program, split


@program("x=4,y=2", array(16, 8, by=("x", "y")), array(8, 12, by="y"))
def partly_manual_sum(x, w):
    """One axis is manual, the other is left to the partitioner."""

    @functools.partial(jax.shard_map, in_specs=(P("x"), P()), out_specs=P(), axis_names={"x"})
    def local(x, w):
        return lax.psum(jnp.tanh(x @ w).sum(0), "x")

    return local(x, w)


@program("x=4,y=2", array(16, 8, by=("x", "y")), array(8, 12, by=(None, "y")))
def partly_manual_ring(x, w):
    @functools.partial(jax.shard_map, in_specs=(P("x"), P()), out_specs=P("x"), axis_names={"x"})
    def local(x, w):
        hidden = split(jax.nn.relu(x @ w), None, "y")
        return lax.ppermute(hidden, "x", [(i, (i + 1) % 4) for i in range(4)])

    return local(x, w).sum(1)


@program("x=2,y=2,z=2", array(8, 8, 6, by=("x", "y", "z")))
def partly_manual_two_axes(x):
    @functools.partial(
        jax.shard_map, in_specs=P("x", "y"), out_specs=P("x", "y"), axis_names={"x", "y"}
    )
    def local(x):
        return jnp.cumsum(lax.psum(x, "y"), 2) + lax.axis_index("x") + x

    return local(x) * 2


@program("x=4,y=2", array(16, 8, by=("x", "y")))
def region_in_region(x):
    @functools.partial(jax.shard_map, in_specs=P("x"), out_specs=P("x"), axis_names={"x"})
    def outer(x):
        @functools.partial(
            jax.shard_map, in_specs=P(None, "y"), out_specs=P(None, "y"), axis_names={"y"}
        )
        def inner(x):
            return x - lax.pmean(x, "y")

        return inner(lax.psum(x, "x") + x)

    return outer(x)


@program("x=8", array(16, 6, by="x"), array(6, 4))
def region_between(x, w):
    """The partitioner before and after, by hand in the middle."""

    def local(y):
        return lax.all_gather(y, "x", axis=1, tiled=True)[:, ::2]

    y = jnp.exp(x @ w)
    middle = jax.shard_map(local, in_specs=P("x"), out_specs=P("x"))(y)
    return jax.nn.softmax(middle, 0), middle.sum()


@program("x=4", array(5, 16, 6, by=(None, "x")))
def region_in_scan(rows):
    def local(carry, row):
        return carry * 0.5 + lax.psum(row, "x"), lax.axis_index("x") + row

    def step(carry, row):
        specs = (P(), P("x"))
        return jax.shard_map(local, in_specs=specs, out_specs=specs)(carry, row)

    return lax.scan(step, jnp.zeros((4, 6)), rows)


@program("x=8", array(12, 4), array(16, 4, by="x"))
def replicated_in_region(a, x):
    """An argument that every device has whole, and a result that all have alike."""

    def local(a, x):
        return a * 2 + lax.psum(x, "x")[:1], x @ a.T

    return jax.shard_map(local, in_specs=(P(), P("x")), out_specs=(P(), P("x")))(a, x)


@program("", array(8, 6, by=None))
def pmap_sum(x):
    return jax.pmap(lambda v: (v - lax.pmean(v, "i"), lax.axis_index("i")), axis_name="i")(x)


@program("", array(4, 10, 3, by=None), array(3, 2, by=None))
def pmap_gradient(x, w):
    def local(x, w):
        return lax.pmean(jax.grad(lambda w: jnp.mean(jnp.sin(x @ w)))(w), "i")

    return jax.pmap(local, axis_name="i", in_axes=(0, None))(x, w)
