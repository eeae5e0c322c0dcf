"""JAX programs on hloc give the answers that JAX gives on its own CPU client."""

from __future__ import annotations

import mmap
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.waiting import all_at_once

jax = pytest.importorskip("jax")
jnp = jax.numpy
lax = jax.lax

X = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)


def mlp_step(weights: Any, x: Any) -> Any:
    """One step of gradient descent."""

    def loss(weights: Any) -> Any:
        hidden = jnp.tanh(x @ weights[0])
        return ((hidden @ weights[1]) ** 2).mean()

    gradients = jax.grad(loss)(weights)
    return [w - 0.1 * g for w, g in zip(weights, gradients, strict=True)]


PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "elementwise": lambda x: jnp.tanh(x) + 1,
    "matmul": lambda x: x @ x.T,
    "gradient": jax.grad(lambda x: (x**3).sum()),
    "scan": lambda x: lax.scan(lambda c, v: (c + v, c * v), jnp.zeros(4), x),
    "cond": lambda x: lax.cond(x[0, 0] > 0, jnp.sin, jnp.cos, x),
    "while": lambda x: lax.while_loop(lambda v: v.sum() < 100, lambda v: v * 2 + 1, x),
    "vmap": lambda x: jax.vmap(lambda a, b: a @ b)(x, x),
    "sort": lambda x: jnp.sort(x[:, ::-1], axis=1),
    "fft": lambda x: jnp.fft.fft(x),
    "bfloat16": lambda x: (x.astype(jnp.bfloat16) * 2).astype(jnp.float32),
    "int4": lambda x: (jnp.arange(4, dtype=jnp.int4) + 1).astype(jnp.int32),
    "bool": lambda x: (x > 0.5, jnp.any(x > 0.5)),
    "empty": lambda x: jnp.zeros((0, 3)).sum() + x,
    "random": lambda x: jax.random.normal(jax.random.key(0), (4,)) + x,
    "training": lambda x: mlp_step([jnp.ones((4, 5)), jnp.ones((5, 2))], x),
    "solve": lambda x: jnp.linalg.solve(x[:, :3] + 3 * jnp.eye(3), x),
    "cholesky": lambda x: jnp.linalg.cholesky(x @ x.T + 3 * jnp.eye(3)),
    "eigh": lambda x: jnp.linalg.eigh(x @ x.T + 3 * jnp.eye(3))[0],
    "qr": lambda x: jnp.abs(jnp.linalg.qr(x.T)[1]),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_answers_are_those_of_xla(name: str) -> None:
    program = jax.jit(PROGRAMS[name])
    found = program(X)
    with jax.default_device(jax.devices("cpu")[0]):
        expected = program(X)
    assert {d.id for leaf in jax.tree.leaves(found) for d in leaf.devices()} == {0}
    assert "Hloc" in str(jax.tree.leaves(found)[0].devices())
    for got, wanted in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(np.asarray(got), np.asarray(wanted), 1e-5, 1e-5)


def test_negative_zero_is_kept() -> None:
    """XLA's text spells -0.0 like the integer 0, so programs travel as protos."""
    assert np.asarray(jax.jit(lambda x: x / -0.0)(np.float32(1))) == -np.inf


def test_arrays_and_types_come_back_as_they_were_put() -> None:
    for dtype in (np.int8, np.uint16, np.int32, np.float16, np.float32, np.complex64, np.bool_):
        for array in (np.ones((2, 3), dtype), np.ones((2, 3), dtype).T, np.zeros((0, 2), dtype)):
            np.testing.assert_array_equal(np.asarray(jax.device_put(array)), array)
    strided = np.arange(24, dtype=np.float32).reshape(4, 6)[::-2, ::3]
    np.testing.assert_array_equal(np.asarray(jax.device_put(strided)), strided)


def test_donated_arrays_are_deleted_and_their_memory_is_used() -> None:
    step = jax.jit(lambda x: x + 1, donate_argnums=0)
    given = jax.jit(lambda x: x * 2)(np.ones((64, 64), np.float32))
    address = given.unsafe_buffer_pointer()
    result = step(given)
    assert result.unsafe_buffer_pointer() == address
    np.testing.assert_array_equal(np.asarray(result), np.full((64, 64), 3, np.float32))
    assert given.is_deleted()
    with pytest.raises(RuntimeError, match="deleted"):
        np.asarray(given)


