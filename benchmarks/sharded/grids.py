"""Grids split in space: convolutions, windows and stencils that look across the borders."""

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec as P

from benchmarks.sharded.program import array, program, split

_IMAGE = array(2, 32, 12, 4, by=(None, "x"))


def _convolution(x, kernel, strides=(1, 1), padding="SAME", **more):
    return lax.conv_general_dilated(
        x, kernel, strides, padding, dimension_numbers=("NHWC", "HWIO", "NHWC"), **more
    )


@program("x=8", _IMAGE, array(3, 3, 4, 6))
def convolution_rows(x, kernel):
    return _convolution(x, kernel)


@program("x=4,y=2", array(2, 16, 16, 3, by=(None, "x", "y")), array(5, 3, 3, 4))
def convolution_two_dimensions(x, kernel):
    return _convolution(x, kernel)


@program("x=8", _IMAGE, array(3, 3, 4, 6))
def convolution_strided(x, kernel):
    return split(_convolution(x, kernel, (2, 2)), None, "x")


@program("x=4", _IMAGE, array(5, 3, 4, 2))
def convolution_valid(x, kernel):
    """28 rows come of 32: the parts do not line up."""
    return split(_convolution(x, kernel, padding="VALID"), None, "x")


@program("x=4", _IMAGE, array(3, 3, 4, 2))
def convolution_dilated(x, kernel):
    return _convolution(x, kernel, rhs_dilation=(2, 2)), _convolution(
        x, kernel, padding=[(2, 2), (1, 1)], lhs_dilation=(2, 1)
    )


@program("x=4,y=2", array(8, 9, 9, 8, by=("x", None, None, "y")), array(3, 3, 8, 8))
def convolution_batch_and_features(x, kernel):
    return split(_convolution(x, kernel), "x", None, None, "y")


@program(
    "x=4",
    array(4, 10, 10, 8, by=(None, None, None, "x")),
    array(3, 3, 1, 8, by=(None, None, None, "x")),
)
def convolution_depthwise(x, kernel):
    return _convolution(x, kernel, feature_group_count=8)


@program("x=4", _IMAGE, array(3, 3, 4, 4))
def convolution_gradient(x, kernel):
    return jax.grad(lambda x, k: jnp.sum(_convolution(x, k) ** 2), (0, 1))(x, kernel)


@program("x=4", _IMAGE)
def pooling(x):
    top = lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")
    mean = lax.reduce_window(x, 0.0, lax.add, (1, 4, 2, 1), (1, 4, 2, 1), "VALID") / 8
    return top, mean


@program("x=4", _IMAGE)
def pooling_gradient(x):
    """Select-and-scatter over windows that overlap."""

    def loss(x):
        top = lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")
        return jnp.sum(top**2)

    return jax.grad(loss)(x)


@program("x=4,y=2", array(32, 16, by=("x", "y")))
def heat(grid):
    """Ten steps of a five-point stencil that wraps around, by rolls."""

    def step(_, u):
        near = sum(jnp.roll(u, s, d) for d in (0, 1) for s in (-1, 1))
        return u + 0.1 * (near - 4 * u)

    return lax.fori_loop(0, 10, step, grid)


@program("x=4,y=2", array(32, 16, by=("x", "y")))
def heat_manual(grid):
    """The same with borders exchanged by hand, zeros outside."""

    def border(u, axis, name):
        n = lax.axis_size(name)
        last, first = lax.slice_in_dim(u, -1, None, axis=axis), lax.slice_in_dim(u, 0, 1, axis=axis)
        before = lax.ppermute(last, name, [(i, i + 1) for i in range(n - 1)])
        after = lax.ppermute(first, name, [(i + 1, i) for i in range(n - 1)])
        return jnp.concatenate([before, u, after], axis)

    def local(u):
        def step(_, u):
            tall, wide = border(u, 0, "x"), border(u, 1, "y")
            return u + 0.1 * (tall[:-2] + tall[2:] + wide[:, :-2] + wide[:, 2:] - 4 * u)

        return lax.fori_loop(0, 10, step, u)

    return jax.shard_map(local, in_specs=P("x", "y"), out_specs=P("x", "y"))(grid)


@program("x=8", array(24, 20, by="x", dtype="int8", high=2))
def life(cells):
    """Four generations, by slices of the padded board."""

    def step(_, board):
        wide = jnp.pad(board, 1)
        near = sum(wide[i : i + 24, j : j + 20] for i in range(3) for j in range(3)) - board
        return ((near == 3) | ((board == 1) & (near == 2))).astype(board.dtype)

    return lax.fori_loop(0, 4, step, cells)


@program("x=2,y=2,z=2", array(8, 8, 8, by=("x", "y", "z")), array(8, 8, 8, by=("x", "y", "z")))
def poisson(u, source):
    """A Jacobi iteration in three dimensions, until little changes."""

    def near(u):
        wide = jnp.pad(u, 1)
        inner = slice(1, -1)
        return (
            wide[:-2, inner, inner] + wide[2:, inner, inner] + wide[inner, :-2, inner]
            + wide[inner, 2:, inner] + wide[inner, inner, :-2] + wide[inner, inner, 2:]
        )  # fmt: skip

    def step(state):
        u, _, i = state
        fresh = (near(u) + source) / 6
        return fresh, jnp.max(jnp.abs(fresh - u)), i + 1

    return lax.while_loop(lambda s: (s[1] > 0.05) & (s[2] < 40), step, (u, jnp.float32(1), 0))
