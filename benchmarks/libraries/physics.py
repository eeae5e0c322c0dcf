"""Physics, astronomy, mechanics, signals."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from benchmarks.libraries.program import normal, program, uniform


@program("jax-md")
def jax_md():
    from jax_md import energy, quantity, space

    distance, _ = space.periodic(5.0)
    return quantity.force(energy.lennard_jones_pair(distance)), (uniform(20, 3) * 5,)


@program("jax-cfd")
def jax_cfd():
    from jax_cfd.base import boundaries, grids
    from jax_cfd.base import finite_differences as fd

    grid = grids.Grid((16, 16), domain=((0, 1.0), (0, 1.0)))

    def laplace(u):
        ring = boundaries.periodic_boundary_conditions(2)
        field = grids.GridVariable(grids.GridArray(u, (0.5, 0.5), grid), ring)
        return fd.laplacian(field).data

    return laplace, (normal(16, 16),)


@program("jaxlie")
def jaxlie():
    import jaxlie as jl

    def move(a, b, p):
        turn = jl.SE3.exp(a) @ jl.SE3.exp(b).inverse()
        return turn.apply(p), turn.log()

    return move, (normal(6), normal(6, seed=1), normal(3))


@program("mujoco-mjx")
def mjx():
    import mujoco
    from mujoco import mjx

    model = mujoco.MjModel.from_xml_string(
        "<mujoco><worldbody><body><joint type='hinge' axis='0 1 0'/>"
        "<geom type='capsule' size='.05' fromto='0 0 0 0 0 -.5'/></body></worldbody></mujoco>"
    )
    put = mjx.put_model(model)
    data = mjx.make_data(put)

    def swing(q):
        def step(d, _):
            d = mjx.step(put, d)
            return d, d.qpos

        return jax.lax.scan(step, data.replace(qpos=q), None, length=10)[1]

    return swing, (normal(1),)


@program("s2fft")
def s2fft():
    import s2fft as s2

    return lambda f: s2.forward(f, 8, method="jax"), (normal(8, 15) + 0j,)


@program("jaxdf")
def jaxdf():
    from jaxdf import geometry, operators
    from jaxdf.discretization import FourierSeries

    domain = geometry.Domain((16, 16), (1.0, 1.0))
    return lambda p: operators.laplacian(FourierSeries(p, domain)).params, (normal(16, 16, 1),)


@program("jaxley")
def jaxley():
    from jaxley.solver_gate import exponential_euler, save_exp

    def gates(v, h):
        alpha, beta = 0.07 * save_exp(-v / 20), 1 / (save_exp((30 - v) / 10) + 1)
        return exponential_euler(h, 0.025, alpha / (alpha + beta), 1 / (alpha + beta))

    return gates, (normal(9) * 30, uniform(9))


@program("jaxoplanet")
def jaxoplanet():
    from jaxoplanet.core.kepler import kepler

    return lambda m, e: kepler(m, e), (uniform(12) * 6, uniform(12) * 0.8)


@program("coordax")
def coordax():
    import coordax as cx

    def mean(x):
        field = cx.field(x, "lat", "lon") if hasattr(cx, "field") else cx.wrap(x, "lat", "lon")
        return (field - 1.0).data

    return mean, (normal(4, 6),)


@program("jaxsim")
def jaxsim():
    from jaxsim.math import Quaternion, Rotation

    def turn(q, w):
        q = q / jnp.linalg.norm(q)
        return (
            Quaternion.to_dcm(q),
            Quaternion.derivative(q, w),
            Rotation.log_vee(Quaternion.to_dcm(q)),
        )

    return turn, (normal(4), normal(3))


@program("brax")
def brax():
    from brax import math

    def turn(v, q):
        return math.rotate(v, q), math.quat_mul(q, q), math.ang_to_quat(v)

    return turn, (normal(3), normal(4))


@program("jaxtronomy")
def jaxtronomy():
    from jaxtronomy.LensModel.Profiles.sis import SIS

    return lambda x, y: SIS().derivatives(x, y, 1.2), (normal(9), normal(9, seed=1))


@program("pcax")
def pcax():
    import pcax as pc

    return lambda x: pc.transform(pc.fit(x, n_components=2), x) ** 2, (normal(14, 4),)
