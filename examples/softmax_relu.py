"""softmax(relu(x @ w + b)): the small program that the documentation takes apart.

Besides the usual three files, writes the same program in XLA's two other spellings:
`softmax_relu.default.hlo` (before optimisation, the default print: percent signs, typed
operands, metadata) and `softmax_relu.optimized.hlo` (after XLA:CPU's own passes).
"""

import jax
import jax.numpy as jnp
from jax_dump import dump, write_text

BATCH, FEATURES, CLASSES = 16, 32, 64


def softmax_relu(x: jax.Array, w: jax.Array, b: jax.Array) -> jax.Array:
    """Return f32[16,64] for x f32[16,32], w f32[32,64], b f32[64]."""
    return jax.nn.softmax(jax.nn.relu(x @ w + b))


if __name__ == "__main__":
    x_key, w_key = jax.random.split(jax.random.key(3))
    arguments = (
        jax.random.normal(x_key, (BATCH, FEATURES)),
        jax.random.normal(w_key, (FEATURES, CLASSES)) * FEATURES**-0.5,
        jnp.linspace(-1.0, 1.0, CLASSES),
    )
    dump("softmax_relu", softmax_relu, *arguments)

    lowered = jax.jit(softmax_relu).lower(*arguments)
    default = lowered.compiler_ir("hlo").as_hlo_module().to_string()
    write_text("softmax_relu.default.hlo", default)
    write_text("softmax_relu.optimized.hlo", lowered.compile().as_text())
