"""Programs that call Python, and executables as bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")
pytest.importorskip("jax.experimental")
jnp = jax.numpy

X = np.arange(4, dtype=np.float32)


def test_pure_callback_takes_and_gives_arrays() -> None:
    def both(a: Any, b: Any) -> Any:
        return np.asarray(a) + b, np.asarray(a).sum()

    shapes = (jax.ShapeDtypeStruct((4,), np.float32), jax.ShapeDtypeStruct((), np.float32))
    found = jax.jit(lambda a: jax.pure_callback(both, shapes, a, 2 * a))(X)
    np.testing.assert_array_equal(found[0], 3 * X)
    assert found[1] == 6


def test_a_callback_may_keep_its_arguments() -> None:
    kept: list[Any] = []

    def keep(value: Any) -> Any:
        kept.append(value)
        return value

    program = jax.jit(lambda x: jax.pure_callback(keep, x, x * 2))
    for i in range(5):
        program(X + i)
    for i, array in enumerate(kept):
        np.testing.assert_array_equal(np.asarray(array), 2 * (X + i))


def test_ordered_callbacks_run_in_their_order() -> None:
    seen: list[float] = []

    def see(x: Any) -> Any:
        jax.experimental.io_callback(lambda v: seen.append(float(v)), None, x, ordered=True)
        return x + 1

    def program(x: Any) -> Any:
        return jax.lax.fori_loop(0, 3, lambda _, v: see(v), see(see(x)))

    assert jax.jit(program)(np.float32(1)) == 6
    jax.effects_barrier()
    assert seen == [1, 2, 3, 4, 5]


def test_debug_print_prints(capsys: pytest.CaptureFixture[str]) -> None:
    jax.jit(lambda x: jax.debug.print("x is {x}", x=x))(np.float32(3))
    jax.effects_barrier()
    assert "x is 3.0" in capsys.readouterr().out


def test_an_exception_becomes_an_error_of_jax() -> None:
    def fails(_: Any) -> Any:
        raise ValueError("no such row")

    program = jax.jit(lambda x: jax.pure_callback(fails, x, x))
    with pytest.raises(jax.errors.JaxRuntimeError, match="ValueError: no such row"):
        program(X).block_until_ready()
    np.testing.assert_array_equal(jax.jit(lambda x: x + 1)(X), X + 1)  # the next run is well


def test_a_callback_may_run_programs_with_callbacks() -> None:
    def outer(x: Any) -> Any:
        return np.asarray(jax.jit(lambda v: jax.pure_callback(lambda a: a + 1, v, v))(x)) * 2

    found = jax.jit(lambda x: jax.pure_callback(lambda a: a - 1, x, jax.pure_callback(outer, x, x)))
    np.testing.assert_array_equal(found(X), 2 * X + 1)


def test_results_in_another_order_keep_their_memory() -> None:
    """A result that the program leaves transposed is copied; the copy must not be freed before."""
    for dtype in (np.float32, np.float16):
        x = np.arange(100, dtype=dtype).reshape(2, 5, 2, 5)
        found = jax.jit(lambda a: jnp.transpose(a, (3, 0, 2, 1)))(x)
        np.testing.assert_array_equal(found, x.transpose(3, 0, 2, 1))


def test_an_executable_travels_as_bytes() -> None:
    from jax.experimental import serialize_executable

    compiled = jax.jit(lambda x: {"y": x * 2}).lower(X).compile()
    data, *trees = serialize_executable.serialize(compiled)
    devices = jax.devices("hloc")
    loaded = serialize_executable.deserialize_and_load(
        data, *trees, backend="hloc", execution_devices=devices[:1]
    )
    np.testing.assert_array_equal(loaded(X)["y"], 2 * X)


def test_bytes_of_something_else_are_no_executable() -> None:
    from hloc.pjrt.native import PjrtError
    from hloc.pjrt.serialise import deserialized, serialized

    data = serialized(b"proto", b"options")
    assert deserialized(data) == (b"proto", b"options")
    for wrong in (b"", b"ELF", data[:-1], data[:-9]):
        with pytest.raises(PjrtError, match="not an executable serialized by hloc"):
            deserialized(wrong)
