"""Several devices: programs are partitioned; what cannot be partitioned runs once, as a whole."""

# One line per statement, however long.
# ruff: noqa: E501

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.waiting import PATIENCE

jax = pytest.importorskip("jax")

ROOT = Path(__file__).resolve().parents[2]

HEAD = """
import jax, jax.numpy as jnp, numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
mesh = Mesh(np.array(jax.devices()).reshape(2, 4), ("i", "j"))
A = np.arange(32, dtype=np.float32).reshape(8, 4)
put = lambda spec: jax.device_put(A, NamedSharding(mesh, spec))
"""

PROGRAMS = {
    "elementwise": """
out = jax.jit(lambda v: v * 2 + 1, out_shardings=NamedSharding(mesh, P("i", "j")))(put(P("i")))
np.testing.assert_array_equal(out, A * 2 + 1)
assert [s.data.shape for s in out.addressable_shards] == [(4, 1)] * 8
""",
    "matmul and sum": """
out, total = jax.jit(lambda v, w: (v @ w.T, v.sum()))(put(P("i", "j")), put(P(None, "j")))
np.testing.assert_allclose(out, A @ A.T)
assert total == A.sum()
""",
    "results are split as the partitioner splits them": """
out = jax.jit(lambda v: jnp.sin(v) * 2)(put(P("i", "j")))
assert out.sharding.is_equivalent_to(NamedSharding(mesh, P("i", "j")), 2)
assert [s.data.shape for s in out.addressable_shards] == [(4, 1)] * 8
""",
    "parts of different sizes are replicated": """
split = lambda v: lax.with_sharding_constraint(v, NamedSharding(mesh, P("j")))
out, even = jax.jit(lambda v: (split(v[:7]) * 2, v + 1))(put(P("i")))
assert out.sharding.is_fully_replicated
np.testing.assert_array_equal(out, A[:7] * 2)
np.testing.assert_array_equal(even, A + 1)
""",
    "a callback is called once": """
seen = []
def host(v):
    seen.append(v.shape)
    return v
call = lambda v: jax.pure_callback(host, jax.ShapeDtypeStruct((8, 4), np.float32), v) * 2
np.testing.assert_array_equal(jax.jit(call)(put(P("i"))), A * 2)
assert seen == [(8, 4)]
""",
    "donation": """
given = put(P("i", "j"))
out = jax.jit(lambda v: v + 1, donate_argnums=0, out_shardings=given.sharding)(given)
np.testing.assert_array_equal(out, A + 1)
assert given.is_deleted()
""",
    "loop": """
out = jax.jit(lambda v: lax.fori_loop(0, 3, lambda i, x: x * 2, v))(put(P("j", "i")))
np.testing.assert_array_equal(out, A * 8)
""",
    "one of many": """
out = jax.device_put(A, jax.devices()[5]) + 1
assert {d.id for d in out.devices()} == {5}
np.testing.assert_array_equal(out, A + 1)
""",
    "shard_map": """
local = jax.shard_map(lambda v: lax.psum(v, "i"), mesh=mesh, in_specs=P("i"), out_specs=P())
np.testing.assert_array_equal(local(put(P("i"))), A[:4] + A[4:])
""",
    "shard_map inside of a program": """
def f(v):
    moved = lambda x: lax.ppermute(x, "j", [(k, (k + 1) % 4) for k in range(4)])
    ring = jax.shard_map(moved, mesh=mesh, in_specs=P("i", "j"), out_specs=P("i", "j"))
    return ring(v * 2).sum(), ring(v)
total, out = jax.jit(f)(put(P("i", "j")))
assert total == 2 * A.sum()
np.testing.assert_array_equal(out, np.roll(A, 1, axis=1))
assert [s.data.shape for s in out.addressable_shards] == [(4, 1)] * 8
""",
    "gradient of a shard_map": """
loss = jax.shard_map(lambda v: lax.psum((v ** 2).sum(), ("i", "j")), mesh=mesh, in_specs=P("i", "j"), out_specs=P())
np.testing.assert_allclose(jax.jit(jax.grad(loss))(put(P("i", "j"))), 2 * A)
""",
    "axis index": """
out = jax.shard_map(lambda: lax.axis_index(("i", "j")).reshape(1, 1), mesh=mesh, in_specs=(), out_specs=P("i", "j"))()
np.testing.assert_array_equal(out, np.arange(8).reshape(2, 4))
""",
    "pmap": """
out = jax.pmap(lambda v: v - lax.pmean(v, "b"), axis_name="b")(A)
np.testing.assert_allclose(out, A - A.mean(0), rtol=1e-6)
""",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_eight_devices_give_the_answers_of_one(name: str) -> None:
    environment = {
        **os.environ,
        "JAX_PLATFORMS": "hloc,cpu",
        "HLOC_DEVICES": "8",
        "PYTHONPATH": str(ROOT),
    }
    done = subprocess.run(
        [sys.executable, "-c", HEAD + PROGRAMS[name]],
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
