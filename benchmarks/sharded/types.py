"""Element types: each class through collectives by hand and through the partitioner."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import PartitionSpec as P

from benchmarks.sharded.program import array, program, split


def _exchanged(*arrays):
    def local(*parts):
        return tuple(
            (
                lax.psum(p, "x"),
                lax.pmax(p, "x"),
                lax.all_gather(p, "x", tiled=True),
                lax.ppermute(p, "x", [(0, 1), (1, 3)]),
                lax.psum_scatter(p, "x", scatter_dimension=1, tiled=True),
            )
            for p in parts
        )

    out = tuple((P(), P(), P(), P("x"), P("x")) for _ in arrays)
    return jax.shard_map(local, in_specs=P("x"), out_specs=out, check_vma=False)(*arrays)


def _of(*names):
    return tuple(array(8, 8, by="x", dtype=name) for name in names)


@program("x=4", *_of("int8", "int16", "int32", "uint8", "uint16", "uint32"))
def integers_exchanged(*arrays):
    return _exchanged(*arrays)


@program("x=4", *_of("int64", "uint64", "float64", "complex128"))
def wide_exchanged(*arrays):
    a, b, c, d = arrays
    return _exchanged(a, b, c), lax.with_sharding_constraint(d.sum(0), P())


@program("x=4", *_of("float16", "bfloat16", "float32"))
def floats_exchanged(*arrays):
    return _exchanged(*arrays)


@program("x=4", *_of("complex64"))
def complex_exchanged(z):
    def local(z):
        return lax.psum(z, "x"), lax.all_gather(z, "x", axis=1, tiled=True), z @ z.conj().T

    return jax.shard_map(local, in_specs=P("x"), out_specs=(P(), P(), P("x")), check_vma=False)(z)


@program("x=4", *_of("float8_e4m3fn", "float8_e5m2"))
def eight_bits_gathered(a, b):
    def local(a, b):
        return lax.all_gather(a, "x", tiled=True), lax.ppermute(b, "x", [(0, 3), (2, 1)])

    return jax.shard_map(local, in_specs=P("x"), out_specs=(P(), P("x")), check_vma=False)(a, b)


def _predicates_answer(flags, n):
    """XLA:CPU has no all-reduce of bits."""
    bits = np.bitwise_and.reduce(n, 0), np.bitwise_or.reduce(n, 0)
    parity, counts = np.bitwise_xor.reduce(n, 1), (flags & (n > 0)).sum(1, dtype=np.int32)
    return flags.any(0), flags.all(), counts, parity, *bits


@program(
    "x=8",
    array(32, 6, by="x", dtype="bool"),
    array(32, 6, by="x", dtype="int32"),
    answer=_predicates_answer,
)
def predicates(flags, n):
    bits = lax.reduce(n, jnp.int32(-1), lax.bitwise_and, (0,))
    either = lax.reduce(n, jnp.int32(0), lax.bitwise_or, (0,))
    parity = lax.reduce(n, jnp.int32(0), lax.bitwise_xor, (1,))
    return flags.any(0), flags.all(), (flags & (n > 0)).sum(1), parity, bits, either


@program("x=8", *(array(16, 8, by="x", dtype=t) for t in ("int8", "uint16", "int32")))
def integers_split(a, b, c):
    return a.sum(0, dtype="int8"), b.max(), c.prod(1), a.T @ a, (c // 7).min(0), b.cumsum(0)


@program(
    "x=4,y=2",
    array(16, 8, by=("x", "y"), dtype="bfloat16"),
    array(8, 12, by="y", dtype="bfloat16"),
    array(16, 8, by="x", dtype="float16"),
)
def narrow_floats_split(a, b, c):
    return a @ b, c.sum(0), jax.nn.softmax(a, -1), split(c, None, "y") * 2


@program(
    "x=4",
    array(8, 12, by="x", dtype="float64"),
    array(12, 8, by=(None, "x"), dtype="int64"),
    array(8, 4, by="x", dtype="complex128"),
)
def wide_split(a, b, z):
    return a.sum(0), b.sum(1), b.cumsum(1), a.argmax(0), z.T @ z, a @ b.astype("float64")


@program("x=8", array(16, 8, by="x", dtype="complex64"), array(8, 4, dtype="complex64"))
def complex_split(z, w):
    return z @ w, jnp.abs(z).max(0), z.sum(0), z.conj().T @ z, z.real.argmax(0)


@program("x=8", array(2, dtype="uint32", high=100))
def random_numbers(key):
    """The same numbers, whatever the number of devices."""
    key = jax.random.wrap_key_data(key)
    uniform, normal = (split(f(key, (24, 5)), "x") for f in (jax.random.uniform, jax.random.normal))
    return uniform, normal, jax.random.permutation(key, 16), split(jax.random.bits(key, (16,)), "x")
