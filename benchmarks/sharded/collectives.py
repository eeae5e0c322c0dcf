"""Every collective by hand, in its forms: tiled or not, in groups, over several axes."""

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec as P

from benchmarks.sharded.program import array, program

_X = array(16, 8, by="x")
_PAIRS = [[0, 1], [2, 3], [4, 5], [6, 7]]
_SCATTERED = [[6, 1, 3, 0], [2, 7, 5, 4]]


_SPLIT = P("x")


def manual(function, *arguments, out=_SPLIT, spec=_SPLIT, **more):
    """Run `function` on the parts."""
    return jax.shard_map(function, in_specs=spec, out_specs=out, **more)(*arguments)


@program("x=8", _X)
def sums(x):
    def local(x):
        return lax.psum(x, "x"), lax.pmean(x, "x"), lax.pmax(x, "x"), lax.pmin(x, "x")

    return manual(local, x, out=P())


@program("x=8", _X)
def sums_in_groups(x):
    def local(x):
        pairs = lax.psum(x, "x", axis_index_groups=_PAIRS)
        return pairs, lax.pmax(x, "x", axis_index_groups=_SCATTERED)

    return manual(local, x, check_vma=False)


@program("x=8", _X)
def gathers(x):
    def local(x):
        rows = lax.all_gather(x, "x", tiled=True)
        stacked = lax.all_gather(x, "x", axis=1)
        columns = lax.all_gather(x, "x", axis=1, tiled=True)
        return jnp.tanh(rows).sum(0, keepdims=True), stacked, columns

    return manual(local, x)


@program("x=8", _X)
def gathers_in_groups(x):
    def local(x):
        return (
            lax.all_gather(x, "x", axis_index_groups=_SCATTERED),
            lax.all_gather(x, "x", axis_index_groups=_PAIRS, axis=1, tiled=True),
        )

    return manual(local, x, check_vma=False)


@program("x=8", array(64, 16, by="x"))
def scatters(x):
    def local(x):
        rows = lax.psum_scatter(x, "x", tiled=True)
        flat = lax.psum_scatter(x, "x")
        columns = lax.psum_scatter(x, "x", scatter_dimension=1, tiled=True)
        return rows, flat, columns

    return manual(local, x)


@program("x=8", array(64, 16, by="x"))
def scatters_in_groups(x):
    def local(x):
        return (
            lax.psum_scatter(x, "x", axis_index_groups=_SCATTERED, tiled=True),
            lax.psum_scatter(x, "x", scatter_dimension=1, axis_index_groups=_PAIRS, tiled=True),
        )

    return manual(local, x, check_vma=False)


@program("x=8", array(64, 16, by="x"))
def all_to_alls(x):
    def local(x):
        tiled = lax.all_to_all(x, "x", 0, 0, tiled=True)
        turned = lax.all_to_all(x, "x", 1, 0, tiled=True)
        return tiled, turned, lax.all_to_all(x, "x", 0, 1)

    return manual(local, x)


@program("x=8", array(64, 16, by="x"))
def all_to_alls_in_groups(x):
    def local(x):
        return (
            lax.all_to_all(x, "x", 0, 0, axis_index_groups=_SCATTERED, tiled=True),
            lax.all_to_all(x, "x", 1, 0, axis_index_groups=_PAIRS, tiled=True),
        )

    return manual(local, x, check_vma=False)


@program("x=8", _X)
def permutes(x):
    """All the way round, a part of the devices, to oneself, a swap."""

    def local(x):
        ring = lax.ppermute(x, "x", [(i, (i + 3) % 8) for i in range(8)])
        some = lax.ppermute(x, "x", [(0, 5), (5, 2), (7, 7)])
        return ring, some, lax.pshuffle(x, "x", [1, 0, 3, 2, 5, 4, 7, 6])

    return manual(local, x)


@program("x=4,y=2", array(8, 6, by=("x", "y")))
def axes(x):
    """Collectives along one axis, the other, and both."""

    def local(x):
        both = lax.psum(x, ("x", "y"))
        gathered = lax.all_gather(x, ("y", "x"), axis=1, tiled=True).sum(1, keepdims=True)
        swapped = lax.ppermute(x, ("x", "y"), [(i, 7 - i) for i in range(8)])
        return lax.psum(x, "x") + lax.pmax(x, "y") + both + gathered, swapped

    return manual(local, x, spec=P("x", "y"), out=P("x", "y"), check_vma=False)


@program("x=2,y=2,z=2", array(16, 12, by=(("x", "z"), "y")))
def axes_of_three(x):
    def local(x):
        index = lax.axis_index("x") * 100 + lax.axis_index("y") * 10 + lax.axis_index(("z", "x"))
        crossed = lax.psum_scatter(x, ("z", "x"), tiled=True)
        return lax.psum(x, ("y", "z")), lax.pmean(crossed, "y"), jnp.full((1, 1), index)

    specs = P(("x", "z"), "y")
    return manual(local, x, spec=specs, out=specs, check_vma=False)


@program("x=8", _X, array(16, by="x", dtype="int32"), array(16, 3, by="x", dtype="bool"))
def trees(x, n, flags):
    """Several arrays of several types in one collective."""

    def local(x, n, flags):
        total = lax.psum({"x": x, "n": n, "one": 1}, "x")
        gathered = lax.all_gather((n, flags), "x", tiled=True)
        return total["x"] / total["one"], total["n"], gathered, lax.pmax(flags.astype("int8"), "x")

    return manual(local, x, n, flags, out=P(), check_vma=False)


@program("x=4", array(16, 4, by="x"), order=(3, 0, 2, 1))
def permuted_devices(x):
    def local(x):
        return lax.axis_index("x") + lax.ppermute(x, "x", [(0, 1), (1, 2), (2, 3)])

    return manual(local, x), x.sum(0)


@program("x=8", array(16, 8, by="x"))
def gradient_through_collectives(x):
    def local(x):
        gathered = lax.all_gather(x, "x", tiled=True)
        return lax.psum(jnp.sum(jnp.sin(gathered * x[0])), "x")

    return jax.grad(lambda x: manual(local, x, out=P()))(x)


@program("x=8", array(0, 4, by=(None, None)), array(8, 0, by="x"))
def empty(none, nothing):
    def local(none, nothing):
        return lax.psum(none, "x"), lax.all_gather(nothing, "x", tiled=True)

    return jax.shard_map(local, in_specs=(P(), P("x")), out_specs=P(), check_vma=False)(
        none, nothing
    )
