"""One layout into another: other axes, other order, more or less split, other devices."""

import jax
import jax.numpy as jnp

from benchmarks.sharded.program import array, program, split


@program("x=8", array(16, 24, by="x"))
def rows_to_columns(x):
    return split(x, None, "x") * 2


@program("x=4,y=2", array(16, 24, by=("x", "y")))
def axes_swapped(x):
    return split(x, "y", "x") + 1


@program("x=2,y=4", array(16, 8, by=(("x", "y"),)), array(16, 8, by=(("y", "x"),)))
def axis_order(a, b):
    return split(a, ("y", "x")) + b, split(b, "x", "y")


@program("x=2,y=2,z=2", array(16, 8, 4, by=("x", "y", "z")))
def three_axes_turned(x):
    turned = split(x * 2, "z", "x", "y")
    return turned, split(x, ("x", "y")), split(x, None, ("z", "y"))


@program("x=8", array(16, 6, by="x"), array(16, 6))
def gathered_and_cut(a, b):
    return split(a, None) - 1, split(b, "x") * 3


@program("x=4,y=2", array(16, 6, by=(("x", "y"),)))
def partly_gathered(x):
    return split(x, "x") + 1, split(x, "y") - 1


@program("x=4,y=2", array(8, 12, by=("x", "y")), order=(5, 2, 7, 0, 1, 6, 3, 4))
def devices_in_another_order(x):
    return x @ x.T, x.sum(0), split(x, "y", "x")


@program("x=4", array(24, 4, by="x"), array(4, 6, 4, by="x"))
def reshapes(a, b):
    merged = b.reshape(24, 4)
    return (
        a.reshape(4, 6, 4),
        a.reshape(96),
        merged + a,
        split(a.reshape(2, 12, 4).sum(1)),
        b.reshape(4, 24).T,
    )


@program("x=4,y=2", array(8, 4, 6, by=("x", "y")))
def transposes(x):
    return (
        x.transpose(2, 0, 1),
        split(x.transpose(1, 0, 2), "y", "x"),
        x.swapaxes(0, 2).reshape(6, 32),
    )


@program("x=4", array(8, 3, by="x"), array(3), array(8, by="x"))
def broadcasts_of_all_kinds(x, row, column):
    tall = jnp.broadcast_to(row, (8, 3)) * x
    return tall, jnp.broadcast_to(column[:, None, None], (8, 2, 3)), split(jnp.tile(x, (2, 2)), "x")


@program("x=8", array(16, 4, by="x"), array(8, 4, by="x"))
def joined_and_parted(a, b):
    joined = jnp.concatenate([a, b])
    left, right = jnp.split(joined, 2)
    return split(joined, "x"), left - right, jnp.stack([a[:8], b], 1)


@program("x=4", array(16, 6, by=None), array(6, 8, by=(None, "x")))
def layout_left_open(x, w):
    """The first argument has no layout of its own."""
    return split(x @ w, None, "x"), x.sum(0)


@program("x=4,y=2", array(16, 16, by=("x", "y")))
def triangles(x):
    return jnp.tril(x), jnp.triu(x, 2).sum(0), jnp.diag(x), x + jnp.eye(16), jnp.trace(x)


@program("x=4", array(16, 4, by="x"), array(4, by=None))
def function_called_twice(x, w):
    inner = jax.jit(lambda v: jnp.tanh(v) * w - v.mean(0))
    return inner(inner(x)), inner(split(x, None, "x"))
