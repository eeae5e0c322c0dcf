"""Batches split over devices; parameters whole, or split too and gathered (FSDP)."""

import jax
import jax.numpy as jnp
from jax import lax

from benchmarks.sharded.program import array, program, split


def _loss(weights, x, y):
    first, bias, second = weights
    hidden = jax.nn.relu(x @ first + bias)
    return jnp.mean((hidden @ second - y) ** 2)


_BATCH = (array(32, 12, by="data"), array(32, 4, by="data"))
_WEIGHTS = (array(12, 24), array(24), array(24, 4))


@program("data=8", *_WEIGHTS, *_BATCH)
def data_parallel_gradient(first, bias, second, x, y):
    return jax.value_and_grad(_loss)((first, bias, second), x, y)


@program("data=8", *_WEIGHTS, *_BATCH)
def data_parallel_step(first, bias, second, x, y):
    weights = (first, bias, second)
    value, gradient = jax.value_and_grad(_loss)(weights, x, y)
    return value, jax.tree.map(lambda w, g: w - 0.1 * g, weights, gradient)


@program("data=4", array(32, 6, 6, 8, by="data"), array(8), array(8))
def batch_norm(x, scale, shift):
    mean = jnp.mean(x, (0, 1, 2))
    variance = jnp.mean((x - mean) ** 2, (0, 1, 2))
    return (x - mean) * lax.rsqrt(variance + 1e-5) * scale + shift


@program(
    "data=8",
    array(64, 12, by="data", dtype="bfloat16"),
    array(12, 5),
    array(64, by="data", dtype="int32", high=5),
)
def mixed_precision_gradient(x, w, labels):
    def loss(w):
        logits = jnp.dot(x, w.astype(jnp.bfloat16), preferred_element_type=jnp.float32)
        chosen = jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], 1)
        return -jnp.mean(chosen)

    value, gradient = jax.value_and_grad(loss)(w)
    return value, gradient.astype(jnp.bfloat16)


@program("data=4", array(3, 16, 8, by=(None, "data")), array(8, 6))
def gradient_accumulation(batches, w):
    def step(total, batch):
        return total + jax.grad(lambda w: jnp.mean(jnp.tanh(batch @ w) ** 2))(w), None

    return w - 0.1 * lax.scan(step, jnp.zeros_like(w), batches)[0]


@program(
    "data=8", array(16, 32, by="data"), array(32, 64, by="data"), array(64, 32, by=(None, "data"))
)
def fsdp_layer(x, first, second):
    first, second = split(first), split(second)  # gathered before use
    return split(jax.nn.gelu(x @ first) @ second, "data")


@program("data=8", array(32, 16, by="data"), array(16, 32, by="data"), array(32, 16, by="data"))
def fsdp_gradient(x, first, second):
    def loss(weights):
        a, b = (split(w) for w in weights)
        return jnp.mean((jnp.tanh(x @ a) @ b - x) ** 2)

    value, (one, two) = jax.value_and_grad(loss)((first, second))
    return value, split(one, "data"), split(two, "data")


@program("data=4,model=2", *(array(16, 32, by="data") for _ in range(3)), array(32, 16, by="data"))
def optimiser_state_split(w, mean, square, x):
    gradient = split(jax.grad(lambda w: jnp.mean((x @ w) ** 2))(w), "data")
    mean = 0.9 * mean + 0.1 * gradient
    square = 0.99 * square**2 + 0.01 * gradient**2
    return w - 0.01 * mean / (jnp.sqrt(square) + 1e-3), mean, square


@program(
    "data=4,model=2",
    array(16, 8, by="data"),
    array(8, 32, by=(None, "model")),
    array(32, 8, by="model"),
)
def data_and_tensor_gradient(x, first, second):
    def loss(weights):
        hidden = jax.nn.silu(split(x @ weights[0], "data", "model"))
        return jnp.mean((split(hidden @ weights[1], "data") - x) ** 2)

    return jax.value_and_grad(loss)((first, second))
