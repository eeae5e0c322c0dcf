"""Distributions, samplers, Gaussian processes, state-space models, quantum states."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from benchmarks.libraries.program import key, normal, program, uniform


@program("numpyro")
def numpyro():
    import numpyro as npy
    import numpyro.distributions as d
    from numpyro.infer.util import potential_energy

    def model(x, y):
        w = npy.sample("w", d.Normal(jnp.zeros(3), 1).to_event(1))
        npy.sample("y", d.Bernoulli(logits=x @ w), obs=y)

    def energy(w, x, y):
        return potential_energy(model, (x, y), {}, {"w": w})

    return jax.value_and_grad(energy), (
        normal(3),
        normal(20, 3),
        (uniform(20) > 0.5).astype("float32"),
    )


@program("distrax")
def distrax():
    import distrax as dx

    def mixture(x):
        parts = dx.MultivariateNormalDiag(jnp.array([[0.0, 1.0], [2.0, -1.0]]), jnp.ones((2, 2)))
        return dx.MixtureSameFamily(dx.Categorical(jnp.array([0.3, 0.7])), parts).log_prob(x)

    return jax.vmap(jax.value_and_grad(mixture)), (normal(6, 2),)


@program("flowjax")
def flowjax():
    import equinox as eqx
    from flowjax.distributions import Normal
    from flowjax.flows import coupling_flow

    flow = coupling_flow(key(), base_dist=Normal(jnp.zeros(3)), flow_layers=2)
    weights, static = eqx.partition(flow, eqx.is_inexact_array)
    return lambda w, x: eqx.combine(w, static).log_prob(x), (weights, normal(8, 3))


@program("gpjax")
def gpjax():
    import gpjax as gp

    def prior(x):
        return gp.kernels.Matern52(lengthscale=0.7).gram(x).as_matrix()

    return prior, (normal(9, 2),)


@program("tinygp")
def tinygp():
    from tinygp import GaussianProcess, kernels

    def fit(x, y):
        return GaussianProcess(kernels.ExpSquared(0.8), x, diag=0.1).log_probability(y)

    return jax.value_and_grad(fit), (normal(12), normal(12, seed=1))


@program("tfp-nightly")
def tfp():
    from tensorflow_probability.substrates import jax as tfp

    d = tfp.distributions
    return lambda x: (d.StudentT(4.0, 0.0, 1.0).log_prob(x), d.Gamma(2.0, 1.5).cdf(jnp.abs(x))), (
        normal(11),
    )


@program("dynamax")
def dynamax():
    from dynamax.hidden_markov_model import hmm_filter, hmm_posterior_mode

    start, move = jnp.array([0.5, 0.3, 0.2]), jnp.full((3, 3), 0.1) + 0.7 * jnp.eye(3)

    def run(scores):
        return hmm_filter(start, move, scores).marginal_loglik, hmm_posterior_mode(
            start, move, scores
        )

    return run, (normal(30, 3),)


@program("nifty8")
def nifty():
    import nifty8.re as jft

    field = jft.CorrelatedFieldMaker("a")
    field.set_amplitude_total_offset(0.0, (0.1, 0.05))
    field.add_fluctuations((16,), 1.0 / 16, (1.0, 0.1), (-3.0, 0.5), None, None, "x", "fourier")
    made = field.finalize()
    return made, (jft.random_like(key(), made.domain),)


@program("pyhf")
def pyhf():
    import pyhf as hf

    hf.set_backend("jax")
    model = hf.simplemodels.uncorrelated_background([5.0, 10.0], [50.0, 60.0], [5.0, 12.0])
    seen = jnp.array([53.0, 71.0, *model.config.auxdata])
    return lambda p: model.logpdf(p, seen), (jnp.array([1.0, 1.0, 1.0]),)


@program("pennylane")
def pennylane():
    import pennylane as qml

    device = qml.device("default.qubit", wires=3)

    @qml.qnode(device, interface="jax")
    def circuit(angles):
        for wire in range(3):
            qml.RX(angles[wire], wires=wire)
        qml.CNOT(wires=[0, 1])
        qml.CRZ(angles[3], wires=[1, 2])
        return qml.expval(qml.PauliZ(2) @ qml.PauliX(1))

    return jax.value_and_grad(circuit), (normal(4),)


@program("jaxquantum")
def jaxquantum():
    import jaxquantum as jq

    return lambda x: (jq.displace(12, x[0]) @ jq.basis(12, 0)).data, (normal(1),)


@program("dynamiqs")
def dynamiqs():
    import dynamiqs as dq

    dq.set_progress_meter(False)

    def rotate(x):
        result = dq.sesolve(
            x * dq.sigmax(), dq.fock(2, 0), jnp.linspace(0.0, 1.0, 5), exp_ops=[dq.sigmaz()]
        )
        return result.expects

    return rotate, (uniform(1)[0],)
