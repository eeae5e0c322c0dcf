"""Control of small systems."""

import jax
import jax.numpy as jnp
from jax import lax

from benchmarks.jax_programs.program import normal, program, uniform

_STEPS = 40


@program(normal(6, 6, scale=0.2, dtype="float64"), normal(6, 2, dtype="float64"))
def riccati(a, b):
    """The gains of a linear regulator, 300 steps back in time."""
    a = a + jnp.eye(6)

    def step(p, _):
        inner = jnp.eye(2) + b.T @ p @ b
        gain = jnp.linalg.solve(inner, b.T @ p @ a)
        p = jnp.eye(6) + a.T @ p @ (a - b @ gain)
        return 0.5 * (p + p.T), gain

    return lax.scan(step, jnp.eye(6), None, length=300)


def _pendulum(state, torque):
    angle, speed = state[0], state[1]
    speed = speed + 0.05 * (9.8 * jnp.sin(angle) + torque - 0.1 * speed)
    return jnp.stack([angle + 0.05 * speed, speed])


def _cost(torques, start):
    def step(state, torque):
        state = _pendulum(state, torque)
        return state, jnp.sum(state**2) + 0.01 * torque**2

    return jnp.sum(lax.scan(step, start, torques)[1])


@program(uniform(2, high=0.5), normal(_STEPS, scale=0.1))
def predictive_control(start, torques):
    """Plans the torques of a pendulum by 25 steps of gradient descent."""
    slope = jax.grad(_cost)
    return lax.fori_loop(0, 25, lambda i, t: t - 0.002 * slope(t, start), torques)


@program(uniform(64, 2, low=-1.0), normal(2, 16, scale=0.5), normal(16, scale=0.5))
def policy_rollout(starts, inner, outer):
    """64 pendulums under one small network, 200 steps, and the gradient by its weights."""

    def loss(weights):
        def step(states, _):
            torques = jnp.tanh(states @ weights[0]) @ weights[1]
            states = jax.vmap(_pendulum)(states, 5.0 * jnp.tanh(torques))
            return states, jnp.mean(jnp.cos(states[:, 0]))

        return -jnp.mean(lax.scan(step, starts, None, length=50)[1])

    return jax.value_and_grad(loss)((inner, outer))


@program(uniform(10, low=-1.0, dtype="float64"), source="jax#26021")
def quadratic_program(target):
    """Projects a point into a box and a half-space by an interior-point method."""
    sides = jnp.concatenate([jnp.eye(10), -jnp.eye(10), jnp.ones((1, 10))])
    limits = jnp.concatenate([jnp.full(20, 0.5), jnp.ones(1)])

    def step(state):
        x, slack, price, count = state
        gap = jnp.dot(slack, price) / 21
        right = -(x - target + sides.T @ price)
        inner = slack + sides @ x - limits
        weight = price / slack
        matrix = jnp.eye(10) + sides.T @ (weight[:, None] * sides)
        push = (0.1 * gap - slack * price) / slack
        factor = jnp.linalg.cholesky(matrix)
        load = right - sides.T @ (push + weight * inner)
        dx = jax.scipy.linalg.cho_solve((factor, True), load)
        ds = -inner - sides @ dx
        dz = push - weight * ds
        room = jnp.where(ds < 0, -slack / ds, 1.0).min()
        room = jnp.minimum(room, jnp.where(dz < 0, -price / dz, 1.0).min())
        length = jnp.minimum(1.0, 0.95 * room)
        return x + length * dx, slack + length * ds, price + length * dz, count + 1

    first = (jnp.zeros(10), jnp.ones(21), jnp.ones(21), 0)
    return lax.while_loop(lambda s: (jnp.dot(s[1], s[2]) > 1e-8) & (s[3] < 50), step, first)


@program(uniform(20, low=-1.0, dtype="float64"), source="jax#26021")
def arm_kinematics(angles):
    """The Jacobian of an arm of 20 joints, link after link."""

    def tip(q):
        place = jnp.eye(4)
        for i in range(20):
            c, s = jnp.cos(q[i]), jnp.sin(q[i])
            turn = jnp.array([[c, -s, 0, 0.1], [s, c, 0, 0], [0, 0, 1, 0.05], [0, 0, 0, 1]])
            place = place @ turn @ jnp.eye(4)[:, [1, 2, 0, 3] if i % 2 else [0, 1, 2, 3]]
        return place[:3, 3]

    return tip(angles), jax.jacfwd(tip)(angles)
