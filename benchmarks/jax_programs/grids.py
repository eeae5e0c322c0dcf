"""Grids of cells: automata, images, tables of dynamic programming."""

import jax
import jax.numpy as jnp
from jax import lax

from benchmarks.jax_programs.program import integers, normal, program, uniform


@program(integers(2, 64, 64))
def game_of_life(board):
    def step(_, b):
        around = sum(jnp.roll(b, (i, j), (0, 1)) for i in (-1, 0, 1) for j in (-1, 0, 1)) - b
        return ((around == 3) | ((around == 2) & (b == 1))).astype(b.dtype)

    return lax.fori_loop(0, 200, step, board)


@program(integers(2, 256))
def rule_30(cells):
    def step(c, _):
        return jnp.roll(c, 1) ^ (c | jnp.roll(c, -1)), c

    return lax.scan(step, cells, None, length=500)[1]


@program(uniform(64, 64, low=-2.0, high=0.6), uniform(64, 64, low=-1.1, high=1.1))
def mandelbrot(real, imaginary):
    def step(state):
        x, y, count, i = state
        alive = x * x + y * y < 4.0
        fresh = x * x - y * y + real, 2.0 * x * y + imaginary
        x, y = jnp.where(alive, fresh[0], x), jnp.where(alive, fresh[1], y)
        return x, y, count + alive, i + 1

    zero = jnp.zeros_like(real)
    first = (zero, zero, zero.astype(jnp.int32), 0)
    return lax.while_loop(lambda s: s[3] < 100, step, first)[2]


@program(normal(48, 48))
def heat(field):
    def step(_, u):
        around = jnp.pad(u, 1, mode="edge")
        beside = around[2:, 1:-1] + around[:-2, 1:-1] + around[1:-1, 2:] + around[1:-1, :-2]
        return u + 0.2 * (beside - 4.0 * u)

    return lax.fori_loop(0, 500, step, field)


def _roughness(volume):
    return sum(jnp.sum(jnp.square(jnp.diff(volume, axis=axis))) for axis in range(3))


@program(normal(128, 128, 128), source="jax#37465")
def tomography(volume):
    return _roughness(volume)


@program(normal(128, 128, 128), source="jax#37465")
def tomography_gradient(volume):
    return jax.grad(_roughness)(volume)


@program(integers(4, 100), integers(4, 100))
def alignment(first, second):
    """The score of the best alignment of two strings, a row of the table at a time."""

    def row_step(above, letter):
        def cell(left, column):
            over, corner, other = column
            match = corner + jnp.where(letter == other, 2, -1)
            best = jnp.maximum(match, jnp.maximum(over, left) - 1)
            return best, best

        start = above[0] - 1
        _, row = lax.scan(cell, start, (above[1:], above[:-1], second))
        row = jnp.concatenate([start[None], row])
        return row, jnp.max(row)

    top = -jnp.arange(second.shape[0] + 1)
    return lax.scan(row_step, top, first)


@program(integers(30, 60), uniform(60, high=10.0))
def knapsack(weights, values):
    def take(best, item):
        weight, worth = item
        places = jnp.arange(256) - weight - 1
        with_it = jnp.where(places >= 0, best[jnp.maximum(places, 0)] + worth, 0.0)
        return jnp.maximum(best, with_it), None

    return lax.scan(take, jnp.zeros(256), (weights, values))[0]


@program(uniform(16, 16, low=0.1))
def value_iteration(rewards):
    """The best path of a grid world, swept until nothing changes."""

    def sweep(state):
        value, _, count = state
        wide = jnp.pad(value, 1, constant_values=-1e3)
        ways = (wide[2:, 1:-1], wide[:-2, 1:-1], wide[1:-1, 2:], wide[1:-1, :-2])
        fresh = rewards + 0.95 * jnp.max(jnp.stack(ways), 0)
        return fresh, jnp.max(jnp.abs(fresh - value)), count + 1

    first = (jnp.zeros((16, 16)), jnp.float32(1.0), 0)
    return lax.while_loop(lambda s: (s[1] > 1e-4) & (s[2] < 1000), sweep, first)
