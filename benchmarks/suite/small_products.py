"""Small, batched and narrow products, and narrow element types."""

import jax
import jax.numpy as jnp

from benchmarks.suite.program import program


@program((96, 96), (96, 96))
def product_96(x, y):
    return x @ y


@program((40, 70), (70, 30))
def product_small(x, y):
    return x @ y


@program((300, 768), (768, 3072))
def product_wide(x, y):
    return x @ y


@program((1000, 1100), (1100, 900))
def product_uneven(x, y):
    return x @ y


@program((500, 6, 6), (500, 6, 6))
def products_6(x, y):
    return x @ y


@program((100, 16, 16), (100, 16, 16))
def products_16(x, y):
    return x @ y


@program((64, 20, 48), (64, 48, 12))
def products_uneven(x, y):
    return x @ y


@program((200, 12, 12), (200, 12))
def products_with_vectors(x, y):
    return jnp.einsum("bij,bj->bi", x, y)


@program((2, 24, 4, 16), (2, 24, 4, 16))
def products_of_heads(q, k):
    return jnp.einsum("bqhd,bkhd->bhqk", q, k)


@program((300, 400), (400, 500), dtype="bfloat16")
def product_bf16(x, y):
    return x @ y


@program((64, 96), (96, 80), dtype="bfloat16")
def small_product_bf16(x, y):
    return x @ y


@program((256, 700), (700, 400), dtype="int8")
def product_s8(x, y):
    return jnp.matmul(x, y, preferred_element_type=jnp.int32)


@program((50, 64), (64, 72), dtype="int8")
def small_product_s8(x, y):
    return jnp.matmul(x, y, preferred_element_type=jnp.int32)


@program((200, 300), (200, 300), (300,), dtype="bfloat16")
def mix_bf16(x, y, row):
    gate = jax.nn.sigmoid(x) * y + row
    return jnp.where(x > 0, gate, jnp.exp(-jnp.abs(y))) * 0.5


@program((40_000,), dtype="float16")
def erf_f16(x):
    return jax.scipy.special.erf(x)


@program((300, 200), dtype="float16")
def softmax_f16(x):
    return jax.nn.softmax(x)


@program((300, 200), dtype="bfloat16")
def softmax_bf16(x):
    return jax.nn.softmax(x)
