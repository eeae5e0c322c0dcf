"""Long sequences: attention around a ring, heads for positions, states handed on."""

import functools

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec as P

from benchmarks.sharded.program import array, program, split

_RING = P(None, "ring")
_PARTS = tuple(array(2, 32, 4, 8, by=(None, "ring")) for _ in range(3))


def _ring(causal, q, k, v):
    """Attention of the local rows of q to all of k and v, which go around the ring."""
    devices, me = lax.axis_size("ring"), lax.axis_index("ring")
    length = q.shape[1]
    rows = me * length + jnp.arange(length)

    def step(i, state):
        k, v, top, total, mixed = state
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / jnp.sqrt(q.shape[-1])
        if causal:
            columns = (me - i) % devices * length + jnp.arange(length)
            scores = jnp.where(rows[:, None] >= columns, scores, -1e30)
        highest = jnp.maximum(top, jnp.max(scores, -1))
        old, new = jnp.exp(top - highest), jnp.exp(scores - highest[..., None])
        total = total * old + jnp.sum(new, -1)
        mixed = mixed * old[..., None] + jnp.einsum("bhqk,bkhd->bhqd", new, v)
        around = [(j, (j + 1) % devices) for j in range(devices)]
        return (
            lax.ppermute(k, "ring", around),
            lax.ppermute(v, "ring", around),
            highest,
            total,
            mixed,
        )

    flat = q.transpose(0, 2, 1, 3)
    start = (k, v, flat[..., 0] * 0 - 1e30, flat[..., 0] * 0, flat * 0)
    _, _, _, total, mixed = lax.fori_loop(0, devices, step, start)
    return (mixed / total[..., None]).transpose(0, 2, 1, 3)


def _on_ring(function, *arguments, specs=_RING):
    return jax.shard_map(function, in_specs=specs, out_specs=specs)(*arguments)


@program("ring=8", *_PARTS)
def ring_attention(q, k, v):
    return _on_ring(functools.partial(_ring, False), q, k, v)


@program("ring=4", *_PARTS)
def ring_attention_causal(q, k, v):
    return _on_ring(functools.partial(_ring, True), q, k, v)


@program("ring=4", *_PARTS)
def ring_attention_gradient(q, k, v):
    def loss(q, k, v):
        return jnp.sum(_on_ring(functools.partial(_ring, True), q, k, v) ** 2)

    return jax.grad(loss, (0, 1, 2))(q, k, v)


@program("ring=4", *_PARTS)
def heads_for_positions(q, k, v):
    """Positions are split outside of attention, heads inside: two exchanges."""

    def local(q, k, v):
        q, k, v = (lax.all_to_all(t, "ring", 2, 1, tiled=True) for t in (q, k, v))
        weights = jax.nn.softmax(jnp.einsum("bqhd,bkhd->bhqk", q, k))
        return lax.all_to_all(jnp.einsum("bhqk,bkhd->bqhd", weights, v), "ring", 1, 2, tiled=True)

    return _on_ring(local, q, k, v)


@program("ring=8", *_PARTS)
def attention_positions_split(q, k, v):
    weights = jax.nn.softmax(jnp.einsum("bqhd,bkhd->bhqk", q, k))
    return split(jnp.einsum("bhqk,bkhd->bqhd", weights, v), None, "ring")


@program("ring=8", array(64, 6, by="ring"), array(64, 6, by="ring"))
def linear_recurrence(decay, x):
    """`h[t] = decay[t] h[t-1] + x[t]`: local scans, then the states of the parts to the left."""

    def combine(left, right):
        return left[0] * right[0], right[0] * left[1] + right[1]

    def local(decay, x):
        a, h = lax.associative_scan(combine, (jax.nn.sigmoid(decay), x))
        ends = lax.all_gather((a[-1], h[-1]), "ring")
        me = lax.axis_index("ring")
        before = jnp.zeros_like(h[-1])
        for part in range(lax.axis_size("ring") - 1):
            before = jnp.where(part < me, ends[0][part] * before + ends[1][part], before)
        return h + a * before

    return _on_ring(local, decay, x, specs=P("ring"))


@program("ring=4", array(8, 64, by=(None, "ring")), array(5))
def causal_filter(x, taps):
    """Each position sees the four before it, across the borders of the parts."""
    padded = jnp.pad(x, ((0, 0), (4, 0)))
    return sum(taps[i] * padded[:, i : i + 64] for i in range(5))
