"""Programs of libraries on top of JAX: training, solving, sampling; each makes a call to time."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

Call = Callable[[], Any]


@dataclass(frozen=True)
class LibraryProgram:
    """One row of the table.

    Attributes:
        packages: that must be installed, besides JAX.
        make: returns the call; it imports the packages.
        rtol: how far results may be from those of plain JAX, relative to the largest.
        x64: doubles, so that paths that depend on comparisons stay together.
    """

    name: str
    packages: tuple[str, ...]
    make: Callable[[], Call]
    rtol: float
    x64: bool = False

    @property
    def missing(self) -> list[str]:
        """The packages that are not installed."""
        return [name for name in self.packages if importlib.util.find_spec(name) is None]


PROGRAMS: list[LibraryProgram] = []


def _program(
    *packages: str, rtol: float, x64: bool = False
) -> Callable[[Callable[[], Call]], Callable[[], Call]]:
    def register(make: Callable[[], Call]) -> Callable[[], Call]:
        PROGRAMS.append(LibraryProgram(make.__name__, packages, make, rtol, x64))
        return make

    return register


def _data(rows=256, columns=16):
    features = jax.random.normal(jax.random.key(0), (rows, columns))
    weights = jax.random.normal(jax.random.key(1), (columns,))
    return features, jnp.tanh(features @ weights)


@_program("flax", "optax", rtol=1e-3)
def flax_classifier():
    """A network with convolution and batch norm, 20 steps of SGD with momentum."""
    import optax
    from flax import linen as nn

    class Network(nn.Module):
        @nn.compact
        def __call__(self, x):
            x = nn.relu(nn.Conv(8, (3, 3))(x))
            x = nn.avg_pool(x, (2, 2), (2, 2)).reshape(x.shape[0], -1)
            return nn.Dense(10)(nn.LayerNorm()(nn.relu(nn.Dense(32)(x))))

    images = jax.random.normal(jax.random.key(0), (32, 16, 16, 1))
    labels = jax.random.randint(jax.random.key(1), (32,), 0, 10)
    network, rule = Network(), optax.sgd(0.05, momentum=0.9)
    start = network.init(jax.random.key(2), images)

    @jax.jit
    def step(weights, state):
        def loss(w):
            scores = network.apply(w, images)
            return optax.softmax_cross_entropy_with_integer_labels(scores, labels).mean()

        error, slope = jax.value_and_grad(loss)(weights)
        change, state = rule.update(slope, state, weights)
        return optax.apply_updates(weights, change), state, error

    def call():
        weights, state = start, rule.init(start)
        errors = []
        for _ in range(20):
            weights, state, error = step(weights, state)
            errors.append(error)
        return jnp.stack(errors)

    return call


@_program("flax", "optax", rtol=1e-3)
def flax_nnx_regression():
    """The newer interface of Flax: state in objects, 20 steps of Adam."""
    import optax
    from flax import nnx

    features, targets = _data()

    class Network(nnx.Module):
        def __init__(self, rngs):
            self.inner = nnx.Linear(16, 32, rngs=rngs)
            self.outer = nnx.Linear(32, 1, rngs=rngs)

        def __call__(self, x):
            return self.outer(nnx.gelu(self.inner(x)))[:, 0]

    @nnx.jit
    def step(network, rule):
        def loss(net):
            return jnp.mean((net(features) - targets) ** 2)

        error, slope = nnx.value_and_grad(loss)(network)
        rule.update(network, slope)
        return error

    def call():
        network = Network(nnx.Rngs(0))
        rule = nnx.Optimizer(network, optax.adam(1e-2), wrt=nnx.Param)
        return jnp.stack([step(network, rule) for _ in range(20)])

    return call


@_program("equinox", "optax", rtol=1e-3)
def equinox_recurrent():
    """A GRU over 30 steps, trained for 20."""
    import equinox as eqx
    import optax

    class Network(eqx.Module):
        cell: eqx.nn.GRUCell
        out: eqx.nn.Linear

        def __init__(self, key):
            one, two = jax.random.split(key)
            self.cell = eqx.nn.GRUCell(4, 16, key=one)
            self.out = eqx.nn.Linear(16, 1, key=two)

        def __call__(self, rows):
            last, _ = jax.lax.scan(
                lambda h, x: (self.cell(x, h), None), jnp.zeros(16, rows.dtype), rows
            )
            return self.out(last)[0]

    rows = jax.random.normal(jax.random.key(3), (32, 30, 4))
    targets = jnp.sin(rows.sum((1, 2)))
    rule = optax.adam(3e-3)

    @eqx.filter_jit
    def step(network, state):
        @eqx.filter_value_and_grad
        def loss(net):
            return jnp.mean((jax.vmap(net)(rows) - targets) ** 2)

        error, slope = loss(network)
        change, state = rule.update(slope, state)
        return eqx.apply_updates(network, change), state, error

    def call():
        network = Network(jax.random.key(4))
        state, errors = rule.init(eqx.filter(network, eqx.is_array)), []
        for _ in range(20):
            network, state, error = step(network, state)
            errors.append(error)
        return jnp.stack(errors)

    return call


@_program("optax", rtol=1e-3)
def optax_schedule():
    """AdamW with a schedule and clipped gradients, 200 steps in one scan."""
    import optax

    features, targets = _data()
    pace = optax.warmup_cosine_decay_schedule(0.0, 0.05, 20, 200)
    rule = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(pace))

    def loss(w):
        return jnp.mean((jnp.tanh(features @ w["inner"]) @ w["outer"] - targets) ** 2)

    @jax.jit
    def train():
        start = {"inner": jnp.full((16, 8), 0.1), "outer": jnp.linspace(-1.0, 1.0, 8)}

        def step(state, _):
            w, memory = state
            error, slope = jax.value_and_grad(loss)(w)
            change, memory = rule.update(slope, memory, w)
            return (optax.apply_updates(w, change), memory), error

        return jax.lax.scan(step, (start, rule.init(start)), None, length=200)[1]

    return train


@_program("diffrax", rtol=1e-6, x64=True)
def diffrax_solve():
    """Predator and prey by Tsitouras' method, steps chosen by a controller, and the gradient."""
    import diffrax

    def change(t, y, args):
        a, b, c, d = args
        return jnp.stack([a * y[0] - b * y[0] * y[1], c * y[0] * y[1] - d * y[1]])

    @jax.jit
    @jax.value_and_grad
    def loss(args):
        found = diffrax.diffeqsolve(
            diffrax.ODETerm(change), diffrax.Tsit5(), 0.0, 10.0, 0.1, jnp.array([10.0, 5.0]),
            args=args, saveat=diffrax.SaveAt(ts=jnp.linspace(0.0, 10.0, 50)),
            stepsize_controller=diffrax.PIDController(rtol=1e-6, atol=1e-6),
        )  # fmt: skip
        return jnp.mean(found.ys**2)

    start = jnp.array([1.1, 0.4, 0.1, 0.4])
    return lambda: loss(start)


