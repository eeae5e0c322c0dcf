"""What the other files leave out: rarer opcodes and forms, and several things at once."""

import functools

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec as P

from benchmarks.sharded.program import array, program, split


@program("x=4,y=2", array(2, 12, 16, by=(None, None, ("x", "y"))), array(2, 16, by=(None, "x")))
def decode_loop(cache, x):
    """A cache written row by row in a loop, attention over what it has."""

    def step(i, state):
        cache, x = state
        cache = lax.dynamic_update_slice(cache, x[:, None], (0, i, 0))
        scores = jnp.einsum("bld,bd->bl", cache, x)
        weights = jax.nn.softmax(jnp.where(jnp.arange(12) <= i, scores, -1e9))
        return cache, jnp.tanh(jnp.einsum("bl,bld->bd", weights, cache))

    return lax.fori_loop(0, 6, step, (cache, x))


@program("x=4", array(3, 16, 4, by=(None, "x")), array(3, 2, 4))
def write_rows_in_loop(buffer, rows):
    """The dimension that is written is split."""

    def step(i, buffer):
        return lax.dynamic_update_slice(buffer, rows * (i + 1.0), (0, 3 * i, 0))

    return lax.fori_loop(0, 5, step, buffer)


@program("x=8", array(32, 6, by="x"))
def associative_scan_split(x):
    return lax.associative_scan(lambda a, b: a * 0.5 + b, x), lax.associative_scan(jnp.maximum, x)


@program("x=4", array(16, 8, by="x"), array(8, 6))
def map_over_rows(x, w):
    return lax.map(lambda row: jnp.sort(row @ w), x)


@program("x=4,y=2", array(8, 16, by=("x", "y"), dtype="int8"), array(16, 8, by="y", dtype="int8"))
def quantised_product(a, b):
    return lax.dot_general(a, b, (((1,), (0,)), ((), ())), preferred_element_type=jnp.int32)


@program("x=4", array(8, 6, by="x"), array(8, 6, by="x", dtype="int32"))
def bits(x, n):
    """Bitcasts to the same, a narrower and a wider type."""
    narrow = lax.bitcast_convert_type(x, jnp.uint8)
    wide = lax.bitcast_convert_type(narrow.reshape(8, 12, 2), jnp.uint16)
    return lax.bitcast_convert_type(x, jnp.int32) ^ n, narrow, wide, lax.population_count(n), n << 3


@program("x=4,y=2", array(16, 12, by=(("x", "y"),)), array(8, 24, by=("x", "y")))
def reshape_both_axes(a, b):
    parted = split(a.reshape(4, 4, 12), "x", "y")
    return parted * 2, split(b.reshape(8, 2, 12), "x", "y").sum(2), b.reshape(192)


@program("x=4,y=1", array(8, 6, by=("x", "y")), array(6, 4, by="y"))
def axis_of_one(a, b):
    return split(a @ b, "x", "y"), a.sum(0)


@program("x=2,y=4", array(8, 12, by=("y", "x")), order=(7, 3, 5, 1, 0, 2, 4, 6))
def permuted_region(x):
    @functools.partial(jax.shard_map, in_specs=P("y", "x"), out_specs=P("y", "x"))
    def local(x):
        around = lax.ppermute(x, "y", [(i, (i + 1) % 4) for i in range(4)])
        return lax.psum(x, "x") + around + lax.axis_index("y") * 10 + lax.axis_index("x")

    return local(x), x.max(1)


@program("x=4", array(2, 12, 8, by=(None, "x")), array(3, 8, 6))
def convolution_transposed(x, kernel):
    out = lax.conv_transpose(x, kernel, (2,), "SAME", dimension_numbers=("NHC", "HIO", "NHC"))
    return split(out, None, "x")


@program("x=4", array(4, 16, 8, by=(None, "x")), array(3, 2, 12))
def convolution_grouped(x, kernel):
    return lax.conv_general_dilated(
        x, kernel, (1,), "SAME", dimension_numbers=("NHC", "HIO", "NHC"), feature_group_count=4
    )


@program("x=4", array(8, 9, 4, by=("x",)), array(8, 3, 4, 5, by="x"))
def convolution_per_example(x, kernels):
    """`vmap` over images and kernels makes a grouped convolution."""

    def one(x, kernel):
        return lax.conv_general_dilated(
            x[None], kernel, (1,), "VALID", dimension_numbers=("NHC", "HIO", "NHC")
        )[0]

    return jax.vmap(one)(x, kernels)


