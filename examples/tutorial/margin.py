"""The program of docs/tutorial.md: how sure a classifier is of its answers, before and after.

`python examples/tutorial/margin.py` writes what JAX hands to its compiler for both functions, as
`margin.hlo` and `faster.hlo`.
"""

from pathlib import Path

import jax
import jax.numpy as jnp


def margin(x, w, b):
    """Return the best probability of each row less the second best."""
    p = jax.nn.softmax(x @ w + b)
    ranked = jnp.sort(p, axis=-1)
    return ranked[:, -1] - ranked[:, -2]


def faster(x, w, b):
    """Return the same; the two best of a row need no sorted row."""
    p = jax.nn.softmax(x @ w + b)
    best, _ = jax.lax.top_k(p, 2)
    return best[:, 0] - best[:, 1]


SHAPES = [jax.ShapeDtypeStruct(dims, jnp.float32) for dims in ((256, 64), (64, 1000), (1000,))]

if __name__ == "__main__":
    jax.config.update("jax_hlo_source_file_canonicalization_regex", ".*/")  # names without folders
    for function in (margin, faster):
        text = jax.jit(function).lower(*SHAPES).as_text("hlo", debug_info=True)
        Path(__file__).with_name(f"{function.__name__}.hlo").write_text(text)
