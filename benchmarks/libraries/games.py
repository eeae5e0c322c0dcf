"""Games, environments of reinforcement learning, search, and what agents are made of."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from benchmarks.libraries.program import key, normal, program


@program("gymnax")
def gymnax():
    import gymnax as gx

    env, hints = gx.make("CartPole-v1")

    def play(k):
        def step(state, k):
            seen, state, reward, *_ = env.step(k, state, env.action_space(hints).sample(k), hints)
            return state, (seen, reward)

        return jax.lax.scan(step, env.reset(k, hints)[1], jax.random.split(k, 20))[1]

    return play, (key(),)


@program("jumanji")
def jumanji():
    import jumanji as jm

    env = jm.make("Snake-v1")

    def play(k):
        def step(state, action):
            state, seen = env.step(state, action)
            return state, (seen.reward, seen.observation.grid.sum())

        return jax.lax.scan(step, env.reset(k)[0], jnp.array([0, 1, 2, 1, 0, 3]))[1]

    return play, (key(),)


@program("pgx")
def pgx():
    import pgx as px

    env = px.make("connect_four")

    def play(k):
        def step(state, column):
            state = env.step(state, column)
            return state, (state.observation, state.rewards, state.legal_action_mask)

        return jax.lax.scan(step, env.init(k), jnp.array([3, 3, 2, 4, 1, 0, 5]))[1]

    return play, (key(),)


@program("navix")
def navix():
    import navix as nx

    env = nx.make("Navix-Empty-5x5-v0")

    def play(k):
        first = env.reset(k)
        return env.step(first, jnp.int32(2)).observation, first.observation

    return play, (key(),)


@program("craftax")
def craftax():
    from craftax.craftax_env import make_craftax_env_from_name

    env = make_craftax_env_from_name("Craftax-Classic-Symbolic-v1", auto_reset=False)
    hints = env.default_params

    def play(k):
        seen, state = env.reset(k, hints)
        return env.step(k, state, 3, hints)[0].sum() + seen.sum()

    return play, (key(),)


@program("jaxmarl")
def jaxmarl():
    import jaxmarl as jm

    env = jm.make("MPE_simple_spread_v3")

    def play(k):
        seen, state = env.reset(k)
        actions = {agent: jnp.int32(1) for agent in env.agents}
        return seen, env.step(k, state, actions)[0]

    return play, (key(),)


@program("xminigrid")
def xminigrid():
    import xminigrid as xm

    env, hints = xm.make("MiniGrid-Empty-5x5")

    def play(k):
        first = env.reset(hints, k)
        return env.step(hints, first, jnp.int32(0)).observation

    return play, (key(),)


@program("rlax")
def rlax():
    import rlax as rx

    def losses(values, rewards):
        steps = rx.td_lambda(values[:-1], rewards, jnp.full(9, 0.9), values[1:], jnp.float32(0.8))
        return steps, rx.huber_loss(steps)

    return losses, (normal(10), normal(9, seed=1))


@program("mctx")
def mctx():
    import mctx as mc

    def search(k, logits):
        root = mc.RootFnOutput(prior_logits=logits, value=jnp.zeros(2), embedding=jnp.zeros(2))

        def recurrent(_, k, action, embedding):
            made = mc.RecurrentFnOutput(
                reward=action * 0.1, discount=jnp.full(2, 0.9),
                prior_logits=logits, value=embedding,
            )  # fmt: skip
            return made, embedding + 1

        return mc.muzero_policy((), k, root, recurrent, num_simulations=8).action_weights

    return search, (key(), normal(2, 4))


@program("flashbax")
def flashbax():
    import flashbax as fb

    buffer = fb.make_item_buffer(32, 4, 8, add_batches=False)

    def use(k, x):
        state = buffer.init(x[0])
        for row in range(5):
            state = buffer.add(state, x[row])
        return buffer.sample(state, k).experience

    return use, (key(), normal(5, 3))


@program("chex")
def chex():
    import chex as cx

    @cx.dataclass
    class Pair:
        a: jax.Array
        b: jax.Array

    return lambda x: Pair(a=x + 1, b=x * 2), (normal(4),)  # type: ignore[call-arg]
