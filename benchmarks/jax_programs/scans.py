"""Scans and loops of scalars and tiny arrays."""

import jax
import jax.numpy as jnp
from jax import lax

from benchmarks.jax_programs.program import integers, normal, program, uniform, value

LEAVES = 40


def _network(state, observed):
    """One step of a chain of units, each a scalar that leans on its neighbours."""
    fresh = {}
    for i in range(LEAVES):
        drive = state[f"unit{i - 1}"] if i else observed
        gap = drive - state[f"unit{i}"]
        rate = 1.0 / (1.0 + jnp.exp(-state[f"unit{(i + 1) % LEAVES}"]))
        fresh[f"unit{i}"] = state[f"unit{i}"] + 0.1 * rate * gap
    return fresh, fresh[f"unit{LEAVES - 1}"]


def _surprise(weight, observed):
    start = {f"unit{i}": weight * (i + 1) / LEAVES for i in range(LEAVES)}
    _, ends = lax.scan(_network, start, observed)
    return jnp.sum((ends - observed) ** 2)


@program(value(0.3), normal(600), source="jax#40150")
def scalar_scan(weight, observed):
    return _surprise(weight, observed)


@program(value(0.3), normal(600), source="jax#40150")
def scalar_scan_gradient(weight, observed):
    return jax.value_and_grad(_surprise)(weight, observed)


@program(uniform(2000, 3, low=0.1, dtype="float64"), source="jax#36799")
def matrix_carry(rows):
    transition = jnp.array([[0.9, 0.1, 0.0], [-0.1, 0.9, 0.1], [0.0, -0.1, 0.8]])

    def step(carry, row):
        gain = carry @ row
        scale = jnp.sqrt(1.0 + row @ gain)
        weight = (row - gain) / scale
        return transition @ carry @ transition.T + jnp.outer(weight, weight), (scale, weight)

    return lax.scan(step, jnp.eye(3) * 0.5, rows)[1]


@program(lambda rng: rng.permutation(1 << 16).astype("int32"), source="jax#25190")
def while_until_largest(numbers):
    target = jnp.max(numbers)
    state = (jnp.int32(-1), jnp.int32(0))
    return lax.while_loop(
        lambda s: s[0] < target, lambda s: (jnp.maximum(s[0], numbers[s[1]]), s[1] + 1), state
    )


@program(value(0.5))
def while_scalar(x):
    return lax.fori_loop(0, 20_000, lambda i, y: 3.5 * y * (1.0 - y) * 0.999, x)


@program(normal(2000, 8))
def exponential_averages(rows):
    rates = jnp.linspace(0.5, 0.99, 8)

    def step(carry, row):
        mean, square = carry
        mean = rates * mean + (1.0 - rates) * row
        square = rates * square + (1.0 - rates) * row**2
        return (mean, square), (row - mean) / jnp.sqrt(square - mean**2 + 1e-3)

    return lax.scan(step, (jnp.zeros(8), jnp.ones(8)), rows)[1]


@program(normal(32, scale=0.3), normal(200, 16), normal(48, 96, scale=0.1))
def recurrent_gradient(state, inputs, weights):
    """The gradient of a recurrent cell with a gate, 200 steps."""

    def loss(w):
        def step(h, x):
            both = jnp.concatenate([h, x]) @ w
            gate, fresh = jax.nn.sigmoid(both[:32]), jnp.tanh(both[32:64])
            return gate * h + (1.0 - gate) * fresh * jax.nn.sigmoid(both[64:]), jnp.sum(h)

        last, sums = lax.scan(step, state, inputs)
        return jnp.sum(last**2) + jnp.mean(sums**2)

    return jax.value_and_grad(loss)(weights)


@program(integers(4, 3000), normal(4))
def state_machine(symbols, start):
    """A machine that does one of four things per symbol."""
    acts = (
        lambda s: jnp.roll(s, 1),
        lambda s: s.at[0].add(1.0),
        lambda s: s * jnp.float32(0.5),
        lambda s: jnp.flip(s),
    )
    return lax.scan(lambda s, k: (lax.switch(k, acts, s), s[0]), start, symbols)
