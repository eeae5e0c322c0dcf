"""Mixtures of experts: tokens travel to the devices of their experts and back."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import PartitionSpec as P

from benchmarks.sharded.program import array, program, split


def _dispatch(x, gate, experts, capacity):
    """Return where tokens go, `[token, expert, slot]`, and with what weight."""
    odds = jax.nn.softmax(x @ gate)
    best = jax.nn.one_hot(jnp.argmax(odds, -1), experts)
    place = jnp.cumsum(best, 0) * best - 1
    slots = jax.nn.one_hot(place.astype(jnp.int32), capacity) * best[..., None]
    return slots, slots * jnp.max(odds, -1)[:, None, None]


_WEIGHTS = (array(16, 8), array(8, 16, 32, by="expert"), array(8, 32, 16, by="expert"))


@program("expert=8", array(64, 16, by="expert"), *_WEIGHTS)
def experts_by_einsum(x, gate, up, down):
    slots, weights = _dispatch(x, gate, 8, 16)
    sent = split(jnp.einsum("tec,td->ecd", slots, x), "expert")
    worked = jnp.einsum("ecf,efd->ecd", jax.nn.relu(jnp.einsum("ecd,edf->ecf", sent, up)), down)
    return split(jnp.einsum("tec,ecd->td", weights, split(worked, "expert")), "expert")


@program("data=2,expert=4", array(64, 16, by=(("data", "expert"),)), *_WEIGHTS)
def experts_and_data(x, gate, up, down):
    slots, weights = _dispatch(x, gate, 8, 16)
    sent = split(jnp.einsum("tec,td->ecd", slots, x), "expert")
    worked = jnp.einsum("ecf,efd->ecd", jnp.tanh(jnp.einsum("ecd,edf->ecf", sent, up)), down)
    return jnp.einsum("tec,ecd->td", weights, worked)


@program("expert=8", array(64, 16, by="expert"), *_WEIGHTS)
def experts_by_all_to_all(x, gate, up, down):
    def local(x, gate, up, down):
        slots, weights = _dispatch(x, gate, 8, 3)
        sent = jnp.einsum("tec,td->ecd", slots, x)
        mine = lax.all_to_all(sent, "expert", 0, 0)
        worked = jax.nn.gelu(mine @ up[0]) @ down[0]
        return jnp.einsum("tec,ecd->td", weights, lax.all_to_all(worked, "expert", 0, 0))

    specs = (P("expert"), P(), P("expert"), P("expert"))
    return jax.shard_map(local, in_specs=specs, out_specs=P("expert"))(x, gate, up, down)


@program("expert=4", array(32, 16, by="expert"), array(16, 8), array(8, 16, 16, by="expert"))
def experts_choose_tokens(x, gate, w):
    odds = jax.nn.softmax(x @ gate)
    best, places = lax.top_k(odds.T, 6)
    worked = jnp.einsum("ecd,edf->ecf", split(x[places], "expert"), w) * best[..., None]
    return jnp.zeros_like(x).at[places].add(worked)


def _ragged_answer(x, offsets, sizes):
    """Device `i` sends `sizes[i, j]` rows from `offsets[i, j]` on to device `j`."""
    x = x.reshape(8, 16, 4)
    sizes, offsets = sizes % 3, offsets % 12
    result = np.zeros_like(x)
    for j in range(8):
        place = 0
        for i in range(8):
            rows = sizes[i, j]
            result[j, place : place + rows] = x[i, offsets[i, j] : offsets[i, j] + rows]
            place += rows
    return [result.reshape(128, 4)]


@program(
    "expert=8",
    array(128, 4, by="expert"),
    array(8, 8, by="expert", dtype="int32", high=100),
    array(8, 8, by="expert", dtype="int32", high=100),
    answer=_ragged_answer,
)
def experts_ragged(x, offsets, sizes):
    def local(x, offsets, sizes):
        sizes, offsets = sizes[0] % 3, offsets[0] % 12
        received = lax.all_to_all(sizes, "expert", 0, 0, tiled=True)
        places = lax.all_to_all(jnp.cumsum(received) - received, "expert", 0, 0, tiled=True)
        room = jnp.zeros_like(x)
        return lax.ragged_all_to_all(x, room, offsets, sizes, places, received, axis_name="expert")

    return jax.shard_map(local, in_specs=P("expert"), out_specs=P("expert"))(x, offsets, sizes)
