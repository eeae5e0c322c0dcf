"""Six programs whose dumps by XLA:CPU (JAX 0.10.2) are in the folders beside this file.

    python tests/golden/dumps/programs.py [NAME ...]

runs each in a process of its own with XLA_FLAGS="--xla_dump_to=NAME --xla_dump_hlo_as_text" and
keeps of its dump the modules before and after, and XLA's reports of memory. Of `cluster` it keeps
the modules that its passes changed as well.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType
from jax.sharding import PartitionSpec as P
from ml_dtypes import bfloat16

HERE = Path(__file__).resolve().parent
DEVICES = 4


def convolve() -> None:
    """One training step of a convolutional network; the weights are donated."""

    def loss(weights: Any, images: Any, labels: Any) -> Any:
        x = jax.lax.conv_general_dilated(
            images, weights["filter"], (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
        mean = jnp.mean(x, (0, 1, 2))
        x = (x - mean) * jax.lax.rsqrt(jnp.var(x, (0, 1, 2)) + 1e-5) * weights["scale"]
        x = jax.lax.reduce_window(
            jax.nn.relu(x), -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID"
        )
        logits = x.reshape(x.shape[0], -1) @ weights["dense"]
        return -jnp.mean(jnp.sum(jax.nn.log_softmax(logits) * labels, -1))

    def step(weights: Any, images: Any, labels: Any) -> Any:
        value, gradients = jax.value_and_grad(loss)(weights, images, labels)
        return jax.tree.map(lambda w, g: w - 0.1 * g, weights, gradients), value

    weights = {
        "filter": np.ones((3, 3, 4, 8), np.float32),
        "scale": np.ones(8, np.float32),
        "dense": np.ones((4 * 4 * 8, 10), np.float32),
    }
    jax.jit(step, donate_argnums=0)(
        weights, np.ones((16, 8, 8, 4), np.float32), np.ones((16, 10), np.float32)
    )


def attend() -> None:
    """A block of a transformer in bf16: table, two norms, causal attention, two dense layers."""

    def norm(x: Any) -> Any:
        wide = x.astype(jnp.float32)
        return (wide * jax.lax.rsqrt(jnp.mean(wide * wide, -1, keepdims=True) + 1e-6)).astype(
            x.dtype
        )

    def block(table: Any, qkv: Any, out: Any, up: Any, down: Any, tokens: Any) -> Any:
        x = table[tokens]
        q, k, v = jnp.split((norm(x) @ qkv).reshape(*tokens.shape, 4, 24), 3, -1)
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) * 0.35
        scores = jnp.where(jnp.tril(jnp.ones(scores.shape[-2:], bool)), scores, -1e9)
        mixed = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), v)
        x = x + mixed.reshape(x.shape) @ out
        return x + jax.nn.gelu(norm(x) @ up) @ down

    def weights(*dimensions: int) -> Any:
        return np.ones(dimensions, bfloat16)

    tokens = np.zeros((2, 16), np.int32)
    jax.jit(block)(
        weights(100, 32), weights(32, 96), weights(32, 32), weights(32, 64), weights(64, 32), tokens
    )


def cluster() -> None:
    """K-means until no point moves: a loop that ends by its data, with a scatter."""

    def fit(points: Any, first: Any) -> Any:
        def nearest(centres: Any) -> Any:
            return jnp.argmin(jnp.sum((points[:, None] - centres) ** 2, -1), -1)

        def step(state: Any) -> Any:
            centres, owners, _ = state
            sums = jax.ops.segment_sum(points, owners, len(centres))
            counts = jax.ops.segment_sum(jnp.ones(len(points)), owners, len(centres))
            centres = sums / jnp.maximum(counts, 1)[:, None]
            found = nearest(centres)
            return centres, found, jnp.any(found != owners)

        return jax.lax.while_loop(
            lambda state: state[2], step, (first, nearest(first), jnp.array(True))
        )

    points = np.arange(400, dtype=np.float32).reshape(100, 4) % 17
    jax.jit(fit)(points, points[:5])


def track() -> None:
    """A Kalman filter: Cholesky factors and triangular solves of LAPACK in a loop."""

    def track(measured: Any, motion: Any, seen: Any) -> Any:
        def step(state: Any, z: Any) -> Any:
            x, p = state
            x, p = motion @ x, motion @ p @ motion.T + jnp.eye(6)
            factor = jax.scipy.linalg.cho_factor(seen @ p @ seen.T + jnp.eye(3))
            gain = jax.scipy.linalg.cho_solve(factor, seen @ p).T
            return (x + gain @ (z - seen @ x), p - gain @ seen @ p), x

        return jax.lax.scan(step, (jnp.zeros(6), jnp.eye(6)), measured)

    jax.jit(track)(
        np.ones((20, 3), np.float32), np.eye(6, dtype=np.float32), np.ones((3, 6), np.float32)
    )


def exchange() -> None:
    """Four devices: gathered weights, a summed and scattered gradient, a ring, a transposition."""

    def step(weights: Any, x: Any) -> Any:
        whole = jax.lax.all_gather(weights, "d", tiled=True)
        y = jnp.tanh(x @ whole)
        gradient = jax.lax.psum_scatter(x.T @ y, "d", tiled=True)
        ring = jax.lax.ppermute(y, "d", [(i, (i + 1) % DEVICES) for i in range(DEVICES)])
        return weights - 0.1 * gradient, ring, jax.lax.all_to_all(y, "d", 1, 0, tiled=True)

    mesh = jax.make_mesh((DEVICES,), ("d",), axis_types=(AxisType.Auto,))
    split = jax.shard_map(step, mesh=mesh, in_specs=P("d"), out_specs=P("d"))
    jax.jit(split)(np.ones((32, 16), np.float32), np.ones((16, 32), np.float32))


def select() -> None:
    """Sorting, the largest values, a Fourier transform, random bits, a branch, a large constant."""
    window = np.hanning(4096).astype(np.float32)

    def select(signal: Any, key: Any, loud: Any) -> Any:
        power = jnp.abs(jnp.fft.rfft(signal * window)) ** 2
        values, places = jax.lax.top_k(power, 8)
        noise = jax.random.normal(key, (64,))
        ranks = jnp.argsort(noise)
        level = jax.lax.cond(loud, lambda: jnp.sum(values), lambda: jnp.max(values))
        return jnp.cumsum(noise[ranks]) * level, places

    jax.jit(select)(np.ones(4096, np.float32), np.zeros(2, np.uint32), np.bool_(True))


PROGRAMS = {
    program.__name__: program for program in (convolve, attend, cluster, track, exchange, select)
}
_KEPT = re.compile(
    r"\.(before_optimizations|cpu_after_optimizations|cpu_after_optimizations-(buffer-assignment"
    r"|live-range|memory-usage-report))\.txt$"
)


def dump(name: str) -> None:
    """Run the program `name` and keep of its dump what the module's docstring says."""
    with tempfile.TemporaryDirectory() as folder:
        flags = f"--xla_dump_to={folder} --xla_dump_hlo_as_text"
        flags += f" --xla_force_host_platform_device_count={DEVICES}"
        if name == "cluster":
            flags += " --xla_dump_hlo_pass_re=.*"
        environment = {**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
        subprocess.run([sys.executable, __file__, "--run", name], env=environment, check=True)
        shutil.rmtree(HERE / name, ignore_errors=True)
        (HERE / name).mkdir()
        before = ""
        for file in sorted(Path(folder).glob("*.txt")):
            text = file.read_text().replace(f"{HERE}/", "")
            changed = ".after_" in file.name and text != before
            before = text if changed else before
            if changed or _KEPT.search(file.name):
                (HERE / name / file.name).write_text(text)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--run"]:
        PROGRAMS[sys.argv[2]]()
    else:
        for name in sys.argv[1:] or PROGRAMS:
            dump(name)
