"""Check that a changed module is equivalent, on inputs that expose wrong rules."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hloc import driver
from hloc.dtypes import Array, component_of, dtype_of_numpy
from hloc.errors import HloError, printable
from hloc.ir.module import Module
from hloc.report.answers import differing
from hloc.report.inputs import parameter_leaves, random_inputs, special_inputs
from hloc.report.time_limit import TookTooLong, time_limit

SECONDS = 10.0
_SPECIAL_SEEDS = 5
_SHOWN = 6


def input_lists(module: Module, compare: str | int) -> list[list[Array]]:
    """Return inputs: random ones, special values, and a grid if results are compared in ulps."""
    found = [random_inputs(module, seed) for seed in (0, 1)]
    found += [special_inputs(module, seed) for seed in range(_SPECIAL_SEEDS)]
    if isinstance(compare, int):
        found += [_grid(module, shift) for shift in range(4)]
    return found


def _grid(module: Module, shift: int) -> list[Array]:
    """Return floats of all sizes and both signs, denser around 1, in every parameter."""
    arrays = random_inputs(module, shift)
    for i, (array, shape) in enumerate(zip(arrays, parameter_leaves(module), strict=True)):
        if shape.dtype.is_float:
            count = max(1, array.size // 2)
            small = np.geomspace(1e-12, 1e-2, count // 4 + 1)
            sizes = np.concatenate([small, np.linspace(1e-2, 12 + shift, count)])[:count]
            values = np.concatenate([sizes, -sizes, np.zeros(array.size)])[: array.size]
            arrays[i] = values.reshape(array.shape).astype(shape.dtype.numpy)
    return arrays


def counterexample(
    before: Module, after: Module, inputs: Sequence[Sequence[Array]], compare: str | int
) -> str:
    """Return the first inputs on which the results of `after` differ, "" if there are none.

    Args:
        before: the reference module.
        after: the module to check.
        inputs: lists of arrays, one per parameter leaf.
        compare: `exact` (bit by bit, any NaN for any NaN), `tolerance`, or a number of units in the
            last place.
    """
    for arrays in inputs:
        try:
            want = _evaluated(before, arrays)
        except HloError:
            continue
        try:
            got = _evaluated(after, arrays)
        except TookTooLong:
            return "the module no longer terminates"
        except HloError as fault:
            return f"the module no longer runs: {fault.message}"
        found = _difference(before, arrays, got, want, compare)
        if found:
            return found
    return ""


def _evaluated(module: Module, arrays: Sequence[Array]) -> list[Array]:
    with time_limit(SECONDS):
        return driver.evaluate(module, *arrays)


def _difference(
    module: Module,
    arrays: Sequence[Array],
    got: Sequence[Array],
    want: Sequence[Array],
    compare: str | int,
) -> str:
    if compare == "tolerance":
        return differing(got, want)
    for number, (new, old) in enumerate(zip(got, want, strict=True)):
        if new.dtype != old.dtype or new.shape != old.shape:
            return f"out{number} has another type or shape"
        wrong = _exceeds(new, old, compare) if isinstance(compare, int) else _unequal(new, old)
        if wrong.any():
            index = tuple(int(i) for i in np.argwhere(wrong)[0])
            return _counterexample_text(module, arrays, number, index, new, old)
    return ""


def _counterexample_text(
    module: Module,
    arrays: Sequence[Array],
    number: int,
    index: tuple[int, ...],
    new: Array,
    old: Array,
) -> str:
    """Return the counterexample as text."""
    place = f"out{number}[{','.join(map(str, index))}]" if index else f"out{number}"
    lines = [f"{place} is {new[index]}, was {old[index]}"]
    names = [p.name for p in module.entry.parameters]
    for i, array in enumerate(arrays):
        same = len(names) == len(arrays)
        name = printable(names[i]) if same else f"arg{i}"
        if index and array.shape == old.shape:
            lines.append(f"  there {name} is {array[index]}")
            continue
        values = ", ".join(str(v) for v in array.ravel()[:_SHOWN])
        more = ", ..." if array.size > _SHOWN else ""
        lines.append(f"  {name} is {{{values}{more}}}")
    return "\n".join(lines)


def _unequal(new: Array, old: Array) -> Array:
    """Return where the two differ; signs of zeros count, payloads of NaN do not."""
    dtype = dtype_of_numpy(old.dtype)
    assert dtype is not None
    if dtype.is_complex:
        return np.asarray(_unequal(new.real, old.real) | _unequal(new.imag, old.imag))
    if not dtype.is_float:
        return np.asarray(new != old)
    a, b = new.astype(np.float64), old.astype(np.float64)
    nans = np.isnan(a) & np.isnan(b)
    return np.asarray(((a != b) | (np.signbit(a) != np.signbit(b))) & ~nans)


def _exceeds(new: Array, old: Array, ulps: int) -> Array:
    """Return where a float is more than `ulps` units in the last place away."""
    dtype = dtype_of_numpy(old.dtype)
    assert dtype is not None
    if not dtype.is_float:
        return _unequal(new, old)
    a, b = new.astype(np.float64), old.astype(np.float64)
    mantissa = component_of(dtype).mantissa_bits
    with np.errstate(all="ignore"):
        _, exponent = np.frexp(b)
        smallest = 3 - (1 << (dtype.exponent_bits - 1))
        unit = np.ldexp(1.0, np.maximum(exponent, smallest) - 1 - mantissa)
        far = np.abs(a - b) > ulps * unit
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        return np.asarray(~same & (far | ~np.isfinite(a) | ~np.isfinite(b)))
