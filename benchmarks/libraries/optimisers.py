"""Optimisers, solvers of equations and of differential equations, linear algebra."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from benchmarks.libraries.program import key, normal, program, uniform


def rosenbrock(x):
    return jnp.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


@program("optax")
def optax():
    import optax as ox

    rule = ox.chain(ox.clip_by_global_norm(1.0), ox.adamw(ox.cosine_decay_schedule(0.05, 30)))

    def train(x):
        def step(state, _):
            x, memory = state
            change, memory = rule.update(jax.grad(rosenbrock)(x), memory, x)
            return (ox.apply_updates(x, change), memory), rosenbrock(x)

        return jax.lax.scan(step, (x, rule.init(x)), None, length=30)[1]

    return train, (normal(6),)


@program("optimistix")
def optimistix():
    import optimistix as ox

    def fit(x, y):
        def residual(p, _):
            return p[0] * jnp.exp(-p[1] * x) - y

        solver = ox.LevenbergMarquardt(rtol=1e-3, atol=1e-3)
        return ox.least_squares(residual, solver, jnp.ones(2), max_steps=8, throw=False).value

    x = uniform(20)
    return fit, (x, 2 * x + 1)


@program("lineax")
def lineax():
    import lineax as lx

    def solve(a, b):
        spd = lx.MatrixLinearOperator(a @ a.T + 4 * jnp.eye(6), lx.positive_semidefinite_tag)
        return lx.linear_solve(spd, b, lx.CG(1e-4, 1e-4)).value, lx.linear_solve(
            lx.MatrixLinearOperator(a), b, lx.QR()
        ).value

    return solve, (normal(6, 6) + 3 * jnp.eye(6), normal(6, seed=1))


@program("jaxopt")
def jaxopt():
    import jaxopt as jo

    return lambda x: jo.GradientDescent(rosenbrock, maxiter=15).run(x).params, (normal(4) * 0.1,)


@program("diffrax")
def diffrax():
    import diffrax as dx

    def swing(y):
        term = dx.ODETerm(lambda t, y, args: jnp.stack([y[1], -jnp.sin(y[0])]))
        points = dx.SaveAt(ts=jnp.linspace(0.0, 2.0, 9))
        return dx.diffeqsolve(term, dx.Tsit5(), 0.0, 2.0, 0.1, y, saveat=points).ys

    return swing, (normal(2),)


@program("distreqx")
def distreqx():
    from distreqx import distributions as d

    return lambda m, x: d.Normal(m, jnp.ones(4)).log_prob(x), (normal(4), normal(4, seed=1))


@program("mpax")
def mpax():
    from mpax import create_lp, r2HPDHG

    def least(c):
        g = jnp.array([[1.0, 1.0], [1.0, -1.0]])
        program = create_lp(
            c, jnp.zeros((1, 2)), jnp.zeros(1), g, jnp.array([1.0, -2.0]),
            jnp.zeros(2), jnp.full(2, 5.0), use_sparse_matrix=False,
        )  # fmt: skip
        return (
            r2HPDHG(eps_abs=1e-4, eps_rel=1e-4, iteration_limit=200)
            .optimize(program)
            .primal_solution
        )

    return least, (jnp.array([1.0, 2.0]),)


@program("qpax")
def qpax():
    import qpax as qp

    def solve(q):
        eye = jnp.eye(3)
        return qp.solve_qp(eye, q, jnp.ones((1, 3)), jnp.ones(1), -eye, jnp.zeros(3))[0]

    return solve, (normal(3),)


@program("traceax")
def traceax():
    import lineax as lx
    import traceax as tx

    return lambda k, a: tx.XTraceEstimator().estimate(k, lx.MatrixLinearOperator(a), 6)[0], (
        key(), normal(10, 10),
    )  # fmt: skip


@program("ott-jax")
def ott():
    from ott.geometry import pointcloud
    from ott.solvers import linear

    def cost(x, y):
        return linear.solve(pointcloud.PointCloud(x, y, epsilon=0.5), max_iterations=60).reg_ot_cost

    return jax.value_and_grad(cost), (normal(12, 3), normal(9, 3, seed=1))


@program("evosax")
def evosax():
    from evosax.algorithms import CMA_ES

    def search(k):
        rule = CMA_ES(population_size=8, solution=jnp.zeros(3))
        hints = rule.default_params
        state = rule.init(k, jnp.zeros(3), hints)
        people, state = rule.ask(k, state, hints)
        return people, rule.tell(k, people, jax.vmap(rosenbrock)(people), state, hints)[0].mean

    return search, (key(),)


@program("qdax")
def qdax():
    from qdax.core.containers.mapelites_repertoire import compute_euclidean_centroids

    return lambda x: x @ compute_euclidean_centroids((4, 4), 0.0, 1.0).T, (normal(3, 2),)


@program("interpax")
def interpax():
    import interpax as ip

    x = jnp.linspace(0.0, 1.0, 12)
    return lambda q, f: ip.interp1d(q, x, f, method="cubic2"), (uniform(30), normal(12))


@program("orthax")
def orthax():
    import orthax as ox

    return lambda x, c: ox.chebyshev.chebval(x, ox.chebyshev.chebder(c)), (normal(9), normal(6))


@program("exponax")
def exponax():
    import exponax as ex

    stepper = ex.stepper.KuramotoSivashinsky(1, 60.0, 64, 0.1)
    return ex.rollout(stepper, 12), (normal(1, 64) * 0.1,)


@program("jaxkd")
def jaxkd():
    import jaxkd as jk

    return lambda p, q: jk.build_and_query(p, q, k=3), (normal(60, 3), normal(7, 3, seed=1))


@program("signax")
def signax():
    import signax as sg

    return lambda path: sg.signature(path, 3), (normal(15, 2),)


@program("hj-reachability")
def hj():
    import hj_reachability as hj

    grid = hj.Grid.from_lattice_parameters_and_boundary_conditions(
        hj.sets.Box(jnp.array([-1.0, -1.0]), jnp.array([1.0, 1.0])), (16, 16)
    )
    return lambda v: grid.upwind_grad_values(hj.finite_differences.upwind_first.WENO3, v), (
        normal(16, 16),
    )
