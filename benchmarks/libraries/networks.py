"""Neural networks: layers, their gradients, and tools for arrays."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from benchmarks.libraries.program import key, normal, program, uniform


@program("flax")
def flax():
    from flax import linen as nn

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            x = nn.relu(nn.Conv(8, (3, 3))(x))
            x = nn.LayerNorm()(x).mean((1, 2))
            return nn.Dense(5)(x)

    net, x = Net(), normal(4, 12, 12, 3)
    weights = net.init(key(), x)
    return jax.grad(lambda w, x: (net.apply(w, x) ** 2).sum()), (weights, x)


@program("dm-haiku")
def haiku():
    import haiku as hk

    net = hk.without_apply_rng(hk.transform(lambda x: hk.nets.MLP([16, 16, 3])(x).sum()))
    x = normal(8, 5)
    return jax.grad(net.apply), (net.init(key(), x), x)


@program("equinox")
def equinox():
    import equinox as eqx

    cell = eqx.nn.GRUCell(3, 8, key=key())
    weights, static = eqx.partition(cell, eqx.is_array)

    def run(weights, xs):
        cell = eqx.combine(weights, static)
        return jax.lax.scan(lambda h, x: (cell(x, h), h), jnp.zeros(8), xs)

    return run, (weights, normal(20, 3))


@program("keras")
def keras():
    import os

    os.environ["KERAS_BACKEND"] = "jax"
    import keras as k

    model = k.Sequential([k.layers.Input((10,)), k.layers.Dense(16, "gelu"), k.layers.Dense(2)])
    weights = [v.value for v in model.trainable_variables]
    return lambda w, x: model.stateless_call(w, [], x)[0], (weights, normal(6, 10))


@program("e3nn-jax")
def e3nn():
    import e3nn_jax as e3

    def invariants(x):
        harmonics = e3.spherical_harmonics("0e + 1o + 2e", x, normalize=True)
        return e3.tensor_product(harmonics, harmonics).array

    return invariants, (normal(7, 3),)


@program("jraph")
def jraph():
    import jraph as jr

    edges = jnp.array([0, 1, 2, 3, 0]), jnp.array([1, 2, 3, 0, 2])

    def convolve(nodes):
        graph = jr.GraphsTuple(
            nodes, None, edges[1], edges[0], jnp.array([4]), jnp.array([5]), None
        )
        return jr.GraphConvolution(lambda n: jnp.tanh(n), add_self_edges=True)(graph).nodes

    return convolve, (normal(4, 6),)


@program("einops")
def einops():
    from einops import rearrange, reduce

    def patches(x):
        tiles = rearrange(x, "b (h p) (w q) c -> b (h w) (p q c)", p=4, q=4)
        return tiles, reduce(x, "b h w c -> b c", "max")

    return patches, (normal(2, 16, 16, 3),)


@program("einx")
def einx():
    import einx as ex

    return lambda x, w: ex.dot("b [i], [i] o -> b o", x, w), (normal(4, 6), normal(6, 5, seed=1))


@program("kfac-jax")
def kfac():
    import kfac_jax as kf

    return lambda a: kf.utils.pi_adjusted_kronecker_inverse(a @ a.T, a.T @ a, damping=0.1), (
        normal(5, 5),
    )


@program("paramax")
def paramax():
    import paramax as px

    return lambda x: px.unwrap(px.Parameterize(jnp.exp, x)), (normal(9),)


@program("folx")
def folx():
    import folx as fx

    return fx.forward_laplacian(lambda x: jnp.sum(jnp.tanh(x) ** 3)), (normal(12),)


@program("dm-pix")
def dm_pix():
    import dm_pix as pix

    def look(image):
        blurred = pix.gaussian_blur(image, 1.0, kernel_size=5)
        return pix.adjust_contrast(pix.rgb_to_hsv(blurred), 1.3), pix.psnr(image, blurred)

    return look, (uniform(16, 16, 3),)


@program("augmax")
def augmax():
    import augmax as am

    change = am.Chain(am.Rotate((-30, 30)), am.HorizontalFlip(), am.RandomBrightness())
    return lambda k, image: change(k, image), (key(), uniform(24, 24, 3))


@program("brainstate")
def brainstate():
    import brainstate as bs

    return lambda x: bs.nn.gelu(bs.nn.softmax(x)), (normal(6, 7),)


@program("sympy2jax")
def sympy2jax():
    import sympy
    import sympy2jax as sj

    x, y = sympy.symbols("x y")
    module = sj.SymbolicModule([sympy.cos(x) ** 2 * y, sympy.exp(-x * y) + x**3])
    return lambda a, b: module(x=a, y=b), (normal(8), normal(8, seed=1))
