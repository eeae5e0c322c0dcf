"""An LSTM over a sequence, as a scan: a while loop that slices its input and stacks its output.

The loop carries hidden and cell state; each step reads x[t] (dynamic-slice) and writes h[t]
(dynamic-update-slice).
"""

import jax
import jax.numpy as jnp
from jax_dump import dump

STEPS, BATCH, FEATURES, HIDDEN = 24, 8, 16, 32

State = tuple[jax.Array, jax.Array]


def lstm(
    matrix: jax.Array, bias: jax.Array, start: State, xs: jax.Array
) -> tuple[State, jax.Array]:
    """Return the final (hidden, cell) and every hidden state, f32[24,8,32].

    Args:
        matrix: f32[48,128], from [x, hidden] to the four gates.
        bias: f32[128].
        start: hidden and cell, f32[8,32] each.
        xs: f32[24,8,16].
    """

    def step(state: State, x: jax.Array) -> tuple[State, jax.Array]:
        hidden, cell = state
        gates = jnp.concatenate([x, hidden], axis=1) @ matrix + bias
        enter, forget, candidate, leave = jnp.split(gates, 4, axis=1)
        cell = jax.nn.sigmoid(forget + 1.0) * cell + jax.nn.sigmoid(enter) * jnp.tanh(candidate)
        hidden = jax.nn.sigmoid(leave) * jnp.tanh(cell)
        return (hidden, cell), hidden

    return jax.lax.scan(step, start, xs)


if __name__ == "__main__":
    matrix_key, x_key, h_key = jax.random.split(jax.random.key(2), 3)
    inputs = FEATURES + HIDDEN
    dump(
        "lstm_scan",
        lstm,
        jax.random.normal(matrix_key, (inputs, 4 * HIDDEN)) * inputs**-0.5,
        jnp.linspace(-0.1, 0.1, 4 * HIDDEN),
        (jax.random.normal(h_key, (BATCH, HIDDEN)) * 0.5, jnp.zeros((BATCH, HIDDEN))),
        jax.random.normal(x_key, (STEPS, BATCH, FEATURES)),
    )
