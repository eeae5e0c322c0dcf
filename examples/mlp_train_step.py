"""One training step of a multilayer perceptron: forward, loss, gradients, SGD update.

Three dense layers with relu, softmax cross-entropy against integer labels, weight decay on
the matrices. The result holds the new parameters and the loss.
"""

import jax
import jax.numpy as jnp
from jax_dump import dump

BATCH, FEATURES, HIDDEN, CLASSES = 16, 20, 64, 10
LEARNING_RATE = 0.05
WEIGHT_DECAY = 1e-3

Params = list[tuple[jax.Array, jax.Array]]


def init(key: jax.Array) -> Params:
    """Return three layers (matrix, bias), e.g. f32[20,64] and f32[64] for the first."""
    sizes = [FEATURES, HIDDEN, HIDDEN, CLASSES]
    keys = jax.random.split(key, len(sizes) - 1)
    return [
        (jax.random.normal(k, (m, n)) * jnp.sqrt(2.0 / m), jnp.full((n,), 0.01))
        for k, m, n in zip(keys, sizes[:-1], sizes[1:], strict=True)
    ]


def predict(params: Params, x: jax.Array) -> jax.Array:
    """Return the logits f32[16,10] for x f32[16,20]."""
    for matrix, bias in params[:-1]:
        x = jax.nn.relu(x @ matrix + bias)
    matrix, bias = params[-1]
    return x @ matrix + bias


def loss(params: Params, x: jax.Array, labels: jax.Array) -> jax.Array:
    """Return mean cross-entropy plus weight decay."""
    log_probs = jax.nn.log_softmax(predict(params, x))
    chosen = jnp.take_along_axis(log_probs, labels[:, None], axis=1)
    decay = sum(jnp.sum(jnp.square(matrix)) for matrix, _ in params)
    return -jnp.mean(chosen) + WEIGHT_DECAY * decay


def train_step(params: Params, x: jax.Array, labels: jax.Array) -> tuple[Params, jax.Array]:
    """Return the parameters after one step of gradient descent, and the loss before it."""
    value, gradients = jax.value_and_grad(loss)(params, x, labels)
    updated = jax.tree.map(lambda p, g: p - LEARNING_RATE * g, params, gradients)
    return updated, value


if __name__ == "__main__":
    init_key, x_key, label_key = jax.random.split(jax.random.key(0), 3)
    dump(
        "mlp_train_step",
        train_step,
        init(init_key),
        jax.random.normal(x_key, (BATCH, FEATURES)),
        jax.random.randint(label_key, (BATCH,), 0, CLASSES),
    )