@_program("diffrax", rtol=1e-6, x64=True)
def diffrax_stiff():
    """Robertson's reactions by an implicit method."""
    import diffrax

    def change(t, y, args):
        slow, fast = 0.04 * y[0] - 1e4 * y[1] * y[2], 3e7 * y[1] ** 2
        return jnp.stack([-slow, slow - fast, fast])

    @jax.jit
    def solve(start):
        return diffrax.diffeqsolve(
            diffrax.ODETerm(change), diffrax.Kvaerno5(), 0.0, 100.0, 2e-4, start,
            saveat=diffrax.SaveAt(t1=True), max_steps=2000,
            stepsize_controller=diffrax.PIDController(rtol=1e-8, atol=1e-8),
        ).ys  # fmt: skip

    start = jnp.array([1.0, 0.0, 0.0])
    return lambda: solve(start)


@_program("numpyro", rtol=0.2, x64=True)
def numpyro_nuts():
    """Eight schools by NUTS: means and deviations of the sample, which rounding moves a little."""
    import numpyro
    from numpyro import distributions
    from numpyro.infer import MCMC, NUTS

    effects = jnp.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
    errors = jnp.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])

    def schools():
        mean = numpyro.sample("mean", distributions.Normal(0.0, 5.0))
        spread = numpyro.sample("spread", distributions.HalfCauchy(5.0))
        with numpyro.plate("school", 8):
            part = numpyro.sample("part", distributions.Normal(0.0, 1.0))
        numpyro.sample("seen", distributions.Normal(mean + spread * part, errors), obs=effects)

    sampler = MCMC(NUTS(schools), num_warmup=300, num_samples=1000, progress_bar=False)

    def call():
        sampler.run(jax.random.key(0))
        found = sampler.get_samples()
        return jnp.stack([found["mean"].mean(), found["mean"].std(), found["part"].std()])

    return call


@_program("blackjax", rtol=1e-6, x64=True)
def blackjax_hmc():
    """100 steps of Hamiltonian Monte Carlo on a curved density."""
    import blackjax

    def log_density(x):
        return -0.5 * jnp.sum(x**2) - 0.1 * jnp.sum((x[1:] - x[:-1] ** 2) ** 2)

    method = blackjax.hmc(log_density, 0.1, jnp.ones(4), 8)

    @jax.jit
    def sample(key):
        def step(state, key):
            state, info = method.step(key, state)
            return state, (state.position, info.acceptance_rate)

        keys = jax.random.split(key, 100)
        return jax.lax.scan(step, method.init(jnp.zeros(4)), keys)[1]

    return lambda: sample(jax.random.key(0))


@_program("blackjax", rtol=0.2, x64=True)
def blackjax_nuts():
    """300 steps of NUTS: the means of squares, which rounding moves a little."""
    import blackjax

    method = blackjax.nuts(lambda x: -0.5 * jnp.sum(x**2 * jnp.arange(1.0, 6.0)), 0.3, jnp.ones(5))

    @jax.jit
    def sample(key):
        def step(state, key):
            state, _ = method.step(key, state)
            return state, state.position

        found = jax.lax.scan(step, method.init(jnp.ones(5)), jax.random.split(key, 300))[1]
        return jnp.mean(found**2, 0)

    return lambda: sample(jax.random.key(0))
