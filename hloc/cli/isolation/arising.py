"""Where NaN or infinity first arises from finite numbers, and the elements that led to it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from hloc import driver
from hloc.analysis.extract import extract
from hloc.cli.isolation.pieces import opened, pieces_of
from hloc.cli.isolation.values import Values, walk
from hloc.dtypes import Array, dtype_of_numpy
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.traversal import post_order_from
from hloc.lazy_dataclass import dataclass
from hloc.report.inputs import arrays_of_parameters
from hloc.report.progress import Progress
from hloc.shapes import ArrayShape

Index: TypeAlias = tuple[int, ...]
Test: TypeAlias = Callable[[Array], Array]

TESTS: dict[str, Test] = {"NaN": np.isnan, "infinity": np.isinf}
_MOST_STEPS = 12
_MOST_ROUNDS = 100_000


@dataclass(frozen=True, slots=True)
class Step:
    """One element on the path back from the first NaN.

    Attributes:
        index: of the element; of the first array, if the instruction has several.
        value: of the element.
        operands: the elements it is computed from, as text.
    """

    inst: Instruction
    index: Index
    value: str
    operands: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Arising:
    """The first instruction with NaN or infinity, whose operands have none.

    Attributes:
        module: it is an instruction of the entry computation.
        count: elements of its results that are NaN or infinite.
        rounds: the loops around it, outermost first: name, and iteration, counted from 1.
        steps: from the element back to the source of its value.
    """

    inst: Instruction
    module: Module
    count: int
    rounds: tuple[tuple[str, int], ...]
    steps: tuple[Step, ...]


def first_arising(
    module: Module, inputs: Sequence[Array], test: Test, progress: Progress
) -> Arising | None:
    """Return where NaN or infinity first arises in a run of `module`, inside calls too.

    Raises:
        HloError: the evaluator cannot run the module.
    """
    rounds: list[tuple[str, int]] = []
    while True:
        found = _first(module, inputs, test, progress)
        if found is None:
            return None
        inst, read = found
        inner = _faulty_round(inst, read, test) if inst.is_a("while") else None
        if inner is None:
            return _explained(inst, module, inputs, test, rounds)
        module, inputs, number = inner
        rounds.append((inst.name, number))


def holds(arrays: Sequence[Array], test: Test) -> bool:
    """True if an element of floats passes the test."""
    return any(bool(test(array).any()) for array in arrays if _is_float(array))


def _first(
    module: Module, inputs: Sequence[Array], test: Test, progress: Progress
) -> tuple[Instruction, list[Array]] | None:
    """Return the first instruction whose results pass, and its operands, which do not."""
    marked = set[Instruction]()
    with Values() as values:
        for inst in walk(module, inputs, 0, values, progress):
            results = values.get(inst) if inst.is_a("parameter") else _evaluated(inst, values)
            if holds(results, test):
                marked.add(inst)
                arises = not any(operand in marked for operand in inst.operands)
                if arises and not inst.is_a("constant", "parameter"):
                    return inst, [array for o in inst.operands for array in values.get(o)]
    return None


def _evaluated(inst: Instruction, values: Values) -> list[Array]:
    """Evaluate an instruction on the values of its operands, and keep the result."""
    (piece,) = pieces_of(inst, 0)
    read = [array for operand in piece.operands for array in values.get(operand)]
    values.put(inst, driver.evaluate(piece.module, *read, fill_constants="zeros"))
    return values.get(inst)


def _faulty_round(
    loop: Instruction, state: list[Array], test: Test
) -> tuple[Module, list[Array], int] | None:
    """Return the body of a loop, and the state and number of the faulty iteration."""
    body = opened(extract(loop.called[1].root))
    for number in range(1, _MOST_ROUNDS + 1):
        after = driver.evaluate(body, *state, fill_constants="zeros")
        if holds(after, test):
            return body, state, number
        state = after
    return None


def _explained(
    inst: Instruction,
    module: Module,
    inputs: Sequence[Array],
    test: Test,
    rounds: Sequence[tuple[str, int]],
) -> Arising:
    """Evaluate the operands of `inst` again, and trace its first such element back."""
    with Values() as values:
        for parameter, arrays in arrays_of_parameters(module, inputs).items():
            values.put(parameter, arrays)
        for other in post_order_from([inst]):
            if not other.is_a("parameter"):
                _evaluated(other, values)
        results = [array for array in values.get(inst) if _is_float(array)]
        count = sum(int(np.count_nonzero(test(array))) for array in results)
        first = next(array for array in results if test(array).any())
        index = tuple(int(i) for i in np.argwhere(test(first))[0])
        steps = _steps(inst, index, first, values)
    return Arising(inst, module, count, tuple(rounds), tuple(steps))


def _steps(inst: Instruction, index: Index, array: Array, values: Values) -> list[Step]:
    """Trace an element back through instructions whose elements have one source each."""
    steps: list[Step] = []
    while len(steps) < _MOST_STEPS:
        sources = _sources(inst, index)
        if sources is None:
            texts = tuple(_range(operand, values) for operand in inst.operands)
            return [*steps, Step(inst, index, str(array[index]), texts)]
        found = [(o, at, values.get(o)[0]) for o, at in sources]
        texts = tuple(str(other[at]) for _, at, other in found)
        steps.append(Step(inst, index, str(array[index]), texts))
        following = _responsible(inst, found)
        if following is None:
            return steps
        inst, index, array = following
    return steps


def _sources(inst: Instruction, index: Index) -> list[tuple[Instruction, Index]] | None:
    """Return the operand elements of an element; None if there are several per operand."""
    if not isinstance(inst.shape, ArrayShape):
        return None
    if any(not isinstance(o.shape, ArrayShape) for o in inst.operands):
        return None
    if inst.opcode.elemental is not None:
        return [(o, index if o.array.dims else ()) for o in inst.operands]
    if inst.is_a("broadcast"):
        return [(inst.operands[0], tuple(index[d] for d in inst.attributes.dimensions))]
    if inst.is_a("reshape", "bitcast"):
        flat = int(np.ravel_multi_index(index, inst.array.dims)) if index else 0
        dims = inst.operands[0].array.dims
        at = tuple(int(i) for i in np.unravel_index(flat, dims)) if dims else ()
        return [(inst.operands[0], at)]
    if inst.is_a("transpose"):
        places = dict(zip(inst.attributes.dimensions, index, strict=True))
        return [(inst.operands[0], tuple(places[d] for d in range(len(index))))]
    return None if inst.operands else []


def _responsible(
    inst: Instruction, found: Sequence[tuple[Instruction, Index, Array]]
) -> tuple[Instruction, Index, Array] | None:
    """Return the operand to trace: a zero divisor, an infinity, else the first."""
    floats = [row for row in found if _is_float(row[2]) and not row[0].is_a("constant")]
    if inst.is_a("select") and len(found) == 3:
        pred, *branches = found
        chosen = branches[0 if bool(pred[2][pred[1]]) else 1]
        return None if chosen[0].is_a("constant") else chosen
    if inst.is_a("divide") and len(floats) == 2 and float(abs(floats[1][2][floats[1][1]])) == 0:
        return floats[1]
    infinite = [row for row in floats if not math.isfinite(abs(row[2][row[1]]))]
    return next(iter([*infinite, *floats]), None)


def _range(operand: Instruction, values: Values) -> str:
    """Return `%x of -2 to 7` for an operand that is read as a whole."""
    arrays = [array for array in values.get(operand) if _is_float(array) and array.size]
    if not arrays:
        return f"%{operand.name}"
    wide = [array.astype(np.float64) for array in arrays if array.dtype.kind != "c"]
    if not wide:
        return f"%{operand.name}"
    low, high = min(float(a.min()) for a in wide), max(float(a.max()) for a in wide)
    return f"%{operand.name} of {low:.6g} to {high:.6g}"


def _is_float(array: Array) -> bool:
    dtype = dtype_of_numpy(array.dtype)
    return dtype is not None and (dtype.is_float or dtype.is_complex)
