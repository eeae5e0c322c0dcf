"""Pipelines: layers split over devices, microbatches handed from one to the next."""

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec as P

from benchmarks.sharded.program import array, program, split


def _handed_on(stages, microbatches, w, x):
    """Run `microbatches` through the stages; the last device has the results."""
    me = lax.axis_index("stage")
    onward = [(i, i + 1) for i in range(stages - 1)]

    def step(i, state):
        arrived, results = state
        fresh = lax.dynamic_index_in_dim(x, jnp.minimum(i, microbatches - 1), keepdims=False)
        out = jnp.tanh(jnp.where(me == 0, fresh, arrived) @ w[0])
        done = i - (stages - 1)
        kept = lax.dynamic_update_index_in_dim(results, out, jnp.maximum(done, 0), 0)
        results = jnp.where((me == stages - 1) & (done >= 0), kept, results)
        return lax.ppermute(out, "stage", onward), results

    start = lax.pcast((x[0] * 0, x * 0), "stage", to="varying")
    return lax.fori_loop(0, microbatches + stages - 1, step, start)[1]


@program("stage=4", array(4, 8, 8, by="stage"), array(6, 5, 8))
def pipeline(w, x):
    def local(w, x):
        results = _handed_on(4, 6, w, x)
        return lax.psum(jnp.where(lax.axis_index("stage") == 3, results, 0), "stage")

    return jax.shard_map(local, in_specs=(P("stage"), P()), out_specs=P())(w, x)


@program("stage=8", array(8, 6, 6, by="stage"), array(4, 3, 6))
def pipeline_gradient(w, x):
    def loss(w):
        def local(w, x):
            return _handed_on(8, 4, w, x)[None]

        parts = jax.shard_map(local, in_specs=(P("stage"), P()), out_specs=P("stage"))(w, x)
        return jnp.sum(parts[-1] ** 2)

    return jax.grad(loss)(w)


@program("stage=4,data=2", array(4, 8, 8, by="stage"), array(6, 4, 8, by=(None, "data")))
def pipeline_by_roll(w, x):
    """The stages are a dimension, handing on is a roll along it; no manual region."""

    def step(state, fresh):
        state = split(jnp.roll(state, 1, 0).at[0].set(fresh), "stage", "data")
        state = jnp.tanh(jnp.einsum("sbi,sij->sbj", state, w))
        return state, state[-1]

    feed = jnp.concatenate([x, jnp.zeros((3, 4, 8))])
    _, outs = lax.scan(step, jnp.zeros((4, 4, 8)), feed)
    return split(outs[3:], None, "data")


@program("stage=4", array(4, 2, 8, 8, by="stage"), array(4, 5, 8, by="stage"))
def pipeline_circular(w, x):
    """Each device has two layers that are not neighbours: the ring is gone round twice."""

    def local(w, x):
        around = [(i, (i + 1) % 4) for i in range(4)]

        def step(i, state):
            turn = lax.dynamic_index_in_dim(w[0], i // 4, keepdims=False)
            return lax.ppermute(jnp.tanh(state @ turn), "stage", around)

        return lax.fori_loop(0, 8, step, x)

    return jax.shard_map(local, in_specs=P("stage"), out_specs=P("stage"))(w, x)
