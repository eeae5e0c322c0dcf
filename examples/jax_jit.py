"""A filter of small matrices in a loop, compiled by hloc: `python examples/jax_jit.py`."""

import jax
import jax.numpy as jnp

import hloc
import hloc.jax


def kalman(observations):
    """Return the filtered positions of a point that moves at a constant speed."""
    step, read = jnp.array([[1.0, 0.1], [0.0, 1.0]]), jnp.array([[1.0, 0.0]])

    def update(state, seen):
        mean, spread = step @ state[0], step @ state[1] @ step.T + 0.01 * jnp.eye(2)
        gain = spread @ read.T / (read @ spread @ read.T + 0.5)
        mean = mean + gain[:, 0] * (seen - (read @ mean)[0])
        return (mean, spread - gain @ read @ spread), mean[0]

    return jax.lax.scan(update, (jnp.zeros(2), jnp.eye(2)), observations)[1]


observations = jnp.linspace(0.0, 5.0, 500)
by_hloc, by_xla = hloc.jit(kalman), jax.jit(kalman)
print("same answer:", jnp.allclose(by_hloc(observations), by_xla(observations), atol=1e-4))
print(hloc.jax.report(beside_xla=True))
