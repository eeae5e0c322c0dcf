"""Products whose factors are split: by columns, by rows, by heads, in two dimensions."""

import jax
import jax.numpy as jnp

from benchmarks.sharded.program import array, program, split


@program("model=8", array(16, 32), array(32, 64, by=(None, "model")), array(64, 32, by="model"))
def columns_then_rows(x, first, second):
    return jax.nn.gelu(x @ first) @ second


@program(
    "model=4",
    array(8, 16),
    array(16, 64, by=(None, "model")),
    array(16, 64, by=(None, "model")),
    array(64, 16, by="model"),
)
def gated_layer(x, gate, up, down):
    return (jax.nn.silu(x @ gate) * (x @ up)) @ down


@program("model=8", array(16, 64, by=(None, "model")), array(64, 16, by="model"))
def product_contracting(a, b):
    return a @ b


@program("model=8", array(16, 64, by=(None, "model")), array(64, 16, by="model"))
def product_contracting_scattered(a, b):
    return split(a @ b, "model")


@program("model=4", array(24, 32, by=(None, "model")), array(32, 8))
def product_contracting_one_side(a, b):
    return a @ b


@program("x=4,y=2", array(16, 32, by=("x", "y")), array(32, 24, by=("x", "y")))
def product_two_dimensions(a, b):
    return split(a @ b, "x", "y")


@program("x=4,y=2", array(8, 16, 12, by=("x", "y")), array(8, 12, 10, by=("x", None, "y")))
def product_batched(a, b):
    return jnp.einsum("bij,bjk->bik", a, b)


@program(
    "x=2,y=2,z=2", array(8, 4, 6, 16, by=("x", None, "y", "z")), array(16, 6, 10, by=("z", "y"))
)
def product_several_contracting(a, b):
    return jnp.einsum("abhd,dhf->abf", a, b)


@program("x=8", array(32, by="x"), array(32, by="x"), array(32, 8, by="x"))
def vectors(a, b, m):
    return jnp.vdot(a, b), jnp.outer(a, b[:8]), a @ m, m.T @ b


def _attention(x, query, key, value, output, heads=8):
    def cut(y):
        return split(y.reshape(*y.shape[:-1], heads, -1), "data", None, "model", None)

    q, k, v = cut(x @ query), cut(x @ key), cut(x @ value)
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / jnp.sqrt(q.shape[-1])
    mixed = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), v)
    return mixed.reshape(x.shape) @ output


_COLUMNS = array(32, 32, by=(None, "model"))


@program("data=2,model=4", array(4, 10, 32, by="data"), *(_COLUMNS,) * 3, array(32, 32, by="model"))
def attention_heads(x, query, key, value, output):
    return _attention(x, query, key, value, output)


@program("data=2,model=4", array(4, 10, 32, by="data"), _COLUMNS, array(32, 8), array(32, 8))
def attention_one_key_head(x, query, key, value):
    q = split((x @ query).reshape(4, 10, 4, 8), "data", None, "model")
    scores = jnp.einsum("bqhd,bkd->bhqk", q, x @ key)
    return jnp.einsum("bhqk,bkd->bqhd", jax.nn.softmax(scores), x @ value)


@program("model=8", array(4, 12, dtype="int32", high=64), array(64, 16, by="model"), array(16, 16))
def tied_embedding(tokens, table, w):
    x = jnp.tanh(table[tokens] @ w)
    return jax.nn.log_softmax(x @ table.T)


@program(
    "data=2,model=4",
    array(4, 8, 32, by=("data", "model")),
    array(32),
    array(32, 64, by=(None, "model")),
    array(64, 32, by="model"),
)
def sequence_between_products(x, scale, first, second):
    """The rows are split by position outside of the products, by feature inside."""
    mean = jnp.mean(x * x, -1, keepdims=True)
    whole = split(x * jax.lax.rsqrt(mean + 1e-6) * scale, "data")
    hidden = split(jax.nn.relu(whole @ first), "data", None, "model")
    return x + split(hidden @ second, "data", "model")


@program("model=4", array(8, 32), array(32, 64, by=(None, "model")), array(64, 32, by="model"))
def tensor_parallel_gradient(x, first, second):
    return jax.grad(lambda a, b: jnp.sum((jnp.tanh(x @ a) @ b) ** 2), (0, 1))(first, second)


@program("x=2,y=4", array(8, 16, 16, by=(None, "x", "y")), array(8, 16, 4, by=(None, "y")))
def linear_solve_batch(a, b):
    """Factorisations need whole matrices, one per place of the batch."""
    a = a @ a.swapaxes(1, 2) + 20 * jnp.eye(16)
    lower = jnp.linalg.cholesky(split(a, "x"))
    return jax.scipy.linalg.solve_triangular(lower, split(b, "x"), lower=True)
