"""All values of narrow types through the evaluator: cheap, and of every float type and opcode."""

from __future__ import annotations

from typing import Any

import numpy as np

from hloc.dtypes import DType
from hloc.evaluator.run import evaluate_computation
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.prove.equivalence import same_values
from hloc.shapes import ArrayShape

MAX_BITS = 17
"""Every combination is tried of parameters that together have at most this many bits."""


def parameter_bits(computation: Computation) -> int:
    """Return how many bits the parameters have together."""
    return sum(parameter.array.dtype.bits for parameter in computation.parameters)


def can_enumerate(computation: Computation) -> bool:
    """True for elementwise work on scalars, few bits of them: all run at once in one array."""
    return all(map(_works_on_scalars, computation.instructions)) and (
        parameter_bits(computation) <= MAX_BITS
    )


def _works_on_scalars(inst: Instruction) -> bool:
    known = inst.opcode.elementwise or inst.opcode.name in ("parameter", "constant")
    return known and isinstance(inst.shape, ArrayShape) and inst.shape.is_scalar


def every_value(computation: Computation) -> list[np.ndarray[Any, Any]]:
    """Return one array per parameter; together they hold every combination of values."""
    combinations = np.arange(1 << parameter_bits(computation), dtype=np.uint32)
    arrays, shift = [], 0
    for parameter in computation.parameters:
        dtype = parameter.array.dtype
        arrays.append(_as_values((combinations >> shift) & ((1 << dtype.bits) - 1), dtype))
        shift += dtype.bits
    return arrays


def _as_values(bits: np.ndarray[Any, Any], dtype: DType) -> np.ndarray[Any, Any]:
    if dtype.is_pred:
        return bits.astype(np.bool_)
    if dtype.is_integer:
        top = 1 << (dtype.bits - 1)
        number = bits.astype(np.int64)
        wrapped = np.where(number >= top, number - 2 * top, number) if dtype.is_signed else number
        return np.asarray(wrapped.astype(dtype.numpy))
    return bits.astype(f"u{dtype.storage_bytes}").view(dtype.numpy)


def first_difference(
    before: Computation, after: Computation, *, ignores_zero_sign: bool = False
) -> list[Any] | None:
    """Return the first inputs for which the scalar results differ, or None; any NaN is NaN."""
    inputs = every_value(before)
    if not inputs:
        want, got = evaluate_computation(before), evaluate_computation(after)
    else:
        want, got = (evaluate_computation(c, *inputs) for c in (before, after))
    count = len(inputs[0]) if inputs else 1
    want, got = (np.broadcast_to(np.asarray(value), count) for value in (want, got))
    differs = np.flatnonzero(~same_values(want, got, ignores_zero_sign=ignores_zero_sign))
    return [array[differs[0]] for array in inputs] if differs.size else None
