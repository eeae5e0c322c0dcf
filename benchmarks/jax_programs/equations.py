"""Differential equations, integrated step by step."""

import jax
import jax.numpy as jnp
from jax import lax

from benchmarks.jax_programs.program import normal, program, uniform, value


def _rk4(f, y, h):
    a = f(y)
    b = f(y + 0.5 * h * a)
    c = f(y + 0.5 * h * b)
    return y + h / 6.0 * (a + 2.0 * b + 2.0 * c + f(y + h * c))


def _lorenz(y):
    return jnp.stack([
        10.0 * (y[1] - y[0]), y[0] * (28.0 - y[2]) - y[1], y[0] * y[1] - 8.0 / 3.0 * y[2]
    ])  # fmt: skip


@program(normal(3))
def rk4_lorenz(start):
    return lax.scan(lambda y, _: (_rk4(_lorenz, y, 0.002), y), start, None, length=1000)


@program(uniform(2, low=0.5, dtype="float64"), value(1.5, "float64"))
def rk4_gradient(start, rate):
    """The gradient of predator and prey by their rate, through 400 steps."""

    def loss(r):
        def change(y):
            return jnp.array([r * y[0] - y[0] * y[1], y[0] * y[1] - y[1]])

        last, path = lax.scan(lambda y, _: (_rk4(change, y, 0.01), y), start, None, length=400)
        return jnp.sum(last) + jnp.mean(path**2)

    return jax.value_and_grad(loss)(rate)


@program(value(2.0, "float64"), value(1e-8, "float64"))
def adaptive_oscillator(start, tolerance):
    """Van der Pol's oscillator by an embedded pair of orders 3 and 2, steps chosen as it goes."""

    def change(y):
        return jnp.array([y[1], 5.0 * (1.0 - y[0] ** 2) * y[1] - y[0]])

    def step(state):
        t, y, h, count = state
        a = change(y)
        b = change(y + 0.5 * h * a)
        c = change(y + 0.75 * h * b)
        fresh = y + h * (2.0 * a + 3.0 * b + 4.0 * c) / 9.0
        d = change(fresh)
        error = h * (-5.0 * a + 6.0 * b + 8.0 * c - 9.0 * d) / 72.0
        ratio = jnp.max(jnp.abs(error)) / tolerance + 1e-12
        taken = ratio <= 1.0
        grown = h * jnp.clip(0.9 * ratio ** (-1.0 / 3.0), 0.2, 5.0)
        return (
            jnp.where(taken, t + h, t),
            jnp.where(taken, fresh, y),
            jnp.minimum(grown, (10.0 + 1e-9) - jnp.where(taken, t + h, t)),
            count + 1,
        )

    first = (0.0 * start, jnp.array([start, 0.0 * start]), 0.0 * start + 1e-3, 0)
    return lax.while_loop(lambda s: s[0] < 10.0, step, first)


@program(uniform(1000, low=5.0, high=10.0, dtype="float64"), source="jax#26145")
def hodgkin_huxley(current):
    """A nerve cell: gates by exponential Euler, the voltage by an implicit step."""

    def rates(v):
        m = 0.1 * (v + 40.0) / (1.0 - jnp.exp(-(v + 40.0) / 10.0)), 4.0 * jnp.exp(-(v + 65.0) / 18)
        h = 0.07 * jnp.exp(-(v + 65.0) / 20.0), 1.0 / (1.0 + jnp.exp(-(v + 35.0) / 10.0))
        n = 0.01 * (v + 55.0) / (1.0 - jnp.exp(-(v + 55.0) / 10)), 0.125 * jnp.exp(-(v + 65) / 80)
        return m, h, n

    def step(state, drive):
        v, gates = state
        fresh = []
        for gate, (up, down) in zip(gates, rates(v), strict=True):
            end, pace = up / (up + down), jnp.exp(-0.025 * (up + down))
            fresh.append(end + (gate - end) * pace)
        m, h, n = fresh
        sodium, potassium = 120.0 * m**3 * h, 36.0 * n**4
        total = sodium + potassium + 0.3
        pull = sodium * 50.0 - potassium * 77.0 - 0.3 * 54.4 + drive
        v = (v + 0.025 * pull) / (1.0 + 0.025 * total)
        return (v, tuple(fresh)), v

    zero = current[0] * 0.0
    return lax.scan(step, (zero - 65.0, (zero + 0.05, zero + 0.6, zero + 0.32)), current)[1]


@program(uniform(400, 4, low=5.0, high=10.0), source="jax#26145")
def cable_gradient(current):
    """The gradient of a cable of 16 compartments by its conductances, 400 implicit steps."""

    def voltage_step(v, conductance, drive):
        beside = 0.2 * conductance
        diagonal = 1.0 + 0.025 + 2.0 * beside
        right = v + 0.025 * (jnp.pad(drive, (0, 12)) - (v + 65.0) * (v + 40.0) * 0.001)

        def sweep(carry, row):
            upper, value = carry
            d, e, r = row
            scale = 1.0 / (d + e * upper)
            return (e * scale, (r + e * value) * scale), (e * scale, (r + e * value) * scale)

        _, (upper, values) = lax.scan(sweep, (0.0, 0.0), (diagonal, beside, right))
        back = lambda later, row: (row[1] + row[0] * later,) * 2  # noqa: E731
        return lax.scan(back, 0.0, (upper, values), reverse=True)[1]

    def loss(conductance):
        step = lambda v, drive: (voltage_step(v, conductance, drive),) * 2  # noqa: E731
        path = lax.scan(step, jnp.full(16, -65.0), current)[1]
        return jnp.mean((path[:, -1] + 60.0) ** 2)

    return jax.value_and_grad(loss)(jnp.linspace(0.5, 1.5, 16))


@program(normal(12, 3, dtype="float64"))
def orbits(positions):
    """Twelve bodies by the leapfrog rule, 300 steps."""

    def pull(x):
        gap = x[None] - x[:, None]
        square = jnp.sum(gap**2, -1) + 0.5
        return jnp.sum(gap * (square**-1.5)[..., None], 1)

    def step(state, _):
        x, v = state
        v = v + 0.005 * pull(x)
        x = x + 0.01 * v
        v = v + 0.005 * pull(x)
        return (x, v), jnp.sum(v**2)

    return lax.scan(step, (positions, jnp.zeros_like(positions)), None, length=300)
