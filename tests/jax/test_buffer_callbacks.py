"""Python functions that write their results in place (`jax.experimental.buffer_callback`)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")
buffer_callback = pytest.importorskip("jax.experimental.buffer_callback").buffer_callback

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def like(array: Any) -> Any:
    return jax.ShapeDtypeStruct(array.shape, array.dtype)


def test_the_function_writes_its_results() -> None:
    def both(_context: Any, out: Any, a: Any, b: Any) -> None:
        np.asarray(out["sum"])[...] = np.asarray(a) + np.asarray(b)
        np.asarray(out["rows"])[...] = np.asarray(a).sum(1)

    shapes = {"sum": like(X), "rows": jax.ShapeDtypeStruct((2,), np.float32)}
    found = jax.jit(lambda a: buffer_callback(both, shapes)(a * 2, a))(X)
    np.testing.assert_array_equal(found["sum"], 3 * X)
    np.testing.assert_array_equal(found["rows"], (2 * X).sum(1))


def test_operands_are_read_only_and_the_context_is_that_of_a_cpu() -> None:
    seen: list[Any] = []

    def look(context: Any, out: Any, a: Any) -> None:
        with pytest.raises(ValueError, match="read-only"):
            np.asarray(a)[...] = 0
        with pytest.raises(jax.errors.JaxRuntimeError, match="GPU context is not available"):
            _ = context.stream
        seen.append((context.stage.name, a.shape, a.ndim, a.dtype, a.writeable, out.writeable))

    jax.block_until_ready(jax.jit(buffer_callback(look, like(X)))(X))
    assert seen == [("EXECUTE", (2, 3), 2, np.float32, False, True)]


def test_a_result_may_lie_in_an_operand() -> None:
    def add_one(_context: Any, out: Any, a: Any) -> None:
        assert np.asarray(out).ctypes.data == np.asarray(a).ctypes.data
        np.asarray(out)[...] += 1

    fun = buffer_callback(add_one, like(X), input_output_aliases={0: 0})
    x = jax.numpy.asarray(X)
    np.testing.assert_array_equal(jax.jit(fun)(x), X + 1)
    np.testing.assert_array_equal(x, X)  # the argument keeps its value


def test_an_exception_and_a_returned_value_are_errors_of_jax() -> None:
    def fails(*_: Any) -> None:
        raise ValueError("no such row")

    for function, words in ((fails, "no such row"), (lambda *_: 1, "must not return any values")):
        with pytest.raises(jax.errors.JaxRuntimeError, match=words):
            jax.block_until_ready(jax.jit(buffer_callback(function, like(X)))(X))