@program("x=8", array(16, 6, by="x"), array(16, by="x", dtype="int32", high=4))
def sort_by_several_keys(x, ids):
    keys = jnp.broadcast_to(ids[:, None], x.shape)
    across = lax.sort((keys, x), dimension=0, num_keys=2)
    return across, lax.sort((x, keys), dimension=1, is_stable=True), jnp.lexsort((x[:, 0], ids))


@program("x=4", array(16, 5, by="x"), array(16, 5, by="x"), array(dtype="bool"))
def selects(a, b, flag):
    chosen = jnp.where(flag, a, b)
    return chosen, jnp.clip(a, -0.5, b), lax.reduce_precision(a, 5, 4), jnp.nextafter(a, b)


@program("x=4", array(6, 16, 4, by=(None, "x")), array(6, 3, dtype="int32", high=16))
def gather_batched(x, places):
    taken = jax.vmap(lambda row, at: row[at])(x, places)
    return taken, jax.vmap(lambda row, at: row.at[at].add(1.0))(x, places)


@program("x=4", array(16, 12, by="x"), array(3, dtype="int32", high=10))
def gather_windows(x, at):
    windows = jax.vmap(lambda i: lax.dynamic_slice(x, (i, i), (4, 2)))(at)
    return windows, lax.dynamic_slice(x, (at[0], 0), (1, 12)), x[at[1]]


@program("x=8", array(16, 8, by="x"), array(2, dtype="uint32", high=99))
def dropout(x, key):
    key = jax.random.wrap_key_data(key)
    kept = jax.random.bernoulli(key, 0.8, x.shape)
    return jnp.where(kept, x / 0.8, 0.0).sum(0), jax.random.categorical(key, x)


@program("x=8", array(16, 8, by="x"), array(2, dtype="uint32", high=99))
def random_per_device(x, key):
    def local(x, key):
        own = jax.random.fold_in(jax.random.wrap_key_data(key), lax.axis_index("x"))
        return x + jax.random.uniform(own, x.shape)

    return jax.shard_map(local, in_specs=(P("x"), P()), out_specs=P("x"))(x, key)


@program("x=4", array(8, 8, by="x"), array(8, 3))
def loop_with_branches(x, w):
    """A conditional in a scan whose carry is split, chosen by a value of the carry."""

    def step(carry, i):
        def mixed(c):
            return jnp.tanh(c @ c.T @ c)

        grown = lax.cond(carry.sum() > 0, mixed, lambda c: c + w.sum(), carry)
        return split(grown, "x"), (grown @ w).max()

    return lax.scan(step, x, jnp.arange(5))


@program("x=4,y=2", array(6, 8, 10, by=(None, "x", "y")), array(6, 8, 4, by=(None, "x")))
def product_batch_and_contracting(a, b):
    """What is contracted is split on both sides, the batch on neither."""
    return jnp.einsum("nki,nkj->nij", a, b), jnp.einsum("nki,nkj->ij", a, b)


@program("x=2,y=2,z=2", *(array(4, 6, 8, by=("x", None, ("y", "z"))) for _ in range(2)))
def two_axes_on_one_dimension(a, b):
    total = split(a * b, "x", None, "y")
    return total.sum(2), split(a, None, "z", ("x", "y")), jnp.einsum("abc,abc->a", a, b)


@program("x=8", array(4096, by="x"), array(4096, by="x"))
def long_vectors(a, b):
    order = jnp.argsort(a)
    return jnp.cumsum(a), a[order], jnp.convolve(a, b[:9]), jnp.interp(b[:16], a[order], b)


@program("x=4", array(12, 4, by="x"))
def several_meshes_of_use(x):
    """A value used in three layouts, and joined again."""
    rows, columns, whole = split(x, "x"), split(x, None, "x"), split(x)
    return rows + jnp.flip(columns, 1) - whole[::-1], split(jnp.vstack([rows, whole]), "x")


@program("x=4", array(8, 4, by="x"), array(4, 8, by=(None, "x")))
def matrix_functions(a, b):
    square = a @ b
    q, r = jnp.linalg.qr(square + 8 * jnp.eye(8))
    return (
        q @ r,
        jnp.linalg.det(square + 8 * jnp.eye(8)),
        lax.linalg.triangular_solve(r, square, left_side=True),
    )


@program("x=4", array(8, 6, by="x"))
def custom_derivative(x):
    @jax.custom_vjp
    def clipped(x):
        return jnp.sum(jnp.exp(x))

    clipped.defvjp(lambda x: (clipped(x), x), lambda x, g: (jnp.clip(g * jnp.exp(x), -1, 1),))
    return jax.value_and_grad(clipped)(x), jax.hessian(lambda v: jnp.sum(jnp.sin(v) ** 2))(x[0])
