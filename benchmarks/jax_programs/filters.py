"""Filters and hidden states over time."""

import jax
import jax.numpy as jnp
from jax import lax

from benchmarks.jax_programs.program import integers, normal, program, uniform


def _kalman(noise, seen):
    """A point in the plane with speed, seen by its place: the log-likelihood."""
    eye = jnp.eye(2)
    move = jnp.block([[eye, 0.1 * eye], [0.0 * eye, eye]])
    sight = jnp.concatenate([eye, 0.0 * eye], 1)

    def step(state, z):
        mean, cov = state
        mean, cov = move @ mean, move @ cov @ move.T + noise * jnp.eye(4)
        gap = z - sight @ mean
        spread = sight @ cov @ sight.T + 0.5 * eye
        det = spread[0, 0] * spread[1, 1] - spread[0, 1] * spread[1, 0]
        inverse = jnp.array([[spread[1, 1], -spread[0, 1]], [-spread[1, 0], spread[0, 0]]]) / det
        gain = cov @ sight.T @ inverse
        cov = (jnp.eye(4) - gain @ sight) @ cov
        return (mean + gain @ gap, cov), -0.5 * (gap @ inverse @ gap + jnp.log(det))

    return jnp.sum(lax.scan(step, (jnp.zeros(4), jnp.eye(4)), seen)[1])


@program(uniform(low=0.1), normal(500, 2))
def kalman_filter(noise, seen):
    return _kalman(noise, seen)


@program(uniform(low=0.1), normal(200, 2))
def kalman_gradient(noise, seen):
    return jax.value_and_grad(_kalman)(noise, seen)


@program(normal(200, 2), normal(6, 6, scale=0.2))
def kalman_solve(seen, base):
    """A filter of six states whose gain comes from a Cholesky factor."""
    move = jnp.eye(6) * 0.95 + 0.05 * base
    sight = base[:2]

    def step(state, z):
        mean, cov = state
        mean, cov = move @ mean, move @ cov @ move.T + 0.1 * jnp.eye(6)
        spread = sight @ cov @ sight.T + 0.5 * jnp.eye(2)
        gain = jax.scipy.linalg.cho_solve((jnp.linalg.cholesky(spread), True), sight @ cov).T
        return (mean + gain @ (z - sight @ mean), cov - gain @ sight @ cov), mean

    return lax.scan(step, (jnp.zeros(6), jnp.eye(6)), seen)


def _likelihood(log_moves, log_signs, signs):
    def step(alpha, sign):
        fresh = jax.nn.logsumexp(alpha[:, None] + log_moves, axis=0) + log_signs[:, sign]
        return fresh, None

    start = jnp.full(log_moves.shape[0], -jnp.log(log_moves.shape[0])) + log_signs[:, signs[0]]
    return jax.nn.logsumexp(lax.scan(step, start, signs[1:])[0])


@program(normal(8, 8), normal(8, 5), integers(5, 500))
def hmm_forward(moves, signs, seen):
    return _likelihood(jax.nn.log_softmax(moves), jax.nn.log_softmax(signs), seen)


@program(normal(8, 8), normal(8, 5), integers(5, 200))
def hmm_gradient(moves, signs, seen):
    def loss(m, s):
        return _likelihood(jax.nn.log_softmax(m), jax.nn.log_softmax(s), seen)

    return jax.grad(loss, (0, 1))(moves, signs)


@program(normal(12, 12), normal(12, 5), integers(5, 400))
def viterbi(moves, signs, seen):
    def forward(score, sign):
        each = score[:, None] + moves
        return jnp.max(each, 0) + signs[:, sign], jnp.argmax(each, 0)

    score, back = lax.scan(forward, signs[:, seen[0]], seen[1:])
    last = jnp.argmax(score)
    return lax.scan(lambda at, row: (row[at], at), last, back, reverse=True)


@program(normal(150))
def particle_filter(seen):
    """64 particles, weighed and drawn again at every step."""

    def step(state, z):
        x, key = state
        key, push, pick = jax.random.split(key, 3)
        x = 0.9 * x + 0.5 * jax.random.normal(push, x.shape)
        weights = jnp.cumsum(jax.nn.softmax(-0.5 * (z - x) ** 2))
        places = (jnp.arange(64) + jax.random.uniform(pick)) / 64
        x = x[jnp.clip(jnp.searchsorted(weights, places), 0, 63)]
        return (x, key), jnp.mean(x)

    return lax.scan(step, (jnp.zeros(64), jax.random.key(1)), seen)[1]
