"""Programs that draw random numbers in loops."""

import jax
import jax.numpy as jnp
from jax import lax

from benchmarks.jax_programs.program import integers, normal, program, uniform


@program(integers(1000), normal(4))
def random_walk_metropolis(seed, start):
    def log_density(x):
        return -0.5 * jnp.sum(x**2) - 0.1 * jnp.sum((x[1:] - x[:-1] ** 2) ** 2)

    def step(state, key):
        x, density = state
        move, accept = jax.random.split(key)
        fresh = x + 0.5 * jax.random.normal(move, x.shape)
        there = log_density(fresh)
        taken = jnp.log(jax.random.uniform(accept)) < there - density
        x = jnp.where(taken, fresh, x)
        return (x, jnp.where(taken, there, density)), x

    keys = jax.random.split(jax.random.key(seed), 1000)
    return lax.scan(step, (start, log_density(start)), keys)[1]


@program(integers(1000), normal(40, 5), integers(2, 40))
def hamiltonian_monte_carlo(seed, features, labels):
    """Logistic regression, 60 paths of eight leapfrog steps."""

    def energy(w):
        logits = features @ w
        return jnp.sum(jax.nn.softplus(logits) - labels * logits) + 0.5 * jnp.sum(w**2)

    slope = jax.grad(energy)

    def leap(_, state):
        w, p = state
        p = p - 0.05 * slope(w)
        w = w + 0.1 * p
        return w, p - 0.05 * slope(w)

    def step(w, key):
        push, accept = jax.random.split(key)
        p = jax.random.normal(push, w.shape)
        fresh, end = lax.fori_loop(0, 8, leap, (w, p))
        gain = energy(w) + 0.5 * jnp.sum(p**2) - energy(fresh) - 0.5 * jnp.sum(end**2)
        w = jnp.where(jnp.log(jax.random.uniform(accept)) < gain, fresh, w)
        return w, w

    return lax.scan(step, jnp.zeros(5), jax.random.split(jax.random.key(seed), 60))[1]


@program(integers(1000), uniform(4, low=5.0, high=50.0))
def gillespie(seed, counts):
    """Four reactions of three kinds of molecules, until time runs out."""
    changes = jnp.array([[1, 0, 0], [-1, 1, 0], [0, -1, 1], [0, 0, -1]], jnp.float32)

    def step(state):
        t, x, key, count = state
        key, wait, which = jax.random.split(key, 3)
        rates = jnp.array([10.0, 0.2 * x[0], 0.1 * x[1], 0.1 * x[2]])
        total = jnp.sum(rates)
        t = t - jnp.log1p(-jax.random.uniform(wait)) / total
        k = jnp.sum(jnp.cumsum(rates) < jax.random.uniform(which) * total)
        return t, x + changes[jnp.minimum(k, 3)], key, count + 1

    first = (0.0, jnp.floor(counts[:3]), jax.random.key(seed), 0)
    t, x, _, count = lax.while_loop(lambda s: (s[0] < 20.0) & (s[3] < 5000), step, first)
    return t, x, count


@program(integers(1000), uniform(10))
def bandit(seed, odds):
    """Ten arms, a thousand pulls, by upper confidence bounds."""

    def step(state, key):
        pulls, wins, t = state
        bound = wins / pulls + jnp.sqrt(2.0 * jnp.log(t) / pulls)
        arm = jnp.argmax(bound)
        won = (jax.random.uniform(key) < odds[arm]).astype(jnp.float32)
        return (pulls.at[arm].add(1.0), wins.at[arm].add(won), t + 1.0), arm

    keys = jax.random.split(jax.random.key(seed), 1000)
    return lax.scan(step, (jnp.ones(10), jnp.full(10, 0.5), jnp.float32(10.0)), keys)


@program(integers(1000), integers(2, 32, 32))
def ising(seed, spins):
    """A magnet of 32 by 32 spins, 100 sweeps of a checkerboard."""
    board = jnp.indices((32, 32)).sum(0) % 2

    def sweep(s, key):
        for colour in (0, 1):
            key, draw = jax.random.split(key)
            around = sum(jnp.roll(s, d, a) for d in (1, -1) for a in (0, 1))
            flip = jax.random.uniform(draw, s.shape) < jnp.exp(-0.8 * s * around)
            s = jnp.where(flip & (board == colour), -s, s)
        return s, jnp.mean(s)

    keys = jax.random.split(jax.random.key(seed), 100)
    return lax.scan(sweep, 2.0 * spins - 1.0, keys)
