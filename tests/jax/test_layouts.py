"""Arrays in other orders of dimensions and other kinds of memory, as JAX asks for them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


def formats(*order: int) -> Any:
    from jax.experimental.layout import Format, Layout

    return Format(Layout(order), jax.sharding.SingleDeviceSharding(jax.devices("hloc")[0]))


def test_an_array_is_put_and_fetched_in_its_layout() -> None:
    array = jax.device_put(X, formats(2, 0, 1))
    assert array.format.layout.major_to_minor == (2, 0, 1)
    np.testing.assert_array_equal(np.asarray(array), X)
    np.testing.assert_array_equal(np.asarray(array + 1), X + 1)


def test_results_lie_as_the_program_says() -> None:
    program = jax.jit(lambda v: (v * 2, v.sum(0)), out_shardings=(formats(1, 2, 0), None))
    found, total = program(X)
    assert found.format.layout.major_to_minor == (1, 2, 0)
    np.testing.assert_array_equal(np.asarray(found), X * 2)
    np.testing.assert_array_equal(np.asarray(total), X.sum(0))
    memory = np.asarray(found).transpose(1, 2, 0)
    assert memory.flags.c_contiguous


def test_arguments_in_another_layout_are_taken_as_they_lie() -> None:
    program = jax.jit(lambda v: (v.sum(0), v), in_shardings=formats(2, 1, 0))
    total, same = program(jax.device_put(X, formats(2, 1, 0)))
    np.testing.assert_array_equal(np.asarray(total), X.sum(0))
    np.testing.assert_array_equal(np.asarray(same), X)


def test_a_compiled_program_tells_its_layouts() -> None:
    from jax.experimental.layout import Format, Layout

    automatic = Format(Layout.AUTO, jax.sharding.SingleDeviceSharding(jax.devices("hloc")[0]))
    lowered = jax.jit(lambda v: v + 1, in_shardings=automatic, out_shardings=automatic).lower(
        jax.ShapeDtypeStruct(X.shape, X.dtype)
    )
    compiled = lowered.compile()
    assert compiled.output_formats.layout.major_to_minor == (0, 1, 2)


@pytest.mark.parametrize("kind", ["pinned_host", "unpinned_host"])
def test_arrays_lie_in_the_requested_memory(kind: str) -> None:
    device = jax.devices("hloc")[0]
    assert [memory.kind for memory in device.addressable_memories()][:1] == ["device"]
    sharding = jax.sharding.SingleDeviceSharding(device, memory_kind=kind)
    put = jax.device_put(X, sharding)
    made = jax.jit(lambda v: v + 1, out_shardings=sharding)(X)
    assert put.sharding.memory_kind == made.sharding.memory_kind == kind
    np.testing.assert_array_equal(np.asarray(made), X + 1)
    back = jax.device_put(put, jax.sharding.SingleDeviceSharding(device))
    assert back.sharding.memory_kind == "device"
    np.testing.assert_array_equal(np.asarray(back), X)


def test_results_are_row_major_unless_asked() -> None:
    """The conversion from StableHLO gives transposes the layout that moves no data."""
    for program in (lambda v: v.transpose(1, 2, 0), lambda v: (v.T, v.swapaxes(0, 1), v, v.T)):
        for found in jax.tree.leaves(jax.jit(program)(X)):
            assert found.format.layout.major_to_minor == (0, 1, 2)
            np.testing.assert_array_equal(np.asarray(found + 0), np.asarray(found))
    np.testing.assert_array_equal(np.asarray(jax.jit(lambda v: v.T)(X)), X.T)