def test_memory_is_handed_on_from_one_queued_run_to_the_next() -> None:
    step = jax.jit(
        lambda x: lax.fori_loop(0, 100_000, lambda _, v: jnp.sin(v) + 1, x), donate_argnums=0
    )
    first = step(jax.jit(lambda x: x * 2)(X))
    expected = np.asarray(step(jax.device_put(np.asarray(first).copy()))).copy()
    given = step(jax.jit(lambda x: x * 2)(X))
    address = given.unsafe_buffer_pointer()
    for _ in range(4):
        given = step(given)
    assert not given.is_ready()
    assert given.unsafe_buffer_pointer() == address
    repeated = jnp.asarray(expected)
    for _ in range(3):
        repeated = step(repeated)
    np.testing.assert_array_equal(np.asarray(given), np.asarray(repeated))


def test_donation_writes_no_memory_that_others_see() -> None:
    step = jax.jit(lambda x: x + 1, donate_argnums=0)
    given = jax.jit(lambda x: x * 2)(np.ones((64, 64), np.float32))
    view = np.asarray(given)
    step(given)
    np.testing.assert_array_equal(view, np.full((64, 64), 2, np.float32))


@pytest.mark.parametrize("donated", [(0, 1), (0,)])
def test_an_array_that_is_donated_twice_or_used_too_is_refused(donated: tuple[int, ...]) -> None:
    step = jax.jit(lambda x, y: (x + 1, y + 2), donate_argnums=donated)
    given = jax.jit(lambda x: x * 2)(np.ones(8, np.float32))
    with pytest.raises(Exception, match="donate"):
        step(given, given)


def test_threads_run_programs_at_the_same_time() -> None:
    program = jax.jit(lambda x: lax.fori_loop(0, 50, lambda _, v: jnp.sin(v) + 1, x))
    expected = np.asarray(program(X))
    wrong: list[Any] = []

    def run(_: int) -> None:
        for _ in range(100):
            if not np.array_equal(np.asarray(program(X)), expected):
                wrong.append(1)

    all_at_once(4, run)
    assert not wrong


def test_long_runs_are_asynchronous_and_in_order() -> None:
    """The second run is slow enough to be queued; what needs its result waits for it."""
    slow = jax.jit(lambda x: lax.fori_loop(0, 300_000, lambda _, v: jnp.sin(v) + 1, x))
    first = slow(X).block_until_ready()
    second = slow(X)
    assert not second.is_ready()
    third = second + 1
    np.testing.assert_array_equal(np.asarray(third), np.asarray(first) + 1)


def test_memory_goes_back() -> None:
    device = jax.devices("hloc")[0]
    before = device.memory_stats()["bytes_in_use"]
    array = jax.jit(lambda x: x + 1)(np.zeros(1 << 20, np.float32))
    array.block_until_ready()
    assert device.memory_stats()["bytes_in_use"] - before == array.nbytes
    del array
    assert device.memory_stats()["bytes_in_use"] == before


def test_large_buffers_lie_in_large_pages() -> None:
    maps = Path("/proc/self/smaps")
    if not hasattr(mmap, "MADV_HUGEPAGE") or "VmFlags" not in maps.read_text():
        pytest.skip("the system has no transparent huge pages")
    array = jax.device_put(np.ones((5 << 20,), np.uint8))
    address, inside = array.unsafe_buffer_pointer(), False
    for line in maps.read_text().splitlines():
        if found := re.match(r"([0-9a-f]+)-([0-9a-f]+) ", line):
            inside = int(found[1], 16) <= address < int(found[2], 16)
        elif inside and line.startswith("VmFlags:"):
            assert "hg" in line.split()
            return
    raise AssertionError("no mapping holds the buffer")


def test_dlpack_shares_memory() -> None:
    array = jax.device_put(X)
    np.testing.assert_array_equal(np.from_dlpack(array), X)


def test_what_a_program_costs_comes_from_hloc() -> None:
    compiled = jax.jit(lambda x: x @ x.T).lower(X).compile()
    assert compiled.cost_analysis()["flops"] == 2 * 3 * 4 * 3
    assert compiled.memory_analysis().argument_size_in_bytes == X.nbytes


def test_subnormal_numbers_are_flushed_unless_a_program_keeps_them() -> None:
    kept = jax.jit(lambda x: x * 0.5, compiler_options={"hloc_flush_subnormals": False})
    least = np.float32(2.0**-126)
    assert jax.jit(lambda x: x * 0.5)(least) == 0
    assert np.asarray(kept(least)) == least / 2
