"""The program whose dump by XLA:CPU (JAX 0.10.2) is in train/; tests and docs/dumps.md show it.

Run here with XLA_FLAGS="--xla_dump_to=train --xla_dump_hlo_pass_re=.* --xla_dump_hlo_as_text
--xla_force_host_platform_device_count=2". Kept of it are the modules before and after, XLA's
reports of memory, and of the first module what passes changed.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec

TABLE = np.arange(64 * 64, dtype=np.float32).reshape(64, 64)


def smooth(xs: Any) -> Any:
    """A loop, and a constant of 16 KiB."""

    def step(h: Any, x: Any) -> Any:
        h = jnp.tanh(TABLE @ h + x)
        return h, h.astype(jnp.bfloat16)

    return jax.lax.scan(step, jnp.zeros(64), xs)


def scores(q: Any, k: Any) -> Any:
    """Products that want other layouts than they get."""
    s = jnp.einsum("bqhd,bkhd->bhqk", q, k)
    return jax.nn.softmax(s, axis=-1)


def loss(w: Any, x: Any) -> Any:
    """Summed over two devices."""
    return jnp.sum(jnp.tanh(x @ w))


jax.jit(smooth)(np.ones((8, 64), np.float32))
for length in (16, 24):
    heads = np.ones((2, length, 4, 8), np.float32)
    jax.jit(scores)(heads, heads)
mesh = jax.make_mesh((2,), ("d",), axis_types=(AxisType.Auto,))
rows = NamedSharding(mesh, PartitionSpec("d"))
columns = NamedSharding(mesh, PartitionSpec(None, "d"))
w = jax.device_put(np.ones((16, 8), np.float32), rows)
jax.jit(loss)(w, jax.device_put(np.ones((4, 16), np.float32), columns))
