"""Seeded inputs for any module: ordinary numbers, some special ones, and indices that are near."""

from typing import Any

import numpy as np

from hloc.dtypes import DType
from hloc.ir.module import Module
from hloc.shapes import ArrayShape, leaves

Array = np.ndarray[Any, np.dtype[Any]]


def inputs_for(module: Module, seed: int = 0, *, special: bool = True) -> list[Array]:
    """Return one array per leaf of the entry's parameters.

    Floats are spread around 0, with a zero of each sign, an infinity and a NaN in larger arrays if
    `special`; integers are small, so that they are good as indices.
    """
    random = np.random.default_rng(seed)
    found: list[Array] = []
    for parameter in module.entry.parameters:
        for _, leaf in leaves(parameter.shape):
            assert isinstance(leaf, ArrayShape)
            if not leaf.dtype.is_special:
                found.append(_array(leaf.dtype, leaf.dims, random, special))
    return found


def _array(
    dtype: DType, dims: tuple[int, ...], random: np.random.Generator, special: bool
) -> Array:
    if dtype.is_pred:
        return np.asarray(random.integers(0, 2, dims)).astype(np.bool_)
    if dtype.is_integer:
        low, high = (-4, 7) if dtype.is_signed else (0, 7)
        if dtype.bits < 8:
            low, high = max(low, -(2 ** (dtype.bits - 1))), min(high, 2 ** (dtype.bits - 1))
        return np.asarray(random.integers(low, high, dims)).astype(dtype.numpy)
    values = np.asarray(random.normal(0.0, 1.0, dims))
    if dtype.is_complex:
        return np.asarray(values + 1j * random.normal(0.0, 1.0, dims)).astype(dtype.numpy)
    if special and dtype.exponent_bits >= 5 and values.size >= 4:
        values.reshape(-1)[:4] = [0.0, -0.0, np.inf, np.nan]
    return values.astype(dtype.numpy)
