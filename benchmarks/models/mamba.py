"""Four of the 24 blocks of Mamba 130M (Gu and Dao 2023), 256 tokens: convolution, selective scan.

All blocks are alike; the scan goes token by token.
"""

import jax
import jax.numpy as jnp

from benchmarks.models.layers import dense, rms_norm
from benchmarks.models.model import model

BLOCKS, WIDTH, INNER, STATE, WINDOW, RANK, LENGTH = 4, 768, 1536, 16, 4, 48, 256


def _weights(make):
    return [
        {
            "norm": make.near(1, WIDTH),
            "in": make.matrix(WIDTH, 2 * INNER),
            "window": make.kernel(WINDOW, 1, INNER),
            "window_bias": make.near(0, INNER),
            "selection": make.matrix(INNER, RANK + 2 * STATE),
            "step": (make.matrix(RANK, INNER), make.near(-4, INNER)),
            "decay": make.near(0.5, INNER, STATE),
            "through": make.near(1, INNER),
            "out": make.matrix(INNER, WIDTH),
        }
        for _ in range(BLOCKS)
    ]


def _scan(block, x):
    """Return the selective scan of `[batch, length, INNER]`."""
    step, enter, leave = jnp.split(dense(x, block["selection"]), [RANK, RANK + STATE], axis=-1)
    step = jax.nn.softplus(dense(step, *block["step"]))

    def one(state, now):
        x, step, enter, leave = now
        kept = jnp.exp(-step[..., None] * jnp.exp(block["decay"]))
        state = kept * state + (step * x)[..., None] * enter[:, None, :]
        return state, jnp.einsum("bns,bs->bn", state, leave)

    start = jnp.zeros((x.shape[0], INNER, STATE), x.dtype)
    by_time = [a.swapaxes(0, 1) for a in (x, step, enter, leave)]
    _, y = jax.lax.scan(one, start, by_time)
    return y.swapaxes(0, 1) + x * block["through"]


@model(_weights, lambda make, batch: (make.normal(batch, LENGTH, WIDTH, scale=1),))
def mamba_4_blocks(weights, x):
    for block in weights:
        y, gate = jnp.split(dense(rms_norm(x, block["norm"]), block["in"]), 2, axis=-1)
        y = jax.lax.conv_general_dilated(
            y,
            block["window"],
            (1,),
            [(WINDOW - 1, 0)],
            dimension_numbers=("NWC", "WIO", "NWC"),
            feature_group_count=INNER,
        )
        y = _scan(block, jax.nn.silu(y + block["window_bias"]))
        x = x + dense(y * jax.nn.silu(gate), block["out"])
    return x
