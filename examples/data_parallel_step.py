"""A step of training with the batch split over eight devices; every device has all parameters.

Each device computes the gradients of its four examples; one all-reduce per parameter adds them, and
every device makes the same update.
"""

import jax
import jax.numpy as jnp
import jax_sharded_dump
from jax.sharding import PartitionSpec as P

BATCH, FEATURES, HIDDEN, CLASSES = 32, 12, 24, 5
LEARNING_RATE = 0.1


def loss(
    first: jax.Array, bias: jax.Array, second: jax.Array, x: jax.Array, labels: jax.Array
) -> jax.Array:
    """Return the mean cross-entropy of x f32[32,12] against labels s32[32]."""
    logits = jax.nn.relu(x @ first + bias) @ second
    chosen = jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], axis=1)
    return -jnp.mean(chosen)


def step(
    first: jax.Array, bias: jax.Array, second: jax.Array, x: jax.Array, labels: jax.Array
) -> tuple[jax.Array, ...]:
    """Return the three parameters after a step of gradient descent, and the loss before it."""
    value, gradients = jax.value_and_grad(loss, (0, 1, 2))(first, bias, second, x, labels)
    pairs = zip((first, bias, second), gradients, strict=True)
    return *(p - LEARNING_RATE * g for p, g in pairs), value


if __name__ == "__main__":
    keys = jax.random.split(jax.random.key(0), 4)
    jax_sharded_dump.dump(
        "data_parallel_step",
        {"data": 8},
        step,
        (jax.random.normal(keys[0], (FEATURES, HIDDEN)) * 0.3, P()),
        (jnp.zeros(HIDDEN), P()),
        (jax.random.normal(keys[1], (HIDDEN, CLASSES)) * 0.3, P()),
        (jax.random.normal(keys[2], (BATCH, FEATURES)), P("data")),
        (jax.random.randint(keys[3], (BATCH,), 0, CLASSES), P("data")),
    )
