"""How far the results of a module move when every operation is off by one unit in the last place.

The evaluator runs the module a few times, and moves each float that an instruction
computes to a neighbour, in a random direction. Passes that reorder operations move results as far.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hloc import driver
from hloc.dtypes import Array, dtype_of_numpy
from hloc.errors import HloError
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.opcode import HostValue
from hloc.lazy_dataclass import dataclass
from hloc.report.answers import is_too_large
from hloc.report.compare import steps_apart

ALLOWED = 16.0
"""Error, in units in the last place, of one operation or of a sum in another order."""

SAME_ELEMENTS = ("bitcast", "copy", "reshape")

_NOT_ROUNDED = ("iota", "tuple", "get-tuple-element", *SAME_ELEMENTS)
_RUNS = 3

_FEWEST_BITS = 7
"""Mantissa bits of bf16: narrower types have too few neighbours to measure."""


@dataclass(frozen=True, slots=True)
class Roundings:
    """The effect of rounding alone on the results of a module, for some inputs.

    Attributes:
        spreads: by number of the float output, how many steps each element moves.
    """

    spreads: dict[int, Array]

    def forgiven(self, got: Sequence[Array], want: Sequence[Array]) -> list[Array]:
        """Return `got` with the elements of `want` where rounding explains the difference."""
        result = list(got)
        for number, spread in self.spreads.items():
            mine, right = got[number], want[number]
            if mine.shape == right.shape and mine.dtype == right.dtype:
                explained = steps_apart(mine, right) <= ALLOWED * np.maximum(spread, 1.0)
                result[number] = np.where(explained, right, mine).astype(right.dtype)
        return result


def roundings_of(module: Module, inputs: Sequence[Array], results: Sequence[Array]) -> Roundings:
    """Return the roundings of `module`; empty if the evaluator cannot run it several times.

    Args:
        module: it is not changed.
        inputs: its arguments.
        results: the evaluator's results.
    """
    if is_too_large(module):
        return Roundings({})
    try:
        return Roundings(spreads_of(module, inputs, results))
    except HloError:
        return Roundings({})


def spreads_of(
    module: Module, inputs: Sequence[Array], results: Sequence[Array]
) -> dict[int, Array]:
    """Return, by number of the float output, how many steps each element moves.

    Raises:
        HloError: the evaluator cannot run the module.
    """
    random = np.random.default_rng(0)
    moved = [_moved_results(module, inputs, random) for _ in range(_RUNS)]
    return {
        number: np.max([steps_apart(other[number], own) for other in moved], axis=0)
        for number, own in enumerate(results)
        if is_float(own) and own.size
    }


def _moved_results(
    module: Module, inputs: Sequence[Array], random: np.random.Generator
) -> list[Array]:
    """Return the results with every computed float moved to a neighbour, as rounding does.

    Integers and constants are not moved, so masks, counts and comparisons with them stay.
    """

    def moved(value: HostValue) -> HostValue:
        if isinstance(value, tuple):
            return tuple(moved(part) for part in value)
        return value if value is None else _neighbours(value, random)

    def changed(inst: Instruction, value: HostValue) -> HostValue:
        stays = inst.opcode.nop or inst.opcode.control_flow or inst.is_a(*_NOT_ROUNDED)
        return value if stays else moved(value)

    near = [_neighbours(array, random) for array in inputs]
    return driver.evaluate(module, *near, fill_constants="zeros", changed=changed)


def _neighbours(array: Array, random: np.random.Generator) -> Array:
    dtype = dtype_of_numpy(array.dtype)
    if dtype is None or not dtype.is_float or dtype.mantissa_bits < _FEWEST_BITS:
        return array
    wide = array.astype(np.float64)
    up = random.random(array.shape) < 0.5
    target = np.where(up, np.inf, -np.inf).astype(array.dtype)
    moved = np.nextafter(array, target)
    stays = ~np.isfinite(wide) | (wide == np.rint(wide)) | ~np.isfinite(moved.astype(np.float64))
    return np.where(stays, array, moved).astype(array.dtype)


def is_float(array: Array) -> bool:
    dtype = dtype_of_numpy(array.dtype)
    return dtype is not None and dtype.is_float
