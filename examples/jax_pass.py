"""A pass of one's own inside JAX, XLA's example (sine to cosine): `python examples/jax_pass.py`."""

import jax
import jax.numpy as jnp

import hloc.jax
from hloc.opt import any_, ops, rule


@rule(ops.sine(any_("x")), exact="approximate")
def sine_to_cosine(m, b):
    """sin(x) -> cos(x)."""
    return b.cosine(m.x)


f = jax.jit(lambda x: jnp.sin(x) * 2)
x = jnp.zeros(3)
print("outside:", f(x))
with hloc.jax.passes(sine_to_cosine) as scope:
    print("inside: ", f(x))
print("outside:", f(x))
print(*scope.modules, sep="\n")
