"""A layer of experts as in Switch-base-8 (Fedus et al. 2021), two experts per token (GShard).

8 experts of width 768 and 3,072; 128 tokens a sequence, at most 40 places per expert and sequence.
"""

import jax
import jax.numpy as jnp

from benchmarks.models.model import model

WIDTH, INNER, EXPERTS, LENGTH, PLACES = 768, 3072, 8, 128, 40


def _weights(make):
    return {
        "router": make.matrix(WIDTH, EXPERTS),
        "up": make.matrix(WIDTH, INNER, batch=(EXPERTS,)),
        "down": make.matrix(INNER, WIDTH, batch=(EXPERTS,)),
    }


@model(
    _weights,
    lambda make, batch: (make.normal(batch, LENGTH, WIDTH, scale=1),),
    others=((1, "bfloat16"),),
    twin="moe",
)
def moe_layer(weights, x):
    probabilities = jax.nn.softmax(x @ weights["router"])
    shares, chosen = jax.lax.top_k(probabilities, 2)
    shares = shares / jnp.sum(shares, axis=-1, keepdims=True)
    wanted = jax.nn.one_hot(chosen, EXPERTS, dtype=jnp.int32).transpose(0, 2, 1, 3)
    # First choices of all tokens take their places before second choices.
    flat = wanted.reshape(x.shape[0], 2 * LENGTH, EXPERTS)
    place = (jnp.cumsum(flat, axis=1) * flat - 1).reshape(wanted.shape)
    sent = jax.nn.one_hot(place, PLACES, dtype=x.dtype)  # all zero where there is no place
    dispatch = jnp.sum(sent, axis=1)
    combine = jnp.einsum("bstep,bts->btep", sent, shares.astype(x.dtype))
    inputs = jnp.einsum("btep,btd->ebpd", dispatch, x)
    hidden = jax.nn.gelu(jnp.einsum("ebpd,edh->ebph", inputs, weights["up"]))
    outputs = jnp.einsum("ebph,ehd->ebpd", hidden, weights["down"])
    return jnp.einsum("ebpd,btep->btd", outputs, combine)
