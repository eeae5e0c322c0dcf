"""A small network that tells three spiral arms apart; its weights are constants of the module.

Trains for a moment and writes `classifier.hlo` beside this file. Needs `pip install -e '.[jax]'`;
the C program needs neither this file nor JAX.
"""

from pathlib import Path

import jax
import jax.numpy as jnp

POINTS, CLASSES, HIDDEN, STEPS, RATE = 4, 3, 16, 3000, 0.05

Params = list[tuple[jax.Array, jax.Array]]


def spirals(count: int) -> tuple[jax.Array, jax.Array]:
    """Return points f32[3*count,2] on three arms, and the arm of each."""
    radius = jnp.tile(jnp.linspace(0.1, 1.0, count), CLASSES)
    arm = jnp.repeat(jnp.arange(CLASSES), count)
    angle = 4.0 * radius + 2.0 * jnp.pi / CLASSES * arm
    return jnp.stack([radius * jnp.cos(angle), radius * jnp.sin(angle)], axis=1), arm


def logits(params: Params, x: jax.Array) -> jax.Array:
    """Return f32[n,3] for points f32[n,2]."""
    for matrix, bias in params[:-1]:
        x = jnp.tanh(x @ matrix + bias)
    matrix, bias = params[-1]
    return x @ matrix + bias


def trained() -> Params:
    """Return the parameters after training."""
    x, arm = spirals(100)
    sizes = [2, HIDDEN, HIDDEN, CLASSES]
    keys = jax.random.split(jax.random.key(0), len(sizes) - 1)
    params = [
        (jax.random.normal(k, (m, n)) / jnp.sqrt(m), jnp.zeros(n))
        for k, m, n in zip(keys, sizes[:-1], sizes[1:], strict=True)
    ]

    def loss(params: Params) -> jax.Array:
        chosen = jnp.take_along_axis(jax.nn.log_softmax(logits(params, x)), arm[:, None], axis=1)
        return -jnp.mean(chosen)

    @jax.jit
    def step(params: Params, velocity: Params) -> tuple[Params, Params]:
        gradients = jax.grad(loss)(params)
        velocity = jax.tree.map(lambda v, g: 0.9 * v - RATE * g, velocity, gradients)
        return jax.tree.map(jnp.add, params, velocity), velocity

    velocity = jax.tree.map(jnp.zeros_like, params)
    for _ in range(STEPS):
        params, velocity = step(params, velocity)
    return params


def main() -> None:
    params = trained()

    def classifier(points: jax.Array) -> tuple[jax.Array, jax.Array]:
        scores = logits(params, points)
        return jax.nn.softmax(scores), jnp.argmax(scores, axis=1).astype(jnp.int32)

    lowered = jax.jit(classifier).lower(jnp.zeros((POINTS, 2)))
    text = lowered.compiler_ir("hlo").as_hlo_text(print_large_constants=True)
    path = Path(__file__).resolve().with_name("classifier.hlo")
    path.write_text(text.replace(f"{path.parent}/", ""))
    print(f"{path.name}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
