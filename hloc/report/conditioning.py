"""Conditioning: how far rounding alone may move a result, to tell rounding from a bug.

Two numbers, for the element of an output where two results are furthest apart:

- the condition of the instruction that computed it: by how much it amplifies a relative error.
  `sum|x| / |sum x|` for sums and products, `|x f'(x) / f(x)|` for elementwise functions;
- how far the element moves when every operation is off by one unit in the last place,
  in a random direction. The evaluator measures it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from typing import TypeAlias

import numpy as np

from hloc import driver
from hloc.analysis.extract import extract
from hloc.dtypes import Array
from hloc.errors import HloError
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.opcode import HostValue
from hloc.lazy_dataclass import dataclass
from hloc.ops.custom_calls.custom_call_targets import flat_arrays
from hloc.ops.folding import recognised_reducer
from hloc.report.answers import is_random, is_too_large
from hloc.report.compare import Comparison, Distance, distance_at, steps_apart, ulps_apart
from hloc.report.inputs import arrays_of_parameters
from hloc.report.roundings import ALLOWED, SAME_ELEMENTS, is_float, spreads_of
from hloc.shapes import ArrayShape, array_leaves

Values: TypeAlias = dict[Instruction, list[Array]]

_STEP = 1e-6
"""Relative step of a numerical derivative in f64; the error of the derivative is about 1e-10."""

SHOWN_ULP = 8
"""Differences up to this many ulp need no explanation."""


@dataclass(frozen=True, slots=True)
class Conditioning:
    """The instruction behind the most distant element of one output.

    Attributes:
        distance: the element, and how far apart the two results are.
        instruction, opcode: the instruction that computed it.
        condition: condition of the instruction at this element; None without a simple formula.
        spread: how many steps the element moves when every operation is off by one.
    """

    distance: Distance
    instruction: str
    opcode: str
    condition: float | None
    spread: float

    @property
    def spread_ulp(self) -> float:
        """The spread in ulp."""
        steps = self.distance.steps
        is_plain = steps == 0 or math.isinf(steps)
        return self.spread if is_plain else self.spread * (self.distance.ulp / steps)

    @property
    def is_rounding(self) -> bool:
        """True if rounding explains the difference."""
        grown = max(1.0, self.spread, self.condition or 0.0)
        return self.distance.steps <= ALLOWED * grown


def conditioning_of(
    found: Comparison,
    module: Module,
    inputs: Sequence[Array],
    got: Sequence[Array],
    want: Sequence[Array],
) -> list[Conditioning]:
    """Return `conditioning` if a comparison has found more than a few ulp, else nothing."""
    if found.ok and found.max_ulp <= SHOWN_ULP:
        return []
    return conditioning(module, inputs, got, want)


def conditioning(
    module: Module, inputs: Sequence[Array], got: Sequence[Array], want: Sequence[Array]
) -> list[Conditioning]:
    """Return the conditioning of the most distant, or least explained, element of each output.

    Args:
        module: both results are its results; it is not changed.
        inputs: its arguments.
        got: one result.
        want: the other, by whose elements ulp and steps are counted.

    Returns:
        One for each output of floats; nothing if the module is too large for the evaluator.
    """
    if is_too_large(module) or is_random(module):
        return []
    floats = [n for n, array in enumerate(want) if is_float(array) and array.size]
    makers = {number: _maker(module.entry.root, number) for number in floats}
    try:
        values, own = _values_for(makers.values(), module, inputs)
        spreads = spreads_of(module, inputs, own)
    except HloError:
        return []
    return [
        _output(number, (got[number], want[number]), spreads[number], maker, values)
        for number, maker in makers.items()
    ]


def _output(
    number: int, pair: tuple[Array, Array], spread: Array, maker: Instruction, values: Values
) -> Conditioning:
    """Return the most distant element, or the least explained one if rounding is no explanation."""

    def at(flat: int) -> Conditioning:
        distance = distance_at(number, pair, flat)
        condition = _condition(maker, values, flat)
        name = maker.opcode.name
        return Conditioning(distance, maker.name, name, condition, float(spread.reshape(-1)[flat]))

    with np.errstate(invalid="ignore"):
        unexplained = steps_apart(*pair) / np.maximum(spread, 1.0)
    least = at(int(np.argmax(np.nan_to_num(unexplained, nan=0.0, posinf=np.inf))))
    return at(int(np.argmax(ulps_apart(*pair)))) if least.is_rounding else least


def _values_for(
    makers: Iterable[Instruction], module: Module, inputs: Sequence[Array]
) -> tuple[Values, list[Array]]:
    """Return the arrays of the operands of `makers`, and those of the results."""
    wanted = {operand for maker in makers for operand in maker.operands}
    values: Values = arrays_of_parameters(module, inputs)
    for inst in wanted:
        if inst.is_a("constant"):
            alone, _ = _alone(inst, values)
            values[inst] = driver.evaluate(alone, fill_constants="zeros")

    def keep(inst: Instruction, value: HostValue) -> HostValue:
        if inst in wanted:
            values[inst] = [*flat_arrays(value)]
        return value

    return values, driver.evaluate(module, *inputs, fill_constants="zeros", changed=keep)


def _alone(inst: Instruction, values: Values) -> tuple[Module, list[Array]]:
    """Return a module that computes `inst` only, and its arguments."""
    alone = extract(inst, 0)
    by_name = {other.name: other for other in inst.computation.instructions}
    operands = (values[by_name[parameter.name]] for parameter in alone.entry.parameters)
    return alone, [array for arrays in operands for array in arrays]


def _maker(root: Instruction, output: int) -> Instruction:
    """Return the instruction that computed an output, with its elements in the same order."""
    inst = root
    while True:
        if inst.is_a("tuple") and all(len(array_leaves(o.shape)) == 1 for o in inst.operands):
            inst, output = inst.operands[output], 0
        elif inst.is_a(*SAME_ELEMENTS):
            (inst,) = inst.operands
        else:
            return inst


def _condition(inst: Instruction, values: Values, flat: int) -> float | None:
    """Return the condition of one element of an instruction, None if there is no formula."""
    if not isinstance(inst.shape, ArrayShape) or not inst.array.dtype.is_float:
        return None
    alone, operands = _alone(inst, values)
    wide = _in_f64(alone)
    arrays = [array.astype(np.float64) if is_float(array) else array for array in operands]
    if _is_sum(inst):
        magnitude = _element(wide, [np.abs(a) if is_float(a) else a for a in arrays], flat)
        return _ratio(magnitude, _element(wide, arrays, flat))
    if inst.opcode.elemental is None:
        return None
    value, total = _element(wide, arrays, flat), 0.0
    for number, array in enumerate(arrays):
        if is_float(array):
            ends = [
                _element(wide, [*arrays[:number], array * factor, *arrays[number + 1 :]], flat)
                for factor in (1 + _STEP, 1 - _STEP)
            ]
            total += abs(ends[0] - ends[1]) / (2 * _STEP)
    return _ratio(total, value)


def _is_sum(inst: Instruction) -> bool:
    """True if the elements are sums of operands or of their products."""
    if inst.is_a("dot", "convolution"):
        return True
    kinds = ("reduce", "reduce-window", "scatter")
    return inst.is_a(*kinds) and recognised_reducer(inst.called[0]) == "add"


def _in_f64(module: Module) -> Module:
    """Return a small module with f64 for all wider floats."""
    return driver.parse_text(_FLOAT.sub("f64[", module.to_text(large_constants=True)))


_FLOAT = re.compile(r"\b(?:bf16|f16|f32)\[")


def _element(module: Module, arrays: Sequence[Array], flat: int) -> float:
    (result,) = driver.evaluate(module, *arrays, fill_constants="zeros")
    return float(result.reshape(-1)[flat])


def _ratio(magnitude: float, value: float) -> float | None:
    """Return the condition; infinite if terms cancel, None if they are not numbers."""
    if not (math.isfinite(magnitude) and math.isfinite(value)):
        return None
    if value == 0:
        return math.inf if magnitude else 1.0
    return abs(magnitude / value)
