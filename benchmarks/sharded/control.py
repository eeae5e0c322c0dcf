"""Loops and branches around collectives; not every device goes the same way."""

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec as P

from benchmarks.sharded.collectives import manual
from benchmarks.sharded.program import array, program, split

_X = array(16, 8, by="x")


@program("x=8", _X)
def loop_of_sums(x):
    def local(x):
        return lax.fori_loop(0, 5, lambda i, y: jnp.tanh(y + lax.pmean(y, "x")), x)

    return manual(local, x)


@program("x=4", _X)
def scan_of_gathers(x):
    def local(x):
        def step(carry, row):
            whole = lax.all_gather(carry + row, "x", tiled=True)
            return carry * 0.5 + whole.mean(), whole[:3]

        return lax.scan(step, x[0], x)

    return manual(local, x)


@program("x=8", _X)
def while_all_agree(x):
    """Every device stops when the largest of all is small enough."""

    def local(x):
        def go_on(state):
            return lax.pmax(jnp.max(jnp.abs(state[0])), "x") > 0.1

        return lax.while_loop(go_on, lambda s: (s[0] * 0.7, s[1] + 1), (x, jnp.int32(0)))

    return manual(local, x, out=(P("x"), P()), check_vma=False)


@program("x=4,y=2", array(16, 8, by=("x", "y")))
def loops_of_different_length(x):
    """Along y the devices meet as often as their x says: groups do not wait for each other."""

    def local(x):
        turns = lax.axis_index("x") * 2 + 1
        return lax.fori_loop(0, turns, lambda i, y: y * 0.5 + lax.psum(y, "y"), x)

    return manual(local, x, spec=P("x", "y"), out=P("x", "y"), check_vma=False)


@program("x=8", _X, array(dtype="int32", high=2))
def branch_together(x, which):
    def local(x, which):
        def one(x):
            return lax.psum(x, "x")

        def two(x):
            return lax.ppermute(x, "x", [(i, 7 - i) for i in range(8)]) * 2

        return lax.cond(which > 0, one, two, x)

    return jax.shard_map(local, in_specs=(P("x"), P()), out_specs=P("x"), check_vma=False)(x, which)


@program("x=4,y=2", array(16, 8, by=("x", "y")))
def branch_by_group(x):
    """Some groups meet, others do not; within a group all go the same way."""

    def local(x):
        acts = (lambda x: lax.psum(x, "y"), lambda x: -x, lambda x: lax.pmax(x, "y") * 2)
        return lax.switch(lax.axis_index("x") % 3, acts, x)

    return manual(local, x, spec=P("x", "y"), out=P("x", "y"), check_vma=False)


@program("x=4", _X)
def nested_loops(x):
    def local(x):
        def outer(i, y):
            ring = [(j, (j + 1) % 4) for j in range(4)]
            y = lax.fori_loop(0, 3, lambda j, z: lax.ppermute(z, "x", ring) * 0.9, y)
            return y + lax.psum(y, "x") * 0.1

        return lax.fori_loop(0, 2, outer, x)

    return manual(local, x)


@program("x=8", array(12, 16, 8, by=(None, "x")), array(8, 8))
def scan_split(rows, w):
    """A recurrence whose batch is split."""

    def step(h, row):
        h = jnp.tanh(h @ w + row)
        return h, h.sum(1)

    return lax.scan(step, jnp.zeros((16, 8)), rows)


@program("x=4", array(6, 16, 16, by=(None, None, "x")), array(8, 16))
def scan_layers(weights, x):
    """One product per turn, whose columns are split: an exchange in each turn."""
    return lax.scan(lambda h, w: (split(jnp.tanh(h @ w)), None), x, weights)[0]


@program("x=4", array(6, 16, 16, by=(None, None, "x")), array(8, 16))
def scan_layers_gradient(weights, x):
    def loss(weights):
        body = jax.checkpoint(lambda h, w: (jnp.tanh(h @ w), None))
        return jnp.sum(lax.scan(body, x, weights)[0] ** 2)

    return jax.grad(loss)(weights)


@program("x=8", array(32, 4, by="x"), array(dtype="int32", high=3))
def conditional_split(x, which):
    acts = (lambda x: jnp.sort(x, 0), lambda x: x - x.mean(0), lambda x: jnp.cumsum(x, 0))
    return lax.switch(which, acts, x), lax.cond(x.sum() > 0, jnp.sin, jnp.cos, x)


@program("x=4", array(24, 24, by="x"), array(24))
def power_iteration(a, start):
    def step(state):
        v, _, i = state
        fresh = a @ (a.T @ v)
        norm = jnp.linalg.norm(fresh)
        return fresh / norm, norm, i + 1

    v, norm, _ = lax.while_loop(lambda s: s[2] < 12, step, (start, jnp.float32(0), jnp.int32(0)))
    return jnp.abs(v), norm
