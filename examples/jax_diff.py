"""From a JAX function to what each pass changes: `python examples/jax_diff.py`."""

import jax
import jax.numpy as jnp

import hloc


def loss(w, x):
    return jnp.mean(jax.nn.softmax(x @ w) ** 2)


w, x = jnp.ones((8, 4)), jnp.linspace(0.0, 1.0, 24).reshape(3, 8)
program = hloc.from_jax(jax.grad(loss), w, x)

print("What the algebraic simplifier changes:")
print(program.diff("algsimp"))
print("\nWhat the buffers of the compiled program take:")
print(program.memory().partition("\n  1 results")[0])
print("\nThe same answer as XLA:", jnp.allclose(program(w, x), jax.grad(loss)(w, x), atol=1e-6))
