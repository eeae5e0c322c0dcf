"""Sizes that the devices do not divide: short and empty parts, padding that must not leak."""

import jax
import jax.numpy as jnp
from jax import lax

from benchmarks.sharded.program import array, program, split

_ROWS = array(16, 6, by="x")


@program("x=8", _ROWS)
def uneven_sum(x):
    """13 rows over 8 devices: seven have two or one, the last none."""
    part = split(x[:13], "x")
    return part.sum(0), part.prod(0), part.max(0), (part > 0).all(0)


@program("x=8", _ROWS, array(16, 4, by="x"))
def uneven_contraction(a, b):
    return split(a[:13], "x").T @ split(b[:13], "x")


@program("x=4", array(12, 10, by="x"), array(10, 7))
def uneven_columns(x, w):
    hidden = split(jnp.exp(x @ w), "x")
    return split(hidden, None, "x") / hidden.sum(1, keepdims=True)


@program("x=4", array(8, 3, by="x"))
def uneven_pad(x):
    wide = split(jnp.pad(x, ((2, 1), (0, 0)), constant_values=7.0), "x")
    inside = lax.pad(x, 0.5, ((1, -2, 1), (0, 1, 0)))
    return wide * 2, split(inside, "x").sum(0)


@program("x=4", array(8, 5, by="x"), array(4, 5, by="x"))
def uneven_concatenate(a, b):
    both = split(jnp.concatenate([a[:7], b[1:], a[::3]]), "x")
    return both, jnp.cumsum(both, 0)


@program("x=8", _ROWS)
def uneven_reverse(x):
    part = split(x[:13], "x")
    return part[::-1], jnp.roll(part, 3, 0), jnp.flip(part, (0, 1))


@program("x=4", array(12, 4, by="x"))
def uneven_sort(x):
    part = split(x[1:11], "x")
    return jnp.sort(part, 0), jnp.argsort(part, 0), jnp.argmax(part, 0)


@program("x=4", array(24, 4, by="x"))
def uneven_reshape(x):
    """Dimensions merge and come apart where the parts do not line up."""
    merged = split(x.reshape(96)[:90], "x")
    return merged.reshape(9, 10), split(x.reshape(6, 16), "x") * 2, merged.reshape(3, 30).sum(1)


@program("x=4,y=2", array(16, 12, by=("x", "y")))
def uneven_transpose(x):
    part = split(x[:15, :9], "x", "y")
    return split(part.T, "x", "y") + 1, split(part, "y", "x")


@program("x=8", array(dtype="int32", high=3))
def uneven_iota(start):
    ramp = split(jnp.arange(13) + start, "x")
    grid = split(lax.broadcasted_iota(jnp.float32, (11, 3), 0), "x")
    return ramp, jnp.outer(ramp, ramp), grid.sum(), jnp.where(ramp % 2 == 0, ramp, -1).max()


@program("x=4", array(16, 3, by="x"))
def uneven_slices(x):
    part = split(x[2:13], "x")
    return split(part[::2], "x"), split(x[1:16:3], "x"), part[4:7]


@program("x=4", array(2, 16, 10, 3, by=(None, "x")), array(4, 3, 3, 2))
def uneven_windows(x, kernel):
    part = split(x[:, :14], None, "x")
    out = lax.conv_general_dilated(
        part, kernel, (1, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    top = lax.reduce_window(part, -jnp.inf, lax.max, (1, 3, 1, 1), (1, 2, 1, 1), "VALID")
    return split(out, None, "x"), top


@program("x=4", array(16, 5, by="x"), array(7, dtype="int32", high=14))
def uneven_lookup(table, rows):
    part = split(table[:14], "x")
    return (
        part[rows],
        split(part.at[rows].add(1.0), "x"),
        jnp.take_along_axis(part, part.argsort(0), 0),
    )


@program("x=4", array(12, 3, by="x"))
def uneven_loop(x):
    """A carry of ten rows over four devices."""

    def step(_, carry):
        return split(jnp.tanh(carry + carry.mean(0)), "x")

    return lax.fori_loop(0, 3, step, split(x[:10], "x"))


@program("x=4", array(12, 3, by="x"))
def uneven_gradient(x):
    return jax.grad(lambda x: jnp.sum(jax.nn.softmax(split(x[:10], "x"), 0) ** 2))(x)
