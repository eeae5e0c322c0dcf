"""Matrix products of many forms and types."""

import jax
import jax.numpy as jnp

from benchmarks.suite.program import program


def _square(size):
    @program((size, size), (size, size), name=f"matmul_{size}")
    def product(x, y):
        return x @ y

    return product


for _size in (128, 256, 512, 1024, 2048):
    _square(_size)


@program((1, 2048), (2048, 4096))
def matmul_1_row(x, y):
    return x @ y


@program((8, 4096), (4096, 4096))
def matmul_8_rows(x, y):
    return x @ y


@program((64, 1024), (1024, 1024))
def matmul_64_rows(x, y):
    return x @ y


@program((4096, 512), (512, 16))
def matmul_16_columns(x, y):
    return x @ y


@program((4096, 2048), (2048,))
def matrix_vector(x, y):
    return x @ y


@program((1024, 512), (1024, 512))
def matmul_transposed_left(x, y):
    return x.T @ y


@program((512, 1024), (512, 1024))
def matmul_transposed_right(x, y):
    return x @ y.T


@program((96, 256, 64), (96, 64, 256))
def matmul_batched(x, y):
    return x @ y


@program((512, 768), (768, 3072), (3072,))
def dense_gelu(x, w, bias):
    return jax.nn.gelu(x @ w + bias)


@program((1024, 1024), (1024, 1024), dtype="bfloat16")
def matmul_bf16(x, y):
    return x @ y


@program((1024, 1024), (1024, 1024), dtype="bfloat16")
def matmul_bf16_to_f32(x, y):
    return jnp.matmul(x, y, preferred_element_type=jnp.float32)


@program((512, 512), (512, 512), dtype="float16")
def matmul_f16(x, y):
    return x @ y


@program((1024, 1024), (1024, 1024), dtype="int8")
def matmul_s8(x, y):
    return jnp.matmul(x, y, preferred_element_type=jnp.int32)


@program((512, 512), (512, 512), dtype="float64")
def matmul_f64(x, y):
    return x @ y
