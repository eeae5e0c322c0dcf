"""Arrays between JAX and hloc's machine code, without copies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from hloc.dtypes import Array
from hloc.jax.installed import jax_package

_CPU = 1  # kDLCPU


def to_arguments(dtypes: Sequence[np.dtype[Any]]) -> Callable[[Sequence[Any]], Sequence[Any]]:
    """Return a function that converts leaves of JAX to arguments of an executable.

    Arrays of JAX and NumPy are not copied. An array of another type than JAX traced, such as f64
    without x64, is converted as JAX does; typed random keys become their key data.
    """

    def arguments(leaves: Sequence[Any]) -> Sequence[Any]:
        for leaf, dtype in zip(leaves, dtypes, strict=True):
            if getattr(leaf, "dtype", dtype) is not dtype and leaf.dtype != dtype:
                return [_converted(*pair) for pair in zip(leaves, dtypes, strict=True)]
        return leaves

    return arguments


def _converted(leaf: Any, dtype: np.dtype[Any]) -> Any:
    if not hasattr(leaf, "dtype") or leaf.dtype == dtype:
        return leaf
    if _is_key(leaf.dtype):
        return jax_package("hloc.jit").random.key_data(leaf)
    return np.asarray(leaf).astype(dtype)


def from_numpy(result: Any) -> Callable[[Array], Any]:
    """Return a function that converts hloc's array to the JAX array that `result` describes."""
    jax = jax_package("hloc.jit")
    if _is_key(result.dtype):
        impl = result.dtype._impl.name  # JAX has no public name for it
        return lambda array: jax.random.wrap_key_data(jax.device_put(array, _device()), impl=impl)
    if result.dtype.kind not in "fiubc" or not result.size:  # NumPy has no DLPack for bfloat16
        return lambda array: jax.device_put(array, _device())
    from jaxlib._jax import dlpack_managed_tensor_to_buffer as buffer_of

    device = _device()
    return lambda array: buffer_of(array.__dlpack__(), device, None, None, _CPU)


def _is_key(dtype: Any) -> bool:
    dtypes = jax_package("hloc.jit").dtypes
    return bool(dtypes.issubdtype(dtype, dtypes.extended))


@cache
def _device() -> Any:
    """Return JAX's own CPU device."""
    return jax_package("hloc.jit").devices("cpu")[0]
